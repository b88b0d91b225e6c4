package e2e

import (
	"testing"

	"github.com/eclipse/paho.golang/packets"
)

// TestFromMQTTToSTOMPAndBack has a STOMP client answer what a device asks.
func TestFromMQTTToSTOMPAndBack(t *testing.T) {
	n := startNode(t, "--memory")
	stomp, device := dialSTOMP(t, n.stomp), dialMQTT(t, n.mqtt, mqttSession{id: "dev"})
	device.subscribe(t, "devices/7/down/#", 2)
	stomp.must(t, "SUBSCRIBE", "", "id", "s", "destination", "/topic/devices.*.up", "ack", "auto")
	device.must(t, publication{topic: "devices/7/up", body: "ask", edit: func(p *packets.Properties) {
		p.ContentType, p.ResponseTopic, p.CorrelationData = "text/plain", "devices/7/down", []byte("c-1")
		p.User = []packets.User{{Key: "k", Value: "1"}, {Key: "k", Value: "2"}}
	}})
	m := stomp.next(t)
	wantHeaders(t, m, map[string]string{
		"destination": "/topic/devices.7.up", "content-type": "text/plain", "reply-to": "/topic/devices.7.down",
		"correlation-id": "c-1", "k": "1", "persistent": "true", "mqtt.clientId": "dev",
	})
	stomp.must(t, "SEND", "answer", "destination", m.headers["reply-to"], "correlation-id", m.headers["correlation-id"],
		"content-type", "text/plain", "reply-to", "/topic/devices.7.up", "own", "a:b", "expiration", "60000")
	got := device.next(t)
	p := got.Properties
	if got.Topic != "devices/7/down" || string(got.Payload) != "answer" || got.QoS != 1 || p.ContentType != "text/plain" ||
		string(p.CorrelationData) != "c-1" || p.ResponseTopic != "devices/7/up" || p.MessageExpiry == nil || *p.MessageExpiry > 60 {
		t.Errorf("got %v", got)
	}
	own := false
	for _, u := range p.User {
		own = own || u == packets.User{Key: "own", Value: "a:b"}
	}
	if !own {
		t.Errorf("user properties %v lack own", p.User)
	}
	n.alive()
}
