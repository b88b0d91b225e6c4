package broker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/leasemq/broker"
	"github.com/leasemq/broker/cluster/clustertest"
	"github.com/leasemq/broker/configs"
	"github.com/leasemq/broker/frontends/admin"
)

// clusterOf is two brokers and a witness in this process.
type clusterOf struct {
	t      *testing.T
	dir    string
	gossip []string
	log    []string
	nodes  []*broker.Node
	asks   int // whom await asks
	// Where the log is, if not in the nodes.
	nats, natsUser, natsSystem string
}

func startCluster(t *testing.T) *clusterOf {
	t.Helper()
	c := &clusterOf{asks: 2, t: t, dir: t.TempDir(), nodes: make([]*broker.Node, 3)}
	addr := clustertest.FreeAddresses(t, 6)
	c.gossip, c.log = addr[:3], addr[3:]
	for i := range c.nodes {
		c.start(i)
	}
	t.Cleanup(func() {
		for i := range c.nodes {
			c.stop(i)
		}
	})
	return c
}

func (c *clusterOf) start(i int) {
	c.t.Helper()
	name := string(rune('a' + i))
	node, err := broker.Run(context.Background(), broker.Data(filepath.Join(c.dir, name)), broker.WithLogger(slog.New(slog.DiscardHandler)),
		broker.Edit(func(s *configs.Config) {
			s.Cluster.Node, s.Cluster.Witness = name, i == 2
			s.Cluster.Listen, s.Cluster.GossipListen, s.Cluster.Join = c.log[i], c.gossip[i], c.gossip
			s.Cluster.NATS, s.Cluster.NATSUserFile, s.Cluster.NATSSystemUserFile = c.nats, c.natsUser, c.natsSystem
			s.Cluster.LogSize, s.Cluster.TrimAfter = configs.LogSizeMin, configs.TrimAfterMin
		}))
	if err != nil {
		c.t.Fatal(err)
	}
	c.nodes[i] = node
}

func (c *clusterOf) stop(i int) {
	if c.nodes[i] == nil {
		return
	}
	if err := c.nodes[i].Close(); err != nil {
		c.t.Errorf("node %d: %v", i, err)
	}
	c.nodes[i] = nil
}

// primary waits for a node that leads.
func (c *clusterOf) primary() int {
	c.t.Helper()
	for range 600 {
		for i, n := range c.nodes {
			if n != nil && n.Client() != nil {
				return i
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	c.t.Fatal("there is no primary")
	return -1
}

// sqs is a client of one node, which tries again for long.
func (c *clusterOf) sqs(i int) *sqs.Client {
	return sqs.New(sqs.Options{
		Region: "us-east-1", BaseEndpoint: aws.String("http://" + c.nodes[i].Addr("sqs")),
		Credentials: credentials.NewStaticCredentialsProvider("x", "x", ""), RetryMaxAttempts: 30,
	})
}

// send sends a message by way of a node, and returns the URL of its queue.
func (c *clusterOf) send(i int, body string) string {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	client := c.sqs(i)
	q, err := client.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String("q")})
	if err == nil {
		_, err = client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: q.QueueUrl, MessageBody: aws.String(body)})
	}
	if err != nil {
		c.t.Fatalf("send by node %d: %v", i, err)
	}
	return *q.QueueUrl
}

// receives checks what is in the queue, by way of a node, and deletes it.
func (c *clusterOf) receives(i int, want ...string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	client, url := c.sqs(i), aws.String("http://"+c.nodes[i].Addr("sqs")+"/000000000000/q")
	var got []string
	for len(got) < len(want) {
		res, err := client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: url, MaxNumberOfMessages: 1, WaitTimeSeconds: 5})
		if err != nil {
			c.t.Fatalf("receive by node %d: %v", i, err)
		}
		for _, m := range res.Messages {
			got = append(got, *m.Body)
			if _, err := client.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: url, ReceiptHandle: m.ReceiptHandle}); err != nil {
				c.t.Fatalf("delete by node %d: %v", i, err)
			}
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		c.t.Errorf("node %d gives %q, want %q", i, got, want)
	}
}

// TestClusterHandsOver stops the primary in order, twice, and starts it again: what
// was sent by any node is received by any other.
func TestClusterHandsOver(t *testing.T) {
	c := startCluster(t)
	first := c.primary()
	second := 1 - first
	c.send(second, "one")
	c.send(first, "two")
	began := time.Now()
	c.stop(first)
	if got := c.primary(); got != second {
		t.Fatalf("node %d leads, want %d", got, second)
	}
	t.Logf("handed over after %v", time.Since(began))
	c.receives(second, "one")
	c.start(first)
	c.send(first, "three")
	c.receives(first, "two")
	c.stop(second)
	if got := c.primary(); got != first {
		t.Fatalf("node %d leads, want %d", got, first)
	}
	c.receives(first, "three")
	c.start(second)
	if status, body := get(t, "http://"+c.nodes[2].Addr("admin")+"/readyz"); status != 200 {
		t.Errorf("witness: /readyz answers %d %s", status, body)
	}
}

