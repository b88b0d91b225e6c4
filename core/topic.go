package core

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/leasemq/broker/core/match"
	"github.com/leasemq/broker/core/selector"
)

// fanBytesMax bounds what the copies of one publish come to.
const fanBytesMax = 64 << 20

// TopicPublish is a publish to a topic. Each queue with a binding that matches
// gets a copy of each message, with the same id.
type TopicPublish struct {
	Topic    string // levels joined by '/', see package match
	Messages []Message
	// Retain keeps the last of the messages for subscriptions to come, in the place
	// of the one before; one without a body removes that.
	Retain bool
	// From names who publishes: bindings with the same NoLocal are passed over.
	From string
	// Unreliable says that the messages may be lost (QoS 0), for BindingOptions.Accept.
	Unreliable bool
}

// TopicResult tells what became of a message that was published to a topic.
type TopicResult struct {
	Matched  int // queues that got a copy
	Full     int // queues that got none, since they are full and refuse more; not those that end then
	TooLarge int // queues that got none, since it is over their MaxMessageBytes
}

// PublishTopic publishes messages to a topic, in one Change for all queues, and
// answers when that is durable: after a crash every queue has its copies, or
// none has. What became of each message is appended to out; that nobody wants
// it is no error. A queue that is full and refuses more, or for which the message is
// too large, is passed over, and does not keep the others from theirs.
//
// FIFO queues need what messages for topics may not have: without a group it is
// the topic, and without a deduplication id (and content-based deduplication)
// each message counts as new.
func (c *Client) PublishTopic(ctx context.Context, p TopicPublish, out []TopicResult) ([]TopicResult, error) {
	results, done, err := c.engine.publishTopic(&p, nil)
	if err != nil {
		return out, err
	}
	if done != nil {
		if err := wait(ctx, done); err != nil {
			return out, err
		}
	}
	return append(out, results...), nil
}

// PublishTopicAsync is PublishTopic without the wait: done is called once, in the
// order of commits, when the copies are durable or the node has failed. It must
// not block. When an error is returned, done is not called.
func (c *Client) PublishTopicAsync(p TopicPublish, done func([]TopicResult, error)) error {
	_, _, err := c.engine.publishTopic(&p, done)
	return err
}

func (e *Engine) publishTopic(p *TopicPublish, async func([]TopicResult, error)) ([]TopicResult, *commit, error) {
	if err := e.held(); err != nil {
		return nil, nil, err
	}
	f, err := e.newFan(p)
	if err != nil {
		return nil, nil, err
	}
	e.seq.admit()
	for {
		parts, err := f.parts()
		if err != nil {
			return nil, nil, err
		}
		if len(parts) == 0 && async == nil && !p.Retain {
			return make([]TopicResult, len(f.msgs)), nil, nil
		}
		results := make([]TopicResult, len(f.msgs))
		done, err := e.commitParts(parts, func(g *group) {
			countCopies(parts, results)
			f.retain(g)
			if async != nil {
				g.calls = append(g.calls, func(err error) { async(results, err) })
			}
		})
		if err != errEvicted {
			return results, done, err
		}
	}
}

// target is a queue that gets what is published and a selector selects.
type target struct {
	q   *queue
	sel *selector.Selector
}

// targets returns the queues that get what is published, in lock order. One that
// has several bindings is there for each.
func (e *Engine) targets(p *TopicPublish) ([]target, error) {
	if err := e.topics.loaded(); err != nil {
		return nil, err
	}
	var room [16]*binding
	bindings := e.topics.tree.Append(room[:0], p.Topic)
	targets := make([]target, 0, len(bindings))
	for _, b := range bindings {
		if !b.Options.wants(p) {
			continue
		}
		q, err := e.queue(b.Queue)
		switch {
		case err == ErrNoQueue || err == nil && q.id != b.id:
			continue // it is being deleted
		case err != nil:
			return nil, err
		}
		targets = append(targets, target{q: q, sel: b.sel})
	}
	slices.SortFunc(targets, func(a, b target) int { return cmp.Compare(a.q.id, b.q.id) })
	return targets, nil
}

// fan is messages on their way to several queues. They are encoded once: but for
// FIFO queues every copy is the same record.
type fan struct {
	engine  *Engine
	publish *TopicPublish // nil: they go by routes
	group   string        // of messages without one, in FIFO queues
	msgs    []Message
	base    []draft
	shares  []sharing  // of bodies that are large enough
	shown   []*subject // the messages, for selectors; nil: none has asked
}

