package wire

import (
	"encoding/binary"
	"fmt"
	"unicode/utf8"
)

// Version is a version of the protocol, as CONNECT tells it.
type Version byte

// The versions.
const (
	V31  Version = 3
	V311 Version = 4
	V5   Version = 5
)

// Type is the type of a packet.
type Type byte

// The types of packets.
const (
	CONNECT     Type = 1
	CONNACK     Type = 2
	PUBLISH     Type = 3
	PUBACK      Type = 4
	PUBREC      Type = 5
	PUBREL      Type = 6
	PUBCOMP     Type = 7
	SUBSCRIBE   Type = 8
	SUBACK      Type = 9
	UNSUBSCRIBE Type = 10
	UNSUBACK    Type = 11
	PINGREQ     Type = 12
	PINGRESP    Type = 13
	DISCONNECT  Type = 14
	AUTH        Type = 15
)

// Reason is a reason code of MQTT 5.
type Reason byte

// The reason codes that are used here.
const (
	Success              Reason = 0x00
	DisconnectWithWill   Reason = 0x04
	NoMatchingSubscriber Reason = 0x10
	NoSubscription       Reason = 0x11
	Unspecified          Reason = 0x80
	MalformedPacket      Reason = 0x81
	ProtocolError        Reason = 0x82
	ImplementationError  Reason = 0x83
	UnsupportedVersion   Reason = 0x84
	BadClientID          Reason = 0x85
	BadUserOrPassword    Reason = 0x86
	NotAuthorized        Reason = 0x87
	ServerUnavailable    Reason = 0x88
	ServerBusy           Reason = 0x89
	ServerShuttingDown   Reason = 0x8B
	BadAuthentication    Reason = 0x8C
	KeepAliveTimeout     Reason = 0x8D
	SessionTakenOver     Reason = 0x8E
	BadFilter            Reason = 0x8F
	BadTopic             Reason = 0x90
	IDNotFound           Reason = 0x92
	ReceiveMaxExceeded   Reason = 0x93
	BadAlias             Reason = 0x94
	PacketTooLarge       Reason = 0x95
	QuotaExceeded        Reason = 0x97
	PayloadFormatInvalid Reason = 0x99
	SharedNotSupported   Reason = 0x9E
	WildcardNotSupported Reason = 0xA2
)

// Error says what is wrong with a packet, or with what it asks for.
type Error struct {
	Reason Reason
	Text   string
}

// Error returns the reason in words.
func (e *Error) Error() string { return fmt.Sprintf("%s (0x%02X)", e.Text, byte(e.Reason)) }

// Fail makes an Error.
func Fail(r Reason, format string, args ...any) *Error {
	return &Error{Reason: r, Text: fmt.Sprintf(format, args...)}
}

// Packet is one packet: a view that is good until the next Fill.
type Packet struct {
	Type  Type
	Flags byte
	Body  []byte
	Size  int // of the whole packet
}

// Publish is a PUBLISH. Its slices are views of the packet.
type Publish struct {
	ID          uint16
	QoS         byte
	Dup, Retain bool
	HasExpiry   bool
	Format      bool   // the payload is said to be UTF-8
	Alias       uint16 // 0: none
	Expiry      uint32 // seconds
	Users       int    // user properties
	Topic       []byte
	Payload     []byte

	ContentType   []byte
	ResponseTopic []byte // nil: none
	Correlation   []byte // nil: none
	users         []byte // the properties
}

// ParsePublish reads a PUBLISH into p.
func ParsePublish(pk *Packet, v Version, p *Publish) error {
	*p = Publish{QoS: pk.Flags >> 1 & 3, Dup: pk.Flags&8 != 0, Retain: pk.Flags&1 != 0}
	switch {
	case p.QoS == 3:
		return Fail(MalformedPacket, "the QoS of a PUBLISH is 3")
	case p.QoS == 0 && p.Dup:
		return Fail(MalformedPacket, "a PUBLISH of QoS 0 has DUP")
	}
	b := pk.Body
	var err error
	if p.Topic, b, err = cutText(b); err != nil {
		return err
	}
	if p.QoS > 0 {
		if p.ID, b, err = cutID(b); err != nil {
			return err
		}
	}
	if v == V5 {
		if b, err = p.parseProperties(b); err != nil {
			return err
		}
	}
	p.Payload = b
	if len(p.Topic) == 0 && p.Alias == 0 {
		return Fail(ProtocolError, "a PUBLISH has no topic")
	}
	for _, c := range p.Topic {
		if c == '+' || c == '#' {
			return Fail(BadTopic, "a topic has a wildcard")
		}
	}
	return nil
}

