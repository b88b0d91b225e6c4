package core

import (
	"maps"
	"slices"
	"time"
)

// sweepEvery is how often idle queues are looked at: for retention, and to let
// their memory go.
const sweepEvery = time.Minute

// evictAfter is how many sweeps, or trims of the table, a queue is idle before it
// leaves memory.
const evictAfter = 2

// tableMin is how many queues are in memory before the table is trimmed; after
// that, whenever it has grown by an eighth.
const tableMin = 16 << 10

// dropBatch bounds what one Change expires.
const dropBatch = 512

// sweep runs until the engine closes.
func (e *Engine) sweep() {
	t := time.NewTicker(sweepEvery)
	defer t.Stop()
	heads := make(map[QID]int64)
	for {
		select {
		case <-t.C:
			heads = e.sweepOnce(heads)
			e.sweepRetained()
		case <-e.trimWake:
			e.trim()
		case <-e.closing:
			return
		case <-e.failed:
			return
		}
	}
}

// sweepOnce walks all queues by pages of names, so that it holds nothing long.
// heads are the enqueue times of the heads of queues that had been swept before
// they left memory; it returns those of now.
func (e *Engine) sweepOnce(heads map[QID]int64) map[QID]int64 {
	const pageNames = 1000
	type named struct {
		name string
		qid  QID
	}
	after := ""
	kept := make(map[QID]int64)
	for !e.stopped() {
		var page []named
		err := e.store.Names("", after, func(name string, qid QID) bool {
			page = append(page, named{name, qid})
			return len(page) < pageNames
		})
		if err != nil {
			e.complain("sweep", err)
			return heads
		}
		for _, n := range page {
			if head := e.sweepQueue(n.name, n.qid, heads[n.qid]); head != 0 {
				kept[n.qid] = head
			}
		}
		if len(page) < pageNames {
			break
		}
		after = page[len(page)-1].name
	}
	return kept
}

// sweepQueue expires what a queue has kept too long and evicts it when idle. A
// queue that is not loaded is loaded only if its oldest message may be over, or,
// when it has been swept before, the head that was found then. It returns the
// head of now, 0 if it is not known.
func (e *Engine) sweepQueue(name string, qid QID, head int64) int64 {
	e.tableMu.RLock()
	q := e.byName[name]
	e.tableMu.RUnlock()
	if q == nil {
		if !e.mayBeOver(qid, head) {
			return head
		}
		var err error
		if q, err = e.queue(name); err != nil {
			return 0
		}
	}
	q.mu.Lock()
	over := !q.gone && !q.out && q.state.Messages > 0 && q.rec.Config.over(max(q.state.OldestAt, q.headAt), e.clock.now())
	q.mu.Unlock()
	if over {
		q.expireAll()
	}
	return e.evict(q)
}

// mayBeOver tells whether a queue that is not loaded may have kept a message too
// long.
func (e *Engine) mayBeOver(qid QID, head int64) bool {
	b, err := e.store.QueueState(qid)
	if err != nil || b == nil {
		return false
	}
	st, err := decodeQueueState(b)
	if err != nil || st.Messages == 0 {
		return false
	}
	rb, err := e.store.QueueRecord(qid)
	if err != nil {
		return false
	}
	rec, err := decodeQueueRecord(rb)
	return err == nil && rec.Config.over(max(st.OldestAt, head), e.clock.now())
}

// over tells whether a message of that enqueue time has been kept long enough.
func (c *QueueConfig) over(enqueuedAt, now int64) bool {
	keep := c.Retention.Milliseconds()
	return keep > 0 && enqueuedAt != 0 && enqueuedAt+keep <= now
}

// evict lets an idle queue leave memory. Whoever still holds it looks it up
// again. It returns the queue's head as of the last sweep.
func (e *Engine) evict(q *queue) int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.idle++
	q.forgetViews(e.clock.now())
	parked := q.parked()
	busy := parked > 0 || q.inFlight > 0 || q.hidden > 0 || q.trimming || len(q.overlay) > 0 ||
		q.lastGroup > e.seq.durableGroup() || q.due.paging || q.tail.paging || q.due.next != 0 && parked > 0
	if q.gone || busy || q.idle < evictAfter {
		return q.headAt
	}
	if q.timer != nil {
		q.timer.Stop()
	}
	q.out = true
	q.resetViews()
	q.due.win.reset()
	q.tail.release()
	for _, l := range q.lanes {
		l.release()
	}
	e.forget(q)
	return q.headAt
}

