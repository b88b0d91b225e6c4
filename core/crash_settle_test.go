package core_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing/synctest"
	"time"

	"github.com/leasemq/broker/core"
)

// settling is one settlement under way.
type settling struct {
	h      *held
	action core.SettleAction
	delay  time.Duration
	newest bool // nobody has been given the message since
	alive  bool // and the lease has not ended
	toDead bool // its dead-letter queue is there
}

// choose picks up to n deliveries from y: those that are held, and a few that
// are not any more.
func (w *world) choose(y *yard, n int) []*held {
	var live, old []*held
	for _, p := range w.book.order {
		for _, h := range p.leases {
			switch {
			case h.queue != y.name || h.pending:
			case h.over || h != p.newest():
				old = append(old, h)
			default:
				live = append(live, h)
			}
		}
	}
	var out []*held
	for range n {
		from := &live
		if w.chance(10) {
			from = &old
		}
		if k := len(*from); k > 0 {
			i := w.rng.IntN(k)
			out = append(out, (*from)[i])
			*from = slices.Delete(*from, i, i+1)
		}
	}
	return out
}

// settlement decides what to do with h.
func (w *world) settlement(y *yard, h *held, actions ...core.SettleAction) (*settling, core.Settlement) {
	s := &settling{h: h, action: pick(w.rng, actions...)}
	if h.owner != nil && s.action == core.SettleExtend {
		s.action = core.SettleDelete // sessions have no deadline to extend
	}
	switch s.action {
	case core.SettleExtend:
		s.delay = pick(w.rng, 0, time.Second, 10*time.Second, 30*time.Second)
	case core.SettleRelease:
		s.delay = pick(w.rng, 0, 0, 3*time.Second)
	}
	p, now := h.parcel, w.engine.Now()
	s.newest = p.newest() == h && !p.superseded && y.parked == 0
	s.alive = s.newest && !h.over && (h.owner != nil || now < h.deadline)
	s.toDead = slices.ContainsFunc(w.yards, func(d *yard) bool { return d.exists && d.name == y.cfg.Redelivery.DeadLetterQueue })
	w.note("  %v of %v receive %d delay %v newest=%t alive=%t", s.action, h.receipt.Ref, h.receipt.Receives, s.delay, s.newest, s.alive)
	if s.action == core.SettleDelete || s.action == core.SettleDeadLetter && y.cfg.Redelivery.DeadLetterQueue == "" {
		w.book.mayDrop(p)
	}
	h.pending = true
	if w.chance(50) {
		return s, core.Settlement{Receipt: h.receipt, Action: s.action, Delay: s.delay}
	}
	return s, core.Settlement{Handle: h.handle, Action: s.action, Delay: s.delay}
}

func (w *world) settle(y *yard, n int, awaited bool) {
	chosen := w.choose(y, n)
	if len(chosen) == 0 {
		return
	}
	w.note("settle %s %d awaited=%t", y.name, len(chosen), awaited)
	ss, list := make([]*settling, len(chosen)), make([]core.Settlement, len(chosen))
	for i, h := range chosen {
		ss[i], list[i] = w.settlement(y, h, core.SettleDelete, core.SettleDelete, core.SettleDelete, core.SettleDelete, core.SettleDelete,
			core.SettleExtend, core.SettleRelease, core.SettleReject, core.SettleDeadLetter)
	}
	if ss[0].action == core.SettleDelete && w.chance(10) {
		list = append(list, list[0]) // the same receipt twice
		ss = append(ss, &settling{h: ss[0].h})
	}
	at, c := w.engine.Now(), w.client
	var errs []error
	var err error
	w.launch(awaited, func() { errs, err = c.Settle(context.Background(), y.name, list, nil) }, func() {
		switch {
		case errors.Is(err, core.ErrStopped):
			return
		case errors.Is(err, core.ErrNoQueue) && !y.exists:
			errs = slices.Repeat([]error{core.ErrNoMessage}, len(list))
			for _, s := range ss {
				s.alive = false
			}
		case err != nil || len(errs) != len(list):
			w.failf("settle %s: %d results, %w", y.name, len(errs), err)
			return
		}
		for i, s := range ss {
			w.settled(y, s, errs[i], at)
		}
	})
}

