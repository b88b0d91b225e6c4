package stomp

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
	"github.com/leasemq/broker/frontends/stomp/frame"
)

// commandBytesMax bounds the first line of a frame.
const commandBytesMax = 32

// sweepEvery is how often held messages are looked at.
const sweepEvery = time.Second

// Server is the STOMP frontend. It is made by New and serves any number of
// listeners.
type Server struct {
	options Options
	client  *core.Client
	now     func() int64 // the core's clock, milliseconds since the epoch

	mu    sync.Mutex
	conns map[*conn]struct{}
	ids   map[string]*conn // by client-id

	listeners map[*frontends.Listener]struct{} // that are served

	lines    lines
	counters counters
	refusals *frontends.Refusals
	inTxs    atomic.Int64 // bytes of messages in open transactions
}

// New returns the frontend of engine.
func New(engine *core.Engine, o Options) (*Server, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("stomp: %w", err)
	}
	return &Server{
		options: o, client: engine.Client(core.Principal{Origin: core.OriginSTOMP}), now: engine.Now,
		conns: make(map[*conn]struct{}), ids: make(map[string]*conn), listeners: make(map[*frontends.Listener]struct{}),
		refusals: frontends.NewRefusals("stomp", o.Logger),
	}, nil
}

// Name is "stomp".
func (s *Server) Name() string { return "stomp" }

// Serve speaks STOMP over TCP, or over what ln makes of it, until ctx is done; see
// frontends.Frontend.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	l := s.listener(ln)
	var serving sync.WaitGroup
	stopSweep := s.sweep()
	defer stopSweep()
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
		err = fmt.Errorf("stomp: serve %s: %w", ln.Addr(), err)
	} else {
		err = nil
	}
	s.drain(l, &serving, failed)
	return err
}

// listener bounds the connections of ln.
func (s *Server) listener(ln net.Listener) *frontends.Listener {
	full := fail("Too many connections", "Try again later.")
	l := frontends.NewListener(ln, frontends.Limits{
		Connections: s.options.MaxConnections,
		PerAddress:  s.options.MaxPerAddress,
		Refusal:     appendError(nil, frame.V10, full, ""),
	}, s.options.Logger)
	s.mu.Lock()
	s.listeners[l] = struct{}{}
	s.mu.Unlock()
	return l
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
	_, _, refused := l.Counts()
	s.mu.Lock()
	delete(s.listeners, l)
	s.mu.Unlock()
	s.counters.refused.Add(int64(refused))
}

func (s *Server) serveConn(ctx context.Context, socket net.Conn) {
	c := s.newConn(context.WithoutCancel(ctx), socket)
	s.mu.Lock()
	s.conns[c] = struct{}{}
	s.mu.Unlock()
	c.serve(ctx)
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
}

// sweep starts looking for messages that are held too long. It returns what ends
// that.
func (s *Server) sweep() (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(sweepEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				s.endHolders()
			case <-quit:
				return
			}
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}

// endHolders ends connections that sit on a message for too long.
func (s *Server) endHolders() {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.endHolder(now)
	}
}

// complain logs an error of work that nobody waits for.
func (s *Server) complain(what string, err error) {
	if !errors.Is(err, core.ErrStopped) {
		s.options.Logger.Error("stomp: "+what, "error", err)
	}
}
