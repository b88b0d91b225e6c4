package core

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/leasemq/broker/core/match"
)

// Bounds of routes.
const (
	CopyToMax            = 16   // names of Routes.CopyTo
	PublishTopicBytesMax = 1024 // of Routes.PublishTopic
	routeQueuesMax       = 64   // queues that one message is routed through; further ones count as missing
)

// Routes say what else a send to a queue does, in the same Change. They are
// followed from queue to queue; one that leads back to a queue that the message
// has passed, to one that is not there or to a memory queue is passed over, so that
// a message is never lost by its routes: what cannot be moved stays. Dead letters,
// what a move task brings and copies of what was published to topics are not sent,
// and not routed.
//
// Each copy has the message's id, and lies in its queue as if it had been sent
// there: a delay of the message counts, else that of the queue. FIFO queues get a
// group and a deduplication id where the message has none, as from topics.
type Routes struct {
	// CopyTo names queues that get a copy. One that is full, or for which the
	// message is too large, gets none.
	CopyTo []string `json:"copy_to,omitzero"`
	// MoveTo names the queue that gets the message in the place of this one, which
	// keeps nothing. If it is full and refuses more, so is the send.
	MoveTo string `json:"move_to,omitzero"`
	// PublishTopic is a topic that the message is published to in the place of
	// being kept here. {name} stands for the value of the attribute of that name,
	// without which the send fails with ErrRoute. See AttributeQoS for how.
	PublishTopic string `json:"publish_topic,omitzero"`
}

// Empty tells whether there are no routes.
func (r *Routes) Empty() bool { return len(r.CopyTo) == 0 && r.MoveTo == "" && r.PublishTopic == "" }

// Attributes of a message that say how PublishTopic publishes it.
const (
	AttributeQoS    = "mqtt.qos"    // 0 to 2; 1 if it is absent
	AttributeRetain = "mqtt.retain" // true or 1: it is retained; false or 0
)

// Topic returns the topic that m is to be published to by PublishTopic, or why
// it cannot be: ErrRoute.
func (r *Routes) Topic(m *Message) (string, error) {
	p, err := r.publish(m)
	return p.Topic, err
}

// publish returns what becomes of m by PublishTopic.
func (r *Routes) publish(m *Message) (p TopicPublish, err error) {
	p.Topic, err = expand(r.PublishTopic, func(name string) (string, error) { return attributeLevel(m, name) })
	if err == nil && match.CheckTopic(p.Topic) != nil {
		err = fmt.Errorf("%w: %.100q is not a topic", ErrRoute, p.Topic)
	}
	if err != nil {
		return p, err
	}
	out := *m
	for i := range m.Attributes {
		a := &m.Attributes[i]
		if a.Kind != AttributeUser || a.Name != AttributeQoS && a.Name != AttributeRetain {
			continue
		}
		value := string(a.Value)
		switch {
		case strings.HasPrefix(a.Type, "Binary"):
			value = ""
		case a.Name == AttributeRetain && value == "1":
			value = "true"
		case a.Name == AttributeRetain && value == "0":
			value = "false"
		}
		switch {
		case a.Name == AttributeQoS && (value == "0" || value == "1" || value == "2"):
			p.Unreliable = value == "0"
		case a.Name == AttributeRetain && (value == "true" || value == "false"):
			p.Retain = value == "true"
		default:
			return p, fmt.Errorf("%w: the attribute %q is %.100q, which is none of %s", ErrRoute, a.Name, a.Value, attributeValues(a.Name))
		}
		if value != "false" {
			out.Attributes = append(slices.Clip(out.Attributes), Attribute{Kind: AttributeProperty, Name: a.Name, Value: []byte(value)})
		}
	}
	p.Messages = []Message{out}
	return p, nil
}

func attributeValues(name string) string {
	if name == AttributeQoS {
		return "0, 1 and 2"
	}
	return "true, false, 1 and 0"
}

