//go:build unix

// Package broker starts and looks into real RabbitMQ brokers: a private local
// process, a container, or one that already runs.
package broker

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Kind is the form of a --broker value.
type Kind string

// The forms.
const (
	KindAuto    Kind = "auto"
	KindVersion Kind = "version"
	KindImage   Kind = "image"
	KindLocal   Kind = "local"
	KindURL     Kind = "url"
)

// Forms lists the values of --broker for messages.
const Forms = "auto, a version such as 4.3 or 3.13.7, image:NAME, local, local:PATH, or amqp://user:password@host:port/vhost?management=http://host:15672"

// Spec is a parsed --broker value.
type Spec struct {
	// Value is what was given. It may hold a password: show String instead.
	Value string
	Kind  Kind
	// Image is the container image of KindVersion and KindImage.
	Image string
	// Path is the rabbitmq-server of KindLocal; "" is the installed one.
	Path string
	// access is the way to the broker of KindURL.
	access access
}

// String is the value as given, its passwords hidden.
func (s Spec) String() string {
	if s.Kind != KindURL {
		return s.Value
	}
	return s.access.hide(s.Value)
}

var versionForm = regexp.MustCompile(`^[0-9]+\.[0-9]+(\.[0-9]+)?(-(alpha|beta|rc)[.0-9]*)?$`)

// Parse reads a --broker value. Errors are one line and show no password.
func Parse(value string) (Spec, error) {
	spec := Spec{Value: value}
	kind, rest, _ := strings.Cut(value, ":")
	switch {
	case value == "":
		return Spec{}, fmt.Errorf("--broker is empty: use %s", Forms)
	case value == "auto":
		spec.Kind = KindAuto
	case versionForm.MatchString(value):
		spec.Kind = KindVersion
		spec.Image = "rabbitmq:" + value + "-management"
	case kind == "image":
		if rest == "" || strings.ContainsAny(rest, " \t\n") {
			return Spec{}, fmt.Errorf("--broker %q names no image: write image:NAME, for example image:rabbitmq:4.3-management", value)
		}
		spec.Kind, spec.Image = KindImage, rest
	case kind == "local":
		if value == "local:" {
			return Spec{}, errors.New(`--broker "local:" names no path: write local, or local:PATH with the path of rabbitmq-server`)
		}
		spec.Kind, spec.Path = KindLocal, rest
	case kind == "amqps":
		return Spec{}, errors.New("--broker amqps:// is not supported, since what is encrypted cannot be watched: use the broker's plain listener, amqp://")
	case kind == "amqp":
		access, err := parseURL(value)
		if err != nil {
			return Spec{}, err
		}
		spec.Kind, spec.access = KindURL, access
	case strings.Contains(value, "://"):
		return Spec{}, fmt.Errorf("--broker %s:// is no broker: use %s", kind, Forms)
	default:
		return Spec{}, fmt.Errorf("--broker %q is unknown: use %s", value, Forms)
	}
	return spec, nil
}

// parseURL splits an AMQP URL. Its errors quote nothing of it, because what does
// not parse may be a password.
func parseURL(value string) (access, error) {
	malformed := errors.New("--broker amqp://… is no valid URL (special characters in a password are written as %XX): use amqp://user:password@host:port/vhost")
	parsed, err := url.Parse(value)
	if err != nil || parsed.Hostname() == "" {
		return access{}, malformed
	}
	query := parsed.Query()
	management := query.Get("management")
	query.Del("management")
	for name := range query {
		return access{}, fmt.Errorf("--broker amqp://…?%s is unknown: only management=http://host:15672 is", name)
	}
	parsed.RawQuery = ""
	uri, err := amqp.ParseURI(parsed.String())
	if err != nil {
		return access{}, malformed
	}
	result := access{
		Host: uri.Host, Port: uri.Port, User: uri.Username, Password: uri.Password, Vhost: uri.Vhost,
	}
	if management == "" {
		return result, nil
	}
	there, err := url.Parse(management)
	if err != nil || there.Host == "" || (there.Scheme != "http" && there.Scheme != "https") {
		return access{}, errors.New("--broker amqp://…?management= is no valid URL: use management=http://host:15672")
	}
	if there.User != nil {
		result.managementUser = there.User.Username()
		result.managementPassword, _ = there.User.Password()
		there.User = nil
	}
	result.Management = strings.TrimSuffix(there.String(), "/")
	return result, nil
}
