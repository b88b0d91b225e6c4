package broker

import (
	"fmt"
	"sync"

	"github.com/leasemq/broker/core"
)

// diskGuard holds producers while the disk is nearly full. Storage may report
// before there is an engine to hold.
type diskGuard struct {
	mu     sync.Mutex
	engine *core.Engine
	full   bool
}

// report takes the word of storage, which logs it.
func (g *diskGuard) report(full bool, _ uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.full = full
	g.applyLocked()
}

// guard says which engine to hold from now on; nil: none.
func (g *diskGuard) guard(engine *core.Engine) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.engine = engine
	if g.full {
		g.applyLocked()
	}
}

func (g *diskGuard) applyLocked() {
	switch {
	case g.engine == nil:
	case g.full:
		g.engine.HoldProducers(core.ErrDiskFull)
	default:
		g.engine.HoldProducers(nil)
	}
}

// remark is for the verbose form of /readyz. A full disk does not make the node
// unready: consumers can be served, and must be, for there to be room again.
func (g *diskGuard) remark() (string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.full {
		return fmt.Sprintf("producers are refused: %v", core.ErrDiskFull), nil
	}
	return "room enough", nil
}
