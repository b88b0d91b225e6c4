package e2e

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/autopaho"
	"github.com/eclipse/paho.golang/autopaho/queue/memory"
	"github.com/eclipse/paho.golang/paho"
	mqtt3 "github.com/eclipse/paho.mqtt.golang"
)

// mqttTimeout bounds what a client of MQTT waits for.
const mqttTimeout = 20 * time.Second

// arrivals collects what a subscriber gets.
type arrivals struct {
	mu  sync.Mutex
	got map[string][]string // bodies by topic
}

func (a *arrivals) add(topic, body string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.got == nil {
		a.got = make(map[string][]string)
	}
	a.got[topic] = append(a.got[topic], body)
}

func (a *arrivals) has(topic, body string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Contains(a.got[topic], body)
}

// awaitOne waits until a topic has that body.
func (a *arrivals) awaitOne(t *testing.T, topic, body string) {
	t.Helper()
	if err := eventually(mqttTimeout, func() (bool, error) { return a.has(topic, body), nil }); err != nil {
		t.Fatalf("%s of %s has not come: %v", body, topic, err)
	}
}

// await waits until each topic has that many different bodies, and returns all that
// have come by then.
func (a *arrivals) await(t *testing.T, topics []string, n int) map[string][]string {
	t.Helper()
	different := func(bodies []string) int {
		return len(slices.Compact(slices.Sorted(slices.Values(bodies))))
	}
	err := eventually(mqttTimeout, func() (bool, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		for _, topic := range topics {
			if different(a.got[topic]) < n {
				return false, nil
			}
		}
		return true, nil
	})
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		for _, topic := range topics {
			t.Errorf("%s has %d of %d", topic, different(a.got[topic]), n)
		}
	}
	all := make(map[string][]string)
	for topic, bodies := range a.got {
		all[topic] = slices.Clone(bodies)
	}
	return all
}

// check wants the bodies 0 to n-1 of each topic: in order, and those of QoS 2
// once.
func (a *arrivals) check(t *testing.T, topics []string, n int) {
	t.Helper()
	for topic, bodies := range a.await(t, topics, n) {
		seen := 0
		for _, body := range bodies {
			switch i, err := strconv.Atoi(body); {
			case err != nil || i > seen:
				t.Fatalf("%s: %s came where %d is due, of %v", topic, body, seen, bodies)
			case i == seen:
				seen++
			case strings.HasSuffix(topic, "2"):
				t.Errorf("%s: %s came again", topic, body)
			}
		}
	}
}

// TestMQTTClientGo3 has paho.mqtt.golang publish and receive while the broker is
// killed and started again.
func TestMQTTClientGo3(t *testing.T) {
	t.Parallel()
	for _, version := range []uint{3, 4} {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			t.Parallel()
			w := newKilled(t)
			var all arrivals
			dial := func(id string, received func(topic, body string)) mqtt3.Client {
				o := mqtt3.NewClientOptions().AddBroker("tcp://" + w.relay.address()).SetClientID(id).SetCleanSession(false).
					SetProtocolVersion(version).SetMaxReconnectInterval(100 * time.Millisecond).SetConnectRetryInterval(50 * time.Millisecond).
					SetStore(mqtt3.NewMemoryStore()).SetDefaultPublishHandler(func(_ mqtt3.Client, m mqtt3.Message) {
					// This client leaves it to the application to tell a repetition of QoS 2.
					if m.Qos() < 2 || !m.Duplicate() || !all.has(m.Topic(), string(m.Payload())) {
						received(m.Topic(), string(m.Payload()))
					}
				})
				c := mqtt3.NewClient(o)
				if token := c.Connect(); !token.WaitTimeout(mqttTimeout) || token.Error() != nil {
					t.Fatalf("connect: %v", token.Error())
				}
				return c
			}
			sub := dial("go-sub", all.add)
			if token := sub.Subscribe("go/+", 2, nil); !token.WaitTimeout(mqttTimeout) || token.Error() != nil {
				t.Fatalf("subscribe: %v", token.Error())
			}
			pub := dial("go-pub", func(string, string) {})
			for i := range w.messages {
				killed := w.maybeKill(i)
				var tokens []mqtt3.Token
				for qos := byte(1); qos <= 2; qos++ {
					tokens = append(tokens, pub.Publish(fmt.Sprintf("go/%d", qos), qos, false, strconv.Itoa(i)))
				}
				for _, token := range tokens {
					if !token.WaitTimeout(mqttTimeout) || token.Error() != nil {
						t.Fatalf("publish %d: %v", i, token.Error())
					}
				}
				if killed {
					// When it connects again, this client says that a message is acknowledged just
					// before it is sent again: the next one could overtake it within the client.
					for qos := 1; qos <= 2; qos++ {
						all.awaitOne(t, fmt.Sprintf("go/%d", qos), strconv.Itoa(i))
					}
				}
			}
			all.check(t, []string{"go/1", "go/2"}, w.messages)
			pub.Disconnect(100)
			sub.Disconnect(100)
			w.n.alive()
		})
	}
}

