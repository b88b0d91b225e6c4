package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// brokerVariable names the binary to test.
const brokerVariable = "LEASEMQ_BROKER"

// Bounds of what a test waits for. They are generous: they end a hang.
const (
	startMax = 30 * time.Second
	stopMax  = 20 * time.Second
)

func TestMain(m *testing.M) {
	os.Exit(testMain(m))
}

// testMain builds the binary, unless one was given, and runs the tests.
func testMain(m *testing.M) int {
	if os.Getenv(brokerVariable) != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "leasemq-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "broker")
	build := exec.Command("go", "build", "-o", binary, "../cmd/broker")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
		return 1
	}
	os.Setenv(brokerVariable, binary)
	return m.Run()
}

// node is one process of the binary.
type node struct {
	t      *testing.T
	cmd    *exec.Cmd
	sqs    string // address of the SQS listener
	stomp  string // address of the STOMP listener
	ws     string // address of the listener for STOMP over WebSocket
	mqtt   string // address of the MQTT listener
	mqttWS string // address of the listener for MQTT over WebSocket
	admin  string // address of the admin listener
	log    *logBuffer
	exited chan struct{}
	err    error // of Wait; valid once exited is closed
}

// startNode starts a node and waits until its listeners are up. The node is
// killed at the end of the test if it still runs then.
func startNode(t *testing.T, args ...string) *node {
	t.Helper()
	ports := filepath.Join(t.TempDir(), "ports.json")
	n := spawn(t, append([]string{
		"--frontends", "sqs,stomp,mqtt", "--sqs-listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0",
		"--stomp-listen", "127.0.0.1:0", "--stomp-ws-listen", "127.0.0.1:0", "--mqtt-listen", "127.0.0.1:0", "--mqtt-ws-listen", "127.0.0.1:0",
		"--log-level", "warn", "--ports-file", ports,
	}, args...)...)
	n.awaitListeners(ports)
	if n.sqs == "" || n.stomp == "" || n.ws == "" || n.mqtt == "" || n.mqttWS == "" || n.admin == "" {
		t.Fatalf("the ports file lacks a listener; it has sqs %q, stomp %q, %q, mqtt %q, %q, admin %q", n.sqs, n.stomp, n.ws, n.mqtt, n.mqttWS, n.admin)
	}
	return n
}

// spawn starts a node and does not wait for it.
func spawn(t *testing.T, args ...string) *node {
	t.Helper()
	n := &node{t: t, log: new(logBuffer), exited: make(chan struct{})}
	n.cmd = exec.Command(os.Getenv(brokerVariable), append([]string{"serve"}, args...)...)
	n.cmd.Stdout, n.cmd.Stderr = n.log, n.log
	if err := n.cmd.Start(); err != nil {
		t.Fatalf("start the broker: %v", err)
	}
	go func() { n.err = n.cmd.Wait(); close(n.exited) }()
	t.Cleanup(n.kill)
	return n
}

// awaitListeners waits until the listeners of n are up, which its ports file tells.
func (n *node) awaitListeners(ports string) {
	n.t.Helper()
	var listeners map[string]string
	err := eventually(startMax, func() (bool, error) {
		select {
		case <-n.exited:
			return false, fmt.Errorf("the broker ended: %v\n%s", n.err, n.log)
		default:
		}
		b, err := os.ReadFile(ports)
		if err != nil {
			return false, nil
		}
		return true, json.Unmarshal(b, &listeners)
	})
	if err != nil {
		n.t.Fatalf("the broker did not come up: %v\n%s", err, n.log)
	}
	n.sqs, n.stomp, n.ws, n.admin = listeners["sqs"], listeners["stomp"], listeners["stomp_ws"], listeners["admin"]
	n.mqtt, n.mqttWS = listeners["mqtt"], listeners["mqtt_ws"]
}

func (n *node) url() string { return "http://" + n.sqs }

func (n *node) pid() int { return n.cmd.Process.Pid }

// alive fails the test if the process has ended.
func (n *node) alive() {
	n.t.Helper()
	select {
	case <-n.exited:
		n.t.Fatalf("the broker has ended: %v\n%s", n.err, n.log)
	default:
	}
}

// kill ends the process with SIGKILL and waits for its end.
func (n *node) kill() {
	_ = n.cmd.Process.Kill()
	<-n.exited
}

// stop asks the process to end and returns its exit code.
func (n *node) stop() int {
	n.t.Helper()
	if err := n.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		n.t.Fatalf("signal the broker: %v", err)
	}
	select {
	case <-n.exited:
	case <-time.After(stopMax):
		n.t.Fatalf("the broker still runs %v after SIGTERM\n%s", stopMax, n.log)
	}
	return n.cmd.ProcessState.ExitCode()
}

// logBuffer keeps what a process writes.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// eventually asks f again and again until it says yes, fails, or most has
// passed.
func eventually(most time.Duration, f func() (bool, error)) error {
	late := time.NewTimer(most)
	defer late.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok, err := f(); ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-late.C:
			return fmt.Errorf("not within %v: %w", most, context.DeadlineExceeded)
		}
	}
}

// newRand returns the source of a random test. Its seed is printed, and taken
// from LEASEMQ_SEED.
func newRand(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if s := os.Getenv("LEASEMQ_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("LEASEMQ_SEED: %v", err)
		}
	}
	t.Logf("LEASEMQ_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// program returns the path of a client that tests need.
func program(t *testing.T, variable, path string) string {
	t.Helper()
	if p := os.Getenv(variable); p != "" {
		path = p
	}
	found, err := exec.LookPath(path)
	if err == nil {
		found, err = filepath.Abs(found)
	}
	if err != nil {
		missing(t, "%s is not there (%v); %s names another one", path, err, variable)
	}
	return found
}

// missing ends a test whose client is not installed.
func missing(t *testing.T, format string, args ...any) {
	t.Helper()
	text := fmt.Sprintf(format, args...)
	if os.Getenv("LEASEMQ_CLIENTS") == "optional" {
		t.Skip(text)
	}
	t.Fatalf("%s\nRun 'make test', which installs what the tests need, or set LEASEMQ_CLIENTS=optional.", text)
}

// clientEnv is the environment of a client of n: no settings of the user's, and
// credentials that stand for any.
func clientEnv(n *node) []string {
	env := []string{
		"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_REGION=us-east-1", "AWS_DEFAULT_REGION=us-east-1",
		"AWS_EC2_METADATA_DISABLED=true", "AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null", "AWS_PAGER=",
		"SQS_ENDPOINT=" + n.url(), "PYTHONDONTWRITEBYTECODE=1",
	}
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "AWS_") {
			env = append(env, e)
		}
	}
	return env
}

// runScript runs a client to its end and wants success. What it prints goes to
// the test's log.
func runScript(t *testing.T, n *node, name string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = clientEnv(n)
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = io.Writer(&out), io.Writer(&out)
	err := cmd.Run()
	t.Logf("%s %s\n%s", name, strings.Join(args, " "), out.Bytes())
	if err != nil {
		t.Errorf("%s: %v\nbroker: %s", name, err, n.log)
	}
	n.alive()
}

// randomText returns n printable bytes that compress badly.
func randomText(r *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('!' + r.IntN(94))
	}
	return string(b)
}
