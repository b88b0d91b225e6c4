package stomp

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"
)

// upgradeHeaderMax bounds the header of a request, in bytes.
const upgradeHeaderMax = 16 << 10

// ServeWebSocket speaks STOMP over WebSocket at /ws and /stomp until ctx is done;
// see frontends.Frontend. Frames and messages of WebSocket need not begin and end
// together. Answers are text for a client whose first message was text, and binary
// otherwise, or where they are not UTF-8.
func (s *Server) ServeWebSocket(ctx context.Context, ln net.Listener) error {
	l := s.listener(ln)
	h := &upgrader{server: s, ctx: ctx}
	stopSweep := s.sweep()
	defer stopSweep()
	web := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: s.options.LoginTimeout,
		IdleTimeout:       s.options.LoginTimeout,
		MaxHeaderBytes:    upgradeHeaderMax,
		ConnContext:       func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		ErrorLog:          slog.NewLogLogger(s.options.Logger.Handler(), slog.LevelDebug),
	}
	// Close spares the connections that have been upgraded: those drain.
	stop := context.AfterFunc(ctx, func() { _ = web.Close() })
	defer stop()
	err := web.Serve(l)
	failed := ctx.Err() == nil
	if failed {
		_ = web.Close() // it has failed already
		err = fmt.Errorf("stomp: serve %s: %w", ln.Addr(), err)
	} else {
		err = nil
	}
	s.drain(l, h.close(), failed)
	return err
}

// connKey is where the context of a request has its connection.
type connKey struct{}

// upgrader answers HTTP requests: it makes WebSocket connections of them.
type upgrader struct {
	server *Server
	ctx    context.Context

	mu      sync.Mutex
	closed  bool
	serving sync.WaitGroup
}

// close lets no further connection in.
func (u *upgrader) close() *sync.WaitGroup {
	u.mu.Lock()
	u.closed = true
	u.mu.Unlock()
	return &u.serving
}

func (u *upgrader) enter() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.closed {
		u.serving.Add(1)
	}
	return !u.closed
}

// ServeHTTP serves one connection to its end.
func (u *upgrader) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/ws" && r.URL.Path != "/stomp" {
		http.Error(w, "STOMP is spoken at /ws and /stomp.", http.StatusNotFound)
		return
	}
	if !u.server.allowsOrigin(r) {
		http.Error(w, "Pages of this origin may not connect.", http.StatusForbidden)
		return
	}
	if !u.enter() {
		http.Error(w, "The server is shutting down.", http.StatusServiceUnavailable)
		return
	}
	defer u.serving.Done()
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		Subprotocols:       []string{"v12.stomp", "v11.stomp", "v10.stomp"},
		InsecureSkipVerify: true, // allowsOrigin has looked
	})
	if err != nil {
		return // it has answered
	}
	ws.SetReadLimit(-1) // frames have their own limits
	socket := newWSSocket(ws, r)
	u.server.serveConn(u.ctx, socket)
	_ = socket.Close() // serveConn has closed it
	socket.pump.Wait()
}

// allowsOrigin tells whether the page that asks for a connection, if it is one,
// may have it: one of the same host, on any port, or of a host that is listed.
func (s *Server) allowsOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true // no browser
	}
	u, err := url.Parse(origin)
	if err != nil {
		return false
	}
	asked := &url.URL{Host: r.Host}
	if u.Hostname() != "" && strings.EqualFold(u.Hostname(), asked.Hostname()) {
		return true
	}
	for _, pattern := range s.options.Origins {
		if ok, err := path.Match(strings.ToLower(pattern), strings.ToLower(u.Host)); ok && err == nil {
			return true
		}
	}
	return false
}

// wsSocket is a WebSocket connection as a stream. A goroutine moves what comes in
// into a pipe: a read that is given up leaves the connection whole, which one of
// package websocket would not.
type wsSocket struct {
	ws     *websocket.Conn
	conn   net.Conn // that it is spoken over
	near   net.Conn // what is read
	far    net.Conn
	pump   sync.WaitGroup
	remote wsAddr
	text   atomic.Bool  // the client's first message was text
	linger atomic.Int64 // nanoseconds
	write  atomic.Int64 // the deadline of writes, nanoseconds of the wall clock; 0: none
	once   sync.Once
	err    error
}

