package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/leasemq/broker/cmd/broker/bench"
)

// The shape of the abuse of STOMP.
const (
	stompIdleConns      = 1000
	stompIdlePerConn    = 64 << 10 // bytes: how much of memory an idle subscriber may take
	stompGoroutinesMax  = 3        // a subscriber: one reads, one writes, one receives
	stompSlowConns      = 200
	stompMutations      = 500
	stompHandOverMax    = 2 * time.Second
	stompGhosts         = 50
	stompHeaderTooLarge = 1 << 20
)

// stompAbused is a broker under abuse by STOMP.
type stompAbused struct {
	abused
}

func newSTOMPAbused(t *testing.T) *stompAbused { return &stompAbused{*newAbused(t)} }

// exchange writes wire and returns all that comes back until the broker closes.
func (a *stompAbused) exchange(wire []byte, halfClose bool) string {
	a.t.Helper()
	conn := a.dialSTOMP()
	defer conn.Close()
	if _, err := conn.Write(wire); err != nil && !closedByPeer(err) {
		a.t.Fatalf("write: %v", err)
	}
	if halfClose {
		_ = conn.CloseWrite()
	}
	answer, err := io.ReadAll(conn)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		a.t.Errorf("%.60q was not closed within %v; answer %.200q", wire, abuseAnswerMax, answer)
	} else if err != nil && !closedByPeer(err) {
		a.t.Errorf("%.60q: answer %v", wire, err)
	}
	return string(answer)
}

// dialSTOMP opens a bare connection.
func (a *stompAbused) dialSTOMP() *net.TCPConn {
	a.t.Helper()
	conn, err := new(net.Dialer).DialContext(a.t.Context(), "tcp", a.n.stomp)
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(abuseAnswerMax)); err != nil {
		a.t.Fatal(err)
	}
	return conn.(*net.TCPConn)
}

// stillWell wants STOMP to work, too.
func (a *stompAbused) stillWell() {
	a.t.Helper()
	p := dialSTOMP(a.t, a.n.stomp)
	p.must(a.t, "SEND", "x", "destination", "/queue/well")
	p.subscribe(a.t, "well", "auto")
	if m := p.next(a.t); m.body != "x" {
		a.t.Errorf("got %+v after the abuse", m)
	}
	p.must(a.t, "DISCONNECT", "")
	a.abused.stillWell()
}

func TestSTOMPGarbageIsRefused(t *testing.T) {
	t.Parallel() // what has no end is waited for
	a := newSTOMPAbused(t)
	t.Run("of", func(t *testing.T) { a.refuses(t) })
	a.stillWell()
}