// settled takes the answer to one settlement.
func (w *world) settled(y *yard, s *settling, err error, at int64) {
	h, ref := s.h, s.h.receipt.Ref
	h.pending = false
	w.tap.durably(func(durable, head *ledger) {
		switch {
		case err == nil:
			err = w.settledWell(y, s, at, durable)
		case s.alive:
			err = fmt.Errorf("the lease lives, and the answer is %w", err)
		case errors.Is(err, core.ErrBadReceipt):
			if s := durable.shelf(durable.names[y.name]); s.id == h.receipt.Queue {
				break
			}
			err = nil
		case y.cfg.Kind != core.KindFIFO && s.action == core.SettleDelete && y.exists:
			err = fmt.Errorf("a delete by an old receipt is answered with %w", err)
		case errors.Is(err, core.ErrNoMessage), errors.Is(err, core.ErrReceiptExpired), errors.Is(err, core.ErrNotInFlight):
			err = nil
		}
	})
	if err != nil {
		w.failf("action %d on %v of %s: %w", s.action, ref, y.name, err)
	}
}

// settledWell checks that what was answered is durable.
func (w *world) settledWell(y *yard, s *settling, at int64, durable *ledger) error {
	if !s.newest {
		s.h.parcel.superseded = true // what came of it depends on what others were given
		return nil
	}
	h, ref := s.h, s.h.receipt.Ref
	shelf := durable.shelf(ref.QID)
	stored, st := shelf.bodies[ref] != nil, shelf.states[ref]
	switch s.action {
	case core.SettleDelete:
		h.over = true
		h.parcel.buried = ref
		if stored && shelf.record != nil {
			return errors.New("deletion is answered, and it is still stored")
		}
	case core.SettleExtend:
		h.deadline, h.over = at+s.delay.Milliseconds(), false
		if stored && st.Receives == h.receipt.Receives && st.VisibleAt != h.deadline {
			return fmt.Errorf("extended until %d, stored is %d", h.deadline, st.VisibleAt)
		}
	case core.SettleRelease:
		h.over = true
		if until := at + s.delay.Milliseconds(); stored && st.Receives == h.receipt.Receives && st.VisibleAt != until {
			return fmt.Errorf("released until %d, stored is %d", until, st.VisibleAt)
		}
	case core.SettleReject:
		h.over = true
	case core.SettleDeadLetter:
		h.over = true
		if stored && shelf.record != nil && s.toDead && s.alive {
			return errors.New("it is dead-lettered, and still stored where it was")
		}
	}
	return nil
}

// transact sends and settles as one Change.
func (w *world) transact(awaited bool) {
	tx := w.client.Begin()
	var ps []*parcel
	var yards []*yard
	var deletes []core.Ref
	var ss []*settling
	var settledIn []*yard
	sure := true
	w.note("transaction awaited=%t", awaited)
	for range 1 + w.rng.IntN(4) {
		y := w.anyYard()
		p := w.newParcel(y)
		if y.cfg.Kind == core.KindFIFO {
			p.msg.DedupID = p.msg.ID.String()
		}
		sure = sure && y.exists && y.cfg.MaxMessages == 0
		w.note("  send %v to %s", p.msg.ID, y.name)
		if err := tx.Publish(y.name, p.msg); err != nil {
			w.failf("transaction: %w", err)
		}
		ps, yards = append(ps, p), append(yards, y)
	}
	for range 1 + w.rng.IntN(2) {
		y := w.anyYard()
		for _, h := range w.choose(y, 3) {
			s, settlement := w.settlement(y, h, core.SettleDelete, core.SettleDelete, core.SettleExtend, core.SettleRelease)
			sure = sure && s.alive && y.exists
			if s.action == core.SettleDelete && s.alive {
				deletes = append(deletes, h.receipt.Ref)
			}
			if err := tx.Settle(y.name, settlement); err != nil {
				w.failf("transaction: %w", err)
			}
			ss, settledIn = append(ss, s), append(settledIn, y)
		}
	}
	if w.chance(20) {
		sure = false
		w.note("  settle with a receipt that is none")
		if err := tx.Settle(w.anyYard().name, core.Settlement{Handle: "none"}); err != nil {
			w.failf("transaction: %w", err)
		}
	}
	w.together(ps, deletes)
	at := w.engine.Now()
	w.book.add(at, ps...)
	var out []core.Published
	var err error
	w.launch(awaited, func() { out, err = tx.Commit(context.Background()) }, func() {
		if err != nil && !errors.Is(err, core.ErrStopped) && sure {
			w.failf("transaction: %w", err)
		}
		w.transacted(ps, yards, out, err, at)
		for i, s := range ss {
			if s.h.pending = errors.Is(err, core.ErrStopped); err == nil {
				w.settled(settledIn[i], s, nil, at)
			}
		}
	})
}

