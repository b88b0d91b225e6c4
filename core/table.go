package core

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode/utf8"
)

// queue returns the loaded queue of that name. It is the overlay as well: a
// queue whose creation or deletion is not durable yet stays in the table.
func (e *Engine) queue(name string) (*queue, error) {
	if err := e.up(); err != nil {
		return nil, err
	}
	e.tableMu.RLock()
	q := e.byName[name]
	e.tableMu.RUnlock()
	if q != nil {
		return q, nil
	}
	e.loading.Lock()
	defer e.loading.Unlock()
	return e.loadQueue(name)
}

// loadQueue reads a queue into the table. e.loading is held.
func (e *Engine) loadQueue(name string) (*queue, error) {
	e.tableMu.RLock()
	q := e.byName[name]
	e.tableMu.RUnlock()
	if q != nil {
		return q, nil
	}
	qid, err := e.store.QueueID(name)
	if err != nil {
		return nil, fmt.Errorf("queue %q: %w", name, err)
	}
	if qid == 0 {
		return nil, ErrNoQueue
	}
	b, err := e.store.QueueRecord(qid)
	if err != nil {
		return nil, fmt.Errorf("queue %q: %w", name, err)
	}
	rec, err := decodeQueueRecord(b)
	if err != nil {
		return nil, fmt.Errorf("queue %q: %w", name, err)
	}
	var st QueueState
	if b, err = e.store.QueueState(qid); err == nil && b != nil {
		st, err = decodeQueueState(b)
	}
	if err != nil {
		return nil, fmt.Errorf("queue %q: %w", name, err)
	}
	q = e.newQueue(rec, qid, st)
	q.redeliverBelow = min(st.Watermark, MakeSeq(e.uncleanTerm+1))
	e.enter(q)
	return q, nil
}

// usableLocked makes a queue that was just found ready for use.
func (q *queue) usableLocked() error {
	q.idle = 0
	if q.full && !q.gone && !q.out {
		return nil
	}
	if q.gone {
		return ErrNoQueue
	}
	if q.out {
		return errEvicted
	}
	return q.loadLocked()
}

// forget takes a deleted queue out of the table.
func (e *Engine) forget(q *queue) {
	e.tableMu.Lock()
	defer e.tableMu.Unlock()
	if e.byName[q.name] == q {
		delete(e.byName, q.name)
	}
}

// with runs f on the queue of that name, with its lock held.
func (e *Engine) with(name string, f func(q *queue) error) error {
	for {
		q, err := e.queue(name)
		if err != nil {
			return err
		}
		q.mu.Lock()
		if err = q.usableLocked(); err == nil {
			err = f(q)
		}
		q.mu.Unlock()
		if err != errEvicted {
			return err
		}
	}
}

// config returns the configuration of now, which must not be written to.
func (q *queue) config() *QueueConfig { return &q.shared.Load().Config }

func (q *queue) setRecord(rec *queueRecord) {
	q.rec = rec
	q.shared.Store(rec)
}

func (q *queue) infoLocked() Queue {
	return Queue{
		Name: q.name, ID: q.id, QID: q.qid,
		CreatedAt: q.rec.CreatedAt, ModifiedAt: q.rec.ModifiedAt, Config: q.rec.Config,
	}
}

// Declare creates the queue if there is none of that name, and says whether it
// did. One that exists is returned as it is; the caller compares. A new one is
// refused with ErrDeadLetterQueue if its dead-letter queue does not allow it.
func (c *Client) Declare(ctx context.Context, name string, cfg QueueConfig) (Queue, bool, error) {
	return c.DeclareBound(ctx, name, cfg)
}

