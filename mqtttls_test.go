package broker

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/crypto/bcrypt"

	"github.com/leasemq/broker/configs"
)

// connectMQTT logs in with MQTT 5 and a session that outlives the connection, and
// returns the reason code of the answer.
func connectMQTT(t *testing.T, c net.Conn, id, user, password string) byte {
	t.Helper()
	text := func(s string) string { return string([]byte{byte(len(s) >> 8), byte(len(s))}) + s }
	flags, login := byte(0), ""
	if user != "" {
		flags, login = 0xC0, text(user)+text(password)
	}
	body := text("MQTT") + string([]byte{5, flags, 0, 60, 5, 0x11, 0, 0, 0, 60}) + text(id) + login
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 4)
	_, err := c.Write([]byte(string([]byte{0x10, byte(len(body))}) + body))
	if err == nil {
		_, err = io.ReadFull(c, answer)
	}
	if err != nil {
		t.Fatalf("connect as %s: %v", id, err)
	}
	return answer[3]
}

// TestCertificatesLogInToMQTT: the name in a certificate stands for a login, over
// TCP and WebSocket, and a session is that name's.
func TestCertificatesLogInToMQTT(t *testing.T) {
	a, clients := newAuthority(t, "ours"), newAuthority(t, "clients")
	files := tlsFiles(t, a, 1)
	files.ClientCAFile = filepath.Join(filepath.Dir(files.CertFile), "clients.pem")
	users := filepath.Join(t.TempDir(), "users")
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{files.ClientCAFile: clients.pem(), users: []byte("worker:" + string(hash) + "\n")} {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n, err := Run(t.Context(), Edit(func(c *configs.Config) {
		c.TLS, c.UsersFile, c.MQTT.TLSListen, c.MQTT.WSTLSListen = files, users, "127.0.0.1:0", "127.0.0.1:0"
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	config := func(name string) *tls.Config {
		pair, err := tls.X509KeyPair(clients.issueTo(t, name, 2))
		if err != nil {
			t.Fatal(err)
		}
		return &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}}
	}
	tcp := func(name string) net.Conn {
		c, err := tls.Dial("tcp", n.Addr("mqtt_tls"), config(name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	web := func(name string) net.Conn {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: config(name)}}
		c, _, err := websocket.Dial(t.Context(), "wss://"+n.Addr("mqtt_ws_tls")+"/mqtt", &websocket.DialOptions{HTTPClient: client, Subprotocols: []string{"mqtt"}})
		if err != nil {
			t.Fatal(err)
		}
		return websocket.NetConn(t.Context(), c, websocket.MessageBinary)
	}
	for _, step := range []struct {
		what, id, user, password string
		conn                     net.Conn
		want                     byte
	}{
		{"a certificate", "lamp", "", "", tcp("lamp"), 0},
		{"a certificate of another name, for that session", "lamp", "", "", tcp("door"), 0x87},
		{"the same over WebSocket", "lamp", "", "", web("door"), 0x87},
		{"the first over WebSocket", "lamp", "", "", web("lamp"), 0},
		{"a certificate without a name", "nameless", "", "", tcp(""), 0x86},
		{"a user", "work", "worker", "secret", tcp("lamp"), 0},
		{"the certificate of another, for the session of the user", "work", "", "", tcp("lamp"), 0x87},
		{"a user with a wrong password", "work", "worker", "guess", tcp("worker"), 0x86},
		{"the name of a user as that of a certificate", "work", "", "", tcp("worker"), 0},
	} {
		if got := connectMQTT(t, step.conn, step.id, step.user, step.password); got != step.want {
			t.Errorf("%s: answered 0x%02X, want 0x%02X", step.what, got, step.want)
		}
	}
}
