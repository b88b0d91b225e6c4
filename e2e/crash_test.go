package e2e

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The shape of the load of the kill test.
const (
	killsDefault     = 10
	unsyncedKills    = 3
	crashVisibility  = 5 * time.Second
	crashProducers   = 4  // of each queue; on the FIFO queue each has groups of its own
	crashConsumers   = 4  // of each queue
	crashGroups      = 16 // a producer
	crashBodyMax     = 2000
	crashRunMin      = 30 * time.Millisecond
	crashRunMax      = 500 * time.Millisecond
	crashDrainPolls  = 3 // empty ones in a row end the last drain
	standardQueue    = "plain"
	fifoQueue        = "ordered.fifo"
	crashViolations  = 20 // shown
	crashAttribute   = "check"
	crashBinary      = "raw"
	crashMessageSalt = 0x9e3779b97f4a7c15
)

// crashMessage makes the message of k. All of it follows from the key, so that
// every arrival can be compared as a whole.
func crashMessage(k key) rawSend {
	r := rand.New(rand.NewPCG(crashMessageSalt, uint64(k.group)<<32|uint64(k.number)))
	head := k.queue + " " + strconv.Itoa(k.group) + " " + strconv.Itoa(k.number) + " "
	filling := make([]byte, r.IntN(crashBodyMax))
	for i := range filling {
		filling[i] = byte('!' + r.IntN(94))
	}
	binary := []byte{0, 255, byte(k.number)}
	m := rawSend{
		MessageBody: head + string(filling) + " äöü€😀 <&>\"'\\",
		MessageAttributes: map[string]rawAttribute{
			crashAttribute: {DataType: "Number.int", StringValue: strconv.Itoa(k.number)},
			crashBinary:    {DataType: "Binary", BinaryValue: binary},
		},
	}
	if k.queue == fifoQueue {
		m.MessageGroupId = "group-" + strconv.Itoa(k.group)
		m.MessageDeduplicationId = fmt.Sprintf("%d-%d", k.group, k.number)
	}
	return m
}

// arrivalOf reads a received message back.
func arrivalOf(m rawMessage) (arrival, error) {
	parts := strings.SplitN(m.Body, " ", 4)
	if len(parts) < 4 {
		return arrival{}, fmt.Errorf("body %q names no message", m.Body)
	}
	group, err1 := strconv.Atoi(parts[1])
	number, err2 := strconv.Atoi(parts[2])
	count, err3 := strconv.Atoi(m.Attributes["ApproximateReceiveCount"])
	if err := errors.Join(err1, err2, err3); err != nil {
		return arrival{}, fmt.Errorf("message %+v: %w", m, err)
	}
	k := key{parts[0], group, number}
	want := crashMessage(k)
	whole := m.Body == want.MessageBody && len(m.MessageAttributes) == len(want.MessageAttributes) &&
		m.Attributes["MessageGroupId"] == want.MessageGroupId
	for name, a := range want.MessageAttributes {
		got := m.MessageAttributes[name]
		whole = whole && got.DataType == a.DataType && got.StringValue == a.StringValue &&
			base64.StdEncoding.EncodeToString(got.BinaryValue) == base64.StdEncoding.EncodeToString(a.BinaryValue)
	}
	return arrival{k, m.MessageId, m.ReceiptHandle, count, whole}, nil
}

// heldHandle is a lease that a consumer takes with it over a crash.
type heldHandle struct {
	key    key
	handle string
}

// crashLoad is the load of one test over all lives of the broker.
type crashLoad struct {
	t      *testing.T
	ledger *ledger
	urls   map[string]string
	next   map[lane]int  // number of the next message; each lane has one producer
	again  map[lane]bool // the last send of the lane was not answered: send it again

	mu   sync.Mutex
	held []heldHandle
}

// killed tells whether err is what a client sees when the broker is killed.
func killed(err error) bool {
	var refused *refusedError
	return err != nil && !errors.As(err, &refused)
}

