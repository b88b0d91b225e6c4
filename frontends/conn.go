package frontends

import (
	"crypto/tls"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Conn is a connection that its Listener knows.
type Conn struct {
	net.Conn
	listener *Listener
	address  netip.Addr
	busy     atomic.Bool
	linger   atomic.Int64 // nanoseconds
	unsent   atomic.Pointer[func()]
	once     sync.Once
	err      error // of the one Close
}

// SetBusy says whether the connection owes its peer an answer. One that does
// not may be closed at any time while draining. A fresh connection is not busy.
// One that turns busy has sent its last answer: what OnUnsent was given is
// forgotten.
func (c *Conn) SetBusy(busy bool) {
	if busy && c.unsent.Load() != nil {
		c.unsent.Store(nil)
	}
	c.busy.Store(busy)
}

// OnUnsent has f called, once, by the writer of the answer that is due if it
// cannot be written. That it can be does not say that the peer reads it.
func (c *Conn) OnUnsent(f func()) { c.unsent.Store(&f) }

// Write writes to the connection.
func (c *Conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil {
		if f := c.unsent.Swap(nil); f != nil {
			(*f)()
		}
	}
	return n, err
}

// SetLinger makes Close end the stream first and throw away, for at most d, what
// the peer still sends. A connection that is closed over unread bytes is reset,
// and the peer may never see the last answer.
func (c *Conn) SetLinger(d time.Duration) { c.linger.Store(int64(d)) }

// NetConn returns the connection that c wraps.
func (c *Conn) NetConn() net.Conn { return c.Conn }

// Close closes the connection and tells the Listener. Further calls return what
// the first returned.
func (c *Conn) Close() error {
	c.once.Do(func() {
		if d := time.Duration(c.linger.Load()); d > 0 {
			c.drain(d)
		}
		c.err = c.Conn.Close()
		c.listener.forget(c)
	})
	return c.err
}

// drain ends the stream and reads until the peer ends its own, or d is over.
func (c *Conn) drain(d time.Duration) {
	w, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok || w.CloseWrite() != nil || c.SetReadDeadline(time.Now().Add(d)) != nil {
		return
	}
	_, _ = io.Copy(io.Discard, c.Conn) // ends with the deadline at the latest
}

// Unwrap returns the innermost connection below c: below this package's Conn,
// below TLS, below whatever tells its inner connection by NetConn.
func Unwrap(c net.Conn) net.Conn {
	for {
		w, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return c
		}
		c = w.NetConn()
	}
}

// IsTLS tells whether c speaks TLS, at whatever depth of wrapping.
func IsTLS(c net.Conn) bool {
	for {
		if _, ok := c.(*tls.Conn); ok {
			return true
		}
		w, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return false
		}
		c = w.NetConn()
	}
}
