package core_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/core/selector"
)

// step does one thing at random.
func (w *world) step() {
	switch n := w.rng.IntN(1000); {
	case n < 12:
		w.crash()
	case n < 16:
		w.restart()
	case n < 120:
		w.sleep()
	case n < 150:
		w.checkIdle(w.anyYard(), w.anyYard())
		w.checkTopics()
	case n < 154:
		w.endQueue(w.anyYard(), w.chance(50), true)
	case n < 170:
		w.revive()
	case n < 171:
		w.churn(w.anyYard())
	case n < 191:
		w.move(w.chance(60))
	case n < 420:
		w.topical(w.chance(60))
	default:
		w.operate(w.chance(70))
	}
	w.harvest()
}

// operate does one operation on messages.
func (w *world) operate(awaited bool) {
	switch n := w.rng.IntN(100); {
	case n < 38:
		w.send(w.anyYard(), 1+w.rng.IntN(2)*w.rng.IntN(10), awaited)
	case n < 62:
		w.receive(w.anyYard(), pick(w.rng, 1, 1, 3, 10), awaited, nil)
	case n < 70:
		w.receive(w.anyYard(), pick(w.rng, 1, 1, 3, 10), awaited, pick(w.rng, w.owners...))
	case n < 90:
		w.settle(w.anyYard(), pick(w.rng, 1, 1, 3, 10), awaited)
	case n < 94:
		w.transact(awaited)
	case n < 97:
		w.releaseOwner(pick(w.rng, w.owners...), w.chance(40))
	default:
		w.configure(w.anyYard(), awaited)
	}
}

func (w *world) anyYard() *yard { return pick(w.rng, w.yards...) }

func (w *world) sleep() {
	d := pick(w.rng, time.Millisecond, 5*time.Millisecond, 20*time.Millisecond, 60*time.Millisecond, 120*time.Millisecond,
		time.Second, 4*time.Second, 35*time.Second)
	if w.chance(4) {
		d = pick(w.rng, 3*time.Minute, 6*time.Minute, 20*time.Minute)
	}
	d = d/2 + time.Duration(w.rng.Int64N(int64(d)))
	w.note("sleep %v", d)
	time.Sleep(d)
}

// newParcel makes a message that tells its id in its body.
func (w *world) newParcel(y *yard) *parcel {
	var id core.MessageID
	binary.BigEndian.PutUint64(id[:], w.rng.Uint64())
	binary.BigEndian.PutUint64(id[8:], uint64(len(w.book.order)+1))
	m := core.Message{ID: id, Delay: -1, Priority: uint8(w.rng.IntN(10)), Origin: core.OriginSQS}
	m.Body = append([]byte(id.String()), make([]byte, pick(w.rng, 0, 10, 100, 400, 1500))...)
	for i := 36; i < len(m.Body); i++ {
		m.Body[i] = byte(w.rng.Uint32())
	}
	for i := range w.rng.IntN(3) {
		m.Attributes = append(m.Attributes, core.Attribute{Name: fmt.Sprint("a", i), Type: "String", Value: []byte(id.String())})
	}
	if y.cfg.Kind == core.KindFIFO || w.chance(20) {
		m.Group = fmt.Sprint("g", w.rng.IntN(4))
	}
	if y.cfg.Kind != core.KindFIFO && w.chance(12) {
		m.Delay = pick(w.rng, 50*time.Millisecond, 2*time.Second, time.Minute)
	}
	if w.chance(5) {
		m.TTL = pick(w.rng, time.Second, 30*time.Second)
	}
	if y.cfg.Kind == core.KindFIFO && !(y.cfg.ContentDedup && w.chance(30)) {
		m.DedupID = fmt.Sprint("d", w.rng.IntN(60))
		switch n := w.rng.IntN(10); {
		case n < 4:
			m.DedupID = id.String()
		case n < 7 && y.lastID != "":
			m.DedupID = y.lastID // most likely not durable yet
		}
		y.lastID = m.DedupID
	}
	return &parcel{msg: m, queue: y.name}
}

// dedupKey is what the deduplication id of m is unique by, empty on queues
// without.
func (y *yard) dedupKey(m *core.Message) string {
	if y.cfg.Kind != core.KindFIFO {
		return ""
	}
	key := "id " + m.DedupID
	if m.DedupID == "" {
		key = "body " + string(m.Body)
	}
	if y.cfg.DedupScope == core.DedupGroup {
		key += " of " + m.Group
	}
	return key
}

