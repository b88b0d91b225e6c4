package relay

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// HandshakesDefault bounds the connections of which nothing is known yet.
const HandshakesDefault = 1024

// ReceiverOptions says what a Receiver stands on.
type ReceiverOptions struct {
	// TLS has the certificate of this node, and ClientCAs of the cluster: who has a
	// certificate of theirs may say in whose name it speaks. VerifyConnection can
	// ask for more. New certificates come by GetCertificate.
	TLS              *tls.Config
	Connections      int           // open at the same time, over all listeners; 0: ConnectionsDefault
	Handshakes       int           // of these those whose header has not come; 0: HandshakesDefault
	HandshakeTimeout time.Duration // up to the end of the header, and again until a frontend accepts; 0: HandshakeTimeoutDefault
	Logger           *slog.Logger  // nil: slog.Default
}

// Receiver is the primary's side: it gives relayed connections to the frontends.
type Receiver struct {
	o    ReceiverOptions
	tls  *tls.Config
	log  *slog.Logger
	warn occasional

	accepted, refused atomic.Uint64

	mu         sync.Mutex
	listeners  map[string]*listener
	sockets    map[*socket]struct{}
	handshakes int
}

// NewReceiver checks o and makes a Receiver without listeners.
func NewReceiver(o ReceiverOptions) (*Receiver, error) {
	config, err := serverTLS(o.TLS)
	if err != nil {
		return nil, err
	}
	o.Connections = cmp.Or(o.Connections, ConnectionsDefault)
	o.Handshakes = cmp.Or(o.Handshakes, HandshakesDefault)
	o.HandshakeTimeout = cmp.Or(o.HandshakeTimeout, HandshakeTimeoutDefault)
	if o.Connections < 0 || o.Handshakes < 0 || o.HandshakeTimeout < 0 {
		return nil, errors.New("bound of a relay is negative")
	}
	r := &Receiver{
		o: o, tls: config, log: o.Logger,
		listeners: make(map[string]*listener), sockets: make(map[*socket]struct{}),
	}
	if r.log == nil {
		r.log = slog.Default()
	}
	return r, nil
}

// Listen returns the listener that relayed connections of that name come to. There
// is one of a name at a time, until it is closed: a node that is no primary has
// none.
func (r *Receiver) Listen(name string) (net.Listener, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.listeners[name] != nil {
		return nil, fmt.Errorf("listener %q of the relay is open", name)
	}
	l := &listener{receiver: r, name: name, conns: make(chan *conn), closed: make(chan struct{})}
	r.listeners[name] = l
	return l, nil
}

// Serve takes connections of standbys on ln until ctx is done; then it closes ln and
// all connections, and returns nil. Frontends are drained before. It returns an
// error only if ln fails while ctx is not done.
func (r *Receiver) Serve(ctx context.Context, ln net.Listener) error {
	defer r.CloseConns()
	return serve(ctx, ln, r.log, func(ctx context.Context, c net.Conn) {
		s := &socket{Conn: c, closed: r.forget}
		if !r.admit(s) {
			r.refused.Add(1)
			_ = c.Close()
			return
		}
		err := r.welcome(ctx, s)
		r.mu.Lock()
		r.handshakes--
		r.mu.Unlock()
		if err == nil {
			return
		}
		_ = s.Close()
		r.refused.Add(1)
		if ctx.Err() == nil && r.warn.now() {
			r.log.Warn("relayed connection is refused", "peer", c.RemoteAddr(), "error", err)
		}
	})
}

// admit gives s a place among the connections and the handshakes.
func (r *Receiver) admit(s *socket) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.sockets) >= r.o.Connections || r.handshakes >= r.o.Handshakes {
		return false
	}
	r.sockets[s] = struct{}{}
	r.handshakes++
	return true
}

func (r *Receiver) forget(s *socket) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.sockets, s)
}

// welcome verifies the peer, reads the header and gives the connection to the
// listener that it names.
func (r *Receiver) welcome(ctx context.Context, s *socket) error {
	if err := s.SetDeadline(time.Now().Add(r.o.HandshakeTimeout)); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	link := tls.Server(s, r.tls)
	if err := link.HandshakeContext(ctx); err != nil {
		return err
	}
	if err := agreed(link); err != nil {
		return err
	}
	h, err := readHeader(link)
	if err != nil {
		return err
	}
	if err := s.SetDeadline(time.Time{}); err != nil {
		return err
	}
	r.mu.Lock()
	l := r.listeners[h.listener]
	r.mu.Unlock()
	if l == nil {
		return fmt.Errorf("no listener %q: this node may not be the primary", h.listener)
	}
	c := &conn{
		Conn: link, socket: s,
		client: net.TCPAddrFromAddrPort(h.client), standby: net.TCPAddrFromAddrPort(h.standby),
	}
	return l.give(ctx, c, r.o.HandshakeTimeout)
}

// CloseConns closes all relayed connections at once, below TLS.
func (r *Receiver) CloseConns() {
	r.mu.Lock()
	sockets := make([]*socket, 0, len(r.sockets))
	for s := range r.sockets {
		sockets = append(sockets, s)
	}
	r.mu.Unlock()
	for _, s := range sockets {
		_ = s.Close()
	}
}

// ReceiverCounts is what a Receiver has seen.
type ReceiverCounts struct {
	Open     int    // connections now, with those in their handshake
	Accepted uint64 // by frontends, since the start
	Refused  uint64 // for whatever reason
}

// Counts tells what r has seen.
func (r *Receiver) Counts() ReceiverCounts {
	r.mu.Lock()
	open := len(r.sockets)
	r.mu.Unlock()
	return ReceiverCounts{Open: open, Accepted: r.accepted.Load(), Refused: r.refused.Load()}
}

// listener is where a frontend accepts relayed connections.
type listener struct {
	receiver *Receiver
	name     string
	conns    chan *conn
	once     sync.Once
	closed   chan struct{}
}

// give waits, for a bounded time, until the frontend accepts.
func (l *listener) give(ctx context.Context, c *conn, within time.Duration) error {
	t := time.NewTimer(within)
	defer t.Stop()
	select {
	case l.conns <- c:
		l.receiver.accepted.Add(1)
		return nil
	case <-l.closed:
		return fmt.Errorf("listener %q is closed", l.name)
	case <-t.C:
		return fmt.Errorf("listener %q does not accept", l.name)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Accept waits for the next connection.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case <-l.closed:
		return nil, net.ErrClosed
	default:
	}
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close stops accepting. Open connections stay open.
func (l *listener) Close() error {
	l.once.Do(func() {
		close(l.closed)
		l.receiver.mu.Lock()
		defer l.receiver.mu.Unlock()
		delete(l.receiver.listeners, l.name)
	})
	return nil
}

// Addr is the name of the listener.
func (l *listener) Addr() net.Addr { return address(l.name) }

// address is that of a listener of relayed connections.
type address string

// Network says that it is reached by a relay.
func (address) Network() string { return "relay" }

// String is the name of the listener.
func (a address) String() string { return string(a) }
