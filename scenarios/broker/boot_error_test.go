//go:build unix

package broker

import (
	"errors"
	"slices"
	"strings"
	"testing"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
)

func TestLastWords(t *testing.T) {
	log := []string{"one", "the reason", "BOOT FAILED", "===", "crash report"}
	if got := lastWords(log); !slices.Equal(got, log[:2]) {
		t.Errorf("%q", got)
	}
	if got := lastWords(slices.Repeat([]string{"x"}, 40)); len(got) != 15 {
		t.Errorf("%d lines", len(got))
	}
	cause := errors.New("it ended")
	err := error(&BootError{Broker: "local", Err: cause, Log: []string{"a", "b"}})
	if !errors.Is(err, cause) || err.Error() != "broker local: it ended; the end of its log:\n    a\n    b" {
		t.Errorf("%v", err)
	}
}

func TestPortTaken(t *testing.T) {
	if !portTaken([]string{"x", "Failed to start Ranch listener ... reason: eaddrinuse (address already in use)"}) || portTaken([]string{"BOOT FAILED"}) {
		t.Error("not told apart")
	}
}

func TestConnectionsAreRead(t *testing.T) {
	const out = `Warning: something
[
{"name":"a","client_properties":[["product","longstr","x"],["connection_name","longstr","parkproof"]],"vhost":"v","user":"u","state":"running"}
,{"name":"b","client_properties":[],"vhost":"w","user":"u","state":"running"}
,{"name":"c","vhost":"v","user":"u","state":"running"}
,{"name":"d","vhost":"none","user":"none","state":"tuning"}]`
	got, err := parseConnections(out, "v")
	if err != nil || len(got) != 2 || got[0] != (Connection{Name: "a", Client: "parkproof", Vhost: "v", User: "u", State: "running"}) || got[1].Name != "c" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := parseConnections("[{", "v"); err == nil {
		t.Error("half a list is read")
	}
	if got, err := parseConnections("", "v"); err != nil || len(got) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestAgeOfNumbers(t *testing.T) {
	for _, tt := range []struct {
		name  string
		info  rabbithole.QueueInfo
		ours  bool
		fresh bool
		known bool
	}{
		{"classic", rabbithole.QueueInfo{Type: "classic", Status: "running"}, true, true, true},
		{"classic elsewhere", rabbithole.QueueInfo{Type: "classic"}, false, true, true},
		{"quorum", rabbithole.QueueInfo{Type: "quorum", Status: "running"}, true, false, true},
		{"statistics", rabbithole.QueueInfo{Type: "classic", MessagesDetails: &rabbithole.RateDetails{}}, true, false, true},
		{"down", rabbithole.QueueInfo{Type: "classic", Status: "down"}, true, true, false},
	} {
		q := queueOf(tt.info, tt.ours)
		if (q.Age == 0) != tt.fresh || q.Known != tt.known {
			t.Errorf("%s: %+v", tt.name, q)
		}
	}
	if q := queueOf(rabbithole.QueueInfo{Type: "quorum"}, false); q.Age != foreignAge {
		t.Errorf("%+v", q)
	}
}

func TestTail(t *testing.T) {
	if got := lastLines("a\n\nb\r\nc  \n", 2); strings.Join(got, "|") != "b|c" {
		t.Errorf("%q", got)
	}
	if lines, err := tailFile(t.TempDir()+"/absent", 3); err != nil || lines != nil {
		t.Errorf("%q, %v", lines, err)
	}
}
