//go:build unix

package broker

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func TestParseMemory(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, out string
		alarm     bool
		watermark Watermark
		says      string
	}{
		{"quiet", `{"alarms":[],"vm_memory_high_watermark_setting":{"relative":0.4}}`, false, Watermark{"0.4"}, ""},
		{"alarm", `{"alarms":[{"node":"a@b","resource":"memory","type":"resource_limit"}],"vm_memory_high_watermark_setting":{"relative":1.0e-5}}`, true, Watermark{"0.00001"}, ""},
		{"another alarm", `{"alarms":[{"node":"a@b","resource":"disk"}],"vm_memory_high_watermark_setting":{"relative":0.6}}`, false, Watermark{"0.6"}, ""},
		{"bytes", `{"alarms":[],"vm_memory_high_watermark_setting":{"absolute":2000000}}`, false, Watermark{"absolute", "2000000"}, ""},
		{"bytes with a unit", `{"alarms":[],"vm_memory_high_watermark_setting":{"absolute":"2GB"}}`, false, Watermark{"absolute", "2GB"}, ""},
		{"after a warning", "warning: something\n" + `{"alarms":[],"vm_memory_high_watermark_setting":{"relative":0.4}}`, false, Watermark{"0.4"}, ""},
		{"no watermark", `{"alarms":[]}`, false, nil, "tells no memory watermark"},
		{"no JSON", "Error: unable to connect", false, nil, "read what rabbitmqctl printed"},
		{"nothing", "", false, nil, "read what rabbitmqctl printed"},
	} {
		m, err := parseMemory(tt.out)
		if m.alarm != tt.alarm || !slices.Equal(m.watermark, tt.watermark) || (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %+v, %v", tt.name, m, err)
		}
	}
}

// TestMemoryAlarm has a node of its own: everybody's publishes wait while the alarm is set.
func TestMemoryAlarm(t *testing.T) {
	t.Parallel()
	localBroker(t) // or it is said why there is none
	b, err := Start(within(t, time.Minute), parse(t, "local"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Stop(within(t, 20*time.Second)); err != nil {
			t.Error(err)
		}
	})
	connection, err := b.Dial(within(t, 10*time.Second), "/")
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	blockings := connection.NotifyBlocked(make(chan amqp.Blocking, 2))
	channel, err := connection.Channel()
	if err != nil {
		t.Fatal(err)
	}
	before, err := b.RaiseMemoryAlarm(within(t, 20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Healthy(within(t, 10*time.Second)); err == nil || !strings.Contains(err.Error(), "memory alarm") {
		t.Errorf("with the alarm, it is healthy: %v", err)
	}
	if err := channel.PublishWithContext(t.Context(), "", "nowhere", false, false, amqp.Publishing{}); err != nil {
		t.Fatal(err)
	}
	told := func(want bool) {
		t.Helper()
		select {
		case got := <-blockings:
			if got.Active != want {
				t.Errorf("blocked: %+v, want %t", got, want)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("the connection was never told that it is blocked: %t", want)
		}
	}
	told(true)
	if err := b.ClearMemoryAlarm(within(t, 20*time.Second), before); err != nil {
		t.Fatal(err)
	}
	told(false)
	if err := b.Healthy(within(t, 10*time.Second)); err != nil {
		t.Errorf("without the alarm: %v", err)
	}
	after, err := b.memory(within(t, 10*time.Second))
	if err != nil || !slices.Equal(after.watermark, before) {
		t.Errorf("the watermark is %v, was %v; %v", after.watermark, before, err)
	}
}

func TestNoAlarmIsRaisedOnABrokerThatRuns(t *testing.T) {
	t.Parallel()
	own := localBroker(t)
	b, err := Start(within(t, 20*time.Second), parse(t, own.URL("/")), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Stop(within(t, time.Second))
	if _, err := b.RaiseMemoryAlarm(t.Context()); !errors.Is(err, ErrUnsupported) {
		t.Errorf("%v", err)
	}
	if err := b.ClearMemoryAlarm(t.Context(), Watermark{"0.4"}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("%v", err)
	}
}
