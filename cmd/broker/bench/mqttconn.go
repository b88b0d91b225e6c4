package bench

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// Kinds of packet: the upper half of their first byte.
const (
	mqttConnect     = 1
	mqttConnack     = 2
	mqttPublish     = 3
	mqttPuback      = 4
	mqttPubrec      = 5
	mqttPubrel      = 6
	mqttPubcomp     = 7
	mqttSubscribe   = 8
	mqttSuback      = 9
	mqttUnsubscribe = 10
	mqttPingreq     = 12
	mqttPingresp    = 13
	mqttDisconnect  = 14
)

// Versions of the protocol, as CONNECT names them.
const (
	mqttV3 = 4 // 3.1.1
	mqttV5 = 5
)

// Bounds of an MQTT connection.
const (
	mqttReadBytes = 64 << 10
	mqttPacketMax = 16 << 20
	// mqttKeepAlive is asked for; a ping goes out more often than that.
	mqttKeepAlive = 120 * time.Second
	mqttPing      = 20 * time.Second
)

// ErrBadPacket is answered for bytes that are no packet of MQTT.
var ErrBadPacket = errors.New("not an MQTT packet")

// mqttPacket is a packet that came in. Its slices hold until the next.
type mqttPacket struct {
	kind   byte
	qos    byte // PUBLISH
	again  bool // PUBLISH: DUP
	id     uint16
	reason byte
	body   []byte // PUBLISH: the payload; SUBACK: the codes
}

// mqttConn is a connection. Reading and writing may go on in two goroutines, but
// only one each.
type mqttConn struct {
	conn       net.Conn
	r          *bufio.Reader
	w          []byte // gathered, to be written by flush
	version    byte
	receiveMax int // of the server
	packet     mqttPacket
	big        []byte // a packet that the reader has no room for
}

// dialMQTT connects as a client. A session that is kept outlives the connection.
func dialMQTT(ctx context.Context, o *MQTTOptions, id string, clean, kept bool) (*mqttConn, error) {
	nc, err := (&net.Dialer{Timeout: requestTimeout}).DialContext(ctx, "tcp", o.Target)
	if err != nil {
		return nil, err
	}
	c := &mqttConn{conn: nc, r: bufio.NewReaderSize(nc, mqttReadBytes), version: o.version(), receiveMax: windowMax - 1}
	c.putConnect(o, id, clean, kept)
	p, err := c.ask(mqttConnack)
	if err == nil && p.reason != 0 {
		err = fmt.Errorf("refused with 0x%02x", p.reason)
	}
	if err == nil {
		err = c.connack(p.body)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("connect: %w", err), nc.Close())
	}
	return c, nil
}

// ask writes what was gathered and awaits a packet of that kind.
func (c *mqttConn) ask(kind byte) (*mqttPacket, error) {
	err := c.conn.SetDeadline(time.Now().Add(requestTimeout))
	if err == nil {
		err = c.flush()
	}
	var p *mqttPacket
	if err == nil {
		p, err = c.read()
	}
	if err == nil && p.kind != kind {
		err = fmt.Errorf("packet of kind %d, where %d is expected: %w", p.kind, kind, ErrBadPacket)
	}
	if err == nil {
		err = c.conn.SetDeadline(time.Time{})
	}
	return p, err
}

func (c *mqttConn) putConnect(o *MQTTOptions, id string, clean, kept bool) {
	flags := byte(0)
	if clean || c.version < mqttV5 && !kept {
		flags |= 1 << 1
	}
	body := appendMQTTText(nil, "MQTT")
	payload := appendMQTTText(nil, id)
	if o.Username != "" {
		flags |= 3 << 6
		payload = appendMQTTText(appendMQTTText(payload, o.Username), o.Password)
	}
	body = append(body, c.version, flags)
	body = binary.BigEndian.AppendUint16(body, uint16(mqttKeepAlive.Seconds()))
	if c.version == mqttV5 {
		props := binary.BigEndian.AppendUint16([]byte{0x21}, uint16(o.ReceiveMax))
		if kept {
			props = binary.BigEndian.AppendUint32(append(props, 0x11), 3600) // session expiry, s
		}
		body = append(append(body, byte(len(props))), props...)
	}
	c.putPacket(mqttConnect<<4, append(body, payload...))
}

// putSubscribe gathers a SUBSCRIBE of one filter.
func (c *mqttConn) putSubscribe(filter string, qos byte) {
	body := []byte{0, 1}
	if c.version == mqttV5 {
		body = append(body, 0)
	}
	c.putPacket(mqttSubscribe<<4|2, append(appendMQTTText(body, filter), qos))
}

func (c *mqttConn) putPacket(head byte, body []byte) {
	c.w = binary.AppendUvarint(append(c.w, head), uint64(len(body)))
	c.w = append(c.w, body...)
}

// putAck gathers a packet that has an id alone.
func (c *mqttConn) putAck(kind byte, id uint16) { c.w = appendMQTTAck(c.w, kind, id) }

func appendMQTTAck(b []byte, kind byte, id uint16) []byte {
	head := kind << 4
	if kind == mqttPubrel {
		head |= 2
	}
	return append(b, head, 2, byte(id>>8), byte(id))
}

func appendMQTTText(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}

// publishHead returns a PUBLISH up to its payload of size bytes, and where its id
// stands.
func publishHead(version byte, topic string, qos byte, size int) (head []byte, id int) {
	rest := 2 + len(topic) + size
	if qos > 0 {
		rest += 2
	}
	if version == mqttV5 {
		rest++
	}
	head = binary.AppendUvarint([]byte{mqttPublish<<4 | qos<<1}, uint64(rest))
	head = appendMQTTText(head, topic)
	id = len(head)
	if qos > 0 {
		head = append(head, 0, 0)
	}
	if version == mqttV5 {
		head = append(head, 0)
	}
	return head, id
}