// DeclareBound is Declare of a queue that, if it is created, is bound in the same
// Change. The queue of the bindings is name, whatever they say.
func (c *Client) DeclareBound(ctx context.Context, name string, cfg QueueConfig, bindings ...Binding) (Queue, bool, error) {
	e := c.engine
	if name == "" || len(name) > QueueNameBytesMax || !utf8.ValidString(name) {
		return Queue{}, false, ErrInvalidName
	}
	if cfg.Kind == KindMemory {
		return Queue{}, false, fmt.Errorf("%w: a memory queue needs an owner", ErrInvalidConfig)
	}
	if err := cfg.check(name); err != nil {
		return Queue{}, false, err
	}
	bound, err := e.newBindings(name, bindings)
	if err == nil && len(bound) > 0 {
		err = e.topics.loaded()
	}
	if err != nil {
		return Queue{}, false, err
	}
	if err := e.up(); err != nil {
		return Queue{}, false, err
	}
	e.loading.Lock()
	q, err := e.loadQueue(name)
	if err == nil {
		q.mu.Lock()
		info, gone, pending := q.infoLocked(), q.gone, q.configGroup
		q.mu.Unlock()
		if !gone {
			e.loading.Unlock()
			return info, false, e.settledBy(ctx, pending)
		}
		err = ErrNoQueue
	}
	if err == ErrNoQueue {
		err = e.checkDeadLetter(name, cfg.Redelivery.DeadLetterQueue)
	}
	if err != nil {
		e.loading.Unlock()
		return Queue{}, false, err
	}
	info, done, err := e.create(name, cfg, bound)
	e.loading.Unlock()
	if err != nil {
		return Queue{}, false, err
	}
	return info, true, wait(ctx, done)
}

// settledBy waits until group n is durable: nothing is shown before.
func (e *Engine) settledBy(ctx context.Context, n uint64) error {
	if done := e.seq.commitOf(n); done != nil {
		return wait(ctx, done)
	}
	return nil
}

// create makes a new queue. e.loading is held.
func (e *Engine) create(name string, cfg QueueConfig, bound []*binding) (Queue, *commit, error) {
	now := e.clock.now()
	rec := &queueRecord{Name: name, CreatedAt: now, ModifiedAt: now, Config: cfg.clone()}
	g, err := e.seq.begin()
	if err != nil {
		return Queue{}, nil, err
	}
	qid := QID(e.seq.takeSeq())
	rec.ID = qid
	g.put(Edit{Kind: EditPutQueue, Ref: Ref{QID: qid}, Value: encodeQueueRecord(rec)})
	g.put(Edit{Kind: EditPutName, Ref: Ref{QID: qid}, Key: []byte(name)})
	g.putSource(name, "", cfg.Redelivery.DeadLetterQueue)
	for _, b := range bound {
		g.putBinding(b, qid)
	}
	n, done := g.n, g.done
	e.seq.end()
	q := e.newQueue(rec, qid, QueueState{})
	q.lastGroup, q.configGroup = n, n
	info := q.infoLocked()
	e.enter(q)
	for _, b := range bound {
		e.topics.put(b)
	}
	return info, done, nil
}

// Configure changes the configuration of a queue: edit is given a copy, under
// the queue's lock, perhaps more than once. Its error is returned and changes
// nothing. The kind cannot be changed. Another dead-letter queue has to allow it,
// else the error is ErrDeadLetterQueue.
func (c *Client) Configure(ctx context.Context, name string, edit func(*QueueConfig) error) (Queue, error) {
	e := c.engine
	var info Queue
	var done *commit
	for asked := ""; ; {
		ask := "" // a dead-letter queue that is to be asked first, without the lock
		err := e.with(name, func(q *queue) error {
			cfg := q.rec.Config.clone()
			if err := edit(&cfg); err != nil {
				return err
			}
			if d := cfg.Redelivery.DeadLetterQueue; d != asked && d != q.rec.Config.Redelivery.DeadLetterQueue {
				ask = d
			}
			if ask != "" && e.allowDead != nil {
				return nil
			}
			ask = ""
			var err error
			info, done, err = q.configure(cfg)
			return err
		})
		if err == nil && ask != "" {
			e.loading.Lock()
			err = e.checkDeadLetter(name, ask)
			e.loading.Unlock()
			asked = ask
		}
		switch {
		case err != nil:
			return Queue{}, err
		case ask == "" && done == nil: // in memory only
			return info, nil
		case ask == "":
			return info, wait(ctx, done)
		}
	}
}

// configure gives q a configuration. q.mu is held.
func (q *queue) configure(cfg QueueConfig) (Queue, *commit, error) {
	if cfg.Kind != q.rec.Config.Kind {
		return Queue{}, nil, fmt.Errorf("%w: the kind cannot be changed", ErrInvalidConfig)
	}
	if err := cfg.check(q.name); err != nil {
		return Queue{}, nil, err
	}
	seq := q.engine.seq
	rec := *q.rec
	rec.Config, rec.ModifiedAt = cfg, q.engine.clock.now()
	if q.memory != nil {
		q.setRecord(&rec)
		return q.infoLocked(), nil, nil
	}
	g, err := seq.begin()
	if err != nil {
		return Queue{}, nil, err
	}
	g.put(Edit{Kind: EditPutQueue, Ref: Ref{QID: q.qid}, Value: encodeQueueRecord(&rec)})
	g.putSource(q.name, q.rec.Config.Redelivery.DeadLetterQueue, cfg.Redelivery.DeadLetterQueue)
	done := g.done
	q.lastGroup, q.configGroup = g.n, g.n
	seq.end()
	if cfg.Delay != q.rec.Config.Delay {
		q.ages = ages{} // of another delay
	}
	q.setRecord(&rec)
	q.rouse()
	return q.infoLocked(), done, nil
}

