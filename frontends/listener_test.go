package frontends

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func listen(t *testing.T, limits Limits) *Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := NewListener(ln, limits, quiet())
	t.Cleanup(func() {
		_ = l.Close()
		l.CloseConns()
	})
	return l
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func dial(t *testing.T, l *Listener) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func accept(t *testing.T, l *Listener) *Conn {
	t.Helper()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return c.(*Conn)
}

func TestLimitsRefuseAndLetInAgain(t *testing.T) {
	for name, limits := range map[string]Limits{
		"connections": {Connections: 2, Refusal: []byte("full")},
		"per address": {PerAddress: 2, Refusal: []byte("full")},
	} {
		t.Run(name, func(t *testing.T) {
			l := listen(t, limits)
			dial(t, l)
			dial(t, l)
			first, _ := accept(t, l), accept(t, l)
			third := dial(t, l)
			accepted := make(chan *Conn)
			go func() {
				c, err := l.Accept() // refuses the third, waits for the fourth
				if err == nil {
					accepted <- c.(*Conn)
				}
				close(accepted)
			}()
			if b, err := io.ReadAll(third); err != nil || string(b) != "full" {
				t.Errorf("the third read %q, error %v", b, err)
			}
			_ = first.Close()
			dial(t, l)
			if c := <-accepted; c == nil {
				t.Fatal("the fourth was not accepted")
			}
			if open, in, out := l.Counts(); open != 2 || in != 3 || out != 1 {
				t.Errorf("open %d, accepted %d, refused %d; want 2, 3, 1", open, in, out)
			}
		})
	}
}

func TestCloseIdleSparesTheBusy(t *testing.T) {
	l := listen(t, Limits{})
	idle, busy := dial(t, l), dial(t, l)
	conns := map[string]*Conn{}
	for range 2 {
		c := accept(t, l)
		conns[c.RemoteAddr().String()] = c
	}
	conns[busy.LocalAddr().String()].SetBusy(true)
	l.CloseIdle()
	if _, err := idle.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the idle connection: %v, want its end", err)
	}
	if open, _, _ := l.Counts(); open != 1 {
		t.Errorf("%d connections are open, want the busy one", open)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait with a connection open: %v", err)
	}
	l.CloseConns()
	if err := l.Wait(t.Context()); err != nil {
		t.Errorf("Wait with none: %v", err)
	}
	if _, err := busy.Read(make([]byte, 1)); err == nil {
		t.Error("the busy connection is still open")
	}
}

func TestCloseEndsAccept(t *testing.T) {
	l := listen(t, Limits{})
	ended := make(chan error)
	go func() {
		_, err := l.Accept()
		ended <- err
	}()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
}

// fakeListener answers Accept with errors, and then blocks.
type fakeListener struct {
	errs  []error
	calls chan struct{}
	done  chan struct{}
}

func (l *fakeListener) Accept() (net.Conn, error) {
	l.calls <- struct{}{}
	if len(l.errs) == 0 {
		<-l.done
		return nil, net.ErrClosed
	}
	err := l.errs[0]
	l.errs = l.errs[1:]
	return nil, err
}
func (l *fakeListener) Close() error   { close(l.done); return nil }
func (l *fakeListener) Addr() net.Addr { return &net.TCPAddr{} }

func TestAcceptOutlivesWhatPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := &net.OpError{Op: "accept", Err: syscall.EMFILE}
		fake := &fakeListener{errs: []error{busy, busy, busy}, calls: make(chan struct{}, 10), done: make(chan struct{})}
		l := NewListener(fake, Limits{}, quiet())
		start := time.Now()
		ended := make(chan error)
		go func() {
			_, err := l.Accept()
			ended <- err
		}()
		for range 4 {
			<-fake.calls
		}
		if took, want := time.Since(start), (5+10+20)*time.Millisecond; took != want {
			t.Errorf("three failures cost %v, want %v", took, want)
		}
		_ = l.Close()
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept: %v", err)
		}
	})
}

func TestAcceptEndsWithWhatDoesNotPass(t *testing.T) {
	broken := errors.New("broken")
	fake := &fakeListener{errs: []error{broken}, calls: make(chan struct{}, 1), done: make(chan struct{})}
	if _, err := NewListener(fake, Limits{}, quiet()).Accept(); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

// A peer that still sends gets to read the last answer.
func TestLingerLetsThePeerRead(t *testing.T) {
	l := listen(t, Limits{})
	peer := dial(t, l)
	c := accept(t, l)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		chunk := make([]byte, 64<<10)
		for range 64 {
			if _, err := peer.Write(chunk); err != nil {
				return
			}
		}
		_ = peer.(*net.TCPConn).CloseWrite()
	}()
	if _, err := c.Write([]byte("enough")); err != nil {
		t.Fatal(err)
	}
	c.SetLinger(time.Minute)
	closed := make(chan error)
	go func() { closed <- c.Close() }()
	<-sent
	if b, err := io.ReadAll(peer); err != nil || string(b) != "enough" {
		t.Errorf("the peer read %q, error %v", b, err)
	}
	if err := <-closed; err != nil {
		t.Errorf("close: %v", err)
	}
}

// TestAnUnsentAnswerIsTold: the writer of an answer that cannot be written calls
// what it was given, once; what the answer before was given is forgotten.
func TestAnUnsentAnswerIsTold(t *testing.T) {
	ours, peer := net.Pipe()
	c := &Conn{Conn: ours}
	told := ""
	c.OnUnsent(func() { told += "first " })
	c.SetBusy(true)
	c.OnUnsent(func() { told += "second " })
	_ = peer.Close()
	for range 2 {
		if _, err := c.Write([]byte("answer")); err == nil {
			t.Fatal("a write to nobody succeeded")
		}
	}
	if told != "second " {
		t.Errorf("told %q, want only the second, once", told)
	}
}
