package sqs

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends"
)

// Bounds of a connection's buffers, in bytes. The header must fit the first:
// the request line of a Query GET, and a session token, take their room.
const (
	readBufferBytes  = 16 << 10
	writeBufferBytes = 4 << 10
)

// Server is the SQS frontend. It is made by New and serves any number of
// listeners.
type Server struct {
	options Options
	client  door
	now     func() int64 // the core's clock, milliseconds since the epoch
	actions map[string]action
	doorOf  func(id string) door    // of the principal that an access key is
	keys    atomic.Pointer[keyring] // nil: signatures are not looked at
	calls   sync.Pool               // of *call
	purged  recent                  // names of queues
	deleted recent
	unread  unread
	handler func(ctx context.Context, rc *fasthttp.RequestCtx)
}

// New returns the frontend of engine.
func New(engine *core.Engine, o Options) (*Server, error) {
	client := func(name string) door {
		c := engine.Client(core.Principal{Name: name, Origin: core.OriginSQS})
		return door{messages: c, queues: c, moves: c}
	}
	return newServer(client, engine.Now, o)
}

// newServer returns a Server whose principals reach the core by the doors that
// doorOf opens; that of nobody in particular is of "".
func newServer(doorOf func(id string) door, now func() int64, o Options) (*Server, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("sqs: %w", err)
	}
	s := &Server{options: o, client: doorOf(""), doorOf: doorOf, now: now, actions: make(map[string]action)}
	for _, a := range actions() {
		s.actions[a.name] = a
	}
	if err := s.SetAccessKeys(o.AccessKeys); err != nil {
		return nil, fmt.Errorf("sqs: %w", err)
	}
	s.calls.New = func() any { return newCall(s) }
	s.handler = s.handle
	return s, nil
}

// Name is "sqs".
func (s *Server) Name() string { return "sqs" }

// Serve answers requests on ln until ctx is done, and then drains; see
// frontends.Frontend. Parked long polls end with ctx, or when the engine drains.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	l := frontends.NewListener(ln, frontends.Limits{
		Connections: s.options.MaxConnections,
		PerAddress:  s.options.MaxPerAddress,
		Refusal:     refusal(),
	}, s.options.Logger)
	http := s.newHTTP(ctx)
	served := make(chan error, 1)
	go func() { served <- http.Serve(l) }()
	select {
	case err := <-served:
		_ = l.Close() // it has failed already
		s.drain(http, l)
		if err == nil {
			err = net.ErrClosed // by someone else
		}
		return fmt.Errorf("sqs: serve %s: %w", ln.Addr(), err)
	case <-ctx.Done():
	}
	err := l.Close()
	s.drain(http, l)
	<-served
	if err != nil {
		return fmt.Errorf("sqs: close %s: %w", ln.Addr(), err)
	}
	return nil
}

// drain lets requests in flight have their answers, then closes what is left.
func (s *Server) drain(http *fasthttp.Server, l *frontends.Listener) {
	ctx, cancel := context.WithTimeout(context.Background(), frontends.DrainMax)
	defer cancel()
	// Answers say Connection: close since ctx of Serve has ended. fasthttp spares
	// new connections for some seconds; they owe nobody an answer.
	stopped := make(chan error, 1)
	go func() { stopped <- http.ShutdownWithContext(ctx) }()
	l.CloseIdle()
	if err := <-stopped; err != nil {
		open, _, _ := l.Counts()
		s.options.Logger.Warn("closing connections that did not drain", "frontend", s.Name(), "connections", open, "error", err)
	}
	l.CloseConns()
}

// newHTTP returns a fasthttp server whose long polls end with ctx.
func (s *Server) newHTTP(ctx context.Context) *fasthttp.Server {
	return &fasthttp.Server{
		Handler:            func(rc *fasthttp.RequestCtx) { s.handler(ctx, rc) },
		ErrorHandler:       s.badHTTP,
		HeaderReceived:     s.refuseLarge,
		ConnState:          markBusy,
		Concurrency:        s.options.MaxConnections + 1, // the Listener refuses first, and kindly
		ReadBufferSize:     readBufferBytes,
		WriteBufferSize:    writeBufferBytes,
		ReadTimeout:        s.options.HeaderTimeout,
		IdleTimeout:        s.options.IdleTimeout,
		MaxRequestBodySize: s.options.BodyBytesMax,
		// The handler reads the body itself: fasthttp would reserve what a
		// Content-Length announces.
		StreamRequestBody:            true,
		DisablePreParseMultipartForm: true,
		NoDefaultServerHeader:        true,
		NoDefaultContentType:         true,
		LazyRequestTime:              true,
		SecureErrorLogMessage:        true,
		Logger:                       httpLog{s.options.Logger},
	}
}

// markBusy tells the Listener which connections owe an answer.
func markBusy(c net.Conn, state fasthttp.ConnState) {
	if c, ok := c.(*frontends.Conn); ok {
		c.SetBusy(state == fasthttp.StateActive)
	}
}

// httpLog takes the messages of fasthttp. They tell of peers that hang up or
// send garbage, which is no event of this node.
type httpLog struct{ log *slog.Logger }

// Printf logs at level debug.
func (l httpLog) Printf(format string, args ...any) {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		l.log.Debug("http", "message", fmt.Sprintf(format, args...))
	}
}

// recentMax bounds the names that a recent remembers. Beyond it the rule of 60
// seconds is not kept, which harms nobody.
const recentMax = 10_000

// recentSpan is the 60 seconds of PurgeQueueInProgress and QueueDeletedRecently.
const recentSpan = int64(time.Minute / time.Millisecond)

// recent remembers what happened to queues within the last minute, in memory:
// the rules that it serves protect AWS, not us.
type recent struct {
	mu sync.Mutex
	at map[string]int64 // milliseconds since the epoch
}

// mark notes name, or tells that it is noted within the span.
func (r *recent) mark(name string, now int64) (fresh bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.withinLocked(name, now) {
		return false
	}
	if r.at == nil {
		r.at = make(map[string]int64)
	}
	if len(r.at) >= recentMax {
		for n := range r.at {
			if !r.withinLocked(n, now) {
				delete(r.at, n)
			}
		}
	}
	if len(r.at) < recentMax {
		r.at[name] = now
	}
	return true
}

// within tells whether name is noted within the span.
func (r *recent) within(name string, now int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.withinLocked(name, now)
}

func (r *recent) withinLocked(name string, now int64) bool {
	at, ok := r.at[name]
	return ok && now-at < recentSpan
}

// forget drops name.
func (r *recent) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.at, name)
}
