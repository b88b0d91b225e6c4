package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

func mqttWire() wire {
	return wire{"MQTT", func(n *node) string { return n.mqtt }, func(n *node) string { return n.mqttWS }, "/mqtt", "/mqtt"}
}

// TestMQTTClientPython drives the broker with paho-mqtt in each version of MQTT.
func TestMQTTClientPython(t *testing.T) {
	t.Parallel() // they wait most of the time
	python := program(t, "LEASEMQ_PYTHON_MQTT", "/usr/bin/python3")
	needModule(t, python, "paho.mqtt.client")
	for _, version := range []string{"3.1", "3.1.1", "5"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			runAcrossRestart(t, mqttWire(), python, filepath.Join("testdata", "python", "mqtt_client.py"), version)
		})
	}
}

// TestMQTTClientMQTTJS drives it with MQTT.js, over TCP and over WebSocket.
func TestMQTTClientMQTTJS(t *testing.T) {
	t.Parallel()
	node := program(t, "LEASEMQ_NODE", "node")
	needPackage(t, "mqtt")
	for _, kind := range []string{"tcp", "ws"} {
		for _, version := range []string{"4", "5"} {
			t.Run(kind+version, func(t *testing.T) {
				t.Parallel()
				runAcrossRestart(t, mqttWire(), node, filepath.Join("testdata", "js", "mqttjs.mjs"), kind, version)
			})
		}
	}
}

// mosquitto is the pair of Mosquitto's clients at a broker.
type mosquitto struct {
	t        *testing.T
	n        *node
	version  string
	pub, sub string
}

func (m *mosquitto) args(args []string) []string {
	_, port, _ := net.SplitHostPort(m.n.mqtt)
	return append([]string{"-h", "127.0.0.1", "-p", port, "-V", m.version}, args...)
}

// publish publishes and waits for the acknowledgement.
func (m *mosquitto) publish(args ...string) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), 20*time.Second)
	defer cancel()
	if out, err := exec.CommandContext(ctx, m.pub, m.args(args)...).CombinedOutput(); err != nil {
		m.t.Errorf("mosquitto_pub %q: %v\n%s", args, err, out)
	}
}

// subscribe starts a subscriber and returns what waits for its end, and for what
// it prints. Unless it ends by itself before, begun waits until it has subscribed.
func (m *mosquitto) subscribe(args ...string) (begun func(), ended func() string) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), 20*time.Second)
	// With -d it tells what it does, and with stdbuf at once.
	cmd := exec.CommandContext(ctx, "stdbuf", append([]string{"-oL", m.sub}, m.args(append([]string{"-d"}, args...))...)...)
	out := new(logBuffer)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	begun = func() {
		m.t.Helper()
		err := eventually(10*time.Second, func() (bool, error) { return strings.Contains(out.String(), "Subscribed (mid"), nil })
		if err != nil {
			m.t.Fatalf("mosquitto_sub %q has not subscribed: %v\n%s", args, err, out)
		}
	}
	return begun, func() string {
		m.t.Helper()
		defer cancel()
		if err := <-done; err != nil {
			m.t.Errorf("mosquitto_sub %q: %v\n%s", args, err, out)
		}
		var got []string
		for line := range strings.Lines(out.String()) {
			if text, ok := strings.CutPrefix(line, "> "); ok {
				got = append(got, strings.TrimSpace(text))
			}
		}
		return strings.Join(got, ", ")
	}
}

// TestMQTTClientMosquitto drives it with mosquitto_pub and mosquitto_sub.
func TestMQTTClientMosquitto(t *testing.T) {
	t.Parallel()
	pub, sub := program(t, "LEASEMQ_MOSQUITTO_PUB", "mosquitto_pub"), program(t, "LEASEMQ_MOSQUITTO_SUB", "mosquitto_sub")
	n := startNode(t, "--memory")
	for _, version := range []string{"mqttv31", "mqttv311", "mqttv5"} {
		t.Run(version, func(t *testing.T) {
			m := &mosquitto{t: t, n: n, version: version, pub: pub, sub: sub}
			topic := "mosquitto/" + version
			for qos := range 3 {
				q := strconv.Itoa(qos)
				begun, ended := m.subscribe("-t", topic+"/+", "-q", q, "-C", "2", "-F", "> %t %q %r %p")
				begun()
				m.publish("-t", topic+"/a", "-q", q, "-m", "hello")
				m.publish("-t", topic+"/b", "-q", q, "-m", "Zürich")
				if got, want := ended(), fmt.Sprintf("%[1]s/a %[2]s 0 hello, %[1]s/b %[2]s 0 Zürich", topic, q); got != want {
					t.Errorf("QoS %d: got %q, want %q", qos, got, want)
				}
			}
			m.publish("-t", topic, "-q", "1", "-r", "-m", "kept")
			if _, ended := m.subscribe("-t", topic+"/#", "-q", "1", "-C", "1", "-F", "> %t %r %p"); ended() != topic+" 1 kept" {
				t.Error("the retained message did not come")
			}
			// A session that is kept: subscribe, leave, and come again. -c is that of
			// 3.1, -x of 5.
			kept := []string{"-i", "m-" + version, "-c", "-t", topic + "/s", "-q", "2"}
			if version == "mqttv5" {
				kept = append(kept, "-x", "3600")
			}
			_, ended := m.subscribe(append(kept, "-E")...)
			ended()
			m.publish("-t", topic+"/s", "-q", "1", "-m", "1")
			m.publish("-t", topic+"/s", "-q", "2", "-m", "2")
			_, ended = m.subscribe(append(kept, "-C", "2", "-F", "> %q %p")...)
			if got := ended(); got != "1 1, 2 2" {
				t.Errorf("the session got %q", got)
			}
		})
	}
	n.alive()
}

// TestMQTTClientMosquittoAnswers has mosquitto_rr ask, and mosquitto_pub answer.
func TestMQTTClientMosquittoAnswers(t *testing.T) {
	t.Parallel()
	m := &mosquitto{
		t: t, n: startNode(t, "--memory"), version: "mqttv5",
		pub: program(t, "LEASEMQ_MOSQUITTO_PUB", "mosquitto_pub"), sub: program(t, "LEASEMQ_MOSQUITTO_SUB", "mosquitto_sub"),
	}
	rr := program(t, "LEASEMQ_MOSQUITTO_RR", "mosquitto_rr")
	begun, ended := m.subscribe("-t", "ask", "-q", "1", "-C", "1", "-F", "> %R %D %p")
	begun()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, rr, m.args([]string{"-t", "ask", "-e", "answer", "-q", "1", "-m", "question", "-D", "publish", "correlation-data", "c1"})...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if got := ended(); got != "answer c1 question" {
		t.Errorf("asked %q", got)
	}
	m.publish("-t", "answer", "-q", "1", "-m", "42", "-D", "publish", "correlation-data", "c1")
	if err := cmd.Wait(); err != nil || strings.TrimSpace(out.String()) != "42" {
		t.Errorf("mosquitto_rr: %v, %q", err, out.String())
	}
}