// flush writes what was gathered.
func (c *mqttConn) flush() error {
	if len(c.w) == 0 {
		return nil
	}
	_, err := c.conn.Write(c.w)
	c.w = c.w[:0]
	return err
}

// ping may be called from any goroutine: a write is whole.
func (c *mqttConn) ping() { _, _ = c.conn.Write([]byte{mqttPingreq << 4, 0}) }

// read returns the next packet. DISCONNECT is an error.
func (c *mqttConn) read() (*mqttPacket, error) {
	head, err := c.r.ReadByte()
	if err != nil {
		return nil, err
	}
	size, err := c.length()
	if err != nil {
		return nil, err
	}
	b, err := c.rest(size)
	if err != nil {
		return nil, err
	}
	p := &c.packet
	*p = mqttPacket{kind: head >> 4, qos: head >> 1 & 3, again: head&8 != 0}
	if !p.parse(b, c.version) {
		return nil, fmt.Errorf("packet of kind %d, %d bytes: %w", p.kind, size, ErrBadPacket)
	}
	if p.kind == mqttDisconnect {
		return nil, fmt.Errorf("DISCONNECT with 0x%02x", p.reason)
	}
	return p, nil
}

// length reads the length of what follows.
func (c *mqttConn) length() (n int, err error) {
	for shift := 0; shift < 28; shift += 7 {
		b, err := c.r.ReadByte()
		if err != nil {
			return 0, noEOF(err)
		}
		if n |= int(b&0x7F) << shift; b < 0x80 {
			if n > mqttPacketMax {
				break
			}
			return n, nil
		}
	}
	return 0, fmt.Errorf("a length of over %d bytes: %w", mqttPacketMax, ErrBadPacket)
}

func (c *mqttConn) rest(size int) (b []byte, err error) {
	if size <= mqttReadBytes {
		if b, err = c.r.Peek(size); err == nil {
			_, err = c.r.Discard(size)
		}
		return b, noEOF(err)
	}
	if cap(c.big) < size {
		c.big = make([]byte, size)
	}
	c.big = c.big[:size]
	_, err = io.ReadFull(c.r, c.big)
	return c.big, noEOF(err)
}

// noEOF makes an end within a packet what it is.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// parse reads what follows the length.
func (p *mqttPacket) parse(b []byte, version byte) bool {
	ok := true
	switch p.kind {
	case mqttConnack:
		if len(b) < 2 {
			return false
		}
		p.reason, p.body = b[1], b[2:]
	case mqttPublish:
		if len(b) < 2 || p.qos > 2 {
			return false
		}
		topic := 2 + int(binary.BigEndian.Uint16(b))
		if len(b) < topic {
			return false
		}
		b = b[topic:]
		if p.qos > 0 {
			b, ok = p.readID(b)
		}
		if ok && version == mqttV5 {
			b, ok = skipProperties(b)
		}
		p.body = b
	case mqttPuback, mqttPubrec, mqttPubrel, mqttPubcomp:
		if b, ok = p.readID(b); ok && len(b) > 0 {
			p.reason = b[0]
		}
	case mqttSuback:
		if b, ok = p.readID(b); ok && version == mqttV5 {
			b, ok = skipProperties(b)
		}
		p.body = b
	case mqttDisconnect:
		if len(b) > 0 {
			p.reason = b[0]
		}
	case mqttPingresp:
	default:
		return false
	}
	return ok
}

func (p *mqttPacket) readID(b []byte) ([]byte, bool) {
	if len(b) < 2 {
		return b, false
	}
	p.id = binary.BigEndian.Uint16(b)
	return b[2:], p.id != 0
}

func skipProperties(b []byte) ([]byte, bool) {
	size, n := binary.Uvarint(b)
	if n <= 0 || size > uint64(len(b)-n) {
		return b, false
	}
	return b[n+int(size):], true
}

// connack takes the receive maximum from the properties of CONNACK.
func (c *mqttConn) connack(b []byte) error {
	if c.version < mqttV5 {
		return nil
	}
	size, n := binary.Uvarint(b)
	if n <= 0 || size > uint64(len(b)-n) {
		return fmt.Errorf("CONNACK: %w", ErrBadPacket)
	}
	for b = b[n : n+int(size)]; len(b) > 0; {
		if b[0] == 0x21 && len(b) > 2 {
			c.receiveMax = max(int(binary.BigEndian.Uint16(b[1:])), 1)
		}
		width := propertyBytes(b)
		if width == 0 || width > len(b) {
			return fmt.Errorf("property 0x%02x of CONNACK: %w", b[0], ErrBadPacket)
		}
		b = b[width:]
	}
	return nil
}

// propertyBytes returns how long the property is that b begins with, 0 if it is
// none of CONNACK.
func propertyBytes(b []byte) int {
	text := func(at int) int {
		if len(b) < at+2 {
			return len(b) + 1
		}
		return at + 2 + int(binary.BigEndian.Uint16(b[at:]))
	}
	switch b[0] {
	case 0x24, 0x25, 0x28, 0x29, 0x2A:
		return 2
	case 0x13, 0x21, 0x22:
		return 3
	case 0x11, 0x27:
		return 5
	case 0x12, 0x15, 0x16, 0x1A, 0x1C, 0x1F:
		return text(1)
	case 0x26:
		return text(text(1))
	}
	return 0
}