// TestMQTTClientGo5 does the same with autopaho, which speaks MQTT 5.
func TestMQTTClientGo5(t *testing.T) {
	t.Parallel()
	w := newKilled(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*mqttTimeout)
	defer cancel()
	var all arrivals
	sub := dialPaho(ctx, t, "go5-sub", []string{w.relay.address()}, all.add)
	if _, err := sub.Subscribe(ctx, &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: "go5/+", QoS: 2}}}); err != nil {
		t.Fatal(err)
	}
	pub := dialPaho(ctx, t, "go5-pub", []string{w.relay.address()}, func(string, string) {})
	for i := range w.messages {
		w.maybeKill(i)
		for qos := byte(1); qos <= 2; qos++ {
			if err := pub.PublishViaQueue(ctx, &autopaho.QueuePublish{Publish: &paho.Publish{
				Topic: fmt.Sprintf("go5/%d", qos), QoS: qos, Payload: []byte(strconv.Itoa(i)),
			}}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Millisecond) // so that kills fall among them
	}
	all.check(t, []string{"go5/1", "go5/2"}, w.messages)
	for _, cm := range []*autopaho.ConnectionManager{pub, sub} {
		if err := cm.Disconnect(ctx); err != nil {
			t.Error(err)
		}
	}
	w.n.alive()
}

// dialPaho connects a client with a session that stays to the first of hosts
// that takes it.
func dialPaho(ctx context.Context, t *testing.T, id string, hosts []string, received func(topic, body string)) *autopaho.ConnectionManager {
	t.Helper()
	var urls []*url.URL
	for _, host := range hosts {
		urls = append(urls, &url.URL{Scheme: "mqtt", Host: host})
	}
	cm, err := autopaho.NewConnection(ctx, autopaho.ClientConfig{
		ServerUrls: urls, KeepAlive: 30, SessionExpiryInterval: 3600, Queue: memory.New(),
		ReconnectBackoff: func(int) time.Duration { return 50 * time.Millisecond },
		ClientConfig: paho.ClientConfig{
			ClientID: id,
			OnPublishReceived: []func(paho.PublishReceived) (bool, error){func(p paho.PublishReceived) (bool, error) {
				received(p.Packet.Topic, string(p.Packet.Payload))
				return true, nil
			}},
		},
	})
	if err == nil {
		err = cm.AwaitConnection(ctx)
	}
	if err != nil {
		t.Fatalf("connect %s: %v", id, err)
	}
	return cm
}

// killedBroker is a broker that is killed and started again behind a relay.
type killedBroker struct {
	t        *testing.T
	data     string
	n        *node
	relay    *relay
	messages int // to send
}

func newKilled(t *testing.T) *killedBroker {
	k := &killedBroker{t: t, data: t.TempDir(), messages: 300}
	k.n = startNode(t, "--data", k.data)
	k.relay = newRelay(t, k.n.mqtt)
	return k
}

// maybeKill kills the broker before three of the messages.
func (k *killedBroker) maybeKill(i int) bool {
	if i%100 != 50 {
		return false
	}
	k.n.kill()
	k.n = startNode(k.t, "--data", k.data)
	k.relay.target.Store(k.n.mqtt)
	return true
}
