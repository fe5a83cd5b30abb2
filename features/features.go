// Package features holds the cases, as Gherkin, embedded in the binary.
package features

import "embed"

// FS has one folder an area: consumer.
//
//go:embed consumer
var FS embed.FS
