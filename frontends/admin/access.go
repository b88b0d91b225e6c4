package admin

import (
	"sync/atomic"

	"github.com/leasemq/broker/core"
)

// access is the way to one engine, for as long as the node has it. A request
// takes the access that is there when it comes and keeps to it: it never meets
// two engines.
type access struct {
	engine        *core.Engine
	client        *core.Client
	setAttributes func(cfg *core.QueueConfig, attributes map[string]string) error

	// calls is how many requests use the engine; left is added to it when it is
	// unset.
	calls atomic.Int64
	idle  chan struct{} // closed once it is unset and nothing uses it
}

// left is more than there can be calls. No call begins at or above it.
const left = 1 << 32

// enter begins a call. Without ok the engine was unset.
func (a *access) enter() (ok bool) {
	for {
		n := a.calls.Load()
		if n >= left {
			return false
		}
		if a.calls.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// leave ends a call.
func (a *access) leave() {
	if a.calls.Add(-1) == left {
		close(a.idle)
	}
}

// end lets no call begin any more.
func (a *access) end() {
	if a.calls.Add(left) == left {
		close(a.idle)
	}
}

// SetEngine has requests answered by engine from now on; with nil they go to the
// primary, see Options.Primary. Calls that are under way go on with the engine
// that they have, which answers them until it is closed. The channel is closed
// when they have ended: after that nothing here uses the engine before.
//
// It does not wait, and may be called at any time; of two calls at once either
// may come last.
func (s *Server) SetEngine(engine *core.Engine) <-chan struct{} {
	var next *access
	if engine != nil {
		next = &access{
			engine:        engine,
			client:        engine.Client(core.Principal{Origin: core.OriginAdmin}),
			setAttributes: s.options.SetAttributes,
			idle:          make(chan struct{}),
		}
	}
	before := s.access.Swap(next)
	if before == nil {
		none := make(chan struct{})
		close(none)
		return none
	}
	before.end()
	return before.idle
}

// enter returns the access with a call begun, which the caller has to leave; nil
// if there is no engine.
func (s *Server) enter() *access {
	for {
		a := s.access.Load()
		if a == nil || a.enter() {
			return a
		}
		// It was exchanged since it was loaded: look again.
	}
}
