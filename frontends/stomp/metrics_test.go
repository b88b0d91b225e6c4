package stomp

import (
	"context"
	"maps"
	"net"
	"testing"
	"time"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends/frontendtest"
	"github.com/leasemq/broker/frontends/stomp/frame"
)

// Stats tells what clients do, and has nothing left when they have gone.
func TestStats(t *testing.T) {
	e := frontendtest.NewEngine(t)
	s, err := New(e, Options{Logger: quiet(), MaxConnections: 1})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, ln) }()

	client := e.Client(core.Principal{})
	full := core.DefaultQueueConfig(core.KindStandard)
	full.MaxMessages, full.Overflow = 1, core.OverflowReject
	if _, _, err := client.DeclareBound(t.Context(), "full", full, core.Binding{Filter: "t"}); err != nil {
		t.Fatal(err)
	}
	p, err := dialPeer(ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer p.HangUp()
	if _, err := dialPeer(ln.Addr().String()); err == nil {
		t.Error("a second connection is let in")
	}
	do := func(command string, body string, pairs ...string) {
		t.Helper()
		if err := p.do(&frame.Frame{Command: command, Headers: headers(pairs...), Body: []byte(body)}); err != nil {
			t.Fatal(err)
		}
	}
	take := func() string {
		t.Helper()
		p.subs["s"] = true // Receive is not to subscribe
		m, ok, err := p.Receive("s", 10*time.Second)
		if !ok || err != nil {
			t.Fatalf("no message: %v", err)
		}
		return m.Token
	}
	for range 2 {
		do(frame.Send, "x", "destination", "/topic/t") // the second finds the queue full
	}
	do(frame.Send, "x", "destination", "/queue/q")
	do(frame.Subscribe, "", "id", "s", "destination", "/queue/q", "ack", "client-individual", "prefetch-count", "1")
	do(frame.Nack, "", "id", take())
	token := take()
	if got := s.Stats(); got.Connections != 1 || got.Sessions != 1 || got.Subscriptions != 1 || got.Unacked != 1 || got.OutOfCredit != 1 {
		t.Errorf("while a message is held: %+v", got)
	}
	do(frame.Ack, "", "id", token)
	_ = p.write(&frame.Frame{Command: "FOO"})
	if _, err := p.read(); err == nil {
		t.Error("FOO is no error")
	}
	p.HangUp()
	for deadline := time.Now().Add(10 * time.Second); s.Stats().Connections > 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
	got := s.Stats()
	if got.Connections != 0 || got.Subscriptions != 0 || got.Unacked != 0 || got.Refused != 1 || got.Delivered != 2 || got.Acked != 1 ||
		got.Nacked != 1 || got.TopicFull != 1 {
		t.Errorf("in the end: %+v", got)
	}
	maps.DeleteFunc(got.FramesIn, func(_ string, n int64) bool { return n == 0 })
	in := map[string]int64{frame.Connect: 1, frame.Send: 3, frame.Subscribe: 1, frame.Ack: 1, frame.Nack: 1, otherCommand: 1}
	out := map[string]int64{frame.Connected: 1, frame.Message: 2, frame.Receipt: 6, frame.Error: 1}
	if !maps.Equal(got.FramesIn, in) || !maps.Equal(got.FramesOut, out) {
		t.Errorf("frames %v and %v, want %v and %v", got.FramesIn, got.FramesOut, in, out)
	}
}
