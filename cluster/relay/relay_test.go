package relay

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/leasemq/broker/frontends"
)

// patience bounds each wait of a test.
const patience = 10 * time.Second

// pairing is a standby and a primary.
type pairing struct {
	authority *authority
	forwarder *Forwarder
	receiver  *Receiver
	primary   Primary // not set yet
	address   string  // of the standby's port
	listener  net.Listener
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// run calls serve with a listener on loopback, until the test ends.
func run(t testing.TB, serve func(context.Context, net.Listener) error) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, ln) }()
	t.Cleanup(func() {
		stop()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("serve: %v", err)
			}
		case <-time.After(patience):
			t.Error("serve does not end")
		}
	})
	return ln.Addr().String()
}

// start starts a pairing. edit may change the options.
func start(t testing.TB, edit func(*ForwarderOptions, *ReceiverOptions)) *pairing {
	t.Helper()
	p := &pairing{authority: newAuthority(t)}
	fo := ForwarderOptions{TLS: p.authority.node(t, "a"), Logger: quiet()}
	ro := ReceiverOptions{TLS: p.authority.node(t, "b"), Logger: quiet()}
	if edit != nil {
		edit(&fo, &ro)
	}
	var err error
	if p.receiver, err = NewReceiver(ro); err != nil {
		t.Fatal(err)
	}
	if p.forwarder, err = NewForwarder(fo); err != nil {
		t.Fatal(err)
	}
	if p.listener, err = p.receiver.Listen("stomp"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.listener.Close() })
	p.primary = Primary{Node: "b", Address: run(t, p.receiver.Serve), Epoch: 1}
	p.address = run(t, func(ctx context.Context, ln net.Listener) error { return p.forwarder.Serve(ctx, "stomp", ln) })
	return p
}

// startRelaying starts a pairing whose standby knows the primary.
func startRelaying(t testing.TB) *pairing {
	t.Helper()
	p := start(t, nil)
	p.forwarder.SetPrimary(p.primary)
	return p
}

func dial(t testing.TB, address string) *net.TCPConn {
	t.Helper()
	c, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return c.(*net.TCPConn)
}

// accept waits for the connection that the primary's frontend sees.
func (p *pairing) accept(t testing.TB) net.Conn {
	t.Helper()
	return accept(t, p.listener)
}

func accept(t testing.TB, ln net.Listener) net.Conn {
	t.Helper()
	stop := time.AfterFunc(patience, func() { _ = ln.Close() })
	defer stop.Stop()
	c, err := ln.Accept()
	if err != nil {
		t.Fatalf("accept: %v", err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return c
}

// connect returns both ends of a relayed connection.
func (p *pairing) connect(t testing.TB) (*net.TCPConn, net.Conn) {
	t.Helper()
	client := dial(t, p.address)
	return client, p.accept(t)
}

func send(t testing.TB, c net.Conn, s string) {
	t.Helper()
	if _, err := io.WriteString(c, s); err != nil {
		t.Fatalf("send %q: %v", s, err)
	}
}

func receive(t testing.TB, c net.Conn, want string) {
	t.Helper()
	b := make([]byte, len(want))
	if _, err := io.ReadFull(c, b); err != nil || string(b) != want {
		t.Fatalf("received %q, %v, want %q", b, err, want)
	}
}

// closed waits until c is closed or reset by the other side.
func closed(t testing.TB, c net.Conn) {
	t.Helper()
	n, err := io.Copy(io.Discard, c)
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		t.Fatalf("connection is open after %d bytes", n)
	}
}

// eventually waits until what it is told holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("in vain: %s", what)
		}
	}
}

