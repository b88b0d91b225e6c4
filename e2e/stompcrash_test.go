package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasemq/broker/frontends/stomp/frame"
)

// The shape of the load of the kill test of STOMP.
const (
	stompKillsDefault = 5
	stompWindow       = 20 // frames that a producer has under way
	stompPrefetch     = 50
	stompMoverWindow  = 10
	stompPlain        = "plain"
	stompFrom         = "from" // messages of it are moved to stompTo in transactions
	stompTo           = "to"
	stompTopic        = "/topic/fan"
)

// stompParts are the queues that each transaction of a batcher sends to.
func stompParts() []string { return []string{"part0", "part1", "part2"} }

// stompFans are the queues of durable subscriptions to stompTopic.
func stompFans() []string { return []string{"fan0", "fan1", "fan2"} }

// stompEntry is what is known of one body.
type stompEntry struct {
	stored bool // its RECEIPT came, or that of its COMMIT
	acking bool // an ACK was sent, or a COMMIT that has it
	gone   bool // the RECEIPT of that came
	held   int  // the session that holds it; 0: none
}

// stompLedger books what clients of STOMP were told. A body is sent once, so that
// every arrival after that of a lost session tells something.
type stompLedger struct {
	mu         sync.Mutex
	next       int
	sessions   int
	entries    map[string]*stompEntry // by queue and body
	violations []string
}

func (l *stompLedger) violate(format string, args ...any) {
	l.violations = append(l.violations, fmt.Sprintf(format, args...))
}

func (l *stompLedger) entry(queue, body string) *stompEntry {
	e := l.entries[queue+" "+body]
	if e == nil {
		e = &stompEntry{}
		l.entries[queue+" "+body] = e
	}
	return e
}

// number returns a body that nobody has sent.
func (l *stompLedger) number() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next++
	return strconv.Itoa(l.next)
}

func (l *stompLedger) session() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sessions++
	return l.sessions
}

// book changes what is known of a body.
func (l *stompLedger) book(queue, body string, change func(e *stompEntry)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(l.entry(queue, body))
}

// arrived books a MESSAGE for a session.
func (l *stompLedger) arrived(session int, queue, body string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entry(queue, body)
	switch {
	case e.gone:
		l.violate("%s of %s came after the RECEIPT of its ACK", body, queue)
	case e.held != 0:
		l.violate("%s of %s came to session %d while session %d held it", body, queue, session, e.held)
	}
	e.held = session
}

// killed books that all sessions are over.
func (l *stompLedger) killed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries {
		e.held = 0
	}
}

// finish holds what was left against the book: how often each body stood in each
// queue in the end.
func (l *stompLedger) finish(left map[string]map[string]int) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for queue, bodies := range left {
		for body, n := range bodies {
			e := l.entry(queue, body)
			if n > 1 {
				l.violate("%s is in %s %d times", body, queue, n)
			}
			if e.gone {
				l.violate("%s is in %s after the RECEIPT of its ACK", body, queue)
			}
		}
	}
	for n := range l.next {
		body := strconv.Itoa(n + 1)
		if e := l.entry(stompPlain, body); e.stored && !e.acking && left[stompPlain][body] == 0 {
			l.violate("%s had its RECEIPT and is not in %s", body, stompPlain)
		}
		places := left[stompFrom][body] + left[stompTo][body]
		if e := l.entry(stompFrom, body); e.stored && places != 1 || places > 1 {
			l.violate("%s is in %s %d times, and in %s %d times", body, stompFrom, left[stompFrom][body], stompTo, left[stompTo][body])
		} else if e.gone && left[stompTo][body] == 0 {
			l.violate("%s was moved, and is not in %s", body, stompTo)
		}
		for _, queues := range [][]string{stompParts(), stompFans()} {
			parts := 0
			for _, q := range queues {
				parts += min(left[q][body], 1)
			}
			if parts != 0 && parts != len(queues) || parts == 0 && l.entry(queues[0], body).stored {
				l.violate("%s is not in all of %q: in %d", body, queues, parts)
			}
		}
	}
	return l.violations
}

// stompLoad is the load of one life of the broker. Its parts end with it.
type stompLoad struct {
	t *testing.T
	l *stompLedger
	n *node
}

// ended books how a part of the load ended: by the end of the connection, and no
// other way.
func (c *stompLoad) ended(who string, err error) {
	var refused *stompError
	if err == nil || errors.As(err, &refused) || errors.Is(err, os.ErrDeadlineExceeded) {
		c.l.mu.Lock()
		c.l.violate("%s: %v", who, err)
		c.l.mu.Unlock()
	}
}

