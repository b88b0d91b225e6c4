package identity_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leasemq/broker/cluster/identity"
)

const secret = "0123456789abcdef"

func node(t *testing.T, secret, cluster, name string) *identity.Identity {
	t.Helper()
	id, err := identity.New([]byte(secret), cluster, name)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// handshake returns why two nodes do not accept each other.
func handshake(server, client *tls.Config) error {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	done := make(chan error, 1)
	go func() {
		s := tls.Server(a, server)
		err := s.Handshake()
		if err == nil {
			_, err = s.Write([]byte{1}) // in TLS 1.3 the client hears of a refusal only now
		}
		if err != nil {
			a.Close()
		}
		done <- err
	}()
	c := tls.Client(b, client)
	err := c.Handshake()
	if err == nil {
		_, err = c.Read(make([]byte, 1))
	}
	if err != nil {
		b.Close()
	}
	return errors.Join(err, <-done)
}

func TestNodesOfOneSecretKnowEachOther(t *testing.T) {
	a, b := node(t, secret, "c", "a"), node(t, secret, "c", "b-1.x_y")
	client := a.Client()
	client.ServerName = "b-1.x_y"
	if err := handshake(b.Server(), client); err != nil {
		t.Error(err)
	}
	if err := handshake(b.Peers(), a.Peers()); err != nil {
		t.Error(err)
	}
	client.ServerName = "c"
	if err := handshake(b.Server(), client); err == nil {
		t.Error("node b passes for c")
	}
	if !bytes.Equal(a.GossipKey(), b.GossipKey()) || len(a.GossipKey()) != 32 || a.Password() != b.Password() {
		t.Error("keys of two nodes differ")
	}
}

func TestStrangersAreRefused(t *testing.T) {
	a := node(t, secret, "c", "a")
	for name, other := range map[string]*identity.Identity{
		"another secret": node(t, secret+"x", "c", "b"), "another cluster": node(t, secret, "d", "b"),
	} {
		client := other.Client()
		client.ServerName = "a"
		if err := handshake(a.Server(), client); err == nil {
			t.Errorf("%s: is let in", name)
		}
		client = a.Client()
		client.ServerName = "b"
		if err := handshake(other.Server(), client); err == nil {
			t.Errorf("%s: is believed", name)
		}
		if err := handshake(a.Peers(), other.Peers()); err == nil {
			t.Errorf("%s: is a peer", name)
		}
		if bytes.Equal(a.GossipKey(), other.GossipKey()) || a.Password() == other.Password() {
			t.Errorf("%s: has the same keys", name)
		}
	}
	plain := a.Peers()
	plain.Certificates = nil
	if err := handshake(a.Peers(), plain); err == nil {
		t.Error("a peer without certificate is let in")
	}
}

func TestSecretFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(" " + secret + "\n")
	if got, err := identity.ReadSecret(path); err != nil || string(got) != secret {
		t.Errorf("secret is %q, %v", got, err)
	}
	for _, bad := range []string{"", "short\n", strings.Repeat("x", identity.SecretBytesMax+1)} {
		write(bad)
		if _, err := identity.ReadSecret(path); err == nil {
			t.Errorf("%d bytes are taken", len(bad))
		}
	}
	if _, err := identity.ReadSecret(path + "x"); err == nil {
		t.Error("a file that is not there is taken")
	}
	if _, err := identity.New([]byte("short"), "c", "a"); err == nil {
		t.Error("a short secret is taken")
	}
}
