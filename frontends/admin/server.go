package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends"
)

// Bounds of a request.
const (
	headerBytesMax   = 64 << 10
	headerWait       = 10 * time.Second
	readWait         = 60 * time.Second
	writeWait        = 90 * time.Second
	idleWait         = 2 * time.Minute
	connectionsMax   = 256
	metricQueuesMost = 200 // when Options names none
)

// Options configures a Server. The zero value serves health, metrics and API.
type Options struct {
	Logger *slog.Logger // nil: slog.Default
	// Checks are what /readyz and /healthz ask, besides the engine.
	Checks []Check
	// Collectors add to /metrics.
	Collectors []prometheus.Collector
	// MetricQueues is how many queues /metrics shows one by one. 0: 200;
	// negative: none.
	MetricQueues int
	// SetAttributes replaces the attributes of a queue that belong to one
	// frontend, or says what is wrong with them. nil: they are taken as they are.
	SetAttributes func(cfg *core.QueueConfig, attributes map[string]string) error
	// Profiles serves /debug/pprof. It is for development: a profile shows what
	// the process does and slows it.
	Profiles bool
}

// Server is the admin frontend of one node.
type Server struct {
	engine  *core.Engine
	client  *core.Client
	log     *slog.Logger
	options Options
	handler http.Handler
}

// New returns a Server over engine. It fails when two collectors claim the same
// metric.
func New(engine *core.Engine, o Options) (*Server, error) {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.MetricQueues == 0 {
		o.MetricQueues = metricQueuesMost
	}
	s := &Server{
		engine:  engine,
		client:  engine.Client(core.Principal{Origin: core.OriginAdmin}),
		log:     o.Logger,
		options: o,
	}
	metrics, err := s.metrics()
	if err != nil {
		return nil, err
	}
	s.handler = crashOnPanic(sameOriginOnly(s.routes(metrics)))
	return s, nil
}

func (s *Server) routes(metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", s.livez)
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.HandleFunc("GET /healthz", s.readyz)
	mux.HandleFunc("GET /health", s.readyz)
	mux.Handle("GET /metrics", metrics)

	mux.Handle("GET /api/v1/queues", s.api(s.listQueues))
	mux.Handle("POST /api/v1/queues", s.api(s.createQueue))
	mux.Handle("GET /api/v1/queues/{queue}", s.api(s.getQueue))
	mux.Handle("PATCH /api/v1/queues/{queue}", s.api(s.patchQueue))
	mux.Handle("DELETE /api/v1/queues/{queue}", s.api(s.deleteQueue))
	mux.Handle("POST /api/v1/queues/{queue}/purge", s.api(s.purgeQueue))
	mux.Handle("GET /api/v1/queues/{queue}/messages", s.api(s.peek))
	mux.Handle("POST /api/v1/queues/{queue}/messages", s.api(s.publish))
	mux.Handle("POST /api/v1/queues/{queue}/receive", s.api(s.receive))
	mux.Handle("POST /api/v1/queues/{queue}/settle", s.api(s.settle))
	mux.Handle("GET /api/v1/queues/{queue}/moves", s.api(s.listMoves))
	mux.Handle("POST /api/v1/queues/{queue}/moves", s.api(s.startMove))
	mux.Handle("DELETE /api/v1/queues/{queue}/moves/{move}", s.api(s.cancelMove))
	mux.Handle("GET /api/v1/topics/bindings", s.api(s.listBindings))
	mux.Handle("POST /api/v1/topics/bindings", s.api(s.bind))
	mux.Handle("DELETE /api/v1/topics/bindings", s.api(s.unbind))
	mux.Handle("POST /api/v1/topics/messages", s.api(s.publishTopic))
	mux.Handle("GET /api/v1/topics/retained", s.api(s.listRetained))
	mux.Handle("/api/", s.api(func(*http.Request) (int, any, error) { return 0, nil, errNoRoute }))

	if s.options.Profiles {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	return mux
}

// Name is what the node calls this frontend.
func (s *Server) Name() string { return "admin" }

// Serve answers on ln until ctx ends, then stops accepting, lets the requests
// that are being answered finish, and returns nil. It closes ln.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	// Requests end with the server, not with ctx: an answer that is being sent
	// when the node stops is still sent. Waits end by Engine.Drain.
	requests, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	handler := s.handler
	if addr, ok := ln.Addr().(*net.TCPAddr); ok && addr.IP.IsLoopback() {
		handler = loopbackHostsOnly(handler)
	}
	srv := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerWait,
		ReadTimeout:       readWait,
		WriteTimeout:      writeWait,
		IdleTimeout:       idleWait,
		MaxHeaderBytes:    headerBytesMax,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return requests },
		ConnState: func(c net.Conn, state http.ConnState) {
			if c, ok := c.(*frontends.Conn); ok {
				c.SetBusy(state == http.StateActive)
			}
		},
	}
	limited := frontends.NewListener(ln, frontends.Limits{Connections: connectionsMax}, s.log)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(limited) }()

	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	// Shutdown alone would wait for connections that have not asked yet.
	_ = limited.Close()
	limited.CloseIdle()
	wait, done := context.WithTimeout(context.WithoutCancel(ctx), frontends.DrainMax)
	defer done()
	if err := srv.Shutdown(wait); err != nil {
		cancel()
		if err := srv.Close(); err != nil {
			s.log.Warn("close admin listener", "error", err)
		}
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// crashOnPanic ends the process when a handler panics. net/http would go on
// with whatever lock the panic left held.
func crashOnPanic(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == http.ErrAbortHandler {
				panic(p)
			}
			if p != nil {
				stack := debug.Stack()
				// In a goroutine of its own, which nobody recovers.
				go func() { panic(fmt.Sprintf("admin: %s %s: %v\n\n%s", r.Method, r.URL.Path, p, stack)) }()
				select {}
			}
		}()
		next.ServeHTTP(w, r)
	})
}
