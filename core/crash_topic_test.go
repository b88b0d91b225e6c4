package core_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/core/match"
	"github.com/leasemq/broker/core/selector"
)

// Topics have queues of their own in the crash model: copies share an id, and all
// else of the model knows a message by it.

// Names of records begin so.
const (
	bindingsPrefix = "binding/"
	retainedPrefix = "retained/"
)

// post is one message that is published to a topic.
type post struct {
	msg     core.Message
	topic   string
	retain  bool
	queues  []core.QID
	change  int // that has it, from 1; 0: none
	term    uint32
	dropped map[core.Ref]bool // its deletion has been asked for
	buried  map[core.Ref]bool // and answered
}

// newSubs are the queues of topics.
func newSubs() []*yard {
	config := func(kind core.QueueKind) core.QueueConfig {
		c := core.DefaultQueueConfig(kind)
		c.VisibilityTimeout = 5 * time.Second
		return c
	}
	mortal := func(c core.QueueConfig) core.QueueConfig {
		c.Redelivery = core.Redelivery{DeadLetterQueue: "sub.dead", MaxReceives: 2}
		return c
	}
	return []*yard{
		{name: "sub", cfg: mortal(config(core.KindStandard))},
		{name: "sub2", cfg: config(core.KindStandard)},
		{name: "sub3", cfg: mortal(config(core.KindStandard))},
		{name: "sub.fifo", cfg: config(core.KindFIFO)},
		{name: "sub.priority", cfg: config(core.KindPriority)},
		{name: "sub.dead", cfg: config(core.KindStandard)},
	}
}

// topical does something with topics.
func (w *world) topical(awaited bool) {
	y := pick(w.rng, w.subs...)
	switch n := w.rng.IntN(100); {
	case n < 45:
		w.publish(awaited)
	case n < 62:
		w.bind(y, awaited)
	case n < 66:
		w.unbind(y, awaited)
	case n < 72: // whatever is shared goes, as far as nobody holds it
		for _, y := range w.subs {
			w.take(y, 100)
		}
	case n < 95:
		w.take(y, 1+w.rng.IntN(8))
	case n < 98 && y.exists && awaited:
		w.endQueue(y, w.chance(50), true)
	case !y.exists:
		w.declare(y, true)
	}
}

func (w *world) publish(awaited bool) {
	p := core.TopicPublish{Topic: pick(w.rng, "t/0", "t/1", "u", "u/0"), Retain: w.chance(30), Unreliable: w.chance(20)}
	posts := make([]*post, 1+w.rng.IntN(3)/2)
	w.book.mu.Lock()
	for i := range posts {
		m := core.Message{Delay: -1, Priority: uint8(w.rng.IntN(10)), Topic: p.Topic}
		binary.BigEndian.PutUint64(m.ID[:], w.rng.Uint64())
		binary.BigEndian.PutUint64(m.ID[8:], uint64(len(w.book.posts)+1)<<32)
		if !p.Retain || w.chance(80) { // none removes what is kept
			m.Body = append([]byte(m.ID.String()), make([]byte, pick(w.rng, 0, 100, sharedBytesMin-37, sharedBytesMin-36, sharedBytesMin-36, 1500, 1500))...)
		}
		if w.chance(10) {
			m.TTL = pick(w.rng, time.Second, 30*time.Second)
		}
		posts[i] = &post{msg: m, topic: p.Topic, retain: p.Retain && i == len(posts)-1, dropped: map[core.Ref]bool{}, buried: map[core.Ref]bool{}}
		w.book.posts[m.ID] = posts[i]
		w.book.unreliable[m.ID] = p.Unreliable
		p.Messages = append(p.Messages, m)
	}
	w.book.mu.Unlock()
	c := w.client
	var out []core.TopicResult
	var err error
	run := func() { out, err = c.PublishTopic(context.Background(), p, nil) }
	if w.chance(30) {
		run = func() {
			tx := c.Begin()
			if err = tx.PublishTopic(p); err == nil {
				_, err = tx.Commit(context.Background())
			}
			out = tx.Topics()
		}
	}
	w.note("publish %d to %s retain=%t awaited=%t", len(posts), p.Topic, p.Retain, awaited)
	w.launch(awaited, run, func() { w.published(posts, out, err) })
}

