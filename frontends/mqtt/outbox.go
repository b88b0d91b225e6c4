package mqtt

import (
	"net"
	"time"
)

// Bounds of an outbox, in bytes.
const (
	// outHigh holds deliveries back, and the reader.
	outHigh = 256 << 10
	// outKept is the largest buffer that is kept when it has been written.
	outKept = 64 << 10
	// outChunk is written with a deadline of its own, so that a slow client is
	// told from one that takes nothing.
	outChunk = 64 << 10
)

// hurryTime is how long the last packet of a connection that is taken over may
// take.
const hurryTime = 20 * time.Millisecond

// outbox is what waits to be written. conn.mu guards it.
type outbox struct {
	buf     []byte
	queued  int64 // bytes that were ever put in
	written int64 // bytes that the socket took
	writing bool  // there is a goroutine that writes
	closed  bool  // nothing more is put in
	broken  bool  // the socket has failed
	hurry   bool  // nobody waits for this socket any more
}

// pending returns how many bytes the socket has not taken yet.
func (o *outbox) pending() int64 { return o.queued - o.written }

// beginLocked returns the buffer to append packets to; putLocked takes it back.
func (c *conn) beginLocked() []byte {
	if c.out.buf == nil {
		if b, ok := c.server.buffers.Get().(*[]byte); ok {
			c.out.buf = (*b)[:0]
		}
	}
	return c.out.buf
}

func (c *conn) putLocked(b []byte) {
	o := &c.out
	if len(b) == 0 {
		c.recycle(b)
		o.buf = nil
		return
	}
	if o.closed || o.broken {
		return // nobody reads it
	}
	o.queued += int64(len(b) - len(o.buf))
	o.buf = b
	if !o.writing {
		o.writing = true
		c.server.crew.do((*writer)(c))
	}
}

// writer is a connection that has something to write.
type writer conn

func (w *writer) do() { (*conn)(w).writeAll() }

// writeAll writes what is put into the outbox until it is empty, or the socket
// fails. An idle connection has no goroutine for that.
func (c *conn) writeAll() {
	for {
		c.mu.Lock()
		buf := c.out.buf
		c.out.buf = nil
		if len(buf) == 0 {
			c.out.writing = false
			if c.waiting {
				c.room.Broadcast()
			}
			c.mu.Unlock()
			c.recycle(buf)
			return
		}
		c.mu.Unlock()
		c.took(len(buf), c.write(buf))
		c.recycle(buf)
	}
}

// waitForWriter waits until all is written that will be.
func (c *conn) waitForWriter() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.out.writing {
		c.waiting = true
		c.room.Wait()
	}
}

func (c *conn) recycle(buf []byte) {
	if cap(buf) > 0 && cap(buf) <= outKept {
		c.server.buffers.Put(&buf)
	}
}

// write writes b in chunks, each in time.
func (c *conn) write(b []byte) error {
	for len(b) > 0 {
		n := min(len(b), outChunk)
		if err := c.setWriteDeadline(); err != nil {
			return err
		}
		if _, err := c.socket.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

func (c *conn) setWriteDeadline() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.server.options.StallTimeout
	if c.out.hurry {
		d = hurryTime
	}
	return c.socket.SetWriteDeadline(time.Now().Add(d))
}

// took notes that n bytes have been written, or why they could not be.
func (c *conn) took(n int, err error) {
	c.mu.Lock()
	high := c.out.pending() >= outHigh
	if err != nil {
		c.out.broken = true
		c.out.buf = nil
	} else {
		c.out.written += int64(n)
		c.server.counts.bytesOut.Add(int64(n))
	}
	if high {
		c.wakeSourcesLocked()
		c.room.Broadcast()
	}
	c.mu.Unlock()
	if err != nil {
		c.server.options.Logger.Debug("mqtt: connection lost", "peer", c.socket.RemoteAddr(), "error", err)
		c.end(endLost, 0, "")
		abort(c.socket)
	}
}

// abort makes reads and writes of the socket fail at once.
func abort(socket net.Conn) {
	past := time.Unix(1, 0)
	_ = socket.SetDeadline(past) // fails if the socket has: then it is what is wanted
}
