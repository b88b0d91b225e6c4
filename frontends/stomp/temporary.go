package stomp

import (
	"crypto/rand"
	"encoding/hex"
	"strings"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends/stomp/frame"
)

// tempsMax bounds the temporary destinations of a connection.
const tempsMax = 1000

// tokenBytes is the length of the random names of temporary destinations: who
// knows one may send to it.
const tokenBytes = 16

func isToken(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == tokenBytes
}

// token returns our name of a temporary destination of this connection.
func (c *conn) token(text string) string {
	if t, ok := c.temps[text]; ok {
		return t
	}
	var b [tokenBytes]byte
	_, _ = rand.Read(b[:]) // never fails
	if c.temps == nil {
		c.temps = make(map[string]string)
	}
	t := hex.EncodeToString(b[:])
	c.temps[text] = t
	return t
}

// temporary returns the queue of a temporary destination, which it creates when
// it is first named.
func (c *conn) temporary(text string) (string, *fault) {
	_, there := c.temps[text]
	if !there && len(c.temps) >= tempsMax {
		return "", fail("Too many destinations", "A connection has at most %d temporary ones.", tempsMax)
	}
	queue := temporaryPrefix + c.token(text)
	if there {
		return queue, nil
	}
	if err := c.declareMemory(queue, text); err != nil {
		return "", coreFault(err, text)
	}
	return queue, nil
}

// target makes of a destination that was read what can be sent to.
func (c *conn) target(d destination) (destination, *fault) {
	switch d.kind {
	case toTopic:
		if d.wild {
			return d, fail("Invalid destination", "'%.300s' has wildcards, which are for subscriptions.", d.text)
		}
	case toTemp:
		queue, bad := c.temporary(d.text)
		d.kind, d.queue = toReply, queue
		return d, bad
	case toTempTopic:
		if _, there := c.temps[d.text]; !there && len(c.temps) >= tempsMax {
			return d, fail("Too many destinations", "A connection has at most %d temporary ones.", tempsMax)
		}
		d.kind, d.topic = toTopic, temporaryTopic+c.token(d.text)
	case toMany:
		parts := make([]destination, len(d.parts))
		for i := range d.parts {
			var bad *fault
			if parts[i], bad = c.target(d.parts[i]); bad != nil {
				return d, bad
			}
		}
		d.parts = parts
	}
	return d, nil
}

// replyTo makes a temporary destination that a message asks replies to one that
// others can send to. Replies come by a subscription of the client's, or, as
// clients of RabbitMQ expect, by one that has the destination for its id.
func (c *conn) replyTo(h *frame.Header) *fault {
	isQueue := strings.HasPrefix(h.Value, tempPrefix)
	if !isQueue && !strings.HasPrefix(h.Value, "/temp-topic/") {
		return nil
	}
	d, bad := c.place(h.Value)
	if bad == nil {
		d, bad = c.target(d)
	}
	if bad != nil {
		return bad
	}
	if !isQueue {
		h.Bytes = []byte(replyTopicPrefix + strings.TrimPrefix(d.topic, temporaryTopic))
		return nil
	}
	h.Bytes = []byte(replyPrefix + strings.TrimPrefix(d.queue, temporaryPrefix))
	return c.awaitReplies(d)
}

// awaitReplies subscribes to a temporary queue unless the client has.
func (c *conn) awaitReplies(d destination) *fault {
	c.mu.Lock()
	for _, s := range c.subs {
		if s.queue == d.queue {
			c.mu.Unlock()
			return nil
		}
	}
	c.mu.Unlock()
	s := &subscription{
		conn: c, id: d.text, key: d.text, queue: d.queue, kind: ofTemporary, shown: d.text, replies: true,
		limit: core.InFlightMax, bytes: 1 << 62,
	}
	s.ready.L = &c.mu
	if bad := c.mayAdd(s); bad != nil {
		return bad
	}
	c.addSubscription(s, "")
	return nil
}

// dropReplies ends the subscription of awaitReplies: the client has its own.
func (c *conn) dropReplies(queue string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.subs {
		if s.queue == queue && s.replies {
			s.stopLocked()
			return
		}
	}
}