// rouse looks at delayed FIFO lanes again: the delay may have changed.
func (q *queue) rouse() {
	asleep := q.sleeping
	q.sleeping = nil
	for _, s := range asleep {
		s.l.asleep = false
		q.refresh(s.l)
	}
	q.wake(len(asleep))
}

// Queue describes a queue, or answers ErrNoQueue.
func (c *Client) Queue(ctx context.Context, name string) (Queue, error) {
	var info Queue
	for {
		q, err := c.engine.queue(name)
		if err != nil {
			return Queue{}, err
		}
		q.mu.Lock()
		info = q.infoLocked()
		gone, out, n := q.gone, q.out, q.configGroup
		q.mu.Unlock()
		switch {
		case out:
			continue
		case gone:
			return Queue{}, ErrNoQueue
		}
		return info, c.engine.settledBy(ctx, n)
	}
}

// Queues returns up to max names with prefix that sort after the given one.
func (c *Client) Queues(ctx context.Context, prefix, after string, max int) ([]string, error) {
	if err := c.engine.up(); err != nil {
		return nil, err
	}
	if done := c.engine.seq.barrier(); done != nil {
		if err := wait(ctx, done); err != nil {
			return nil, err
		}
	}
	var names []string
	err := c.engine.store.Names(prefix, after, func(name string, _ QID) bool {
		names = append(names, name)
		return len(names) < max
	})
	return names, err
}

// Delete removes a queue with all its messages. Waiting receives answer
// ErrNoQueue.
func (c *Client) Delete(ctx context.Context, name string) error {
	var done *commit
	e := c.engine
	<-e.topics.ready // what could not be read binds nothing
	var memory *queue
	err := e.with(name, func(q *queue) error {
		if memory = q; q.memory != nil {
			return nil
		}
		memory = nil
		g, err := e.seq.begin()
		if err != nil {
			return err
		}
		q.endIncarnation(g)
		g.put(Edit{Kind: EditDropName, Key: []byte(name)})
		g.putSource(name, q.rec.Config.Redelivery.DeadLetterQueue, "")
		e.moves.forget(g, q.id)
		e.topics.forget(g, q)
		done = g.done
		e.seq.end()
		e.reapLater(q.reap(done))
		q.gone = true
		q.resetLocked()
		q.wakeAll()
		return nil
	})
	switch {
	case err != nil:
		return err
	case memory != nil:
		memory.forgetMemory()
		memory.memory.owner.forget(memory)
		return nil
	}
	return wait(ctx, done)
}

// endIncarnation drops the present incarnation of q within g. Lanes that g has
// touched are stored still: the reaper finds their messages by them.
func (q *queue) endIncarnation(g *group) {
	g.slotOf(q).dropped = true
	g.put(Edit{Kind: EditDropQueue, Ref: Ref{QID: q.qid}})
	g.put(Edit{Kind: EditPutReap, Ref: Ref{QID: q.qid}})
	q.slotGroup, q.lastGroup, q.configGroup = 0, g.n, g.n
}

// Purge deletes all messages of a queue, of whatever state, and its
// deduplication entries: the queue goes on as a new incarnation, so that it
// costs the same for any backlog.
func (c *Client) Purge(ctx context.Context, name string) error {
	var done *commit
	e := c.engine
	err := e.with(name, func(q *queue) error {
		if q.memory != nil {
			return q.purgeMemory()
		}
		g, err := e.seq.begin()
		if err != nil {
			return err
		}
		old := q.reap(g.done)
		q.endIncarnation(g)
		q.qid = QID(e.seq.takeSeq())
		g.put(Edit{Kind: EditPutQueue, Ref: Ref{QID: q.qid}, Value: encodeQueueRecord(q.rec)})
		g.put(Edit{Kind: EditPutName, Ref: Ref{QID: q.qid}, Key: []byte(name)})
		q.state = QueueState{Ordinal: q.state.Ordinal}
		q.snapshot(g, g.slotOf(q))
		done = g.done
		e.seq.end()
		e.reapLater(old)
		q.resetLocked()
		q.overlay = nil
		return q.loadLocked()
	})
	if err != nil || done == nil {
		return err
	}
	return wait(ctx, done)
}

