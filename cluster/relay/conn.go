package relay

import (
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"syscall"
)

// errPeerGone is what a socket answers that has lost its peer.
var errPeerGone = errors.New("peer of the relayed connection has gone")

// conn is a relayed connection as a frontend sees it. It has the addresses of the
// client.
type conn struct {
	net.Conn // the *tls.Conn between the nodes
	socket   *socket
	client   net.Addr
	standby  net.Addr
}

// RemoteAddr is the address of the client.
func (c *conn) RemoteAddr() net.Addr { return c.client }

// LocalAddr is the address of the standby that the client has come to.
func (c *conn) LocalAddr() net.Addr { return c.standby }

// NetConn leaves out TLS between the nodes, which says nothing of the client.
func (c *conn) NetConn() net.Conn { return c.socket }

// CloseWrite ends what the client reads.
func (c *conn) CloseWrite() error { return closeWrite(c.Conn) }

// closeWrite ends one direction of a connection, and of the TCP below TLS too, so
// that the peer can see it without reading.
func closeWrite(c net.Conn) error {
	if t, ok := c.(*tls.Conn); ok {
		if err := t.CloseWrite(); err != nil {
			return err
		}
		c = t.NetConn()
	}
	w, ok := c.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return w.CloseWrite()
}

// socket is the connection below TLS. Its Close gives back the place that it takes.
type socket struct {
	net.Conn
	once   sync.Once
	closed func(*socket)
	err    error // of the one Close
}

// Close closes the connection at once, without a farewell of TLS.
func (s *socket) Close() error {
	s.once.Do(func() {
		s.err = s.Conn.Close()
		s.closed(s)
	})
	return s.err
}

// CloseWrite ends the direction to the peer.
func (s *socket) CloseWrite() error { return closeWrite(s.Conn) }

// SyscallConn gives the socket to who wants to look whether the peer is there. The
// last bytes of TLS between the nodes lie unread in it, and look like life: so it
// fails when the peer has ended the connection.
func (s *socket) SyscallConn() (syscall.RawConn, error) {
	sc, ok := s.Conn.(syscall.Conn)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil, err
	}
	there := true
	if err := raw.Control(func(fd uintptr) { there = established(int(fd)) }); err != nil {
		return nil, err
	}
	if !there {
		return nil, errPeerGone
	}
	return raw, nil
}
