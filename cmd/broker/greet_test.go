package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestAllListenersAreShown wants a start to tell where each listener is, those
// of TLS too.
func TestAllListenersAreShown(t *testing.T) {
	cert, key := writeCertificate(t)
	ctx, stop := context.WithCancel(t.Context())
	out := &stopAt{word: "msg=ready", stop: stop}
	code := run(ctx, []string{
		"serve", "--memory", "--frontends", "sqs,stomp", "--sqs-listen", ":0", "--admin-listen", ":0",
		"--stomp-listen", ":0", "--stomp-ws-listen", ":0", "--stomp-tls-listen", ":0", "--stomp-ws-tls-listen", ":0",
		"--tls-cert", cert, "--tls-key", key,
	}, streams{strings.NewReader(""), io.Discard, out})
	if code != 0 {
		t.Fatalf("exit %d: %s", code, out.text.String())
	}
	const at = `127\.0\.0\.1:\d+`
	for _, want := range []string{
		`(?m)^  STOMP  ` + at + `  ws://` + at + `/ws  tls ` + at + `  wss://` + at + `/ws$`,
		`msg=ready .*admin=` + at + ` sqs=` + at + ` stomp=` + at + ` stomp_tls=` + at + ` stomp_ws=` + at + ` stomp_ws_tls=` + at,
	} {
		if !regexp.MustCompile(want).MatchString(out.text.String()) {
			t.Errorf("no %s in\n%s", want, out.text.String())
		}
	}
}

// stopAt keeps what is written, and calls stop when word has come.
type stopAt struct {
	text strings.Builder
	word string
	stop func()
}

func (s *stopAt) Write(p []byte) (int, error) {
	s.text.Write(p)
	if strings.Contains(string(p), s.word) {
		s.stop()
	}
	return len(p), nil
}

func writeCertificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	public, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	for name, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: public}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}
