package core

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/dchest/siphash"

	"github.com/leasemq/broker/core/match"
)

// draft is a message on its way into a queue, encoded before any lock is taken.
type draft struct {
	rec     []byte
	id      MessageID
	counted int64
	at      int64 // enqueue time
	due     int64 // 0: at once
	lane    Place
	dedup   dedupKey
	hasID   bool // has a deduplication id
	copy    bool // of a message that was published to a topic, or by a route
	skip    skipReason
	op      int32 // of which operation of a transaction it is; below 0: of none that is told
	of      int32 // a copy by a route: op of the message, plus 1
	size    int64 // of a copy: what QueueConfig.MaxMessageBytes bounds
	seq     Seq
	share   *sharing    // of a copy whose body may be stored once
	shared  bool        // it is
	known   *dedupEntry // a duplicate: what the first send was answered with
	twin    *draft      // a duplicate of an earlier one in the batch
}

// skipReason says why a copy does not come into its queue.
type skipReason uint8

const (
	skipNone     skipReason = iota
	skipFull                // the queue is full and refuses more
	skipTooLarge            // for QueueConfig.MaxMessageBytes
	skipGone                // the queue has been deleted
	skipRepeated            // the message is a duplicate
)

// tooLarge tells whether a queue of cfg does not take a message of that size.
func (d *draft) tooLarge(cfg *QueueConfig) bool {
	return cfg.MaxMessageBytes > 0 && d.size > cfg.MaxMessageBytes
}

// Publish appends messages to a queue, all or none, and answers when they are
// durable. What became of each is appended to out. Messages go on to where the
// queue's Routes lead; of one that is kept nowhere Published has no sequence.
func (c *Client) Publish(ctx context.Context, name string, msgs []Message, out []Published) ([]Published, error) {
	drafts, done, err := c.engine.publish(name, msgs, nil)
	if err != nil {
		return out, err
	}
	if done != nil {
		if err := wait(ctx, done); err != nil {
			return out, err
		}
	}
	return appendPublished(out, drafts), nil
}

// PublishAsync is Publish without the wait: done is called once, in the order of
// commits, when the messages are durable or the node has failed. It must not
// block. When an error is returned, done is not called.
func (c *Client) PublishAsync(name string, msgs []Message, done func([]Published, error)) error {
	_, _, err := c.engine.publish(name, msgs, done)
	return err
}

func appendPublished(out []Published, drafts []draft) []Published {
	for i := range drafts {
		out = append(out, drafts[i].published())
	}
	return out
}

func (d *draft) published() Published {
	switch {
	case d.twin != nil:
		return Published{ID: d.twin.id, Seq: d.twin.seq, Duplicate: true}
	case d.known != nil:
		return Published{ID: d.known.id, Seq: d.known.seq, Duplicate: true}
	}
	return Published{ID: d.id, Seq: d.seq}
}

// publish decides a send. It returns the commit to wait for, nil if all were
// duplicates of what is durable. async, if set, is called with the commit.
func (e *Engine) publish(name string, msgs []Message, async func([]Published, error)) ([]draft, *commit, error) {
	if err := e.held(); err != nil {
		return nil, nil, err
	}
	e.seq.admit()
	for {
		q, err := e.queue(name)
		if err != nil {
			return nil, nil, err
		}
		if !q.config().Routes.Empty() {
			drafts, done, err := e.publishRouted(q, msgs, async)
			if err != errEvicted {
				return drafts, done, err
			}
			continue
		}
		drafts, err := e.drafts(q, msgs)
		if err != nil {
			return nil, nil, err
		}
		q.mu.Lock()
		if err = q.usableLocked(); err == nil {
			var done *commit
			if done, err = q.send(drafts, async); err == nil {
				q.mu.Unlock()
				return drafts, done, nil
			}
		}
		q.mu.Unlock()
		if err != errEvicted {
			return nil, nil, err
		}
	}
}

