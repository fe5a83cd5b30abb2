package broker

import (
	"context"
	"errors"
	"testing"
)

func TestTurn(t *testing.T) {
	var turn turn
	done, err := turn.take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	late, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := turn.take(late); !errors.Is(err, context.Canceled) {
		t.Errorf("a second one is given the turn: %v", err)
	}
	done()
	done, err = turn.take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	done()
}