func TestBytesPassBothWaysWithTheAddressOfTheClient(t *testing.T) {
	p := startRelaying(t)
	client, server := p.connect(t)
	send(t, client, "CONNECT")
	receive(t, server, "CONNECT")
	send(t, server, "CONNECTED")
	receive(t, client, "CONNECTED")
	if got, want := server.RemoteAddr().String(), client.LocalAddr().String(); got != want {
		t.Errorf("the frontend sees the client at %s, want %s", got, want)
	}
	if got := server.LocalAddr().String(); got != p.address {
		t.Errorf("the frontend sees its own address as %s, want %s", got, p.address)
	}
	if c := p.forwarder.Counts(); c.Open != 1 || c.Relayed != 1 {
		t.Errorf("counts of the standby are %+v", c)
	}
	_, _ = client.Close(), server.Close()
	eventually(t, "nothing stays open", func() bool {
		return p.forwarder.Counts().Open == 0 && p.receiver.Counts() == ReceiverCounts{Accepted: 1}
	})
}

func TestHalvesCloseOnTheirOwn(t *testing.T) {
	p := startRelaying(t)
	t.Run("client first", func(t *testing.T) {
		client, server := p.connect(t)
		send(t, client, "question")
		if err := client.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(server); err != nil || string(b) != "question" {
			t.Fatalf("the frontend reads %q, %v", b, err)
		}
		send(t, server, "answer")
		_ = server.Close()
		if b, err := io.ReadAll(client); err != nil || string(b) != "answer" {
			t.Fatalf("the client reads %q, %v", b, err)
		}
	})
	t.Run("primary first", func(t *testing.T) {
		client, server := p.connect(t)
		send(t, server, "ERROR")
		if err := server.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(client); err != nil || string(b) != "ERROR" {
			t.Fatalf("the client reads %q, %v", b, err)
		}
		send(t, client, "more")
		_ = client.Close()
		if b, err := io.ReadAll(server); err != nil || string(b) != "more" {
			t.Fatalf("the frontend reads %q, %v", b, err)
		}
	})
	eventually(t, "both are closed", func() bool { return p.forwarder.Counts().Open == 0 })
}

func TestFrontendsUnderstandRelayedConnections(t *testing.T) {
	p := startRelaying(t)
	ln := frontends.NewListener(p.listener, frontends.Limits{PerAddress: 1}, quiet())
	client := dial(t, p.address)
	server := accept(t, ln)
	if frontends.IsTLS(server) {
		t.Error("a client without TLS seems to have it")
	}
	send(t, client, "x")
	receive(t, server, "x")
	if !frontends.PeerAlive(server) {
		t.Error("a client that is there seems to have gone")
	}
	second := dial(t, p.address) // above the limit of its address
	go func() { _, _ = ln.Accept() }()
	closed(t, second)
	_ = client.Close()
	eventually(t, "the client has gone, unread", func() bool { return !frontends.PeerAlive(server) })
	_ = server.Close()

	client = dial(t, p.address)
	eventually(t, "the place is free", func() bool { open, _, _ := ln.Counts(); return open == 1 })
	ln.CloseConns()
	closed(t, client)
	eventually(t, "nothing stays open", func() bool { return p.receiver.Counts().Open == 0 })
	_ = ln.Close()
}

func TestTLSOfTheClientPassesThrough(t *testing.T) {
	p := startRelaying(t)
	front := newAuthority(t) // clients trust other authorities than nodes do
	ln := tls.NewListener(p.listener, front.node(t, "broker.example"))
	raw := dial(t, p.address)
	client := tls.Client(raw, &tls.Config{RootCAs: front.pool, ServerName: "broker.example"})
	server := accept(t, ln)
	go func() { _, _ = io.WriteString(client, "secret") }()
	receive(t, server, "secret")
	if !frontends.IsTLS(server) {
		t.Error("a client with TLS seems to have none")
	}
	if got, want := server.RemoteAddr().String(), raw.LocalAddr().String(); got != want {
		t.Errorf("the frontend sees the client at %s, want %s", got, want)
	}
	if !frontends.PeerAlive(server) {
		t.Error("a client that is there seems to have gone")
	}
	_ = client.Close()
	eventually(t, "the client has gone, unread", func() bool { return !frontends.PeerAlive(server) })
}