// run loads the broker for a while and kills it in the middle of it.
func (c *stompLoad) run(r *rand.Rand) {
	var parts sync.WaitGroup
	for _, queue := range []string{stompPlain, stompPlain, stompFrom} {
		parts.Go(func() { c.part("producer", func(p *stompPeer) error { return c.produce(p, queue) }) })
	}
	for range 2 {
		parts.Go(func() { c.part("consumer", c.consume) })
		parts.Go(func() { c.part("mover", c.move) })
		parts.Go(func() { c.part("batcher", c.batch) })
		parts.Go(func() { c.part("publisher", c.publish) })
	}
	timer := time.NewTimer(crashRunMin + time.Duration(r.Int64N(int64(crashRunMax-crashRunMin))))
	select {
	case <-timer.C:
	case <-c.n.exited:
		c.t.Errorf("the broker ended by itself: %v\n%s", c.n.err, c.n.log)
	}
	c.n.kill()
	parts.Wait()
	c.l.killed()
}

func (c *stompLoad) part(who string, run func(p *stompPeer) error) {
	p, err := trySTOMP(c.t, c.n.stomp)
	if err == nil {
		err = run(p)
		_ = p.conn.Close()
	}
	c.ended(who, err)
}

// produce sends windows of messages, each with a receipt.
func (c *stompLoad) produce(p *stompPeer, queue string) error {
	for {
		var bodies []string
		var frames [][]byte
		for range stompWindow {
			body := c.l.number()
			bodies = append(bodies, body)
			frames = append(frames, stompOf("SEND", body, "destination", "/queue/"+queue, "receipt", body))
		}
		if err := p.write(frames...); err != nil {
			return err
		}
		for _, body := range bodies {
			f, err := p.read()
			if err != nil {
				return err
			}
			if f.headers["receipt-id"] != body {
				return &stompError{message: fmt.Sprintf("receipt %+v, want %s", f, body)}
			}
			c.l.book(queue, body, func(e *stompEntry) { e.stored = true })
		}
	}
}

// batch sends a message to each of some queues in a transaction.
func (c *stompLoad) batch(p *stompPeer) error {
	return c.oneByOne(p, stompParts()[0], func(body string) [][]byte {
		frames := [][]byte{stompOf("BEGIN", "", "transaction", body)}
		for _, queue := range stompParts() {
			frames = append(frames, stompOf("SEND", body, "destination", "/queue/"+queue, "transaction", body))
		}
		return append(frames, stompOf("COMMIT", "", "transaction", body, "receipt", body))
	})
}

// publish publishes to a topic.
func (c *stompLoad) publish(p *stompPeer) error {
	return c.oneByOne(p, stompFans()[0], func(body string) [][]byte {
		return [][]byte{stompOf("SEND", body, "destination", stompTopic, "receipt", body)}
	})
}

// oneByOne writes the frames of a body and waits for their RECEIPT, again and
// again. What is stored then is booked for queue.
func (c *stompLoad) oneByOne(p *stompPeer, queue string, frames func(body string) [][]byte) error {
	for {
		body := c.l.number()
		if err := p.write(frames(body)...); err != nil {
			return err
		}
		if f, err := p.read(); err != nil {
			return err
		} else if f.headers["receipt-id"] != body {
			return &stompError{message: fmt.Sprintf("receipt %+v, want %s", f, body)}
		}
		c.l.book(queue, body, func(e *stompEntry) { e.stored = true })
	}
}

// consume acknowledges most, rejects some, and lets some be.
func (c *stompLoad) consume(p *stompPeer) error {
	session, count := c.l.session(), 0
	return c.serve(p, session, stompPlain, stompPrefetch, func(body, ack string) [][]byte {
		count++
		switch {
		case count%11 == 0:
			return nil
		case count%7 == 0:
			// It may come again from here on.
			c.l.book(stompPlain, body, func(e *stompEntry) { e.held = 0 })
			return [][]byte{stompOf("NACK", "", "id", ack)}
		}
		c.l.book(stompPlain, body, func(e *stompEntry) { e.acking = true })
		return [][]byte{stompOf("ACK", "", "id", ack, "receipt", body)}
	})
}

// move moves messages from a queue to another one.
func (c *stompLoad) move(p *stompPeer) error {
	return c.serve(p, c.l.session(), stompFrom, stompMoverWindow, func(body, ack string) [][]byte {
		c.l.book(stompFrom, body, func(e *stompEntry) { e.acking = true })
		return [][]byte{
			stompOf("BEGIN", "", "transaction", body), stompOf("ACK", "", "id", ack, "transaction", body),
			stompOf("SEND", body, "destination", "/queue/"+stompTo, "transaction", body),
			stompOf("COMMIT", "", "transaction", body, "receipt", body),
		}
	})
}

