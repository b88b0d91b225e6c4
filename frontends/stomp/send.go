package stomp

import (
	"errors"
	"strconv"
	"time"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends/stomp/frame"
)

// send stores a message, or keeps it for its transaction.
func (c *conn) send(f *frame.Frame) *fault {
	text, ok := f.Lookup("destination")
	if !ok {
		return fail("Missing destination", "SEND must have the header 'destination'.")
	}
	d, bad := c.place(text)
	if bad == nil {
		d, bad = c.target(d)
	}
	if bad != nil {
		return bad
	}
	o, bad := c.outgoing(f, d)
	if bad != nil {
		return bad
	}
	if tx := f.Get("transaction"); tx != "" {
		return c.sendLater(f, tx, o)
	}
	n := c.owe(answer{receipt: f.Get("receipt"), size: len(f.Body) * max(1, len(d.parts))})
	done := func(err error) {
		if err == nil || d.kind == toReply && isNobody(err) {
			c.settleAnswer(n, nil)
			return
		}
		c.settleAnswer(n, coreFault(err, d.text))
	}
	if err := c.publish(&o, done); err != nil {
		done(err)
	}
	return nil
}

// isNobody tells whether the one who asked for a reply is gone, or does not take
// any more. That is as it is with a topic that nobody subscribes to.
func isNobody(err error) bool { return isNoQueue(err) || errors.Is(err, core.ErrQueueFull) }

// outgoing is a message on its way to a destination.
type outgoing struct {
	to        destination
	msg       core.Message
	retain    bool // it is kept for those that subscribe to its topic later
	transient bool // it may be lost: QoS 0 for subscribers of MQTT
}

// publish sends o. A queue is created if need be.
func (c *conn) publish(o *outgoing, done func(error)) error {
	switch o.to.kind {
	case toTopic:
		return c.client.PublishTopicAsync(c.toPublish(o), func(results []core.TopicResult, err error) {
			c.server.counters.passed(results)
			done(err)
		})
	case toMany:
		return c.publishMany(o, done)
	}
	msgs := []core.Message{o.msg}
	told := func(_ []core.Published, err error) { done(err) }
	err := c.client.PublishAsync(o.to.queue, msgs, told)
	if errors.Is(err, core.ErrNoQueue) {
		if err = c.declare(o.to); err == nil {
			err = c.client.PublishAsync(o.to.queue, msgs, told)
		}
	}
	return err
}

// publishMany sends to all destinations, or to none.
func (c *conn) publishMany(o *outgoing, done func(error)) error {
	tx := c.client.Begin()
	for _, part := range o.parts() {
		if err := c.prepare(part.to); err != nil {
			return err
		}
		if err := c.stage(tx, &part); err != nil {
			return err
		}
	}
	return tx.CommitAsync(func(_ []core.Published, err error) {
		c.server.counters.passed(tx.Topics())
		done(err)
	})
}

// parts returns what is to be sent to each destination.
func (o *outgoing) parts() []outgoing {
	if o.to.kind != toMany {
		return []outgoing{*o}
	}
	all := make([]outgoing, len(o.to.parts))
	for i, d := range o.to.parts {
		one := outgoing{to: d, msg: o.msg, retain: o.retain, transient: o.transient}
		one.msg.Attributes = append(appendSent(nil, d), o.msg.Attributes...)
		all[i] = one
	}
	return all
}

// prepare creates the queue of d if it is not there.
func (c *conn) prepare(d destination) error {
	if d.kind != toQueue {
		return nil
	}
	_, err := c.client.Queue(c.ctx, d.queue)
	if errors.Is(err, core.ErrNoQueue) {
		err = c.declare(d)
	}
	return err
}

// stage adds o to a transaction of the core.
func (c *conn) stage(tx *core.Tx, o *outgoing) error {
	if o.to.kind == toTopic {
		return tx.PublishTopic(c.toPublish(o))
	}
	if o.to.kind == toReply {
		if _, err := c.client.Queue(c.ctx, o.to.queue); isNoQueue(err) {
			return nil
		}
	}
	return tx.Publish(o.to.queue, o.msg)
}

// defaultPriority is that of a message that does not say.
const defaultPriority = 4

// outgoing makes a message of a SEND. It is a view of the frame.
func (c *conn) outgoing(f *frame.Frame, d destination) (outgoing, *fault) {
	o := outgoing{to: d, msg: core.Message{Body: f.Body, Origin: core.OriginSTOMP, Delay: -1, Priority: defaultPriority}}
	c.attrs = appendSent(c.attrs[:0], d)
	for i := range f.Headers {
		h := &f.Headers[i]
		kind, bad := c.property(&o, h)
		if bad != nil {
			return o, bad
		}
		if kind != headerOurs {
			a := core.Attribute{Kind: core.AttributeUser, Name: h.Name, Value: h.Bytes}
			if kind == headerKnown {
				a.Kind = core.AttributeProperty
			}
			c.attrs = append(c.attrs, a)
		}
	}
	o.msg.Attributes = c.attrs
	return o, nil
}

