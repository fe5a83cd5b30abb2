package steps

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/parkproof/parkproof/scenarios/process"
)

func TestMain(m *testing.M) {
	process.SuperviseIfAsked()
	goleak.VerifyTestMain(m)
}
