package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/leasemq/broker/frontends/admin"
)

func TestDemoPortsStayAsTheyAreWhileTheyAreFree(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ports.json")
	first, err := demoPorts(file)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for node, listeners := range first {
		if want := len(demoListeners(node == demoWitness)); len(listeners) != want {
			t.Errorf("node %s has %d ports, want %d", node, len(listeners), want)
		}
		for name, port := range listeners {
			if port < demoPortMin || port >= demoPortMax || seen[port] {
				t.Errorf("port %d of %s of node %s is out of range or given twice", port, name, node)
			}
			seen[port] = true
		}
	}
	again, err := demoPorts(file)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(again, first) {
		t.Errorf("the ports are %v, and were %v", again, first)
	}
	// One is taken over TCP, one over UDP.
	ln, err := net.Listen("tcp", loopbackAt(first["a"]["sqs"]))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	packets, err := net.ListenPacket("udp", loopbackAt(first["b"]["gossip"]))
	if err != nil {
		t.Fatal(err)
	}
	defer packets.Close()
	third, err := demoPorts(file)
	if err != nil {
		t.Fatal(err)
	}
	if third["a"]["sqs"] == first["a"]["sqs"] || third["b"]["gossip"] == first["b"]["gossip"] {
		t.Error("a port that is taken was given")
	}
	third["a"]["sqs"], third["b"]["gossip"] = first["a"]["sqs"], first["b"]["gossip"]
	if !reflect.DeepEqual(third, first) {
		t.Errorf("other ports have changed: they are %v, and were %v", third, first)
	}
}

func TestDemoPortsThatCannotBeRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ports.json")
	if err := os.WriteFile(file, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := demoPorts(file); err == nil {
		t.Error("a file that is not JSON was taken")
	}
}

func TestDemoSecretIsMadeOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	if err := makeDemoSecret(file); err != nil {
		t.Fatal(err)
	}
	first, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 || len(bytes.TrimSpace(first)) != 64 {
		t.Errorf("the secret has mode %v and %d bytes (%v)", info.Mode(), len(first), err)
	}
	if err := makeDemoSecret(file); err != nil {
		t.Fatal(err)
	}
	if again, _ := os.ReadFile(file); !bytes.Equal(again, first) {
		t.Error("the secret was made again")
	}
}

func TestLastLinesOfALog(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	text := strings.Repeat("x", lastBytesMax) + "\n" + strings.Repeat("line\n", lastLinesMax-1) + "last\n\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	got := lastLines(file)
	if len(got) != lastLinesMax || got[0] != "line" || got[lastLinesMax-1] != "last" {
		t.Errorf("the last lines are %q", got)
	}
	if got := lastLines(filepath.Join(t.TempDir(), "none")); len(got) != 1 || !strings.Contains(got[0], "no such file") {
		t.Errorf("of no file the last lines are %q", got)
	}
}

