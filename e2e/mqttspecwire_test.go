package e2e

import (
	"encoding/binary"
	"slices"
	"strings"
)

// Types of packets.
const (
	mqCONNECT     = 1
	mqCONNACK     = 2
	mqPUBLISH     = 3
	mqPUBACK      = 4
	mqPUBREC      = 5
	mqPUBREL      = 6
	mqPUBCOMP     = 7
	mqSUBSCRIBE   = 8
	mqSUBACK      = 9
	mqUNSUBSCRIBE = 10
	mqUNSUBACK    = 11
	mqPINGREQ     = 12
	mqPINGRESP    = 13
	mqDISCONNECT  = 14
	mqAUTH        = 15
)

// Properties of MQTT 5.
const (
	mqPayloadFormat   = 0x01
	mqMessageExpiry   = 0x02
	mqContentType     = 0x03
	mqResponseTopic   = 0x08
	mqCorrelationData = 0x09
	mqSubscriptionID  = 0x0b
	mqSessionExpiry   = 0x11
	mqAssignedID      = 0x12
	mqServerKeepAlive = 0x13
	mqAuthMethod      = 0x15
	mqAuthData        = 0x16
	mqRequestProblem  = 0x17
	mqWillDelay       = 0x18
	mqRequestResponse = 0x19
	mqResponseInfo    = 0x1a
	mqReasonString    = 0x1f
	mqReceiveMax      = 0x21
	mqAliasMax        = 0x22
	mqAlias           = 0x23
	mqMaximumQoS      = 0x24
	mqRetainAvailable = 0x25
	mqUserProperty    = 0x26
	mqMaxPacket       = 0x27
)

// mqPacket is a packet that came.
type mqPacket struct {
	head byte
	body []byte
	size int // of the whole packet, bytes
}

func (p mqPacket) kind() byte { return p.head >> 4 }

// pid returns the packet identifier of a packet that starts with it.
func (p mqPacket) pid() uint16 {
	if len(p.body) < 2 {
		return 0
	}
	return binary.BigEndian.Uint16(p.body)
}

// reason returns the reason code of an acknowledgement of a PUBLISH, or of a
// DISCONNECT.
func (p mqPacket) reason() byte {
	at := 2
	if p.kind() == mqDISCONNECT || p.kind() == mqAUTH {
		at = 0
	}
	if len(p.body) <= at {
		return 0
	}
	return p.body[at]
}

// mqProps are properties, each with its identifier, as they stand on the wire.
type mqProps []string

// value returns the bytes behind the identifier of the first property of that
// kind.
func (ps mqProps) value(id byte) (string, bool) {
	for _, p := range ps {
		if p[0] == id {
			return p[1:], true
		}
	}
	return "", false
}

// number returns the value of a property of two or four bytes.
func (ps mqProps) number(id byte, missing int) int {
	v, ok := ps.value(id)
	if !ok {
		return missing
	}
	n := 0
	for _, b := range []byte(v) {
		n = n<<8 | int(b)
	}
	return n
}

func (ps mqProps) all(id byte) mqProps {
	return slices.DeleteFunc(slices.Clone(ps), func(p string) bool { return p[0] != id })
}

// mqMessage is a PUBLISH.
type mqMessage struct {
	topic, payload string
	qos            byte
	retain, dup    bool
	pid            uint16
	props          mqProps
}

// Parts of packets.
func mq16(n uint16) string             { return string(binary.BigEndian.AppendUint16(nil, n)) }
func mq32(n uint32) string             { return string(binary.BigEndian.AppendUint32(nil, n)) }
func mqString(s string) string         { return mq16(uint16(len(s))) + s }
func mqPair(k, v string) string        { return "\x26" + mqString(k) + mqString(v) }
func mqText(id byte, s string) string  { return string([]byte{id}) + mqString(s) }
func mqByte(id, b byte) string         { return string([]byte{id, b}) }
func mqShort(id byte, n uint16) string { return string([]byte{id}) + mq16(n) }
func mqLong(id byte, n uint32) string  { return string([]byte{id}) + mq32(n) }
func mqSubID(n int) string             { return "\x0b" + mqVar(n) }

// mqVar writes a variable byte integer.
func mqVar(n int) string {
	var b []byte
	for ; n >= 128; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return string(append(b, byte(n)))
}

// mqRaw makes a packet of its first byte and what follows the length.
func mqRaw(head byte, parts ...string) string {
	body := strings.Join(parts, "")
	return string([]byte{head}) + mqVar(len(body)) + body
}

// block writes properties, which MQTT 3.1.1 does not have.
func (s *spec) block(props ...string) string {
	if s.v < 5 {
		return ""
	}
	all := strings.Join(props, "")
	return mqVar(len(all)) + all
}

// publish makes a PUBLISH.
func (s *spec) publish(m mqMessage) string {
	head := byte(mqPUBLISH<<4) | m.qos<<1
	if m.retain {
		head |= 1
	}
	if m.dup {
		head |= 8
	}
	id := ""
	if m.qos > 0 {
		id = mq16(m.pid)
	}
	return mqRaw(head, mqString(m.topic), id, s.block(m.props...), m.payload)
}

// subscribe makes a SUBSCRIBE of filters with their options in pairs.
func (s *spec) subscribe(pid uint16, props string, filters ...string) string {
	return mqRaw(mqSUBSCRIBE<<4|2, mq16(pid), s.block(props), strings.Join(filters, ""))
}