// published takes the answer to a publish.
func (w *world) published(posts []*post, out []core.TopicResult, err error) {
	switch {
	case errors.Is(err, core.ErrStopped):
		return
	case err != nil || len(out) != len(posts):
		w.failf("publish to %s: %d answers, %w", posts[0].topic, len(out), err)
		return
	}
	w.tap.mu.Lock()
	defer w.tap.mu.Unlock()
	for i, p := range posts {
		if out[i].Matched != len(p.queues) {
			w.failf("publish to %s: answered with %d queues, stored in %v", p.topic, out[i].Matched, p.queues)
		}
		if p.change > w.tap.answered && p.term == w.tap.term {
			w.failf("publish to %s was answered before it was durable", p.topic)
		}
		if p.retain && p.change == 0 {
			w.failf("publish to %s was answered, and what it keeps is not stored", p.topic)
		}
	}
}

func (w *world) bind(y *yard, awaited bool) {
	b := core.Binding{Filter: pick(w.rng, "t/0", "t/+", "u/#", "+/0", "#", "#"), Queue: y.name}
	b.Options.QoS = uint8(w.rng.IntN(2))
	if w.chance(30) {
		b.Options.Accept = core.Accept(w.rng.IntN(3))
	}
	if w.chance(20) {
		b.Options.Selector = pick(w.rng, w.selectors...).Text()
	}
	c := w.client
	var err error
	w.note("bind %s to %s awaited=%t", y.name, b.Filter, awaited)
	w.launch(awaited, func() { err = c.Bind(context.Background(), b) }, func() {
		if err != nil && !errors.Is(err, core.ErrStopped) && !errors.Is(err, core.ErrNoQueue) {
			w.failf("bind %s to %s: %w", y.name, b.Filter, err)
		}
		if err == nil && awaited {
			w.tap.durably(func(l, _ *ledger) {
				for _, known := range l.bindings() {
					if known.Queue == y.name && known.Filter == b.Filter {
						return
					}
				}
				w.failf("bind %s to %s was answered and is not stored", y.name, b.Filter)
			})
		}
	})
}

func (w *world) unbind(y *yard, awaited bool) {
	filter := pick(w.rng, "t/0", "t/+", "u/#", "+/0", "#")
	c := w.client
	var err error
	w.note("unbind %s from %s awaited=%t", y.name, filter, awaited)
	w.launch(awaited, func() { err = c.Unbind(context.Background(), filter, y.name) }, func() {
		if err != nil && !errors.Is(err, core.ErrStopped) && !errors.Is(err, core.ErrNoQueue) && !errors.Is(err, core.ErrNoBinding) {
			w.failf("unbind %s from %s: %w", y.name, filter, err)
		}
	})
}

// take receives copies, and deletes some of them.
func (w *world) take(y *yard, most int) (n int) {
	w.harvest()
	got, err := w.client.Receive(context.Background(), y.name, core.ReceiveOptions{Max: most, Visibility: -1}, nil)
	if err != nil && !errors.Is(err, core.ErrNoQueue) {
		w.failf("receive from %s: %w", y.name, err)
	}
	w.note("take %d of %s", len(got), y.name)
	var list []core.Settlement
	w.book.mu.Lock()
	for i := range got {
		d := &got[i]
		p := w.book.posts[d.ID]
		switch {
		case p == nil || string(d.Topic) != p.topic || !bytes.Equal(d.Body, p.msg.Body):
			w.failf("%s gives %v, of %d bytes, which is not what was published", y.name, d.ID, len(d.Body))
			continue
		case p.buried[d.Receipt.Ref]:
			w.failf("%s gives %v, whose deletion was answered", y.name, d.ID)
		}
		if most > 20 || w.chance(70) {
			p.dropped[d.Receipt.Ref] = true
			list = append(list, core.Settlement{Receipt: d.Receipt})
		}
	}
	w.book.mu.Unlock()
	w.tap.durably(func(durable, head *ledger) {
		for i := range got {
			if ref := got[i].Receipt.Ref; head.shelf(ref.QID).bodies[ref] != nil && durable.shelf(ref.QID).bodies[ref] == nil {
				w.failf("%s gives %v before it is durable", y.name, got[i].ID)
			}
		}
	})
	if len(list) > 0 {
		errs, err := w.client.Settle(context.Background(), y.name, list, nil)
		if err = errors.Join(append(errs, err)...); err != nil && !errors.Is(err, core.ErrNoQueue) {
			w.failf("delete from %s: %w", y.name, err)
		}
		for i := range got {
			if p := w.book.posts[got[i].ID]; err == nil && p != nil && p.dropped[got[i].Receipt.Ref] {
				p.buried[got[i].Receipt.Ref] = true
			}
		}
	}
	return len(got)
}