func (w *world) send(y *yard, n int, awaited bool) {
	ps := make([]*parcel, n)
	msgs := make([]core.Message, len(ps))
	for i := range ps {
		ps[i] = w.newParcel(y)
		msgs[i] = ps[i].msg
	}
	if y.cfg.Kind != core.KindFIFO {
		w.together(ps, nil)
	}
	at, c := w.engine.Now(), w.client
	w.book.add(at, ps...)
	var out []core.Published
	var err error
	w.note("send %s %d messages awaited=%t", y.name, len(ps), awaited)
	w.launch(awaited, func() { out, err = c.Publish(context.Background(), y.name, msgs, nil) }, func() {
		w.sent(y, ps, out, err, at)
	})
}

// together notes that sends and deletes are one Change.
func (w *world) together(ps []*parcel, deletes []core.Ref) {
	w.txs++
	plan := &txPlan{deletes: deletes}
	for _, p := range ps {
		p.tx = w.txs
		plan.sends = append(plan.sends, p.msg.ID)
	}
	w.book.mu.Lock()
	w.book.txs[w.txs] = plan
	w.book.mu.Unlock()
}

// sent takes the answer to sends that were decided at the given time.
func (w *world) sent(y *yard, ps []*parcel, out []core.Published, err error, at int64) {
	switch {
	case errors.Is(err, core.ErrStopped):
		return
	case errors.Is(err, core.ErrNoQueue) && !y.exists, errors.Is(err, core.ErrQueueFull) && y.cfg.MaxMessages > 0:
		w.book.mu.Lock()
		defer w.book.mu.Unlock()
		for _, p := range ps {
			p.lost = true
		}
		return
	case err != nil || len(out) != len(ps):
		w.failf("send to %s: %d answers, %w", y.name, len(out), err)
		return
	}
	w.tap.durably(func(durable, head *ledger) {
		for i, p := range ps {
			if err := w.sentOne(y, p, &out[i], at, durable, head); err != nil {
				w.failf("send of %v to %s: %w", p.msg.ID, y.name, err)
			}
		}
	})
}

func (w *world) sentOne(y *yard, p *parcel, pub *core.Published, at int64, durable, head *ledger) error {
	key := y.dedupKey(&p.msg)
	var first *dedupSend
	for i := range y.dedup {
		if d := &y.dedup[i]; d.key == key && at-d.at < (5*time.Minute).Milliseconds() {
			first = d
		}
	}
	if pub.Duplicate {
		p.lost = true
		if first == nil || first.id != pub.ID {
			return fmt.Errorf("called a duplicate of %v, the first send was %+v", pub.ID, first)
		}
		return isDurable(durable, head, first.id)
	}
	if key != "" && first != nil {
		return fmt.Errorf("it was stored, and is a duplicate of %v, sent %d ms before", first.id, at-first.at)
	}
	if key != "" {
		y.dedup = append(y.dedup, dedupSend{key: key, id: p.msg.ID, at: at})
	}
	if pub.ID != p.msg.ID {
		return fmt.Errorf("answered with id %v", pub.ID)
	}
	if ref, ok := durable.where[pub.ID]; ok && ref.Seq != pub.Seq && durable.shelf(ref.QID).name == y.name {
		return fmt.Errorf("answered with sequence %d, stored at %v", pub.Seq, ref)
	}
	return isDurable(durable, head, p.msg.ID)
}

// isDurable tells whether a message is stored for good, or has been and is being
// dropped again.
func isDurable(durable, head *ledger, id core.MessageID) error {
	_, stored := durable.where[id]
	ref, submitted := head.where[id]
	if submitted && !stored {
		return fmt.Errorf("it was answered before %v was durable", ref)
	}
	return nil
}

// churn takes many messages through a queue, so that it is read by pages and its
// hints move.
func (w *world) churn(y *yard) {
	for range 20 {
		w.send(y, 90, w.chance(50))
		w.receive(y, 100, true, nil)
		w.settle(y, 100, w.chance(50))
	}
}

