package frontends

import (
	"net"
	"testing"
)

func TestPeerNameOfNoTLS(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	if name, ok := PeerName(near); ok {
		t.Errorf("a pipe is called %q", name)
	}
}
