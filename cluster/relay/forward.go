package relay

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Defaults of ForwarderOptions and ReceiverOptions.
const (
	ConnectionsDefault      = 16384
	PrimaryWaitDefault      = 10 * time.Second
	HandshakeTimeoutDefault = 5 * time.Second
	StallTimeoutDefault     = 2 * time.Minute
)

const (
	bufferBytes = 16 << 10 // of one direction; a record of TLS has as much at most
	lingerMax   = 10 * time.Second
	retryMin    = 20 * time.Millisecond
)

// errNoPrimary is why a client is sent away.
var errNoPrimary = errors.New("no primary is known")

// Primary is the node that connections are relayed to. The zero value is none.
type Primary struct {
	Node    string // its name, which its certificate must cover
	Address string // host and port of its relay listener
	Epoch   uint32
}

// ForwarderOptions says what a Forwarder stands on.
type ForwarderOptions struct {
	// TLS has the certificate of this node and RootCAs of the cluster.
	TLS              *tls.Config
	Connections      int           // open at the same time, over all listeners; 0: ConnectionsDefault
	PrimaryWait      time.Duration // how long a client waits for a primary that answers; 0: PrimaryWaitDefault
	HandshakeTimeout time.Duration // of one try to reach the primary; 0: HandshakeTimeoutDefault
	// StallTimeout is for a client that takes nothing of what is written to it. 0:
	// StallTimeoutDefault, longer than that of the frontends.
	StallTimeout time.Duration
	Logger       *slog.Logger // nil: slog.Default
}

// Forwarder is the standby's side: it passes connections on to the primary.
type Forwarder struct {
	o       ForwarderOptions
	tls     *tls.Config
	log     *slog.Logger
	buffers sync.Pool
	warn    occasional

	open                       atomic.Int64
	relayed, refused, unserved atomic.Uint64

	mu  sync.Mutex
	era *era
}

// era is the time of one primary, or of none.
type era struct {
	primary Primary
	ended   context.Context
	end     context.CancelFunc
}

func newEra(p Primary) *era {
	ctx, cancel := context.WithCancel(context.Background())
	return &era{primary: p, ended: ctx, end: cancel}
}

// NewForwarder checks o and makes a Forwarder that knows no primary.
func NewForwarder(o ForwarderOptions) (*Forwarder, error) {
	config, err := clientTLS(o.TLS)
	if err != nil {
		return nil, err
	}
	o.Connections = cmp.Or(o.Connections, ConnectionsDefault)
	o.PrimaryWait = cmp.Or(o.PrimaryWait, PrimaryWaitDefault)
	o.HandshakeTimeout = cmp.Or(o.HandshakeTimeout, HandshakeTimeoutDefault)
	o.StallTimeout = cmp.Or(o.StallTimeout, StallTimeoutDefault)
	if o.Connections < 0 || o.PrimaryWait < 0 || o.HandshakeTimeout < 0 || o.StallTimeout < 0 {
		return nil, errors.New("bound of a relay is negative")
	}
	f := &Forwarder{o: o, tls: config, log: o.Logger, era: newEra(Primary{})}
	if f.log == nil {
		f.log = slog.Default()
	}
	f.buffers.New = func() any { return new([bufferBytes]byte) }
	return f, nil
}

// SetPrimary says where connections go from now on. If p differs from what was said
// before, in its epoch alone too, all that are open are closed.
func (f *Forwarder) SetPrimary(p Primary) {
	f.mu.Lock()
	before := f.era
	if before.primary == p {
		f.mu.Unlock()
		return
	}
	f.era = newEra(p)
	f.mu.Unlock()
	before.end()
}

// CloseConns closes all connections to the primary. Clients that wait for one go
// on waiting.
func (f *Forwarder) CloseConns() {
	f.mu.Lock()
	before := f.era
	f.era = newEra(before.primary)
	f.mu.Unlock()
	before.end()
}

func (f *Forwarder) current() *era {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.era
}

// ForwarderCounts is what a Forwarder has seen.
type ForwarderCounts struct {
	Open     int    // connections now, with those that wait for a primary
	Relayed  uint64 // since the start
	Refused  uint64 // since there were too many
	Unserved uint64 // since there was no primary that answered
}

// Counts tells what f has seen.
func (f *Forwarder) Counts() ForwarderCounts {
	return ForwarderCounts{
		Open: int(f.open.Load()), Relayed: f.relayed.Load(), Refused: f.refused.Load(), Unserved: f.unserved.Load(),
	}
}

// Serve relays what ln accepts to the primary's listener of that name until ctx is
// done; then it closes ln and all that it has relayed, and returns nil. It returns
// an error only if ln fails while ctx is not done. A Forwarder serves several
// listeners at once by several calls.
func (f *Forwarder) Serve(ctx context.Context, listener string, ln net.Listener) error {
	if err := checkName(listener); err != nil {
		_ = ln.Close()
		return err
	}
	return serve(ctx, ln, f.log, func(ctx context.Context, client net.Conn) {
		defer func() { _ = client.Close() }()
		defer f.open.Add(-1)
		if f.open.Add(1) > int64(f.o.Connections) {
			f.refused.Add(1)
			return
		}
		f.handle(ctx, listener, client)
	})
}

