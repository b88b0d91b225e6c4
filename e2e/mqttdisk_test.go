package e2e

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/packets"
)

// mqttDiskBody is large, so that a small disk is full soon.
const mqttDiskBody = 50_000

// TestMQTTFullDisk fills a small disk by publishes for a session that is away. They
// are refused then, and nobody is disconnected; sessions go on, also on the full
// disk after a restart, and get what was acknowledged, in order. Then there is room
// again.
func TestMQTTFullDisk(t *testing.T) {
	data := smallDisk(t, diskSize)
	n := startNode(t, "--data", data)
	away := mqttSession{id: "away", expiry: 3600, receiveMax: 20}
	p := dialMQTT(t, n.mqtt, away)
	p.subscribe(t, "disk/#", 1)
	_ = p.write(packets.NewControlPacket(packets.DISCONNECT))

	publisher := dialMQTT(t, n.mqtt, mqttSession{id: "publisher", expiry: 3600})
	filling := randomText(newRand(t), mqttDiskBody)
	publish := func(p *mqttPeer, body string, qos byte) byte { return publishOnDisk(t, p, body, qos) }
	sent := 0
	// A flush may give back some of what the log had taken.
	for refused := 0; sent < diskSendsMax && refused < 5; {
		at := sent % mqttDiskBody
		switch code := publish(publisher, strconv.Itoa(sent)+" "+filling[at:]+filling[:at], byte(1+sent%2)); code {
		case 0:
			sent, refused = sent+1, 0
		case 0x97:
			refused++
			time.Sleep(200 * time.Millisecond)
		default:
			t.Fatalf("message %d was answered 0x%02X", sent, code)
		}
	}
	t.Logf("%d messages fit", sent)
	for qos := range byte(2) {
		if code := publish(publisher, "no", qos+1); code != 0x97 {
			t.Errorf("a publish with QoS %d on a full disk was answered 0x%02X", qos+1, code)
		}
	}
	if err := publisher.write(publication{topic: "disk/x", body: "lost"}.packet()); err != nil {
		t.Fatal(err)
	}
	if code := publish(publisher, "no", 1); code != 0x97 {
		t.Errorf("after a publish with QoS 0 the answer is 0x%02X", code)
	}
	if code := n.stop(); code != 0 {
		t.Errorf("exit code %d on a full disk\n%s", code, n.log)
	}

	n = startNode(t, "--data", data)
	dialMQTT(t, n.mqtt, mqttSession{id: "new", expiry: 60}).subscribe(t, "other", 1)
	p = dialMQTT(t, n.mqtt, away)
	if !p.present {
		t.Error("the session is not there after the restart")
	}
	for i := range sent {
		m := p.next(t)
		if got, _, _ := strings.Cut(string(m.Payload), " "); got != strconv.Itoa(i) {
			t.Fatalf("got %.20q, want message %d of %d", m.Payload, i, sent)
		}
	}
	publisher = dialMQTT(t, n.mqtt, mqttSession{id: "publisher", expiry: 3600})
	err := eventually(diskSpaceReturn, func() (bool, error) { return publish(publisher, "after", 1) == 0, nil })
	if err != nil {
		t.Fatalf("publishers do not go on though the session has taken everything: %v\n%s", err, n.log)
	}
	if m := p.next(t); string(m.Payload) != "after" {
		t.Errorf("got %.20q, want the one after", m.Payload)
	}
	n.alive()
}

// publishOnDisk publishes and returns the reason code of the answer.
func publishOnDisk(t *testing.T, p *mqttPeer, body string, qos byte) byte {
	t.Helper()
	if err := p.write(publication{topic: "disk/x", body: body, qos: qos, id: 1}.packet()); err != nil {
		t.Fatal(err)
	}
	if qos == 1 {
		c, err := p.await(packets.PUBACK)
		if err != nil {
			t.Fatal(err)
		}
		return c.Content.(*packets.Puback).ReasonCode
	}
	c, err := p.await(packets.PUBREC)
	if err != nil {
		t.Fatal(err)
	}
	code := c.Content.(*packets.Pubrec).ReasonCode
	if code < 0x80 {
		if err := p.write(mqttAck(packets.PUBREL, 1)); err != nil {
			t.Fatal(err)
		}
		if _, err := p.await(packets.PUBCOMP); err != nil {
			t.Fatal(err)
		}
	}
	return code
}