// transacted takes the answers to the sends of a transaction.
func (w *world) transacted(ps []*parcel, yards []*yard, out []core.Published, err error, at int64) {
	switch {
	case errors.Is(err, core.ErrStopped):
	case err != nil:
		w.book.mu.Lock()
		defer w.book.mu.Unlock()
		for _, p := range ps {
			p.lost = true
		}
	case len(out) != len(ps):
		w.failf("transaction: %d answers to %d sends", len(out), len(ps))
	default:
		for i, p := range ps {
			w.sent(yards[i], ps[i:i+1], out[i:i+1], nil, at)
			if p.lost {
				w.failf("transaction: send %d is called a duplicate", i)
			}
		}
	}
}

// checkIdle compares what the engine tells with the ledger, if nothing is under
// way.
func (w *world) checkIdle(yards ...*yard) {
	synctest.Wait()
	w.harvest()
	if !w.tap.idle() || len(w.tasks) > 0 {
		return
	}
	w.tap.paced.Store(false)
	defer w.tap.paced.Store(true)
	for _, y := range yards {
		if !y.exists {
			continue
		}
		w.note("look at %s", y.name)
		if err := w.look(y); err != nil {
			w.failf("look at %s: %w", y.name, err)
		}
	}
}

func (w *world) look(y *yard) error {
	before := w.tap.submitted()
	st, err := w.client.Stats(context.Background(), y.name)
	if err != nil {
		return err
	}
	seen, err := w.peekAll(y)
	if err != nil {
		return err
	}
	synctest.Wait()
	if !w.tap.idle() || w.tap.submitted() != before {
		return nil // a timer or a move has made a Change meanwhile
	}
	now := w.engine.Now()
	w.tap.durably(func(l, _ *ledger) { err = w.compare(y, &st, seen, l, now) })
	return err
}

func (w *world) peekAll(y *yard) (map[core.Seq]bool, error) {
	seen := map[core.Seq]bool{}
	var pos core.PeekPos
	for {
		page, next, err := w.client.Peek(context.Background(), y.name, pos, 20)
		if err != nil {
			return nil, err
		}
		for i := range page {
			if seen[page[i].Seq] {
				return nil, fmt.Errorf("message %v is peeked at twice", page[i].ID)
			}
			seen[page[i].Seq] = true
		}
		if next == pos {
			return seen, nil
		}
		pos = next
	}
}