func (e *Engine) newFan(p *TopicPublish) (*fan, error) {
	if match.CheckTopic(p.Topic) != nil {
		return nil, ErrInvalidTopic
	}
	msgs := slices.Clone(p.Messages)
	for i := range msgs {
		msgs[i].Topic = p.Topic
		if err := checkMessage(&msgs[i], &QueueConfig{}); err != nil {
			return nil, err
		}
	}
	f := e.copies(msgs, p.Topic)
	f.publish = p
	return f, nil
}

// copies makes a fan of messages, which have been checked and become its own.
func (e *Engine) copies(msgs []Message, group string) *fan {
	f := &fan{engine: e, group: group[:min(len(group), groupBytesMax)], msgs: msgs, base: make([]draft, len(msgs))}
	now := e.clock.now()
	total := 0
	for i := range f.msgs {
		m := &f.msgs[i]
		if m.ID == (MessageID{}) {
			m.ID = NewMessageID()
		}
		counted := m.countedBytes()
		f.base[i] = draft{id: m.ID, at: now, counted: int64(counted), size: int64(m.sizeBytes()), copy: true, op: int32(i)}
		total += m.recordBytes(counted)
	}
	mem := make([]byte, 0, total)
	for i := range f.base {
		mem = f.base[i].encode(&f.msgs[i], mem)
	}
	f.offerShares()
	return f
}

// offerShares has copies share the bodies that are large enough.
func (f *fan) offerShares() {
	for i := range f.base {
		if n := len(f.msgs[i].Body); n >= shareBytesMin {
			if f.shares == nil {
				f.shares = make([]sharing, len(f.base))
			}
			f.shares[i] = sharing{base: f.base[i].rec, length: n}
			f.base[i].share = &f.shares[i]
		}
	}
}

// parts returns what the publish does to each of the queues that it is for.
func (f *fan) parts() ([]part, error) {
	targets, err := f.engine.targets(f.publish)
	if err != nil {
		return nil, err
	}
	parts := make([]part, 0, len(targets))
	drafts := make([]draft, 0, len(f.base)*len(targets))
	bytes := 0
	for n := 0; len(targets) > 0; targets = targets[n:] {
		q := targets[0].q
		for n = 1; n < len(targets) && targets[n].q == q; n++ {
		}
		from := len(drafts)
		for j := range f.base {
			if f.selects(targets[:n], j) {
				drafts = append(drafts, f.draft(j, q.config()))
				bytes += len(f.base[j].rec)
			}
		}
		if len(drafts) > from {
			parts = append(parts, part{q: q, drafts: drafts[from:len(drafts):len(drafts)]})
		}
	}
	if bytes > fanBytesMax && len(parts) > 1 {
		return nil, ErrTooLarge
	}
	return parts, nil
}

// selects tells whether one of several bindings selects message i.
func (f *fan) selects(bindings []target, i int) bool {
	for _, b := range bindings {
		if b.sel == nil || f.subject(i).selected(b.sel) {
			return true
		}
	}
	return false
}

// subject shows message i to selectors.
func (f *fan) subject(i int) *subject {
	if f.shown == nil {
		f.shown = make([]*subject, len(f.base))
	}
	if f.shown[i] == nil {
		f.shown[i] = newSubject()
		if err := f.shown[i].show(f.base[i].rec); err != nil {
			panic(fmt.Sprintf("record that was just made: %v", err))
		}
	}
	return f.shown[i]
}

// draft returns the copy of message i for a queue of cfg.
func (f *fan) draft(i int, cfg *QueueConfig) draft {
	d, m := f.base[i], &f.msgs[i]
	if cfg.Kind != KindFIFO || m.Group != "" && m.DedupID != "" {
		d.address(m, cfg)
		return d
	}
	own := *m
	if own.Group == "" {
		own.Group = f.group
	}
	if own.DedupID == "" && !cfg.ContentDedup {
		own.DedupID = NewMessageID().String()
	}
	f.engine.draft(&d, &own, cfg, d.at, nil)
	return d
}

// countCopies tells what became of each message that was published to a topic.
func countCopies(parts []part, results []TopicResult) {
	for i := range parts {
		for j := range parts[i].drafts {
			d := &parts[i].drafts[j]
			switch {
			case !d.copy, d.op < 0, d.skip == skipGone, d.skip == skipFull && parts[i].q.ends():
			case d.skip == skipFull:
				results[d.op].Full++
			case d.skip == skipTooLarge:
				results[d.op].TooLarge++
			default:
				results[d.op].Matched++
			}
		}
	}
}