func TestWhatIsNotTakenIsNotRead(t *testing.T) {
	p := startRelaying(t)
	for name, turn := range map[string]func(client, server net.Conn) (from, to net.Conn){
		"slow primary": func(c, s net.Conn) (net.Conn, net.Conn) { return c, s },
		"slow client":  func(c, s net.Conn) (net.Conn, net.Conn) { return s, c },
	} {
		t.Run(name, func(t *testing.T) {
			from, to := turn(p.connect(t))
			const total = 256 << 20
			piece := bytes.Repeat([]byte("leasemq!"), 8<<10)
			sent := 0
			for sent < total {
				if err := from.SetWriteDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
					t.Fatal(err)
				}
				n, err := from.Write(piece)
				if sent += n; err != nil {
					break
				}
			}
			// Sockets hold some megabytes each.
			if sent >= total/2 {
				t.Errorf("%d bytes were taken in for a peer that reads nothing", sent)
			}
			_ = to.Close()
			_ = from.Close()
			eventually(t, "both are closed", func() bool { return p.forwarder.Counts().Open == 0 })
		})
	}
}

func TestClientThatTakesNothingIsClosed(t *testing.T) {
	p := start(t, func(f *ForwarderOptions, _ *ReceiverOptions) { f.StallTimeout = 50 * time.Millisecond })
	p.forwarder.SetPrimary(p.primary)
	_, server := p.connect(t)
	piece := make([]byte, 1<<20)
	for {
		if _, err := server.Write(piece); err != nil {
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				t.Error("a client that takes nothing is kept")
			}
			break
		}
	}
	eventually(t, "it is closed", func() bool { return p.forwarder.Counts().Open == 0 })
}

func TestAnotherEpochClosesAll(t *testing.T) {
	p := startRelaying(t)
	client, server := p.connect(t)
	p.forwarder.SetPrimary(p.primary) // nothing new
	send(t, client, "x")
	receive(t, server, "x")
	next := p.primary
	next.Epoch++
	p.forwarder.SetPrimary(next)
	closed(t, client)
	closed(t, server)

	client, server = p.connect(t)
	p.forwarder.CloseConns()
	closed(t, client)
	closed(t, server)

	client, server = p.connect(t)
	p.receiver.CloseConns()
	closed(t, client)
	_ = server.Close()
	eventually(t, "nothing stays open", func() bool { return p.receiver.Counts().Open == 0 })
}

func TestWithoutAPrimaryAClientWaitsAndIsClosed(t *testing.T) {
	p := start(t, func(f *ForwarderOptions, _ *ReceiverOptions) { f.PrimaryWait = 30 * time.Millisecond })
	closed(t, dial(t, p.address))
	p.forwarder.SetPrimary(Primary{Node: "b", Address: "127.0.0.1:1", Epoch: 1})
	closed(t, dial(t, p.address))
	if c := p.forwarder.Counts(); c.Unserved != 2 || c.Relayed != 0 {
		t.Errorf("counts are %+v", c)
	}
}

func TestAPrimaryThatComesServesWhoWaits(t *testing.T) {
	p := start(t, nil)
	client := dial(t, p.address)
	send(t, client, "early")
	eventually(t, "it waits", func() bool { return p.forwarder.Counts().Open == 1 })
	// One that takes connections and says nothing must not hold the next one up.
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = mute.Close() }()
	p.forwarder.SetPrimary(Primary{Node: "c", Address: mute.Addr().String(), Epoch: 1})
	accept(t, mute)
	p.forwarder.SetPrimary(p.primary)
	receive(t, p.accept(t), "early")
}