// parseProperties reads the properties in front of b and returns what follows.
func (p *Publish) parseProperties(b []byte) ([]byte, error) {
	s, rest, err := properties(b, PUBLISH)
	if err != nil {
		return nil, err
	}
	for s.next() {
		switch s.id {
		case propFormat:
			p.Format = s.number == 1
		case propExpiry:
			p.Expiry, p.HasExpiry = s.number, true
		case propContentType:
			p.ContentType = s.value
		case propResponseTopic:
			p.ResponseTopic = s.value
		case propCorrelation:
			p.Correlation = s.value
		case propAlias:
			if s.number == 0 {
				return nil, Fail(BadAlias, "a topic alias is 0")
			}
			p.Alias = uint16(s.number)
		case propSubscriptionID:
			return nil, Fail(ProtocolError, "a client's PUBLISH has a subscription identifier")
		case propUser:
			if p.Users == 0 {
				p.users = s.all[s.at:]
			}
			p.Users++
		}
	}
	return rest, s.err
}

// EachUser calls visit with the user properties in order.
func (p *Publish) EachUser(visit func(name, value []byte)) {
	s := scanner{where: PUBLISH, all: p.users}
	for s.next() {
		if s.id == propUser {
			visit(s.value, s.second)
		}
	}
}

// Ack is a PUBACK, PUBREC, PUBREL or PUBCOMP.
type Ack struct {
	ID     uint16
	Reason Reason
}

// ParseAck reads an acknowledgement.
func ParseAck(pk *Packet, v Version) (Ack, error) {
	id, b, err := cutID(pk.Body)
	a := Ack{ID: id}
	if err != nil || len(b) == 0 {
		return a, err
	}
	if v != V5 {
		return a, Fail(MalformedPacket, "an acknowledgement goes on behind its packet identifier")
	}
	a.Reason = Reason(b[0])
	if !a.Reason.fits(pk.Type) {
		return a, Fail(ProtocolError, "0x%02X is no reason of a packet of type %d", b[0], pk.Type)
	}
	if len(b) == 1 {
		return a, nil
	}
	return a, checkProperties(b[1:], pk.Type)
}

// fits tells whether r may stand in an acknowledgement of type t.
func (r Reason) fits(t Type) bool {
	if t == PUBREL || t == PUBCOMP {
		return r == Success || r == IDNotFound
	}
	switch r {
	case Success, NoMatchingSubscriber, Unspecified, ImplementationError, NotAuthorized, BadTopic, 0x91, QuotaExceeded, PayloadFormatInvalid:
		return true
	}
	return false
}

func cutID(b []byte) (uint16, []byte, error) {
	if len(b) < 2 {
		return 0, nil, Fail(MalformedPacket, "a packet is cut short")
	}
	id := binary.BigEndian.Uint16(b)
	if id == 0 {
		return 0, nil, Fail(ProtocolError, "a packet identifier is 0")
	}
	return id, b[2:], nil
}

func cutBytes(b []byte) (value, rest []byte, err error) {
	if len(b) < 2 {
		return nil, nil, Fail(MalformedPacket, "a packet is cut short")
	}
	n := int(binary.BigEndian.Uint16(b))
	if len(b) < 2+n {
		return nil, nil, Fail(MalformedPacket, "a packet is cut short")
	}
	return b[2 : 2+n : 2+n], b[2+n:], nil
}

func cutText(b []byte) (value, rest []byte, err error) {
	if value, rest, err = cutBytes(b); err == nil && !validText(value) {
		err = Fail(MalformedPacket, "a string is not UTF-8, or has a zero")
	}
	return value, rest, err
}

func validText(b []byte) bool {
	ascii := true
	for _, c := range b {
		if c == 0 {
			return false
		}
		ascii = ascii && c < utf8.RuneSelf
	}
	return ascii || utf8.Valid(b)
}