func TestShellWordsAreReadByAShellAsTheyWere(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("there is no shell")
	}
	words := []string{"plain/-._=:,", "", "a b", "it's", `"$HOME"`, "a\nb", "é", "*", "!", `\`, "~"}
	out, err := exec.Command(sh, "-c", "printf '%s|' "+shellWords(words)).Output()
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Join(words, "|") + "|"; string(out) != want {
		t.Errorf("a shell reads %q, want %q", out, want)
	}
	if w := shellWord("--data=/tmp/a.b"); strings.Contains(w, "'") {
		t.Errorf("%s is quoted without need", w)
	}
}

// startShell starts a child that runs a script of the shell and says "up" first.
func startShell(t *testing.T, script string) *demoChild {
	t.Helper()
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("there is no shell")
	}
	log := filepath.Join(t.TempDir(), "log")
	c, err := startDemoChild(sh, []string{"-c", script}, append(os.Environ(), "WORD=up"), log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		<-c.exited
	})
	for {
		if b, _ := os.ReadFile(log); bytes.HasPrefix(b, []byte("up\n")) {
			return c
		}
		select {
		case <-c.exited:
			t.Fatalf("the script has ended: %s, %q", c.outcome(), lastLines(log))
		default:
		}
	}
}

func TestAChildEndsWhenItIsAsked(t *testing.T) {
	c := startShell(t, "trap 'echo bye; exit 0' TERM; echo $WORD; while :; do read x </dev/null; done")
	if !c.running() {
		t.Error("the child does not run")
	}
	c.terminate()
	if err := c.await(t.Context()); err != nil || c.running() {
		t.Errorf("await: %v; it runs: %t", err, c.running())
	}
	if got := lastLines(c.log); !reflect.DeepEqual(got, []string{"up", "bye"}) {
		t.Errorf("the log is %q", got)
	}
	c.terminate() // of one that is gone
}

func TestAChildThatDoesNotListenIsKilled(t *testing.T) {
	c := startShell(t, "trap '' TERM; echo $WORD; while :; do read x </dev/null; done")
	c.terminate()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.await(ctx); err == nil || !strings.Contains(err.Error(), "was killed") {
		t.Errorf("await: %v", err)
	}
}

func TestAChildThatFailsSaysSo(t *testing.T) {
	c := startShell(t, "trap 'exit 3' TERM; echo $WORD; while :; do read x </dev/null; done")
	c.terminate()
	if err := c.await(t.Context()); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("await: %v", err)
	}
	var out strings.Builder
	d := &demo{dir: "/data", self: "/bin/broker", out: &out}
	n := &demoNode{name: "a", child: c, ports: map[string]int{"gossip": 20001, "sqs": 20002}}
	d.nodes = []*demoNode{n}
	d.tellEnd(n)
	for _, want := range []string{
		"node a has ended: exit status 3; its log is " + c.log, "\n  up\n",
		"BROKER_CLUSTER_SECRET_FILE=/data/secret /bin/broker serve --node a --data /data/a", "--join 127.0.0.1:20001", "--sqs-listen 127.0.0.1:20002",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s\nlacks %q", &out, want)
		}
	}
}

func TestDemoTellsWhereItsNodesAre(t *testing.T) {
	var out strings.Builder
	c := startShell(t, "echo $WORD; exec sleep 600")
	file := filepath.Join(t.TempDir(), "ports.json")
	d := &demo{dir: "/data", out: &out, portsFile: file, nodes: []*demoNode{
		{name: "a", child: c, addrs: map[string]string{"sqs": "h:1", "stomp": "h:2", "mqtt": "h:3", "mqtt_ws": "h:9", "admin": "h:4"}},
		{name: "b", child: c, addrs: map[string]string{"sqs": "h:5", "stomp": "h:6", "mqtt": "h:7", "admin": "h:8"}},
		{name: "w", child: c, witness: true, addrs: map[string]string{"admin": "h:10"}},
	}}
	st := admin.ClusterStatus{Primary: "b", Nodes: []admin.ClusterNode{
		{Node: "a", Role: "standby"}, {Node: "b", Role: "primary"}, {Node: "w", Role: "witness"},
	}}
	if err := d.announce(st); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got []demoEntry
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	pid := c.pid()
	want := []demoEntry{
		{"a", "standby", pid, "h:1", "h:2", "h:3", "h:4"}, {"b", "primary", pid, "h:5", "h:6", "h:7", "h:8"}, {"w", "witness", pid, "", "", "", "h:10"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the ports file has %+v, want %+v", got, want)
	}
	if strings.Contains(string(b), `"sqs":""`) {
		t.Errorf("the ports file names listeners that are not there: %s", b)
	}
	for _, line := range []string{"pub orders hello --admin h:8\n", "sub orders --count 1 --admin h:4\n", "kill -9 "} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("%s\nlacks %q", &out, line)
		}
	}
}
