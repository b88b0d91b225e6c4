package e2e

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/packets"

	"github.com/leasemq/broker/cmd/broker/bench"
)

// The shape of the tests of many devices: small, and in the long form as large as
// what is asked of the broker then.
const (
	mqttIdle        = 500
	mqttIdleSoak    = 10_000
	mqttIdleRSS     = 300 << 20
	mqttAway        = 300
	mqttAwaySoak    = 100_000
	mqttAwayRSS     = 500 << 20
	mqttAwayStart   = 2 * time.Second
	mqttKept        = 3_000
	mqttKeptSoak    = 1_000_000
	mqttKeptRSS     = 500 << 20
	mqttAwayBodies  = 10
	mqttDialers     = 50
	mqttScaleWindow = 500
)

func soakOr(short, long int) int {
	if os.Getenv("LEASEMQ_SOAK") != "" {
		return long
	}
	return short
}

// resident returns the resident memory of n, and wants it to be below most in the
// long form.
func resident(t *testing.T, n *node, what string, most int64) {
	t.Helper()
	mem, err := bench.ProcessMemory(n.pid())
	if err != nil {
		return // there is no /proc
	}
	t.Logf("%s: %d MiB resident", what, mem.RSS>>20)
	if mem.RSS > most {
		t.Errorf("%s: %d MiB resident, over %d", what, mem.RSS>>20, most>>20)
	}
}

// together calls f with 0 to n-1, some at a time.
func together(n int, f func(i int)) {
	next := make(chan int)
	var workers sync.WaitGroup
	for range mqttDialers {
		workers.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	workers.Wait()
}

// TestMQTTIdleConnections connects many devices that subscribe and stay silent.
func TestMQTTIdleConnections(t *testing.T) {
	count := soakOr(mqttIdle, mqttIdleSoak)
	n := startNode(t, "--data", t.TempDir())
	resident(t, n, "no connections", mqttIdleRSS)
	peers := make([]*mqttPeer, count)
	together(count, func(i int) {
		p, err := tryMQTT(t, n.mqtt, mqttSession{id: fmt.Sprint("idle-", i), expiry: 60})
		if err != nil {
			t.Errorf("connection %d: %v", i, err)
			return
		}
		p.subscribe(t, fmt.Sprint("idle/", i), 1)
		peers[i] = p
	})
	resident(t, n, fmt.Sprint(count, " idle connections"), mqttIdleRSS)
	// They live: one of them gets what is for it.
	if p := peers[count/2]; p != nil {
		dialMQTT(t, n.mqtt, mqttSession{id: "publisher"}).must(t, publication{topic: fmt.Sprint("idle/", count/2), body: "x"})
		p.next(t)
	}
	n.alive()
}

// TestMQTTSessionsThatAreAway has many devices go away, and publishes to all of
// them. After a kill the broker is there at once, and so is each session.
func TestMQTTSessionsThatAreAway(t *testing.T) {
	count := soakOr(mqttAway, mqttAwaySoak)
	data := t.TempDir()
	n := startNode(t, "--data", data)
	session := func(i int) mqttSession { return mqttSession{id: fmt.Sprint("away-", i), expiry: 3600} }
	together(count, func(i int) {
		p, err := tryMQTT(t, n.mqtt, session(i))
		if err != nil {
			t.Errorf("session %d: %v", i, err)
			return
		}
		p.subscribe(t, fmt.Sprintf("away/%d/#", i%(count/mqttAway)), 1)
		_ = p.write(packets.NewControlPacket(packets.DISCONNECT))
		_ = p.conn.Close()
	})
	publisher := dialMQTT(t, n.mqtt, mqttSession{id: "publisher"})
	slowest := time.Duration(0)
	for group := range count / mqttAway {
		for body := range mqttAwayBodies {
			began := time.Now()
			publisher.must(t, publication{topic: fmt.Sprintf("away/%d/x", group), body: strconv.Itoa(body)})
			slowest = max(slowest, time.Since(began))
		}
	}
	t.Logf("a message for %d sessions was acknowledged within %v", mqttAway, slowest)
	resident(t, n, fmt.Sprintf("%d sessions away with %d messages each", count, mqttAwayBodies), mqttAwayRSS)
	n.kill()
	began := time.Now()
	n = startNode(t, "--data", data)
	started := time.Since(began)
	t.Logf("started again after %v", started)
	if started > mqttAwayStart {
		t.Errorf("the start took %v, over %v", started, mqttAwayStart)
	}
	for _, i := range []int{0, count / 2, count - 1} {
		began := time.Now()
		p := dialMQTT(t, n.mqtt, session(i))
		for body := range mqttAwayBodies {
			if m := p.next(t); string(m.Payload) != strconv.Itoa(body) || !p.present {
				t.Fatalf("session %d: got %v, want %d; present: %v", i, m, body, p.present)
			}
		}
		t.Logf("session %d had its messages after %v", i, time.Since(began))
	}
	resident(t, n, "after the start", mqttAwayRSS)
	n.alive()
}

// TestMQTTRetainedReachASubscriberOfAll keeps many messages, and has one client
// subscribe to all.
func TestMQTTRetainedReachASubscriberOfAll(t *testing.T) {
	count := soakOr(mqttKept, mqttKeptSoak)
	n := startNode(t, "--data", t.TempDir())
	p := dialMQTT(t, n.mqtt, mqttSession{id: "keeper"})
	for first := 0; first < count; first += mqttScaleWindow {
		last := min(first+mqttScaleWindow, count)
		for i := first; i < last; i++ {
			m := publication{topic: fmt.Sprintf("kept/%d/%d", i%100, i), body: strconv.Itoa(i), qos: 1, id: uint16(i-first) + 1, retain: true}
			if err := p.write(m.packet()); err != nil {
				t.Fatal(err)
			}
		}
		for range last - first {
			if _, err := p.await(packets.PUBACK); err != nil {
				t.Fatal(err)
			}
		}
	}
	all := dialMQTT(t, n.mqtt, mqttSession{id: "all"})
	began := time.Now()
	all.subscribe(t, "kept/#", 1)
	seen := make([]bool, count)
	for range count {
		m := all.next(t)
		i, err := strconv.Atoi(string(m.Payload))
		if err != nil || i >= count || seen[i] || !m.Retain {
			t.Fatalf("got %v, which is no retained message, or came before", m)
		}
		seen[i] = true
	}
	t.Logf("%d retained messages came within %v", count, time.Since(began))
	resident(t, n, "after the replay", mqttKeptRSS)
	n.alive()
}