// await waits until a node says so of the cluster.
func (c *clusterOf) await(what string, is func(admin.ClusterStatus) bool) {
	c.t.Helper()
	var st admin.ClusterStatus
	for range 300 {
		_, body := get(c.t, "http://"+c.nodes[c.asks].Addr("admin")+"/api/v1/cluster")
		if err := json.Unmarshal([]byte(body), &st); err != nil {
			c.t.Fatal(err)
		}
		if len(st.Nodes) == len(c.nodes) && is(st) {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	c.t.Fatalf("want %s, there is %+v", what, st)
}

// TestOutrunStandbyCopiesTheState has a standby come back when the log has been
// trimmed beyond what it has, and the primary stop then.
func TestOutrunStandbyCopiesTheState(t *testing.T) {
	c := startCluster(t)
	first := c.primary()
	second := 1 - first
	c.send(first, "one")
	c.stop(second)
	c.send(first, "two")
	c.await("a log that is trimmed", func(st admin.ClusterStatus) bool { return st.Log.First > 1 })
	c.start(second)
	c.send(second, "three")
	c.awaitStandby()
	res, err := http.Post("http://"+c.nodes[2].Addr("admin")+"/api/v1/cluster/verify", "application/json", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var v admin.ClusterVerify
	if err := json.NewDecoder(res.Body).Decode(&v); err != nil || !v.Equal || len(v.Nodes) != 2 {
		t.Errorf("states are %+v, %v", v, err)
	}
	c.stop(first)
	c.receives(second, "one", "two", "three")
}

// restartWithoutLog stops all nodes, removes the log, and starts them.
func (c *clusterOf) restartWithoutLog(also ...string) {
	c.t.Helper()
	for i := range c.nodes {
		c.stop(i)
	}
	for i := range c.nodes {
		also = append(also, filepath.Join(string(rune('a'+i)), "log"))
	}
	for _, dir := range also {
		if err := os.RemoveAll(filepath.Join(c.dir, dir)); err != nil {
			c.t.Fatal(err)
		}
	}
	for i := range c.nodes {
		c.start(i)
	}
}

// awaitStandby waits until one broker leads, and the other has what it has.
func (c *clusterOf) awaitStandby() {
	c.t.Helper()
	c.await("a primary, and a standby that has the state", func(st admin.ClusterStatus) bool {
		a, b := st.Nodes[0], st.Nodes[1]
		return min(a.Applied, b.Applied) > 0 && max(a.Lag, b.Lag) == 0 &&
			(a.Role == "primary" && b.Role == "standby" || a.Role == "standby" && b.Role == "primary")
	})
}

// TestNoStateIsNoBeginning takes the log away, and the state of one broker: it does
// not begin anew beside the other.
func TestNoStateIsNoBeginning(t *testing.T) {
	c := startCluster(t)
	first := c.primary()
	c.send(first, "one")
	c.restartWithoutLog(filepath.Join(string(rune('a'+1-first)), "store"))
	c.await("two brokers that have stopped", func(st admin.ClusterStatus) bool {
		return strings.Contains(st.Nodes[1-first].Warning, "the log is empty, and node") && strings.Contains(st.Nodes[first].Warning, "diverged")
	})
}

// TestReseedGoesOnWithTheState takes the log away: nobody serves until somebody says
// whose state is to be kept.
func TestReseedGoesOnWithTheState(t *testing.T) {
	c := startCluster(t)
	c.send(c.primary(), "one")
	c.awaitStandby()
	c.restartWithoutLog()
	c.await("two states that have stopped", func(st admin.ClusterStatus) bool {
		return strings.Contains(st.Nodes[0].Warning, "diverged") && strings.Contains(st.Nodes[1].Warning, "diverged")
	})
	// One of the two has the newer state, and only that may go on.
	status := func(i int, confirm string) int {
		url := "http://" + c.nodes[i].Addr("admin") + "/api/v1/cluster/reseed"
		res, err := http.Post(url, "application/json", strings.NewReader(`{"confirm":"`+confirm+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if b, err := io.ReadAll(res.Body); err != nil || len(b) > 0 {
			t.Logf("reseed of node %d: %s %v", i, b, err)
		}
		return res.StatusCode
	}
	if got := status(0, "b"); got != http.StatusBadRequest {
		t.Errorf("a node is reseeded in the name of another: %d", got)
	}
	// What the servers of the log did not answer in time is asked again.
	kept := 0
	for tries := 0; status(kept, string(rune('a'+kept))) != http.StatusNoContent; tries++ {
		if kept = 1 - kept; tries == 20 {
			t.Fatal("no node goes on")
		}
		time.Sleep(500 * time.Millisecond)
	}
	c.await("a standby of the new log", func(st admin.ClusterStatus) bool {
		return st.Nodes[kept].Role == "primary" && st.Nodes[1-kept].Role == "standby" && st.Generation >= 2
	})
	c.stop(kept)
	c.receives(1-kept, "one")
}

func TestClusterDataIsNotTakenForAnother(t *testing.T) {
	quiet := broker.WithLogger(slog.New(slog.DiscardHandler))
	alone := t.TempDir()
	node, err := broker.Run(t.Context(), broker.Data(alone), quiet)
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Close(); err != nil {
		t.Fatal(err)
	}
	addr := clustertest.FreeAddresses(t, 2)
	in := func(name string) broker.Option {
		return broker.Edit(func(s *configs.Config) {
			s.Cluster.Node, s.Cluster.Listen, s.Cluster.GossipListen, s.Cluster.Join = name, addr[0], addr[1], addr[1:]
		})
	}
	_ = refused(t, broker.Data(alone), in("a"), quiet)
	member := t.TempDir()
	if node, err = broker.Run(t.Context(), broker.Data(member), in("a"), quiet); err != nil {
		t.Fatal(err)
	}
	// It waits for others, and ends all the same.
	if err := node.Close(); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	_ = refused(t, broker.Data(member), quiet)
	_ = refused(t, broker.Data(member), in("b"), quiet)
}