func TestTooManyConnectionsAreClosed(t *testing.T) {
	t.Run("standby", func(t *testing.T) {
		p := start(t, func(f *ForwarderOptions, _ *ReceiverOptions) { f.Connections = 1 })
		p.forwarder.SetPrimary(p.primary)
		p.connect(t)
		closed(t, dial(t, p.address))
		if c := p.forwarder.Counts(); c.Refused != 1 {
			t.Errorf("counts are %+v", c)
		}
	})
	t.Run("primary", func(t *testing.T) {
		p := start(t, func(_ *ForwarderOptions, r *ReceiverOptions) { r.Connections = 1 })
		p.forwarder.SetPrimary(p.primary)
		p.connect(t)
		closed(t, dial(t, p.primary.Address))
	})
	t.Run("handshakes", func(t *testing.T) {
		p := start(t, func(_ *ForwarderOptions, r *ReceiverOptions) { r.Handshakes = 1 })
		mute := dial(t, p.primary.Address)
		eventually(t, "it is in its handshake", func() bool { return p.receiver.Counts().Open == 1 })
		closed(t, dial(t, p.primary.Address))
		_ = mute.Close()
		eventually(t, "it is forgotten", func() bool { return p.receiver.Counts().Open == 0 })
		p.forwarder.SetPrimary(p.primary)
		p.connect(t)
		p.connect(t) // one that is through does not count
	})
}

func TestNodesWithoutAListenerRefuse(t *testing.T) {
	p := startRelaying(t)
	_ = p.listener.Close()
	closed(t, dial(t, p.address))
	if _, err := p.listener.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept of a closed listener: %v", err)
	}
	again, err := p.receiver.Listen("stomp")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.receiver.Listen("stomp"); err == nil {
		t.Error("one name has two listeners")
	}
	_ = p.listener.Close() // the old one closes nothing of the new one
	if _, err := p.receiver.Listen("stomp"); err == nil {
		t.Error("one name has two listeners")
	}
	client := dial(t, p.address)
	send(t, client, "x")
	receive(t, accept(t, again), "x")
	_ = again.Close()
}

func TestOnlyNodesOfTheClusterMayRelay(t *testing.T) {
	p := start(t, func(f *ForwarderOptions, r *ReceiverOptions) {
		f.PrimaryWait, r.HandshakeTimeout = 100*time.Millisecond, 500*time.Millisecond
	})
	_, opening := sample(t, "192.0.2.7:1", "192.0.2.8:2", "stomp")
	stranger := newAuthority(t).node(t, "a")
	stranger.RootCAs = p.authority.pool
	old := p.authority.node(t, "a")
	old.MaxVersion = tls.VersionTLS12
	for name, c := range map[string]struct {
		config    *tls.Config // nil: no TLS
		protocols []string
		first     string
	}{
		"no TLS":              {nil, nil, string(opening)},
		"silence":             {nil, nil, ""},
		"no certificate":      {&tls.Config{RootCAs: p.authority.pool}, []string{protocol}, string(opening)},
		"another authority":   {stranger, []string{protocol}, string(opening)},
		"an old TLS":          {old, []string{protocol}, string(opening)},
		"another protocol":    {p.authority.node(t, "a"), []string{"h2"}, string(opening)},
		"no protocol":         {p.authority.node(t, "a"), nil, string(opening)},
		"garbage":             {p.authority.node(t, "a"), []string{protocol}, strings.Repeat("garbage ", 10)},
		"a header cut off":    {p.authority.node(t, "a"), []string{protocol}, string(opening[:20])},
		"an unknown listener": {p.authority.node(t, "a"), []string{protocol}, strings.Replace(string(opening), "stomp", "sqsqs", 1)},
		"an idle listener":    {p.authority.node(t, "a"), []string{protocol}, string(opening)}, // nobody accepts
	} {
		t.Run(name, func(t *testing.T) {
			var client net.Conn = dial(t, p.primary.Address)
			if c.config != nil {
				config := c.config.Clone()
				config.ServerName, config.NextProtos = "b", c.protocols
				client = tls.Client(client, config)
			}
			_, _ = io.WriteString(client, c.first)
			closed(t, client)
		})
	}
	eventually(t, "all are counted", func() bool { return p.receiver.Counts() == ReceiverCounts{Refused: 11} })
}

