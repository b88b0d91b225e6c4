package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/leasemq/broker/cmd/broker/bench"
)

// runBench runs the binary's bench and returns its result. It wants the run to be
// clean.
func runBench(t *testing.T, args ...string) bench.Result {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Getenv(brokerVariable), append(append([]string{"bench"}, args...), "-o", "json")...)
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	out, err := cmd.Output()
	if err != nil {
		var stderr []byte
		if exit, ok := err.(*exec.ExitError); ok {
			stderr = exit.Stderr
		}
		t.Fatalf("bench %v: %v\n%s", args, err, stderr)
	}
	var res bench.Result
	if err := json.Unmarshal(out, &res); err != nil {
		t.Fatalf("bench %v printed %q: %v", args, out, err)
	}
	return res
}

// TestBenchOfASpawnedBroker measures the binary as a process of its own: what a
// start and a message cost stands in the log of the test.
func TestBenchOfASpawnedBroker(t *testing.T) {
	res := runBench(t, "sqs", "--spawn", "--noop", "--batch", "10", "--senders", "4", "--receivers", "4", "--queues", "2",
		"--warmup", "200ms", "--duration", "1s")
	if res.Messages == 0 || res.Check == nil || !res.Clean() || res.Start == nil || res.ServerMemory == nil || res.Canned == nil {
		t.Fatalf("the result lacks something: %+v", res)
	}
	t.Logf("start to first answer %.1f ms, idle %d MiB; %.0f messages/s, %.1f us of CPU in the server, %.1f in the generator; %.0f %% of canned answers",
		res.Start.FirstAnswer, res.Start.Memory.RSS>>20, res.PerSecond, res.Cost.Server, res.Cost.Process, 100*res.Ratio)
}

// TestBenchOfASpawnedSTOMPBroker is the same for STOMP.
func TestBenchOfASpawnedSTOMPBroker(t *testing.T) {
	res := runBench(t, "stomp", "--spawn", "--warmup", "200ms", "--duration", "1s")
	if res.Messages == 0 || res.Check == nil || !res.Clean() || res.ServerMemory == nil || res.Cost.Server <= 0 {
		t.Fatalf("the result lacks something: %+v", res)
	}
	t.Logf("%.0f messages/s, %.1f us of CPU in the server", res.PerSecond, res.Cost.Server)
}

// TestBenchOfASpawnedMQTTBroker is the same for MQTT, with each quality of service.
func TestBenchOfASpawnedMQTTBroker(t *testing.T) {
	for _, qos := range []string{"0", "1", "2"} {
		res := runBench(t, "mqtt", "--spawn", "--qos", qos, "--persistent="+strconv.FormatBool(qos != "0"), "--warmup", "200ms", "--duration", "1s")
		if res.Messages == 0 || res.Check == nil || !res.Clean() || res.ServerMemory == nil || res.Cost.Server <= 0 {
			t.Fatalf("the result lacks something: %+v", res)
		}
		t.Logf("QoS %s: %.0f messages/s, %.1f us of CPU in the server", qos, res.PerSecond, res.Cost.Server)
	}
}

// TestBenchOfIdleConnections holds a few for a moment, and wants heart-beats of the
// broker.
func TestBenchOfIdleConnections(t *testing.T) {
	for _, wire := range []string{"stomp", "mqtt"} {
		res := runBench(t, wire, "--spawn", "--memory", "--idle", "200", "--heart-beat", "1s", "--subscribed", "--duration", "2s")
		idle := res.Idle
		if idle == nil || idle.Connections != 200 || idle.Beats < 200 || idle.Memory.RSS <= idle.Before.RSS || !res.Clean() {
			t.Fatalf("%s: %+v", wire, res)
		}
		t.Logf("%s: %.1f KiB a connection, %.2f %% of a core", wire, float64(idle.Each)/1024, 100*idle.CPU)
	}
}

// TestBenchOfRestarts runs the modes of "bench core" that restart in a fresh
// process, small.
func TestBenchOfRestarts(t *testing.T) {
	res := runBench(t, "core", "--mode", "crash", "--duration", "500ms")
	if r := res.Restart; r == nil || !r.Fresh || r.Open <= 0 || r.First < r.Open {
		t.Fatalf("crash: %+v", res.Restart)
	}
	t.Logf("restart after kill -9 under load: open %.0f ms, first message %.0f ms", res.Restart.Open, res.Restart.First)

	res = runBench(t, "core", "--mode", "many-queues", "--count", "500")
	if r := res.Restart; r == nil || !r.Fresh || r.Messages != 1 {
		t.Fatalf("many queues: %+v", res.Restart)
	}

	res = runBench(t, "core", "--mode", "backlog", "--count", "50000", "--probe", "1000", "--in-flight", "1500")
	b := res.Backlog
	if b == nil || len(b.Memory) != 10 || len(b.Speeds) != 6 || len(b.Restarts) != 3 {
		t.Fatalf("backlog: %+v", b)
	}
	// Each speed takes 1,000. What is held in flight counts as being there, but
	// not among the nine tenths that are deleted.
	for i, want := range []int64{49_000, 48_000, 50_000 - 45_000 + 1_500 - 1_000} {
		if got := b.Restarts[i].Messages; got != want {
			t.Errorf("restart %q finds %d messages, want %d", b.Restarts[i].State, got, want)
		}
	}
}
