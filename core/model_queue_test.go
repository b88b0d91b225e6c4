package core_test

import (
	"context"
	"fmt"
	"slices"

	"github.com/leasemq/broker/core"
)

// mQueue is the model of a queue: a list of messages in the order of their
// sequences.
type mQueue struct {
	name   string
	exists bool
	info   core.Queue
	msgs   []*mMessage
	dedup  map[string]mDedup
	bound  map[string]*mSelector // by filter; nil: all
	lanes  bool                  // a message of a group was sent to it, or may have been
	cold   bool                  // it was read from storage: receives may stop where a page ends
}

func (q *mQueue) cfg() *core.QueueConfig { return &q.info.Config }
func (q *mQueue) fifo() bool             { return q.info.Config.Kind == core.KindFIFO }

// mDedup is the first send of a deduplication id.
type mDedup struct {
	id     core.MessageID
	seq    core.Seq
	sentAt int64
}

// mStatus is where a message stands.
type mStatus string

const (
	mReady  mStatus = "ready"
	mLeased mStatus = "leased" // until a time, or by an owner
	mHidden mStatus = "hidden" // handed back, until a time
)

// mMessage is the model of a message.
type mMessage struct {
	q    *mQueue
	id   core.MessageID
	seq  core.Seq // 0: not known yet, it was just dead-lettered
	body string
	size int64

	group    string
	dedupID  string
	priority uint8
	due      int64 // of the delayed space; 0: it is in a lane
	sentAt   int64
	expires  int64
	prior    uint32
	dead     core.DeadLetter

	status   mStatus
	until    int64
	owner    *mOwner
	leasedAt int64
	received bool // memory or storage knows of a receive
	picked   bool // a selector has taken it, maybe before others of its lane
	state    core.MessageState
	mark     core.MessageState // what is sure to be stored
	receipts []core.Receipt    // all that were given, oldest first
}

// String describes the message for the report of a failure.
func (m *mMessage) String() string {
	return fmt.Sprintf("%s(seq %d %s %s until %d due %d sent %d expires %d receives %d failures %d)",
		m.body, m.seq&0xffffff, m.lane(), m.status, m.until, m.due, m.sentAt, m.expires, m.state.Receives, m.state.Failures)
}

// String describes the queue for the report of a failure.
func (q *mQueue) String() string {
	return fmt.Sprintf("%s exists=%v cold=%v lanes=%v %+v: %v", q.name, q.exists, q.cold, q.lanes, q.info.Config, q.msgs)
}

// mReceipt is a receipt and what it is for.
type mReceipt struct {
	r core.Receipt
	q *mQueue
	m *mMessage // nil: of a message that is gone
}

// mOwner is a session.
type mOwner struct {
	o    *core.Owner
	name string
}

// mWaiter is a parked receive.
type mWaiter struct {
	q       *mQueue
	o       core.ReceiveOptions
	owner   *mOwner
	started int64
	cancel  context.CancelFunc
	stopped bool
	ended   chan struct{}
	at      int64
	got     []core.Delivery
	err     error
}

// leaseGrainMS is how late a lease may end.
const leaseGrainMS = 17

// lane names what orders a message: those of a lane are given in order.
func (m *mMessage) lane() string {
	switch {
	case m.due != 0:
		return "due"
	case m.q.cfg().Kind == core.KindPriority:
		return "p" + string('0'+rune(m.priority))
	case m.group != "":
		return "g" + m.group
	}
	return "tail"
}

// before is the order within a lane among those that nobody has received.
func (m *mMessage) before(n *mMessage) bool {
	if m.due != n.due {
		return m.due < n.due
	}
	return m.seq < n.seq
}

func (m *mMessage) expired(now int64) bool {
	keep := m.q.cfg().Retention.Milliseconds()
	return m.expires != 0 && m.expires <= now || keep > 0 && m.sentAt+keep <= now
}

// mayBeReady and mustBeReady differ while a lease's grain runs.
func (m *mMessage) mayBeReady(now int64) bool  { return m.isReady(now, 0) }
func (m *mMessage) mustBeReady(now int64) bool { return m.isReady(now, leaseGrainMS) }

func (m *mMessage) isReady(now, grain int64) bool {
	switch m.status {
	case mLeased, mHidden:
		return m.owner == nil && m.until+grain <= now
	}
	if m.received {
		return true
	}
	if m.q.fifo() {
		return m.sentAt+m.q.cfg().Delay.Milliseconds() <= now
	}
	return m.due <= now
}

