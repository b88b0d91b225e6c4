package wire

import (
	"github.com/mochi-mqtt/server/v2/packets"
)

// Filter is one of the filters of a SUBSCRIBE.
type Filter struct {
	Filter          string
	QoS             byte
	NoLocal         bool
	RetainPublished bool // RETAIN is delivered as it was published
	RetainHandling  byte // 0 to 2
}

// Subscribe is a SUBSCRIBE, or an UNSUBSCRIBE. It holds no views.
type Subscribe struct {
	ID             uint16
	SubscriptionID uint32 // 0: none
	Filters        []Filter
}

// filtersMax bounds the filters of a packet.
const filtersMax = 10_000

// ParseSubscribe reads a SUBSCRIBE.
func ParseSubscribe(pk *Packet, v Version) (*Subscribe, error) {
	if err := checkSubscribe(pk.Body, v, SUBSCRIBE); err != nil {
		return nil, err
	}
	m := packets.Packet{ProtocolVersion: byte(v), FixedHeader: packets.FixedHeader{Type: packets.Subscribe}}
	if err := decode(m.SubscribeDecode, pk.Body); err != nil {
		return nil, err
	}
	s := &Subscribe{ID: m.PacketID, Filters: make([]Filter, len(m.Filters))}
	if ids := m.Properties.SubscriptionIdentifier; len(ids) > 0 {
		s.SubscriptionID = uint32(ids[0])
	}
	for i, f := range m.Filters {
		s.Filters[i] = Filter{
			Filter: f.Filter, QoS: f.Qos, NoLocal: f.NoLocal, RetainPublished: f.RetainAsPublished, RetainHandling: f.RetainHandling,
		}
	}
	return s, nil
}

// ParseUnsubscribe reads an UNSUBSCRIBE.
func ParseUnsubscribe(pk *Packet, v Version) (*Subscribe, error) {
	if err := checkSubscribe(pk.Body, v, UNSUBSCRIBE); err != nil {
		return nil, err
	}
	m := packets.Packet{ProtocolVersion: byte(v), FixedHeader: packets.FixedHeader{Type: packets.Unsubscribe}}
	if err := decode(m.UnsubscribeDecode, pk.Body); err != nil {
		return nil, err
	}
	s := &Subscribe{ID: m.PacketID}
	for _, f := range m.Filters {
		s.Filters = append(s.Filters, Filter{Filter: f.Filter})
	}
	return s, nil
}

// checkSubscribe looks strictly at what decoding does not.
func checkSubscribe(b []byte, v Version, t Type) error {
	_, b, err := cutID(b)
	if err == nil && v == V5 {
		b, err = walk(b, t)
	}
	if err != nil {
		return err
	}
	n := 0
	for ; len(b) > 0; n++ {
		if _, b, err = cutText(b); err != nil {
			return err
		}
		if t == UNSUBSCRIBE {
			continue
		}
		if len(b) == 0 {
			return Fail(MalformedPacket, "a SUBSCRIBE is cut short")
		}
		o := b[0]
		if o&3 == 3 || v == V5 && o>>6 != 0 || v != V5 && o>>2 != 0 {
			return Fail(MalformedPacket, "the options of a subscription are 0x%02X", o)
		}
		if o>>4&3 == 3 {
			return Fail(ProtocolError, "the retain handling of a subscription is 3")
		}
		b = b[1:]
	}
	switch {
	case n == 0:
		return Fail(ProtocolError, "a packet that subscribes or unsubscribes has no filter")
	case n > filtersMax:
		return Fail(QuotaExceeded, "a packet has over %d filters", filtersMax)
	}
	return nil
}

// Disconnect is a DISCONNECT or an AUTH of a client.
type Disconnect struct {
	Reason        Reason
	HasExpiry     bool
	SessionExpiry uint32
}

// ParseDisconnect reads a DISCONNECT.
func ParseDisconnect(pk *Packet, v Version) (*Disconnect, error) {
	d := &Disconnect{}
	b := pk.Body
	if len(b) == 0 {
		return d, nil
	}
	if v != V5 {
		return nil, Fail(MalformedPacket, "a DISCONNECT has a body")
	}
	d.Reason = Reason(b[0])
	if !d.mayLeave() {
		return nil, Fail(ProtocolError, "0x%02X is no reason of a client's DISCONNECT", b[0])
	}
	if len(b) == 1 {
		return d, nil
	}
	if err := checkProperties(b[1:], DISCONNECT); err != nil {
		return nil, err
	}
	m := packets.Packet{ProtocolVersion: byte(v), FixedHeader: packets.FixedHeader{Type: packets.Disconnect, Remaining: len(b)}}
	if err := decode(m.DisconnectDecode, b); err != nil {
		return nil, err
	}
	d.HasExpiry, d.SessionExpiry = m.Properties.SessionExpiryIntervalFlag, m.Properties.SessionExpiryInterval
	return d, nil
}

// mayLeave tells whether a client may say why it leaves like that.
func (d *Disconnect) mayLeave() bool {
	switch d.Reason {
	case Success, DisconnectWithWill, Unspecified, MalformedPacket, ProtocolError, ImplementationError, BadTopic, ReceiveMaxExceeded,
		BadAlias, PacketTooLarge, 0x96, QuotaExceeded, 0x98, PayloadFormatInvalid:
		return true
	}
	return false
}
