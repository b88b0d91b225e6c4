package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// The shape of TestClientsThatVanishDuringASend.
const (
	raceTries      = 100
	raceTriesSoak  = 1000
	raceSpread     = 700 * time.Microsecond // between the send and the end of the client, either way
	raceVisibility = 5                      // seconds
)

// vanishing is a way in which a client goes.
type vanishing struct {
	name string
	gone bool // it reads no answer any more
	end  func(c *net.TCPConn) error
}

func vanishings() []vanishing {
	return []vanishing{
		{"FIN", true, func(c *net.TCPConn) error { return c.Close() }},
		{"RST", true, func(c *net.TCPConn) error { return errors.Join(c.SetLinger(0), c.Close()) }},
		{"half-close", false, func(c *net.TCPConn) error { return c.CloseWrite() }},
	}
}

// TestClientsThatVanishDuringASend has clients of long polls vanish at about the
// time when a message is sent. One that has gone before the send never keeps the
// message from the next client. Where both race, the broker may have answered
// before it could know: how often stands in the log, and each such message comes
// back, at the latest when its visibility ends.
func TestClientsThatVanishDuringASend(t *testing.T) {
	tries := raceTries
	if os.Getenv("LEASEMQ_SOAK") != "" {
		tries = raceTriesSoak
	}
	n := startNode(t, "--data", t.TempDir())
	v := &vanishTest{t: t, n: n, client: dialRaw(t, n), sender: dialRaw(t, n), r: newRand(t), count: make(map[string]int)}
	v.newQueue()
	for try := range tries {
		v.try(fmt.Sprintf("body-%d.", try), vanishings()[try%3])
	}
	for _, queue := range v.stuck {
		got, err := v.client.receive(queue, 1, raceVisibility+5)
		if err != nil || len(got) != 1 || got[0].Attributes["ApproximateReceiveCount"] != "2" {
			t.Errorf("%s: got %+v, %v; want the message that a vanished client held, received twice", queue, got, err)
		}
	}
	t.Logf("%d tries: %v", tries, v.count)
}

// vanishTest is what clients vanish from.
type vanishTest struct {
	t              *testing.T
	n              *node
	client, sender *raw
	r              *rand.Rand
	name, queue    string
	stuck          []string       // queues whose message is held by a client that has gone
	count          map[string]int // of what became of the tries
}

func (v *vanishTest) newQueue() {
	v.t.Helper()
	v.name = fmt.Sprint("q", len(v.stuck))
	v.queue = v.client.createQueue(v.t, v.name, map[string]string{"VisibilityTimeout": fmt.Sprint(raceVisibility)})
}

// try has one client vanish while one message is sent.
func (v *vanishTest) try(body string, how vanishing) {
	v.t.Helper()
	ghost := parkGhost(v.t, v.n, v.queue).(*net.TCPConn)
	if err := awaitWaiters(v.t, v.n, v.name, 1); err != nil {
		v.t.Fatalf("%s: %v", body, err)
	}
	var ended time.Time
	done := make(chan error, 1)
	pause := time.Duration(v.r.Int64N(int64(3 * raceSpread)))
	go func() {
		spin(raceSpread)
		err := how.end(ghost)
		ended = time.Now()
		done <- err
	}()
	spin(pause)
	sent := time.Now()
	if _, err := v.sender.send(rawSend{QueueUrl: v.queue, MessageBody: body}); err != nil {
		v.t.Fatalf("%s: send: %v", body, err)
	}
	if err := <-done; err != nil {
		v.t.Fatalf("%s: %s: %v", body, how.name, err)
	}
	first := "raced"
	if ended.Before(sent) {
		first = "gone first"
	}
	v.count[how.name+", "+first+": "+v.settle(body, how, ended.Before(sent), ghost)]++
}

// settle tells who has the message, and deletes it if that is the next client.
func (v *vanishTest) settle(body string, how vanishing, goneFirst bool, ghost net.Conn) string {
	v.t.Helper()
	wait := 1
	if goneFirst {
		wait = raceVisibility - 2 // a lease would show
	}
	got, err := v.client.receive(v.queue, 1, wait)
	if err != nil {
		v.t.Fatalf("%s: receive: %v", body, err)
	}
	if len(got) == 0 && goneFirst {
		v.t.Fatalf("%s: %s came before the send, and the message is held", body, how.name)
	}
	if len(got) == 0 {
		what := "held"
		if !how.gone && readsMessage(ghost, body) {
			what = "answered"
		}
		v.stuck = append(v.stuck, v.queue)
		v.newQueue()
		return what
	}
	count := got[0].Attributes["ApproximateReceiveCount"]
	if got[0].Body != body || goneFirst && count != "1" {
		v.t.Fatalf("%s: %s: got %+v, want the message, received for the first time", body, how.name, got[0])
	}
	if err := v.client.delete(v.queue, got[0].ReceiptHandle); err != nil {
		v.t.Fatalf("%s: delete: %v", body, err)
	}
	if count != "1" {
		return "came back at once"
	}
	return "never held"
}

// readsMessage tells whether an answer with the message waits on a connection.
func readsMessage(conn net.Conn, body string) bool {
	b := make([]byte, 4096)
	if err := conn.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
		return false
	}
	n, _ := conn.Read(b)
	return strings.Contains(string(b[:n]), body)
}

// spin waits as exactly as a timer cannot.
func spin(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
	}
}