// refuses wants each kind of garbage to be answered with an ERROR.
func (a *stompAbused) refuses(t *testing.T) {
	const login = "CONNECT\naccept-version:1.2\nhost:x\n\n\x00"
	const subscribed = "SUBSCRIBE\nid:s\ndestination:/queue/acks\nack:client\n\n\x00"
	const open = "BEGIN\ntransaction:t\n\n\x00"
	long := strings.Repeat("x", stompHeaderTooLarge)
	for name, c := range map[string]struct{ wire, want string }{
		"TLS":                       {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03garbage\x00\x00", "TLS on a plain port"},
		"MQTT":                      {"\x10\x0c\x00\x04MQTT\x04\x02\x00\x3c\x00\x00", "MQTT on a STOMP port"},
		"AMQP":                      {"AMQP\x00\x00\x09\x01", "AMQP on a STOMP port"},
		"HTTP":                      {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 400 Bad Request"},
		"no end of line":            {strings.Repeat("A", 100_000), "ERROR"},
		"binary":                    {strings.Repeat("\x01\x02\xff\xfe", 10_000), "ERROR"},
		"no CONNECT":                {"SEND\ndestination:/queue/q\n\nx\x00", "ERROR"},
		"large before login":        {"CONNECT\nx:" + long + "\n\n\x00", "ERROR"},
		"many headers before login": {"CONNECT\n" + strings.Repeat("a:b\n", 10_000) + "\n\x00", "ERROR"},
		"a body before login":       {"CONNECT\ncontent-length:1000000\n\n" + long, "ERROR"},
		"a bad version":             {"CONNECT\naccept-version:9.9\nhost:x\n\n\x00", "version:1.0,1.1,1.2"},
		"a second CONNECT":          {login + login, "ERROR"},
		"an unknown command":        {login + "DROP\nreceipt:r7\n\n\x00", "receipt-id:r7"},
		"a large header":            {login + "SEND\ndestination:/queue/q\nx:" + long + "\n\n\x00", "ERROR"},
		"many headers":              {login + "SEND\ndestination:/queue/q\n" + strings.Repeat("a:b\n", 10_000) + "\n\x00", "ERROR"},
		"a bad escape":              {login + "SEND\ndestination:/queue/q\nx:\\t\n\n\x00", "ERROR"},
		"a negative length":         {login + "SEND\ndestination:/queue/q\ncontent-length:-1\n\nx\x00", "ERROR"},
		"a length of 1 GB":          {login + fmt.Sprintf("SEND\ndestination:/queue/q\ncontent-length:%d\n\nx", abuseAnnounced), "ERROR"},
		"a huge length":             {login + "SEND\ndestination:/queue/q\ncontent-length:99999999999999999999\n\nx\x00", "ERROR"},
		"a wrong length":            {login + "SEND\ndestination:/queue/q\ncontent-length:2\n\nxyz\x00", "ERROR"},
		"a body too large":          {login + "SEND\ndestination:/queue/q\n\n" + strings.Repeat("x", 20<<20), "ERROR"},
		"no destination":            {login + "SEND\nreceipt:r8\n\nx\x00", "receipt-id:r8"},
		"an unknown destination":    {login + "SEND\ndestination:/nothing/q\n\nx\x00", "ERROR"},
		"an ACK of nothing":         {login + "ACK\nid:1-1\n\n\x00", "ERROR"},
		"an ACK of number 0":        {login + subscribed + "ACK\nid:0-0\n\n\x00", "Message not found"},
		"an ACK of sequence 0":      {login + subscribed + "ACK\nid:1-0\n\n\x00", "Message not found"},
		"an ACK of the future":      {login + subscribed + "ACK\nid:1-18446744073709551615\n\n\x00", "Message not found"},
		"an ACK out of numbers":     {login + subscribed + "NACK\nid:1-99999999999999999999\n\n\x00", "Message not found"},
		"an ACK of a negative":      {login + subscribed + "ACK\nid:-1--1\n\n\x00", "Message not found"},
		"an ACK of no id":           {login + subscribed + "ACK\nid:\n\n\x00", "Message not found"},
		"1001 subscriptions":        {login + numbered(1001, "SUBSCRIBE\nid:%d\ndestination:/topic/t\n\n\x00"), "Too many subscriptions"},
		"65 transactions":           {login + numbered(65, "BEGIN\ntransaction:%d\n\n\x00"), "Too many transactions"},
		"a large transaction":       {login + open + strings.Repeat("SEND\ntransaction:t\ndestination:/queue/q\n\n"+long+"\x00", 17), "too large"},
		"a long transaction":        {login + open + strings.Repeat("SEND\ntransaction:t\ndestination:/queue/q\n\nx\x00", 10_001), "Transaction too large"},
		"a COMMIT of nothing":       {login + "COMMIT\ntransaction:t\n\n\x00", "ERROR"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := *a
			in.t = t
			if answer := in.exchange([]byte(c.wire), false); !strings.Contains(answer, c.want) || !strings.Contains(answer, "message:") && name != "HTTP" {
				t.Errorf("answer %.300q, want %q in an ERROR with a message", answer, c.want)
			}
		})
	}
}

// numbered repeats a frame with numbers from 1 on.
func numbered(n int, frame string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, frame, i+1)
	}
	return b.String()
}

// TestSTOMPMutatedFramesAreAnswered changes good frames at random places. What
// comes back may be anything but silence and the end of the broker.
func TestSTOMPMutatedFramesAreAnswered(t *testing.T) {
	a, r := newSTOMPAbused(t), newRand(t)
	seed := bytes.Join([][]byte{
		stompOf("CONNECT", "", "accept-version", "1.0,1.1,1.2", "host", "x", "heart-beat", "0,0"),
		stompOf("SUBSCRIBE", "", "id", "1", "destination", "/queue/q", "ack", "client"),
		stompOf("BEGIN", "", "transaction", "t"),
		stompOf("SEND", "abc", "destination", "/queue/q", "priority", "5", "expiration", "1000", "receipt", "1", "transaction", "t"),
		stompOf("COMMIT", "", "transaction", "t", "receipt", "2"),
		stompOf("ACK", "", "id", "1-1"), stompOf("NACK", "", "id", "1-1", "requeue", "true"),
		stompOf("UNSUBSCRIBE", "", "id", "1"), stompOf("DISCONNECT", "", "receipt", "3"),
	}, nil)
	for range stompMutations {
		a.exchange(mutate(r, bytes.Clone(seed)), true)
		a.n.alive()
	}
	a.stillWell()
}

