package wire

import "encoding/binary"

// Outgoing is a PUBLISH to a client.
type Outgoing struct {
	Topic       []byte // empty: the alias stands for it
	Alias       uint16 // 0: none
	ID          uint16
	QoS         byte
	Dup, Retain bool
	Properties  []byte // of MQTT 5, without the alias
	Payload     []byte
}

// Len returns how many bytes o comes to.
func (o *Outgoing) Len(v Version) int {
	n := o.remaining(v)
	return 1 + varintLen(n) + n
}

func (o *Outgoing) remaining(v Version) int {
	n := 2 + len(o.Topic) + len(o.Payload)
	if o.QoS > 0 {
		n += 2
	}
	if v == V5 {
		p := o.propertiesLen()
		n += varintLen(p) + p
	}
	return n
}

func (o *Outgoing) propertiesLen() int {
	if o.Alias != 0 {
		return len(o.Properties) + 3
	}
	return len(o.Properties)
}

// Append appends o.
func (o *Outgoing) Append(b []byte, v Version) []byte {
	head := byte(PUBLISH)<<4 | o.QoS<<1
	if o.Dup {
		head |= 8
	}
	if o.Retain {
		head |= 1
	}
	b = appendVarint(append(b, head), o.remaining(v))
	b = appendBytes(b, o.Topic)
	if o.QoS > 0 {
		b = binary.BigEndian.AppendUint16(b, o.ID)
	}
	if v == V5 {
		b = appendVarint(b, o.propertiesLen())
		if o.Alias != 0 {
			b = binary.BigEndian.AppendUint16(append(b, propAlias), o.Alias)
		}
		b = append(b, o.Properties...)
	}
	return append(b, o.Payload...)
}

// AppendExpiry appends the property that says how many seconds are left.
func AppendExpiry(b []byte, seconds uint32) []byte {
	return binary.BigEndian.AppendUint32(append(b, propExpiry), seconds)
}

// AppendFormat appends the property that says that the payload is UTF-8.
func AppendFormat(b []byte) []byte { return append(b, propFormat, 1) }

// AppendContentType appends a content type.
func AppendContentType[T string | []byte](b []byte, v T) []byte {
	return appendBytes(append(b, propContentType), v)
}

// AppendResponseTopic appends a response topic.
func AppendResponseTopic[T string | []byte](b []byte, v T) []byte {
	return appendBytes(append(b, propResponseTopic), v)
}

// AppendCorrelation appends correlation data.
func AppendCorrelation[T string | []byte](b []byte, v T) []byte {
	return appendBytes(append(b, propCorrelation), v)
}

// AppendSubscriptionID appends the identifier of a subscription.
func AppendSubscriptionID(b []byte, id uint32) []byte {
	return appendVarint(append(b, propSubscriptionID), int(id))
}

// AppendUser appends a user property.
func AppendUser[T string | []byte](b []byte, name string, v T) []byte {
	return appendBytes(appendBytes(append(b, propUser), name), v)
}

// StringMax is the longest string or binary value, in bytes.
const StringMax = 65535

// AppendAck appends a PUBACK, PUBREC, PUBREL or PUBCOMP. A reason that is not
// Success is told in MQTT 5 alone.
func AppendAck(b []byte, v Version, t Type, id uint16, r Reason) []byte {
	head := byte(t) << 4
	if t == PUBREL {
		head |= 2
	}
	if v != V5 || r == Success {
		return binary.BigEndian.AppendUint16(append(b, head, 2), id)
	}
	return append(binary.BigEndian.AppendUint16(append(b, head, 3), id), byte(r))
}

// AppendSuback appends a SUBACK or an UNSUBACK, of which the latter has no codes
// before MQTT 5.
func AppendSuback(b []byte, v Version, t Type, id uint16, codes []byte) []byte {
	if t == UNSUBACK && v != V5 {
		codes = nil
	}
	n := 2 + len(codes)
	if v == V5 {
		n++
	}
	b = binary.BigEndian.AppendUint16(appendVarint(append(b, byte(t)<<4), n), id)
	if v == V5 {
		b = append(b, 0)
	}
	return append(b, codes...)
}

// AppendPingresp appends a PINGRESP.
func AppendPingresp(b []byte) []byte { return append(b, byte(PINGRESP)<<4, 0) }

// Connack is a CONNACK. What is zero is not told.
type Connack struct {
	Present       bool // the session was there
	Reason        Reason
	Text          string
	AssignedID    string
	HasExpiry     bool
	SessionExpiry uint32
	HasKeepAlive  bool
	KeepAlive     uint16
	ReceiveMax    uint16
	AliasMax      uint16
	MaxPacket     uint32
}

// Append appends c.
func (c *Connack) Append(b []byte, v Version) []byte {
	present := byte(0)
	if c.Present {
		present = 1
	}
	if v != V5 {
		return append(b, byte(CONNACK)<<4, 2, present, c.Reason.before5())
	}
	var p []byte
	if c.HasExpiry {
		p = binary.BigEndian.AppendUint32(append(p, propSessionExpiry), c.SessionExpiry)
	}
	if c.ReceiveMax > 0 {
		p = binary.BigEndian.AppendUint16(append(p, propReceiveMax), c.ReceiveMax)
	}
	if c.MaxPacket > 0 {
		p = binary.BigEndian.AppendUint32(append(p, propMaxPacket), c.MaxPacket)
	}
	if c.AssignedID != "" {
		p = appendBytes(append(p, propAssignedID), c.AssignedID)
	}
	if c.AliasMax > 0 {
		p = binary.BigEndian.AppendUint16(append(p, propAliasMax), c.AliasMax)
	}
	if c.HasKeepAlive {
		p = binary.BigEndian.AppendUint16(append(p, propServerKeepAlive), c.KeepAlive)
	}
	if c.Text != "" {
		p = appendBytes(append(p, propReasonString), c.Text)
	}
	b = appendVarint(append(b, byte(CONNACK)<<4), 2+varintLen(len(p))+len(p))
	b = append(b, present, byte(c.Reason))
	return append(appendVarint(b, len(p)), p...)
}

// before5 is the return code of MQTT 3 that comes closest.
func (r Reason) before5() byte {
	switch r {
	case Success:
		return 0
	case UnsupportedVersion:
		return 1
	case BadClientID:
		return 2
	case BadUserOrPassword:
		return 4
	case NotAuthorized, BadAuthentication:
		return 5
	}
	return 3
}

// AppendDisconnect appends a DISCONNECT, which there is in MQTT 5 alone.
func AppendDisconnect(b []byte, v Version, r Reason, text string) []byte {
	if v != V5 {
		return b
	}
	if text == "" {
		return append(b, byte(DISCONNECT)<<4, 1, byte(r))
	}
	n := 3 + len(text)
	b = appendVarint(append(b, byte(DISCONNECT)<<4), 1+varintLen(n)+n)
	b = appendVarint(append(b, byte(r)), n)
	return appendBytes(append(b, propReasonString), text)
}

func appendBytes[T string | []byte](b []byte, v T) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(v))), v...)
}

func appendVarint(b []byte, n int) []byte {
	for n >= 0x80 {
		b = append(b, byte(n)|0x80)
		n >>= 7
	}
	return append(b, byte(n))
}

func varintLen(n int) int {
	size := 1
	for ; n >= 0x80; n >>= 7 {
		size++
	}
	return size
}
