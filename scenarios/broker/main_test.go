//go:build unix

package broker

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/parkproof/parkproof/scenarios/process"
)

// parentVariable makes the test binary a program that starts a broker, says what
// it needs to be found, and waits to be killed.
const parentVariable = "BROKER_TEST_PARENT"

func TestMain(m *testing.M) {
	process.SuperviseIfAsked()
	if value := os.Getenv(parentVariable); value != "" {
		beParent(value)
	}
	code := m.Run()
	if node := shared.broker; node != nil {
		if err := node.Stop(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func within(t testing.TB, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

func parse(t testing.TB, value string) Spec {
	t.Helper()
	spec, err := Parse(value)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// shared is the local node that the tests of this package share.
var shared struct {
	once   sync.Once
	broker *Broker
	err    error
}

func localBroker(t testing.TB) *Broker {
	t.Helper()
	if _, err := findInstallation(""); err != nil {
		t.Skipf("LOUD: no local broker is tested here: %v", err)
	}
	shared.once.Do(func() {
		shared.broker, shared.err = Start(context.Background(), Spec{Value: "local", Kind: KindLocal}, Options{})
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.broker
}

func vhost(t testing.TB, b *Broker) string {
	t.Helper()
	name := b.VhostName()
	if err := b.CreateVhost(within(t, 20*time.Second), name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.DeleteVhost(within(t, 20*time.Second), name); err != nil {
			t.Error(err)
		}
	})
	return name
}

func eventually(t testing.TB, limit time.Duration, what string, condition func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for !condition() {
		if time.Since(began) > limit {
			t.Fatalf("not within %s: %s", limit, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return time.Since(began)
}
