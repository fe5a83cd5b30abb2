package frame_test

import (
	"fmt"

	"github.com/parkproof/parkproof/toxics/frame"
)

// A stream in two pieces: what each frame is part of, and the message when it is whole.
func Example() {
	stream := frame.AppendProtocolHeader(nil)
	stream, err := frame.AppendContent(stream, 1,
		&frame.BasicPublish{Exchange: "orders", RoutingKey: "created"},
		frame.Header{Properties: frame.Properties{
			MessageID: "m1",
			Headers:   frame.Table{{Key: "x-attempt", Value: int32(2)}},
		}},
		[]byte("hello"), frame.DefaultMaxFrame)
	if err != nil {
		fmt.Println(err)
		return
	}

	r, a := frame.NewReader(frame.DefaultMaxFrame), frame.NewAssembler(1<<20)
	for _, piece := range [][]byte{stream[:30], stream[30:]} {
		r.Feed(piece)
		for {
			f, ok, err := r.Next()
			if err != nil {
				fmt.Println(err)
				return
			}
			if !ok {
				break
			}
			part, err := a.Add(f)
			if err != nil {
				fmt.Println(err)
				return
			}
			fmt.Println(f)
			if c := part.Content; c != nil && part.Done {
				attempt, _ := c.Header.Properties.Headers.Integer("x-attempt")
				fmt.Printf("%s of %s, attempt %d: %s\n", c.Method.Name(), c.Header.Properties.MessageID, attempt, c.Body)
			}
		}
	}
	// Output:
	// protocol header 0-9-1
	// method frame on channel 1, 30 bytes
	// header frame on channel 1, 44 bytes
	// body frame on channel 1, 13 bytes
	// basic.publish of m1, attempt 2: hello
}