// TestSTOMPSlowWritersHoldNobodyUp opens connections that never finish their first
// frame, and some that never finish a large one: others are served meanwhile, the
// former are closed in time, and none of them has much memory.
func TestSTOMPSlowWritersHoldNobodyUp(t *testing.T) {
	t.Parallel()
	a := newSTOMPAbused(t)
	var slow []*net.TCPConn
	for range stompSlowConns {
		conn := a.dialSTOMP()
		if _, err := io.WriteString(conn, "CONNECT\nhost:"); err != nil {
			t.Fatal(err)
		}
		slow = append(slow, conn)
		p := dialSTOMP(t, a.n.stomp)
		if err := p.write([]byte("SEND\ndestination:/queue/q\ncontent-length:4000000\n\nx")); err != nil {
			t.Fatal(err)
		}
	}
	a.stillWell()
	for i, conn := range slow {
		answer, err := io.ReadAll(conn)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("slow connection %d was not closed within %v", i, abuseAnswerMax)
		}
		if !strings.Contains(string(answer), "ERROR") {
			t.Errorf("slow connection %d was told %q, %v", i, answer, err)
		}
	}
	a.stillWell()
}

// TestSTOMPVanishedConsumersHandOver has consumers vanish that hold messages: the
// next consumer gets them at once, in order.
func TestSTOMPVanishedConsumersHandOver(t *testing.T) {
	n := startNode(t, "--memory")
	for try := range stompGhosts {
		queue := fmt.Sprint("q", try)
		sender := dialSTOMP(t, n.stomp)
		ghost := dialSTOMP(t, n.stomp)
		for i := range 3 {
			sender.must(t, "SEND", fmt.Sprint(i), "destination", "/queue/"+queue)
		}
		ghost.subscribe(t, queue, "client-individual")
		for i := range 3 {
			if m := ghost.next(t); m.body != fmt.Sprint(i) {
				t.Fatalf("got %+v, want %d", m, i)
			}
		}
		sender.subscribe(t, queue, "client-individual")
		conn := ghost.conn.(*net.TCPConn)
		if try%2 == 0 {
			_ = conn.SetLinger(0) // a RST instead of a FIN
		}
		began := time.Now()
		_ = conn.Close()
		for i := range 3 {
			if m := sender.next(t); m.body != fmt.Sprint(i) || m.headers["redelivered"] != "true" {
				t.Fatalf("try %d: got %+v, want %d once more", try, m, i)
			}
		}
		if took := time.Since(began); took > stompHandOverMax {
			t.Errorf("try %d: the next consumer waited for %v", try, took)
		}
		_ = sender.conn.Close()
	}
	n.alive()
}

// TestSTOMPIdleConnectionsAreCheap holds many subscribers with heart-beats.
func TestSTOMPIdleConnectionsAreCheap(t *testing.T) {
	n := startNode(t, "--memory")
	before, err := bench.ProcessMemory(n.pid())
	if err != nil {
		t.Skip(err)
	}
	goroutines := goroutinesOf(t, n)
	var conns []*stompPeer
	for i := range stompIdleConns {
		p := dialSTOMP(t, n.stomp, "heart-beat", "0,10000")
		p.subscribe(t, fmt.Sprint("q", i%100), "client")
		conns = append(conns, p)
	}
	mem, err := bench.ProcessMemory(n.pid())
	if err != nil {
		t.Fatal(err)
	}
	held := goroutinesOf(t, n) - goroutines
	t.Logf("%d idle subscribers: %d KiB and %.1f goroutines each", stompIdleConns, (mem.RSS-before.RSS)>>10/stompIdleConns, float64(held)/stompIdleConns)
	if mem.RSS > before.RSS+stompIdleConns*stompIdlePerConn {
		t.Errorf("they take %d MiB", (mem.RSS-before.RSS)>>20)
	}
	if held > stompIdleConns*stompGoroutinesMax+50 {
		t.Errorf("they take %d goroutines", held)
	}
	for _, p := range conns {
		_ = p.conn.Close()
	}
	err = eventually(startMax, func() (bool, error) { return goroutinesOf(t, n) < goroutines+50, nil })
	if err != nil {
		t.Errorf("%d goroutines are left of them: %v", goroutinesOf(t, n)-goroutines, err)
	}
}

// goroutinesOf returns how many goroutines a node has.
func goroutinesOf(t *testing.T, n *node) int {
	t.Helper()
	resp, err := http.Get("http://" + n.admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "\ngo_goroutines ")
	var count int
	if _, err := fmt.Sscan(rest, &count); !found || err != nil {
		t.Fatalf("the metrics name no goroutines: %v", err)
	}
	return count
}
