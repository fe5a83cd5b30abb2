package reference

import (
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func TestOptionsValidation(t *testing.T) {
	for name, c := range map[string]struct {
		alter func(*Options)
		want  string // part of the error
	}{
		"fine":              {func(*Options) {}, ""},
		"no rung":           {func(o *Options) { o.Ladder = []time.Duration{} }, ""},
		"rung of 0":         {func(o *Options) { o.Ladder = []time.Duration{0} }, ""},
		"no URL":            {func(o *Options) { o.URLs = nil }, "no URL"},
		"no AMQP URL":       {func(o *Options) { o.URLs = append(o.URLs, "http://u:secret@h") }, "URL 2 of 2"},
		"broken URL":        {func(o *Options) { o.URLs = []string{"amqp://u:secret@h:port"} }, "URL 1 of 1"},
		"negative rung":     {func(o *Options) { o.Ladder = []time.Duration{time.Second, -1} }, "rung 2"},
		"rung too fine":     {func(o *Options) { o.Ladder = []time.Duration{time.Microsecond} }, "whole milliseconds"},
		"rung too long":     {func(o *Options) { o.Ladder = []time.Duration{60 * 24 * time.Hour} }, "rung 1"},
		"prefetch":          {func(o *Options) { o.Prefetch = -1 }, "prefetch"},
		"prefetch too high": {func(o *Options) { o.Prefetch = 65536 }, "prefetch"},
		"heartbeat":         {func(o *Options) { o.Heartbeat = time.Millisecond }, "heartbeat"},
		"confirm timeout":   {func(o *Options) { o.ConfirmTimeout = -1 }, "confirm timeout"},
		"prefix":            {func(o *Options) { o.HeaderPrefix = strings.Repeat("x", 250) }, "header prefix"},
		"backoff":           {func(o *Options) { o.Backoff.GiveUp = -1 }, "connecting"},
		"hand back":         {func(o *Options) { o.HandBack.Min = -1 }, "handing back"},
		"TTL of a retry":    {func(o *Options) { o.RetryArguments = amqp.Table{"x-message-ttl": 1} }, "x-message-ttl"},
		"expiry of a retry": {func(o *Options) { o.RetryArguments = amqp.Table{"x-expires": 1} }, "x-expires"},
		"key of a retry":    {func(o *Options) { o.RetryArguments = amqp.Table{"x-dead-letter-routing-key": "k"} }, "x-dead-letter-routing-key"},
		"retry argument":    {func(o *Options) { o.RetryArguments = amqp.Table{"x": struct{}{}} }, "retry arguments"},
		"park argument":     {func(o *Options) { o.ParkArguments = amqp.Table{"x": struct{}{}} }, "park arguments"},
	} {
		o := Options{URLs: []string{"amqp://u:secret@localhost"}}
		c.alter(&o)
		err := o.withDefaults().validate()
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: error %v, want one about %q", name, err, c.want)
		case err != nil && strings.Contains(err.Error(), "secret"):
			t.Errorf("%s: the password is in %q", name, err)
		}
	}
}

func TestDefaults(t *testing.T) {
	o := Options{URLs: []string{"amqp://localhost"}}.withDefaults()
	if o.Prefetch != 300 || len(o.Ladder) != 4 || o.HeaderPrefix != "x-" {
		t.Errorf("%+v", o)
	}
	o.Ladder[0] = 0
	if defaultLadder[0] != time.Second {
		t.Error("a client's ladder is the package's own")
	}
	names := o.Names
	if got := names.Retry(1500 * time.Millisecond); got != "retry.1500" {
		t.Error(got)
	}
	if got := names.Parked("q"); got != "parked.q" {
		t.Error(got)
	}
	if got := names.Group("orders", "billing"); got != "orders..billing" {
		t.Error(got)
	}
	if h := headersWith("x-comq-"); h.attempt != "x-comq-attempt" || h.at != "x-comq-at" {
		t.Errorf("%+v", h)
	}
}

