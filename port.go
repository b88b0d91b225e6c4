package broker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
)

// port is a bound socket. Its connections go to whoever has taken it: a frontend,
// or the relay of a standby. While nobody has, they wait.
type port struct {
	Port
	ln       net.Listener
	accepted chan accepted
	closed   chan struct{}
	once     sync.Once
	ended    chan struct{} // nothing is accepted any more
}

// accepted is what a socket has answered.
type accepted struct {
	conn net.Conn
	err  error
}

// bindPort opens the socket of p. No connection is taken until someone takes the
// port.
func (n *Node) bindPort(ctx context.Context, p Port) (*port, error) {
	if _, taken := n.addrs[p.Name]; taken {
		return nil, fmt.Errorf("listen for %s: another listener has that name", p.Name)
	}
	addr, err := n.settings.config.Resolve(p.Address)
	guarded := p.Guarded || p.TLS && n.settings.config.TLS.ClientCAFile != ""
	switch {
	case err != nil:
	case p.TLS && n.certs == nil:
		err = errors.New("there is no certificate")
	case !guarded:
		err = n.settings.config.CheckExposure(addr)
	}
	if err != nil {
		return nil, fmt.Errorf("listen for %s: %w", p.Name, err)
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for %s: %w", p.Name, err)
	}
	n.addrs[p.Name] = ln.Addr().String()
	return newPort(p, ln), nil
}

func newPort(p Port, ln net.Listener) *port {
	bound := &port{Port: p, ln: ln, accepted: make(chan accepted), closed: make(chan struct{}), ended: make(chan struct{})}
	go bound.accept()
	return bound
}

// accept hands on what the socket answers, errors too: who has taken the port knows
// which of them pass.
func (p *port) accept() {
	defer close(p.ended)
	for {
		c, err := p.ln.Accept()
		select {
		case p.accepted <- accepted{c, err}:
		case <-p.closed:
			if c != nil {
				_ = c.Close()
			}
			return
		}
	}
}

// close closes the socket, and ends whoever has taken it.
func (p *port) close() {
	p.once.Do(func() {
		close(p.closed)
		_ = p.ln.Close() // what else could be done about it
		<-p.ended
	})
}

// take returns the listener of who serves p from now on, until it is closed.
// Connections of more, if it is not nil, come there too; it is closed as well.
func (p *port) take(more net.Listener) net.Listener {
	t := &taken{port: p, more: more, relayed: make(chan net.Conn), closed: make(chan struct{})}
	if more != nil {
		t.feeding.Go(t.feed)
	}
	return t
}

// taken is a port for the time that someone serves it.
type taken struct {
	port    *port
	more    net.Listener
	relayed chan net.Conn
	closed  chan struct{}
	once    sync.Once
	feeding sync.WaitGroup
}

// feed takes connections of more.
func (t *taken) feed() {
	for {
		c, err := t.more.Accept()
		if err != nil {
			return // it is closed
		}
		select {
		case t.relayed <- c:
		case <-t.closed:
			_ = c.Close()
		}
	}
}

// Accept implements net.Listener.
func (t *taken) Accept() (net.Conn, error) {
	select {
	case <-t.closed: // even if there is a connection as well
		return nil, net.ErrClosed
	default:
	}
	select {
	case a := <-t.port.accepted:
		return a.conn, a.err
	case c := <-t.relayed:
		return c, nil
	case <-t.closed:
	case <-t.port.closed:
	}
	return nil, net.ErrClosed
}

// Close implements net.Listener. The socket stays open.
func (t *taken) Close() error {
	var err error
	t.once.Do(func() {
		close(t.closed)
		if t.more != nil {
			err = t.more.Close()
		}
		t.feeding.Wait()
	})
	return err
}

// Addr implements net.Listener.
func (t *taken) Addr() net.Addr { return t.port.ln.Addr() }

// secured returns ln as a frontend of p gets it.
func (n *Node) secured(p *port, ln net.Listener) net.Listener {
	if !p.TLS {
		return ln
	}
	return tls.NewListener(ln, n.certs.server())
}
