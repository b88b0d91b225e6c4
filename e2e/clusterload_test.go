package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasemq/broker/cmd/broker/bench"
)

// The shape of the load on a cluster. It is bounded, so that two cores suffice for
// three nodes and the searches of the checks for what comes.
const (
	loadStandard   = "plain"
	loadFIFO       = "ordered.fifo"
	loadVisibility = 4 * time.Second
	loadProducers  = 3 // of each queue
	loadConsumers  = 3 // of each queue
	loadPause      = 6 * time.Millisecond
	loadGroups     = 8  // at a time
	loadGroupSends = 40 // then another group takes its place
	loadKeeps      = 3  // of a hundred messages that are received and let be
	callMax        = 4 * time.Second
	drainCallMax   = 20 * time.Second
	refusedPause   = 50 * time.Millisecond // after an answer that did not come
)

// clusterLoad is clients of a cluster that write down what they are told.
type clusterLoad struct {
	t       *testing.T
	journal *journal
	addrs   []string // of SQS listeners, any of which a client asks
	urls    map[string]string

	stopped atomic.Bool
	wg      sync.WaitGroup
	clients atomic.Int64
	sends   atomic.Int64 // numbers them

	mu     sync.Mutex
	groups [loadGroups]loadGroup
	made   int // groups so far
}

// loadGroup is a message group that is sent to.
type loadGroup struct {
	name string
	left int // sends until it is full
}

// startLoad makes the queues and begins. It ends with finish.
func startLoad(t *testing.T, j *journal, addrs ...string) *clusterLoad {
	t.Helper()
	l := &clusterLoad{t: t, journal: j, addrs: addrs, urls: make(map[string]string)}
	c := l.caller(callMax, rand.Uint64())
	defer c.close()
	visibility := strconv.Itoa(int(loadVisibility / time.Second))
	for name, attributes := range map[string]map[string]string{
		loadStandard: {"VisibilityTimeout": visibility},
		loadFIFO:     {"VisibilityTimeout": visibility, "FifoQueue": "true"},
	} {
		var out struct{ QueueUrl string }
		err := eventually(clusterMax, func() (bool, error) {
			o, refusal := c.once("CreateQueue", map[string]any{"QueueName": name, "Attributes": attributes}, &out)
			if refusal != "" {
				return false, errors.New(refusal)
			}
			return o == outcomeOK, nil
		})
		if err != nil {
			t.Fatalf("create queue %s: %v", name, err)
		}
		l.urls[name] = out.QueueUrl
	}
	for range loadProducers {
		l.start(l.produce)
		l.start(l.produceOrdered)
	}
	for range loadConsumers {
		l.start(func(c *caller) { l.consume(c, loadStandard, 5) })
		l.start(func(c *caller) { l.consume(c, loadFIFO, 1) }) // the model knows one at a time
	}
	t.Cleanup(l.stop)
	return l
}

func (l *clusterLoad) start(f func(*caller)) {
	c := l.caller(callMax, rand.Uint64())
	l.wg.Go(func() {
		defer c.close()
		for !l.stopped.Load() {
			f(c)
			time.Sleep(loadPause)
		}
	})
}

// stop ends the clients.
func (l *clusterLoad) stop() {
	l.stopped.Store(true)
	l.wg.Wait()
}

// more waits until clients were told often enough that a send and a delete went well.
func (l *clusterLoad) more(n int) {
	l.t.Helper()
	sends, deletes := l.journal.count(opSend)+n, l.journal.count(opDelete)+n
	err := eventually(clusterMax, func() (bool, error) {
		time.Sleep(watchPause)
		return l.journal.count(opSend) >= sends && l.journal.count(opDelete) >= deletes, nil
	})
	if err != nil {
		l.t.Fatalf("no %d more sends and deletes: %v; %s", n, err, l.journal.totals())
	}
}

// finish ends the load and judges the history.
func (l *clusterLoad) finish() {
	l.t.Helper()
	l.drain()
	l.journal.judge(l.t)
}

// drain ends the load, then receives and deletes all that is left.
func (l *clusterLoad) drain() {
	l.t.Helper()
	l.stop()
	c := l.caller(drainCallMax, 0)
	defer c.close()
	wait := int(loadVisibility/time.Second) + 1 // outlasts the leases of both queues
	for _, queue := range []string{loadStandard, loadFIFO} {
		empty := 0
		err := eventually(clusterMax, func() (bool, error) {
			switch n, ok := l.take(c, queue, 1, wait, 0); {
			case !ok:
				return false, nil
			case n > 0:
				empty = 0
				return false, nil
			}
			wait = 1
			empty++
			return empty == crashDrainPolls, nil
		})
		if err != nil {
			l.t.Errorf("drain %s: %v", queue, err)
		}
	}
}

// produce sends one message to the standard queue. What was not answered is not sent
// again: it would be another message.
func (l *clusterLoad) produce(c *caller) {
	id := "s" + strconv.FormatInt(l.sends.Add(1), 10)
	o := op{Kind: opSend, Queue: loadStandard, ID: id, Call: l.journal.now()}
	var out rawSent
	o.Outcome, o.Refusal = c.once("SendMessage", rawSend{QueueUrl: l.urls[loadStandard], MessageBody: id}, &out)
	o.MessageID = out.MessageId
	c.book(o)
}

