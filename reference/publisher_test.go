package reference

import (
	"math/rand/v2"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/parkproof/parkproof/reference/internal/seam"
)

func TestMatch(t *testing.T) {
	message := func(id string, headers amqp.Table, body string) *pending {
		return &pending{copy: &seam.Copy{Key: "parked.q", Message: amqp.Publishing{MessageId: id, Headers: headers, Body: []byte(body)}}}
	}
	back := func(p *pending) *amqp.Return {
		m := p.copy.Message
		return &amqp.Return{RoutingKey: p.copy.Key, MessageId: m.MessageId, Headers: m.Headers, Body: m.Body}
	}
	a, b, c := message("a", amqp.Table{"n": int32(1)}, "x"), message("", amqp.Table{"n": int32(2)}, "x"), message("", amqp.Table{"n": int32(3)}, "x")
	elsewhere := message("", nil, "x")
	elsewhere.copy.Key = "parked.other"
	out := &outlet{pending: map[*pending]struct{}{}}
	for _, message := range []*pending{a, b, c, elsewhere} {
		out.add(message)
	}
	out.match(back(b))
	if a.returned || !b.returned || c.returned || elsewhere.returned {
		t.Errorf("returned: %v %v %v %v, want only the second", a.returned, b.returned, c.returned, elsewhere.returned)
	}
	// A return that looks like none of them, to a target that two of them share.
	out.match(&amqp.Return{RoutingKey: "parked.q", Body: []byte("y")})
	if !a.returned || !c.returned || elsewhere.returned {
		t.Errorf("returned: %v %v %v, want all of that target", a.returned, c.returned, elsewhere.returned)
	}
}

// The wire, of publishes that cannot be told apart: returns come in the order of publishing, each some time
// before its confirm; confirms come in any order. As many publishes must count as returned as were.
func TestReturnsOfEqualMessages(t *testing.T) {
	for round := range 2000 {
		random := rand.New(rand.NewPCG(uint64(round), 7))
		n := 1 + random.IntN(12)
		out := &outlet{pending: map[*pending]struct{}{}, returns: make(chan amqp.Return, n)}
		messages := make([]*pending, n)
		routed := make([]bool, n)
		for i := range messages {
			messages[i] = &pending{copy: &seam.Copy{Key: "parked.q", Message: amqp.Publishing{Body: []byte("x")}}}
			routed[i] = random.IntN(3) == 0
		}
		published, returned, judged, confirmed := 0, 0, 0, map[int]bool{}
		wereReturned, countReturned := 0, 0
		for len(confirmed) < n {
			switch random.IntN(3) {
			case 0: // publish one more
				if published < n {
					out.add(messages[published])
					published++
				}
			case 1: // the broker processes one more, and returns what it cannot route
				if returned < published {
					if !routed[returned] {
						out.returns <- amqp.Return{RoutingKey: "parked.q", Body: []byte("x")}
						wereReturned++
					}
					returned++
				}
			case 2: // it confirms one of those it has processed
				if returned == 0 {
					continue
				}
				i := random.IntN(returned)
				if confirmed[i] {
					continue
				}
				confirmed[i] = true
				if out.collect(func(amqp.Return) {}, messages[i]) {
					countReturned++
				}
				out.mu.Lock()
				delete(out.pending, messages[i])
				out.mu.Unlock()
				judged++
			}
		}
		if countReturned != wereReturned {
			t.Fatalf("round %d: %d of %d count as returned, and %d were", round, countReturned, judged, wereReturned)
		}
	}
}
