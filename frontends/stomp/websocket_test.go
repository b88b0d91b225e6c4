package stomp

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/leasemq/broker/frontends"
	"github.com/leasemq/broker/frontends/frontendtest"
)

// serveWebSocket is listenAndServe for WebSocket.
func serveWebSocket(t *testing.T, o Options) string {
	t.Helper()
	_, address := newWebSocketServer(t, o)
	return address
}

func newWebSocketServer(t *testing.T, o Options) (*Server, string) {
	t.Helper()
	o.Logger = quiet()
	s, err := New(frontendtest.NewEngine(t), o)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.ServeWebSocket(ctx, ln) }()
	t.Cleanup(func() {
		began := time.Now()
		cancel()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("draining took %v", took)
		}
	})
	return s, ln.Addr().String()
}

// Before a message is leased, the socket below WebSocket is looked at.
func TestWebSocketPeerIsLookedAt(t *testing.T) {
	s, address := newWebSocketServer(t, Options{})
	peer := dialWebSocket(t, address, "/ws")
	peer.write(websocket.MessageBinary, "CONNECT\naccept-version:1.2\n\n\x00")
	peer.wants(websocket.MessageBinary, "CONNECTED")
	s.mu.Lock()
	var socket net.Conn
	for c := range s.conns {
		socket = c.socket
	}
	s.mu.Unlock()
	if !frontends.PeerAlive(socket) {
		t.Error("the peer is there, and counts as gone")
	}
	_ = peer.conn.CloseNow()
	for deadline := time.Now().Add(10 * time.Second); frontends.PeerAlive(socket); {
		if time.Now().After(deadline) {
			t.Fatal("the peer is gone, and counts as there")
		}
		time.Sleep(time.Millisecond)
	}
}

// wsPeer is a client over WebSocket.
type wsPeer struct {
	t    *testing.T
	ctx  context.Context
	conn *websocket.Conn
}

func dialWebSocket(t *testing.T, address, path string) wsPeer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	conn, _, err := websocket.Dial(ctx, "ws://"+address+path, &websocket.DialOptions{Subprotocols: []string{"v12.stomp", "v11.stomp"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.CloseNow() })
	if conn.Subprotocol() != "v12.stomp" {
		t.Errorf("subprotocol %q", conn.Subprotocol())
	}
	return wsPeer{t: t, ctx: ctx, conn: conn}
}

func (p wsPeer) write(kind websocket.MessageType, text string) {
	p.t.Helper()
	if err := p.conn.Write(p.ctx, kind, []byte(text)); err != nil {
		p.t.Fatal(err)
	}
}

// wants reads a message of that kind which has all of the texts.
func (p wsPeer) wants(kind websocket.MessageType, texts ...string) {
	p.t.Helper()
	got, b, err := p.conn.Read(p.ctx)
	if err != nil || got != kind {
		p.t.Fatalf("read %v %q, error %v; want %v", got, b, err, kind)
	}
	for _, text := range texts {
		if !strings.Contains(string(b), text) {
			p.t.Errorf("read %q, which lacks %q", b, text)
		}
	}
}

func TestWebSocket(t *testing.T) {
	const text, binary = websocket.MessageText, websocket.MessageBinary
	address := serveWebSocket(t, Options{})
	a := dialWebSocket(t, address, "/ws")
	a.write(text, "CONNECT\naccept-version:1.2\nheart-beat:0,1000\n\n\x00")
	a.wants(text, "CONNECTED\nversion:1.2\n")
	// Frames and messages need not end together.
	a.write(text, "SEND\ndestination:/queue/q\nreceipt:1\n\none\x00\nSEND\ndestination:/queue/q\nrec")
	a.wants(text, "RECEIPT\nreceipt-id:1\n")
	a.write(binary, "eipt:2\ncontent-length:3\n\n\x00\xff\x00\x00")
	a.wants(text, "RECEIPT\nreceipt-id:2\n")
	a.wants(text, "\n") // a heart-beat

	b := dialWebSocket(t, address, "/stomp")
	b.write(binary, "STOMP\naccept-version:1.2\n\n\x00SUBSCRIBE\nid:1\ndestination:/queue/q\nack:client\n\n\x00")
	b.wants(binary, "CONNECTED\nversion:1.2\n")
	b.wants(binary, "MESSAGE\n", "\n\none\x00", "content-length:3\n\n\x00\xff\x00\x00")

	// An ERROR is seen before the end.
	b.write(binary, "FOO\n\n\x00")
	b.wants(binary, "ERROR\nmessage:Bad command\n")
	if _, _, err := b.conn.Read(b.ctx); websocket.CloseStatus(err) != websocket.StatusNormalClosure {
		t.Errorf("after ERROR: %v", err)
	}

	// To a client that speaks text, a body that is none comes as it is.
	a.write(text, "SUBSCRIBE\nid:1\ndestination:/queue/q\n\n\x00")
	for {
		kind, m, err := a.conn.Read(a.ctx)
		if err != nil {
			t.Fatal(err)
		}
		if string(m) == "\n" {
			continue
		}
		if kind != binary || !strings.Contains(string(m), "\x00\xff\x00") {
			t.Errorf("read %v %q", kind, m)
		}
		break
	}
	// It stays: the end of the test drains it.
}

func TestWebSocketRefuses(t *testing.T) {
	address := serveWebSocket(t, Options{Origins: []string{"*.example.org"}})
	for _, c := range []struct {
		path, origin string
		status       int
	}{
		{"/", "", http.StatusNotFound},
		{"/ws", "", http.StatusUpgradeRequired},
		{"/ws", "http://evil.example.com", http.StatusForbidden},
		{"/ws", "http://evil.org/.example.org", http.StatusForbidden},
		{"/ws", "null", http.StatusForbidden},
		{"/ws", "https://app.example.org", http.StatusUpgradeRequired},
		{"/ws", "http://127.0.0.1:3000", http.StatusUpgradeRequired},
	} {
		r, err := http.NewRequest(http.MethodGet, "http://"+address+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		a, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = a.Body.Close()
		if a.StatusCode != c.status {
			t.Errorf("%s for a page of %q: %d, want %d", c.path, c.origin, a.StatusCode, c.status)
		}
	}
}
