package e2e

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/leasemq/broker/cmd/broker/bench"
)

// The shape of TestAMessageWakesOnePoll.
const (
	wakePolls         = 1000
	wakePollsSoak     = 10_000
	wakePollsPerQueue = 10
	wakeRSSBytes      = 400 << 20 // with wakePollsSoak
	wakeWait          = 20        // seconds, of each poll
)

// TestAMessageWakesOnePoll parks ten long polls at each of many queues and sends
// one message to each queue: one poll has it, the others stay. The memory of the
// parked polls, and the time from a send to its arrival, stand in the log.
func TestAMessageWakesOnePoll(t *testing.T) {
	count := wakePolls
	if os.Getenv("LEASEMQ_SOAK") != "" {
		count = wakePollsSoak
	}
	if s := os.Getenv("LEASEMQ_POLLS"); s != "" {
		var err error
		if count, err = strconv.Atoi(s); err != nil {
			t.Fatalf("LEASEMQ_POLLS: %v", err)
		}
	}
	n := startNode(t, "--data", t.TempDir())
	client := dialRaw(t, n)
	w := &wakeTest{t: t, n: n, arrivals: make(chan pollAnswer, count)}
	for i := range count / wakePollsPerQueue {
		w.queues = append(w.queues, client.createQueue(t, fmt.Sprint("q", i), nil))
	}
	idle, _ := bench.ProcessMemory(n.pid())
	w.park()
	w.awaitParked(wakePollsPerQueue)
	if mem, err := bench.ProcessMemory(n.pid()); err == nil {
		t.Logf("%d parked long polls on %d queues: %d MiB resident, %d before", count, len(w.queues), mem.RSS>>20, idle.RSS>>20)
		if mem.RSS > wakeRSSBytes {
			t.Errorf("parked long polls keep %d MiB resident", mem.RSS>>20)
		}
	}
	var took []time.Duration
	for i := range w.queues {
		took = append(took, w.wakeOne(client, i))
	}
	w.awaitParked(wakePollsPerQueue - 1)
	select {
	case a := <-w.arrivals:
		t.Errorf("a poll of queue %d was answered too: %q, %v", a.queue, a.answer, a.err)
	default:
	}
	slices.Sort(took)
	t.Logf("from send to arrival: median %v, 99 %% within %v, at most %v", took[len(took)/2], took[len(took)*99/100], took[len(took)-1])
}

// wakeTest is what parks and is woken.
type wakeTest struct {
	t        *testing.T
	n        *node
	queues   []string
	arrivals chan pollAnswer
	parked   time.Time // when the first poll was
}

// pollAnswer is the answer to a poll.
type pollAnswer struct {
	queue  int
	at     time.Time
	answer []byte
	err    error
}

// park sends the polls and starts to wait for their answers.
func (w *wakeTest) park() {
	w.t.Helper()
	w.parked = time.Now()
	for range wakePollsPerQueue {
		for i, queue := range w.queues {
			conn := parkGhost(w.t, w.n, queue)
			go func() { w.arrivals <- readAnswer(i, conn) }()
		}
	}
}

// readAnswer reads one answer, which is small, and no more of the connection.
func readAnswer(queue int, conn net.Conn) pollAnswer {
	b := make([]byte, 2048)
	n, err := conn.Read(b)
	return pollAnswer{queue: queue, at: time.Now(), answer: b[:n], err: err}
}

// awaitParked wants that many polls to be parked at each queue.
func (w *wakeTest) awaitParked(count int) {
	w.t.Helper()
	for i := range w.queues {
		if err := awaitWaiters(w.t, w.n, fmt.Sprint("q", i), count); err != nil {
			w.t.Fatalf("queue %d: %v", i, err)
		}
	}
	if over := time.Since(w.parked); over > wakeWait*time.Second {
		w.t.Skipf("this machine took %v: the polls are over", over)
	}
}

// wakeOne sends one message to a queue, wants one poll of that queue to get it,
// and returns what that took.
func (w *wakeTest) wakeOne(client *raw, queue int) time.Duration {
	w.t.Helper()
	body := fmt.Sprintf("for-%d.", queue)
	sent := time.Now()
	if _, err := client.send(rawSend{QueueUrl: w.queues[queue], MessageBody: body}); err != nil {
		w.t.Fatalf("send: %v", err)
	}
	select {
	case a := <-w.arrivals:
		if a.err != nil || a.queue != queue || !bytes.HasPrefix(a.answer, []byte("HTTP/1.1 200")) || !bytes.Contains(a.answer, []byte(body)) {
			w.t.Fatalf("a poll of queue %d was answered %q, %v; want one of queue %d with its message", a.queue, a.answer, a.err, queue)
		}
		return a.at.Sub(sent)
	case <-time.After(wakeWait * time.Second):
		w.t.Fatalf("nobody got the message of queue %d", queue)
	}
	return 0
}