// serve subscribes and answers each message with frames. A RECEIPT says that its
// body is gone from the queue.
func (c *stompLoad) serve(p *stompPeer, session int, queue string, prefetch int, answer func(body, ack string) [][]byte) error {
	err := p.write(stompOf("SUBSCRIBE", "", "id", "s", "destination", "/queue/"+queue, "ack", "client-individual", "prefetch-count", strconv.Itoa(prefetch)))
	for err == nil {
		var f stompFrame
		if f, err = p.read(); err != nil {
			break
		}
		if f.command == frame.Receipt {
			c.l.book(queue, f.headers["receipt-id"], func(e *stompEntry) { e.gone, e.held = true, 0 })
			continue
		}
		c.l.arrived(session, queue, f.body)
		if frames := answer(f.body, f.headers["ack"]); frames != nil {
			err = p.write(frames...)
		}
	}
	return err
}

// drainSTOMP returns how often each body is in each queue, and takes them out.
func drainSTOMP(t *testing.T, n *node) map[string]map[string]int {
	t.Helper()
	sqs := dialRaw(t, n)
	left := make(map[string]map[string]int)
	for _, queue := range slices.Concat([]string{stompPlain, stompFrom, stompTo}, stompParts(), stompFans()) {
		left[queue] = make(map[string]int)
		url := sqs.createQueue(t, queue, nil)
		for {
			a := sqs.attributes(t, url)
			if a["ApproximateNumberOfMessages"] == "0" && a["ApproximateNumberOfMessagesNotVisible"] == "0" {
				break
			}
			got, err := sqs.receive(url, 10, 1)
			if err != nil {
				t.Fatalf("drain %s: %v", queue, err)
			}
			for _, m := range got {
				left[queue][m.Body]++
				if err := sqs.delete(url, m.ReceiptHandle); err != nil {
					t.Fatalf("drain %s: %v", queue, err)
				}
			}
		}
	}
	return left
}

// killSTOMP loads and kills a broker and returns what was wrong.
func killSTOMP(t *testing.T, kills int, args ...string) []string {
	t.Helper()
	r := newRand(t)
	args = append(args, "--data", t.TempDir())
	l := &stompLedger{entries: make(map[string]*stompEntry)}
	for kill := range kills {
		load := &stompLoad{t: t, l: l, n: startNode(t, args...)}
		for _, queue := range stompFans() {
			if kill == 0 {
				p := dialSTOMP(t, load.n.stomp)
				p.must(t, "SUBSCRIBE", "", "id", "s", "destination", stompTopic, "ack", "client", "durable", "true", "x-queue-name", queue)
				p.must(t, "DISCONNECT", "")
			}
		}
		load.run(r)
	}
	n := startNode(t, args...)
	left := drainSTOMP(t, n)
	n.alive()
	violations := l.finish(left)
	stored, gone, open := 0, 0, 0
	for _, e := range l.entries {
		if e.stored {
			stored++
		}
		if e.gone {
			gone++
		}
	}
	for _, bodies := range left {
		open += len(bodies)
	}
	t.Logf("%d kills: %d bodies sent, %d with a RECEIPT, %d acknowledged with one, %d left", kills, l.next, stored, gone, open)
	return violations
}

// TestSTOMPKillLosesAndRepeatsNothing kills the broker again and again under a load
// of sends, acknowledgements and transactions of STOMP.
func TestSTOMPKillLosesAndRepeatsNothing(t *testing.T) {
	kills := stompKillsDefault
	if s := os.Getenv("LEASEMQ_KILLS"); s != "" {
		var err error
		if kills, err = strconv.Atoi(s); err != nil {
			t.Fatalf("LEASEMQ_KILLS: %v", err)
		}
	}
	violations := killSTOMP(t, kills)
	for _, v := range violations[:min(len(violations), crashViolations)] {
		t.Error(v)
	}
	if more := len(violations) - crashViolations; more > 0 {
		t.Errorf("and %d more", more)
	}
}

// TestSTOMPKillFindsLossWithoutSync is the proof that the test above can fail.
func TestSTOMPKillFindsLossWithoutSync(t *testing.T) {
	violations := killSTOMP(t, unsyncedKills, "--sync", "never")
	if !slices.ContainsFunc(violations, func(v string) bool { return strings.Contains(v, "is not in") }) {
		t.Errorf("%d kills without fsync went unnoticed: %q", unsyncedKills, violations)
	}
}