// produceOrdered sends one message to a group, again and again under one
// deduplication id until there is an answer.
func (l *clusterLoad) produceOrdered(c *caller) {
	id := "f" + strconv.FormatInt(l.sends.Add(1), 10)
	o := op{Kind: opSend, Queue: loadFIFO, ID: id, Group: l.group(c.r), Call: l.journal.now()}
	in := rawSend{QueueUrl: l.urls[loadFIFO], MessageBody: id + " " + o.Group, MessageGroupId: o.Group, MessageDeduplicationId: id}
	var out rawSent
	o.Outcome, o.Refusal = c.repeat("SendMessage", in, &out)
	o.MessageID = out.MessageId
	if o.Outcome == outcomeOK {
		var err error
		if o.Sequence, err = strconv.ParseUint(out.SequenceNumber, 10, 64); err != nil {
			o.Refusal = err.Error()
		}
	}
	c.book(o)
}

// group returns one of the groups of this time.
func (l *clusterLoad) group(r *rand.Rand) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := &l.groups[r.IntN(loadGroups)]
	if g.left == 0 {
		l.made++
		*g = loadGroup{"g" + strconv.Itoa(l.made), loadGroupSends}
	}
	g.left--
	return g.name
}

// consume receives, and deletes most of it.
func (l *clusterLoad) consume(c *caller, queue string, most int) {
	l.take(c, queue, most, 1, loadKeeps)
}

// take receives once and deletes all but keeps of a hundred. It returns how many
// messages came, and whether there was an answer.
func (l *clusterLoad) take(c *caller, queue string, most, wait, keeps int) (int, bool) {
	o := op{Kind: opReceive, Queue: queue, Visibility: loadVisibility, Call: l.journal.now()}
	var out struct{ Messages []rawMessage }
	o.Outcome, o.Refusal = c.once("ReceiveMessage", receiveInput(l.urls[queue], most, wait), &out)
	if o.Outcome != outcomeOK {
		c.book(o)
		return 0, false
	}
	took := make([]op, 0, len(out.Messages))
	for _, m := range out.Messages {
		got := o
		got.ID, got.MessageID, got.Receipt = m.Body, m.MessageId, m.ReceiptHandle
		if n, err := fmt.Sscan(m.Body, &got.ID, &got.Group); n < 1 {
			got.Refusal = fmt.Sprintf("body %q: %v", m.Body, err)
		}
		c.book(got)
		took = append(took, got)
	}
	for _, got := range took {
		if c.r.IntN(100) < keeps {
			continue
		}
		d := op{Kind: opDelete, Queue: queue, Group: got.Group, ID: got.ID, Receipt: got.Receipt, Call: l.journal.now()}
		d.Outcome, d.Refusal = c.repeat("DeleteMessage", map[string]any{"QueueUrl": l.urls[queue], "ReceiptHandle": got.Receipt}, nil)
		c.book(d)
	}
	return len(took), true
}

// caller is one client, with one connection at a time.
type caller struct {
	load  *clusterLoad
	id    int
	r     *rand.Rand
	most  time.Duration // of a call
	at    int           // in the addresses
	asked string        // the last one
	conn  *raw          // nil: none
}

func (l *clusterLoad) caller(most time.Duration, seed uint64) *caller {
	id := int(l.clients.Add(1))
	r := rand.New(rand.NewPCG(seed, uint64(id)))
	return &caller{load: l, id: id, r: r, most: most, at: r.IntN(len(l.addrs))}
}

func (c *caller) book(o op) {
	o.Client, o.Node = c.id, c.asked
	c.load.journal.add(o)
}

func (c *caller) close() {
	if c.conn != nil {
		_ = c.conn.conn.Close()
		c.conn = nil
	}
}

// turn has the next call go to the next address.
func (c *caller) turn() {
	c.close()
	c.at = (c.at + 1) % len(c.load.addrs)
	time.Sleep(refusedPause)
}

// once makes one call. What was refused is told in the server's words; what was not
// answered well is unknown, unless nothing was sent.
func (c *caller) once(action string, in, out any) (o outcome, refusal string) {
	c.asked = c.load.addrs[c.at]
	if c.conn == nil {
		// Not the test's context: a test that ends still wants its answers.
		conn, err := bench.Dial(context.Background(), c.asked, c.most)
		if err != nil {
			c.turn()
			return outcomeFailed, ""
		}
		c.conn = &raw{conn: conn, writer: bench.Writer{Host: c.asked, Protocol: bench.ProtocolJSON}}
	}
	err := c.conn.call(action, in, out)
	var refused *refusedError
	switch {
	case err == nil:
		if c.conn.conn.Closing() {
			c.close()
		}
		return outcomeOK, ""
	case errors.As(err, &refused) && refused.status < 500:
		return outcomeFailed, refused.Error()
	}
	c.turn()
	return outcomeUnknown, ""
}

// repeat makes a call that may be made twice until it is answered, or the load has
// ended for long.
func (c *caller) repeat(action string, in, out any) (outcome, string) {
	started := time.Now()
	unknown := false
	for {
		o, refusal := c.once(action, in, out)
		switch {
		case o == outcomeOK:
			return o, ""
		case refusal != "" && unknown:
			return outcomeUnknown, "" // an earlier one may have worked
		case refusal != "":
			return o, refusal
		}
		unknown = unknown || o == outcomeUnknown
		if time.Since(started) > clusterMax {
			if unknown {
				return outcomeUnknown, ""
			}
			return outcomeFailed, ""
		}
	}
}
