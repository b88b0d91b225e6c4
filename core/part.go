package core

import (
	"cmp"
	"fmt"
	"slices"
)

// part is what one Change does to one queue of several.
type part struct {
	q         *queue
	dlq       *queue // where it may move messages to, itself a part; nil if it rejects none, or has none
	drafts    []draft
	settle    []Settlement
	decisions []decision
	routed    bool // some of drafts are copies by routes
}

// commitParts decides everything first and then writes everything, as one
// Change. The parts are of different queues and get sorted by lock order. also, if
// set, may add to the Change.
func (e *Engine) commitParts(parts []part, also func(g *group)) (*commit, error) {
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(a.q.id, b.q.id) })
	for i := range parts {
		parts[i].q.mu.Lock()
		defer parts[i].q.mu.Unlock()
	}
	if err := checkParts(parts); err != nil {
		for i := range parts {
			parts[i].abandon()
		}
		return nil, err
	}
	if slices.ContainsFunc(parts, func(p part) bool { return p.routed }) {
		dropRepeats(parts)
	}
	shareBodies(parts)
	g, err := e.seq.begin()
	if err != nil {
		return nil, err
	}
	for i := range parts {
		parts[i].write(g)
	}
	e.countRefused(parts)
	if also != nil {
		also(g)
	}
	done := g.done
	if g.empty() {
		done = nil // nothing would ever be committed
	}
	e.seq.end()
	for i := range parts {
		if p := &parts[i]; len(p.settle) > 0 {
			p.q.armLocked()
			if p.q.available() {
				p.q.wake(1)
			}
		}
	}
	return done, nil
}

// write appends the edits of what has been decided.
func (p *part) write(g *group) {
	q := p.q
	if !slices.ContainsFunc(p.drafts, func(d draft) bool { return d.skip == skipNone }) && len(p.decisions) == 0 && len(p.settle) == 0 {
		return
	}
	g.slotOf(q)
	q.put(g, p.drafts)
	for i := range p.decisions {
		d := &p.decisions[i]
		le := &q.leases.slab[d.index]
		le.decided = false
		l := le.lane
		q.apply(g, d, p.dlq)
		if l != nil {
			g.touchLane(q, l)
		}
	}
	q.snapshot(g, &g.slots[q.slotIndex])
}

func checkParts(parts []part) error {
	for i := range parts {
		if err := parts[i].usable(); err != nil {
			return err
		}
	}
	for i := range parts {
		if err := parts[i].check(); err != nil {
			return fmt.Errorf("queue %q: %w", parts[i].q.name, err)
		}
	}
	return nil
}

// usable makes the queue ready. Copies for a queue that has gone are left out,
// as its bindings have gone with it.
func (p *part) usable() error {
	err := p.q.usableLocked()
	if err != ErrNoQueue || !p.copies() {
		return err
	}
	for i := range p.drafts {
		p.drafts[i].skip = skipGone
	}
	return nil
}

// check decides on the sends and settlements of one queue.
func (p *part) check() error {
	if p.q.gone {
		return nil
	}
	if err := p.checkSends(); err != nil {
		return err
	}
	if p.dlq != nil && p.dlq.gone {
		p.dlq = nil
	}
	decided := make(map[Seq]int, len(p.settle))
	for i := range p.settle {
		if err := p.decide(&p.settle[i], decided); err != nil {
			return err
		}
	}
	return nil
}

// copies tells whether p is nothing but copies.
func (p *part) copies() bool {
	return len(p.settle) == 0 && !slices.ContainsFunc(p.drafts, func(d draft) bool { return !d.copy })
}

// checkSends refuses sends for which there is no room. Copies for which there is
// none, or that are too large, are left out: one queue does not stop a topic.
func (p *part) checkSends() error {
	q := p.q
	if q.fifo() {
		if _, _, _, err := q.findDuplicates(p.drafts); err != nil {
			return err
		}
	}
	fresh, size := 0, int64(0)
	for i := range p.drafts {
		if d := &p.drafts[i]; !d.copy && d.known == nil && d.twin == nil {
			fresh++
			size += d.counted
		}
	}
	if err := q.overflow(fresh, size); err != nil {
		return err
	}
	for i := range p.drafts {
		d := &p.drafts[i]
		if !d.copy || d.known != nil || d.twin != nil {
			continue
		}
		switch {
		case d.tooLarge(&q.rec.Config):
			d.skip = skipTooLarge
		case q.overflow(fresh+1, size+d.counted) != nil:
			d.skip = skipFull
		default:
			fresh++
			size += d.counted
		}
	}
	return nil
}

// decide decides on one settlement. Of several on one message the last holds,
// but nothing may follow a delete.
func (p *part) decide(s *Settlement, decided map[Seq]int) error {
	q := p.q
	d, err := q.decide(s, p.dlq)
	if err == errDecided {
		r, _ := q.receiptOf(s)
		before := decided[r.Ref.Seq]
		switch {
		case p.decisions[before].action != SettleDelete:
			le := &q.leases.slab[p.decisions[before].index]
			le.decided = false
			d, err = q.decide(s, p.dlq)
			le.decided = true
			if err == nil && d.index >= 0 {
				p.decisions[before] = d
			}
			return err
		case s.Action == SettleDelete:
			return nil
		}
		return ErrNoMessage
	}
	if err != nil || d.index < 0 {
		return err
	}
	le := &q.leases.slab[d.index]
	le.decided = true
	decided[le.seq] = len(p.decisions)
	p.decisions = append(p.decisions, d)
	return nil
}

// abandon takes back what check did when the Change cannot be committed. A
// message that memory learned of by its receipt alone gets the state record that
// it lacks: the cursor will pass it.
func (p *part) abandon() {
	q := p.q
	var bare []int32
	for i := range p.decisions {
		le := &q.leases.slab[p.decisions[i].index]
		le.decided = false
		if !le.marked && le.owner == nil {
			bare = append(bare, p.decisions[i].index)
		}
	}
	p.decisions = nil
	if len(bare) == 0 {
		return
	}
	g, err := q.engine.seq.begin()
	if err != nil {
		return
	}
	defer q.engine.seq.end()
	sl := g.slotOf(q)
	now := q.engine.clock.now()
	for _, i := range bare {
		le := &q.leases.slab[i]
		q.putState(g, le, le.stateAt(now))
		if le.lane != nil {
			g.touchLane(q, le.lane)
		}
	}
	q.snapshot(g, sl)
}
