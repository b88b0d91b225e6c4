package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasemq/broker"
	"github.com/leasemq/broker/configs"
)

// targetVariable names the address of another broker to run the tests of the
// specification against.
const targetVariable = "MQTT_TARGET"

// Bounds of the tests of the specification.
const (
	specAnswerMax  = 5 * time.Second        // for what has to come
	specSilence    = 100 * time.Millisecond // in which what must not come would
	specAtOnceMost = 24                     // tests that run at a time
)

// specCase tests statements of the specifications.
type specCase struct {
	v5, v3 string // the numbers of the statements, by version; empty: it has none
	run    func(*spec)
}

// specCases are all tests of the specification.
func specCases() []specCase {
	return slices.Concat(specMalformed(), specConnects(), specSessions(), specWills(), specPublishes(),
		specRetained(), specSubscribes(), specQoS(), specShared(), specTopics(), specTransport())
}

// TestMQTTConformance runs the tests of the specification, each under the numbers
// of its statements in both versions, against one broker.
func TestMQTTConformance(t *testing.T) {
	server := newSpecServer(t)
	for _, version := range []struct {
		name string
		v    byte
	}{{"v5", 5}, {"v3.1.1", 4}} {
		t.Run(version.name, func(t *testing.T) {
			var all sync.WaitGroup
			slots := make(chan struct{}, specAtOnceMost)
			for i, c := range specCases() {
				numbers := c.v5
				if version.v < 5 {
					numbers = c.v3
				}
				if numbers == "" {
					continue
				}
				slots <- struct{}{}
				all.Go(func() {
					defer func() { <-slots }()
					t.Run("MQTT-"+strings.ReplaceAll(numbers, " ", "+MQTT-"), func(t *testing.T) {
						c.run(&spec{T: t, v: version.v, server: server, mark: fmt.Sprintf("s%d-%d-%d", os.Getpid(), version.v, i)})
					})
				})
			}
			all.Wait()
		})
	}
}

// specServer is the broker that is tested.
type specServer struct {
	addr, web string
	ours      bool
}

func newSpecServer(t *testing.T, options ...broker.Option) specServer {
	t.Helper()
	if addr := os.Getenv(targetVariable); addr != "" {
		return specServer{addr: addr}
	}
	options = append([]broker.Option{
		broker.WithLogger(slog.New(slog.DiscardHandler)), broker.WithKinds(broker.MQTT()),
		broker.Edit(func(c *configs.Config) { c.MQTT.Listen, c.MQTT.WSListen = "127.0.0.1:0", "127.0.0.1:0" }),
	}, options...)
	node, err := broker.Run(t.Context(), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := node.Close(); err != nil {
			t.Error(err)
		}
	})
	return specServer{addr: node.Addr("mqtt"), web: node.Addr("mqtt_ws"), ours: true}
}

// spec is one test in one version of the protocol.
type spec struct {
	*testing.T
	v         byte // protocol version: 4 or 5
	server    specServer
	mark      string // of the topics and client identifiers of this test
	publisher *specClient
	count     int // of client identifiers chosen
}

// topic returns a topic or filter of this test alone.
func (s *spec) topic(rest string) string { return s.mark + "/" + rest }

// id returns a client identifier of this test alone.
func (s *spec) id(name string) string { return s.mark + name }

// pick returns what holds in this version.
func pick[T any](s *spec, v5, v3 T) T {
	if s.v < 5 {
		return v3
	}
	return v5
}

// specClient does what it is told on one connection. It belongs to one
// goroutine.
type specClient struct {
	s       *spec
	conn    net.Conn
	r       *bufio.Reader
	held    []mqPacket // PUBLISHes that came while something else was awaited
	last    uint16     // packet identifier
	max     int        // bytes of a packet that it takes; 0: any
	id      string
	present bool    // Session Present of the CONNACK
	props   mqProps // of the CONNACK
}

// dial connects and sends nothing.
func (s *spec) dial() *specClient {
	s.Helper()
	conn, err := new(net.Dialer).DialContext(s.Context(), "tcp", s.server.addr)
	if err != nil {
		s.Fatal(err)
	}
	return s.over(conn)
}

func (s *spec) over(conn net.Conn) *specClient {
	s.Cleanup(func() { _ = conn.Close() })
	return &specClient{s: s, conn: conn, r: bufio.NewReader(conn)}
}

// connect opens a connection and wants to be accepted.
func (s *spec) connect(o specConnect) *specClient {
	s.Helper()
	c, reason := s.knock(o)
	if reason != 0 {
		s.Fatalf("CONNACK has the code %#x", reason)
	}
	return c
}

// knock opens a connection and returns the code of the CONNACK.
func (s *spec) knock(o specConnect) (*specClient, byte) {
	s.Helper()
	if o.id == "" && !o.noID {
		s.count++
		o.id = s.id(fmt.Sprintf("c%d", s.count))
	}
	c := s.dial()
	c.id = o.id
	c.send(s.connectPacket(o))
	return c, c.connack()
}