// mqFilter is an entry of a SUBSCRIBE.
func mqFilter(filter string, options byte) string { return mqString(filter) + string([]byte{options}) }

func (s *spec) unsubscribe(pid uint16, filters ...string) string {
	body := ""
	for _, f := range filters {
		body += mqString(f)
	}
	return mqRaw(mqUNSUBSCRIBE<<4|2, mq16(pid), s.block(), body)
}

// answer makes a PUBACK, PUBREC, PUBREL or PUBCOMP, with a reason code if there
// is one.
func mqAnswer(kind byte, pid uint16, reason ...byte) string {
	head := kind << 4
	if kind == mqPUBREL {
		head |= 2
	}
	return mqRaw(head, mq16(pid), string(reason))
}

// specConnect is what a CONNECT asks for. The zero value is a session that ends
// with its connection.
type specConnect struct {
	id    string // chosen if empty
	noID  bool
	stay  bool // the session outlives the connection and is resumed
	fresh bool // of MQTT 5: the session outlives the connection, and is new
	alive uint16
	will  *mqMessage
	delay uint32 // of the will, seconds
	user  string
	pass  string
	props []string // of MQTT 5
	life  uint32   // of the session in MQTT 5, seconds; 0: 300, if it stays
}

// connectPacket makes a CONNECT.
func (s *spec) connectPacket(o specConnect) string {
	var flags byte
	if !o.stay {
		flags |= 2
	}
	props := slices.Clone(o.props)
	if o.life == 0 {
		o.life = 300
	}
	if o.stay || o.fresh {
		props = append(props, mqLong(mqSessionExpiry, o.life))
	}
	payload := mqString(o.id)
	if w := o.will; w != nil {
		flags |= 4 | w.qos<<3
		if w.retain {
			flags |= 0x20
		}
		inside := slices.Clone([]string(w.props))
		if o.delay > 0 {
			inside = append(inside, mqLong(mqWillDelay, o.delay))
		}
		payload += s.block(inside...) + mqString(w.topic) + mqString(w.payload)
	}
	if o.user != "" {
		flags |= 0x80
		payload += mqString(o.user)
	}
	if o.pass != "" {
		flags |= 0x40
		payload += mqString(o.pass)
	}
	return s.connectOf(flags, o.alive, s.block(props...)+payload)
}

// connectOf makes a CONNECT of its flags and what follows the keep alive.
func (s *spec) connectOf(flags byte, alive uint16, rest string) string {
	return mqRaw(mqCONNECT<<4, mqString("MQTT"), string([]byte{s.v, flags}), mq16(alive), rest)
}

// mqTakeVar takes a variable byte integer off b.
func mqTakeVar(b string) (n int, rest string, ok bool) {
	for i := 0; i < len(b) && i < 4; i++ {
		n |= int(b[i]&0x7f) << (7 * i)
		if b[i] < 0x80 {
			return n, b[i+1:], true
		}
	}
	return 0, b, false
}

// takeProps takes properties off b.
func (s *spec) takeProps(b string) (mqProps, string) {
	s.Helper()
	if s.v < 5 {
		return nil, b
	}
	n, rest, ok := mqTakeVar(b)
	if !ok || n > len(rest) {
		s.Fatalf("the properties in %x are not whole", b)
	}
	b, rest = rest[:n], rest[n:]
	var props mqProps
	for b != "" {
		size := mqPropSize(b)
		if size > len(b) {
			s.Fatalf("the property %x is not whole", b)
		}
		props = append(props, b[:size])
		b = b[size:]
	}
	return props, rest
}

// mqPropSize returns the length of the first property in b.
func mqPropSize(b string) int {
	text := func(at int) int {
		if len(b) < at+2 {
			return 1 << 20
		}
		return at + 2 + int(binary.BigEndian.Uint16([]byte(b[at:])))
	}
	switch b[0] {
	case mqPayloadFormat, mqRequestProblem, mqRequestResponse, mqMaximumQoS, mqRetainAvailable, 0x28, 0x29, 0x2a:
		return 2
	case mqServerKeepAlive, mqReceiveMax, mqAliasMax, mqAlias:
		return 3
	case mqMessageExpiry, mqSessionExpiry, mqWillDelay, mqMaxPacket:
		return 5
	case mqSubscriptionID:
		_, rest, _ := mqTakeVar(b[1:])
		return len(b) - len(rest)
	case mqUserProperty:
		return text(text(1))
	}
	return text(1)
}

// takeMessage reads a PUBLISH.
func (s *spec) takeMessage(p mqPacket) mqMessage {
	s.Helper()
	m := mqMessage{qos: p.head >> 1 & 3, retain: p.head&1 > 0, dup: p.head&8 > 0}
	if p.kind() != mqPUBLISH || len(p.body) < 2 {
		s.Fatalf("packet %x %x is no PUBLISH", p.head, p.body)
	}
	b := string(p.body)
	n := 2 + int(p.pid())
	if len(b) < n {
		s.Fatalf("PUBLISH %x has no whole topic", b)
	}
	m.topic, b = b[2:n], b[n:]
	if m.qos > 0 {
		if len(b) < 2 {
			s.Fatalf("PUBLISH of %q has no packet identifier", m.topic)
		}
		m.pid, b = binary.BigEndian.Uint16([]byte(b)), b[2:]
	}
	m.props, m.payload = s.takeProps(b)
	return m
}
