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
	if bad != nil {
		return bad
	}
	m, bad := c.message(f, d)
	if bad != nil {
		return bad
	}
	if tx := f.Get("transaction"); tx != "" {
		return c.sendLater(f, tx, d, m)
	}
	n := c.owe(answer{receipt: f.Get("receipt"), size: len(f.Body)})
	err := c.publish(d, m, func(_ []core.Published, err error) {
		if err != nil {
			c.settleAnswer(n, coreFault(err, d.text))
			return
		}
		c.settleAnswer(n, nil)
	})
	if err != nil {
		c.settleAnswer(n, coreFault(err, d.text))
	}
	return nil
}

// publish sends m to a queue, which is created if need be.
func (c *conn) publish(d destination, m core.Message, done func([]core.Published, error)) error {
	msgs := []core.Message{m}
	err := c.client.PublishAsync(d.queue, msgs, done)
	if errors.Is(err, core.ErrNoQueue) {
		if err = c.declare(d); err == nil {
			err = c.client.PublishAsync(d.queue, msgs, done)
		}
	}
	return err
}

// defaultPriority is that of a message that does not say.
const defaultPriority = 4

// message makes a message of a SEND. It is a view of the frame.
func (c *conn) message(f *frame.Frame, d destination) (core.Message, *fault) {
	m := core.Message{Body: f.Body, Origin: core.OriginSTOMP, Delay: -1, Priority: defaultPriority}
	c.attrs = c.attrs[:0]
	if d.text != queuePrefix+d.queue {
		c.attrs = append(c.attrs, core.Attribute{Kind: core.AttributeProperty, Name: destinationName, Value: []byte(d.text)})
	}
	for i := range f.Headers {
		h := &f.Headers[i]
		kind, bad := c.property(&m, h)
		if bad != nil {
			return m, bad
		}
		if kind != headerOurs {
			a := core.Attribute{Kind: core.AttributeUser, Name: h.Name, Value: h.Bytes}
			if kind == headerKnown {
				a.Kind = core.AttributeProperty
			}
			c.attrs = append(c.attrs, a)
		}
	}
	m.Attributes = c.attrs
	return m, nil
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

// property sets in m what a header says.
func (c *conn) property(m *core.Message, h *frame.Header) (headerKind, *fault) {
	switch h.Name {
	case "destination", frame.ContentLength, "receipt", "transaction", "message-id", "ack", "subscription", "redelivered",
		deliveryCountName, jmsCountName, originalName, deathQueueName, deathReasonName:
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
	case "JMSXGroupID", "message_group":
		m.Group = h.Value
		return headerKnown, nil
	case "_AMQ_DUPL_ID":
		m.DedupID = h.Value
		return headerKnown, nil
	case "persistent":
		return headerKnown, nil
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
