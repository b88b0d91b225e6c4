package frontends

import (
	"crypto/tls"
	"net"
)

// PeerName returns the common name of the certificate that the peer of c has
// proved to own, at whatever depth of wrapping. It is of use when something has
// been read.
func PeerName(c net.Conn) (name string, ok bool) {
	for {
		if t, is := c.(*tls.Conn); is {
			chains := t.ConnectionState().VerifiedChains
			if len(chains) == 0 || len(chains[0]) == 0 {
				return "", false
			}
			name = chains[0][0].Subject.CommonName
			return name, name != ""
		}
		w, is := c.(interface{ NetConn() net.Conn })
		if !is {
			return "", false
		}
		c = w.NetConn()
	}
}
