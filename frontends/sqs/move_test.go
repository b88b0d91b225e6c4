package sqs

import (
	"testing"

	"github.com/leasemq/broker/core"
)

// TestEveryMoveFailureHasACode: only what is our own fault is called that.
func TestEveryMoveFailureHasACode(t *testing.T) {
	seen := map[string]core.MoveFailure{}
	for f := core.MoveFailureNoDestination; f <= core.MoveFailureTime; f++ {
		code := moveFailureCode(f)
		if (code == "InternalFailure") != (f == core.MoveFailureUnreadable) {
			t.Errorf("failure %d is told as %s", f, code)
		}
		if other, twice := seen[code]; twice {
			t.Errorf("failures %d and %d are both told as %s", f, other, code)
		}
		seen[code] = f
	}
}