// produce sends until the broker is gone.
func (c *crashLoad) produce(addr string, queue string, producer int, r *rand.Rand, stop *atomic.Bool) {
	client, err := tryRaw(c.t, addr)
	if err != nil {
		return // killed before it began
	}
	for !stop.Load() {
		group := producer
		if queue == fifoQueue {
			group = producer*crashGroups + r.IntN(crashGroups)
		}
		at := lane{queue, group}
		c.mu.Lock()
		n := c.next[at]
		// What was not answered is sent again under the same deduplication id,
		// or given up.
		if c.again[at] && queue == fifoQueue && r.IntN(2) == 0 {
			n--
		}
		c.next[at], c.again[at] = n+1, false
		c.mu.Unlock()
		k := key{queue, group, n}
		m := crashMessage(k)
		m.QueueUrl = c.urls[queue]
		c.ledger.sending(k)
		out, err := client.send(m)
		if err != nil {
			c.mu.Lock()
			c.again[at] = true
			c.mu.Unlock()
			if !killed(err) {
				c.ledger.trouble("send of %s: %v", k, err)
			}
			return
		}
		c.ledger.sent(k, out.MessageId)
	}
}

// consume receives until the broker is gone. It deletes most, gives some back,
// lets some be, and keeps some handles over the crash.
func (c *crashLoad) consume(addr, queue string, r *rand.Rand, stop *atomic.Bool) {
	client, err := tryRaw(c.t, addr)
	if err != nil {
		return
	}
	for !stop.Load() {
		batch, err := c.receiveOnce(client, queue, 1+r.IntN(10), 1)
		if err != nil {
			return
		}
		for _, a := range batch {
			switch x := r.IntN(100); {
			case x < 85:
				err = c.deleteOnce(client, a.key, a.handle)
			case x < 90:
				err = c.giveBack(client, a)
			case x < 97:
				c.mu.Lock()
				c.held = append(c.held, heldHandle{a.key, a.handle})
				c.mu.Unlock()
			}
			if err != nil {
				return
			}
		}
	}
}

// receiveOnce makes one receive and books it.
func (c *crashLoad) receiveOnce(client *raw, queue string, most, wait int) ([]arrival, error) {
	asked := time.Now()
	got, err := client.receive(c.urls[queue], most, wait)
	now := time.Now()
	if err != nil {
		if !killed(err) {
			c.ledger.trouble("receive from %s: %v", queue, err)
		}
		return nil, err
	}
	batch := make([]arrival, 0, len(got))
	for _, m := range got {
		a, err := arrivalOf(m)
		if err != nil {
			c.ledger.trouble("%v", err)
			return nil, err
		}
		batch = append(batch, a)
	}
	c.ledger.received(asked, now, batch)
	return batch, nil
}

// deleteOnce makes one delete and books it. On a FIFO queue a handle whose
// lease has ended is refused, which the ledger judges.
func (c *crashLoad) deleteOnce(client *raw, k key, handle string) error {
	c.ledger.deleting(k)
	err := client.delete(c.urls[k.queue], handle)
	switch {
	case err == nil:
		c.ledger.deleted(k, handle, time.Now())
	case killed(err):
		return err
	default:
		c.ledger.refused(k, handle, time.Now(), err)
	}
	return nil
}

// giveBack makes a message visible at once.
func (c *crashLoad) giveBack(client *raw, a arrival) error {
	leased := c.ledger.released(a.key, a.handle, time.Now())
	err := client.setVisibility(c.urls[a.key.queue], a.handle, 0)
	switch {
	case killed(err):
		return err
	case err != nil && leased:
		c.ledger.trouble("visibility of %s: %v", a.key, err)
	}
	return nil
}

// settleHeld deletes, with nothing else going on, by handles of the life before.
func (c *crashLoad) settleHeld(client *raw) {
	held := c.held
	c.held = nil
	for _, h := range held {
		if err := c.deleteOnce(client, h.key, h.handle); err != nil {
			c.t.Fatalf("delete of %s by a handle from before the crash: %v", h.key, err)
		}
	}
}

// run loads the broker for a while and kills it in the middle of it.
func (c *crashLoad) run(n *node, r *rand.Rand) {
	var stop atomic.Bool
	var wg sync.WaitGroup
	for _, queue := range []string{standardQueue, fifoQueue} {
		for i := range crashProducers {
			r := rand.New(rand.NewPCG(r.Uint64(), 1))
			wg.Go(func() { c.produce(n.sqs, queue, i, r, &stop) })
		}
		for range crashConsumers {
			r := rand.New(rand.NewPCG(r.Uint64(), 2))
			wg.Go(func() { c.consume(n.sqs, queue, r, &stop) })
		}
	}
	timer := time.NewTimer(crashRunMin + time.Duration(r.Int64N(int64(crashRunMax-crashRunMin))))
	select {
	case <-timer.C:
	case <-n.exited:
		c.t.Errorf("the broker ended by itself: %v\n%s", n.err, n.log)
	}
	n.kill()
	stop.Store(true)
	wg.Wait()
}

