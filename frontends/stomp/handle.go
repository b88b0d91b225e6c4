package stomp

import (
	"strings"

	"github.com/leasemq/broker/frontends/stomp/frame"
)

// handle carries out one frame. A fault ends the connection.
func (c *conn) handle(f *frame.Frame) *fault {
	if len(f.Body) > 0 && f.Command != frame.Send {
		return fail("Malformed frame", "%.32s has no body.", f.Command)
	}
	switch f.Command {
	case frame.Send:
		return c.send(f)
	case frame.Ack, frame.Nack:
		return c.acknowledge(f)
	case frame.Subscribe:
		return c.subscribe(f)
	case frame.Unsubscribe:
		return c.unsubscribe(f)
	case frame.Begin, frame.Commit, frame.Abort:
		return c.transact(f)
	case frame.Disconnect:
		c.disconnect(f)
		return nil
	case frame.Connect, frame.Stomp:
		return fail("Already connected", "A connection has one %s.", f.Command)
	}
	return fail("Bad command", "Could not interpret command %q", strings.ToValidUTF8(f.Command, "?"))
}

// receiptNow answers a frame that is done with.
func (c *conn) receiptNow(f *frame.Frame) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.receiptLocked(f)
}

func (c *conn) receiptLocked(f *frame.Frame) {
	if r := f.Get("receipt"); r != "" {
		c.answers.push(answer{receipt: r, done: true})
		c.tellLocked()
	}
}

// disconnect ends the session when all that came before is answered. Frames
// behind it are not looked at.
func (c *conn) disconnect(f *frame.Frame) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.subs {
		s.stopped = true
	}
	c.answers.push(answer{receipt: f.Get("receipt"), done: true, ends: true})
	c.tellLocked()
	for !c.ended {
		c.room.Wait()
	}
}
