package wire

import (
	"bytes"
	"slices"

	"github.com/mochi-mqtt/server/v2/packets"
)

// Connect is a CONNECT. It holds no views.
type Connect struct {
	Version       Version
	ClientID      string
	Clean         bool
	KeepAlive     uint16 // seconds; 0: none
	HasUser       bool
	HasPassword   bool
	User          string
	Password      string
	Will          *Will // nil: none
	SessionExpiry uint32
	ReceiveMax    uint16 // 1 to 65,535
	MaxPacket     uint32 // 0: any
	AliasMax      uint16
	ProblemInfo   bool   // reason strings and user properties may be sent
	AuthMethod    string // enhanced authentication is asked for
}

// Will is the message that a client leaves.
type Will struct {
	Topic         string
	Payload       []byte
	QoS           byte
	Retain        bool
	Format        bool   // the payload is said to be UTF-8
	Delay         uint32 // seconds
	Expiry        uint32 // seconds; 0: none
	ContentType   string
	ResponseTopic string
	Correlation   []byte // nil: none
	Users         []Pair
}

// Pair is a user property.
type Pair struct{ Name, Value string }

// The flags of a CONNECT.
const (
	flagReserved = 1 << iota
	flagClean
	flagWill
	flagWillQoS1
	flagWillQoS2
	flagWillRetain
	flagPassword
	flagUser
)

// ParseConnect reads a CONNECT. Of one of a version that is not spoken it returns
// the version beside the error.
func ParseConnect(pk *Packet) (*Connect, error) {
	version, err := checkConnect(pk.Body)
	c := &Connect{Version: version, ReceiveMax: 65535, ProblemInfo: true}
	if err != nil {
		return c, err
	}
	m := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Connect}}
	if err := decode(m.ConnectDecode, pk.Body); err != nil {
		return c, err
	}
	in, props := &m.Connect, &m.Properties
	c.ClientID, c.Clean, c.KeepAlive = in.ClientIdentifier, in.Clean, in.Keepalive
	c.HasUser, c.HasPassword, c.User, c.Password = in.UsernameFlag, in.PasswordFlag, string(in.Username), string(in.Password)
	if version == V5 {
		c.SessionExpiry, c.MaxPacket, c.AliasMax = props.SessionExpiryInterval, props.MaximumPacketSize, props.TopicAliasMaximum
		c.AuthMethod = props.AuthenticationMethod
		if props.ReceiveMaximum > 0 {
			c.ReceiveMax = props.ReceiveMaximum
		}
		c.ProblemInfo = !props.RequestProblemInfoFlag || props.RequestProblemInfo == 1
	}
	if in.WillFlag {
		p := &in.WillProperties
		c.Will = &Will{
			Topic: in.WillTopic, Payload: in.WillPayload, QoS: in.WillQos, Retain: in.WillRetain,
			Format: p.PayloadFormat == 1, Delay: p.WillDelayInterval, Expiry: p.MessageExpiryInterval,
			ContentType: p.ContentType, ResponseTopic: p.ResponseTopic, Correlation: p.CorrelationData,
		}
		for _, u := range p.User {
			c.Will.Users = append(c.Will.Users, Pair{u.Key, u.Val})
		}
	}
	return c, nil
}

// decode has package packets decode a copy of body, of which what it returns are
// views. That it may panic is known.
func decode(f func([]byte) error, body []byte) (err error) {
	defer func() {
		if recover() != nil {
			err = Fail(MalformedPacket, "a packet is cut short")
		}
	}()
	if err := f(slices.Clone(body)); err != nil {
		return Fail(MalformedPacket, "%v", err)
	}
	return nil
}

// checkConnect looks strictly at what decoding does not.
func checkConnect(b []byte) (Version, error) {
	name, b, err := cutBytes(b)
	if err != nil {
		return 0, err
	}
	if len(b) < 4 {
		return 0, Fail(MalformedPacket, "a CONNECT is cut short")
	}
	version, flags := Version(b[0]), b[1]
	switch {
	case !bytes.Equal(name, []byte("MQTT")) && !bytes.Equal(name, []byte("MQIsdp")):
		return 0, Fail(MalformedPacket, "the protocol is not MQTT")
	case version == V31 && len(name) == 6, (version == V311 || version == V5) && len(name) == 4:
	case version&0x80 != 0: // a bridge of Mosquitto
		return V311, Fail(UnsupportedVersion, "a bridge may not connect")
	default:
		return version, Fail(UnsupportedVersion, "version %d of MQTT is not spoken", version)
	}
	if err := checkFlags(version, flags); err != nil {
		return version, err
	}
	b = b[4:]
	if version == V5 {
		if b, err = walk(b, CONNECT); err != nil {
			return version, err
		}
	}
	if _, b, err = cutText(b); err == nil && flags&flagWill != 0 {
		if version == V5 {
			b, err = walk(b, will)
		}
		if err == nil {
			b, err = checkWill(b)
		}
	}
	if err == nil && flags&flagUser != 0 {
		_, b, err = cutText(b)
	}
	if err == nil && flags&flagPassword != 0 {
		_, b, err = cutBytes(b)
	}
	if err == nil && len(b) > 0 {
		err = Fail(MalformedPacket, "a CONNECT goes on behind its end")
	}
	return version, err
}

func checkFlags(version Version, flags byte) error {
	qos := flags >> 3 & 3
	switch {
	case flags&flagReserved != 0:
		return Fail(MalformedPacket, "the reserved flag of CONNECT is set")
	case qos == 3:
		return Fail(MalformedPacket, "the QoS of a will is 3")
	case flags&flagWill == 0 && flags&(flagWillQoS1|flagWillQoS2|flagWillRetain) != 0:
		return Fail(MalformedPacket, "a CONNECT has flags of a will, and none")
	case version != V5 && flags&flagPassword != 0 && flags&flagUser == 0:
		return Fail(MalformedPacket, "a CONNECT has a password, and no user")
	}
	return nil
}

func checkWill(b []byte) ([]byte, error) {
	topic, b, err := cutText(b)
	if err != nil {
		return nil, err
	}
	if len(topic) == 0 || bytes.ContainsAny(topic, "+#") {
		return nil, Fail(BadTopic, "the topic of a will is empty, or has a wildcard")
	}
	_, b, err = cutBytes(b)
	return b, err
}

// walk checks the properties in front of b and returns what follows.
func walk(b []byte, where Type) ([]byte, error) {
	s, rest, err := properties(b, where)
	if err != nil {
		return nil, err
	}
	for s.next() {
	}
	const method, data = 1 << propAuthMethod, 1 << propAuthData
	if s.err == nil && s.seen&data != 0 && s.seen&method == 0 {
		s.err = Fail(ProtocolError, "there is authentication data without a method")
	}
	return rest, s.err
}
