package stomp

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends/stomp/frame"
)

// appendMQTT appends the headers that say here what MQTT says of a message. They
// stand before its user properties: of two headers of one name the first counts.
func appendMQTT(b []byte, v frame.Version, m *core.Stored) []byte {
	m.Attributes(func(a core.Attribute) bool {
		if a.Kind != core.AttributeProperty {
			return true
		}
		switch a.Name {
		case "mqtt.qos":
			if string(a.Value) == "0" {
				b = append(b, "persistent:false\n"...)
			} else {
				b = append(b, "persistent:true\n"...)
			}
			b = frame.AppendHeader(b, v, a.Name, a.Value)
		case "mqtt.retain":
			b = frame.AppendHeader(b, v, "retain", a.Value)
		case "mqtt.responseTopic":
			b = frame.AppendHeader(b, v, "reply-to", topicPrefix+string(appendTopic(nil, string(a.Value))))
		case "mqtt.correlationData":
			b = frame.AppendHeader(b, v, "correlation-id", correlationID(a.Value))
		case "mqtt.clientId":
			b = frame.AppendHeader(b, v, a.Name, a.Value)
		}
		return true
	})
	if m.ExpiresAt > 0 {
		b = appendNumber(b, "expires", m.ExpiresAt)
	}
	return b
}

// correlationID returns correlation data as the text of a header: as it is, or in
// base64 if it is none.
func correlationID(data []byte) string {
	text := string(data)
	if utf8.ValidString(text) && strings.IndexByte(text, 0) < 0 {
		return text
	}
	return base64.StdEncoding.EncodeToString(data)
}
