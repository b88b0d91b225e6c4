package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Bounds of what a test waits for at a demo.
const (
	demoStartMax    = 90 * time.Second
	demoTakeOverMax = time.Minute
	demoMessages    = 50
)

// demo is a process that runs a cluster of three.
type demo struct {
	t      *testing.T
	cmd    *exec.Cmd
	log    *logBuffer
	nodes  map[string]demoNode
	exited chan struct{}
}

// demoNode is a node in the ports file of a demo.
type demoNode struct {
	Node, Role, SQS, STOMP, MQTT, Admin string
	PID                                 int
}

// startDemo starts a demo with its data in dir and waits until it is up.
func startDemo(t *testing.T, dir string) *demo {
	t.Helper()
	ports := filepath.Join(t.TempDir(), "ports.json")
	d := &demo{t: t, log: new(logBuffer), nodes: map[string]demoNode{}, exited: make(chan struct{})}
	d.cmd = exec.Command(os.Getenv(brokerVariable), "cluster", "demo", "--data", dir, "--ports-file", ports)
	d.cmd.Stdout, d.cmd.Stderr = d.log, d.log
	if err := d.cmd.Start(); err != nil {
		t.Fatalf("start the demo: %v", err)
	}
	go func() { _ = d.cmd.Wait(); close(d.exited) }()
	t.Cleanup(func() { d.stop() })
	var nodes []demoNode
	err := eventually(demoStartMax, func() (bool, error) {
		select {
		case <-d.exited:
			return false, errors.New("the demo has ended")
		default:
		}
		b, err := os.ReadFile(ports)
		if err != nil {
			return false, nil
		}
		return true, json.Unmarshal(b, &nodes)
	})
	if err != nil {
		t.Fatalf("the demo did not come up: %v\n%s", err, d.log)
	}
	for _, n := range nodes {
		if _, known := d.nodes[n.Role]; known || n.PID == 0 || n.Admin == "" {
			t.Fatalf("the ports file has %+v", nodes)
		}
		d.nodes[n.Role] = n
	}
	if got := slices.Sorted(maps.Keys(d.nodes)); !slices.Equal(got, []string{"primary", "standby", "witness"}) {
		t.Fatalf("the roles are %q", got)
	}
	return d
}

// stop asks the demo to end, and returns its exit code.
func (d *demo) stop() int {
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		d.t.Errorf("signal the demo: %v", err)
	}
	select {
	case <-d.exited:
	case <-time.After(stopMax):
		d.t.Errorf("the demo still runs %v after SIGTERM\n%s", stopMax, d.log)
		_ = d.cmd.Process.Kill()
		<-d.exited
	}
	return d.cmd.ProcessState.ExitCode()
}

// awaitGone waits until nobody serves at addr any more.
func awaitGone(t *testing.T, addr string) {
	t.Helper()
	err := eventually(stopMax, func() (bool, error) {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return err != nil, nil
	})
	if err != nil {
		t.Errorf("%s is still served: %v", addr, err)
	}
}