// receive receives with timed leases, or for an owner.
func (w *world) receive(y *yard, most int, awaited bool, owner *core.Owner) {
	o := core.ReceiveOptions{Max: most, Owner: owner}
	o.Visibility = pick(w.rng, -1, -1, 200*time.Millisecond, 5*time.Second, 20*time.Second)
	if w.chance(3) {
		o.Visibility = 0
	}
	if w.chance(10) {
		o.MaxBytes = 1000
	}
	if w.chance(25) {
		o.Selector = pick(w.rng, w.selectors...)
	}
	if !awaited && w.chance(40) {
		o.Wait = pick(w.rng, 10*time.Millisecond, time.Second, 10*time.Second)
	}
	racy := y.parked > 0 || o.Wait > 0
	y.received++
	n := y.received
	if !awaited {
		y.parked++
	}
	launched, c := w.engine.Now(), w.client
	var out []core.Delivery
	var err error
	w.note("receive %s max=%d visibility=%v owner=%t wait=%v selector=%q awaited=%t", y.name, o.Max, o.Visibility, owner != nil, o.Wait, o.Selector.Text(), awaited)
	w.launch(awaited, func() { out, err = c.Receive(context.Background(), y.name, o, nil) }, func() {
		if !awaited {
			y.parked--
		}
		switch {
		case errors.Is(err, core.ErrStopped):
		case errors.Is(err, core.ErrNoQueue) && (!y.exists || !awaited):
		case errors.Is(err, context.Canceled) && owner != nil && !slices.Contains(w.owners, owner):
		case err != nil:
			w.failf("receive from %s: %w", y.name, err)
		default:
			r := received{yard: y, o: &o, launched: launched, racy: racy || y.parked > 0 || n != y.received}
			for i := range out {
				if err := w.received(&r, &out[i]); err != nil {
					w.failf("receive from %s: %v %v: %w", y.name, out[i].ID, out[i].Receipt.Ref, err)
				}
			}
		}
	})
}

// selectsPriority tells whether a selector takes a priority, which is all that those
// of this test ask for.
func selectsPriority(s *selector.Selector, priority uint8) bool {
	return s.Match(func(string) (selector.Value, bool) { return selector.Int(int64(priority)), true })
}

// received is the circumstances of a receive.
type received struct {
	yard     *yard
	o        *core.ReceiveOptions
	launched int64
	racy     bool // other receives may have been decided since it was launched
}

// received checks a delivery and notes the lease.
func (w *world) received(r *received, d *core.Delivery) error {
	p := w.book.parcel(d.ID)
	if p == nil {
		return errors.New("nobody has sent it")
	}
	if err := p.sameAs(&d.Stored); err != nil {
		return err
	}
	ref := d.Receipt.Ref
	w.note("  got %v of %s, receive %d, until %d", ref, d.Body[:8], d.State.Receives, d.State.VisibleAt)
	switch {
	case p.buried == ref:
		return errors.New("its deletion was answered")
	case r.o.Selector != nil && !selectsPriority(r.o.Selector, d.Priority):
		return fmt.Errorf("priority %d is not selected by %q", d.Priority, r.o.Selector.Text())
	case d.ExpiresAt != 0 && d.ExpiresAt <= r.launched:
		return fmt.Errorf("it expired at %d, now it is %d", d.ExpiresAt, r.launched)
	case ref.Place.Kind == core.PlaceDelayed && int64(ref.Place.N) > w.engine.Now():
		return fmt.Errorf("it is not due before %d", ref.Place.N)
	case d.State.Receives > 1 && !d.Redelivered:
		return fmt.Errorf("receive %d is not called a redelivery", d.State.Receives)
	}
	if p.at != ref {
		p.at, p.floor, p.sessionLife = ref, 0, 0
	}
	if p.sessionLife != 0 && p.sessionLife != w.life+1 && !d.Redelivered {
		return errors.New("a session had it before the crash, and this is not called a redelivery")
	}
	if d.State.Receives <= p.floor && !r.racy {
		return fmt.Errorf("receive %d after receive %d", d.State.Receives, p.floor)
	}
	if err := w.checkLease(r, p, d); err != nil {
		return err
	}
	h := &held{
		parcel: p, queue: r.yard.name, batch: r, receipt: d.Receipt, deadline: d.State.VisibleAt, owner: r.o.Owner, at: w.engine.Now(),
		handle: string(w.client.AppendHandle(nil, d.Receipt)),
	}
	p.superseded = p.superseded && r.racy
	if d.State.Receives < p.floor {
		h.over = true // an older one, whose answer came late
		p.leases = slices.Insert(p.leases, 0, h)
		return nil
	}
	if h.owner != nil && !slices.Contains(w.owners, h.owner) {
		h.over = true // released while the answer was on its way
	}
	p.floor = d.State.Receives
	p.leases = append(p.leases, h)
	if h.owner != nil {
		p.sessionLife = w.life + 1
		w.book.toSession(ref)
	}
	return nil
}

