package stomp

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends/stomp/frame"
)

// soon waits until ok, and tells whether it came to that.
func soon(ok func() bool) bool {
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// A client that subscribes and unsubscribes again and again leaves nothing behind
// that waits for messages.
func TestSubscriptionsThatEndWaitForNothing(t *testing.T) {
	address, client := listenAndServe(t, Options{})
	p, err := dialPeer(address)
	if err != nil {
		t.Fatal(err)
	}
	defer p.HangUp()
	before := runtime.NumGoroutine()
	for i := range 500 {
		id := strconv.Itoa(i)
		if err := p.do(&frame.Frame{Command: frame.Subscribe, Headers: headers("id", id, "destination", "/queue/idle")}); err != nil {
			t.Fatal(err)
		}
		if err := p.do(&frame.Frame{Command: frame.Unsubscribe, Headers: headers("id", id)}); err != nil {
			t.Fatal(err)
		}
	}
	if !soon(func() bool {
		st, err := client.Stats(t.Context(), "idle")
		return err == nil && st.Waiters == 0 && runtime.NumGoroutine() < before+20
	}) {
		st, err := client.Stats(t.Context(), "idle")
		t.Errorf("%d receives wait, error %v; %d goroutines, %d before", st.Waiters, err, runtime.NumGoroutine(), before)
	}
}

// Hundreds of selectors on one queue each get what they select, once; more than the
// core bears are refused with a reason.
func TestHundredsOfSelectors(t *testing.T) {
	address, _ := listenAndServe(t, Options{})
	const each = 400
	p, err := dialPeer(address)
	if err != nil {
		t.Fatal(err)
	}
	defer p.HangUp()
	for i := range each {
		subscribe := headers("id", strconv.Itoa(i), "destination", "/queue/q", "selector", fmt.Sprintf("n = %d OR m > %d", i, i+1000))
		if err := p.write(&frame.Frame{Command: frame.Subscribe, Headers: subscribe}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range each {
		if err := p.write(&frame.Frame{Command: frame.Send, Headers: headers("destination", "/queue/q", "n", strconv.Itoa(i)), Body: []byte(strconv.Itoa(i))}); err != nil {
			t.Fatal(err)
		}
	}
	seen := make(map[string]bool)
	for range each {
		m, err := p.read()
		if err != nil {
			t.Fatal(err)
		}
		if body := string(m.Body); body != m.Get("subscription") || seen[body] {
			t.Errorf("message %s came to %s, %v before", body, m.Get("subscription"), seen[body])
		}
		seen[string(m.Body)] = true
	}
	for i := 0; ; i++ {
		more, err := dialPeer(address)
		if err != nil {
			t.Fatal(err)
		}
		defer more.HangUp()
		for n := range each {
			subscribe := headers("id", strconv.Itoa(n), "destination", "/queue/q", "selector", fmt.Sprintf("x = %d", each*i+n), "receipt", "r")
			if err = more.write(&frame.Frame{Command: frame.Subscribe, Headers: subscribe}); err == nil {
				_, err = more.read()
			}
			if err != nil {
				break
			}
		}
		if err == nil && i < 5 {
			continue // the last receives may not have begun
		}
		if err == nil || !strings.Contains(err.Error(), "Too many selectors") {
			t.Errorf("over 1,024 selectors: %v", err)
		}
		return
	}
}

// Consumers that reject all they get, also by one NACK for many, bring each message
// into the dead-letter queue once, and nothing else.
func TestRejectionStorm(t *testing.T) {
	address, client := listenAndServe(t, Options{})
	cfg := core.DefaultQueueConfig(core.KindStandard)
	if _, _, err := client.Declare(t.Context(), "dead", cfg); err != nil {
		t.Fatal(err)
	}
	cfg.Redelivery = core.Redelivery{DeadLetterQueue: "dead", MaxReceives: 3}
	if _, _, err := client.Declare(t.Context(), "q", cfg); err != nil {
		t.Fatal(err)
	}
	const count = 500
	var msgs []core.Message
	for i := range count {
		msgs = append(msgs, core.Message{Body: []byte(strconv.Itoa(i)), Delay: -1, Group: []string{"", "a", "b"}[i%3]})
	}
	for i := 0; i < count; i += 100 {
		if _, err := client.Publish(t.Context(), "q", msgs[i:i+100], nil); err != nil {
			t.Fatal(err)
		}
	}
	var all sync.WaitGroup
	var peers []*peer
	for i, mode := range []string{"client", "client-individual", "client", "client-individual"} {
		p, err := subscribeTo(address, "id", "s", "destination", "/queue/q", "ack", mode, "prefetch-count", strconv.Itoa(1+10*i))
		if err != nil {
			t.Fatal(err)
		}
		peers = append(peers, p)
		all.Go(func() {
			for n := 0; ; n++ {
				m, err := p.read()
				if err != nil {
					return
				}
				if err := p.write(&frame.Frame{Command: frame.Nack, Headers: headers("id", m.Get("ack"))}); err != nil {
					return
				}
			}
		})
	}
	if !soon(func() bool {
		st, err := client.Stats(t.Context(), "dead")
		return err == nil && st.Messages == count
	}) {
		st, err := client.Stats(t.Context(), "dead")
		t.Errorf("%d messages are dead, error %v; want %d", st.Messages, err, count)
	}
	for _, p := range peers {
		p.HangUp()
	}
	all.Wait()
	if st, err := client.Stats(t.Context(), "q"); err != nil || st.Messages != 0 {
		t.Errorf("left in the queue: %+v, error %v", st, err)
	}
}

// Transactions that are left open by many connections have one bound; what they
// have had comes back when they go, for others as well.
func TestOpenTransactionsOfAllAreBounded(t *testing.T) {
	const most = 1 << 20
	address, client := listenAndServe(t, Options{TransactionBytes: most})
	body := make([]byte, 100<<10)
	send := func(p *peer) error {
		return p.do(&frame.Frame{Command: frame.Send, Headers: headers("destination", "/queue/q", "transaction", "t"), Body: body})
	}
	begin := func() *peer {
		p, err := dialPeer(address)
		if err == nil {
			err = p.do(&frame.Frame{Command: frame.Begin, Headers: headers("transaction", "t")})
		}
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	fill := func() (peers []*peer) {
		for {
			p := begin()
			peers = append(peers, p)
			if err := send(p); err != nil {
				if !strings.Contains(err.Error(), "Too many transactions") {
					t.Fatal(err)
				}
				return peers
			}
		}
	}
	peers := fill()
	if len(peers) != 11 {
		t.Errorf("connection %d was refused, want the 11th", len(peers))
	}
	// A COMMIT, an ABORT, and who hangs up make room for one each.
	for i, command := range []string{frame.Commit, frame.Abort} {
		if err := peers[i].do(&frame.Frame{Command: command, Headers: headers("transaction", "t")}); err != nil {
			t.Fatal(err)
		}
		if !soon(func() bool { // a receipt comes before the room
			p := begin()
			err := send(p)
			if err != nil {
				p.HangUp()
			}
			return err == nil
		}) {
			t.Errorf("after %s: there is no room", command)
		}
	}
	peers[2].HangUp()
	if !soon(func() bool {
		p := begin()
		defer p.HangUp()
		return send(p) == nil
	}) {
		t.Error("what a transaction held is not free when its connection has ended")
	}
	if st, err := client.Stats(t.Context(), "q"); err != nil || st.Messages != 1 {
		t.Errorf("%+v, error %v; want the message of the one that was committed", st, err)
	}
	for _, p := range peers {
		p.HangUp()
	}
}

// A frame to many destinations costs what its copies come to.
func TestCopiesOfOneFrameAreBounded(t *testing.T) {
	address, client := listenAndServe(t, Options{})
	var many []string
	for i := range 64 {
		many = append(many, fmt.Sprintf("/queue/q%d", i))
	}
	for size, want := range map[int]string{1000: "", 3 << 20: "Message is too large"} {
		p, err := dialPeer(address)
		if err != nil {
			t.Fatal(err)
		}
		defer p.HangUp()
		err = p.do(&frame.Frame{Command: frame.Send, Headers: headers("destination", strings.Join(many, ",")), Body: make([]byte, size)})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%d bytes to 64 queues: %v, want %q", size, err, want)
		}
	}
	if st, err := client.Stats(t.Context(), "q63"); err != nil || st.Messages != 1 {
		t.Errorf("%+v, error %v; want one message", st, err)
	}
}

// A client that takes nothing holds up nobody: others get all but what is on its way
// to it.
func TestSlowReaderBesideFastOnes(t *testing.T) {
	address, client := listenAndServe(t, Options{})
	slow, err := subscribeTo(address, "id", "s", "destination", "/queue/q", "ack", "auto")
	if err != nil {
		t.Fatal(err)
	}
	defer slow.HangUp()
	if err := slow.conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	fast, err := subscribeTo(address, "id", "f", "destination", "/queue/q", "ack", "auto")
	if err != nil {
		t.Fatal(err)
	}
	defer fast.HangUp()
	const count, size = 2000, 10_000
	go func() { _, _ = io.Copy(io.Discard, fast.conn) }()
	for i := 0; i < count; i += 50 {
		msgs := make([]core.Message, 50)
		for j := range msgs {
			msgs[j] = core.Message{Body: make([]byte, size), Delay: -1, Group: strconv.Itoa(i + j)}
		}
		if _, err := client.Publish(t.Context(), "q", msgs, nil); err != nil {
			t.Fatal(err)
		}
	}
	// What the sockets of the slow one take counts as written, and is not much.
	if !soon(func() bool {
		st, err := client.Stats(t.Context(), "q")
		return err == nil && st.Messages < count/2 && st.Messages == int64(st.InFlight)
	}) {
		st, err := client.Stats(t.Context(), "q")
		t.Errorf("left: %+v, error %v; want only what is on its way to the slow one", st, err)
	}
}
