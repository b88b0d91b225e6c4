package e2e

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// key names a message of a test: what its body says. Messages of one group of a
// FIFO queue have the same queue and group, and rising numbers.
type key struct {
	queue  string
	group  int
	number int
}

func (k key) String() string { return fmt.Sprintf("%s/%d/%d", k.queue, k.group, k.number) }

// lane is the part of a key that order is promised in.
type lane struct {
	queue string
	group int
}

// arrival is one received message, as the client saw it.
type arrival struct {
	key    key
	id     string
	handle string
	count  int  // ApproximateReceiveCount
	whole  bool // body and attributes are those that were sent
}

// leaseSlack is how much earlier than promised a lease may end: the clock of a
// new process need not go on to the millisecond where that of the last one
// stopped.
const leaseSlack = 200 * time.Millisecond

// entry is what is known of one message.
type entry struct {
	id         string // of the acknowledged send; empty: not answered
	seenID     string // of the first arrival
	acked      bool
	arrivals   int
	count      int       // of the last arrival
	life       int       // of the process that the last arrival came from
	handle     string    // of the last arrival
	asked      time.Time // when the request of the last arrival was sent
	visible    time.Time // before this, nobody else may get it
	deleting   bool      // a delete was sent
	gone       time.Time // a delete was answered that must have worked; zero: none
	skipped    key       // FIFO: an arrival that came though this one was open
	skippedSet bool
}

// ledger books what clients were told about messages and finds what must not
// be. Acknowledged means must; unanswered means may. It is safe for concurrent
// use. Times are the client's own: "asked" before a request is sent, "now" after
// its answer is read, so that what is between them is in the server.
type ledger struct {
	mu         sync.Mutex
	visibility time.Duration
	fifo       map[string]bool // by queue
	life       int             // number of the present process
	entries    map[key]*entry
	open       map[lane][]key // FIFO: sent, no delete sent, not skipped; in order
	violations []string
}

// newLedger returns a ledger for queues with that visibility timeout. The FIFO
// ones among them are named.
func newLedger(visibility time.Duration, fifo ...string) *ledger {
	l := &ledger{
		visibility: visibility, fifo: make(map[string]bool),
		entries: make(map[key]*entry), open: make(map[lane][]key),
	}
	for _, q := range fifo {
		l.fifo[q] = true
	}
	return l
}

func (l *ledger) violate(format string, args ...any) {
	l.violations = append(l.violations, fmt.Sprintf("life %d: ", l.life)+fmt.Sprintf(format, args...))
}

// restarted tells that the process was killed and another one took over. No
// request may be under way.
func (l *ledger) restarted() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.life++
}

// sending books that a send goes out. A send that was not answered may be sent
// again under the same key if the queue deduplicates.
func (l *ledger) sending(k key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.entries[k] != nil {
		return
	}
	l.entries[k] = &entry{}
	if l.fifo[k.queue] {
		l.open[k.lane()] = append(l.open[k.lane()], k)
	}
}

func (k key) lane() lane { return lane{k.queue, k.group} }

// sent books the answer to a send.
func (l *ledger) sent(k key, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[k]
	e.acked, e.id = true, id
	if e.seenID != "" && e.seenID != id {
		l.violate("%s was acknowledged with id %s, but arrived with id %s", k, id, e.seenID)
	}
}

// received books one answer to a receive with all its messages in order.
func (l *ledger) received(asked, now time.Time, batch []arrival) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, a := range batch {
		e := l.entries[a.key]
		if e == nil {
			l.violate("%s arrived, but was never sent", a.key)
			continue
		}
		l.checkContent(e, a)
		l.checkLease(e, a, asked, now)
		if l.fifo[a.key.queue] {
			l.checkOrder(e, a, batch[:i])
		}
		e.arrivals++
		e.count, e.life, e.handle, e.asked = a.count, l.life, a.handle, asked
		e.visible = asked.Add(l.visibility)
	}
}

func (l *ledger) checkContent(e *entry, a arrival) {
	if !a.whole {
		l.violate("%s arrived with another body or other attributes than were sent", a.key)
	}
	if e.acked && e.id != a.id {
		l.violate("%s arrived with id %s, but was acknowledged with id %s", a.key, a.id, e.id)
	}
	if e.seenID != "" && e.seenID != a.id {
		l.violate("%s arrived with id %s, and before with id %s", a.key, a.id, e.seenID)
	}
	e.seenID = a.id
}

