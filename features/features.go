// Package features holds the cases, as Gherkin, embedded in the binary.
package features

import "embed"

// FS has one folder an area: what a consumer must do, and the same while things break.
//
//go:embed consumer chaos
var FS embed.FS
