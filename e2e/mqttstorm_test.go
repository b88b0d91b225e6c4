package e2e

import (
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

// The shape of a storm of takeovers.
const (
	stormClients  = 24
	stormIDs      = 3
	stormLogins   = 40 // of each client
	stormMessages = 500
)

// TestMQTTTakeoverStorm has many clients fight for few identifiers, hang up without
// a word, and send half packets and garbage, while messages are published. A session
// that stands aside gets all in order; those that were fought for go on afterwards.
func TestMQTTTakeoverStorm(t *testing.T) {
	n := startNode(t, "--data", t.TempDir())
	witness := dialMQTT(t, n.mqtt, mqttSession{id: "witness", expiry: 60})
	witness.subscribe(t, "storm/#", 1)
	session := func(i int) mqttSession { return mqttSession{id: fmt.Sprint("storm-", i%stormIDs), expiry: 60} }
	var logins atomic.Int64
	var storm sync.WaitGroup
	for i := range stormClients {
		storm.Go(func() {
			for k := range stormLogins {
				p, err := tryMQTT(t, n.mqtt, session(i))
				if err != nil {
					continue // another one came meanwhile
				}
				logins.Add(1)
				switch k % 4 {
				case 0:
					_ = p.conn.(*net.TCPConn).SetLinger(0)
				case 1:
					_, _ = p.conn.Write([]byte{0x82, 20, 0, 1, 0, 0})
				case 2:
					_, _ = p.conn.Write([]byte{0xFF, 0xFF, 0xFF, 0xFF, 0xFF})
				case 3:
					_, _ = p.conn.Write([]byte("\x82\x0d\x00\x01\x00\x00\x07storm/#\x01"))
					_, _ = p.read()
				}
				_ = p.conn.Close()
			}
		})
	}
	publisher := dialMQTT(t, n.mqtt, mqttSession{id: "publisher"})
	for i := range stormMessages {
		publisher.must(t, publication{topic: "storm/x", body: strconv.Itoa(i)})
		if m := witness.next(t); string(m.Payload) != strconv.Itoa(i) {
			t.Fatalf("the witness got %s, want %d", m.Payload, i)
		}
	}
	storm.Wait()
	t.Logf("%d of %d logins won", logins.Load(), stormClients*stormLogins)
	for i := range stormIDs {
		p := dialMQTT(t, n.mqtt, session(i))
		topic := fmt.Sprint("after/", i)
		p.subscribe(t, topic, 1)
		publisher.must(t, publication{topic: topic, body: "after"})
		last := -1
		for {
			m := p.next(t)
			if m.Topic == topic {
				break
			}
			got, err := strconv.Atoi(string(m.Payload))
			if err != nil || got <= last {
				t.Errorf("session %d got %s after %d", i, m.Payload, last)
			}
			last = got
		}
	}
	n.alive()
}