func TestStandbysRefuseAWrongPrimary(t *testing.T) {
	p := start(t, func(f *ForwarderOptions, _ *ReceiverOptions) { f.PrimaryWait = 100 * time.Millisecond })
	p.primary.Node = "c" // whose certificate is b's
	p.forwarder.SetPrimary(p.primary)
	closed(t, dial(t, p.address))
	if c := p.forwarder.Counts(); c.Relayed != 0 || c.Unserved != 1 {
		t.Errorf("counts are %+v", c)
	}
}

func TestStandbyWhoseCertificateIsRefusedClosesItsClient(t *testing.T) {
	p := start(t, func(f *ForwarderOptions, r *ReceiverOptions) {
		mine := f.TLS.RootCAs
		f.TLS = newAuthority(t).node(t, "a")
		f.TLS.RootCAs = mine
	})
	p.forwarder.SetPrimary(p.primary)
	closed(t, dial(t, p.address))
}

func TestOptionsThatCannotBeAreRefused(t *testing.T) {
	a := newAuthority(t)
	with := func(edit func(*tls.Config)) *tls.Config {
		c := a.node(t, "a")
		edit(c)
		return c
	}
	none := with(func(c *tls.Config) { c.Certificates = nil })
	for _, o := range []ForwarderOptions{
		{},
		{TLS: with(func(c *tls.Config) { c.InsecureSkipVerify = true })},
		{TLS: with(func(c *tls.Config) { c.RootCAs = nil })},
		{TLS: none},
		{TLS: a.node(t, "a"), Connections: -1},
	} {
		if _, err := NewForwarder(o); err == nil {
			t.Errorf("a standby has options %+v", o)
		}
	}
	for _, o := range []ReceiverOptions{
		{},
		{TLS: with(func(c *tls.Config) { c.ClientCAs = nil })},
		{TLS: none},
		{TLS: with(func(c *tls.Config) {
			c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return none, nil }
		})},
		{TLS: a.node(t, "a"), HandshakeTimeout: -1},
	} {
		if _, err := NewReceiver(o); err == nil {
			t.Errorf("a primary has options %+v", o)
		}
	}
}

func TestServeEndsWhatIsUnderWay(t *testing.T) {
	p := start(t, nil)
	p.forwarder.SetPrimary(p.primary)
	p.connect(t)               // relayed
	dial(t, p.address)         // not accepted by a frontend
	dial(t, p.primary.Address) // in its handshake
	eventually(t, "all are under way", func() bool { return p.receiver.Counts().Open == 3 })
}

func BenchmarkRelay(b *testing.B) {
	p := startRelaying(b)
	client, server := p.connect(b)
	_ = errors.Join(client.SetDeadline(time.Time{}), server.SetDeadline(time.Time{}))
	b.Run("upload", func(b *testing.B) {
		piece := make([]byte, 64<<10)
		b.SetBytes(int64(len(piece)))
		b.ReportAllocs()
		b.ResetTimer()
		go func() {
			for range b.N {
				if _, err := client.Write(piece); err != nil {
					return
				}
			}
		}()
		if _, err := io.CopyN(io.Discard, server, int64(b.N)*int64(len(piece))); err != nil {
			b.Fatal(err)
		}
	})
	b.Run("roundtrip", func(b *testing.B) {
		question := make([]byte, 1<<10)
		answer := make([]byte, len(question))
		b.ReportAllocs()
		for range b.N {
			_, e1 := client.Write(question)
			_, e2 := io.ReadFull(server, answer)
			_, e3 := server.Write(answer)
			_, e4 := io.ReadFull(client, answer)
			if err := errors.Join(e1, e2, e3, e4); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("connect", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			c, err := net.Dial("tcp", p.address)
			if err != nil {
				b.Fatal(err)
			}
			s, err := p.listener.Accept()
			if err != nil {
				b.Fatal(err)
			}
			_, _ = s.Close(), c.Close()
		}
	})
}