// connack reads the CONNACK and returns its code.
func (c *specClient) connack() byte {
	c.s.Helper()
	p := c.packet()
	if p.head != mqCONNACK<<4 || len(p.body) < 2 {
		c.s.Fatalf("packet %#x %x is no CONNACK", p.head, p.body)
	}
	if p.body[0] > 1 {
		c.s.Errorf("the flags of CONNACK are %#x", p.body[0])
	}
	c.present = p.body[0] == 1
	var rest string
	if c.props, rest = c.s.takeProps(string(p.body[2:])); rest != "" {
		c.s.Errorf("%x follows a CONNACK", rest)
	}
	return p.body[1]
}

// send writes packets. A connection that is closed meanwhile is found at the next
// read.
func (c *specClient) send(packets ...string) {
	_, _ = io.WriteString(c.conn, strings.Join(packets, ""))
}

// drop ends the connection as a failing network does.
func (c *specClient) drop() { _ = c.conn.Close() }

// leave ends the connection as a client should.
func (c *specClient) leave() {
	c.s.Helper()
	c.send(mqRaw(mqDISCONNECT << 4))
	c.closed()
}

// read reads the next packet within a time.
func (c *specClient) read(within time.Duration) (mqPacket, error) {
	if err := c.conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		return mqPacket{}, err
	}
	if _, err := c.r.Peek(1); err != nil {
		return mqPacket{}, err
	}
	_ = c.conn.SetReadDeadline(time.Now().Add(specAnswerMax))
	head, err := c.r.ReadByte()
	if err != nil {
		return mqPacket{}, err
	}
	n, shift, size := 0, 0, 1
	for {
		b, err := c.r.ReadByte()
		if err != nil {
			return mqPacket{}, err
		}
		size++
		n |= int(b&0x7f) << shift
		if shift += 7; b < 0x80 {
			break
		}
		if shift > 21 {
			return mqPacket{}, errors.New("the length of a packet has no end")
		}
	}
	body := make([]byte, n)
	_, err = io.ReadFull(c.r, body)
	if size += n; c.max > 0 && size > c.max {
		c.s.Errorf("packet %#x of %d bytes came, over the maximum of %d", head, size, c.max)
	}
	return mqPacket{head, body, size}, err
}

// packet returns the next packet.
func (c *specClient) packet() mqPacket {
	c.s.Helper()
	p, err := c.read(specAnswerMax)
	if err != nil {
		c.s.Fatalf("no packet came: %v", err)
	}
	return p
}

// want returns the next packet, which has to be of a kind. PUBLISHes before it
// wait for message.
func (c *specClient) want(kind byte) mqPacket {
	c.s.Helper()
	for {
		p := c.packet()
		switch {
		case p.kind() == kind:
			return p
		case p.kind() != mqPUBLISH:
			c.s.Fatalf("packet %#x %x came instead of one of type %d", p.head, p.body, kind)
		}
		c.held = append(c.held, p)
	}
}

// answered wants a packet of a kind for a packet identifier, and returns its
// reason code.
func (c *specClient) answered(kind byte, pid uint16) byte {
	c.s.Helper()
	p := c.want(kind)
	if p.pid() != pid {
		c.s.Fatalf("packet %#x %x is for another identifier than %d", p.head, p.body, pid)
	}
	if kind == mqPUBREL && p.head != mqPUBREL<<4|2 || kind != mqPUBREL && p.head&15 != 0 {
		c.s.Errorf("the flags of packet %#x are wrong", p.head)
	}
	if c.s.v < 5 && len(p.body) != 2 {
		c.s.Errorf("packet %#x %x is not one of MQTT 3.1.1", p.head, p.body)
	}
	return p.reason()
}

// message returns the next message, which is not acknowledged.
func (c *specClient) message() mqMessage {
	c.s.Helper()
	if len(c.held) > 0 {
		p := c.held[0]
		c.held = c.held[1:]
		return c.s.takeMessage(p)
	}
	return c.s.takeMessage(c.packet())
}

// take returns the next message and acknowledges it.
func (c *specClient) take() mqMessage {
	c.s.Helper()
	m := c.message()
	switch m.qos {
	case 1:
		c.send(mqAnswer(mqPUBACK, m.pid))
	case 2:
		c.send(mqAnswer(mqPUBREC, m.pid))
		c.answered(mqPUBREL, m.pid)
		c.send(mqAnswer(mqPUBCOMP, m.pid))
	}
	return m
}

// expect takes messages with these payloads, in this order.
func (c *specClient) expect(payloads ...string) {
	c.s.Helper()
	for _, want := range payloads {
		if m := c.take(); m.payload != want {
			c.s.Fatalf("message %q of %s came, not %q", m.payload, m.topic, want)
		}
	}
}