func TestSourceValidation(t *testing.T) {
	names := Names{}.withDefaults()
	for name, c := range map[string]struct {
		source Source
		queue  string
		want   string
	}{
		"queue":              {Queue("jobs"), "jobs", ""},
		"existing":           {Existing("jobs"), "jobs", ""},
		"group":              {Bound("orders", "fanout", "billing"), "orders..billing", ""},
		"no group":           {Bound("orders", "topic", "", RoutingKey("a.#")), "", ""},
		"plugin's exchange":  {Bound("orders", "x-random", "g"), "orders..g", ""},
		"quorum":             {Queue("jobs", Quorum()), "jobs", ""},
		"no name":            {Queue(""), "", "no name"},
		"no exchange":        {Bound("", "fanout", "g"), "", "no name"},
		"nothing":            {Source{}, "", "no name"},
		"unknown kind":       {Bound("orders", "fanuot", "g"), "orders..g", "fanuot"},
		"exclusive quorum":   {Bound("orders", "fanout", "", Quorum()), "", "quorum"},
		"binding of a queue": {Queue("jobs", RoutingKey("k")), "jobs", "Bound"},
		"long name":          {Queue(strings.Repeat("q", 256)), strings.Repeat("q", 256), "256 bytes"},
		"long parking name":  {Queue(strings.Repeat("q", 250)), strings.Repeat("q", 250), "parking queue"},
		"long key":           {Bound("e", "topic", "g", RoutingKey(strings.Repeat("k", 256))), "e..g", "routing key"},
		"argument":           {Queue("jobs", QueueArguments(amqp.Table{"x": struct{}{}})), "jobs", "arguments"},
		"binding argument":   {Bound("e", "headers", "g", BindingArguments(amqp.Table{"x": struct{}{}})), "e..g", "binding arguments"},
	} {
		resolved := c.source.resolve(names)
		if resolved.queue != c.queue {
			t.Errorf("%s: queue %q, want %q", name, resolved.queue, c.queue)
		}
		err := resolved.validate(names)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
	both := Queue("q", QueueArguments(amqp.Table{"a": 1}), Quorum())
	if len(both.arguments) != 2 {
		t.Errorf("arguments %v, want both", both.arguments)
	}
	if bindings := Bound("e", "fanout", "g").resolve(names).bindings; len(bindings) != 1 || bindings[0].key != "" {
		t.Errorf("bindings %v, want one without a key", bindings)
	}
}

func TestNameValidation(t *testing.T) {
	long := strings.Repeat("n", 256)
	ladder := []time.Duration{1, 1, 2}
	for name, c := range map[string]struct {
		retry func(time.Duration) string
		want  string
	}{
		"default":  {Names{}.withDefaults().Retry, "one name"}, // 1ns and 2ns
		"distinct": {func(d time.Duration) string { return d.String() }, ""},
		"empty":    {func(time.Duration) string { return "" }, "no name"},
		"long":     {func(time.Duration) string { return long }, "256 bytes"},
	} {
		err := validateRetryNames(ladder, Names{Retry: c.retry})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
	for name, table := range map[string]amqp.Table{
		"name":          {long: 1},
		"name in table": {"a": amqp.Table{long: 1}},
		"name in list":  {"a": []any{amqp.Table{long: 1}}},
		"type":          {"a": []any{struct{}{}}},
	} {
		if validateTable(table) == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if err := validateTable(everyType()); err != nil {
		t.Error(err)
	}
	for name, reply := range map[string]Reply{
		"content-type": {ContentType: long}, "type": {Type: long}, "headers": {Headers: amqp.Table{"a": struct{}{}}},
	} {
		if reply.validate() == nil {
			t.Errorf("a reply with a bad %s is accepted", name)
		}
	}
}

func TestRetryArguments(t *testing.T) {
	got := retryArguments(1500*time.Millisecond, amqp.Table{"x-queue-type": "quorum"})
	if got["x-message-ttl"] != int64(1500) || got["x-dead-letter-exchange"] != "" || got["x-queue-type"] != "quorum" || len(got) != 3 {
		t.Errorf("%v", got)
	}
	if got := distinct([]time.Duration{3, 1, 3, 1, 2}); len(got) != 3 || got[0] != 1 || got[2] != 3 {
		t.Errorf("distinct rungs %v", got)
	}
}
