package mqtt

import (
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
	c.pumps.Go(func() {
		r := replay{conn: c, sub: sub}
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
	conn *conn
	sub  state.Sub
	firm []core.Message
	los  []core.Message
	err  error
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
		r.firm = append(r.firm, out)
	} else {
		r.los = append(r.los, out)
	}
	if len(r.firm)+len(r.los) >= replayStep {
		r.err = r.send()
	}
	return r.err == nil
}

// send puts what was taken into the queues, when they have room.
func (r *replay) send() error {
	c := r.conn
	for _, to := range []struct {
		source *source
		msgs   *[]core.Message
	}{{c.firm, &r.firm}, {c.loose, &r.los}} {
		if len(*to.msgs) == 0 || to.source == nil {
			continue
		}
		if err := c.waitForQueue(to.source.queue); err != nil {
			return err
		}
		if _, err := c.client.Publish(c.ctx, to.source.queue, *to.msgs, nil); err != nil {
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
		if err != nil || st.Messages < replayHigh {
			return err
		}
		select {
		case <-time.After(replayLook):
		case <-c.ctx.Done():
			return c.ctx.Err()
		}
	}
}
