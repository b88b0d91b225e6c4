package e2e

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestTermDrains stops a loaded broker with SIGTERM: it ends with exit code 0 in
// time, parked long polls are answered, and nothing acknowledged is lost.
func TestTermDrains(t *testing.T) {
	r, data := newRand(t), t.TempDir()
	c := &crashLoad{
		t: t, ledger: newLedger(crashVisibility, fifoQueue),
		urls: make(map[string]string), next: make(map[lane]int), again: make(map[lane]bool),
	}
	n := startNode(t, "--data", data)
	client := c.meet(n)
	empty := client.createQueue(t, "empty", nil)
	polls := parkPolls(t, n, empty, 20)

	var stop atomic.Bool
	var load sync.WaitGroup
	for i := range crashProducers {
		r := rand.New(rand.NewPCG(r.Uint64(), 1))
		load.Go(func() { c.drainProduce(n.sqs, i, r, &stop) })
	}
	if err := eventually(startMax, func() (bool, error) { return c.acknowledged() > 200, nil }); err != nil {
		t.Fatalf("the load did not get under way: %v", err)
	}
	began := time.Now()
	if code := n.stop(); code != 0 {
		t.Errorf("exit code %d after SIGTERM, want 0\n%s", code, n.log)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the end took %v", took)
	} else {
		t.Logf("SIGTERM to the end of the process: %v", took)
	}
	stop.Store(true)
	load.Wait()
	for i, p := range polls {
		a, err := p.conn.Read()
		if err != nil || a.Status != 200 || string(a.Body) != "{}" {
			t.Errorf("parked long poll %d: status %d, %q, %v; want 200 and {}", i, a.Status, a.Body, err)
		}
	}
	c.ledger.restarted()

	n = startNode(t, "--data", data)
	c.drain(c.meet(n))
	t.Log(c.ledger.totals())
	for _, v := range c.ledger.finish() {
		t.Error(v)
	}
}

// drainProduce sends until the broker refuses or is gone; a refusal while it
// drains is no trouble.
func (c *crashLoad) drainProduce(addr string, producer int, r *rand.Rand, stop *atomic.Bool) {
	client, err := tryRaw(c.t, addr)
	if err != nil {
		c.ledger.trouble("connect: %v", err)
		return
	}
	for number := 0; !stop.Load(); number++ {
		k := key{standardQueue, producer, number}
		if r.IntN(2) == 0 {
			k.queue, k.group = fifoQueue, producer
		}
		m := crashMessage(k)
		m.QueueUrl = c.urls[k.queue]
		c.ledger.sending(k)
		out, err := client.send(m)
		if err != nil {
			return
		}
		c.ledger.sent(k, out.MessageId)
	}
}

// acknowledged counts the sends that were answered.
func (c *crashLoad) acknowledged() int {
	c.ledger.mu.Lock()
	defer c.ledger.mu.Unlock()
	n := 0
	for _, e := range c.ledger.entries {
		if e.acked {
			n++
		}
	}
	return n
}

// parkPolls sends long polls on connections of their own and leaves them
// waiting.
func parkPolls(t *testing.T, n *node, queue string, count int) []*raw {
	t.Helper()
	polls := make([]*raw, count)
	for i := range polls {
		polls[i] = dialRaw(t, n)
		polls[i].post(t, "ReceiveMessage", receiveInput(queue, 1, 20))
	}
	return polls
}
