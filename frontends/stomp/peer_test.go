package stomp

import (
	"context"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	gostomp "github.com/go-stomp/stomp/v3"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends/frontendtest"
	"github.com/leasemq/broker/frontends/stomp/frame"
)

// listenAndServe serves a fresh core on a free port until the test ends.
func listenAndServe(t testing.TB, o Options) (address string, client *core.Client) {
	t.Helper()
	o.Logger = quiet()
	e := frontendtest.NewEngine(t)
	s, err := New(e, o)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return ln.Addr().String(), e.Client(core.Principal{})
}

// The client of go-stomp sends, receives, acknowledges and commits.
func TestGoStomp(t *testing.T) {
	for _, version := range []gostomp.Version{gostomp.V10, gostomp.V11, gostomp.V12} {
		t.Run(version.String(), func(t *testing.T) {
			address, core := listenAndServe(t, Options{})
			// With a timeout the client may miss that the receipt of UNSUBSCRIBE has come.
			conn, err := gostomp.Dial("tcp", address, gostomp.ConnOpt.AcceptVersion(version), gostomp.ConnOpt.UnsubscribeReceiptTimeout(0),
				gostomp.ConnOpt.HeartBeat(5*time.Second, 5*time.Second), gostomp.ConnOpt.Login("user", "p:w"))
			if err != nil {
				t.Fatal(err)
			}
			if conn.Version() != version {
				t.Errorf("version %s, want %s", conn.Version(), version)
			}
			sub, err := conn.Subscribe("/queue/q", gostomp.AckClientIndividual)
			if err != nil {
				t.Fatal(err)
			}
			for i := range 10 {
				err := conn.Send("/queue/q", "text/plain", []byte("m"+strconv.Itoa(i)), gostomp.SendOpt.Receipt, gostomp.SendOpt.Header("n", strconv.Itoa(i)))
				if err != nil {
					t.Fatal(err)
				}
			}
			for i := range 10 {
				m := <-sub.C
				if m.Err != nil {
					t.Fatal(m.Err)
				}
				if want := "m" + strconv.Itoa(i); string(m.Body) != want || m.Header.Get("n") != strconv.Itoa(i) || m.ContentType != "text/plain" {
					t.Errorf("got %q %v, want %q", m.Body, m.Header, want)
				}
				if err := conn.Ack(m); err != nil {
					t.Fatal(err)
				}
			}
			tx := conn.Begin()
			if err := tx.Send("/queue/r", "", []byte("x")); err != nil {
				t.Fatal(err)
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			if err := sub.Unsubscribe(); err != nil {
				t.Error(err)
			}
			if err := conn.Disconnect(); err != nil {
				t.Error(err)
			}
			for queue, want := range map[string]int64{"q": 0, "r": 1} {
				st, err := core.Stats(t.Context(), queue)
				if err != nil || st.Messages != want {
					t.Errorf("%s has %+v, error %v; want %d messages", queue, st, err, want)
				}
			}
		})
	}
}

// The ERROR of a client that sends on and on still reaches it.
func TestErrorReachesWhoSendsOn(t *testing.T) {
	address, _ := listenAndServe(t, Options{})
	p, err := dialPeer(address)
	if err != nil {
		t.Fatal(err)
	}
	defer p.HangUp()
	go func() {
		chunk := []byte("FOO\n\n\x00" + strings.Repeat("x", 64<<10))
		for range 64 {
			if _, err := p.conn.Write(chunk); err != nil {
				return
			}
		}
		_ = p.conn.(*net.TCPConn).CloseWrite()
	}()
	if _, err := p.read(); err == nil || !strings.Contains(err.Error(), "Bad command") {
		t.Errorf("got %v", err)
	}
}

// A client that sends its frames and closes its half at once is answered.
func TestHalfCloseIsAnswered(t *testing.T) {
	address, _ := listenAndServe(t, Options{})
	p, err := dialPeer(address)
	if err != nil {
		t.Fatal(err)
	}
	defer p.HangUp()
	var all strings.Builder
	for i := range 100 {
		all.WriteString("SEND\ndestination:/queue/q\nreceipt:" + strconv.Itoa(i) + "\n\nx\x00")
	}
	if _, err := p.conn.Write([]byte(all.String())); err != nil {
		t.Fatal(err)
	}
	if err := p.conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		f, err := p.read()
		if err != nil || f.Get("receipt-id") != strconv.Itoa(i) {
			t.Fatalf("receipt %d: %v, error %v", i, f, err)
		}
	}
}

// A subscriber that reads nothing holds little: no more than its socket takes.
func TestDeafSubscriberHoldsLittle(t *testing.T) {
	address, client := listenAndServe(t, Options{Prefetch: 100_000, PrefetchBytes: 1 << 40})
	if _, _, err := client.Declare(t.Context(), "q", core.DefaultQueueConfig(core.KindStandard)); err != nil {
		t.Fatal(err)
	}
	body := []byte(strings.Repeat("x", 10_000))
	const count = 3000
	for range count / 100 {
		msgs := make([]core.Message, 100)
		for i := range msgs {
			msgs[i].Body = body
		}
		if _, err := client.Publish(t.Context(), "q", msgs, nil); err != nil {
			t.Fatal(err)
		}
	}
	p, err := dialPeer(address)
	if err != nil {
		t.Fatal(err)
	}
	_ = p.conn.(*net.TCPConn).SetReadBuffer(16 << 10)
	if err := p.write(&frame.Frame{Command: frame.Subscribe, Headers: headers("id", "1", "destination", "/queue/q", "ack", "client")}); err != nil {
		t.Fatal(err)
	}
	var before int64 = -1
	for { // until nothing moves any more
		time.Sleep(100 * time.Millisecond)
		st, err := client.Stats(t.Context(), "q")
		if err != nil {
			t.Fatal(err)
		}
		if st.InFlight == before && before > 0 {
			break
		}
		before = st.InFlight
	}
	if before >= count {
		t.Errorf("%d messages of 10 kB are leased to a client that reads nothing", before)
	}
	p.HangUp()
	other, err := dialPeer(address)
	if err != nil {
		t.Fatal(err)
	}
	defer other.HangUp()
	// Once the server has found out, all comes in order.
	for {
		st, err := client.Stats(t.Context(), "q")
		if err != nil {
			t.Fatal(err)
		}
		if st.InFlight == 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if m, ok, err := other.Receive("q", 10*time.Second); !ok || err != nil || !m.Redelivered {
		t.Errorf("after it has gone: %v, %v, error %v", m.Redelivered, ok, err)
	}
}
