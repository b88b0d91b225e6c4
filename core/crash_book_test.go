package core_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/leasemq/broker/core"
)

// book is what the driver of the crash model has done: it justifies what the
// engine decides. The tap reads it while the driver goes on.
type book struct {
	mu       sync.Mutex
	parcels  map[core.MessageID]*parcel // by each id that it has had
	order    []*parcel
	endTried map[string]bool // queues that were purged or deleted, or may have been
	txs      map[int]*txPlan
	sessions map[core.Ref]bool // what was given to sessions

	posts      map[core.MessageID]*post // what was published to topics
	unreliable map[core.MessageID]bool
	shared     int // publishes whose body was stored once
}

// parcel is one message of the driver.
type parcel struct {
	msg    core.Message
	ids    []core.MessageID // that move tasks have given it
	sentAt int64            // milliseconds
	queue  string           // that it was sent to
	tx     int              // 0: none
	dropOK bool             // its deletion has been asked for
	lost   bool             // it was refused, a duplicate, or cut off by a crash, or is gone: it must not come
	buried core.Ref         // where its deletion was answered

	at          core.Ref // where it was last delivered
	floor       uint32   // receives there
	leases      []*held  // deliveries, oldest first
	superseded  bool     // the newest has been followed by one whose answer was cut off
	sessionLife int      // the life in which a session was given it at p.at, plus one; 0: never
}

// held is one delivery as the driver knows it.
type held struct {
	parcel   *parcel
	queue    string
	receipt  core.Receipt
	handle   string
	deadline int64 // timed leases, milliseconds
	owner    *core.Owner
	batch    *received // that gave it
	at       int64     // when it was given, milliseconds, at the latest
	over     bool      // settled, released, or lost in a crash
	pending  bool      // being settled
}

// txPlan is what a transaction must do together.
type txPlan struct {
	sends   []core.MessageID
	deletes []core.Ref
}

func newBook() *book {
	return &book{
		parcels: map[core.MessageID]*parcel{}, endTried: map[string]bool{}, txs: map[int]*txPlan{}, sessions: map[core.Ref]bool{},
		posts: map[core.MessageID]*post{}, unreliable: map[core.MessageID]bool{},
	}
}

// parcel returns the parcel of an id, nil if the driver has not sent it.
func (b *book) parcel(id core.MessageID) *parcel {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.parcels[id]
}

// add notes sends that are about to be made.
func (b *book) add(at int64, ps ...*parcel) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range ps {
		p.sentAt = at
		b.parcels[p.msg.ID] = p
		b.order = append(b.order, p)
	}
}

// toSession notes that r was given to a session.
func (b *book) toSession(r core.Ref) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sessions[r] = true
}

// wasInSession tells whether r was ever given to a session.
func (b *book) wasInSession(r core.Ref) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sessions[r]
}

func (b *book) mayDrop(p *parcel) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p.dropOK = true
}

func (b *book) mayEnd(queue string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.endTried[queue] = true
}

// justify tells whether each message that c puts was sent, and each that it
// drops has a reason to go: nothing is ever lost.
func (b *book) justify(c *core.Change, before *ledger) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	moved := map[*parcel]*core.Edit{}
	tasks, err := movesOf(c)
	if err != nil {
		return err
	}
	for i := range c.Edits {
		e := &c.Edits[i]
		var err error
		switch e.Kind {
		case core.EditPutMessage:
			err = b.justifyPut(c, i, before, moved, tasks)
		case core.EditDropMessage:
			err = b.justifyDrop(c, i, before, moved)
		case core.EditDropQueue:
			if s := before.shelf(e.QID); s.record != nil && !b.endTried[s.name] {
				err = errors.New("nobody has asked for it")
			}
		}
		if err != nil {
			return fmt.Errorf("edit %d of kind %d on %v: %w", i, e.Kind, e.Ref, err)
		}
	}
	for _, m := range tasks {
		if err := m.checkCount(before); err != nil {
			return err
		}
	}
	return nil
}

