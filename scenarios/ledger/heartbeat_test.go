package ledger

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/parkproof/parkproof/toxics/frame"
)

// beating is a talk whose clock is set by hand, with a heartbeat agreed on, in seconds.
func beating(t *testing.T, seconds uint16) (talk *talk, clock *time.Duration) {
	t.Helper()
	clock = new(time.Duration)
	talk = newTalk(t)
	talk.Now = func() time.Duration { return *clock }
	talk.say(true, 0, &frame.ConnectionTune{Heartbeat: 60})
	talk.say(false, 0, &frame.ConnectionTuneOk{Heartbeat: seconds}, &frame.ConnectionOpen{})
	talk.say(true, 0, &frame.ConnectionOpenOk{})
	return talk, clock
}

func TestHeartbeatsMissed(t *testing.T) {
	const client, broker = false, true
	// A step is a side's sign of life at a time, in milliseconds.
	type step struct {
		at   int
		side bool
	}
	for name, tt := range map[string]struct {
		seconds uint16
		steps   []step
		ends    int // when the connection is lost; 0 for not
		want    string
	}{
		"both beat at half the interval": {
			2, []step{{1000, client}, {1000, broker}, {2000, client}, {2000, broker}, {3000, client}, {3000, broker}}, 4000, "",
		},
		"both are silent for a whole interval, and a little late": {
			2, []step{{2900, client}, {3000, broker}, {5900, client}, {6000, broker}}, 0, "",
		},
		"the client is silent, and heard again": {
			2,
			[]step{{1000, broker}, {2000, broker}, {3000, broker}, {3001, client}, {4000, broker}},
			0,
			"heartbeat-missed ch0 (silent for 3.001s, with a heartbeat every 2s agreed on)",
		},
		"the client's silence shows when the broker beats, and is told once": {
			2,
			[]step{{1000, broker}, {2000, broker}, {3500, broker}, {4500, broker}, {5500, broker}, {5600, client}, {5700, broker}},
			0,
			"heartbeat-missed ch0 (silent for 3.5s, with a heartbeat every 2s agreed on)",
		},
		"two silences are told twice": {
			2,
			[]step{{2500, broker}, {3500, broker}, {3600, client}, {5500, broker}, {6500, broker}, {6700, broker}, {6800, client}},
			0,
			"heartbeat-missed ch0 (silent for 3.5s, with a heartbeat every 2s agreed on)\n" +
				"heartbeat-missed ch0 (silent for 3.1s, with a heartbeat every 2s agreed on)",
		},
		"both are silent, and it shows at the end": {
			1,
			[]step{{500, client}, {600, broker}},
			2101,
			"heartbeat-missed ch0 (silent for 1.601s, with a heartbeat every 1s agreed on)\n" +
				"heartbeat-missed ch0 broker (silent for 1.501s, with a heartbeat every 1s agreed on)",
		},
		"none was agreed on": {0, []step{{90_000, client}}, 900_000, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c, clock := beating(t, tt.seconds)
			for _, s := range tt.steps {
				*clock = time.Duration(s.at) * time.Millisecond
				c.feed(s.side, frame.AppendHeartbeat(nil))
			}
			if tt.ends != 0 {
				*clock = time.Duration(tt.ends) * time.Millisecond
				c.Ended(false, "gone")
			}
			c.expect(0, tt.want, HeartbeatMissed)
		})
	}
}

// Any frame is a sign of life, those inside a content too.
func TestAnyFrameIsAHeartbeat(t *testing.T) {
	c, clock := beating(t, 2)
	*clock = 2 * time.Second
	c.feed(true, frame.AppendHeartbeat(nil))
	raw := c.encode(1, publish("m1", "x", "k"))
	c.feed(false, raw[:len(raw)-4]) // the method and the header; the body is begun
	*clock = 4 * time.Second
	c.feed(true, frame.AppendHeartbeat(nil))
	c.feed(false, raw[len(raw)-4:])
	*clock = 6 * time.Second
	c.client(&frame.BasicQos{})
	c.broker(&frame.BasicQosOk{})
	c.expect(0, "", HeartbeatMissed)
}

// A command that a fault looks at, and what it withholds, are signs of life of the one who sent it.
func TestHeartbeatsOfWhatIsWithheld(t *testing.T) {
	c, clock := beating(t, 2)
	for n := range 4 {
		*clock = time.Duration(n+1) * 2 * time.Second
		for _, fromBroker := range []bool{false, true} {
			f, _, err := frameOf(c.encode(1, &frame.ChannelFlow{Active: true}))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Assemble(fromBroker, f); err != nil {
				t.Fatal(err)
			}
		}
	}
	c.expect(0, "", HeartbeatMissed)
}

// frameOf reads a frame.
func frameOf(raw []byte) (frame.Frame, bool, error) {
	r := frame.NewReader(0)
	r.Feed(raw)
	return r.Next()
}

func TestHeartbeatsAfterTheClose(t *testing.T) {
	c, clock := beating(t, 2)
	*clock = time.Second
	c.say(false, 0, &frame.ConnectionClose{ReplyCode: 200})
	c.say(true, 0, &frame.ConnectionCloseOk{})
	*clock = time.Hour
	c.feed(false, frame.AppendHeartbeat(nil))
	c.Ended(false, "gone")
	c.expect(0, "", HeartbeatMissed)
}

// Without a clock of its own, a follower takes the system's.
func TestHeartbeatsByTheSystemsClock(t *testing.T) {
	c := newTalk(t)
	c.say(false, 0, &frame.ConnectionTuneOk{Heartbeat: 1})
	c.began = c.began.Add(-1600 * time.Millisecond)
	c.feed(true, frame.AppendHeartbeat(nil))
	missed := 0
	for _, e := range c.ledger.Events() {
		if e.Kind == HeartbeatMissed {
			missed++
		}
	}
	if missed != 2 {
		t.Errorf("%d silences are told, want those of both sides", missed)
	}
}

func TestAccountOfHeartbeats(t *testing.T) {
	events := history(t, "open \n silence \n silence broker conn 2")
	events = append(events, Event{Seq: len(events) + 1, Kind: HeartbeatMissed, Conn: 9}) // parkproof's own
	account := Balance(events, terms())
	var got []int
	for _, e := range account.HeartbeatsMissed {
		got = append(got, e.Seq)
	}
	if !slices.Equal(got, []int{2, 3}) {
		t.Errorf("the account tells of the silences %v", got)
	}
}

func BenchmarkBeat(b *testing.B) {
	l := New()
	f := &Follower{Process: "p", Conn: 1, Add: l.Add, Identify: func(*Content) string { return "" }}
	for _, seconds := range []uint16{0, 60} {
		b.Run(fmt.Sprintf("heartbeat=%ds", seconds), func(b *testing.B) {
			f.start()
			f.pulse.begin(seconds, f.now())
			fr, _, err := frameOf(frame.AppendHeartbeat(nil))
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for range b.N {
				_, _ = f.Take(true, fr)
			}
		})
	}
}
