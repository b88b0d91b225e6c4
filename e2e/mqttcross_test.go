package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"github.com/eclipse/paho.golang/packets"
)

// cli runs the binary as a client of n and wants success.
func cli(t *testing.T, n *node, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Getenv(brokerVariable), append(args, "--admin", "http://"+n.admin)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("broker %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// TestFromMQTTToSQS publishes to a topic that a queue is bound to.
func TestFromMQTTToSQS(t *testing.T) {
	n := startNode(t, "--memory")
	sqs, device := dialRaw(t, n), dialMQTT(t, n.mqtt, mqttSession{id: "dev-7"})
	queue := sqs.createQueue(t, "orders", nil)
	cli(t, n, "topic", "bind", "devices/+/up", "orders")
	device.must(t, publication{topic: "devices/7/up", body: "21.5", edit: func(p *packets.Properties) {
		p.ContentType, p.ResponseTopic, p.CorrelationData = "text/plain", "devices/7/down", []byte{0, 255}
		p.User = []packets.User{{Key: "unit", Value: "C"}, {Key: "unit", Value: "K"}, {Key: "städt", Value: "x"}}
	}})
	got, err := sqs.receive(queue, 1, 5)
	if err != nil || len(got) != 1 || got[0].Body != "21.5" {
		t.Fatalf("got %+v, %v", got, err)
	}
	shown := got[0].MessageAttributes
	for name, want := range map[string]string{
		"mqtt.topic": "devices/7/up", "mqtt.qos": "1", "mqtt.clientId": "dev-7", "mqtt.contentType": "text/plain",
		"mqtt.responseTopic": "devices/7/down", "unit": "C",
	} {
		if shown[name].StringValue != want {
			t.Errorf("%s is %q, want %q", name, shown[name].StringValue, want)
		}
	}
	if !bytes.Equal(shown["mqtt.correlationData"].BinaryValue, []byte{0, 255}) {
		t.Errorf("mqtt.correlationData is %v", shown["mqtt.correlationData"])
	}
	var all []struct{ Name, Value string }
	if err := json.Unmarshal([]byte(shown["mqtt.userProperties"].StringValue), &all); err != nil || len(all) != 3 || all[1].Value != "K" || all[2].Name != "städt" {
		t.Errorf("mqtt.userProperties is %s: %v", shown["mqtt.userProperties"].StringValue, err)
	}
	if err := sqs.delete(queue, got[0].ReceiptHandle); err != nil {
		t.Fatal(err)
	}
	device.must(t, publication{topic: "devices/7/up", body: "\x00\xff"})
	got, err = sqs.receive(queue, 1, 5)
	if err != nil || len(got) != 1 || got[0].Body != "AP8=" || got[0].MessageAttributes["mqtt.encoding"].StringValue != "base64" {
		t.Errorf("bytes came as %+v, %v", got, err)
	}
}

// TestFromSQSToMQTT consumes a queue of SQS with MQTT: several members share it.
func TestFromSQSToMQTT(t *testing.T) {
	n := startNode(t, "--memory")
	sqs := dialRaw(t, n)
	queue := sqs.createQueue(t, "jobs", nil)
	first, second := dialMQTT(t, n.mqtt, mqttSession{id: "a", receiveMax: 1}), dialMQTT(t, n.mqtt, mqttSession{id: "b", receiveMax: 1})
	for _, p := range []*mqttPeer{first, second} {
		p.subscribe(t, "$queue/jobs", 1)
	}
	for _, body := range []string{"1", "2"} {
		if _, err := sqs.send(rawSend{QueueUrl: queue, MessageBody: body, MessageAttributes: map[string]rawAttribute{
			"city": {DataType: "String", StringValue: "Zürich"},
		}}); err != nil {
			t.Fatal(err)
		}
	}
	bodies := map[string]bool{}
	for _, p := range []*mqttPeer{first, second} {
		m := p.next(t)
		bodies[string(m.Payload)] = true
		if len(m.Properties.User) != 1 || m.Properties.User[0] != (packets.User{Key: "city", Value: "Zürich"}) {
			t.Errorf("user properties %v", m.Properties.User)
		}
	}
	if len(bodies) != 2 {
		t.Errorf("got %v, want both, each once", bodies)
	}
	if err := eventually(mqttTimeout, func() (bool, error) {
		a := sqs.attributes(t, queue)
		return a["ApproximateNumberOfMessages"] == "0" && a["ApproximateNumberOfMessagesNotVisible"] == "0", nil
	}); err != nil {
		t.Errorf("acknowledged messages are left: %v", err)
	}
}