// checkLease checks what must be durable before a delivery is shown, and that
// no live session holds the message or, on FIFO queues, its group.
func (w *world) checkLease(r *received, p *parcel, d *core.Delivery) (err error) {
	ref, cfg := d.Receipt.Ref, &r.yard.cfg
	w.tap.durably(func(durable, head *ledger) {
		if head.where[d.ID] == ref && durable.where[d.ID] != ref {
			err = errors.New("it is shown before it is durable")
			return
		}
		s := durable.shelf(ref.QID)
		if s.bodies[ref] == nil || s.state == nil {
			return // dropped since
		}
		if st := s.states[ref]; r.o.Owner == nil && (cfg.Marks == core.MarksSync || cfg.Kind == core.KindFIFO) && st.Receives < d.State.Receives {
			err = fmt.Errorf("receive %d is shown before its mark is durable", d.State.Receives)
		}
		st, bad := core.DecodeQueueState(s.state)
		if bad != nil || r.o.Owner != nil && st.Watermark <= ref.Seq {
			err = fmt.Errorf("a session is given it, the durable watermark is %d, %w", st.Watermark, bad)
		}
	})
	if err != nil {
		return err
	}
	for _, other := range w.book.order {
		h := other.newest()
		if h == nil || h.owner == nil || h.over || h.pending || other.superseded || h.queue != r.yard.name {
			continue
		}
		if other == p && h.receipt.Ref == ref && d.State.Receives > h.receipt.Receives {
			return fmt.Errorf("a live session holds it since receive %d", h.receipt.Receives)
		}
		if cfg.Kind == core.KindFIFO && other.msg.Group == p.msg.Group && h.receipt.Ref.QID == ref.QID &&
			h.batch != r && h.receipt.Ref.Seq < ref.Seq && !r.racy {
			return fmt.Errorf("a live session holds %v of its group", h.receipt.Ref)
		}
	}
	return nil
}

// releaseOwner ends a session and begins another.
func (w *world) releaseOwner(o *core.Owner, abnormal bool) {
	w.note("release owner abnormal=%t", abnormal)
	if err := w.client.ReleaseOwner(o, abnormal); err != nil {
		w.failf("release owner: %w", err)
	}
	for _, p := range w.book.order {
		for _, h := range p.leases {
			if h.owner == o {
				h.over = true
			}
		}
	}
	i := slices.Index(w.owners, o)
	w.owners[i] = w.client.NewOwner()
}

// endQueue purges or deletes a queue.
func (w *world) endQueue(y *yard, purge, awaited bool) {
	if !y.exists {
		return
	}
	w.book.mayEnd(y.name)
	c := w.client
	var err error
	w.note("end %s purge=%t awaited=%t", y.name, purge, awaited)
	w.launch(awaited, func() {
		if purge {
			err = c.Purge(context.Background(), y.name)
		} else {
			err = c.Delete(context.Background(), y.name)
		}
	}, func() {
		if errors.Is(err, core.ErrStopped) {
			return
		}
		if err != nil {
			w.failf("end %s: %w", y.name, err)
		}
		w.ended(y, purge)
	})
}

// ended takes the answer to a purge or deletion.
func (w *world) ended(y *yard, purge bool) {
	y.exists, y.dedup = purge, nil
	w.book.mu.Lock()
	delete(w.book.endTried, y.name)
	w.book.mu.Unlock()
	w.tap.durably(func(l, _ *ledger) {
		qid, ok := l.names[y.name]
		if ok != purge {
			w.failf("end %s: after it was answered its name stands for %d", y.name, qid)
		}
		for _, p := range w.book.order {
			if h := p.newest(); h != nil && h.queue == y.name && h.receipt.Ref.QID != qid {
				h.over = true
			}
		}
	})
}

// revive creates what was deleted.
func (w *world) revive() {
	for _, y := range w.yards {
		if !y.exists {
			w.declare(y, true)
			return
		}
	}
}

// configure changes what may be changed at any time.
func (w *world) configure(y *yard, awaited bool) {
	if !y.exists {
		return
	}
	visibility := pick(w.rng, time.Second, 10*time.Second, 30*time.Second)
	most := 1 + w.rng.IntN(4)
	y.configs++
	n, c := y.configs, w.client
	var q core.Queue
	var err error
	w.note("configure %s awaited=%t", y.name, awaited)
	w.launch(awaited, func() {
		q, err = c.Configure(context.Background(), y.name, func(cfg *core.QueueConfig) error {
			cfg.VisibilityTimeout = visibility
			if cfg.Redelivery.MaxReceives > 0 {
				cfg.Redelivery.MaxReceives = most
			}
			return nil
		})
	}, func() {
		if errors.Is(err, core.ErrStopped) {
			return
		}
		if err != nil {
			w.failf("configure %s: %w", y.name, err)
			return
		}
		if n != y.configs {
			return // changed again since
		}
		y.cfg = q.Config
		w.tap.durably(func(l, _ *ledger) {
			if got := l.shelf(q.QID).cfg.VisibilityTimeout; got != visibility {
				w.failf("configure %s: visibility timeout %v is stored, want %v", y.name, got, visibility)
			}
		})
	})
}
