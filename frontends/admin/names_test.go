package admin

import (
	"slices"
	"testing"

	"github.com/leasemq/broker/core"
)

// TestMovesAreSpelt: each state and failure of the core has a name of its own.
func TestMovesAreSpelt(t *testing.T) {
	for what, c := range map[string]struct {
		names []string
		last  uint8
	}{
		"states":   {namesOfMoveState(), uint8(core.MoveFailed)},
		"failures": {namesOfMoveFailure(), uint8(core.MoveFailureTime)},
	} {
		if len(c.names) != int(c.last)+1 || len(slices.Compact(slices.Sorted(slices.Values(c.names)))) != len(c.names) {
			t.Errorf("%s are called %q, there are %d", what, c.names, c.last+1)
		}
	}
}