// clusterCommand runs a command and returns its exit code and what it wrote.
func clusterCommand(t *testing.T, admin string, args ...string) (int, string) {
	t.Helper()
	cmd := exec.Command(os.Getenv(brokerVariable), append([]string{"cluster", "--admin", admin}, args...)...)
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// drainThrough receives and deletes through a node that may not have a primary for
// a while, until all that is wanted has come.
func drainThrough(t *testing.T, addr, queue string, wanted map[string]bool) {
	t.Helper()
	var client *raw
	var last error
	err := eventually(demoTakeOverMax, func() (bool, error) {
		if client == nil {
			if client, last = tryRaw(t, addr); last != nil {
				client = nil
				return false, nil
			}
		}
		got, err := client.receive(queue, 10, 1)
		for _, m := range got {
			if err = client.delete(queue, m.ReceiptHandle); err != nil {
				break
			}
			delete(wanted, m.Body)
		}
		if err != nil {
			client, last = nil, err
		}
		return len(wanted) == 0, nil
	})
	if err != nil {
		t.Fatalf("%d messages that were acknowledged did not come: %v; the last error is %v", len(wanted), err, last)
	}
}

func TestADemoOutlivesItsPrimary(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "demo")
	d := startDemo(t, dir)
	primary, standby, witness := d.nodes["primary"], d.nodes["standby"], d.nodes["witness"]
	if witness.SQS+witness.STOMP+witness.MQTT != "" || standby.SQS == "" || standby.STOMP == "" || standby.MQTT == "" {
		t.Errorf("the listeners are those of %+v", d.nodes)
	}
	if info, err := os.Stat(filepath.Join(dir, "secret")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the secret: %v, %v", info, err)
	}
	if code, out := clusterCommand(t, witness.Admin, "status"); code != 0 || !strings.Contains(out, "primary "+primary.Node+", ") {
		t.Errorf("status exits with %d: %s", code, out)
	}

	// Sent to one node, received from the other.
	there, here := dialRaw(t, &node{t: t, sqs: standby.SQS}), dialRaw(t, &node{t: t, sqs: primary.SQS})
	queue := there.createQueue(t, "orders", map[string]string{"VisibilityTimeout": "5"})
	if _, err := there.send(rawSend{QueueUrl: queue, MessageBody: "first"}); err != nil {
		t.Fatal(err)
	}
	got, err := here.receive(queue, 1, 10)
	if err != nil || len(got) != 1 || got[0].Body != "first" {
		t.Fatalf("the primary gives %+v: %v", got, err)
	}
	if err := there.delete(queue, got[0].ReceiptHandle); err != nil {
		t.Fatal(err)
	}

	wanted := map[string]bool{}
	for i := range demoMessages {
		body := fmt.Sprint("message ", i)
		if _, err := here.send(rawSend{QueueUrl: queue, MessageBody: body}); err != nil {
			t.Fatal(err)
		}
		wanted[body] = true
	}
	if err := syscall.Kill(primary.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	drainThrough(t, standby.SQS, queue, wanted)
	err = eventually(stopMax, func() (bool, error) {
		return strings.Contains(d.log.String(), "node "+primary.Node+" has ended: signal: killed"), nil
	})
	if err != nil {
		t.Errorf("the demo does not say that the node was killed: %v\n%s", err, d.log)
	}
	code, out := clusterCommand(t, standby.Admin, "status")
	if code != 1 || !strings.Contains(out, "primary "+standby.Node+", ") || !strings.Contains(out, "degraded: "+primary.Node+" cannot be reached") {
		t.Errorf("status exits with %d: %s", code, out)
	}
	demoGoesOn(t, d, dir, queue)
}

// demoGoesOn stops a demo that has lost its primary, and runs it again.
func demoGoesOn(t *testing.T, d *demo, dir, queue string) {
	t.Helper()
	standby := d.nodes["standby"]
	client, err := tryRaw(t, standby.SQS)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.send(rawSend{QueueUrl: queue, MessageBody: "kept"}); err != nil {
		t.Fatal(err)
	}
	if code := d.stop(); code != 0 {
		t.Errorf("the demo exits with %d\n%s", code, d.log)
	}
	for _, n := range d.nodes {
		awaitGone(t, n.Admin)
	}
	again := startDemo(t, dir)
	addrs := func(d *demo) map[string]string {
		m := map[string]string{}
		for _, n := range d.nodes {
			m[n.Node] = n.SQS + n.STOMP + n.MQTT + n.Admin
		}
		return m
	}
	if got, want := addrs(again), addrs(d); !maps.Equal(got, want) {
		t.Errorf("the addresses are %v, and were %v", got, want)
	}
	for _, n := range []demoNode{again.nodes["primary"], again.nodes["standby"]} {
		res, err := http.Get("http://" + n.Admin + "/api/v1/queues/orders")
		if err != nil {
			t.Fatal(err)
		}
		var q struct{ Stats struct{ Messages int } }
		err = json.NewDecoder(res.Body).Decode(&q)
		res.Body.Close()
		if err != nil || q.Stats.Messages != 1 {
			t.Errorf("node %s has %d messages, want 1 (%v)", n.Node, q.Stats.Messages, err)
		}
	}
	drainThrough(t, again.nodes["standby"].SQS, queue, map[string]bool{"kept": true})
	code, out := clusterCommand(t, again.nodes["standby"].Admin, "handover", "-o", "name")
	if code != 0 || !strings.Contains(out, again.nodes["standby"].Node+"\n") {
		t.Errorf("handover exits with %d: %s", code, out)
	}
}

func TestNodesOfADemoDieWithIt(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux kills the children of a process that is killed")
	}
	d := startDemo(t, filepath.Join(t.TempDir(), "demo"))
	if err := d.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-d.exited
	for _, n := range d.nodes {
		awaitGone(t, n.Admin)
	}
}
