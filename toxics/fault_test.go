package toxics

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/parkproof/parkproof/scenarios/ledger"
	"github.com/parkproof/parkproof/toxics/frame"
)

// broken is a rig whose faults can be armed, with one connection.
type broken struct {
	*rig
	faults         *Faults
	client, broker *peer
}

func newBroken(t *testing.T, change ...func(*Options)) *broken {
	t.Helper()
	leakFree(t)
	b := &broken{faults: NewFaults()}
	b.rig = newRig(t, append(change, func(o *Options) { o.Faults = b.faults })...)
	b.client, b.broker = b.connect()
	return b
}

// connect opens a connection at which faults can be aimed.
func (b *broken) connect() (client, broker *peer) {
	b.Helper()
	joined := func() int {
		b.faults.mu.Lock()
		defer b.faults.mu.Unlock()
		return b.faults.connections
	}
	before := joined()
	client, broker = b.rig.connect()
	eventually(b, "the link", func() bool { return joined() > before })
	return client, broker
}

// rest reads to the end of the connection, and returns the names of the methods that came and how it
// ended.
func (p *peer) rest() (names []string, end error) {
	p.Helper()
	for {
		f, err := p.next()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			p.Fatal("the connection does not end")
		}
		if err != nil {
			return names, err
		}
		if f.Type != frame.TypeMethod {
			continue
		}
		m, err := frame.ParseMethod(f.Payload)
		if err != nil {
			p.Fatal(err)
		}
		names = append(names, m.Name())
	}
}

// endsWithout fails where a method comes before the end of the connection.
func (p *peer) endsWithout() {
	p.Helper()
	if names, _ := p.rest(); len(names) > 0 {
		p.Errorf("%v came before the end", names)
	}
}

// takes reads a content whole, and compares all of its frames.
func (p *peer) takes(raw []byte) {
	p.Helper()
	var got []byte
	for len(got) < len(raw) {
		f, err := p.next()
		if err != nil {
			p.Fatalf("%d of %d bytes came: %v", len(got), len(raw), err)
		}
		got = append(got, f.Raw...)
	}
	if !bytes.Equal(got, raw) {
		p.Fatal("other frames came")
	}
}

// tale is what the ledger tells, less what is of no interest here: an event a word, with its message.
func (r *rig) tale(less ...ledger.Kind) string {
	var words []string
	for _, e := range r.ledger.Events() {
		if !slices.Contains(less, e.Kind) {
			words = append(words, strings.TrimSpace(string(e.Kind)+" "+e.Message))
		}
	}
	return strings.Join(words, ", ")
}

// texts are those of the ledger's events of a kind.
func (r *rig) texts(k ledger.Kind) (texts []string) {
	for _, e := range r.ledger.Events() {
		if e.Kind == k {
			texts = append(texts, e.Text)
		}
	}
	return texts
}

func (b *broken) fires(a *Armed, times int) {
	b.Helper()
	if n := a.Fired(); n != times {
		b.Errorf("it fired %d times, want %d", n, times)
	}
}

// publishing is a trigger at the publish of messages.
func publishing(message string) Trigger { return Trigger{Method: "basic.publish", Message: message} }

// delivering is one at their delivery.
func delivering(message string) Trigger {
	return Trigger{Method: "basic.deliver", Message: message, FromBroker: true}
}

func published(t testing.TB, channel uint16, id string) []byte {
	t.Helper()
	return content(t, channel, &frame.BasicPublish{RoutingKey: "q"}, id, []byte("the body of "+id))
}

func delivered(t testing.TB, channel uint16, tag uint64, id string) []byte {
	t.Helper()
	return content(t, channel, &frame.BasicDeliver{ConsumerTag: "t", DeliveryTag: tag}, id, []byte("the body of "+id))
}

// Every command is told once, in the order of its direction, and all bytes pass unchanged while toxics
// come and go.
func TestObserveTellsEveryCommandOnce(t *testing.T) {
	for seed := range int64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { observeAll(t, seed) })
	}
}

