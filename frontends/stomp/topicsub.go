package stomp

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends/stomp/frame"
)

// subscriptionKind says what becomes of the queue of a subscription.
type subscriptionKind uint8

const (
	ofQueue     subscriptionKind = iota
	ofTransient                  // a memory queue of its own, gone with it
	ofTemporary                  // a memory queue of its connection
	ofDurable                    // kept until the client does away with it
	ofNamed                      // the same, with a name that the client has chosen
)

// subscriptionName returns the name of a durable subscription in the dialects of
// ActiveMQ and Artemis; it is unique to the client-id.
func subscriptionName(f *frame.Frame) string {
	for _, name := range []string{"activemq.subscriptionName", "durable-subscription-name", "durable-subscriber-name"} {
		if v := f.Get(name); v != "" {
			return v
		}
	}
	return ""
}

// wantsDurable tells whether a frame says so in the dialect of RabbitMQ.
func wantsDurable(f *frame.Frame) bool {
	return f.Get("durable") == "true" || f.Get("persistent") == "true"
}

// durableQueue is the queue of a durable subscription of this client-id.
func (c *conn) durableQueue(name string) string {
	return durablePrefix + escapeName(c.clientID) + "/" + escapeName(name)
}

// sharedPrefix begins the names of RabbitMQ's durable subscriptions, which all
// connections share.
const sharedPrefix = durablePrefix + "~/"

// escapeName makes one part of a queue name of s.
func escapeName(s string) string {
	if s == "~" {
		return "%7E"
	}
	return strings.NewReplacer("%", "%25", "/", "%2F").Replace(s)
}

// openTopic subscribes to a topic.
func (s *subscription) openTopic(f *frame.Frame, d destination) *fault {
	name, given := subscriptionName(f), f.Get("x-queue-name")
	switch {
	case s.private && (given != "" || name != ""):
		return fail("Unsupported header", "'exclusive' is of subscriptions that end with their connection, and this one has a name.")
	case s.private:
		return s.openTransient(d)
	case given != "":
		if f.Get("auto-delete") == "true" {
			return fail("Unsupported header", "'x-queue-name' is of queues that are kept, and 'auto-delete' is true.")
		}
		if !validName(given) || reserved(given) {
			return invalidHeader("x-queue-name", given, "a name of a queue")
		}
		s.kind, s.queue = ofNamed, given
	case name != "":
		if s.conn.clientID == "" {
			return fail("Missing header", "A durable subscription needs 'client-id' on CONNECT.")
		}
		s.kind, s.queue = ofDurable, s.conn.durableQueue(name)
	case wantsDurable(f) && f.Get("auto-delete") != "true":
		if s.id == "" {
			return missingHeader(frame.Subscribe, "id")
		}
		s.kind, s.queue = ofDurable, sharedPrefix+escapeName(string(appendTopic(nil, d.topic)))+"/"+escapeName(s.id)
	default:
		return s.openTransient(d)
	}
	s.sieve = s.selector
	if s.kind == ofDurable {
		s.selector = nil // nothing else comes into its queue
	}
	s.filter = d.topic
	if len(s.queue) > core.QueueNameBytesMax {
		return fail("Invalid destination", "The name of the durable subscription comes to over %d bytes.", core.QueueNameBytesMax)
	}
	if err := s.bindDurable(s.kind == ofDurable || !s.conn.server.options.NoAutoCreate); err != nil {
		return coreFault(err, d.text)
	}
	return nil
}

// openTransient subscribes for as long as the connection lives.
func (s *subscription) openTransient(d destination) *fault {
	c := s.conn
	s.kind, s.filter = ofTransient, d.topic
	s.sieve, s.selector = s.selector, nil
	s.queue = temporaryPrefix + c.session + "/" + strconv.FormatUint(c.subCount+1, 10)
	err := c.declareMemory(s.queue, d.text)
	if err == nil {
		err = c.client.Bind(c.ctx, s.binding(nil))
	}
	if err == nil {
		err = s.replay()
	}
	if err != nil {
		return coreFault(err, d.text)
	}
	return nil
}

func (s *subscription) binding(data []byte) core.Binding {
	b := core.Binding{Filter: s.filter, Queue: s.queue, Origin: core.OriginSTOMP}
	b.Options.Data, b.Options.Selector = data, s.sieve.Text()
	if s.noLocal {
		b.Options.NoLocal = s.conn.publisher()
	}
	return b
}

// declareMemory creates a queue that is gone with the connection.
func (c *conn) declareMemory(name, text string) error {
	o := &c.server.options
	cfg := core.QueueConfig{
		Kind: core.KindMemory, MaxMessages: int64(o.TopicMessages), MaxBytes: o.TopicBytes, Overflow: core.OverflowDropOldest,
	}
	if o.CloseSlow {
		cfg.Overflow = core.OverflowClose
	}
	_, err := c.client.DeclareMemory(name, cfg, c.owner, func() {
		c.server.counters.slow.Add(1)
		c.end(fail("Slow consumer", "Messages of '%.200s' came faster than they were taken.", text))
	})
	return err
}

