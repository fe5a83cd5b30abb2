//go:build unix

package broker

import (
	"errors"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		value, image, path string
		kind               Kind
	}{
		{value: "auto", kind: KindAuto},
		{value: "4.3", kind: KindVersion, image: "rabbitmq:4.3-management"},
		{value: "3.13.7", kind: KindVersion, image: "rabbitmq:3.13.7-management"},
		{value: "4.2.0-rc.1", kind: KindVersion, image: "rabbitmq:4.2.0-rc.1-management"},
		{value: "image:registry.example:5000/mine/rabbit:1", kind: KindImage, image: "registry.example:5000/mine/rabbit:1"},
		{value: "local", kind: KindLocal},
		{value: "local:/opt/rabbitmq", kind: KindLocal, path: "/opt/rabbitmq"},
	} {
		spec, err := Parse(tt.value)
		if err != nil || spec.Kind != tt.kind || spec.Image != tt.image || spec.Path != tt.path || spec.String() != tt.value {
			t.Errorf("%s: %+v, %v", tt.value, spec, err)
		}
	}
}

func TestParseURL(t *testing.T) {
	for _, tt := range []struct {
		value, addr, user, password, vhost, management, managementUser string
	}{
		{"amqp://host", "host:5672", "guest", "guest", "/", "", "guest"},
		{"amqp://u:p%40ss@host:1234/my%2Fvhost", "host:1234", "u", "p@ss", "my/vhost", "", "u"},
		{"amqp://u:p@[::1]:1/?management=http://other:15672/", "[::1]:1", "u", "p", "/", "http://other:15672", "u"},
		{"amqp://u:p@h/v?management=https%3A%2F%2Fadmin%3As3cret%40h%2Fapi-base", "h:5672", "u", "p", "v", "https://h/api-base", "admin"},
	} {
		spec, err := Parse(tt.value)
		if err != nil {
			t.Errorf("%s: %v", tt.value, err)
			continue
		}
		a := spec.access
		user, _ := a.credentials()
		got := []string{a.addr(), a.User, a.Password, a.Vhost, a.Management, user}
		want := []string{tt.addr, tt.user, tt.password, tt.vhost, tt.management, tt.managementUser}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("%s: got %q, want %q", tt.value, got, want)
				break
			}
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for value, says := range map[string]string{
		"":                                    "--broker is empty",
		"rabbit":                              `"rabbit" is unknown`,
		"4":                                   `"4" is unknown`,
		"image:":                              "names no image",
		"image:a b":                           "names no image",
		"local:":                              "names no path",
		"amqps://u:hunter22@h":                "amqps:// is not supported",
		"http://u:hunter22@h":                 "http:// is no broker",
		"amqp://":                             "no valid URL",
		"amqp://u:hunter22%@h":                "no valid URL",
		"amqp://u:hunter22@h:port":            "no valid URL",
		"amqp://u:hunter22@h/a/b/c?other=1":   "?other is unknown",
		"amqp://u:hunter22@h/?management=ftp": "management= is no valid URL",
	} {
		_, err := Parse(value)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", value, err, says)
			continue
		}
		if strings.Contains(err.Error(), "hunter22") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", value, err)
		}
	}
}

func TestPasswordsAreHidden(t *testing.T) {
	for _, password := range []string{"hunter22", "p@ss/w:rd?&=", "a b+c", "ü%40#", "x"} {
		a := access{Host: "h", Port: 1, User: "u", Password: password}
		value := a.url("/") + "?management=" + "http%3A%2F%2Fu%3A" + strings.ReplaceAll(a.url(""), "amqp://u:", "")
		spec, err := Parse(a.url("/"))
		if err != nil {
			t.Fatal(err)
		}
		if spec.access.Password != password {
			t.Errorf("%q comes out of the URL as %q", password, spec.access.Password)
		}
		shown := spec.String()
		if shown != "amqp://u:***@h:1/%2F" {
			t.Errorf("%q: shown as %s", password, shown)
		}
		if got := a.hide(value); len(password) > 1 && strings.Contains(got, password) {
			t.Errorf("%q: %s", password, got)
		}
		cause := errors.New("dial " + a.url("/") + " failed, password " + password)
		wrapped := a.redact(cause)
		if !errors.Is(wrapped, cause) {
			t.Errorf("%q: the cause is lost", password)
		}
		if strings.Contains(wrapped.Error(), a.url("/")) || (len(password) > 1 && strings.Contains(wrapped.Error(), password)) {
			t.Errorf("%q: %v", password, wrapped)
		}
	}
	spec, err := Parse("amqp://u:first11@h/?management=http%3A%2F%2Fadmin%3Asecond22%40h")
	if err != nil {
		t.Fatal(err)
	}
	if shown := spec.String(); strings.Contains(shown, "first11") || strings.Contains(shown, "second22") {
		t.Errorf("shown as %s", shown)
	}
}

func TestVersionsAreOrdered(t *testing.T) {
	ascending := []string{"latest", "3", "3.8.9", "3.10", "3.10.8", "3.13.7", "4.0", "4.0.5", "4.3"}
	for i, a := range ascending {
		for j, b := range ascending {
			if got := compareVersions(a, b); (got < 0) != (i < j) || (got == 0) != (i == j) {
				t.Errorf("%s, %s: %d", a, b, got)
			}
		}
	}
	if newestFirst("rabbitmq:4.3-management", "rabbitmq:3.13-management") >= 0 {
		t.Error("3.13 comes before 4.3")
	}
}
