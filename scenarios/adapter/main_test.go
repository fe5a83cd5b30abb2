package adapter

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/parkproof/parkproof/scenarios/process"
)

// behaviourVariable makes the test binary an adapter that behaves as it says.
const behaviourVariable = "ADAPTER_TEST_BEHAVIOUR"

func TestMain(m *testing.M) {
	process.SuperviseIfAsked()
	if name := os.Getenv(behaviourVariable); name != "" {
		behave(name)
		return
	}
	goleak.VerifyTestMain(m)
}
