package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/leasemq/broker/cmd/broker/bench"
)

// The shape of the tests of long polls.
const (
	vanishTries  = 300
	parkedPolls  = 1000
	idleWatch    = 5 * time.Second
	idleCPUMax   = 0.20 // of a core: generous, since the machine is shared
	idleRSSBytes = 256 << 20
)

// TestVanishedClientsSwallowNoMessage parks long polls, lets their clients
// vanish, and sends: the message is there at once, for the first time, for
// whoever is left.
func TestVanishedClientsSwallowNoMessage(t *testing.T) {
	n := startNode(t, "--memory")
	client := dialRaw(t, n)
	queue := client.createQueue(t, "q", nil)
	for try := range vanishTries {
		var ghosts []net.Conn
		for range 1 + try%4 {
			ghosts = append(ghosts, parkGhost(t, n, queue))
		}
		if err := awaitWaiters(t, n, "q", len(ghosts)); err != nil {
			t.Fatalf("try %d: %v", try, err)
		}
		for _, g := range ghosts {
			if try%2 == 0 {
				_ = g.(*net.TCPConn).SetLinger(0) // a RST instead of a FIN
			}
			_ = g.Close()
		}
		body := fmt.Sprint(try)
		if _, err := client.send(rawSend{QueueUrl: queue, MessageBody: body}); err != nil {
			t.Fatalf("try %d: send: %v", try, err)
		}
		got, err := client.receive(queue, 1, 5)
		if err != nil {
			t.Fatalf("try %d: receive: %v", try, err)
		}
		if len(got) != 1 || got[0].Body != body || got[0].Attributes["ApproximateReceiveCount"] != "1" {
			t.Fatalf("try %d: got %+v, want the message, received for the first time", try, got)
		}
		if err := client.delete(queue, got[0].ReceiptHandle); err != nil {
			t.Fatalf("try %d: delete: %v", try, err)
		}
	}
}

// parkGhost sends a long poll on a bare connection.
func parkGhost(t *testing.T, n *node, queue string) net.Conn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", n.sqs)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	w := bench.Writer{Host: n.sqs, Protocol: bench.ProtocolJSON, QueueURL: queue}
	if _, err := conn.Write(w.Receive(1, 20)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// awaitWaiters waits until that many receives are parked at the queue, or, for
// a broker that notices the end of their connections, until they have been.
func awaitWaiters(t *testing.T, n *node, queue string, count int) error {
	t.Helper()
	var seen int
	err := eventually(startMax, func() (bool, error) {
		var err error
		seen, err = waiters(t, n, queue)
		return seen >= count, err
	})
	if err != nil {
		return fmt.Errorf("%d receives are parked, want %d: %w", seen, count, err)
	}
	return nil
}

// waiters asks the admin listener how many receives are parked.
func waiters(t *testing.T, n *node, queue string) (int, error) {
	var q struct{ Stats struct{ Waiters int } }
	status, body, err := get(t, "http://"+n.admin+"/api/v1/queues/"+queue)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("status %d: %s", status, body)
	}
	if err == nil {
		err = json.Unmarshal(body, &q)
	}
	return q.Stats.Waiters, err
}

func get(t *testing.T, url string) (status int, body []byte, err error) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	body, err = io.ReadAll(res.Body)
	return res.StatusCode, body, err
}

// TestParkedPollsCostNoCPU parks a thousand long polls, measures what the broker
// uses meanwhile, and then wakes each with one message.
func TestParkedPollsCostNoCPU(t *testing.T) {
	n := startNode(t, "--memory")
	client := dialRaw(t, n)
	queue := client.createQueue(t, "q", nil)
	polls := parkPolls(t, n, queue, parkedPolls)
	if err := awaitWaiters(t, n, "q", parkedPolls); err != nil {
		t.Fatal(err)
	}
	before, err := bench.ProcessCPU(n.pid())
	if err != nil {
		t.Skipf("no CPU times of processes here: %v", err)
	}
	timer := time.NewTimer(idleWatch)
	<-timer.C
	after, err := bench.ProcessCPU(n.pid())
	if err != nil {
		t.Fatal(err)
	}
	mem, err := bench.ProcessMemory(n.pid())
	if err != nil {
		t.Fatal(err)
	}
	share := (after - before).Seconds() / idleWatch.Seconds()
	t.Logf("%d parked long polls: %.2f %% of a core, %d MiB resident", parkedPolls, 100*share, mem.RSS>>20)
	if share > idleCPUMax {
		t.Errorf("parked long polls cost %.1f %% of a core", 100*share)
	}
	if mem.RSS > idleRSSBytes {
		t.Errorf("parked long polls keep %d MiB resident", mem.RSS>>20)
	}
	wakeEach(t, client, queue, polls)
}

// wakeEach sends as many messages as there are polls and wants each poll to get
// one.
func wakeEach(t *testing.T, client *raw, queue string, polls []*raw) {
	t.Helper()
	for i := 0; i < len(polls); i += 10 {
		var entries []rawSend
		for j := range min(10, len(polls)-i) {
			entries = append(entries, rawSend{Id: fmt.Sprint(j), MessageBody: fmt.Sprint(i + j)})
		}
		if err := client.call("SendMessageBatch", map[string]any{"QueueUrl": queue, "Entries": entries}, nil); err != nil {
			t.Fatalf("send: %v", err)
		}
	}
	seen := make(map[string]bool)
	for i, p := range polls {
		a, err := p.conn.Read()
		if err != nil || a.Status != http.StatusOK {
			t.Fatalf("poll %d: status %d, %v", i, a.Status, err)
		}
		var out struct{ Messages []rawMessage }
		if err := json.Unmarshal(a.Body, &out); err != nil || len(out.Messages) != 1 {
			t.Fatalf("poll %d: got %q, %v; want one message", i, a.Body, err)
		}
		if b := out.Messages[0].Body; seen[b] {
			t.Errorf("message %s came twice", b)
		} else {
			seen[b] = true
		}
	}
}