// drainSubs takes all copies.
func (w *world) drainSubs() {
	for _, y := range w.subs {
		for w.take(y, 100) > 0 && w.failed() == nil {
		}
		time.Sleep(time.Second) // what had expired is dropped by a receive that gives nothing
		w.tap.durably(func(_, l *ledger) {
			if n := len(l.shelf(l.names[y.name]).bodies); n > 0 {
				w.failf("%d copies cannot be received from %s", n, y.name)
			}
		})
	}
}

// checkTopics compares what the engine tells of topics with the ledger, if nothing
// is under way.
func (w *world) checkTopics() {
	if !w.tap.idle() || len(w.tasks) > 0 {
		return
	}
	before := w.tap.submitted()
	told, err := w.client.Bindings(context.Background(), "", "", 1000)
	kept := map[string]core.MessageID{}
	err = errors.Join(err, w.client.Retained(context.Background(), "#", func(topic string, m *core.Stored) bool {
		kept[topic] = m.ID
		return true
	}))
	if err != nil {
		w.failf("look at topics: %w", err)
	}
	var indexed []core.Binding
	for _, y := range w.subs {
		if of, err := w.client.Bindings(context.Background(), y.name, "", 1000); err == nil {
			indexed = append(indexed, of...)
		}
	}
	if w.tap.submitted() != before {
		return
	}
	now := w.engine.Now()
	w.tap.durably(func(l, _ *ledger) {
		stored := l.bindings()
		if len(told) != len(stored) || len(indexed) != len(stored) {
			w.failf("the bindings are %v, in memory %v, stored are %d", told, indexed, len(stored))
		}
		for i := range told {
			if b := stored[told[i].After()]; b == nil || b.Filter != told[i].Filter || b.Options.Selector != told[i].Options.Selector {
				w.failf("binding %+v is not what is stored: %+v", told[i], b)
			}
		}
		for name, v := range l.records {
			topic, ok := strings.CutPrefix(name, retainedPrefix)
			if !ok {
				continue
			}
			s, err := core.DecodeRecord(bytes.Clone(v))
			id, there := kept[topic]
			delete(kept, topic)
			expired := s.ExpiresAt != 0 && s.ExpiresAt <= now
			if err != nil || !there && !expired || there && id != s.ID {
				w.failf("%s keeps %v, told is %v, %t: %v", topic, s.ID, id, there, err)
			}
		}
		if len(kept) > 0 {
			w.failf("values are told that are not stored: %v", kept)
		}
	})
}

// storedBinding is what the record of a binding says.
type storedBinding struct {
	core.Binding
	id core.QID // Queue.ID
}

// bindings returns the stored bindings by the end of their records' names.
func (l *ledger) bindings() map[string]*storedBinding {
	out := map[string]*storedBinding{}
	for name, v := range l.records {
		if rest, ok := strings.CutPrefix(name, bindingsPrefix); ok {
			out[rest] = decodeBinding(name, v)
		}
	}
	return out
}

func decodeBinding(name string, v []byte) *storedBinding {
	b, id, err := core.DecodeStoredBinding(name, v)
	if err != nil {
		return nil
	}
	return &storedBinding{Binding: b, id: id}
}

// selects tells whether a binding lets a post through.
func (b *storedBinding) selects(p *post, unreliable bool) bool {
	sel, err := selector.Parse(b.Options.Selector)
	return err == nil && match.Matches(b.Filter, p.topic) && (sel == nil || selectsPriority(sel, p.msg.Priority)) &&
		(b.Options.Accept == core.AcceptAll || (b.Options.Accept == core.AcceptUnreliable) == unreliable)
}

// justifyCopy tells whether a copy is of what was published, and, if it is a dead
// letter, of what edits drop. The book is locked.
func (b *book) justifyCopy(s *core.Stored, edits []core.Edit, before *ledger) error {
	p := b.posts[s.ID]
	if p == nil || p.topic != string(s.Topic) || !bytes.Equal(p.msg.Body, s.Body) {
		return fmt.Errorf("copy %v is not of what was published", s.ID)
	}
	if s.DeadLetter.Reason == core.DeadLetterNone {
		return nil
	}
	for i := range edits {
		from := before.queues[edits[i].QID]
		if edits[i].Kind != core.EditDropMessage || from == nil || from.name != s.DeadLetter.Source {
			continue
		}
		if m := from.bodies[edits[i].Ref]; m != nil && m.id == s.ID {
			return nil
		}
	}
	return fmt.Errorf("copy %v is a dead letter of none", s.ID)
}