func observeAll(t *testing.T, seed int64) {
	t.Helper()
	b := newBroken(t)
	var mu sync.Mutex
	told := map[bool][]string{}
	b.faults.Observe(func(o Observation) {
		mu.Lock()
		defer mu.Unlock()
		if o.Connection != 1 {
			t.Errorf("it is told of connection %d", o.Connection)
		}
		told[o.FromBroker] = append(told[o.FromBroker], fmt.Sprint(o.Method, o.Channel, o.HasContent, o.Targets))
	})
	link := b.link()
	stop, stopped := make(chan struct{}), make(chan int, 1)
	go func() { stopped <- slowly(t, link, stop) }()
	exchange(t, b.client, b.broker, seed, 1<<20, nil)
	close(stop)
	<-stopped
	b.faults.Observe(nil)
	for _, fromBroker := range []bool{false, true} {
		n := seed
		if fromBroker {
			n++
		}
		want := commandsOf(t, session(t, rand.New(rand.NewSource(n)), fromBroker, 1<<20), fromBroker)
		if got := told[fromBroker]; !slices.Equal(got, want) {
			t.Errorf("seed %d, from the broker %v: %d commands were told of, want %d, in order", seed, fromBroker, len(got), len(want))
		}
	}
	before := len(told[false])
	publish(b.client, b.broker, 9, "m")
	if len(told[false]) != before {
		t.Error("who has left off is told")
	}
}

// commandsOf are what an observer is to be told of a session's frames.
func commandsOf(t *testing.T, raw []byte, fromBroker bool) (want []string) {
	t.Helper()
	r := frame.NewReader(0)
	r.Feed(raw)
	a := frame.NewAssembler(0)
	for {
		f, ok, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return want
		}
		p, err := a.Add(f)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case !p.Done:
		case p.Content != nil:
			target := ledger.Target{Message: p.Content.Header.Properties.MessageID}
			if !fromBroker {
				target.Exchange, target.Key = "x", "k"
			}
			want = append(want, fmt.Sprint(p.Content.Method.Name(), f.Channel, true, []ledger.Target{target}))
		case p.Method != nil:
			var targets []ledger.Target
			if p.Method.Name() == "queue.declare-ok" {
				targets = []ledger.Target{{Queue: "q"}}
			}
			want = append(want, fmt.Sprint(p.Method.Name(), f.Channel, false, targets))
		}
	}
}

func TestOccurrences(t *testing.T) {
	for _, c := range []struct {
		occurrence int
		held       []string
	}{{1, []string{"m1"}}, {2, []string{"m2"}}, {3, []string{"m3"}}, {0, []string{"m1", "m2", "m3", "m4"}}, {5, nil}} {
		t.Run(fmt.Sprint(c.occurrence), func(t *testing.T) {
			b := newBroken(t)
			trigger := delivering("m*")
			trigger.Occurrence = c.occurrence
			a := b.faults.Arm(Fault{Trigger: trigger, Action: Hold})
			for i, m := range []string{"m1", "other", "m2", "m3", "m4"} {
				b.broker.send(delivered(t, 1, uint64(i+1), m))
			}
			b.broker.say(1, &frame.ChannelOpenOk{})
			b.awaitKind(ledger.ChannelOpened)
			b.fires(a, len(c.held))
			for _, m := range []string{"m1", "m2", "m3", "m4"} {
				if came := strings.Contains(b.tale(ledger.Fired), m); came == slices.Contains(c.held, m) {
					t.Errorf("%s came: %v", m, came)
				}
			}
		})
	}
}

// The first that was armed wins, and all of them have seen the command.
func TestTwoFaultsAtOneCommand(t *testing.T) {
	b := newBroken(t)
	every := b.faults.Arm(Fault{Trigger: Trigger{Method: "basic.publish", Message: "m1"}, Action: Hold})
	never := b.faults.Arm(Fault{Trigger: Trigger{Method: "basic.publish", Occurrence: 1}, Action: CutBefore})
	second := b.faults.Arm(Fault{Trigger: Trigger{Method: "basic.publish", Occurrence: 2}, Action: Hold})
	inside := b.faults.Arm(Fault{Trigger: Trigger{Method: "basic.publish", Occurrence: 3, Inside: true}, Action: CutAfter})
	b.client.send(published(t, 1, "m1"), published(t, 2, "m2"))
	b.client.say(3, &frame.ChannelOpen{})
	b.broker.hears(&frame.ChannelOpen{})
	b.fires(every, 1)
	b.fires(never, 0)
	b.fires(second, 1)
	b.fires(inside, 0)
	b.client.send(published(t, 3, "m3"))
	b.broker.ends() // after the beginning of m3
	b.fires(inside, 1)
	if got := b.tale(ledger.Fired, ledger.ConnectionLost); got != "" {
		t.Error(got)
	}
}

// One of two that is released leaves its place to the other.
func TestAReleasedFaultDoesNotFire(t *testing.T) {
	b := newBroken(t)
	first := b.faults.Arm(Fault{Trigger: publishing("m*"), Action: CutBefore})
	other := b.faults.Arm(Fault{Trigger: publishing("m2"), Action: CutBefore})
	first.Release()
	publish(b.client, b.broker, 1, "m1")
	b.client.send(published(t, 1, "m2"))
	b.broker.endsWithout()
	b.fires(first, 0)
	b.fires(other, 1)
}