// drafts encodes msgs for q. The records of a batch share one allocation.
func (e *Engine) drafts(q *queue, msgs []Message) ([]draft, error) {
	cfg := q.config()
	now := e.clock.now()
	drafts := make([]draft, len(msgs))
	total := 0
	for i := range msgs {
		m := &msgs[i]
		if err := checkMessage(m, cfg); err != nil {
			return nil, err
		}
		drafts[i].counted = int64(m.countedBytes())
		total += m.recordBytes(int(drafts[i].counted))
		if cfg.Kind == KindFIFO && m.DedupID == "" && cfg.ContentDedup {
			total += 2 * sha256.Size
		}
	}
	mem := make([]byte, 0, total)
	for i := range msgs {
		mem = e.draft(&drafts[i], &msgs[i], cfg, now, mem)
	}
	return drafts, nil
}

// draft encodes m, whose size d has, behind mem.
func (e *Engine) draft(d *draft, m *Message, cfg *QueueConfig, now int64, mem []byte) []byte {
	d.id, d.at = m.ID, now
	if d.id == (MessageID{}) {
		d.id = NewMessageID()
	}
	var named Message
	if cfg.Kind == KindFIFO && m.DedupID == "" && cfg.ContentDedup {
		sum := sha256.Sum256(m.Body)
		named = *m
		named.DedupID = hex.EncodeToString(sum[:])
		m = &named
	}
	d.address(m, cfg)
	return d.encode(m, mem)
}

// address chooses where in a queue of cfg the message will lie.
func (d *draft) address(m *Message, cfg *QueueConfig) {
	delay := m.Delay
	if delay < 0 {
		delay = cfg.Delay
	}
	switch {
	case cfg.Kind == KindMemory:
		return
	case cfg.Kind == KindFIFO:
		d.lane = Place{Kind: PlaceGroup, N: groupHash(m.Group)}
		d.hasID = m.DedupID != ""
		if d.hasID {
			d.dedup = dedupHash(cfg, m)
		}
	case cfg.Kind == KindPriority:
		d.lane = Place{Kind: PlacePriority, N: uint64(PriorityMax - m.Priority)}
	case m.Group != "":
		d.lane = Place{Kind: PlaceGroup, N: groupHash(m.Group)}
	}
	if delay > 0 && cfg.Kind != KindFIFO {
		d.due = d.at + ceilMS(delay)
		d.lane = Place{Kind: PlaceDelayed, N: uint64(d.due)}
	}
}

// encode makes the record of m, behind mem.
func (d *draft) encode(m *Message, mem []byte) []byte {
	expires := int64(0)
	if m.TTL > 0 {
		expires = d.at + ceilMS(m.TTL)
	}
	from := len(mem)
	mem = appendRecord(mem, m, d.id, int(d.counted), d.at, expires)
	d.rec = mem[from:len(mem):len(mem)]
	return mem
}