// appendSent appends the destination as it was sent, if nothing else tells it.
func appendSent(attrs []core.Attribute, d destination) []core.Attribute {
	if d.usual || d.kind == toMany || d.kind == toReply {
		return attrs
	}
	return append(attrs, core.Attribute{Kind: core.AttributeProperty, Name: destinationName, Value: []byte(d.text)})
}

// headerKind says what becomes of a header of a SEND.
type headerKind uint8

const (
	headerOwn   headerKind = iota // the sender's: every receiver sees it
	headerKnown                   // has a meaning here: STOMP receivers see it
	headerOurs                    // is not kept
)

// destinationName is the property that has the destination as it was sent.
const destinationName = "destination"

// property sets in o what a header says.
func (c *conn) property(o *outgoing, h *frame.Header) (headerKind, *fault) {
	m := &o.msg
	switch h.Name {
	case "destination", frame.ContentLength, "receipt", "transaction", "message-id", "ack", "subscription", "redelivered",
		deliveryCountName, jmsCountName, originalName, deathQueueName, deathReasonName, groupFirstName:
		return headerOurs, nil
	case "content-type":
		if m.ContentType != "" {
			return headerOurs, nil // the first holds
		}
		m.ContentType = h.Value
		return headerOurs, nil
	case "traceparent":
		m.TraceParent = h.Value
		return headerOurs, nil
	case groupName, "message_group":
		m.Group = h.Value
		return headerKnown, nil
	case "_AMQ_DUPL_ID":
		m.DedupID = h.Value
		return headerKnown, nil
	case "persistent":
		o.transient = h.Value == "false"
		return headerKnown, nil
	case "reply-to":
		return headerOwn, c.replyTo(h)
	case "retain":
		return headerKnown, o.setRetain(h)
	case "priority":
		return headerKnown, setPriority(m, h)
	case "expires", "expiration", "ttl":
		return headerKnown, c.setExpiry(m, h)
	case "AMQ_SCHEDULED_DELAY", "x-delay", "AMQ_SCHEDULED_TIME":
		return headerKnown, c.setDelay(m, h)
	case "AMQ_SCHEDULED_PERIOD", "AMQ_SCHEDULED_REPEAT", "AMQ_SCHEDULED_CRON":
		return headerKnown, fail("Unsupported header", "'%s' is not supported: messages are sent once.", h.Name)
	}
	return headerOwn, nil
}

// setRetain reads whether a message is kept for its topic, in the words of Apollo
// too: remove does away with what is kept.
func (o *outgoing) setRetain(h *frame.Header) *fault {
	switch h.Value {
	case "true", "set":
		o.retain = true
	case "remove":
		o.retain, o.msg.Body = true, nil
	case "false":
	default:
		return invalidHeader(h.Name, h.Value, "true, false, set or remove")
	}
	return nil
}

func setPriority(m *core.Message, h *frame.Header) *fault {
	n, err := strconv.Atoi(h.Value)
	if err != nil || n < 0 {
		return invalidHeader(h.Name, h.Value, "a number from 0 to 9")
	}
	m.Priority = uint8(min(n, core.PriorityMax)) // RabbitMQ has some up to 255
	return nil
}

// setExpiry reads a time to live, which RabbitMQ and Apollo have in milliseconds
// from now, and ActiveMQ as a time; 0 is never.
func (c *conn) setExpiry(m *core.Message, h *frame.Header) *fault {
	ms, err := strconv.ParseInt(h.Value, 10, 64)
	if err != nil || ms < 0 {
		return invalidHeader(h.Name, h.Value, "a number of milliseconds")
	}
	if h.Name == "expires" {
		if ms == 0 {
			return nil
		}
		ms = max(ms-c.server.now(), 1)
	}
	if ms == 0 {
		// RabbitMQ drops such a message unless a consumer waits; here it lives
		// for a moment.
		if h.Name == "expiration" {
			m.TTL = time.Millisecond
		}
		return nil
	}
	m.TTL = milliseconds(ms)
	return nil
}

// setDelay reads when a message is to be delivered.
func (c *conn) setDelay(m *core.Message, h *frame.Header) *fault {
	ms, err := strconv.ParseInt(h.Value, 10, 64)
	if err == nil && h.Name == "AMQ_SCHEDULED_TIME" {
		ms = max(ms-c.server.now(), 0)
	}
	if err != nil || ms < 0 || milliseconds(ms) > core.DelayMax {
		return invalidHeader(h.Name, h.Value, "milliseconds, at most a year from now")
	}
	m.Delay = milliseconds(ms)
	return nil
}

// milliseconds is a duration that does not overflow.
func milliseconds(ms int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	return time.Duration(min(ms, most)) * time.Millisecond
}