// enter puts a queue into the table, and has that trimmed when it is large.
func (e *Engine) enter(q *queue) {
	e.tableMu.Lock()
	e.byName[q.name] = q
	large := len(e.byName) > e.tableMax
	e.tableMu.Unlock()
	if large {
		select {
		case e.trimWake <- struct{}{}:
		default:
		}
	}
}

// trim evicts the queues that nobody has used since the trim before. Who sends to
// a great many, a few messages each, would else fill the memory within a minute.
func (e *Engine) trim() {
	e.tableMu.RLock()
	loaded := slices.Collect(maps.Values(e.byName))
	e.tableMu.RUnlock() // a queue that leaves the table holds its own lock first
	for _, q := range loaded {
		if q.memory == nil && !e.stopped() {
			e.evict(q)
		}
	}
	e.tableMu.Lock()
	e.tableMax = max(tableMin, len(e.byName)+len(e.byName)/8)
	e.tableMu.Unlock()
}

// expireAll drops what is over, or moves it to the dead-letter queue, from the
// heads of all lanes, a batch a Change.
func (q *queue) expireAll() {
	for !q.engine.stopped() {
		dlq := q.expiredQueue()
		seqs, err := q.expireBatch(dlq != nil)
		if err == nil && dlq != nil && len(seqs) > 0 {
			err = q.engine.moveDead(q, dlq, seqs)
		}
		if err != nil {
			q.engine.complain("expire", err, "queue", q.name)
			return
		}
		if len(seqs) == 0 {
			return
		}
		if done := q.engine.seq.barrier(); done != nil && done.wait() != nil {
			return
		}
	}
}

// expiredQueue returns where expired messages go, nil if they are dropped.
func (q *queue) expiredQueue() *queue {
	if !q.config().ExpiredToDLQ {
		return nil
	}
	return q.engine.deadLetterQueue(q)
}

// expireBatch takes up to dropBatch messages out of what is ready and drops
// them, or leaves that to the caller.
func (q *queue) expireBatch(setAside bool) ([]Seq, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.usableLocked(); err != nil {
		return nil, nil
	}
	picks, oldest, err := q.expireHeads(q.engine.clock.now())
	if len(picks) == 0 {
		if err == nil && q.leases.len() == 0 && q.state.Delayed == 0 {
			q.headAt = oldest
		}
		return nil, err
	}
	seqs := make([]Seq, len(picks))
	var marks []pick
	for i := range picks {
		seqs[i] = picks[i].ref.Seq
		if setAside {
			q.setAside(picks[i].index, q.engine.clock.now(), &marks)
		}
	}
	if setAside {
		picks = marks
	}
	if _, e := q.record(picks, nil); err == nil {
		err = e
	}
	return seqs, err
}

// expireHeads takes what is over off the heads of all lanes, and tells the
// enqueue time of the oldest head that is not.
func (q *queue) expireHeads(now int64) (picks []pick, oldest int64, err error) {
	lanes := make([]*lane, 0, 1+len(q.lanes))
	lanes = append(lanes, q.tail)
	for _, l := range q.lanes {
		lanes = append(lanes, l)
	}
	for _, l := range lanes {
		var head int64
		if head, err = q.expireLane(l, now, &picks); err != nil || len(picks) >= dropBatch {
			return picks, 0, err
		}
		if head != 0 && (oldest == 0 || head < oldest) {
			oldest = head
		}
	}
	return picks, oldest, q.expireDue(now, &picks)
}

// expireLane sets aside what is over at the head of l, and returns the enqueue
// time of the first message that is not.
func (q *queue) expireLane(l *lane, now int64, picks *[]pick) (int64, error) {
	for len(*picks) < dropBatch && q.current(l) {
		c, f := q.nextInLane(l)
		switch f {
		case foundNone:
			return 0, nil
		case foundPage:
			if len(*picks) > 0 {
				return 0, nil // the page comes with the next batch
			}
			if err := q.fetch(l); err != nil {
				return 0, err
			}
		case foundOne:
			rec, err := q.recordOf(&c)
			if err != nil {
				return 0, err
			}
			if !q.expired(rec, now) {
				return recordEnqueuedAt(rec), nil
			}
			*picks = append(*picks, q.dropPick(q.entryOf(&c)))
		}
	}
	return 0, nil
}