// expand replaces each {name} of a pattern.
func expand(pattern string, value func(name string) (string, error)) (string, error) {
	var out strings.Builder
	for {
		before, rest, more := strings.Cut(pattern, "{")
		out.WriteString(before)
		if !more {
			return out.String(), nil
		}
		name, after, closed := strings.Cut(rest, "}")
		if !closed || name == "" {
			return "", fmt.Errorf("%w: in %.100q a { does not begin the name of an attribute", ErrRoute, pattern)
		}
		v, err := value(name)
		if err != nil {
			return "", err
		}
		out.WriteString(v)
		pattern = after
	}
}

// attributeLevel returns the value of an attribute if it can be part of one level
// of a topic.
func attributeLevel(m *Message, name string) (string, error) {
	for i := range m.Attributes {
		a := &m.Attributes[i]
		switch {
		case a.Kind == AttributeSystem || a.Name != name:
			continue
		case strings.HasPrefix(a.Type, "Binary") || len(a.Value) == 0 || bytes.ContainsAny(a.Value, "/+#\x00") || !utf8.Valid(a.Value):
			return "", fmt.Errorf("%w: the attribute %.100q cannot be part of a topic", ErrRoute, name)
		}
		return string(a.Value), nil
	}
	return "", fmt.Errorf("%w: the message has no attribute %.100q, which the topic needs", ErrRoute, name)
}

// Check refuses routes that a queue of that name cannot have, with ErrInvalidConfig.
func (r *Routes) Check(name string) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrInvalidConfig, fmt.Sprintf(format, args...))
	}
	switch {
	case r.Empty():
		return nil
	case len(r.CopyTo) > CopyToMax:
		return bad("copies go to %d queues, over %d", len(r.CopyTo), CopyToMax)
	case r.MoveTo != "" && r.PublishTopic != "":
		return bad("messages are moved to a queue or published to a topic, not both")
	case len(r.PublishTopic) > PublishTopicBytesMax:
		return bad("the topic has %d bytes, over %d", len(r.PublishTopic), PublishTopicBytesMax)
	}
	targets := slices.Clone(r.CopyTo)
	if r.MoveTo != "" {
		targets = append(targets, r.MoveTo)
	}
	for i, to := range targets {
		switch {
		case to == name:
			return bad("a route leads back to %.100q itself", name)
		case to == "" || len(to) > QueueNameBytesMax || !utf8.ValidString(to):
			return bad("a route leads to %.100q, which is no name of a queue", to)
		case slices.Contains(targets[:i], to):
			return bad("two routes lead to %.100q", to)
		}
	}
	if r.PublishTopic == "" {
		return nil
	}
	topic, err := expand(r.PublishTopic, func(string) (string, error) { return "x", nil })
	if err != nil || match.CheckTopic(topic) != nil {
		return bad("%.100q is neither a topic nor one with names of attributes in braces", r.PublishTopic)
	}
	return nil
}

// routing takes one message along the routes of the queue that it is sent to.
type routing struct {
	engine *Engine
	parts  *partList
	fan    *fan // of the message alone
	op     int32
	passed []*queue
}

// route adds what a send of m to q does. It returns the message's id.
func (e *Engine) route(l *partList, q *queue, m *Message, op int32) (MessageID, error) {
	if err := checkMessage(m, q.config()); err != nil {
		return MessageID{}, fmt.Errorf("queue %q: %w", q.name, err)
	}
	f := e.copies([]Message{*m}, q.name)
	r := &routing{engine: e, parts: l, fan: f, op: op}
	return f.msgs[0].ID, r.follow(q, true)
}