// The occurrences of a fault are counted over all connections of the process, and its places go on.
func TestFaultsAreOfTheProcess(t *testing.T) {
	b := newBroken(t)
	second := b.faults.Arm(Fault{Trigger: Trigger{Method: "basic.publish", Occurrence: 2}, Action: CutBefore})
	third := b.faults.Arm(Fault{Trigger: Trigger{Method: "basic.publish", Connection: 3}, Action: CutBefore})
	publish(b.client, b.broker, 1, "m1")
	client, broker := b.connect()
	client.send(published(t, 1, "m2"))
	broker.endsWithout()
	b.fires(second, 1)

	// Another life of the process has a wire of its own, and the same faults.
	life := newRig(t, func(o *Options) { o.Faults = b.faults })
	client, broker = life.connect()
	client.send(published(t, 1, "m3"))
	broker.endsWithout()
	b.fires(third, 1)
}

func TestHealEndsAll(t *testing.T) {
	b := newBroken(t)
	held := b.faults.Arm(Fault{Trigger: publishing("m1"), Action: Hold})
	delayed := b.faults.Arm(Fault{Trigger: delivering("m2"), Action: Delay, For: never})
	cut := b.faults.Arm(Fault{Trigger: publishing("m3"), Action: CutBefore})
	b.client.send(published(t, 1, "m1"))
	b.broker.send(delivered(t, 1, 1, "m2"))
	eventually(t, "both are held", func() bool { return held.Fired() == 1 && delayed.Fired() == 1 })
	b.faults.Refuse()
	b.faults.Heal()
	b.broker.takes(published(t, 1, "m1"))
	b.client.takes(delivered(t, 1, 1, "m2"))
	b.client.send(published(t, 1, "m3"), published(t, 1, "m1"))
	b.broker.takes(append(published(t, 1, "m3"), published(t, 1, "m1")...))
	b.fires(held, 1)
	b.fires(cut, 0)
	_, _ = b.connect()
	again := b.faults.Arm(Fault{Trigger: publishing("m1"), Action: CutBefore})
	b.client.send(published(t, 1, "m1"))
	b.broker.endsWithout()
	b.fires(again, 1)
}

func TestRefuse(t *testing.T) {
	b := newBroken(t)
	b.faults.Refuse()
	for range 3 {
		(&peer{TB: t, Conn: b.dial(), reader: frame.NewReader(0)}).endsWithout()
	}
	publish(b.client, b.broker, 1, "m1") // who is there stays
	b.faults.Accept()
	client, broker := b.connect()
	publish(client, broker, 1, "m2")
	if e := b.await("m2", func(e ledger.Event) bool { return e.Message == "m2" }); e.Conn != 5 {
		t.Errorf("it has the number %d: those that were refused count", e.Conn)
	}
}

