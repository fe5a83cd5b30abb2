package reference_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/parkproof/parkproof/scenarios/broker"
	"github.com/parkproof/parkproof/scenarios/process"
)

// brokerVariable names the broker to test against, as an AMQP URL (with ?management=URL where virtual hosts
// can be made). Without it, the tests start a private local node.
const brokerVariable = "PARKPROOF_TEST_AMQP"

func TestMain(m *testing.M) {
	process.SuperviseIfAsked()
	code := m.Run()
	if err := stopBrokers(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the brokers:", err)
		code = 1
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

var started struct {
	sync.Mutex
	brokers []*broker.Broker
}

// startBroker starts a broker that lives until the tests are over.
func startBroker(spec string, options broker.Options) (*broker.Broker, error) {
	parsed, err := broker.Parse(spec)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	b, err := broker.Start(ctx, parsed, options)
	if err != nil {
		return nil, err
	}
	started.Lock()
	defer started.Unlock()
	started.brokers = append(started.brokers, b)
	return b, nil
}

func stopBrokers() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	started.Lock()
	defer started.Unlock()
	for _, b := range started.brokers {
		if err := b.Stop(ctx); err != nil {
			return err
		}
	}
	return nil
}

// shared returns the broker that tests share, each in a virtual host of its own.
var shared = sync.OnceValues(func() (*broker.Broker, error) {
	spec := os.Getenv(brokerVariable)
	if spec == "" {
		spec = "local"
	}
	return startBroker(spec, broker.Options{})
})

// private returns a broker that tests may stop, kill and raise alarms on, one test at a time.
var private = sync.OnceValues(func() (*broker.Broker, error) {
	return startBroker("local", broker.Options{})
})
