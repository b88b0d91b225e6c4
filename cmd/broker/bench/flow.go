package bench

import "sync"

// Flow bounds how far the senders of a queue run ahead of its receivers, so
// that a closed loop measures whole cycles and not a growing backlog. It is safe
// for concurrent use.
type Flow struct {
	mu          sync.Mutex
	room, ready sync.Cond
	limit       int // of outstanding
	outstanding int // reserved by senders, not yet deleted
	available   int // sent, not yet taken; kept for Take
	stopped     bool
}

// NewFlow returns a Flow that lets limit messages be outstanding; 0: no limit.
func NewFlow(limit int) *Flow {
	f := &Flow{limit: limit}
	f.room.L, f.ready.L = &f.mu, &f.mu
	return f
}

// Reserve waits until n more messages may be sent. It answers false once the
// flow was stopped.
func (f *Flow) Reserve(n int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for !f.stopped && f.limit > 0 && f.outstanding > 0 && f.outstanding+n > f.limit {
		f.room.Wait()
	}
	if f.stopped {
		return false
	}
	f.outstanding += n
	return true
}

// TryReserve is Reserve without the wait: it answers false where that would wait.
func (f *Flow) TryReserve(n int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped || f.limit > 0 && f.outstanding > 0 && f.outstanding+n > f.limit {
		return false
	}
	f.outstanding += n
	return true
}

// Sent tells that n reserved messages are on their way.
func (f *Flow) Sent(n int) {
	f.mu.Lock()
	f.available += n
	f.mu.Unlock()
	f.ready.Signal()
}

// Take waits for messages that were sent and takes up to n of them: for a
// target that answers the same whether there is something or not. It answers 0
// once the flow was stopped.
func (f *Flow) Take(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	for !f.stopped && f.available == 0 {
		f.ready.Wait()
	}
	if f.stopped {
		return 0
	}
	n = min(n, f.available)
	f.available -= n
	if f.available > 0 {
		f.ready.Signal()
	}
	return n
}

// Done tells that n messages are deleted, or were given up.
func (f *Flow) Done(n int) {
	f.mu.Lock()
	f.outstanding -= n
	f.mu.Unlock()
	// Waiting senders may ask for different amounts, hence all of them.
	f.room.Broadcast()
}

// Stop ends every wait, for ever.
func (f *Flow) Stop() {
	f.mu.Lock()
	f.stopped = true
	f.mu.Unlock()
	f.room.Broadcast()
	f.ready.Broadcast()
}
