package frontends

import (
	"net"
	"testing"
	"time"
)

func TestPeerAlive(t *testing.T) {
	l := listen(t, Limits{})
	peer := dial(t, l)
	c := accept(t, l)
	if !PeerAlive(c) {
		t.Error("a peer that is there is taken for gone")
	}
	if _, err := peer.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if !PeerAlive(c) {
		t.Error("a peer that has sent something is taken for gone")
	}
	if _, err := c.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	_ = peer.Close()
	for deadline := time.Now().Add(10 * time.Second); PeerAlive(c); {
		if time.Now().After(deadline) {
			t.Fatal("a peer that has gone is never found out")
		}
	}
	_ = c.Close()
	if PeerAlive(c) {
		t.Error("a connection that is closed counts as alive")
	}
	if near, _ := net.Pipe(); !PeerAlive(near) {
		t.Error("what cannot be looked at is taken for gone")
	}
}
