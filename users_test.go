package broker_test

import (
	"os"
	"path/filepath"
	"strings"
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
