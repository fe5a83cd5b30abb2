package toxics

import (
	"testing"

	"github.com/parkproof/parkproof/toxics/frame"
)

// A process that is killed at its ack has sent it. Whoever cleans up after the process comes too late to
// keep the broker from getting it.
func TestAStoppedProcesssLastCommandOutlivesItsWire(t *testing.T) {
	b := newBroken(t)
	confirming(b.client, b.broker, 1)
	closed := make(chan error, 1)
	b.faults.Arm(Fault{Action: Stop, Trigger: Trigger{Method: "basic.ack"}, Act: func() bool {
		closing := make(chan struct{})
		go func() {
			close(closing)
			closed <- b.Wire.Close()
		}()
		<-closing
		eventually(t, "the wire's closing", func() bool {
			b.Wire.mu.Lock()
			defer b.Wire.mu.Unlock()
			return b.Wire.closed
		})
		return true
	}})
	b.client.say(1, &frame.BasicAck{DeliveryTag: 1})
	b.broker.hears(&frame.BasicAck{DeliveryTag: 1}, &frame.ChannelFlow{Active: true})
	b.broker.say(1, &frame.ChannelFlowOk{Active: true})
	if err := <-closed; err != nil {
		t.Error(err)
	}
}