// silent fails if anything comes.
func (c *specClient) silent() {
	c.s.Helper()
	for _, p := range c.held {
		c.s.Errorf("message %+v came", c.s.takeMessage(p))
	}
	p, err := c.read(specSilence)
	switch {
	case err == nil:
		c.s.Errorf("packet %#x %q came", p.head, p.body)
	case !errors.Is(err, os.ErrDeadlineExceeded):
		c.s.Errorf("the connection ended: %v", err)
	}
}

// alive fails if the broker does not answer a ping. PUBLISHes before the answer
// wait for message.
func (c *specClient) alive() {
	c.s.Helper()
	c.send(mqRaw(mqPINGREQ << 4))
	if p := c.want(mqPINGRESP); p.head != mqPINGRESP<<4 || len(p.body) > 0 {
		c.s.Errorf("PINGRESP is %#x %x", p.head, p.body)
	}
}

// closed wants the broker to close the connection, in MQTT 5 after a DISCONNECT
// with one of the reasons, or without it.
func (c *specClient) closed(reasons ...byte) {
	c.s.Helper()
	p, err := c.read(specAnswerMax)
	if err == nil {
		if c.s.v < 5 || p.head != mqDISCONNECT<<4 {
			c.s.Fatalf("packet %#x %x came instead of the end", p.head, p.body)
		}
		if !slices.Contains(reasons, p.reason()) {
			c.s.Errorf("DISCONNECT has the reason %#x, want one of %#x", p.reason(), reasons)
		}
		if len(p.body) > 1 {
			if props, _ := c.s.takeProps(string(p.body[1:])); len(props.all(mqSessionExpiry)) > 0 {
				c.s.Error("DISCONNECT of a server has a session expiry")
			}
		}
		p, err = c.read(specAnswerMax)
	}
	switch {
	case err == nil:
		c.s.Fatalf("packet %#x %x came after the last", p.head, p.body)
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.s.Fatal("the connection is not closed")
	}
}

// next returns a packet identifier that the client has not used.
func (c *specClient) next() uint16 {
	c.last++
	return c.last
}

// publish sends a PUBLISH and returns its packet identifier.
func (c *specClient) publish(m mqMessage) uint16 {
	if m.qos > 0 && m.pid == 0 {
		m.pid = c.next()
	}
	c.send(c.s.publish(m))
	return m.pid
}

// deliver publishes and waits until the broker has it.
func (c *specClient) deliver(m mqMessage) {
	c.s.Helper()
	pid := c.publish(m)
	reason := byte(0)
	switch m.qos {
	case 0:
		c.alive()
	case 1:
		reason = c.answered(mqPUBACK, pid)
	case 2:
		reason = c.answered(mqPUBREC, pid)
		c.send(mqAnswer(mqPUBREL, pid))
		c.answered(mqPUBCOMP, pid)
	}
	if reason >= 0x80 {
		c.s.Fatalf("the message was refused with %#x", reason)
	}
}

// put publishes from a connection that does nothing else.
func (s *spec) put(messages ...mqMessage) {
	s.Helper()
	if s.publisher == nil {
		s.publisher = s.connect(specConnect{id: s.id("publisher")})
	}
	for _, m := range messages {
		s.publisher.deliver(m)
	}
}

// subscribe subscribes to one filter and wants it to be granted as asked for.
func (c *specClient) subscribe(filter string, options byte, props ...string) {
	c.s.Helper()
	pid := c.next()
	c.send(c.s.subscribe(pid, strings.Join(props, ""), mqFilter(filter, options)))
	if got := c.suback(pid); got != string([]byte{options & 3}) {
		c.s.Fatalf("SUBACK of %q with %#x has %x", filter, options, got)
	}
}

// suback wants a SUBACK and returns its codes.
func (c *specClient) suback(pid uint16) string {
	c.s.Helper()
	return c.codes(mqSUBACK, pid)
}

func (c *specClient) codes(kind byte, pid uint16) string {
	c.s.Helper()
	p := c.want(kind)
	if p.pid() != pid || p.head&15 != 0 {
		c.s.Fatalf("packet %#x %x is not for identifier %d", p.head, p.body, pid)
	}
	_, codes := c.s.takeProps(string(p.body[2:]))
	return codes
}

// unsubscribe unsubscribes from filters and returns the codes, none in MQTT
// 3.1.1.
func (c *specClient) unsubscribe(filters ...string) string {
	c.s.Helper()
	pid := c.next()
	c.send(c.s.unsubscribe(pid, filters...))
	return c.codes(mqUNSUBACK, pid)
}

// listener returns a connection that is subscribed to a topic of this test.
func (s *spec) listener(filter string, options byte, props ...string) *specClient {
	s.Helper()
	c := s.connect(specConnect{})
	c.subscribe(filter, options, props...)
	return c
}
