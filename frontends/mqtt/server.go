package mqtt

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends"
)

// Server is the MQTT frontend. It is made by New and serves any number of
// listeners.
type Server struct {
	options    Options
	client     *core.Client
	now        func() int64 // the core's clock, milliseconds since the epoch
	openedAt   int64
	registry   registry
	timers     timers
	groups     groups
	counts     counts
	numbers    atomic.Uint64 // of memory queues
	buffers    sync.Pool     // of *[]byte
	deliveries sync.Pool     // of *[]core.Delivery
	crew       *crew
	refusals   *frontends.Refusals

	mu      sync.Mutex
	serving int // listeners
	stop    context.CancelFunc
	ended   chan struct{} // closed when the background work has
}

// New returns the frontend of engine.
func New(engine *core.Engine, o Options) (*Server, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("mqtt: %w", err)
	}
	s := &Server{
		options: o, client: engine.Client(core.Principal{Origin: core.OriginMQTT}), now: engine.Now, openedAt: engine.Now(),
		registry: registry{entries: make(map[string]*entry)}, crew: newCrew(),
		refusals: frontends.NewRefusals("mqtt", o.Logger),
	}
	s.timers.wake, s.timers.earliest = make(chan struct{}, 1), make(map[string]int64)
	s.groups.members, s.groups.empty = make(map[string]map[string]struct{}), make(map[string]int64)
	return s, nil
}

// Name is "mqtt".
func (s *Server) Name() string { return "mqtt" }

// Serve speaks MQTT over TCP, or over what ln makes of it, until ctx is done; see
// frontends.Frontend.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	l := s.listener(ln)
	var serving sync.WaitGroup
	s.enter()
	defer s.leave()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	var err error
	for {
		var socket net.Conn
		if socket, err = l.Accept(); err != nil {
			break
		}
		serving.Go(func() { s.serveConn(ctx, socket) })
	}
	failed := ctx.Err() == nil
	if failed {
		_ = l.Close() // it has failed already
		err = fmt.Errorf("mqtt: serve %s: %w", ln.Addr(), err)
	} else {
		err = nil
	}
	s.drain(l, &serving, failed)
	return err
}

// listener bounds the connections of ln.
func (s *Server) listener(ln net.Listener) *frontends.Listener {
	return frontends.NewListener(ln, frontends.Limits{
		Connections: s.options.MaxConnections,
		PerAddress:  s.options.MaxPerAddress,
	}, s.options.Logger)
}

// drain waits until the connections have ended, which they do by themselves unless
// the listener has failed, and ends those that take too long.
func (s *Server) drain(l *frontends.Listener, serving *sync.WaitGroup, failed bool) {
	if failed {
		l.CloseConns()
	}
	ctx, cancel := context.WithTimeout(context.Background(), frontends.DrainMax-time.Second)
	defer cancel()
	if err := l.Wait(ctx); err != nil {
		open, _, _ := l.Counts()
		s.options.Logger.Warn("closing connections that did not drain", "frontend", s.Name(), "connections", open, "error", err)
		l.CloseConns()
	}
	serving.Wait()
}

func (s *Server) serveConn(ctx context.Context, socket net.Conn) {
	s.newConn(context.WithoutCancel(ctx), socket).serve(ctx)
}

// enter starts the background work with the first listener.
func (s *Server) enter() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.serving++; s.serving > 1 {
		return
	}
	s.crew.begin()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	s.stop, s.ended = cancel, ended
	var work sync.WaitGroup
	work.Go(func() { s.watchSessions(ctx) })
	work.Go(func() { s.tellSystem(ctx) })
	go func() {
		defer close(ended)
		work.Wait()
	}()
}

// leave ends the background work with the last listener.
func (s *Server) leave() {
	s.mu.Lock()
	s.serving--
	stop, ended, last := s.stop, s.ended, s.serving == 0
	s.mu.Unlock()
	if last {
		stop()
		<-ended
		s.crew.end()
	}
}

// complain logs an error of work that nobody waits for.
func (s *Server) complain(what string, err error) {
	if !errors.Is(err, core.ErrStopped) && !errors.Is(err, context.Canceled) {
		s.options.Logger.Error("mqtt: "+what, "error", err)
	}
}
