package stomp

import (
	"net"
	"time"
)

// Bounds of an outbox, in bytes.
const (
	// outHigh holds receives back. A frame and the receipts of the window may go
	// beyond it.
	outHigh = 256 << 10
	// outKept is the largest buffer that is kept when it has been written.
	outKept = 64 << 10
	// outChunk is written with a deadline of its own, so that a slow client is
	// told from one that takes nothing.
	outChunk = 64 << 10
)

// outbox is what waits to be written. conn.mu guards it, but for what the writer
// alone uses.
type outbox struct {
	buf     []byte
	spare   []byte
	wake    chan struct{} // one token: there is something to do
	queued  int64         // bytes that were ever put in
	written int64         // bytes that the socket took
	closed  bool          // nothing more is put in; the writer ends when it is empty
	broken  bool          // the socket has failed
}

// pending returns how many bytes the socket has not taken yet.
func (o *outbox) pending() int64 { return o.queued - o.written }

// poke wakes the writer.
func (o *outbox) poke() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// begin returns the buffer to append frames to; put takes it back.
func (o *outbox) begin() []byte { return o.buf }

func (o *outbox) put(b []byte) {
	if o.closed || o.broken {
		return // nobody reads it
	}
	o.queued += int64(len(b) - len(o.buf))
	o.buf = b
}

// writeLoop writes what is put into the outbox until it is closed and empty, or
// the socket fails. It sends heart-beats when there is nothing else.
func (c *conn) writeLoop() {
	defer close(c.wrote)
	beat := time.NewTimer(time.Hour)
	defer beat.Stop()
	for {
		c.mu.Lock()
		buf, closed, every := c.out.buf, c.out.closed, c.beatEvery
		c.out.buf, c.out.spare = c.out.spare, nil
		c.mu.Unlock()
		if len(buf) > 0 {
			err := c.write(buf)
			c.took(buf, err)
			if err != nil {
				return
			}
			if every > 0 {
				beat.Reset(every)
			}
			continue
		}
		if closed {
			return
		}
		if every > 0 && !c.beating {
			c.beating = true
			beat.Reset(every / 2) // the first is early
		}
		select {
		case <-c.out.wake:
		case <-beat.C:
			if every == 0 {
				continue
			}
			if err := c.write([]byte{'\n'}); err != nil {
				c.took(nil, err)
				return
			}
			beat.Reset(every)
		}
	}
}

// write writes b in chunks, each in time.
func (c *conn) write(b []byte) error {
	for len(b) > 0 {
		n := min(len(b), c.chunk)
		if err := c.socket.SetWriteDeadline(time.Now().Add(c.server.options.StallTimeout)); err != nil {
			return err
		}
		if _, err := c.socket.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// took notes that buf has been written, or why it could not be. What was
// delivered in auto mode is done with now.
func (c *conn) took(buf []byte, err error) {
	c.mu.Lock()
	wasFull := c.out.pending() >= outHigh
	if err != nil {
		c.out.broken = true
		c.out.buf = nil
	} else {
		c.out.written += int64(len(buf))
		if cap(buf) <= outKept {
			c.out.spare = buf[:0]
		}
	}
	done := c.writtenLocked()
	if wasFull || err != nil {
		c.wakePumpsLocked() // else nobody waits for room
	}
	c.mu.Unlock()
	if err != nil {
		c.hangUp(err)
		return
	}
	c.settleAll(done)
}

// abort makes reads and writes of the socket fail at once.
func abort(socket net.Conn) {
	past := time.Unix(1, 0)
	_ = socket.SetDeadline(past) // fails if the socket has: then it is what is wanted
}
