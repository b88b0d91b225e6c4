package mqtt

import (
	"strings"
	"time"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends/mqtt/state"
)

// Bounds of the retained values on their way to a new subscription.
const (
	replayStep = 64
	replayHigh = 512 // messages that wait in the queue of the session
	replayLook = 5 * time.Millisecond
)

// replay sends the retained values of the topics that a new subscription matches,
// by way of the session's own queues: under flow control, and few at a time.
func (c *conn) replay(sub state.Sub) {
	r := replay{conn: c, sub: sub, loose: c.loose.queue}
	if c.firm != nil {
		r.firm = c.firm.queue
	}
	if strings.HasPrefix(sub.Filter, systemPrefix) {
		r.takeSystem()
	}
	c.pumps.Go(func() {
		err := c.client.Retained(c.ctx, sub.Filter, r.take)
		if err == nil {
			err = r.err
		}
		if err == nil {
			err = r.send()
		}
		if err != nil && c.ctx.Err() == nil {
			c.server.complain("send retained messages", err)
		}
	})
}

// replay is one of these on its way.
type replay struct {
	conn     *conn
	sub      state.Sub
	firm     string // the queues of the session
	loose    string
	reliable []core.Message // for the firm one
	rest     []core.Message
	err      error
}

// take takes one retained value.
func (r *replay) take(topic string, m *core.Stored) bool {
	c := r.conn
	qos, own := byte(1), false
	m.Attributes(func(a core.Attribute) bool {
		if a.Kind == core.AttributeProperty && a.Name == propQoS && len(a.Value) == 1 {
			qos = a.Value[0] - '0'
		}
		own = own || r.sub.NoLocal && a.Kind == core.AttributeProperty && a.Name == propClientID && string(a.Value) == c.id
		return !own
	})
	if own {
		return true
	}
	out := copyOf(m, topic, c.server.now(), property(propRetained, []byte(r.sub.Filter)))
	if qos > 0 && r.sub.QoS > 0 {
		r.reliable = append(r.reliable, out)
	} else {
		r.rest = append(r.rest, out)
	}
	if len(r.reliable)+len(r.rest) >= replayStep {
		r.err = r.send()
	}
	return r.err == nil
}

// send puts what was taken into the queues, when they have room.
func (r *replay) send() error {
	c := r.conn
	for _, to := range []struct {
		queue string
		msgs  *[]core.Message
	}{{r.firm, &r.reliable}, {r.loose, &r.rest}} {
		if len(*to.msgs) == 0 {
			continue
		}
		if err := c.waitForQueue(to.queue); err != nil {
			return err
		}
		if _, err := c.client.Publish(c.ctx, to.queue, *to.msgs, nil); err != nil {
			return err
		}
		*to.msgs = (*to.msgs)[:0]
	}
	return nil
}

// waitForQueue waits until a queue of the session holds little.
func (c *conn) waitForQueue(queue string) error {
	for {
		st, err := c.client.Stats(c.ctx, queue)
		if err != nil || st.Messages < max(1, min(replayHigh, c.server.options.SessionMessages/2)) {
			return err
		}
		select {
		case <-time.After(replayLook):
		case <-c.ctx.Done():
			return c.ctx.Err()
		}
	}
}