// drain receives and deletes what is left, until leases of the past have run
// out too.
func (c *crashLoad) drain(client *raw) {
	// The first long wait that brings nothing outlasts the leases of both queues.
	wait := int(crashVisibility/time.Second) + 1
	for _, queue := range []string{standardQueue, fifoQueue} {
		for empty := 0; empty < crashDrainPolls; {
			batch, err := c.receiveOnce(client, queue, 10, wait)
			if err != nil {
				c.t.Fatalf("drain %s: %v", queue, err)
			}
			if len(batch) == 0 {
				empty++
				wait = 1
				continue
			}
			empty = 0
			for _, a := range batch {
				if err := c.deleteOnce(client, a.key, a.handle); err != nil {
					c.t.Fatalf("drain %s: %v", queue, err)
				}
			}
		}
	}
}

// TestKillLosesAndRepeatsNothing kills the broker again and again under load and
// holds everything that clients were told against what comes after.
func TestKillLosesAndRepeatsNothing(t *testing.T) {
	kills := killsDefault
	if s := os.Getenv("LEASEMQ_KILLS"); s != "" {
		var err error
		if kills, err = strconv.Atoi(s); err != nil {
			t.Fatalf("LEASEMQ_KILLS: %v", err)
		}
	}
	violations := killAgainAndAgain(t, kills)
	for i, v := range violations {
		if i == crashViolations {
			t.Errorf("and %d more", len(violations)-i)
			break
		}
		t.Error(v)
	}
}

// TestKillFindsLossWithoutSync is the proof that the test above can fail: a
// broker that answers before anything has left the process must be caught.
func TestKillFindsLossWithoutSync(t *testing.T) {
	violations := killAgainAndAgain(t, unsyncedKills, "--sync", "never")
	if len(violations) == 0 {
		t.Errorf("%d kills without fsync went unnoticed", unsyncedKills)
	} else {
		t.Logf("%d violations, the first: %s", len(violations), violations[0])
	}
}

// killAgainAndAgain loads and kills a broker with those further arguments, drains
// it, and returns what was wrong.
func killAgainAndAgain(t *testing.T, kills int, args ...string) []string {
	t.Helper()
	r := newRand(t)
	args = append(args, "--data", t.TempDir())
	c := &crashLoad{
		t: t, ledger: newLedger(crashVisibility, fifoQueue),
		urls: make(map[string]string), next: make(map[lane]int), again: make(map[lane]bool),
	}
	for range kills {
		n := startNode(t, args...)
		c.meet(n)
		c.run(n, r)
		c.ledger.restarted()
	}
	n := startNode(t, args...)
	client := c.meet(n)
	c.drain(client)
	c.wantEmpty(n, client)
	if code := n.stop(); code != 0 {
		t.Errorf("exit code %d after SIGTERM\n%s", code, n.log)
	}
	c.ledger.restarted()
	n = startNode(t, args...)
	c.wantEmpty(n, c.meet(n))
	violations := c.ledger.finish()
	t.Logf("%d kills: %s", kills, c.ledger.totals())
	return violations
}

// meet connects to a fresh process, makes or finds the queues, and settles what
// the life before has left.
func (c *crashLoad) meet(n *node) *raw {
	client := dialRaw(c.t, n)
	visibility := strconv.Itoa(int(crashVisibility / time.Second))
	c.urls[standardQueue] = client.createQueue(c.t, standardQueue, map[string]string{"VisibilityTimeout": visibility})
	c.urls[fifoQueue] = client.createQueue(c.t, fifoQueue, map[string]string{"VisibilityTimeout": visibility, "FifoQueue": "true"})
	c.settleHeld(client)
	return client
}

// wantEmpty wants both queues to hold nothing.
func (c *crashLoad) wantEmpty(n *node, client *raw) {
	for _, queue := range []string{standardQueue, fifoQueue} {
		a := client.attributes(c.t, c.urls[queue])
		for _, name := range []string{"ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesDelayed"} {
			if a[name] != "0" {
				c.t.Errorf("%s of %s is %s after the drain, want 0", name, queue, a[name])
			}
		}
	}
	n.alive()
}
