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
	"sync/atomic"
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
	// Primary returns the URL of the primary's admin listener, without a path, if
	// it is known and not this node. While the node has no engine, requests that
	// need one are relayed there. nil: the node is no member of a cluster. It
	// answers at once.
	Primary func() (url string, ok bool)
	// PrimaryTransport sends what is relayed, such as with certificates. nil: a
	// plain one, which trusts whom the system trusts.
	PrimaryTransport http.RoundTripper
	// Cluster answers /api/v1/cluster. nil: the node is no member of one.
	Cluster Cluster
}

// Server is the admin frontend of one node.
type Server struct {
	access  atomic.Pointer[access] // nil: the node has no engine
	log     *slog.Logger
	options Options
	proxy   http.Handler
	handler http.Handler
}

// New returns a Server over engine, which may be nil: see SetEngine. It fails
// when two collectors claim the same metric.
func New(engine *core.Engine, o Options) (*Server, error) {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.MetricQueues == 0 {
		o.MetricQueues = metricQueuesMost
	}
	s := &Server{log: o.Logger, options: o}
	s.SetEngine(engine)
	s.proxy = s.newProxy()
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

	s.apiRoutes(mux)
	if s.options.Profiles {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	return mux
}

// apiRoutes adds what is below /api.
func (s *Server) apiRoutes(mux *http.ServeMux) {
	without := func(pattern string, h func(*access, *http.Request) (int, any, error)) {
		mux.Handle(pattern, s.api(0, func(a *access, r *http.Request, _ []byte) (int, any, error) { return h(a, r) }))
	}
	with := func(pattern string, bodyMax int64, h handler) { mux.Handle(pattern, s.api(bodyMax, h)) }

	without("GET /api/v1/queues", (*access).listQueues)
	with("POST /api/v1/queues", settingsBytesMax, (*access).createQueue)
	without("GET /api/v1/queues/{queue}", (*access).getQueue)
	with("PATCH /api/v1/queues/{queue}", settingsBytesMax, (*access).patchQueue)
	without("DELETE /api/v1/queues/{queue}", (*access).deleteQueue)
	without("POST /api/v1/queues/{queue}/purge", (*access).purgeQueue)
	without("GET /api/v1/queues/{queue}/messages", (*access).peek)
	with("POST /api/v1/queues/{queue}/messages", publishBytesMax, (*access).publish)
	with("POST /api/v1/queues/{queue}/receive", settingsBytesMax, (*access).receive)
	with("POST /api/v1/queues/{queue}/settle", settingsBytesMax, (*access).settle)
	without("GET /api/v1/queues/{queue}/moves", (*access).listMoves)
	with("POST /api/v1/queues/{queue}/moves", settingsBytesMax, (*access).startMove)
	without("DELETE /api/v1/queues/{queue}/moves/{move}", (*access).cancelMove)
	without("GET /api/v1/topics/bindings", (*access).listBindings)
	with("POST /api/v1/topics/bindings", settingsBytesMax, (*access).bind)
	without("DELETE /api/v1/topics/bindings", (*access).unbind)
	with("POST /api/v1/topics/messages", publishBytesMax, (*access).publishTopic)
	without("GET /api/v1/topics/retained", (*access).listRetained)

	mux.Handle("GET /api/v1/cluster", s.own(s.clusterStatus))
	mux.Handle("POST /api/v1/cluster/handover", s.own(s.clusterHandover))
	mux.Handle("POST /api/v1/cluster/verify", s.own(s.clusterVerify))
	mux.Handle("POST /api/v1/cluster/reseed", s.own(s.clusterReseed))
	mux.Handle("/api/", s.own(func(http.ResponseWriter, *http.Request) (int, any, error) { return 0, nil, errNoRoute }))
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
