package frontends

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// DrainMax is how long a frontend may take to drain. It leaves the process the
// rest of five seconds to close its store.
const DrainMax = 4 * time.Second

// Bounds of the pause between two tries after a failed accept, which doubles
// while accepts keep failing.
const (
	acceptPauseMin = 5 * time.Millisecond
	acceptPauseMax = time.Second
)

// refusalTimeout bounds the write of Limits.Refusal. The send buffer of a fresh
// connection takes it at once.
const refusalTimeout = 100 * time.Millisecond

// Limits bounds the connections of one Listener. 0 means no limit.
type Limits struct {
	Connections int // open at the same time
	PerAddress  int // open at the same time from one IP address
	// Refusal is written to a connection above a limit before it is closed. It
	// is not sent over TLS, which would have to wait for the handshake.
	Refusal []byte
}

// Listener accepts within Limits and knows its open connections, so that a
// frontend can drain.
//
// Accept outlives the errors that pass, such as a lack of file descriptors:
// one burst of connections must not end a frontend.
type Listener struct {
	inner  net.Listener
	limits Limits
	log    *slog.Logger
	done   chan struct{} // closed by Close

	accepted atomic.Uint64
	refused  atomic.Uint64

	mu        sync.Mutex
	conns     map[*Conn]struct{}
	addresses map[netip.Addr]int
	changed   chan struct{} // closed and replaced when conns becomes empty
	closed    bool
}

// NewListener wraps ln. A nil log is slog.Default.
func NewListener(ln net.Listener, limits Limits, log *slog.Logger) *Listener {
	if log == nil {
		log = slog.Default()
	}
	return &Listener{
		inner:     ln,
		limits:    limits,
		log:       log,
		done:      make(chan struct{}),
		conns:     make(map[*Conn]struct{}),
		addresses: make(map[netip.Addr]int),
		changed:   make(chan struct{}),
	}
}

// Accept waits for the next connection within the limits; its type is *Conn.
// After Close it returns net.ErrClosed. It is called from one goroutine.
func (l *Listener) Accept() (net.Conn, error) {
	var pause time.Duration
	for {
		inner, err := l.inner.Accept()
		if err == nil {
			pause = 0
			if c := l.admit(inner); c != nil {
				return c, nil
			}
			continue
		}
		if l.isClosed() || errors.Is(err, net.ErrClosed) {
			return nil, net.ErrClosed
		}
		if !passing(err) {
			return nil, err
		}
		pause = min(max(2*pause, acceptPauseMin), acceptPauseMax)
		l.log.Warn("accept", "address", l.inner.Addr().String(), "error", err, "retry_in", pause)
		if !l.pause(pause) {
			return nil, net.ErrClosed
		}
	}
}

// passing tells whether a later Accept may succeed.
func passing(err error) bool {
	// Temporary is deprecated because its meaning is vague; for accept it is
	// exactly what is asked here: EMFILE, ENFILE, ECONNABORTED and their like.
	// net/http goes by it as well.
	var t interface{ Temporary() bool }
	return errors.As(err, &t) && t.Temporary()
}

func (l *Listener) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-l.done:
		return false
	}
}

// admit counts inner in, or refuses it and returns nil.
func (l *Listener) admit(inner net.Conn) *Conn {
	c := &Conn{Conn: inner, listener: l, address: addressOf(inner)}
	l.mu.Lock()
	full := l.closed ||
		l.limits.Connections > 0 && len(l.conns) >= l.limits.Connections ||
		l.limits.PerAddress > 0 && l.addresses[c.address] >= l.limits.PerAddress
	if !full {
		l.conns[c] = struct{}{}
		l.addresses[c.address]++
	}
	l.mu.Unlock()
	if full {
		l.refused.Add(1)
		l.refuse(inner)
		return nil
	}
	l.accepted.Add(1)
	return c
}

func (l *Listener) refuse(c net.Conn) {
	if len(l.limits.Refusal) > 0 && !IsTLS(c) {
		if c.SetWriteDeadline(time.Now().Add(refusalTimeout)) == nil {
			_, _ = c.Write(l.limits.Refusal) // it is being turned away either way
		}
	}
	_ = c.Close()
}

func (l *Listener) isClosed() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// Addr is the address of the wrapped listener.
func (l *Listener) Addr() net.Addr { return l.inner.Addr() }

// Close stops accepting. Open connections stay open. Further calls do nothing.
func (l *Listener) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	close(l.done)
	l.mu.Unlock()
	return l.inner.Close()
}

// Counts tells how many connections are open, and how many were accepted and
// refused since the start.
func (l *Listener) Counts() (open int, accepted, refused uint64) {
	l.mu.Lock()
	open = len(l.conns)
	l.mu.Unlock()
	return open, l.accepted.Load(), l.refused.Load()
}

// CloseIdle closes the connections that are not busy; see Conn.SetBusy.
func (l *Listener) CloseIdle() { l.closeConns(func(c *Conn) bool { return !c.busy.Load() }) }

// CloseConns closes every open connection at once. Over TLS it does so below the
// TLS layer, whose farewell could wait for a peer that does not read.
func (l *Listener) CloseConns() {
	l.closeConns(func(c *Conn) bool {
		_ = Unwrap(c).Close()
		return true
	})
}

func (l *Listener) closeConns(which func(*Conn) bool) {
	l.mu.Lock()
	var chosen []*Conn
	for c := range l.conns {
		if which(c) {
			chosen = append(chosen, c)
		}
	}
	l.mu.Unlock()
	for _, c := range chosen {
		_ = c.Close() // an error means that it is closed
	}
}

// Wait returns when no connection is open, or with the error of ctx. It is of
// use after Close, when none can come.
func (l *Listener) Wait(ctx context.Context) error {
	for {
		l.mu.Lock()
		open, changed := len(l.conns), l.changed
		l.mu.Unlock()
		if open == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (l *Listener) forget(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
	if l.addresses[c.address]--; l.addresses[c.address] <= 0 {
		delete(l.addresses, c.address)
	}
	if len(l.conns) == 0 {
		close(l.changed)
		l.changed = make(chan struct{})
	}
}

// addressOf is the IP address of the peer, the zero Addr where there is none.
func addressOf(c net.Conn) netip.Addr {
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}
