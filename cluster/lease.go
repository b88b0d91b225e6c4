package cluster

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasemq/broker/core"
)

// errHandedOver is why a lease that was not lost takes nothing more.
var errHandedOver = errors.New("the lease was handed over")

// Lease is the time in which this node is the primary: one epoch. It is the
// core's Committer for that time, and refuses for good when it is over.
type Lease struct {
	member *Member
	boot   core.Boot
	epoch  uint32

	// sending is held over the making and the sending of a record, so that they
	// are chained and sent in one order. It is taken before mu.
	sending lock
	prev    Hash
	seq     uint64 // of the newest record that was sent
	time    int64

	mu      sync.Mutex
	room    sync.Cond  // signalled when queue gets shorter, and at the end
	queue   []*pending // oldest first
	flying  int        // records in queue
	sentAt  time.Duration
	err     error // why nothing more is sent
	leaving bool  // but for the record that ends the lease
	closed  bool  // nobody answers what is submitted any more

	covered atomic.Int64  // answers are covered until then, by the member's clock
	wake    chan struct{} // there is something for lead to do; capacity 1
	ended   chan struct{} // closed when nothing of the lease is left
}

// pending is a record under way, or a Change that was refused.
type pending struct {
	seq    uint64 // 0: refused
	data   []byte
	sentAt time.Duration
	time   int64        // not before this one of the log
	change *core.Change // of the record that completes its batch; with done
	done   func(core.Pos, error)
	acked  bool
	err    error // the answer that ends the lease
}

// newLease begins the lease of the epoch that the chain has just begun, with a
// record that was sent at that time.
func newLease(m *Member, sent time.Duration, clean bool) *Lease {
	at := m.chain.At()
	l := &Lease{
		member: m, epoch: at.Epoch,
		boot: core.Boot{Term: at.Epoch, LastTime: at.Time, Clean: clean},
		prev: at.Hash, seq: at.Seq, time: at.Time, sentAt: sent,
		sending: make(lock, 1), wake: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	l.room.L = &l.mu
	l.cover(sent)
	return l
}

// Epoch is the epoch of the lease, and the term of the core that it runs.
func (l *Lease) Epoch() uint32 { return l.epoch }

// Boot is what the core is opened with.
func (l *Lease) Boot() core.Boot { return l.boot }

// Covers tells whether an answer may be given now: every answer and push, of
// reads too, is checked immediately before it is written.
func (l *Lease) Covers() bool { return int64(l.member.clock()) < l.covered.Load() }

// cover extends what is covered by a record that is acknowledged.
func (l *Lease) cover(sent time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil && !l.leaving {
		l.covered.Store(int64(sent + l.member.coverage()))
	}
}

// coverage is how long a record covers answers from when it was sent. Nobody
// else leads within a lease from when it came.
func (m *Member) coverage() time.Duration { return m.o.Lease * time.Duration(m.o.coverPerMille) / 1000 }

// Submit implements core.Committer. The Change is in the log, on a majority, and
// applied here when done is told so. Any error means that its fate is unknown,
// and that the lease is over.
func (l *Lease) Submit(c *core.Change, done func(core.Pos, error)) {
	l.sending.lock()
	defer l.sending.unlock()
	body, err := appendBatch(make([]byte, 1, 4<<10), c)
	if err == nil && len(body) > batchBytesMax {
		err = fmt.Errorf("change of %d bytes: %w", len(body), core.ErrTooLarge)
	}
	if err != nil {
		l.fail(fmt.Errorf("encode change: %w", err))
	}
	if err != nil || !l.sendParts(body, &pending{change: c, time: c.Time, done: done}) {
		l.refuse(done)
	}
}

// sendParts sends a batch, of which p is the last record. The first byte of body
// is room for the flags of a part.
func (l *Lease) sendParts(body []byte, p *pending) bool {
	most := l.member.o.partBytes
	body[0] = partFirst
	for len(body)-1 > most {
		if !l.send(KindBatch, body[:1+most], &pending{time: p.time}) {
			return false
		}
		body = body[most:] // its first byte has been sent
		body[0] = 0
	}
	body[0] |= partLast
	return l.send(KindBatch, body, p)
}

// send sends one record, as soon as there is room for it. It returns false if
// the lease is over. sending is held.
func (l *Lease) send(kind Kind, body []byte, p *pending) bool {
	l.time = max(l.time, p.time)
	r := Record{Kind: kind, Epoch: l.epoch, Time: l.time, Prev: l.prev, Body: body}
	if kind == KindEpoch {
		r.Epoch++
	}
	p.data = r.Append(make([]byte, 0, recordHeaderBytes+len(body)+recordSumBytes))
	l.mu.Lock()
	over := func() bool { return l.err != nil || l.leaving && kind != KindEpoch }
	for l.flying >= l.member.o.Depth && !over() {
		l.room.Wait()
	}
	if over() {
		l.mu.Unlock()
		return false
	}
	l.seq++
	p.seq, p.sentAt = l.seq, l.member.clock()
	l.sentAt = p.sentAt
	l.queue = append(l.queue, p)
	l.flying++
	l.mu.Unlock()
	if kind == KindBatch {
		l.prev = HashOf(p.data)
	}
	l.member.o.Log.Append(p.seq-1, p.data, func(seq uint64, err error) { l.answered(p, seq, err) })
	return true
}

// leave lets nothing more be sent but the record that ends the lease, and
// nothing be answered.
func (l *Lease) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leaving = true
	l.covered.Store(0)
	l.room.Broadcast()
}

// heartbeat renews the lease unless something is under way, or about to be.
func (l *Lease) heartbeat() {
	if !l.sending.tryLock() {
		return
	}
	defer l.sending.unlock()
	if l.idle() { // else send might wait for who called
		l.send(KindHeartbeat, nil, &pending{time: time.Now().UnixMilli()})
	}
}

// idle tells whether nothing is under way.
func (l *Lease) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.flying == 0
}

// answered takes the log's answer to p. Only the first one counts.
func (l *Lease) answered(p *pending, seq uint64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case p.acked || p.err != nil:
		return
	case err != nil:
		p.err = err
	case seq != p.seq:
		p.err = fmt.Errorf("record is at %d, want %d", seq, p.seq)
	default:
		p.acked = true
	}
	l.poke()
}

// poke wakes lead.
func (l *Lease) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// refuse has done answered in its turn with why the lease is over.
func (l *Lease) refuse(done func(core.Pos, error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		go done(0, l.err)
		return
	}
	l.queue = append(l.queue, &pending{done: done})
	l.poke()
}

// fail ends the lease: nothing more is sent, and nothing is covered. Only the
// first reason counts.
func (l *Lease) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.covered.Store(0)
	if l.err == nil {
		l.err = fmt.Errorf("%w: the outcome is unknown: %w", core.ErrNotPrimary, err)
	}
	l.room.Broadcast()
	l.poke()
}

// over returns why the lease is over, nil if it is not.
func (l *Lease) over() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// lock is a mutex that may be held for long, such as while the log moves: who
// waits for it counts as idle in a bubble of testing/synctest.
type lock chan struct{}

func (l lock) lock()   { l <- struct{}{} }
func (l lock) unlock() { <-l }

func (l lock) tryLock() bool {
	select {
	case l <- struct{}{}:
		return true
	default:
		return false
	}
}
