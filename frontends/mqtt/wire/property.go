package wire

import "encoding/binary"

// The properties of MQTT 5.
const (
	propFormat          = 1
	propExpiry          = 2
	propContentType     = 3
	propResponseTopic   = 8
	propCorrelation     = 9
	propSubscriptionID  = 11
	propSessionExpiry   = 17
	propAssignedID      = 18
	propServerKeepAlive = 19
	propAuthMethod      = 21
	propAuthData        = 22
	propProblemInfo     = 23
	propWillDelay       = 24
	propResponseInfo    = 25
	propReasonString    = 31
	propReceiveMax      = 33
	propAliasMax        = 34
	propAlias           = 35
	propUser            = 38
	propMaxPacket       = 39
	propertyMax         = 42
)

// will is where the properties of a will stand: a type of packet that there is not.
const will Type = 16

// form is how a property is written.
type form uint8

const (
	formNone form = iota
	formByte
	formTwo
	formFour
	formVarint
	formText
	formBytes
	formPair
)

// formOf returns how a property is written, and in which packets of a client it
// may stand, a bit a type.
func formOf(id byte) (form, uint32) {
	const publishes = 1<<PUBLISH | 1<<will
	const acks = 1<<PUBACK | 1<<PUBREC | 1<<PUBREL | 1<<PUBCOMP
	switch id {
	case propFormat:
		return formByte, publishes
	case propExpiry:
		return formFour, publishes
	case propContentType, propResponseTopic:
		return formText, publishes
	case propCorrelation:
		return formBytes, publishes
	case propSubscriptionID:
		return formVarint, 1<<PUBLISH | 1<<SUBSCRIBE
	case propSessionExpiry:
		return formFour, 1<<CONNECT | 1<<DISCONNECT
	case propAuthMethod:
		return formText, 1<<CONNECT | 1<<AUTH
	case propAuthData:
		return formBytes, 1<<CONNECT | 1<<AUTH
	case propProblemInfo, propResponseInfo:
		return formByte, 1 << CONNECT
	case propWillDelay:
		return formFour, 1 << will
	case propReasonString:
		return formText, acks | 1<<DISCONNECT | 1<<AUTH
	case propReceiveMax, propAliasMax:
		return formTwo, 1 << CONNECT
	case propAlias:
		return formTwo, 1 << PUBLISH
	case propUser:
		return formPair, publishes | acks | 1<<CONNECT | 1<<SUBSCRIBE | 1<<UNSUBSCRIBE | 1<<DISCONNECT | 1<<AUTH
	case propMaxPacket:
		return formFour, 1 << CONNECT
	}
	return formNone, 0
}

// scanner walks through properties.
type scanner struct {
	where Type
	all   []byte
	pos   int
	seen  uint64
	err   error

	// The one that next has found.
	id     byte
	at     int // where it begins
	number uint32
	value  []byte
	second []byte // of a pair
}

// properties returns a scanner of the properties in front of b, and what follows
// them.
func properties(b []byte, where Type) (scanner, []byte, error) {
	n, size, err := cutVarint(b)
	if err != nil {
		return scanner{}, nil, err
	}
	if n > len(b)-size {
		return scanner{}, nil, Fail(MalformedPacket, "properties are cut short")
	}
	return scanner{where: where, all: b[size : size+n]}, b[size+n:], nil
}

// checkProperties checks properties behind which nothing follows.
func checkProperties(b []byte, where Type) error {
	s, rest, err := properties(b, where)
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return Fail(MalformedPacket, "a packet goes on behind its end")
	}
	for s.next() {
	}
	return s.err
}

// next finds the next property, and tells whether there is one that is sound.
func (s *scanner) next() bool {
	if s.err != nil || s.pos == len(s.all) {
		return false
	}
	s.at = s.pos
	s.id = s.all[s.pos]
	s.pos++
	f, where := formOf(s.id)
	if where&(1<<s.where) == 0 {
		s.err = Fail(ProtocolError, "property %d may not stand in this packet", s.id)
		return false
	}
	if s.seen&(1<<s.id) != 0 && s.id != propUser && (s.id != propSubscriptionID || s.where != PUBLISH) {
		s.err = Fail(ProtocolError, "property %d is there twice", s.id)
		return false
	}
	s.seen |= 1 << s.id
	s.err = s.read(f)
	if s.err == nil {
		s.err = s.judge()
	}
	return s.err == nil
}

func (s *scanner) read(f form) (err error) {
	b := s.all[s.pos:]
	size := 0
	switch f {
	case formByte:
		size = 1
	case formTwo:
		size = 2
	case formFour:
		size = 4
	}
	if len(b) < size {
		return Fail(MalformedPacket, "a property is cut short")
	}
	rest := b[size:]
	switch f {
	case formByte:
		s.number = uint32(b[0])
	case formTwo:
		s.number = uint32(binary.BigEndian.Uint16(b))
	case formFour:
		s.number = binary.BigEndian.Uint32(b)
	case formVarint:
		n, size, err := cutVarint(b)
		if err != nil {
			return err
		}
		s.number, rest = uint32(n), b[size:]
	case formText:
		s.value, rest, err = cutText(b)
	case formBytes:
		s.value, rest, err = cutBytes(b)
	case formPair:
		if s.value, rest, err = cutText(b); err == nil {
			s.second, rest, err = cutText(rest)
		}
	}
	s.pos = len(s.all) - len(rest)
	return err
}

// judge tells whether the value that was read is one that the property may have.
func (s *scanner) judge() error {
	bad := false
	switch s.id {
	case propFormat, propProblemInfo, propResponseInfo:
		bad = s.number > 1
	case propReceiveMax, propMaxPacket, propSubscriptionID:
		bad = s.number == 0
	case propResponseTopic:
		bad = len(s.value) == 0
		for _, c := range s.value {
			bad = bad || c == '+' || c == '#'
		}
	}
	if bad {
		return Fail(ProtocolError, "property %d has a value that it may not have", s.id)
	}
	return nil
}

// cutVarint reads a variable byte integer: at most four bytes, and no more than
// it needs.
func cutVarint(b []byte) (n, size int, err error) {
	for size < 4 {
		if size == len(b) {
			return 0, 0, Fail(MalformedPacket, "a packet is cut short")
		}
		c := b[size]
		n |= int(c&0x7f) << (7 * size)
		size++
		if c < 0x80 {
			if c == 0 && size > 1 {
				return 0, 0, Fail(MalformedPacket, "a length has more bytes than it needs")
			}
			return n, size, nil
		}
	}
	return 0, 0, Fail(MalformedPacket, "a length has over four bytes")
}
