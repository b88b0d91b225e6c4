package sqs

import (
	"bytes"
	"sync/atomic"
)

// unreadBytesMax is how much the large answers may hold together, until their
// peers have read them: beyond it a receive gives one message. Otherwise peers
// that ask for ten large messages each, and read none, would fill the memory.
const unreadBytesMax = 128 << 20

// unread counts the bytes of the large answers that are being built or written.
type unread struct{ bytes atomic.Int64 }

// grantBytes tells whether the answer may take a message of n bytes as well, and
// counts it. The core gives one message even where there is no room, so that
// consumers go on. It asks while it holds the queue: nothing is waited for.
func (c *call) grantBytes(n int64) bool {
	size, first := c.granted+n, c.granted == 0
	if size <= bufferKeptBytesMax {
		c.granted = size // small answers are not counted
		return true
	}
	if !first && c.server.unread.bytes.Load()+size-c.held > unreadBytesMax {
		return false
	}
	c.granted = size
	c.hold(size - c.held)
	return true
}

// largeAnswer is the body of a large answer. fasthttp closes it once it is
// written, or cannot be.
type largeAnswer struct {
	bytes.Reader
	unread *unread
	held   int64
}

// Close lets go of the answer.
func (l *largeAnswer) Close() error {
	l.unread.bytes.Add(-l.held)
	l.held = 0
	l.Reset(nil)
	return nil
}

// hold counts n bytes of answer for this request.
func (c *call) hold(n int64) {
	c.held += n
	c.server.unread.bytes.Add(n)
}

// largeBody returns the answer as a body that is counted until it is written.
func (c *call) largeBody() *largeAnswer {
	if size := int64(cap(c.answer.b)); size > c.held {
		c.hold(size - c.held)
	}
	l := &largeAnswer{unread: &c.server.unread, held: c.held}
	l.Reset(c.answer.b)
	c.held = 0 // it is the body's now
	return l
}

// letGo ends the count of an answer that has not become a large body.
func (c *call) letGo() {
	c.granted = 0
	if c.held != 0 {
		c.hold(-c.held)
	}
}