func (c *QueueConfig) clone() QueueConfig {
	d := *c
	d.Attributes, d.Tags = maps.Clone(c.Attributes), maps.Clone(c.Tags)
	d.Routes.CopyTo = append([]string(nil), c.Routes.CopyTo...) // nil if there is none
	return d
}

// Bounds of a configuration, beside those of a message.
const (
	receiveWaitMax = time.Hour
	maxReceivesMax = 1000
	multiplierMax  = 1000
)

// check refuses what is out of bounds, or not for a queue of that name.
func (c *QueueConfig) check(name string) error {
	bad := func(what string, v any) error { return fmt.Errorf("%w: %s %v", ErrInvalidConfig, what, v) }
	within := func(what string, v, most any) error {
		return fmt.Errorf("%w: %s %v is not between 0 and %v", ErrInvalidConfig, what, v, most)
	}
	r := &c.Redelivery
	switch {
	case c.Kind > KindMemory:
		return bad("kind", c.Kind)
	case c.VisibilityTimeout < 0 || c.VisibilityTimeout > VisibilityMax:
		return within("visibility timeout", c.VisibilityTimeout, VisibilityMax)
	case c.Delay < 0 || c.Delay > DelayMax:
		return within("delay", c.Delay, DelayMax)
	case c.Retention < 0:
		return bad("retention", c.Retention)
	case c.ReceiveWait < 0 || c.ReceiveWait > receiveWaitMax:
		return within("receive wait", c.ReceiveWait, receiveWaitMax)
	case c.MaxMessageBytes < 0 || c.MaxMessages < 0 || c.MaxBytes < 0:
		return bad("maximum", min(c.MaxMessageBytes, c.MaxMessages, c.MaxBytes))
	case c.Marks > MarksSync || c.DedupScope > DedupGroup || c.Overflow > OverflowClose || c.Overflow == OverflowClose && c.Kind != KindMemory:
		return bad("policy", []any{c.Marks, c.DedupScope, c.Overflow})
	case r.MaxReceives < 0 || r.MaxReceives > maxReceivesMax:
		return within("max receives", r.MaxReceives, maxReceivesMax)
	case r.MaxReceives == 0 && r.DeadLetterQueue != "":
		return fmt.Errorf("%w: a dead-letter queue needs max receives, from 1 to %d", ErrInvalidConfig, maxReceivesMax)
	case len(r.DeadLetterQueue) > QueueNameBytesMax || !utf8.ValidString(r.DeadLetterQueue):
		return bad("name of a dead-letter queue, of bytes", len(r.DeadLetterQueue))
	case !(r.Multiplier >= 0 && r.Multiplier <= multiplierMax): // NaN too
		return within("redelivery multiplier", r.Multiplier, multiplierMax)
	case r.InitialDelay < 0 || r.InitialDelay > VisibilityMax:
		return within("initial redelivery delay", r.InitialDelay, VisibilityMax)
	case r.MaxDelay < 0 || r.MaxDelay > VisibilityMax:
		return within("longest redelivery delay", r.MaxDelay, VisibilityMax)
	}
	if err := c.Routes.Check(name); err != nil {
		return err
	}
	if c.Kind == KindMemory && !c.Routes.Empty() {
		return fmt.Errorf("%w: a memory queue has no routes", ErrInvalidConfig)
	}
	if c.Kind == KindFIFO {
		c.Marks = MarksSync
	}
	// A queue in use keeps its configuration in memory.
	if n := c.keptBytes(); n > ConfigBytesMax {
		return bad("bytes of attributes and tags", n)
	}
	for _, m := range []map[string]string{c.Attributes, c.Tags} {
		if slices.ContainsFunc(slices.Collect(maps.Keys(m)), func(k string) bool { return !utf8.ValidString(k) || !utf8.ValidString(m[k]) }) {
			return bad("attribute", "not UTF-8")
		}
	}
	return nil
}

// keptBytes is what attributes and tags come to.
func (c *QueueConfig) keptBytes() int {
	n := 0
	for _, m := range []map[string]string{c.Attributes, c.Tags} {
		for k, v := range m {
			n += len(k) + len(v)
		}
	}
	return n
}
