package mqtt

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends"
	"github.com/leasemq/broker/frontends/frontendtest"
)

// listenAndServe serves a fresh core on a free port until the test ends.
func listenAndServe(t testing.TB, o Options, serve func(*Server, context.Context, net.Listener) error) (address string, s *Server) {
	t.Helper()
	o.Logger = quiet()
	s, err := New(frontendtest.NewEngine(t), o)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- serve(s, ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return ln.Addr().String(), s
}

// TestConformance runs the suite of all wires. Its queues are bound to topics of
// their names, and consumed as $queue.
func TestConformance(t *testing.T) { frontendtest.Run(t, wireAdapter{}) }

type wireAdapter struct{}

func (wireAdapter) Frontend(t testing.TB, e *core.Engine) frontends.Frontend {
	c := e.Client(core.Principal{})
	for _, name := range []string{"conformance", "conformance-kept"} {
		if _, _, err := c.Declare(t.Context(), name, core.DefaultQueueConfig(core.KindStandard)); err != nil {
			t.Fatal(err)
		}
		if err := c.Bind(t.Context(), core.Binding{Filter: name, Queue: name}); err != nil {
			t.Fatal(err)
		}
	}
	s, err := New(e, Options{Logger: quiet(), PacketBytesMax: 1<<20 + 20})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (wireAdapter) MessageBytesMax() int { return 1 << 20 }

func (wireAdapter) Dial(t testing.TB, address string) frontendtest.Peer {
	p := dialPeer(t, address)
	if err := p.connect("v=5 clean rm=1"); err != nil {
		t.Fatal(err)
	}
	return p
}

// patience is how long tests wait for what ought to happen at once.
const patience = 30 * time.Second

// peer is a client of MQTT 5 that has one message at a time.
type peer struct {
	conn     net.Conn
	in       *bufio.Reader
	messages []packets.Packet
	subs     map[string]bool
	once     sync.Once
}

func dialPeer(t testing.TB, address string) *peer {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	p := newPeer(conn)
	t.Cleanup(p.HangUp)
	return p
}

func newPeer(conn net.Conn) *peer {
	return &peer{conn: conn, in: bufio.NewReaderSize(conn, 64<<10), subs: map[string]bool{}}
}

func (p *peer) connect(options string) error {
	if err := p.write("CONNECT " + options); err != nil {
		return err
	}
	pk, err := p.await(packets.Connack, patience)
	if err == nil && pk.ReasonCode != 0 {
		err = fmt.Errorf("refused: 0x%02X", pk.ReasonCode)
	}
	return err
}

func (p *peer) write(text string) error {
	version := byte(5)
	b, err := encodePackets(text, &version)
	if err == nil {
		_, err = p.conn.Write(b)
	}
	return err
}

// read returns the next packet, of a few kinds.
func (p *peer) read(patience time.Duration) (pk packets.Packet, err error) {
	if err := p.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return pk, err
	}
	head, err := p.in.ReadByte()
	if err != nil {
		return pk, err
	}
	n, _, err := packets.DecodeLength(p.in)
	if err != nil {
		return pk, err
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(p.in, body); err != nil {
		return pk, err
	}
	pk.ProtocolVersion = 5
	if err := pk.FixedHeader.Decode(head); err != nil {
		return pk, err
	}
	pk.FixedHeader.Remaining = n
	switch pk.FixedHeader.Type {
	case packets.Connack:
		err = pk.ConnackDecode(body)
	case packets.Publish:
		err = pk.PublishDecode(body)
	case packets.Suback:
		err = pk.SubackDecode(body)
	case packets.Puback, packets.Pubrec, packets.Pubrel, packets.Pubcomp:
		pk.PacketID = uint16(body[0])<<8 | uint16(body[1])
		if n > 2 {
			pk.ReasonCode = body[2]
		}
	case packets.Disconnect:
		err = fmt.Errorf("disconnected: %x", body)
	}
	return pk, err
}

// await reads until a packet of that type has come. Messages are kept.
func (p *peer) await(kind byte, patience time.Duration) (packets.Packet, error) {
	for deadline := time.Now().Add(patience); ; {
		pk, err := p.read(time.Until(deadline))
		if err != nil || pk.FixedHeader.Type == kind {
			return pk, err
		}
		if pk.FixedHeader.Type == packets.Publish {
			p.messages = append(p.messages, pk)
		}
	}
}

func (p *peer) Send(queue string, body []byte) error {
	var b bytes.Buffer
	pk := packets.Packet{
		ProtocolVersion: 5, PacketID: 1, TopicName: queue, Payload: body, FixedHeader: packets.FixedHeader{Type: packets.Publish, Qos: 1},
	}
	if err := pk.PublishEncode(&b); err != nil {
		return err
	}
	if _, err := p.conn.Write(b.Bytes()); err != nil {
		return err
	}
	ack, err := p.await(packets.Puback, patience)
	if err == nil && ack.ReasonCode >= 0x80 {
		err = fmt.Errorf("refused: 0x%02X", ack.ReasonCode)
	}
	return err
}

func (p *peer) Receive(queue string, wait time.Duration) (frontendtest.Message, bool, error) {
	if !p.subs[queue] {
		p.subs[queue] = true
		if err := p.write("SUBSCRIBE 1 $queue/" + queue + ":qos=1"); err != nil {
			return frontendtest.Message{}, false, err
		}
		if _, err := p.await(packets.Suback, wait); err != nil {
			return frontendtest.Message{}, false, err
		}
	}
	if len(p.messages) == 0 {
		pk, err := p.await(packets.Publish, wait)
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			return frontendtest.Message{}, false, nil
		}
		if err != nil {
			return frontendtest.Message{}, false, err
		}
		p.messages = append(p.messages, pk)
	}
	pk := p.messages[0]
	p.messages = p.messages[1:]
	return frontendtest.Message{Queue: queue, Body: pk.Payload, Redelivered: pk.FixedHeader.Dup, Token: fmt.Sprint(pk.PacketID)}, true, nil
}

// Ack acknowledges, and waits until the server has taken it.
func (p *peer) Ack(m frontendtest.Message) error {
	if err := p.write("PUBACK " + m.Token + "; PINGREQ"); err != nil {
		return err
	}
	_, err := p.await(packets.Pingresp, patience)
	return err
}

func (p *peer) HangUp() { p.once.Do(func() { _ = p.conn.Close() }) }