func ceilMS(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

// groupHash names a group's lane. The key is fixed, since the hash is stored;
// a collision merges two groups, which keeps the order of both.
func groupHash(group string) uint64 {
	return siphash.Hash(0x6c656173656d7121, 0x67726f75702d6b31, []byte(group))
}

// checkMessage refuses what no queue of cfg takes.
func checkMessage(m *Message, cfg *QueueConfig) error {
	size := 0
	for i := range m.Attributes {
		a := &m.Attributes[i]
		size += len(a.Name) + len(a.Type) + len(a.Value)
	}
	switch {
	case len(m.Body) > BodyBytesMax || size > AttributeBytesMax || len(m.Attributes) > AttributesMax:
		return ErrTooLarge
	case len(m.Group) > groupBytesMax || len(m.DedupID) > groupBytesMax || len(m.ContentType) > groupBytesMax || len(m.TraceParent) > groupBytesMax:
		return ErrInvalidArgument
	case m.Priority > PriorityMax || m.Delay > DelayMax || m.TTL < 0:
		return ErrInvalidArgument
	case m.Topic != "" && match.CheckTopic(m.Topic) != nil:
		return ErrInvalidTopic
	case cfg.Kind == KindFIFO && m.Group == "":
		return ErrMissingGroup
	case cfg.Kind == KindFIFO && m.DedupID == "" && !cfg.ContentDedup:
		return ErrMissingDedupID
	}
	return nil
}

// send appends drafts to the open Change. q.mu is held.
func (q *queue) send(drafts []draft, async func([]Published, error)) (*commit, error) {
	e := q.engine
	fresh, size := len(drafts), int64(0)
	pending := uint64(0)
	for i := range drafts {
		size += drafts[i].counted
	}
	if q.fifo() {
		var err error
		if fresh, size, pending, err = q.findDuplicates(drafts); err != nil {
			return nil, err
		}
	}
	if err := q.overflow(fresh, size); err != nil {
		return nil, err
	}
	if fresh == 0 && async == nil {
		return e.seq.commitOf(pending), nil
	}
	g, err := e.seq.begin()
	if err != nil {
		return nil, err
	}
	if fresh > 0 {
		q.put(g, drafts)
	}
	if async != nil {
		g.answer(async, func() []Published { return appendPublished(nil, drafts) })
	}
	done := g.done
	e.seq.end()
	return done, nil
}

// answer has async called with the end of g.
func (g *group) answer(async func([]Published, error), out func() []Published) {
	g.calls = append(g.calls, func(err error) {
		if err != nil {
			async(nil, err)
			return
		}
		async(out(), nil)
	})
}

// overflow refuses a send of n messages for which there is no room. Messages that
// make room are dropped when it is durable.
func (q *queue) overflow(n int, size int64) error {
	if n == 0 {
		return nil
	}
	if q.memory != nil && q.refuses(n, size) || q.memory == nil && q.rec.Config.Overflow == OverflowReject && q.over(int64(n), size) {
		return ErrQueueFull
	}
	return nil
}

// put appends the edits of a send. q.mu and the sequencer are held.
func (q *queue) put(g *group, drafts []draft) {
	if len(drafts) == 0 {
		return
	}
	sl := g.slotOf(q)
	if q.state.Messages == 0 {
		q.state.OldestAt = drafts[0].at
	}
	keep := q.engine.windowBytes.Load() < q.engine.windowMax
	for i := range drafts {
		d := &drafts[i]
		if d.known != nil || d.twin != nil || d.skip != skipNone {
			continue
		}
		if q.memory != nil && !q.makeRoom(d.counted) {
			d.skip = skipFull
			continue
		}
		if d.lane.Kind == PlaceDelayed {
			// It was drafted before the lock was had: the delayed space may have
			// been read beyond that time.
			d.lane.N = max(d.lane.N, uint64(q.engine.clock.now()))
		}
		d.seq = q.engine.seq.takeSeq()
		q.edit(g, Edit{Kind: EditPutMessage, Ref: Ref{QID: q.qid, Place: d.lane, Seq: d.seq}, Value: q.stored(g, d)})
		q.state.Messages++
		q.state.Bytes += d.counted
		q.state.Ordinal++
		sl.published++
		sl.tail = d.seq
		if d.hasID {
			q.rememberDedup(g, sl, d)
		}
		q.place(g, sl, d, keep)
		q.young(d.seq, d.at)
	}
	q.snapshot(g, sl)
}

// stored returns what is stored of d's record, and counts its reference to a shared
// body.
func (q *queue) stored(g *group, d *draft) []byte {
	if d.rec[1]&recordShared == 0 {
		return d.rec
	}
	value := d.rec
	if d.shared {
		value = d.share.place(g, q.engine, d.rec)
	}
	q.state.Shared++
	q.engine.refer(g, recordRef(d.rec).epoch(), 1)
	return value
}

// place puts a message that has just been given its sequence where receives
// will find it once it is durable.
func (q *queue) place(g *group, sl *slot, d *draft, keep bool) {
	if d.lane.Kind == PlaceDelayed {
		q.state.Delayed++
		q.due.send(g.n, d.lane.N)
		sl.dueMin = 1
		return
	}
	l := q.tail
	if d.lane.Kind != PlaceTail {
		if l = q.lanes[d.lane]; l == nil {
			l = q.laneAt(d.lane, laneState{Cursor: d.seq}, true)
			if len(q.lanes) == 1 {
				q.refresh(q.tail)
			}
		}
		l.count++
		g.touchLane(q, l)
	}
	l.send(d.seq, d.rec, keep)
	if q.laned() && (len(sl.lanes) == 0 || sl.lanes[len(sl.lanes)-1] != l) {
		sl.lanes = append(sl.lanes, l)
	}
}
