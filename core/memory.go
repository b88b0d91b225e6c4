package core

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"
)

// Bounds of memory queues.
const (
	MemoryMessagesDefault = 10_000    // QueueConfig.MaxMessages of a memory queue when it is 0
	MemoryBytesDefault    = 16 << 20  // QueueConfig.MaxBytes of a memory queue when it is 0
	memoryBytesMax        = 256 << 20 // of all memory queues of a node; beyond it each counts as full
)

// memoryQueue is what a queue has that is never stored. The messages that nobody
// has received lie in the tail lane's window, which has no bounds of its own.
type memoryQueue struct {
	owner  *Owner
	closed func()         // called when it ends; may be nil
	ended  bool           // by an overflow: it takes nothing more
	kept   map[Seq][]byte // records of messages that were received
}

// DeclareMemory creates a memory queue: it is never stored, holds no more than
// its bounds, and is gone when its owner is released. Its messages lie in the
// order of their sends, without delays, priorities and groups. On overflow it
// drops the oldest that nobody has received, refuses more, or, for
// OverflowClose, takes nothing more, and calls closed once, in a goroutine of
// its own. ErrQueueExists says that the name is taken.
func (c *Client) DeclareMemory(name string, cfg QueueConfig, o *Owner, closed func()) (Queue, error) {
	e := c.engine
	if name == "" || len(name) > QueueNameBytesMax || !utf8.ValidString(name) {
		return Queue{}, ErrInvalidName
	}
	if cfg.MaxMessages == 0 {
		cfg.MaxMessages = MemoryMessagesDefault
	}
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = MemoryBytesDefault
	}
	if cfg.Kind != KindMemory {
		return Queue{}, fmt.Errorf("%w: kind %v is stored", ErrInvalidConfig, cfg.Kind)
	}
	if err := cfg.check(name); err != nil {
		return Queue{}, err
	}
	e.loading.Lock()
	defer e.loading.Unlock()
	if _, err := e.loadQueue(name); err != ErrNoQueue {
		if err == nil {
			err = ErrQueueExists
		}
		return Queue{}, err
	}
	if _, err := e.seq.begin(); err != nil {
		return Queue{}, err
	}
	qid := QID(e.seq.takeSeq())
	e.seq.end()
	now := e.clock.now()
	q := e.newQueue(&queueRecord{Name: name, ID: qid, CreatedAt: now, ModifiedAt: now, Config: cfg.clone()}, qid, QueueState{})
	q.memory = &memoryQueue{owner: o, closed: closed, kept: make(map[Seq][]byte)}
	q.clearLocked() // its window counts as memory's
	info := q.infoLocked()
	e.enter(q)
	if !o.lock() {
		q.forgetMemory()
		return Queue{}, context.Canceled // the session has ended
	}
	o.queues = append(o.queues, q)
	o.mu.Unlock()
	return info, nil
}

// edit appends an edit to g, unless q is never stored.
func (q *queue) edit(g *group, e Edit) {
	if q.memory == nil {
		g.put(e)
	}
}

// crowded tells whether a memory queue has no room for n messages more, of that
// size in all.
func (q *queue) crowded(n int, size int64) bool {
	return q.memory.ended || q.over(int64(n), size) || q.engine.memoryBytes.Load() >= memoryBytesMax
}

// refuses tells whether a memory queue takes n messages more, which ends it where
// it is to.
func (q *queue) refuses(n int, size int64) bool {
	m := q.memory
	if q.rec.Config.Overflow == OverflowDropOldest || !q.crowded(n, size) {
		return false
	}
	if q.rec.Config.Overflow == OverflowClose && !m.ended {
		m.ended = true
		if m.closed != nil {
			q.engine.background(m.closed)
		}
	}
	return true
}

// ends tells whether a queue ends rather than refuse what there is no room for.
func (q *queue) ends() bool { return q.memory != nil && q.rec.Config.Overflow == OverflowClose }

// makeRoom drops the oldest messages that nobody has received for one of that
// size, and tells whether there is room then.
func (q *queue) makeRoom(size int64) bool {
	for q.crowded(1, size) {
		if q.rec.Config.Overflow != OverflowDropOldest || q.tail.win.len() == 0 {
			return false
		}
		e := q.tail.win.pop()
		q.tail.pos = e.seq + 1
		if e.rec != nil {
			q.state.Messages--
			q.state.Bytes -= recordCounted(e.rec)
		}
	}
	return true
}

// keep holds on to the record of a message that leaves the window with a lease.
func (q *queue) keep(e *entry) {
	q.memory.kept[e.seq] = e.rec
	q.engine.memoryBytes.Add(int64(len(e.rec)))
}

func (q *queue) dropKept(s Seq) {
	q.engine.memoryBytes.Add(-int64(len(q.memory.kept[s])))
	delete(q.memory.kept, s)
}

// forgetMemory ends a memory queue, with what it holds and its bindings.
func (q *queue) forgetMemory() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.gone {
		return
	}
	q.engine.topics.forget(nil, q)
	q.clearMemory()
	q.gone = true
	q.wakeAll()
	q.engine.forget(q)
}

// clearMemory forgets all messages.
func (q *queue) clearMemory() {
	for s := range q.memory.kept {
		q.dropKept(s)
	}
	q.state = QueueState{Ordinal: q.state.Ordinal}
	q.resetLocked()
}

// purgeMemory is Purge of a memory queue: receipts of before do not touch what
// comes.
func (q *queue) purgeMemory() error {
	e := q.engine
	if _, err := e.seq.begin(); err != nil {
		return err
	}
	q.qid = QID(e.seq.takeSeq())
	e.seq.end()
	q.slotGroup = 0
	q.clearMemory()
	q.durTail = Seq(q.qid)
	return q.loadLocked()
}

// peekMemory shows what a memory queue holds from a sequence on.
func (q *queue) peekMemory(from Seq, visit func(s Seq, rec []byte) bool) {
	for _, s := range slices.Sorted(maps.Keys(q.memory.kept)) {
		if s >= from && !visit(s, q.memory.kept[s]) {
			return
		}
	}
	w := &q.tail.win
	for _, e := range w.buf[w.head:] {
		if e.seq >= from && e.rec != nil && (e.seq > q.durTail || !visit(e.seq, e.rec)) {
			return
		}
	}
}