func (b *book) justifyPut(c *core.Change, i int, before *ledger, moved map[*parcel]*core.Edit, tasks map[core.QID]*sourceMoves) error {
	e := &c.Edits[i]
	s, err := core.DecodeRecord(bytes.Clone(e.Value))
	if err != nil {
		return err
	}
	if len(s.Topic) > 0 {
		return b.justifyCopy(&s, c.Edits[:i], before)
	}
	p := b.parcels[s.ID]
	isNew := p == nil
	if isNew {
		p = b.ofBody(&s)
	}
	if p == nil || p.lost || isNew && moved[p] == nil {
		return fmt.Errorf("message %v must not come: sent %t", s.ID, p != nil)
	}
	if err := p.sameAs(&s); err != nil {
		return err
	}
	from := moved[p]
	delete(moved, p) // it may be put once
	if isNew {
		return b.justifyMoved(p, &s, e, from, before, tasks)
	}
	if from == nil {
		if name := before.shelf(e.QID).name; name != "" && name != p.queue {
			return fmt.Errorf("sent to %s, stored in %s", p.queue, name)
		}
		return nil
	}
	source, target := before.shelf(from.QID), before.shelf(e.QID)
	switch {
	case target.name != "" && source.cfg.Redelivery.DeadLetterQueue != target.name:
		return fmt.Errorf("moved from %s to %s, its dead-letter queue is %q", source.name, target.name, source.cfg.Redelivery.DeadLetterQueue)
	case !sameMessage(source.bodies[from.Ref].whole, e.Value):
		return errors.New("changed by its move")
	case s.DeadLetter.Source != source.name || s.DeadLetter.Reason == core.DeadLetterNone || s.DeadLetter.FirstAt == 0:
		return fmt.Errorf("moved with the note %+v", s.DeadLetter)
	case s.PriorReceives < source.states[from.Ref].Receives && s.DeadLetter.Reason != core.DeadLetterExpired:
		// A receive that finds its message expired gives it to nobody, and does not count.
		return fmt.Errorf("moved after %d receives, the note says %d", source.states[from.Ref].Receives, s.PriorReceives)
	}
	return nil
}

func (b *book) justifyDrop(c *core.Change, i int, before *ledger, moved map[*parcel]*core.Edit) error {
	e := &c.Edits[i]
	s := before.shelf(e.QID)
	m := s.bodies[e.Ref]
	if m == nil || s.record == nil {
		return nil // the ledger objects, or it is the reaper
	}
	if m.copy {
		return b.justifyLoss(m, c, i, s)
	}
	for j := i + 1; j < len(c.Edits); j++ {
		if c.Edits[j].Kind != core.EditPutMessage {
			continue
		}
		to, err := core.DecodeRecord(bytes.Clone(c.Edits[j].Value))
		if p := b.parcels[m.id]; err == nil && (to.ID == m.id || b.parcels[to.ID] == nil && b.ofBody(&to) == p) {
			moved[p] = e
			return nil
		}
	}
	keep := s.cfg.Retention.Milliseconds()
	switch {
	case b.parcels[m.id].dropOK:
	case m.expires != 0 && m.expires <= c.Time:
	case keep > 0 && m.at+keep <= c.Time:
	case s.cfg.Overflow == core.OverflowDropOldest && (s.cfg.MaxMessages > 0 || s.cfg.MaxBytes > 0):
	default:
		return fmt.Errorf("message %v is dropped without a reason", m.id)
	}
	return nil
}

// checkWhole checks that a transaction is in one Change, all of it.
func (b *book) checkWhole(c *core.Change, after *ledger) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	count := map[int]int{}
	for i := range c.Edits {
		if c.Edits[i].Kind != core.EditPutMessage {
			continue
		}
		s, err := core.DecodeRecord(bytes.Clone(c.Edits[i].Value))
		if err != nil {
			return err
		}
		if p := b.parcels[s.ID]; p != nil && p.tx != 0 && slices.Contains(b.txs[p.tx].sends, s.ID) && s.DeadLetter.Reason == core.DeadLetterNone {
			count[p.tx]++
		}
	}
	for tx, n := range count {
		plan := b.txs[tx]
		if n != len(plan.sends) {
			return fmt.Errorf("transaction %d stores %d of its %d sends", tx, n, len(plan.sends))
		}
		for _, r := range plan.deletes {
			if after.shelf(r.QID).bodies[r] != nil {
				return fmt.Errorf("transaction %d leaves %v, which it deletes", tx, r)
			}
		}
	}
	return nil
}

// sameAs tells whether s is what was sent.
func (p *parcel) sameAs(s *core.Stored) error {
	m := &p.msg
	i, bad := 0, false
	s.Attributes(func(a core.Attribute) bool {
		bad = bad || i >= len(m.Attributes) || a.Kind != m.Attributes[i].Kind || a.Name != m.Attributes[i].Name ||
			a.Type != m.Attributes[i].Type || !bytes.Equal(a.Value, m.Attributes[i].Value)
		i++
		return true
	})
	if bad || i != len(m.Attributes) || !bytes.Equal(s.Body, m.Body) || string(s.Group) != m.Group || s.Priority != m.Priority ||
		s.Origin != m.Origin || string(s.TraceParent) != m.TraceParent || string(s.ContentType) != m.ContentType {
		return fmt.Errorf("message %v is not as it was sent", s.ID)
	}
	return nil
}

// newest returns the last delivery of p, nil if there is none.
func (p *parcel) newest() *held {
	if len(p.leases) == 0 {
		return nil
	}
	return p.leases[len(p.leases)-1]
}
