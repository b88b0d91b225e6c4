// Package frontendtest is the conformance suite of the wires: what every
// frontend owes a client, whatever its protocol. Each frontend's tests run it
// through a small adapter.
package frontendtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends"
)

// Wire adapts one frontend to the suite.
type Wire interface {
	// Frontend returns the frontend under test.
	Frontend(t testing.TB, engine *core.Engine) frontends.Frontend
	// Dial connects a client.
	Dial(t testing.TB, address string) Peer
	// MessageBytesMax is the largest message that the frontend of Frontend takes.
	MessageBytesMax() int
}

// Peer is a client on one connection. Its methods are called from one goroutine
// at a time, but for HangUp.
type Peer interface {
	// Send sends body and returns once it is acknowledged.
	Send(queue string, body []byte) error
	// Receive waits for one message at most that long; ok is false if none came.
	Receive(queue string, wait time.Duration) (m Message, ok bool, err error)
	// Ack acknowledges m and returns once that is certain.
	Ack(m Message) error
	// HangUp closes the connection without a word. It may be called again.
	HangUp()
}

// Message is one that a Peer received.
type Message struct {
	Queue       string
	Body        []byte
	Redelivered bool
	Token       string // what Ack needs
}

// patience is how long the suite waits for what ought to happen at once.
const patience = 30 * time.Second

// The queues of the suite. The first has the shortest visibility timeout, so that
// a timed lease ends soon.
const (
	queue     = "conformance"
	keptQueue = "conformance-kept"
)

// Run runs the suite.
func Run(t *testing.T, w Wire) {
	t.Run("SendReceiveAck", func(t *testing.T) { sendReceiveAck(t, newRig(t, w)) })
	t.Run("RedeliveryAfterHangUp", func(t *testing.T) { redeliveryAfterHangUp(t, newRig(t, w)) })
	t.Run("TooLarge", func(t *testing.T) { tooLarge(t, newRig(t, w)) })
	t.Run("Garbage", func(t *testing.T) { garbage(t, newRig(t, w)) })
	t.Run("Drain", func(t *testing.T) { drain(t, newRig(t, w)) })
	t.Run("VanishedWaiterTakesNoLease", func(t *testing.T) { vanishedWaiter(t, newRig(t, w)) })
}

// rig is a frontend being served, with its core seen from inside.
type rig struct {
	t       *testing.T
	wire    Wire
	client  *core.Client
	address string
	stop    context.CancelFunc
	served  chan error
}