func (w *world) compare(y *yard, st *core.QueueStats, seen map[core.Seq]bool, l *ledger, now int64) error {
	qid := l.names[y.name]
	s := l.shelf(qid)
	const grain = core.LeaseGrainMS + 2
	var bytes, leased, leasedMost, delayed, delayedMost int64
	for r, m := range s.bodies {
		if !seen[r.Seq] {
			return fmt.Errorf("%v is stored, and not peeked at", r)
		}
		bytes += m.counted
		mark, received := s.states[r]
		if hold := s.cfg.Delay.Milliseconds(); !received && hold > 0 && s.cfg.Kind == core.KindFIFO {
			if m.at+hold > now {
				delayed++
				delayedMost++
			}
		}
		if !received && r.Place.Kind == core.PlaceDelayed && int64(r.Place.N) > now-grain {
			delayedMost++
			if int64(r.Place.N) > now {
				delayed++
			}
		}
		if mark.VisibleAt > now-grain {
			leasedMost++
			if mark.VisibleAt > now {
				leased++
			}
		}
	}
	for _, p := range w.book.order {
		h := p.newest()
		if h == nil || h.owner == nil || h.over || h.queue != y.name || s.bodies[h.receipt.Ref] == nil {
			continue
		}
		leasedMost++
		if p.superseded {
			continue
		}
		leased++
		if _, ok := s.states[h.receipt.Ref]; !ok && now > h.at+core.MarkDeferMS+1 {
			return fmt.Errorf("%v has been held by a session for %d ms without a state record", h.receipt.Ref, now-h.at)
		}
	}
	switch {
	case len(seen) != len(s.bodies):
		return fmt.Errorf("%d messages are peeked at, %d are stored", len(seen), len(s.bodies))
	case st.Messages != int64(len(s.bodies)) || st.Bytes != bytes:
		return fmt.Errorf("stats tell of %d messages and %d bytes, stored are %d and %d", st.Messages, st.Bytes, len(s.bodies), bytes)
	case st.InFlight < leased || st.InFlight > leasedMost:
		return fmt.Errorf("stats tell of %d in flight, the ledger of %d to %d", st.InFlight, leased, leasedMost)
	case st.Delayed < delayed || st.Delayed > delayedMost:
		return fmt.Errorf("stats tell of %d delayed, the ledger of %d to %d", st.Delayed, delayed, delayedMost)
	}
	return nil
}

// drainAll receives and deletes all that is left: nothing may be out of reach.
func (w *world) drainAll() {
	w.note("drain")
	for _, o := range slices.Clone(w.owners) {
		w.releaseOwner(o, false)
	}
	w.declareAll()
	const roundsMax = 200
	for range roundsMax {
		time.Sleep(20 * time.Second)
		w.harvest()
		for _, y := range w.yards {
			w.drain(y)
		}
		left := 0
		w.tap.durably(func(_, l *ledger) { left = len(l.where) })
		if left == 0 || w.failed() != nil {
			w.drainSubs()
			time.Sleep(2 * time.Minute) // range deletions are spaced
			w.checkReaped()
			w.checkIdle(w.yards...)
			w.checkTopics()
			w.checkMovesEnd()
			return
		}
	}
	w.tap.durably(func(_, l *ledger) {
		for id, r := range l.where {
			w.failf("message %v at %v of %s cannot be received", id, r, l.shelf(r.QID).name)
		}
	})
}

func (w *world) drain(y *yard) {
	for w.failed() == nil {
		r := received{yard: y, o: &core.ReceiveOptions{Max: 10, Visibility: time.Minute}, launched: w.engine.Now(), racy: y.parked > 0}
		ds, err := w.client.Receive(context.Background(), y.name, *r.o, nil)
		if err != nil {
			w.failf("drain %s: %w", y.name, err)
		}
		if len(ds) == 0 {
			return
		}
		list := make([]core.Settlement, len(ds))
		for i := range ds {
			if err := w.received(&r, &ds[i]); err != nil {
				w.failf("drain %s: %v: %w", y.name, ds[i].Receipt.Ref, err)
			}
			w.book.mayDrop(w.book.parcel(ds[i].ID))
			list[i].Receipt = ds[i].Receipt
		}
		errs, err := w.client.Settle(context.Background(), y.name, list, nil)
		if err := errors.Join(append(errs, err)...); err != nil {
			w.failf("drain %s: %w", y.name, err)
		}
	}
}
