package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/packets"
)

// mqttPeer is an MQTT 5 client on one connection that does no more than it is
// told: what was acknowledged and what was not stays exact. It belongs to one
// goroutine.
type mqttPeer struct {
	conn    net.Conn
	r       *bufio.Reader
	present bool   // the server had the session
	count   uint16 // of packet ids that next gave out
	waiting []*packets.Publish
}

// mqttSession says as whom to connect.
type mqttSession struct {
	id         string
	fresh      bool   // away with what the server has
	expiry     uint32 // seconds; 0: the session ends with the connection
	receiveMax uint16 // 0: as many as there are
}

func dialMQTT(t *testing.T, addr string, s mqttSession) *mqttPeer {
	t.Helper()
	p, err := tryMQTT(t, addr, s)
	if err != nil {
		t.Fatalf("connect as %s: %v", s.id, err)
	}
	return p
}

func tryMQTT(t *testing.T, addr string, s mqttSession) (*mqttPeer, error) {
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = conn.Close() })
	p := &mqttPeer{conn: conn, r: bufio.NewReader(conn)}
	connect := packets.NewControlPacket(packets.CONNECT)
	c := connect.Content.(*packets.Connect)
	c.ClientID, c.CleanStart, c.KeepAlive = s.id, s.fresh, 60
	c.Properties.SessionExpiryInterval = &s.expiry
	if s.receiveMax > 0 {
		c.Properties.ReceiveMaximum = &s.receiveMax
	}
	if err := p.write(connect); err != nil {
		return nil, err
	}
	got, err := p.read()
	if err != nil {
		return nil, err
	}
	ack, ok := got.Content.(*packets.Connack)
	if !ok || ack.ReasonCode != 0 {
		return nil, fmt.Errorf("CONNECT was answered by %v", got)
	}
	p.present = ack.SessionPresent
	return p, nil
}

func (p *mqttPeer) write(all ...*packets.ControlPacket) error {
	for _, c := range all {
		if _, err := c.WriteTo(p.conn); err != nil {
			return err
		}
	}
	return nil
}

// errMQTTDisconnect wraps a DISCONNECT of the server.
var errMQTTDisconnect = errors.New("DISCONNECT")

func (p *mqttPeer) read() (*packets.ControlPacket, error) {
	if err := p.conn.SetReadDeadline(time.Now().Add(mqttTimeout)); err != nil {
		return nil, err
	}
	c, err := packets.ReadPacket(p.r)
	if err == nil && c.Type == packets.DISCONNECT {
		err = fmt.Errorf("%w with 0x%02x", errMQTTDisconnect, c.Content.(*packets.Disconnect).ReasonCode)
	}
	return c, err
}

// await reads up to a packet of that type. Messages that come before wait for next.
func (p *mqttPeer) await(kind byte) (*packets.ControlPacket, error) {
	for {
		c, err := p.read()
		if err != nil || c.Type == kind {
			return c, err
		}
		m, ok := c.Content.(*packets.Publish)
		if !ok {
			return nil, fmt.Errorf("%v, where type %d is expected", c, kind)
		}
		p.waiting = append(p.waiting, m)
	}
}

func (p *mqttPeer) id() uint16 {
	if p.count++; p.count == 0 {
		p.count = 1
	}
	return p.count
}

func (p *mqttPeer) subscribe(t *testing.T, filter string, qos byte) {
	t.Helper()
	c := packets.NewControlPacket(packets.SUBSCRIBE)
	s := c.Content.(*packets.Subscribe)
	s.PacketID, s.Subscriptions = p.id(), []packets.SubOptions{{Topic: filter, QoS: qos}}
	err := p.write(c)
	if err == nil {
		c, err = p.await(packets.SUBACK)
	}
	if err == nil && c.Content.(*packets.Suback).Reasons[0] != qos {
		err = fmt.Errorf("SUBACK 0x%02x", c.Content.(*packets.Suback).Reasons[0])
	}
	if err != nil {
		t.Fatalf("SUBSCRIBE %s: %v", filter, err)
	}
}

// publication is a PUBLISH on its way.
type publication struct {
	topic, body string
	qos         byte
	id          uint16
	again       bool // DUP
	retain      bool
	edit        func(p *packets.Properties)
}

func (m publication) packet() *packets.ControlPacket {
	c := packets.NewControlPacket(packets.PUBLISH)
	p := c.Content.(*packets.Publish)
	p.Topic, p.Payload, p.QoS, p.PacketID, p.Duplicate, p.Retain = m.topic, []byte(m.body), m.qos, m.id, m.again, m.retain
	if m.edit != nil {
		m.edit(p.Properties)
	}
	c.Flags = p.QoS << 1
	if p.Duplicate {
		c.Flags |= 1 << 3
	}
	if p.Retain {
		c.Flags |= 1
	}
	return c
}

// mqttAck is a packet that has an id alone.
func mqttAck(kind byte, id uint16) *packets.ControlPacket {
	c := packets.NewControlPacket(kind)
	switch a := c.Content.(type) {
	case *packets.Puback:
		a.PacketID = id
	case *packets.Pubrec:
		a.PacketID = id
	case *packets.Pubrel:
		a.PacketID = id
	case *packets.Pubcomp:
		a.PacketID = id
	}
	return c
}

// must publishes with QoS 1 and wants the PUBACK.
func (p *mqttPeer) must(t *testing.T, m publication) {
	t.Helper()
	m.qos, m.id = 1, p.id()
	err := p.write(m.packet())
	var c *packets.ControlPacket
	if err == nil {
		c, err = p.await(packets.PUBACK)
	}
	if err == nil && (c.PacketID() != m.id || c.Content.(*packets.Puback).ReasonCode >= 0x80) {
		err = fmt.Errorf("answered by %v", c)
	}
	if err != nil {
		t.Fatalf("PUBLISH to %s: %v", m.topic, err)
	}
}

// next returns the next message, and acknowledges one of QoS 1.
func (p *mqttPeer) next(t *testing.T) *packets.Publish {
	t.Helper()
	var m *packets.Publish
	if len(p.waiting) > 0 {
		m, p.waiting = p.waiting[0], p.waiting[1:]
	} else {
		c, err := p.read()
		if err != nil || c.Type != packets.PUBLISH {
			t.Fatalf("got %v, error %v; want a message", c, err)
		}
		m = c.Content.(*packets.Publish)
	}
	if m.QoS == 1 {
		if err := p.write(mqttAck(packets.PUBACK, m.PacketID)); err != nil {
			t.Fatal(err)
		}
	}
	return m
}
