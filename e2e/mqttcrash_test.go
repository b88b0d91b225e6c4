package e2e

import (
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/packets"
)

// How often the kill test of MQTT kills.
const (
	mqttKillsDefault = 5
	mqttKillsSoak    = 500
)

// mqttCrash is a publisher and a subscriber that live through kills of the broker.
type mqttCrash struct {
	t     *testing.T
	r     *rand.Rand
	args  []string
	giver *mqttGiver
	taker *mqttTaker
	known bool // the sessions were made
}

// life starts the broker, which kill kills right after that many messages were
// acknowledged; 0: it lives until all is done.
func (c *mqttCrash) life(last, acks int) {
	n := startNode(c.t, c.args...)
	giver, err1 := tryMQTT(c.t, n.mqtt, mqttSession{id: "giver", expiry: 3600})
	taker, err2 := tryMQTT(c.t, n.mqtt, mqttSession{id: "taker", expiry: 3600, receiveMax: uint16(c.taker.window)})
	if err1 != nil || err2 != nil {
		c.t.Fatalf("connect: %v, %v\n%s", err1, err2, n.log)
	}
	if c.known && !(giver.present && taker.present) {
		c.taker.violate("a session is gone")
	}
	if !taker.present {
		taker.subscribe(c.t, "k/#", 2)
	}
	c.known = true
	var taking sync.WaitGroup
	quiet := time.Now()
	done := func() bool {
		if len(c.taker.counts) >= last {
			return true
		}
		if acks > 0 {
			return false
		}
		// At the end what is lost does not come.
		if len(c.taker.open) > 0 {
			quiet = time.Now()
		}
		return time.Since(quiet) > 5*time.Second
	}
	taking.Go(func() {
		if err := c.taker.serve(taker, 1<<30, done); err != nil && (acks == 0 || !lost(err)) {
			c.t.Errorf("subscriber: %v\n%s", err, n.log)
		}
	})
	most := acks
	if most == 0 {
		most = 1 << 30
	}
	if err := c.giver.serve(giver, last, most); err != nil {
		c.t.Errorf("publisher: %v\n%s", err, n.log)
	}
	if acks > 0 {
		n.kill()
		taking.Wait()
		return
	}
	taking.Wait()
	n.alive()
	n.kill()
}

// killMQTT kills the broker again and again and returns what was wrong.
func killMQTT(t *testing.T, kills int, args ...string) []string {
	t.Helper()
	r := newRand(t)
	c := &mqttCrash{
		t: t, r: r, args: append(args, "--data", t.TempDir()), taker: newMQTTTaker(r, 20),
		giver: &mqttGiver{window: 30, next: 1, acked: map[int]bool{}},
	}
	c.taker.twice = true
	for range kills {
		acks := 1 + r.IntN(100)
		c.life(c.giver.next+10*acks, acks)
	}
	c.life(c.giver.next-1, 0)
	lost := 0
	for body := range c.giver.acked {
		if c.taker.counts[body] == 0 {
			lost++
		}
	}
	violations := append(c.giver.violations, c.taker.violations...)
	if lost > 0 {
		violations = append(violations, strconv.Itoa(lost)+" messages were acknowledged and are lost")
	}
	if n := c.giver.next - 1; len(c.giver.acked) != n {
		violations = append(violations, strconv.Itoa(n-len(c.giver.acked))+" messages are not acknowledged in the end")
	}
	t.Logf("%d kills, %d messages", kills, c.giver.next-1)
	return violations
}

// TestMQTTKillRightAfterAcks kills the broker right after a PUBACK or PUBREC:
// nothing acknowledged is lost, and nothing of QoS 2 comes twice.
func TestMQTTKillRightAfterAcks(t *testing.T) {
	kills := mqttKillsDefault
	if os.Getenv("LEASEMQ_SOAK") != "" {
		kills = mqttKillsSoak
	}
	if s := os.Getenv("LEASEMQ_KILLS"); s != "" {
		var err error
		if kills, err = strconv.Atoi(s); err != nil {
			t.Fatalf("LEASEMQ_KILLS: %v", err)
		}
	}
	violations := killMQTT(t, kills)
	for _, v := range violations[:min(len(violations), crashViolations)] {
		t.Error(v)
	}
}

// TestMQTTKillFindsLossWithoutSync is the proof that the test above can fail.
func TestMQTTKillFindsLossWithoutSync(t *testing.T) {
	violations := strings.Join(killMQTT(t, unsyncedKills, "--sync", "never"), "\n")
	if !strings.Contains(violations, "lost") && !strings.Contains(violations, "gone") {
		t.Errorf("%d kills without fsync went unnoticed: %q", unsyncedKills, violations)
	}
}

// TestMQTTRandomAcksAndDisconnects has a subscriber acknowledge in random order and
// lose its connection again and again.
func TestMQTTRandomAcksAndDisconnects(t *testing.T) {
	r := newRand(t)
	last := 1500
	if os.Getenv("LEASEMQ_SOAK") != "" {
		last = 100_000
	}
	n := startNode(t, "--data", t.TempDir())
	k := newMQTTTaker(r, 15)
	session := mqttSession{id: "taker", expiry: 3600, receiveMax: 15}
	first := dialMQTT(t, n.mqtt, session)
	first.subscribe(t, "k/#", 2)
	g := &mqttGiver{window: 50, next: 1, acked: map[int]bool{}}
	var giving sync.WaitGroup
	giving.Go(func() {
		p, err := tryMQTT(t, n.mqtt, mqttSession{id: "giver", expiry: 3600})
		if err == nil {
			err = g.serve(p, last, 1<<30)
		}
		if err != nil {
			t.Errorf("publisher: %v", err)
		}
	})
	p, lives := first, 0
	limit := time.Now().Add(time.Minute + time.Duration(last)*10*time.Millisecond)
	for len(k.counts) < last && time.Now().Before(limit) {
		if err := k.serve(p, 1+r.IntN(400), func() bool { return len(k.counts) >= last }); err != nil {
			t.Fatalf("subscriber: %v\n%s", err, n.log)
		}
		if len(k.counts) >= last {
			break
		}
		if lives++; r.IntN(2) == 0 {
			if err := p.write(packets.NewControlPacket(packets.DISCONNECT)); err != nil {
				t.Fatal(err)
			}
		}
		_ = p.conn.Close()
		if p = dialMQTT(t, n.mqtt, session); !p.present {
			t.Fatal("the session is gone")
		}
	}
	giving.Wait()
	for _, v := range append(k.violations, g.violations...)[:min(len(k.violations)+len(g.violations), crashViolations)] {
		t.Error(v)
	}
	if len(k.counts) != last {
		t.Errorf("%d of %d messages came", len(k.counts), last)
	}
	t.Logf("%d connections", lives+1)
	n.alive()
}