// While a toxic is put on, the tap may hold something, wait for an answer, or have something done.
func TestAToxicMeanwhile(t *testing.T) {
	slow := LinkFault{Type: "latency", ToBroker: true, ToConsumer: true, Attributes: map[string]any{"latency": 1}}
	proxied := func(b *broken) chan error {
		done := make(chan error, 1)
		go func() {
			p, err := b.faults.Proxy(slow)
			if err == nil {
				p.Remove()
			}
			done <- err
		}()
		return done
	}
	finishes := func(t *testing.T, done chan error) {
		t.Helper()
		within(t, patience, "putting it on and off", func() {
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("it holds", func(t *testing.T) {
		b := newBroken(t)
		a := b.faults.Arm(Fault{Trigger: publishing("m1"), Action: Hold})
		b.client.send(published(t, 1, "m1"))
		eventually(t, "it is held", func() bool { return a.Fired() == 1 })
		finishes(t, proxied(b))
		a.Release()
		b.broker.takes(published(t, 1, "m1"))
		publish(b.client, b.broker, 1, "m2")
	})
	t.Run("it waits for an answer", func(t *testing.T) {
		b := newBroken(t)
		confirming(b.client, b.broker, 1)
		b.faults.Arm(Fault{Trigger: publishing("m1"), Action: CutAfter})
		b.client.send(published(t, 1, "m1"))
		b.broker.takes(published(t, 1, "m1"))
		eventually(t, "it waits", func() bool { return b.link().awaited.Load() != nil })
		done := proxied(b)
		b.broker.say(1, &frame.BasicAck{DeliveryTag: 1})
		b.client.endsWithout()
		finishes(t, done)
	})
	t.Run("something is done to the process", func(t *testing.T) {
		b := newBroken(t)
		began, goOn := make(chan struct{}), make(chan struct{})
		b.faults.Arm(Fault{Trigger: publishing("m1"), Action: Stop, Act: func() bool {
			close(began)
			<-goOn
			return false
		}})
		b.client.send(published(t, 1, "m1"))
		<-began
		done := proxied(b)
		close(goOn)
		b.broker.takes(published(t, 1, "m1"))
		finishes(t, done)
		publish(b.client, b.broker, 1, "m2")
	})
}

// What had begun when the fault was armed cannot be kept back whole, so the fault is not for it.
func TestAContentThatHadBegun(t *testing.T) {
	for _, action := range []Action{CutBefore, CutAfter, CutUnseen, Hold, Delay} {
		t.Run(fmt.Sprint(action), func(t *testing.T) {
			b := newBroken(t)
			raw := content(t, 1, &frame.BasicPublish{RoutingKey: "q"}, "m1", bytes.Repeat([]byte("x"), 300_000))
			half := len(raw) / 2
			b.client.send(raw[:half])
			first := &frame.BasicPublish{RoutingKey: "q"}
			b.broker.hears(first)
			a := b.faults.Arm(Fault{Trigger: publishing("m*"), Action: action, For: never})
			b.client.send(raw[half:])
			b.broker.takes(raw[len(method(t, 1, first)):])
			b.await("m1", func(e ledger.Event) bool { return e.Kind == ledger.Published && e.Message == "m1" })
			b.fires(a, 0)
			b.client.send(published(t, 1, "m2"))
			eventually(t, "it fires at the next", func() bool { return a.Fired() == 1 })
		})
	}
}

func TestLinksOfARole(t *testing.T) {
	leakFree(t)
	faults := NewFaults()
	r := newRig(t, func(o *Options) { o.Faults = faults })
	places := func(role ledger.Role) string {
		var places []int
		for _, l := range faults.Links(role) {
			places = append(places, l.place)
		}
		slices.Sort(places)
		return fmt.Sprint(places)
	}
	expect := func(all, consuming, publishing string) {
		t.Helper()
		got := []string{places(0), places(ledger.RoleConsuming), places(ledger.RolePublishing)}
		if !slices.Equal(got, []string{all, consuming, publishing}) {
			t.Errorf("%v, want %v", got, []string{all, consuming, publishing})
		}
	}
	_, _ = r.connect()
	one, oneBroker := r.connect()
	eventually(t, "both are there", func() bool { return len(faults.Links(0)) == 2 })
	expect("[1 2]", "[]", "[]") // too early to tell
	one.say(1, &frame.BasicConsume{Queue: "q", ConsumerTag: "t"})
	oneBroker.hears(&frame.BasicConsume{Queue: "q", ConsumerTag: "t"})
	consuming := faults.Links(ledger.RoleConsuming)
	if len(consuming) != 1 {
		t.Fatalf("%d connections consume", len(consuming))
	}
	// The one that has not shown itself will publish.
	idle := 3 - consuming[0].place
	expect("[1 2]", fmt.Sprint([]int{consuming[0].place}), fmt.Sprint([]int{idle}))
	publish(one, oneBroker, 1, "m1")
	expect("[1 2]", fmt.Sprint([]int{consuming[0].place}), fmt.Sprint([]int{consuming[0].place}))
	_ = one.Close()
	oneBroker.ends()
	eventually(t, "it is gone", func() bool { return len(faults.Links(0)) == 1 })
	expect(fmt.Sprint([]int{idle}), "[]", "[]")

	t.Run("one connection for everything", func(t *testing.T) {
		b := newBroken(t)
		b.client.say(1, &frame.BasicConsume{Queue: "q", ConsumerTag: "t"})
		b.broker.hears(&frame.BasicConsume{Queue: "q", ConsumerTag: "t"})
		if n := len(b.faults.Links(ledger.RolePublishing)); n != 1 {
			t.Errorf("%d connections will publish, want that which consumes", n)
		}
	})
}

// A process that is being released while it holds does not lose the message, whoever is first.
func TestReleaseMeanwhile(t *testing.T) {
	b := newBroken(t)
	for i := range 200 {
		id := fmt.Sprint("m", i)
		a := b.faults.Arm(Fault{Trigger: publishing(id), Action: Hold})
		var releasing sync.WaitGroup
		releasing.Go(func() {
			for range rand.Intn(300) { // to meet the frame at all of its places
				runtime.Gosched()
			}
			a.Release()
		})
		b.client.send(published(t, 1, id))
		b.broker.takes(published(t, 1, id))
		releasing.Wait()
	}
}