func (l *ledger) checkLease(e *entry, a arrival, asked, now time.Time) {
	if !e.gone.IsZero() && asked.After(e.gone) {
		l.violate("%s arrived after its delete was answered", a.key)
	}
	if e.arrivals == 0 {
		return
	}
	// A standard queue may forget its last marks in a crash, a FIFO queue none.
	exact := e.life == l.life || l.fifo[a.key.queue]
	if exact && a.count <= e.count {
		l.violate("%s arrived with receive count %d, after %d", a.key, a.count, e.count)
	}
	if exact && now.Before(e.visible.Add(-leaseSlack)) {
		l.violate("%s arrived again while it was leased", a.key)
	}
}

// checkOrder wants everything before a in its group to be deleted, or in the
// same answer before it. What was sent without an answer may not exist: it then
// must never arrive.
func (l *ledger) checkOrder(e *entry, a arrival, before []arrival) {
	if e.skippedSet {
		l.violate("%s arrived after %s of the same group", a.key, e.skipped)
	}
	open := l.open[a.key.lane()]
	for i := 0; i < len(open) && open[i].number < a.key.number; i++ {
		k := open[i]
		if slices.ContainsFunc(before, func(b arrival) bool { return b.key == k }) {
			continue
		}
		earlier := l.entries[k]
		if earlier.acked {
			l.violate("%s arrived while %s of the same group was neither deleted nor with it", a.key, k)
			continue
		}
		earlier.skipped, earlier.skippedSet = a.key, true
		open = slices.Delete(open, i, i+1)
		i--
	}
	l.open[a.key.lane()] = open
	// The messages of one answer come in order too.
	for _, b := range before {
		if b.key.lane() == a.key.lane() && b.key.number > a.key.number {
			l.violate("%s arrived behind %s in one answer", a.key, b.key)
		}
	}
}

// released books that a lease is given back before its time: from here on
// anybody may get the message. It tells whether the lease by handle still ran.
func (l *ledger) released(k key, handle string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[k]
	leased := e.handle == handle && now.Before(e.visible.Add(-time.Second))
	if e.handle == handle {
		e.visible = time.Time{}
	}
	return leased
}

// deleting books that a delete goes out.
func (l *ledger) deleting(k key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries[k].deleting = true
	open := l.open[k.lane()]
	if i := slices.Index(open, k); i >= 0 {
		l.open[k.lane()] = slices.Delete(open, i, i+1)
	}
}

// deleted books that the delete by handle was answered with success. It must
// have worked if the handle was the newest and its lease still ran: else a
// queue may have given the message to somebody whose answer was lost.
func (l *ledger) deleted(k key, handle string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[k]
	if e.handle == handle && now.Before(e.visible) && l.life-e.life <= 1 && e.gone.IsZero() {
		e.gone = now
	}
}

// refused books that the delete by handle was refused, which no handle from a
// running lease may be.
func (l *ledger) refused(k key, handle string, now time.Time, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[k]
	if e.handle == handle && now.Before(e.visible) && l.life-e.life <= 1 {
		l.violate("the delete of %s by a good handle was refused: %v", k, err)
	}
}

// trouble books an answer that there must not be.
func (l *ledger) trouble(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.violate(format, args...)
}

// finish wants, after everything that was left was received and its delete
// sent, that nothing acknowledged is missing. It returns all violations.
func (l *ledger) finish() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, e := range l.entries {
		if e.acked && e.arrivals == 0 {
			l.violate("%s was acknowledged, but never arrived", k)
		} else if e.acked && !e.deleting {
			l.violate("%s was acknowledged and never deleted, but did not arrive in the end", k)
		}
	}
	return l.violations
}

// totals counts for the log of a test.
func (l *ledger) totals() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var acked, unknown, arrivals, gone, deleting int
	for _, e := range l.entries {
		arrivals += e.arrivals
		if e.acked {
			acked++
		} else {
			unknown++
		}
		if e.deleting {
			deleting++
		}
		if !e.gone.IsZero() {
			gone++
		}
	}
	return fmt.Sprintf("%d sends acknowledged, %d unanswered, %d arrivals, %d deletes sent, %d of them must have worked",
		acked, unknown, arrivals, deleting, gone)
}