// justifyLoss tells whether a copy may go with edit i of c, or be moved to the
// dead-letter queue. The book is locked.
func (b *book) justifyLoss(m *letter, c *core.Change, i int, s *shelf) error {
	now, keep := c.Time, s.cfg.Retention.Milliseconds()
	if b.posts[m.id].dropped[c.Edits[i].Ref] || m.expires != 0 && m.expires <= now || keep > 0 && m.at+keep <= now {
		return nil
	}
	for j := i + 1; j < len(c.Edits) && s.cfg.Redelivery.DeadLetterQueue != ""; j++ {
		if c.Edits[j].Kind == core.EditPutMessage && sameMessage(m.whole, c.Edits[j].Value) {
			return nil
		}
	}
	return fmt.Errorf("copy %v is dropped without a reason", m.id)
}

// checkFans checks that each publish is in one Change, in all queues that are bound
// at that moment and in no other, with the value that it keeps. before is the
// ledger without c, which is the n-th Change of its process.
func (b *book) checkFans(c *core.Change, before *ledger, n int, term uint32) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	bound, names := before.bindings(), maps.Clone(before.names)
	ids := map[core.QID]core.QID{} // incarnation by Queue.ID
	for _, qid := range names {
		ids[before.shelf(qid).id] = qid
	}
	want, got, kept := map[core.MessageID][]core.QID{}, map[core.MessageID][]core.QID{}, map[core.MessageID]bool{}
	for i := range c.Edits {
		e := &c.Edits[i]
		rest, binds := strings.CutPrefix(string(e.Key), bindingsPrefix)
		switch {
		case e.Kind == core.EditPutRecord && binds:
			if bound[rest] = decodeBinding(string(e.Key), e.Value); bound[rest] == nil {
				return fmt.Errorf("binding %q cannot be read", rest)
			}
		case e.Kind == core.EditDropRecord && binds:
			delete(bound, rest)
		case e.Kind == core.EditPutQueue:
			_, id, _, err := core.DecodeStoredQueue(e.Value)
			if err != nil {
				return err
			}
			ids[id] = e.QID
		case e.Kind == core.EditPutRecord && strings.HasPrefix(string(e.Key), retainedPrefix):
			s, err := core.DecodeRecord(bytes.Clone(e.Value))
			if err != nil {
				return err
			}
			if p := b.posts[s.ID]; p == nil || !p.retain || retainedPrefix+p.topic != string(e.Key) {
				return fmt.Errorf("%s keeps %v", e.Key, s.ID)
			}
			kept[s.ID] = true
			b.posts[s.ID].change, b.posts[s.ID].term = n, term
		case e.Kind == core.EditDropRecord && strings.HasPrefix(string(e.Key), retainedPrefix):
			b.unkept(string(e.Key)[len(retainedPrefix):], n, term)
		case e.Kind == core.EditPutMessage:
			s, err := core.DecodeRecord(bytes.Clone(e.Value))
			if err != nil {
				return err
			}
			p := b.posts[s.ID]
			if len(s.Topic) == 0 || p == nil || s.DeadLetter.Reason != core.DeadLetterNone {
				continue
			}
			if got[s.ID] == nil {
				for _, bd := range bound {
					if q := ids[bd.id]; bd.selects(p, b.unreliable[s.ID]) && !slices.Contains(want[s.ID], q) {
						want[s.ID] = append(want[s.ID], q)
					}
				}
			}
			got[s.ID] = append(got[s.ID], e.QID)
		}
	}
	for id, queues := range got {
		p := b.posts[id]
		slices.Sort(queues)
		slices.Sort(want[id])
		switch {
		case !slices.Equal(queues, want[id]):
			return fmt.Errorf("publish to %s is put into %v, bound are %v", p.topic, queues, want[id])
		case p.change != 0 && (p.change != n || p.term != term):
			return fmt.Errorf("publish to %s is in two changes", p.topic)
		case p.retain && len(p.msg.Body) > 0 && !kept[id]:
			return fmt.Errorf("publish to %s is not kept in the change of its copies", p.topic)
		}
		p.queues, p.change, p.term = queues, n, term
	}
	return nil
}

// unkept notes the Change of a publish that removes what its topic keeps: any that
// waits for one may be it.
func (b *book) unkept(topic string, n int, term uint32) {
	for _, p := range b.posts {
		if p.topic == topic && p.retain && len(p.msg.Body) == 0 && p.change == 0 {
			p.change, p.term = n, term
		}
	}
}
