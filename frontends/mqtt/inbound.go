package mqtt

import (
	"errors"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends/mqtt/state"
	"github.com/leasemq/broker/frontends/mqtt/wire"
)

// topicsKept bounds the topics of a connection that are not allocated again.
const topicsKept = 64

// publish carries out a PUBLISH.
func (c *conn) publish(pk *wire.Packet) error {
	p := &c.in
	if err := wire.ParsePublish(pk, c.version, p); err != nil {
		return err
	}
	topic, err := c.topicOf(p)
	if err != nil {
		return err
	}
	c.server.counts.received.Add(1)
	if p.QoS == 0 {
		return c.publish0(topic, p)
	}
	if p.QoS == 2 {
		if c.hasReceived(p.ID) {
			// The answer of the first is before this one.
			c.answerNow(answer{kind: wire.PUBREC, id: p.ID})
			return nil
		}
	}
	kind := wire.PUBACK
	if p.QoS == 2 {
		kind = wire.PUBREC
	}
	n, ok := c.owe(kind, p.ID)
	if !ok {
		return wire.Fail(wire.ReceiveMaxExceeded, "over %d messages are not acknowledged", c.server.options.ReceiveMax)
	}
	if reservedTopic(topic) {
		if c.version != wire.V5 {
			return wire.Fail(wire.BadTopic, "the topic is reserved")
		}
		c.forget(p.ID)
		c.settleAnswer(n, wire.BadTopic)
		return nil
	}
	if p.QoS == 2 && c.stored {
		return c.publish2(n, topic, p)
	}
	id := p.ID
	c.expectCall()
	err = c.client.PublishTopicAsync(c.message(topic, p), func(results []core.TopicResult, err error) {
		c.published(n, id, results, err)
	})
	if err != nil {
		c.called()
		return c.refusePublish(n, id, kind, err)
	}
	return nil
}

// hasReceived tells whether a packet identifier of QoS 2 is in use.
func (c *conn) hasReceived(id uint16) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.received[id]
	return ok
}

// forget makes a packet identifier of QoS 2 free again.
func (c *conn) forget(id uint16) (counted, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	counted, ok = c.received[id]
	delete(c.received, id)
	return counted, ok
}

// publish0 publishes what may be lost.
func (c *conn) publish0(topic string, p *wire.Publish) error {
	if reservedTopic(topic) {
		if c.version != wire.V5 {
			return wire.Fail(wire.BadTopic, "the topic is reserved")
		}
		return nil
	}
	err := c.client.PublishTopicAsync(c.message(topic, p), nil)
	if err == nil {
		return nil
	}
	c.server.counts.dropped.Add(1)
	if r := reasonOf(err); r == wire.ServerShuttingDown || r == wire.ServerUnavailable || r == wire.BadTopic {
		return coreError(err)
	}
	return nil
}

// publish2 publishes with QoS 2 for a session that is stored: with the packet
// identifier, so that a repetition is told from a new message after a crash, too.
func (c *conn) publish2(n uint64, topic string, p *wire.Publish) error {
	id := p.ID
	if c.releasing(id) {
		c.flush() // it is used again
	}
	tx := c.client.Begin()
	err := tx.PublishTopic(c.message(topic, p))
	if err == nil {
		err = tx.PutRecord(state.WithID(c.inName, id), nil)
	}
	if err == nil {
		c.expectCall()
		err = tx.CommitAsync(func(_ []core.Published, err error) { c.published(n, id, tx.Topics(), err) })
		if err != nil {
			c.called()
		}
	}
	if err != nil {
		return c.refusePublish(n, id, wire.PUBREC, err)
	}
	return nil
}

// published answers a PUBLISH that is durable.
func (c *conn) published(n uint64, id uint16, results []core.TopicResult, err error) {
	r := wire.Success
	switch {
	case err != nil:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.endLocked(endLost, reasonOf(err), "") // never acknowledged
		c.calledLocked()
		return
	case len(results) > 0 && (results[0].Full > 0 || results[0].TooLarge > 0 && c.version == wire.V5):
		// Before MQTT 5, what is too large would be sent again for ever.
		r = wire.QuotaExceeded
	case len(results) > 0 && results[0].Matched == 0:
		r = wire.NoMatchingSubscriber
	}
	if r >= wire.Unspecified {
		c.mu.Lock()
		kind := c.answers.at(n).kind
		c.mu.Unlock()
		if c.version != wire.V5 {
			c.end(endLost, r, "")
			c.called()
			return
		}
		if kind == wire.PUBREC {
			c.pumps.Go(func() { c.takeBack(n, id, r) })
			return
		}
	}
	c.settleAnswer(n, r)
	c.called()
}

// takeBack forgets the packet identifier of a message of QoS 2 that was stored and
// then refused.
func (c *conn) takeBack(n uint64, id uint16, r wire.Reason) {
	defer c.called()
	if c.stored {
		tx := c.client.Begin()
		_ = tx.DropRecord(state.WithID(c.inName, id))
		if _, err := tx.Commit(c.ctx); err != nil {
			c.end(endLost, reasonOf(err), "")
			return
		}
	}
	c.forget(id)
	c.settleAnswer(n, r)
}

// refusePublish answers a PUBLISH of which nothing has happened.
func (c *conn) refusePublish(n uint64, id uint16, kind wire.Type, err error) error {
	r := reasonOf(err)
	if kind == wire.PUBREC {
		c.forget(id)
	}
	if c.version != wire.V5 || r == wire.ServerShuttingDown || r == wire.ServerUnavailable {
		return coreError(err)
	}
	if r == wire.Unspecified && !errors.Is(err, core.ErrCorrupt) {
		c.server.complain("publish", err)
	}
	c.settleAnswer(n, r)
	return nil
}

// pubrel releases the packet identifier of a message of QoS 2: durably, before
// PUBCOMP, since the client may use it again.
func (c *conn) pubrel(id uint16) {
	counted, ok := c.forget(id)
	if !ok {
		r := wire.Success
		if c.version == wire.V5 {
			r = wire.IDNotFound
		}
		c.answerNow(answer{kind: wire.PUBCOMP, id: id, reason: r})
		return
	}
	if !c.stored {
		c.answerNow(answer{kind: wire.PUBCOMP, id: id, counted: counted})
		return
	}
	c.mu.Lock()
	n := c.answers.push(answer{kind: wire.PUBCOMP, id: id, counted: counted})
	c.mu.Unlock()
	c.putOff(step{kind: wire.PUBREL, id: id, answer: n})
}

// topicOf returns the topic of p, which may be one that its alias stands for.
func (c *conn) topicOf(p *wire.Publish) (string, error) {
	if int(p.Alias) > aliasesMax {
		return "", wire.Fail(wire.BadAlias, "topic alias %d is over %d", p.Alias, aliasesMax)
	}
	if len(p.Topic) == 0 {
		if int(p.Alias) >= len(c.aliases) || c.aliases[p.Alias] == "" {
			return "", wire.Fail(wire.ProtocolError, "topic alias %d stands for nothing", p.Alias)
		}
		return c.aliases[p.Alias], nil
	}
	topic, ok := c.topics[string(p.Topic)]
	if !ok {
		topic = string(p.Topic)
		if len(c.topics) >= topicsKept {
			clear(c.topics)
		}
		if c.topics == nil {
			c.topics = make(map[string]string)
		}
		c.topics[topic] = topic
	}
	if p.Alias > 0 {
		if c.aliases == nil {
			c.aliases = make([]string, aliasesMax+1)
		}
		c.aliases[p.Alias] = topic
	}
	return topic, nil
}