// unsure tells whether the message's lease is just ending.
func (m *mMessage) unsure(now int64) bool { return m.mayBeReady(now) != m.mustBeReady(now) }

// exhausted tells whether a receive dead-letters it instead.
func (r *rig) exhausted(m *mMessage, now int64) bool {
	if m.expired(now) {
		return false
	}
	most := m.q.cfg().Redelivery.MaxReceives
	return r.dlqOf(m.q) != nil && m.received && most > 0 && int(m.state.Failures) >= most
}

// dlqOf returns the dead-letter queue of q if it is there.
func (r *rig) dlqOf(q *mQueue) *mQueue {
	for _, d := range r.queues {
		if d.exists && d.name == q.cfg().Redelivery.DeadLetterQueue {
			return d
		}
	}
	return nil
}

// blocked tells whether a message of a FIFO group has to wait for one before it.
// given are those that the same receive gives.
func (m *mMessage) blocked(given []*mMessage, now int64) bool {
	if !m.q.fifo() {
		return false
	}
	for _, n := range m.q.msgs {
		if n.group == m.group && n.seq < m.seq && !n.expired(now) && !n.mayBeReady(now) && !slices.Contains(given, n) {
			return true
		}
	}
	return false
}

// overflows tells whether q has more than its bounds, and drops messages.
func (q *mQueue) overflows() bool {
	c := q.cfg()
	if !q.exists || c.Overflow != core.OverflowDropOldest {
		return false
	}
	var size int64
	for _, m := range q.msgs {
		size += m.size
	}
	return c.MaxMessages > 0 && int64(len(q.msgs)) > c.MaxMessages || c.MaxBytes > 0 && size > c.MaxBytes
}

// deliverable lists what a receive must find at now.
func (r *rig) deliverable(q *mQueue, sel *mSelector, now int64) []*mMessage {
	var out []*mMessage
	if q.overflows() {
		return nil // any of them may be gone
	}
	for _, m := range q.msgs {
		if !sel.selects(m) || m.seq == 0 || !m.mustBeReady(now) || m.expired(now) || r.exhausted(m, now) {
			continue
		}
		if !q.fifo() || !r.heldBack(m, now, sel) {
			out = append(out, m)
		}
	}
	return out
}

// heldBack tells whether a message of its group before m may still be hidden, or is
// not selected.
func (r *rig) heldBack(m *mMessage, now int64, sel *mSelector) bool {
	for _, n := range m.q.msgs {
		if n.group == m.group && n.seq < m.seq && (!n.mustBeReady(now) || !sel.selects(n)) {
			return true
		}
	}
	return false
}

func (q *mQueue) bySeq(s core.Seq) *mMessage {
	for _, m := range q.msgs {
		if m.seq == s {
			return m
		}
	}
	return nil
}

// remove takes m out of the model.
func (r *rig) remove(m *mMessage) {
	i := slices.Index(m.q.msgs, m)
	if i < 0 {
		r.failf("message %s is not in queue %s", m.body, m.q.name)
	}
	m.q.msgs = slices.Delete(m.q.msgs, i, i+1)
	r.unlearn(m)
}

func (r *rig) unlearn(m *mMessage) {
	r.byID[m.id] = slices.DeleteFunc(r.byID[m.id], func(n *mMessage) bool { return n == m })
	if len(r.byID[m.id]) == 0 {
		delete(r.byID, m.id)
	}
}

// insert puts m at its place in the order of sequences.
func (q *mQueue) insert(m *mMessage) {
	m.q = q
	if m.group != "" {
		q.lanes = true
	}
	i, _ := slices.BinarySearchFunc(q.msgs, m.seq, func(m *mMessage, s core.Seq) int {
		switch {
		case m.seq < s:
			return -1
		case m.seq > s:
			return 1
		}
		return 0
	})
	q.msgs = slices.Insert(q.msgs, i, m)
}

// lose forgets a queue's messages: it was purged or deleted.
func (r *rig) lose(q *mQueue) {
	for _, m := range q.msgs {
		r.unlearn(m)
	}
	q.msgs, q.lanes = nil, false
	q.dedup = make(map[string]mDedup)
}
