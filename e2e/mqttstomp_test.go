package e2e

import (
	"testing"

	"github.com/eclipse/paho.golang/packets"
)

// TestFromMQTTToSTOMPAndBack has a STOMP client answer what a device asks.
func TestFromMQTTToSTOMPAndBack(t *testing.T) {
	n := startNode(t, "--memory")
	stomp, device := dialSTOMP(t, n.stomp), dialMQTT(t, n.mqtt, mqttSession{id: "dev"})
	device.subscribe(t, "devices/v1.2/down/#", 2)
	stomp.must(t, "SUBSCRIBE", "", "id", "s", "destination", "/topic/devices.*.up", "ack", "auto")
	device.must(t, publication{topic: "devices/v1.2/up", body: "ask", edit: func(p *packets.Properties) {
		p.ContentType, p.ResponseTopic, p.CorrelationData = "text/plain", "devices/v1.2/down", []byte("c-1")
		p.User = []packets.User{{Key: "k", Value: "1"}, {Key: "k", Value: "2"}}
	}})
	m := stomp.next(t)
	wantHeaders(t, m, map[string]string{
		"destination": "/topic/devices.v1%2E2.up", "content-type": "text/plain", "reply-to": "/topic/devices.v1%2E2.down",
		"correlation-id": "c-1", "k": "1", "persistent": "true", "mqtt.clientId": "dev",
	})
	stomp.must(t, "SEND", "answer", "destination", m.headers["reply-to"], "correlation-id", m.headers["correlation-id"],
		"content-type", "text/plain", "reply-to", "/topic/devices.v1%2E2.up", "own", "a:b", "expiration", "60000")
	got := device.next(t)
	p := got.Properties
	if got.Topic != "devices/v1.2/down" || string(got.Payload) != "answer" || got.QoS != 1 || p.ContentType != "text/plain" ||
		string(p.CorrelationData) != "c-1" || p.ResponseTopic != "devices/v1.2/up" || p.MessageExpiry == nil || *p.MessageExpiry > 60 {
		t.Errorf("got %v", got)
	}
	own := false
	for _, u := range p.User {
		own = own || u == packets.User{Key: "own", Value: "a:b"}
	}
	if !own {
		t.Errorf("user properties %v lack own", p.User)
	}
	// persistent:false is QoS 0, and retain:true keeps.
	stomp.must(t, "SEND", "loose", "destination", "/topic/devices.v1%2E2.down.state", "persistent", "false", "retain", "true")
	if got = device.next(t); got.QoS != 0 || string(got.Payload) != "loose" {
		t.Errorf("got %v, want QoS 0", got)
	}
	late := dialMQTT(t, n.mqtt, mqttSession{id: "late"})
	late.subscribe(t, "devices/+/down/state", 1)
	if got = late.next(t); !got.Retain || string(got.Payload) != "loose" {
		t.Errorf("got %v, want the retained value", got)
	}
	n.alive()
}
