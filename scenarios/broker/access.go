//go:build unix

package broker

import (
	"net"
	"net/url"
	"strconv"
	"strings"
)

// access is the way to a broker.
type access struct {
	Host       string
	Port       int    // AMQP
	Management string // base URL of the HTTP API without /api; "" where there is none
	User       string
	Password   string
	// Vhost is the one that an AMQP URL names.
	Vhost string

	// Set where the management URL has credentials of its own.
	managementUser, managementPassword string
}

func (a access) addr() string { return net.JoinHostPort(a.Host, strconv.Itoa(a.Port)) }

// url is the AMQP URL of a virtual host, with the password in it. The default one
// is written as %2F: clients differ about what a bare slash means.
func (a access) url(vhost string) string {
	user := url.UserPassword(a.User, a.Password)
	return "amqp://" + user.String() + "@" + a.addr() + "/" + url.PathEscape(vhost)
}

// credentials are those of the management API.
func (a access) credentials() (user, password string) {
	if a.managementUser != "" {
		return a.managementUser, a.managementPassword
	}
	return a.User, a.Password
}

// hidden stands where a password was.
const hidden = "***"

// hide takes the passwords out of a text, plain and in each encoding of URLs.
func (a access) hide(text string) string {
	for _, password := range []string{a.Password, a.managementPassword} {
		if password == "" {
			continue
		}
		userinfo := strings.TrimPrefix(url.UserPassword("", password).String(), ":")
		// The encodings nest: management= is itself a URL in a query.
		for _, form := range []string{
			url.QueryEscape(url.QueryEscape(password)), url.QueryEscape(userinfo),
			url.QueryEscape(password), url.PathEscape(password), userinfo, password,
		} {
			text = hideForm(text, form)
		}
	}
	return hideUserinfo(text)
}

// hideForm replaces a password, but a very short one only where it stands as one:
// "a" would be found in every word.
func hideForm(text, form string) string {
	const anywhere = 4
	if len(form) >= anywhere {
		return strings.ReplaceAll(text, form, hidden)
	}
	return strings.ReplaceAll(text, ":"+form+"@", ":"+hidden+"@")
}

// hideUserinfo hides whatever stands as a password in a URL, however encoded.
func hideUserinfo(text string) string {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(text, "://")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		out.WriteString("://")
		text = after
		authority := after
		if end := strings.IndexAny(after, "/?# \t\n\"'"); end >= 0 {
			authority = after[:end]
		}
		at := strings.LastIndexByte(authority, '@')
		if at < 0 {
			continue
		}
		user, _, hasPassword := strings.Cut(authority[:at], ":")
		if hasPassword {
			out.WriteString(user + ":" + hidden)
			text = after[at:]
		}
	}
}

// redacted is an error whose text shows no password; errors.Is and As still see
// the cause.
type redacted struct {
	text  string
	cause error
}

func (e *redacted) Error() string { return e.text }
func (e *redacted) Unwrap() error { return e.cause }

func (a access) redact(err error) error {
	if err == nil {
		return nil
	}
	text := a.hide(err.Error())
	if text == err.Error() {
		return err
	}
	return &redacted{text: text, cause: err}
}
