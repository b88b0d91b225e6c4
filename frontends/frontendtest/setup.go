package frontendtest

import (
	"errors"
	"log/slog"
	"net"
	"testing"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/storage"
)

// NewEngine opens a core on a small store in memory. It is closed by the cleanup.
func NewEngine(t testing.TB) *core.Engine {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	db, boot, err := storage.Open(storage.Options{
		Memory: true, Logger: log, Profile: storage.Profile{MemTableBytes: 1 << 20, CacheBytes: 4 << 20},
	})
	if err != nil {
		t.Fatal(err)
	}
	e, err := core.Open(core.Options{Store: db, Committer: db, Boot: boot, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(e.Close(), db.Close()); err != nil {
			t.Error(err)
		}
	})
	return e
}

// PipeListener accepts the far ends of pipes, so that a server lives within a
// synctest bubble. It is closed once.
type PipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

// NewPipeListener returns a PipeListener.
func NewPipeListener() *PipeListener {
	return &PipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Accept waits for a Dial.
func (l *PipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and Dial.
func (l *PipeListener) Close() error {
	close(l.closed)
	return nil
}

// Addr is an address of loopback that nobody listens on.
func (l *PipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// Dial connects a client.
func (l *PipeListener) Dial(t testing.TB) net.Conn {
	t.Helper()
	near, far := net.Pipe()
	select {
	case l.conns <- far:
	case <-l.closed:
		t.Fatal("dial: the listener is closed")
	}
	return near
}