func newRig(t *testing.T, w Wire) *rig {
	t.Helper()
	engine := NewEngine(t)
	r := &rig{t: t, wire: w, client: engine.Client(core.Principal{}), served: make(chan error, 1)}
	cfg := core.DefaultQueueConfig(core.KindStandard)
	cfg.VisibilityTimeout = time.Second
	if _, _, err := r.client.Declare(t.Context(), queue, cfg); err != nil {
		t.Fatalf("declare: %v", err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.address = ln.Addr().String()
	f := w.Frontend(t, engine)
	if f.Name() == "" {
		t.Error("the frontend has no name")
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	go func() {
		r.served <- f.Serve(ctx, ln)
		close(r.served)
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-r.served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return r
}

func (r *rig) dial() Peer {
	r.t.Helper()
	p := r.wire.Dial(r.t, r.address)
	r.t.Cleanup(p.HangUp)
	return p
}

func (r *rig) send(p Peer, body string) {
	r.t.Helper()
	if err := p.Send(queue, []byte(body)); err != nil {
		r.t.Fatalf("send %q: %v", body, err)
	}
}

func (r *rig) receive(p Peer, want string) Message {
	r.t.Helper()
	m, ok, err := p.Receive(queue, patience)
	if err != nil || !ok {
		r.t.Fatalf("receive: got a message: %v, error %v; want %q", ok, err, want)
	}
	if string(m.Body) != want {
		r.t.Fatalf("received %q, want %q", m.Body, want)
	}
	return m
}

func (r *rig) stats(name string) core.QueueStats {
	r.t.Helper()
	st, err := r.client.Stats(r.t.Context(), name)
	if err != nil {
		r.t.Fatalf("stats: %v", err)
	}
	return st
}

// eventually waits for what a frontend does by itself.
func (r *rig) eventually(what string, happened func() bool) {
	r.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !happened() {
		select {
		case <-tick.C:
		case <-deadline:
			r.t.Fatalf("never: %s", what)
		}
	}
}

// sendReceiveAck: what is sent is received, unchanged; what is acknowledged is
// gone for good.
func sendReceiveAck(t *testing.T, r *rig) {
	p := r.dial()
	bodies := []string{"plain", "é😀 <&> \"quoted\" \\ \t\r\n", string(bytes.Repeat([]byte("x"), r.wire.MessageBytesMax()/2))}
	for _, body := range bodies {
		r.send(p, body)
		m := r.receive(p, body)
		if m.Redelivered {
			t.Errorf("a first delivery of %.20q is marked as a further one", body)
		}
		if err := p.Ack(m); err != nil {
			t.Fatalf("ack: %v", err)
		}
	}
	if st := r.stats(queue); st.Messages != 0 || st.InFlight != 0 {
		t.Errorf("after all was acknowledged: %+v", st)
	}
	r.send(p, "last")
	r.receive(p, "last")
}

// redeliveryAfterHangUp: what a client did not acknowledge before it went comes
// to another.
func redeliveryAfterHangUp(t *testing.T, r *rig) {
	first, second := r.dial(), r.dial()
	r.send(second, "unfinished")
	r.receive(first, "unfinished")
	first.HangUp()
	m := r.receive(second, "unfinished")
	if !m.Redelivered {
		t.Error("the second delivery is not marked as such")
	}
	if err := second.Ack(m); err != nil {
		t.Errorf("ack: %v", err)
	}
}

// tooLarge: a message above the limit is refused, is not stored, and harms
// nobody else.
func tooLarge(t *testing.T, r *rig) {
	big := r.dial()
	if err := big.Send(queue, bytes.Repeat([]byte("x"), r.wire.MessageBytesMax()+1)); err == nil {
		t.Error("a message above the limit was taken")
	}
	if st := r.stats(queue); st.Messages != 0 {
		t.Errorf("it was stored: %+v", st)
	}
	p := r.dial()
	r.send(p, "small")
	r.receive(p, "small")
}

// garbage: what is not the protocol ends its connection, and no other.
func garbage(t *testing.T, r *rig) {
	p := r.dial()
	r.send(p, "before")
	for _, b := range [][]byte{{0}, bytes.Repeat([]byte{0xFF}, 100), []byte("\r\n\r\n\r\n"), bytes.Repeat([]byte("A"), 1<<20), []byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")} {
		c, err := net.Dial("tcp", r.address)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write(b) // it may be closed under us
		_ = c.(*net.TCPConn).CloseWrite()
		if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		var timeout net.Error
		if _, err := io.Copy(io.Discard, c); errors.As(err, &timeout) && timeout.Timeout() {
			t.Errorf("the connection that sent %.10q stays open", b)
		}
		_ = c.Close()
	}
	r.receive(p, "before")
}

// drain: a frontend that is told to end refuses newcomers, lets waiting clients
// go, and is done in time; what it acknowledged is there.
func drain(t *testing.T, r *rig) {
	if _, _, err := r.client.Declare(t.Context(), keptQueue, core.DefaultQueueConfig(core.KindStandard)); err != nil {
		t.Fatalf("declare: %v", err)
	}
	p, waiting := r.dial(), r.dial()
	if err := p.Send(keptQueue, []byte("kept")); err != nil {
		t.Fatalf("send: %v", err)
	}
	done := make(chan bool, 1)
	go func() {
		_, ok, _ := waiting.Receive(queue, patience) // an empty answer or an error: both end the wait
		done <- ok
	}()
	r.eventually("the client waits", func() bool { return r.stats(queue).Waiters > 0 })
	started := time.Now()
	r.stop()
	if err := <-r.served; err != nil {
		t.Errorf("serve: %v", err)
	}
	if took := time.Since(started); took > frontends.DrainMax+time.Second {
		t.Errorf("draining took %v", took)
	}
	if <-done {
		t.Error("the waiting client got a message that nobody sent")
	}
	if c, err := net.Dial("tcp", r.address); err == nil {
		_ = c.Close()
		t.Error("a newcomer was let in")
	}
	if st := r.stats(keptQueue); st.Messages != 1 {
		t.Errorf("what was acknowledged is not there: %+v", st)
	}
}

// vanishedWaiter: a client that waits and goes away takes no message with it.
func vanishedWaiter(t *testing.T, r *rig) {
	gone, other := r.dial(), r.dial()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _, _ = gone.Receive(queue, patience)
	}()
	r.eventually("the client waits", func() bool { return r.stats(queue).Waiters > 0 })
	gone.HangUp()
	<-done
	r.send(other, "for another")
	if m := r.receive(other, "for another"); m.Redelivered {
		t.Error("the message went to the client that had gone first")
	}
}
