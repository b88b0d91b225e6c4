package stomp

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/leasemq/broker/frontends/frontendtest"
)

// A client that speaks no TLS to a port that does is told so in the clear.
func TestNoTLSOnATLSPort(t *testing.T) {
	web := httptest.NewTLSServer(nil) // for its certificate
	certificates := web.TLS.Certificates
	web.Close()
	s, err := New(frontendtest.NewEngine(t), Options{Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: certificates})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, ln) }()
	for wire, want := range map[string]string{
		"CONNECT\naccept-version:1.2\nhost:x\n\n\x00": "ERROR\nmessage:No TLS on a TLS port",
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n":           "HTTP/1.1 400 Bad Request",
	} {
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.WriteString(conn, wire); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(want))
		if _, err := io.ReadFull(conn, got); err != nil || !strings.HasPrefix(string(got), want) {
			t.Errorf("%.10q: got %q, error %v", wire, got, err)
		}
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