type wsAddr string

// Network is "websocket".
func (a wsAddr) Network() string { return "websocket" }

// String returns the address of the peer.
func (a wsAddr) String() string { return string(a) }

func newWSSocket(ws *websocket.Conn, r *http.Request) *wsSocket {
	near, far := net.Pipe()
	s := &wsSocket{ws: ws, near: near, far: far, remote: wsAddr(r.RemoteAddr)}
	if s.conn, _ = r.Context().Value(connKey{}).(net.Conn); s.conn == nil {
		s.conn = near
	}
	s.pump.Go(s.receive)
	return s
}

// receive moves what the client sends into the pipe, until the connection ends or
// the pipe is closed.
func (s *wsSocket) receive() {
	defer func() { _ = s.far.Close() }()
	first := true
	for {
		kind, message, err := s.ws.Reader(context.Background())
		if err != nil {
			return
		}
		if first {
			s.text.Store(kind == websocket.MessageText)
			first = false
		}
		if _, err := io.Copy(s.far, message); err != nil {
			if s.near.SetReadDeadline(time.Time{}) == nil { // the connection, not the pipe
				return
			}
			// Closing: what still comes is thrown away until the client closes, too.
			if _, err := io.Copy(io.Discard, message); err != nil {
				return
			}
		}
	}
}

// NetConn returns the connection that WebSocket is spoken over; see
// frontends.PeerAlive.
func (s *wsSocket) NetConn() net.Conn { return s.conn }

// Read reads what the client sends.
func (s *wsSocket) Read(p []byte) (int, error) { return s.near.Read(p) }

// Write sends p as one message.
func (s *wsSocket) Write(p []byte) (int, error) {
	ctx, cancel := context.Background(), context.CancelFunc(func() {})
	if at := s.write.Load(); at != 0 {
		ctx, cancel = context.WithDeadline(ctx, time.Unix(0, at))
	}
	defer cancel()
	kind := websocket.MessageBinary
	if s.text.Load() && utf8.Valid(p) {
		kind = websocket.MessageText
	}
	if err := s.ws.Write(ctx, kind, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// SetLinger bounds how long Close waits for the client to close, too.
func (s *wsSocket) SetLinger(d time.Duration) { s.linger.Store(int64(d)) }

// Close closes the connection: in order, if it lingers.
func (s *wsSocket) Close() error {
	s.once.Do(func() {
		_ = s.near.Close() // a pipe has no error to tell
		if d := time.Duration(s.linger.Load()); d > 0 {
			late := time.AfterFunc(d, func() { _ = s.ws.CloseNow() })
			s.err = s.ws.Close(websocket.StatusNormalClosure, "")
			late.Stop()
		}
		_ = s.ws.CloseNow() // it is closed by then, or not worth a word
	})
	return s.err
}

// LocalAddr is that of the pipe.
func (s *wsSocket) LocalAddr() net.Addr { return s.near.LocalAddr() }

// RemoteAddr is that of the client.
func (s *wsSocket) RemoteAddr() net.Addr { return s.remote }

// SetDeadline sets both deadlines.
func (s *wsSocket) SetDeadline(t time.Time) error {
	if err := s.SetWriteDeadline(t); err != nil {
		return err
	}
	return s.SetReadDeadline(t)
}

// SetReadDeadline bounds Read. One that has passed may be replaced.
func (s *wsSocket) SetReadDeadline(t time.Time) error { return s.near.SetReadDeadline(t) }

// SetWriteDeadline bounds the next Write. One that is over closes the connection.
func (s *wsSocket) SetWriteDeadline(t time.Time) error {
	at := int64(0)
	if !t.IsZero() {
		at = t.UnixNano()
	}
	s.write.Store(at)
	return nil
}

// wholeBatches is conn.chunk where a write must not be cut.
const wholeBatches = math.MaxInt