// expireDue sets aside what is over at the head of the messages that are due. One
// that is not due yet keeps until it is.
func (q *queue) expireDue(now int64, picks *[]pick) error {
	for len(*picks) < dropBatch && !q.gone && !q.out {
		c, f := q.nextDue()
		switch {
		case f == foundNone || f == foundPage && len(*picks) > 0:
			return nil
		case f == foundPage:
			if err := q.fetchDue(); err != nil {
				return err
			}
			continue
		}
		rec := c.e.rec
		if c.index >= 0 {
			var err error
			if rec, err = q.read(&q.leases.slab[c.index]); err != nil {
				return err
			}
		}
		if !q.expired(rec, now) {
			return nil
		}
		*picks = append(*picks, q.dropPick(q.entryOf(&c)))
	}
	return nil
}

// dropExpired deletes messages that a receive found to be over, or moves them to
// the dead-letter queue.
func (q *queue) dropExpired(seqs []Seq) {
	// What they block in a FIFO queue is free when that is durable: the caller
	// looks for it next.
	if q.config().Kind == KindFIFO {
		defer q.engine.seq.settle()
	}
	dlq := q.expiredQueue()
	if err := q.dropLeased(seqs, dlq != nil); err != nil {
		q.engine.complain("expire", err, "queue", q.name)
		return
	}
	if dlq != nil {
		if err := q.engine.moveDead(q, dlq, seqs); err != nil {
			q.engine.complain("expire", err, "queue", q.name)
		}
	}
}

// dropLeased deletes messages that have just been leased, or sets them aside.
func (q *queue) dropLeased(seqs []Seq, setAside bool) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.gone || q.out {
		return nil
	}
	var picks []pick
	for _, s := range seqs {
		i, le := q.leases.find(s)
		if le == nil || le.status == leaseDeleting || le.status == leaseDead {
			continue
		}
		if _, err := q.read(le); err != nil {
			continue
		}
		q.markDeleting(i)
		if setAside {
			le.status = leaseDead
			le.receives-- // nobody was given it
			continue
		}
		picks = append(picks, pick{ref: Ref{QID: q.qid, Place: le.place, Seq: s}, index: i, drop: true})
	}
	_, err := q.record(picks, nil)
	return err
}

// trimLater drops the oldest messages of a queue that is over its bounds, if it
// is to.
func (q *queue) trimLater() {
	if q.trimming || q.rec.Config.Overflow != OverflowDropOldest || !q.over(0, 0) {
		return
	}
	q.trimming = true
	q.engine.background(func() {
		for q.trimBatch() && !q.engine.stopped() {
			if done := q.engine.seq.barrier(); done != nil && done.wait() != nil {
				return
			}
		}
	})
}

// trimBatch drops a batch, and tells whether to look for more once that is
// durable.
func (q *queue) trimBatch() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.engine.clock.now()
	var picks []pick
	freed := int64(0)
	for len(picks) < dropBatch && q.usableLocked() == nil && q.over(-int64(len(picks)), -freed) {
		c, f := q.next(now, nil, 0)
		if f == foundPage && len(picks) == 0 && q.readMore(&c) == nil {
			continue
		}
		if f != foundOne {
			break
		}
		if c.index >= 0 {
			if _, err := q.read(&q.leases.slab[c.index]); err != nil {
				break
			}
		}
		i := q.entryOf(&c)
		freed += int64(q.leases.slab[i].size)
		picks = append(picks, q.dropPick(i))
		q.rotate(&c, nil, false)
	}
	if len(picks) > 0 {
		if _, err := q.record(picks, nil); err == nil {
			return true
		}
	}
	q.trimming = false
	return false
}

// over tells whether the queue would be beyond its bounds with so many messages
// and bytes more.
func (q *queue) over(n, size int64) bool {
	c := &q.rec.Config
	return c.MaxMessages > 0 && q.state.Messages+n > c.MaxMessages || c.MaxBytes > 0 && q.state.Bytes+size > c.MaxBytes
}

// degrade notes that storage could not be read.
func (q *queue) degrade(err error) {
	if q.bad == nil {
		q.engine.complain("queue degraded", err, "queue", q.name)
	}
	q.bad = err
}

// lost notes a message that cannot be read.
func (q *queue) lost(r Ref, err error) {
	q.engine.complain("message cannot be read", err, "queue", q.name, "message", r)
}
