package broker_test

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	stomp "github.com/go-stomp/stomp/v3"
	"golang.org/x/crypto/bcrypt"

	"github.com/leasemq/broker"
	"github.com/leasemq/broker/configs"
)

// writeUsers makes file hold users, given as name, password and so on.
func writeUsers(t *testing.T, file string, users ...string) {
	t.Helper()
	var b strings.Builder
	for i := 0; i < len(users); i += 2 {
		h, err := bcrypt.GenerateFromPassword([]byte(users[i+1]), bcrypt.MinCost)
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString(users[i] + ":" + string(h) + "\n")
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// login tells why a login over STOMP fails, "" if it does not.
func login(t *testing.T, address, name, password string) string {
	t.Helper()
	c, err := stomp.Dial("tcp", address, stomp.ConnOpt.Login(name, password), stomp.ConnOpt.HeartBeat(0, 0))
	if err != nil {
		return err.Error()
	}
	if err := c.Disconnect(); err != nil {
		t.Error(err)
	}
	return ""
}

func TestUsersLogInToSTOMP(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users")
	writeUsers(t, file, "worker", "w-secret")
	var cfg configs.Config
	// Its clients prove who they are: other machines may reach the listener.
	n := run(t, broker.Edit(func(c *configs.Config) {
		c.UsersFile, c.STOMP.Listen = file, "0.0.0.0:0"
		cfg = *c
	}))
	_, port, _ := strings.Cut(n.Addr("stomp"), "]:")
	if port == "" {
		_, port, _ = strings.Cut(n.Addr("stomp"), ":")
	}
	address := "127.0.0.1:" + port
	check := func(name, password string, want bool) {
		t.Helper()
		switch got := login(t, address, name, password); {
		case want && got != "":
			t.Errorf("%s with %s: %s", name, password, got)
		case !want && !strings.Contains(got, "Access refused"):
			t.Errorf("%s with %s: %q", name, password, got)
		}
	}
	check("worker", "w-secret", true)
	check("worker", "other", false)
	check("", "", false)
	check("guest", "guest", false)

	writeUsers(t, file, "worker", "new-secret", "guest", "guest")
	if err := n.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	check("worker", "w-secret", false)
	check("worker", "new-secret", true)
	check("guest", "guest", true)

	if err := os.WriteFile(file, []byte("worker:plain"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := n.Reload(cfg); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("a broken file: %v", err)
	}
	check("worker", "new-secret", true)
}

func TestUsersAreCheckedBeforeTheStart(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		filepath.Join(dir, "none"): "no such file",
		empty:                      "there is no user in it",
		dir:                        "is not a file",
		"/dev/zero":                "is not a file",
	} {
		n, err := broker.Run(t.Context(), broker.Edit(func(c *configs.Config) { c.UsersFile = file }))
		if err == nil {
			_ = n.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", file, err, want)
		}
	}
}

// loggedText is what a node has logged.
type loggedText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *loggedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *loggedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Who guesses passwords over STOMP or MQTT stands in the log, and the guess does not.
func TestRefusedLoginsAreLogged(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users")
	writeUsers(t, file, "worker", "w-secret")
	var out loggedText
	n := run(t, broker.WithLogger(slog.New(slog.NewTextHandler(&out, nil))), broker.WithFrontends("stomp", "mqtt"),
		broker.Edit(func(c *configs.Config) { c.UsersFile = file }))
	if got := login(t, n.Addr("stomp"), "worker", "guess-1"); !strings.Contains(got, "Access refused") {
		t.Errorf("STOMP: %q", got)
	}
	conn, err := net.Dial("tcp", n.Addr("mqtt"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	connect := "\x10\x1e\x00\x04MQTT\x04\xc2\x00\x00\x00\x01a\x00\x06worker\x00\x07guess-2"
	if _, err := conn.Write([]byte(connect)); err != nil {
		t.Fatal(err)
	}
	if answer, err := io.ReadAll(conn); err != nil || len(answer) != 4 || answer[3] == 0 {
		t.Errorf("MQTT: %q, error %v", answer, err)
	}
	for _, frontend := range []string{"stomp", "mqtt"} {
		if want := "frontend=" + frontend + " peer=127.0.0.1:"; strings.Count(out.String(), want) != 1 {
			t.Errorf("%q is not logged once:\n%s", want, out.String())
		}
	}
	if strings.Count(out.String(), "user=worker") != 2 || strings.Contains(out.String(), "guess-") {
		t.Errorf("logged:\n%s", out.String())
	}
}
