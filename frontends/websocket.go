package frontends

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"
)

// upgradeHeaderMax bounds the header of a request, in bytes.
const upgradeHeaderMax = 16 << 10

// WebSockets says how a wire is spoken over WebSocket.
type WebSockets struct {
	Paths        []string // where it is spoken, such as "/ws"
	Subprotocols []string // in the order of preference
	// Origins lists the hosts whose pages may connect, such as "*.example.org",
	// besides the broker's own host.
	Origins []string
	// BinaryOnly ends a connection that sends text. Otherwise answers are text for
	// a client whose first message was text, and binary where they are not UTF-8.
	BinaryOnly bool
	Timeout    time.Duration // of a request
	Logger     *slog.Logger
	// Conn serves one connection to its end and closes it.
	Conn func(socket *WebSocket)
}

// Serve accepts connections on l until ctx is done. It returns what has to be
// waited for, besides l, until no connection is left, and an error if l failed.
func (o *WebSockets) Serve(ctx context.Context, l *Listener) (*sync.WaitGroup, error) {
	h := &upgrader{options: o}
	web := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: o.Timeout,
		IdleTimeout:       o.Timeout,
		MaxHeaderBytes:    upgradeHeaderMax,
		ConnContext:       func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		ErrorLog:          slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug),
	}
	// Close spares the connections that have been upgraded: those drain.
	stop := context.AfterFunc(ctx, func() { _ = web.Close() })
	defer stop()
	err := web.Serve(l)
	if ctx.Err() == nil {
		_ = web.Close() // it has failed already
	} else {
		err = nil
	}
	return h.close(), err
}

// connKey is where the context of a request has its connection.
type connKey struct{}

// upgrader answers HTTP requests: it makes WebSocket connections of them.
type upgrader struct {
	options *WebSockets

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
	o := u.options
	if !slices.Contains(o.Paths, r.URL.Path) {
		http.Error(w, "WebSocket is spoken at "+strings.Join(o.Paths, " and ")+".", http.StatusNotFound)
		return
	}
	if !o.allowsOrigin(r) {
		http.Error(w, "Pages of this origin may not connect.", http.StatusForbidden)
		return
	}
	if !u.enter() {
		http.Error(w, "The server is shutting down.", http.StatusServiceUnavailable)
		return
	}
	defer u.serving.Done()
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		Subprotocols:       o.Subprotocols,
		InsecureSkipVerify: true, // allowsOrigin has looked
	})
	if err != nil {
		return // it has answered
	}
	ws.SetReadLimit(-1) // what is spoken has its own limits
	socket := newWebSocket(ws, r, o.BinaryOnly)
	o.Conn(socket)
	_ = socket.Close() // Conn has closed it
	socket.pump.Wait()
}

// allowsOrigin tells whether the page that asks for a connection, if it is one,
// may have it: one of the same host, on any port, or of a host that is listed.
func (o *WebSockets) allowsOrigin(r *http.Request) bool {
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
	for _, pattern := range o.Origins {
		if ok, err := path.Match(strings.ToLower(pattern), strings.ToLower(u.Host)); ok && err == nil {
			return true
		}
	}
	return false
}

// WebSocket is a WebSocket connection as a stream. A goroutine moves what comes in
// into a pipe: a read that is given up leaves the connection whole, which one of
// package websocket would not.
type WebSocket struct {
	ws     *websocket.Conn
	conn   net.Conn // that it is spoken over
	near   net.Conn // what is read
	far    net.Conn
	pump   sync.WaitGroup
	remote wsAddr
	binary bool         // text ends the connection
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

func newWebSocket(ws *websocket.Conn, r *http.Request, binary bool) *WebSocket {
	near, far := net.Pipe()
	s := &WebSocket{ws: ws, near: near, far: far, remote: wsAddr(r.RemoteAddr), binary: binary}
	if s.conn, _ = r.Context().Value(connKey{}).(net.Conn); s.conn == nil {
		s.conn = near
	}
	s.pump.Go(s.receive)
	return s
}

// receive moves what the client sends into the pipe, until the connection ends or
// the pipe is closed.
func (s *WebSocket) receive() {
	defer func() { _ = s.far.Close() }()
	first := true
	for {
		kind, message, err := s.ws.Reader(context.Background())
		if err != nil {
			return
		}
		if s.binary && kind != websocket.MessageBinary {
			_ = s.ws.Close(websocket.StatusUnsupportedData, "only binary messages are spoken") // it ends either way
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

// NetConn returns the connection that WebSocket is spoken over; see PeerAlive.
func (s *WebSocket) NetConn() net.Conn { return s.conn }

// Read reads what the client sends.
func (s *WebSocket) Read(p []byte) (int, error) { return s.near.Read(p) }

// Write sends p as one message.
func (s *WebSocket) Write(p []byte) (int, error) {
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
func (s *WebSocket) SetLinger(d time.Duration) { s.linger.Store(int64(d)) }

// Close closes the connection: in order, if it lingers.
func (s *WebSocket) Close() error {
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
func (s *WebSocket) LocalAddr() net.Addr { return s.near.LocalAddr() }

// RemoteAddr is that of the client.
func (s *WebSocket) RemoteAddr() net.Addr { return s.remote }

// SetDeadline sets both deadlines.
func (s *WebSocket) SetDeadline(t time.Time) error {
	if err := s.SetWriteDeadline(t); err != nil {
		return err
	}
	return s.SetReadDeadline(t)
}

// SetReadDeadline bounds Read. One that has passed may be replaced.
func (s *WebSocket) SetReadDeadline(t time.Time) error { return s.near.SetReadDeadline(t) }

// SetWriteDeadline bounds the next Write. One that is over closes the connection.
func (s *WebSocket) SetWriteDeadline(t time.Time) error {
	at := int64(0)
	if !t.IsZero() {
		at = t.UnixNano()
	}
	s.write.Store(at)
	return nil
}