// follow does what q's configuration asks for. What q gets is the message itself
// if main is set, else a copy.
func (r *routing) follow(q *queue, main bool) error {
	r.passed = append(r.passed, q)
	cfg := q.config()
	for _, name := range cfg.Routes.CopyTo {
		to, err := r.next(name)
		if err == nil && to != nil {
			err = r.follow(to, false)
		}
		if err != nil {
			return err
		}
	}
	if cfg.Routes.PublishTopic != "" {
		return r.publish(&cfg.Routes)
	}
	if cfg.Routes.MoveTo != "" {
		if to, err := r.next(cfg.Routes.MoveTo); err != nil || to != nil {
			if err == nil {
				err = r.follow(to, main)
			}
			return err
		}
	}
	return r.put(q, cfg, main)
}

// next returns the queue that a route leads to, nil if it is not to be followed.
func (r *routing) next(name string) (*queue, error) {
	q, err := r.engine.queue(name)
	switch {
	case err != nil && err != ErrNoQueue:
		return nil, err
	case err == nil && slices.Contains(r.passed, q):
		return nil, nil
	case err == nil && len(r.passed) < routeQueuesMax:
		q.mu.Lock()
		gone := q.gone
		q.mu.Unlock()
		if !gone && q.memory == nil {
			return q, nil
		}
	}
	r.engine.refused[refusedNoQueue].Add(1)
	return nil, nil
}

// publish adds the copies of a message that goes to a topic.
func (r *routing) publish(routes *Routes) error {
	p, err := routes.publish(&r.fan.msgs[0])
	if err != nil {
		return err
	}
	f, err := r.engine.addCopies(r.parts, &p, noOp)
	if err == nil && p.Retain {
		r.parts.retain = append(r.parts.retain, f)
	}
	return err
}

// noOp is the operation of copies whose results nobody asks for.
const noOp = -1 << 20

// put adds the message to q.
func (r *routing) put(q *queue, cfg *QueueConfig, main bool) error {
	d := r.fan.draft(0, cfg)
	if main {
		if q != r.passed[0] && d.tooLarge(cfg) {
			return fmt.Errorf("queue %q: %w", q.name, ErrTooLarge)
		}
		d.copy, d.op = false, r.op
	} else {
		d.op, d.of = noOp, r.op+1
	}
	if err := r.parts.count(len(d.rec)); err != nil {
		return err
	}
	p := r.parts.of(q)
	p.drafts = append(p.drafts, d)
	p.routed = true
	return nil
}

// publishRouted decides a send to a queue that has routes.
func (e *Engine) publishRouted(q *queue, msgs []Message, async func([]Published, error)) ([]draft, *commit, error) {
	q.mu.Lock()
	gone := q.gone
	q.mu.Unlock()
	if gone {
		return nil, nil, ErrNoQueue
	}
	l := newPartList()
	out := make([]draft, len(msgs))
	for i := range msgs {
		var err error
		if out[i].id, err = e.route(&l, q, &msgs[i], int32(i)); err != nil {
			return nil, nil, err
		}
	}
	done, err := e.commitParts(l.parts, func(g *group) {
		for _, f := range l.retain {
			f.retain(g)
		}
		for i := range l.parts {
			for j := range l.parts[i].drafts {
				if d := &l.parts[i].drafts[j]; !d.copy {
					out[d.op] = *d
				}
			}
		}
		if async != nil {
			g.answer(async, func() []Published { return appendPublished(nil, out) })
		}
	})
	if err == ErrNoQueue && len(l.parts) > 0 {
		err = errEvicted // one of them is being deleted: its routes are looked at again
	}
	return out, done, err
}

// dropRepeats leaves out the copies of messages that turned out to be duplicates of
// earlier sends.
func dropRepeats(parts []part) {
	repeated := make(map[int32]bool)
	each := func(visit func(d *draft)) {
		for i := range parts {
			for j := range parts[i].drafts {
				visit(&parts[i].drafts[j])
			}
		}
	}
	each(func(d *draft) {
		if !d.copy && (d.known != nil || d.twin != nil) {
			repeated[d.op+1] = true
		}
	})
	each(func(d *draft) {
		if d.of != 0 && repeated[d.of] {
			d.skip = skipRepeated
		}
	})
}
