//go:build unix

package cli_test

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/parkproof/parkproof/reports"
	"github.com/parkproof/parkproof/scenarios/adapter/protocol"
)

// foreignDials are ways to come to the broker's address with another protocol than the one that is spoken there. Each
// returns what its client says of it.
var foreignDials = map[string]func(address *url.URL) error{
	"tls": func(address *url.URL) error {
		secure := *address
		secure.Scheme = "amqps"
		// What a library's amqps:// does; whom it trusts does not matter, since no certificate will come.
		conn, err := amqp.DialTLS(secure.String(), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // see above
		if err == nil {
			_ = conn.Close()
		}
		return err
	},
	"http": func(address *url.URL) error {
		client := http.Client{Timeout: foreignLimit}
		answer, err := client.Get("http://" + address.Host + "/api/overview") //nolint:noctx // it has a timeout
		if err == nil {
			_ = answer.Body.Close()
		}
		return err
	},
	"amqp 1.0": func(address *url.URL) error {
		conn, err := net.DialTimeout("tcp", address.Host, foreignLimit)
		if err != nil {
			return err
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(foreignLimit)); err != nil {
			return err
		}
		// The header of the SASL layer; a client then waits for the broker's.
		if _, err := conn.Write([]byte("AMQP\x03\x01\x00\x00")); err != nil {
			return err
		}
		_, err = io.ReadFull(conn, make([]byte, 8))
		return err
	},
}

// foreignLimit bounds a client's wait for an answer that will not come.
const foreignLimit = 10 * time.Second

func init() {
	for name, dial := range foreignDials {
		// One that connects when it starts, and says what its library said.
		behaviours[name+" at init"] = func(in *bufio.Reader) {
			for {
				r := next(in)
				fmt.Printf(`{"re":%d,"error":%s}`+"\n", r.ID, quoted(foreignDial(dial)))
			}
		}
		// One that connects when it consumes, as many do.
		behaviours[name+" at consume"] = func(in *bufio.Reader) {
			for {
				r := next(in)
				if r.Do == protocol.DoConsume {
					fmt.Printf(`{"re":%d,"error":%s}`+"\n", r.ID, quoted(foreignDial(dial)))
					continue
				}
				fmt.Printf(`{"re":%d,"ok":%s}`+"\n", r.ID, foreignReady)
			}
		}
	}
	// One whose library says nothing, and tries for ever.
	behaviours["tls for ever"] = func(in *bufio.Reader) {
		for {
			r := next(in)
			ok := foreignReady
			if r.Do == protocol.DoConsume {
				go func() {
					for {
						_ = foreignDial(foreignDials["tls"])
						time.Sleep(100 * time.Millisecond) // the pace of a library's reconnecting
					}
				}()
				ok = fmt.Sprintf(`{"queue":%s}`, quoted(r.Queue))
			}
			fmt.Printf(`{"re":%d,"ok":%s}`+"\n", r.ID, ok)
		}
	}
}

// foreignReady is an answer to init; one line.
const foreignReady = `{"name":"fake","version":"1","supports":["retry","park","verdicts","ladder","prefetch","concurrent:10"],` +
	`"attempts":4,"delays_ms":[100,200,300],"conventions":{"attempt_header":"x-attempt","parked_queue":"parked.{queue}","message_id":"property"}}`

func quoted(text string) string {
	raw, err := json.Marshal(text)
	if err != nil {
		os.Exit(9)
	}
	return string(raw)
}

// foreignDial dials, and returns what came of it.
func foreignDial(dial func(*url.URL) error) string {
	address, err := url.Parse(os.Getenv(protocol.EnvURL))
	if err != nil {
		os.Exit(9)
	}
	return fmt.Sprintf("the library cannot connect: %v", dial(address))
}

// TestAConsumerThatSpeaksAnotherProtocol has one line say what it speaks and what to do about it, whatever its library
// makes of the connection that ends. The consumer has not failed: it was set up wrongly.
func TestAConsumerThatSpeaksAnotherProtocol(t *testing.T) {
	admin := asAdministrator(t)
	for _, tt := range []struct {
		behaviour string
		says      []string
	}{
		{"tls at init", []string{"a TLS connection", "PARKPROOF_AMQP_URL", "with amqp:// and without TLS"}},
		{"tls at consume", []string{"a TLS connection", "PARKPROOF_AMQP_URL", "with amqp:// and without TLS"}},
		{"tls for ever", []string{"a TLS connection", "PARKPROOF_AMQP_URL", "with amqp:// and without TLS"}},
		{"http at init", []string{"an HTTP request", "AMQP 0-9-1"}},
		{"http at consume", []string{"an HTTP request", "AMQP 0-9-1"}},
		{"amqp 1.0 at init", []string{"an AMQP 1.0 connection", "AMQP 0-9-1"}},
		{"amqp 1.0 at consume", []string{"an AMQP 1.0 connection", "AMQP 0-9-1"}},
	} {
		t.Run(tt.behaviour, func(t *testing.T) {
			t.Parallel()
			o, command := adapter(tt.behaviour)
			r := run(t, o, append([]string{"verify", "--broker", admin, "--case", "RTY-004", "--timeout", "10s"}, command...)...)
			r.says(3, append([]string{"RTY-004"}, tt.says...)...)
			c := r.record().Cases[0]
			if c.Verdict != reports.Broken {
				t.Errorf("the case is %s: %s", c.Verdict, c.Reason)
			}
			for _, text := range tt.says {
				if !strings.Contains(c.Reason, text) {
					t.Errorf("the reason %q does not say %q", c.Reason, text)
				}
			}
			if strings.Contains(c.Reason, "\n") {
				t.Errorf("the reason is not one line: %q", c.Reason)
			}
		})
	}
}
