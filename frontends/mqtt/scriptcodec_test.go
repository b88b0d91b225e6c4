package mqtt

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mochi-mqtt/server/v2/packets"
)

// encodePackets makes packets of text, which are joined by ";". They are encoded by
// package packets, which the server does not use for that.
//
//	CONNECT [v=5] id=a [clean] [keepalive=10] [user=u] [pass=p] [will=TOPIC:PAYLOAD] [willqos=1] [willretain]
//	        [willdelay=5] [willuser=a:b] [expiry=60] [rm=2] [max=100] [alias=5] [noinfo] [auth=x]
//	PUBLISH TOPIC [qos=1] [id=1] [p=PAYLOAD] [big=N] [dup] [retain] [alias=1] [expiry=5] [ct=x] [rt=x] [cd=x] [fmt] [user=a:b]
//	PUBACK 1 [0x80]    PUBREC, PUBREL and PUBCOMP are alike
//	SUBSCRIBE 1 FILTER[:qos=1][:nl][:rap][:rh=1] ... [sub=7]
//	UNSUBSCRIBE 1 FILTER ...
//	PINGREQ    DISCONNECT [0x04] [expiry=5]
//	HEX BYTES
func encodePackets(text string, version *byte) ([]byte, error) {
	var out bytes.Buffer
	for one := range strings.SplitSeq(text, ";") {
		words := strings.Fields(one)
		if words[0] == "HEX" {
			b, err := hex.DecodeString(strings.Join(words[1:], ""))
			if err != nil {
				return nil, err
			}
			out.Write(b)
			continue
		}
		if err := encodePacket(&out, words, version); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}

func encodePacket(out *bytes.Buffer, words []string, version *byte) error {
	o := wordsOf(words[1:])
	if words[0] == "CONNECT" {
		*version = byte(o.number("v", 4))
	}
	pk := packets.Packet{ProtocolVersion: *version, Mods: packets.Mods{AllowResponseInfo: true}}
	pk.Properties = o.properties()
	switch words[0] {
	case "CONNECT":
		o.connect(&pk, *version)
		return pk.ConnectEncode(out)
	case "PUBLISH":
		pk.FixedHeader = packets.FixedHeader{Type: packets.Publish, Qos: byte(o.number("qos", 0)), Dup: o.has("dup"), Retain: o.has("retain")}
		pk.PacketID, pk.Payload = uint16(o.number("id", 0)), []byte(o.text("p"))
		if pk.TopicName = words[1]; pk.TopicName == "-" {
			pk.TopicName = ""
		}
		if n := o.number("big", 0); n > 0 {
			pk.Payload = bytes.Repeat([]byte("x"), n)
		}
		return pk.PublishEncode(out)
	case "PUBACK", "PUBREC", "PUBREL", "PUBCOMP":
		id, _ := strconv.Atoi(words[1])
		kind := map[string]byte{"PUBACK": 4, "PUBREC": 5, "PUBREL": 6, "PUBCOMP": 7}[words[0]]
		head := kind << 4
		if kind == 6 {
			head |= 2
		}
		b := []byte{head, 2, byte(id >> 8), byte(id)}
		if len(words) > 2 {
			code, err := strconv.ParseUint(words[2], 0, 8)
			if err != nil {
				return err
			}
			b = append(b, byte(code))
			b[1] = 3
		}
		out.Write(b)
		return nil
	case "SUBSCRIBE", "UNSUBSCRIBE":
		id, _ := strconv.Atoi(words[1])
		pk.PacketID = uint16(id)
		pk.Filters = filtersOf(words[2:])
		pk.FixedHeader = packets.FixedHeader{Type: packets.Subscribe, Qos: 1}
		if n := o.number("sub", 0); n > 0 {
			pk.Properties.SubscriptionIdentifier = []int{n}
		}
		if words[0] == "SUBSCRIBE" {
			return pk.SubscribeEncode(out)
		}
		pk.FixedHeader.Type = packets.Unsubscribe
		return pk.UnsubscribeEncode(out)
	case "PINGREQ":
		out.Write([]byte{0xC0, 0})
		return nil
	case "DISCONNECT":
		if *version < 5 {
			out.Write([]byte{0xE0, 0})
			return nil
		}
		pk.FixedHeader.Type = packets.Disconnect
		if len(words) > 1 {
			code, _ := strconv.ParseUint(words[1], 0, 8)
			pk.ReasonCode = byte(code)
		}
		return pk.DisconnectEncode(out)
	}
	return fmt.Errorf("no packet is called %s", words[0])
}

func filtersOf(words []string) (filters packets.Subscriptions) {
	for _, word := range words {
		if strings.HasPrefix(word, "sub=") {
			continue
		}
		parts := strings.Split(word, ":")
		s := packets.Subscription{Filter: parts[0]}
		for _, p := range parts[1:] {
			switch {
			case strings.HasPrefix(p, "qos="):
				s.Qos = p[4] - '0'
			case strings.HasPrefix(p, "rh="):
				s.RetainHandling = p[3] - '0'
			case p == "nl":
				s.NoLocal = true
			case p == "rap":
				s.RetainAsPublished = true
			}
		}
		filters = append(filters, s)
	}
	return filters
}

// wordsOf are options: NAME, or NAME=VALUE.
type wordsOf []string

func (o wordsOf) has(name string) bool { return slices.Contains(o, name) }

func (o wordsOf) text(name string) string {
	for _, word := range o {
		if v, ok := strings.CutPrefix(word, name+"="); ok {
			return v
		}
	}
	return ""
}

func (o wordsOf) number(name string, or int) int {
	if n, err := strconv.Atoi(o.text(name)); err == nil {
		return n
	}
	return or
}

func (o wordsOf) users(name string) (all []packets.UserProperty) {
	for _, word := range o {
		if v, ok := strings.CutPrefix(word, name+"="); ok {
			k, v, _ := strings.Cut(v, ":")
			all = append(all, packets.UserProperty{Key: k, Val: v})
		}
	}
	return all
}

func (o wordsOf) properties() packets.Properties {
	return packets.Properties{
		ContentType: o.text("ct"), ResponseTopic: o.text("rt"), CorrelationData: []byte(o.text("cd")), User: o.users("user"),
		MessageExpiryInterval: uint32(o.number("expiry", 0)), SessionExpiryInterval: uint32(o.number("expiry", 0)),
		SessionExpiryIntervalFlag: o.text("expiry") != "", ReceiveMaximum: uint16(o.number("rm", 0)), MaximumPacketSize: uint32(o.number("max", 0)),
		TopicAliasMaximum: uint16(o.number("alias", 0)), TopicAlias: uint16(o.number("alias", 0)), TopicAliasFlag: o.text("alias") != "",
		PayloadFormat: 1, PayloadFormatFlag: o.has("fmt"), RequestProblemInfoFlag: o.has("noinfo"), AuthenticationMethod: o.text("auth"),
	}
}

func (o wordsOf) connect(pk *packets.Packet, version byte) {
	pk.FixedHeader.Type = packets.Connect
	c := &pk.Connect
	c.ProtocolName = []byte("MQTT")
	if version == 3 {
		c.ProtocolName = []byte("MQIsdp")
	}
	c.ClientIdentifier, c.Clean, c.Keepalive = o.text("id"), o.has("clean"), uint16(o.number("keepalive", 0))
	c.Username, c.UsernameFlag = []byte(o.text("user")), o.text("user") != ""
	c.Password, c.PasswordFlag = []byte(o.text("pass")), o.text("pass") != ""
	if will := o.text("will"); will != "" {
		topic, payload, _ := strings.Cut(will, ":")
		c.WillFlag, c.WillTopic, c.WillPayload = true, topic, []byte(payload)
		c.WillQos, c.WillRetain = byte(o.number("willqos", 0)), o.has("willretain")
		c.WillProperties = packets.Properties{
			WillDelayInterval: uint32(o.number("willdelay", 0)), User: o.users("willuser"), MessageExpiryInterval: uint32(o.number("willexpiry", 0)),
			ContentType: o.text("willct"), ResponseTopic: o.text("willrt"),
		}
	}
	if c.UsernameFlag {
		pk.Properties.User = nil
	}
}

// formatPacket returns the first packet in b as text, and its size, 0 if it is not
// whole.
func formatPacket(b []byte, version byte) (string, int) {
	if len(b) < 2 {
		return "", 0
	}
	n, bytesOfLength, err := packets.DecodeLength(bytes.NewReader(b[1:]))
	if err != nil || len(b) < 1+bytesOfLength+n {
		return "", 0
	}
	size := 1 + bytesOfLength + n
	body := slices.Clone(b[1+bytesOfLength : size])
	pk := packets.Packet{ProtocolVersion: version}
	if err := pk.FixedHeader.Decode(b[0]); err != nil {
		return "bad header: " + err.Error(), size
	}
	pk.FixedHeader.Remaining = n
	return describe(&pk, body), size
}

func describe(pk *packets.Packet, body []byte) string {
	var out strings.Builder
	out.WriteString(strings.ToUpper(packets.PacketNames[pk.FixedHeader.Type]))
	var err error
	switch t := pk.FixedHeader.Type; t {
	case packets.Connack:
		err = pk.ConnackDecode(body)
		fmt.Fprintf(&out, " 0x%02X", pk.ReasonCode)
		words(&out, pk.SessionPresent, "present")
		p := &pk.Properties
		words(&out, p.SessionExpiryIntervalFlag, "expiry=%d", p.SessionExpiryInterval)
		words(&out, p.ServerKeepAliveFlag, "keepalive=%d", p.ServerKeepAlive)
		words(&out, p.AssignedClientID != "", "assigned=%s", p.AssignedClientID)
	case packets.Publish:
		err = pk.PublishDecode(body)
		describePublish(&out, pk)
	case packets.Puback, packets.Pubrec, packets.Pubrel, packets.Pubcomp:
		fmt.Fprintf(&out, " %d", uint16(body[0])<<8|uint16(body[1]))
		words(&out, len(body) > 2, "0x%02X", append(body, 0, 0)[2])
	case packets.Suback, packets.Unsuback:
		if err = pk.SubackDecode(body); t == packets.Unsuback {
			err = pk.UnsubackDecode(body)
		}
		fmt.Fprintf(&out, " %d", pk.PacketID)
		for _, code := range pk.ReasonCodes {
			fmt.Fprintf(&out, " 0x%02X", code)
		}
	case packets.Disconnect:
		err = pk.DisconnectDecode(body)
		code := byte(0)
		if len(body) > 0 {
			code = body[0]
		}
		fmt.Fprintf(&out, " 0x%02X", code)
	}
	if err != nil {
		fmt.Fprintf(&out, " which cannot be decoded: %v", err)
	}
	return out.String()
}

func describePublish(out *strings.Builder, pk *packets.Packet) {
	topic := pk.TopicName
	if topic == "" {
		topic = "-"
	}
	out.WriteString(" " + topic)
	words(out, pk.FixedHeader.Qos > 0, "qos=%d", pk.FixedHeader.Qos)
	words(out, pk.FixedHeader.Qos > 0, "id=%d", pk.PacketID)
	words(out, pk.FixedHeader.Dup, "dup")
	words(out, pk.FixedHeader.Retain, "retain")
	payload := string(pk.Payload)
	if len(payload) > 100 {
		payload = strconv.Itoa(len(payload)) + "-bytes"
	}
	words(out, payload != "", "p=%s", payload)
	p := &pk.Properties
	words(out, p.TopicAliasFlag, "alias=%d", p.TopicAlias)
	words(out, p.MessageExpiryInterval > 0, "expiry=%d", p.MessageExpiryInterval)
	words(out, p.ContentType != "", "ct=%s", p.ContentType)
	words(out, p.ResponseTopic != "", "rt=%s", p.ResponseTopic)
	words(out, len(p.CorrelationData) > 0, "cd=%s", p.CorrelationData)
	words(out, p.PayloadFormatFlag, "fmt")
	slices.Sort(p.SubscriptionIdentifier)
	for _, id := range p.SubscriptionIdentifier {
		words(out, true, "sub=%d", id)
	}
	for _, u := range p.User {
		words(out, true, "user=%s:%s", u.Key, u.Val)
	}
}

func words(out *strings.Builder, when bool, format string, args ...any) {
	if when {
		fmt.Fprintf(out, " "+format, args...)
	}
}