// bindDurable creates and binds the queue of a durable subscription, as far as
// that was not done before. A subscription of a client-id that changes its topic
// or selector is a new one.
func (s *subscription) bindDurable(create bool) error {
	c := s.conn
	if create {
		created, err := c.declareNamed(s.queue, s.binding([]byte(freshMark)))
		if err != nil {
			return err
		}
		if created {
			return s.fill()
		}
	}
	bindings, err := c.client.Bindings(c.ctx, s.queue, "", core.QueueBindingsMax)
	if err != nil {
		return err
	}
	own := s.kind == ofDurable && !strings.HasPrefix(s.queue, sharedPrefix)
	i := slices.IndexFunc(bindings, func(b core.Binding) bool { return b.Filter == s.filter })
	changed := i >= 0 && own && bindings[i].Options.Selector != s.sieve.Text()
	switch {
	case i >= 0 && !changed && string(bindings[i].Options.Data) == freshMark:
		return s.fill() // a crash came in between, and nobody was told of it
	case i >= 0 && !changed:
		return c.client.Bind(c.ctx, s.binding(bindings[i].Options.Data))
	case len(bindings) > 0 && s.kind == ofDurable:
		if err := c.client.Delete(c.ctx, s.queue); err != nil && !isNoQueue(err) {
			return err
		}
		if _, err := c.declareNamed(s.queue, s.binding([]byte(freshMark))); err != nil {
			return err
		}
		return s.fill()
	}
	return c.client.Bind(c.ctx, s.binding(nil))
}

// fill gives a new durable subscription the retained values, and then marks it as
// complete.
func (s *subscription) fill() error {
	if err := s.replay(); err != nil {
		return err
	}
	return s.conn.client.Bind(s.conn.ctx, s.binding([]byte(createdMark)))
}

// What is kept with the binding of a queue that a subscription created: it goes
// with the subscription.
const (
	freshMark   = "fresh" // until it has the retained values
	createdMark = "created"
)

// replayMax bounds the retained values that a new subscription gets.
const (
	replayMax  = 1000
	replayStep = 64
)

// replay puts the retained values that a subscription would have got into its queue.
func (s *subscription) replay() error {
	c := s.conn
	var msgs []core.Message
	now := c.server.now()
	err := c.client.Retained(c.ctx, s.filter, func(topic string, m *core.Stored) bool {
		if m.Selected(s.sieve) {
			msgs = append(msgs, again(s.queue, topic, m, now))
		}
		return len(msgs) < replayMax
	})
	for chunk := range slices.Chunk(msgs, replayStep) {
		if err != nil {
			return err
		}
		_, err = c.client.Publish(c.ctx, s.queue, chunk, nil)
	}
	return err
}

// again makes a message for a queue of a retained one. FIFO queues need what it
// may not have.
func again(queue, topic string, m *core.Stored, now int64) core.Message {
	out := core.Message{
		Body: slices.Clone(m.Body), Topic: topic, Delay: -1, Priority: m.Priority, Origin: m.Origin,
		Group: string(m.Group), ContentType: string(m.ContentType), TraceParent: string(m.TraceParent),
	}
	if m.ExpiresAt > 0 {
		out.TTL = max(time.Duration(m.ExpiresAt-now), 1) * time.Millisecond
	}
	if out.Group == "" && strings.HasSuffix(queue, ".fifo") {
		out.Group, out.DedupID = topic[:min(len(topic), 128)], core.NewMessageID().String()
	}
	m.Attributes(func(a core.Attribute) bool {
		a.Value = slices.Clone(a.Value)
		out.Attributes = append(out.Attributes, a)
		return true
	})
	return out
}

// durableLocked returns a subscription of this connection by its queue.
func (c *conn) durableLocked(queue string) *subscription {
	for _, s := range c.subs {
		if s.kind == ofDurable && s.queue == queue {
			return s
		}
	}
	return nil
}

// close does away with what a subscription that has ended leaves behind: that of
// a durable one only if the frame says so.
func (s *subscription) close(f *frame.Frame, name string) *fault {
	c := s.conn
	var err error
	switch {
	case s.kind == ofTransient:
		err = c.client.Delete(c.ctx, s.queue)
	case s.kind == ofDurable && (name != "" || wantsDurable(f)):
		err = c.client.Delete(c.ctx, s.queue)
	case s.kind == ofNamed && wantsDurable(f):
		err = s.unbind()
	}
	if err != nil && !isNoQueue(err) {
		return coreFault(err, "")
	}
	return nil
}

// unbind takes a queue that has its own name off the topic. It is deleted if a
// subscription has created it, and no other binding is left.
func (s *subscription) unbind() error {
	c := s.conn
	bindings, err := c.client.Bindings(c.ctx, s.queue, "", core.QueueBindingsMax)
	if err != nil {
		return err
	}
	mark := ""
	if len(bindings) == 1 && bindings[0].Filter == s.filter {
		mark = string(bindings[0].Options.Data)
	}
	if mark == createdMark || mark == freshMark {
		return c.client.Delete(c.ctx, s.queue)
	}
	if err = c.client.Unbind(c.ctx, s.filter, s.queue); errors.Is(err, core.ErrNoBinding) {
		return nil
	}
	return err
}

// forgetDurable does away with a durable subscription that nobody uses here.
func (c *conn) forgetDurable(f *frame.Frame, name string) *fault {
	if c.clientID == "" {
		return fail("Missing header", "A durable subscription needs 'client-id' on CONNECT.")
	}
	err := c.client.Delete(c.ctx, c.durableQueue(name))
	switch {
	case isNoQueue(err):
		return fail("Subscription not found", "There is no durable subscription '%.200s'.", name)
	case err != nil:
		return coreFault(err, "")
	}
	c.receiptNow(f)
	return nil
}