func (f *Forwarder) handle(ctx context.Context, listener string, client net.Conn) {
	h := header{client: addrPort(client.RemoteAddr()), standby: addrPort(client.LocalAddr()), listener: listener}
	opening, err := h.append(nil)
	if err != nil {
		f.unserved.Add(1)
		f.log.Debug("relay", "client", client.RemoteAddr(), "error", err)
		return
	}
	link, e, err := f.connect(ctx, opening)
	if err != nil {
		f.unserved.Add(1)
		if ctx.Err() == nil && f.warn.now() {
			f.log.Warn("client is sent away", "listener", listener, "client", client.RemoteAddr(), "error", err)
		}
		return
	}
	f.relayed.Add(1)
	p := &pair{client: client, link: link}
	defer p.close()
	defer context.AfterFunc(e.ended, p.close)()
	defer context.AfterFunc(ctx, p.close)()
	err = f.relay(p)
	// In TLS 1.3 a primary that refuses the certificate says so only now.
	var refused *net.OpError
	if errors.As(err, &refused) && refused.Op == "remote error" && f.warn.now() {
		f.log.Warn("primary refuses the relay", "primary", e.primary.Node, "error", err)
	}
}

// connect reaches the primary and opens with the header. It tries until ctx is
// done, or PrimaryWait is over. The connection is of the era that it returns, which
// may have ended.
func (f *Forwarder) connect(ctx context.Context, opening []byte) (*tls.Conn, *era, error) {
	ctx, cancel := context.WithTimeout(ctx, f.o.PrimaryWait)
	defer cancel()
	reason := errNoPrimary
	pause := retryMin
	for {
		e := f.current()
		if e.primary != (Primary{}) {
			link, err := f.dial(ctx, e, opening)
			if err == nil {
				return link, e, nil
			}
			reason = fmt.Errorf("primary %s at %s: %w", e.primary.Node, e.primary.Address, err)
		}
		retry := time.NewTimer(pause)
		if e.primary == (Primary{}) {
			retry.Stop() // nothing but another era is of use
		}
		select {
		case <-retry.C:
			pause = min(2*pause, pauseMax)
		case <-e.ended.Done():
			pause = retryMin
		case <-ctx.Done():
			retry.Stop()
			return nil, nil, reason
		}
		retry.Stop()
	}
}

// dial tries once. The end of the era ends it.
func (f *Forwarder) dial(ctx context.Context, e *era, opening []byte) (*tls.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, f.o.HandshakeTimeout)
	defer cancel()
	defer context.AfterFunc(e.ended, cancel)()
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", e.primary.Address)
	if err != nil {
		return nil, err
	}
	config := f.tls.Clone()
	config.ServerName = e.primary.Node
	link := tls.Client(raw, config)
	err = link.HandshakeContext(ctx)
	if err == nil {
		err = agreed(link)
	}
	if err == nil {
		_, err = link.Write(opening) // a fresh send buffer takes it at once
	}
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	return link, nil
}

// pair is a client and its connection to the primary.
type pair struct {
	client net.Conn
	link   *tls.Conn
}

// close closes both sides at once, without a farewell of TLS, which could wait.
func (p *pair) close() {
	_ = p.client.Close()
	_ = p.link.NetConn().Close()
}

// relay copies both ways until both have ended, or one has failed. The error is that
// of the way to the client.
func (f *Forwarder) relay(p *pair) error {
	up := make(chan struct{})
	go func() {
		defer close(up)
		// The primary may hold a client up for as long as it likes.
		err := f.copy(p.link, p.client, 0)
		if err == nil {
			err = closeWrite(p.link)
		}
		if err != nil {
			p.close()
		}
	}()
	err := f.copy(p.client, p.link, f.o.StallTimeout)
	if err == nil {
		err = closeWrite(p.client)
	}
	if err == nil {
		end := time.Now().Add(lingerMax)
		err = errors.Join(p.client.SetReadDeadline(end), p.link.NetConn().SetWriteDeadline(end))
	}
	if err != nil {
		p.close()
	}
	<-up
	return err
}

// copy copies to the end of from, which is no error. Each write may take stall; 0:
// for ever.
func (f *Forwarder) copy(to, from net.Conn, stall time.Duration) error {
	buffer := f.buffers.Get().(*[bufferBytes]byte)
	defer f.buffers.Put(buffer)
	for {
		n, err := from.Read(buffer[:])
		if n > 0 {
			if stall > 0 {
				if err := to.SetWriteDeadline(time.Now().Add(stall)); err != nil {
					return err
				}
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
