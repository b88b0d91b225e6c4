package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"github.com/leasemq/broker/core"
)

// probeQueueVariable hands the queue's name to the child process of a probe.
const probeQueueVariable = "BROKER_BENCH_PROBE_QUEUE"

// The queue that mode crash does not load.
const (
	crashQueue    = "bench-crash"
	crashMessages = 1000
)

// RestartReport is what a start on existing data costs.
type RestartReport struct {
	State     string  `json:"state,omitempty"`
	Open      float64 `json:"open_ms"`          // storage and core
	First     float64 `json:"first_receive_ms"` // from the begin of the open to the first message
	Messages  int64   `json:"messages,omitempty"`
	Fresh     bool    `json:"fresh_process"` // else memory is that of a process that did other things before
	Memory    Memory  `json:"memory"`        // after the first receive
	DiskBytes int64   `json:"disk_bytes"`
}

// probe opens the data, receives one message and hands it back.
func (c *coreRun) probe(ctx context.Context) (res *Result, err error) {
	name := os.Getenv(probeQueueVariable)
	if name == "" {
		name = queueName(0)
	}
	r, err := c.probeHere(ctx, name)
	if err != nil {
		return nil, err
	}
	r.Fresh = true
	return &Result{Kind: "core", Mode: c.o.Mode, Options: c.o, Machine: ThisMachine(), Restart: r}, nil
}

// probeHere is the work of probe, in this process.
func (c *coreRun) probeHere(ctx context.Context, name string) (r *RestartReport, err error) {
	r = &RestartReport{DiskBytes: treeBytes(c.o.Dir)}
	start := time.Now()
	node, err := c.o.Open(c.o.Dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, node.Close()) }()
	r.Open = milliseconds(time.Since(start))
	client := node.Engine.Client(core.Principal{Name: "bench"})
	got, err := client.Receive(ctx, name, core.ReceiveOptions{Max: 1, Visibility: -1, Wait: speedWaitMax}, nil)
	if err != nil {
		return nil, fmt.Errorf("receive from %s: %w", name, err)
	}
	r.First = milliseconds(time.Since(start))
	if len(got) == 0 {
		return nil, fmt.Errorf("%s is empty after the restart", name)
	}
	r.Memory = SelfMemory()
	// Handed back, so that the probe leaves the queue as it was.
	back := []core.Settlement{{Receipt: got[0].Receipt, Action: core.SettleExtend}}
	if errs, err := client.Settle(ctx, name, back, nil); errors.Join(append(errs, err)...) != nil {
		return nil, fmt.Errorf("hand back to %s: %w", name, errors.Join(append(errs, err)...))
	}
	stats, err := client.Stats(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("stats of %s: %w", name, err)
	}
	r.Messages = stats.Messages
	return r, nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }

// probeChild lets a fresh process do a probe: only there memory is that of the
// restart. Without Self it is done here.
func (c *coreRun) probeChild(ctx context.Context, name string) (*RestartReport, error) {
	if len(c.o.Self) == 0 {
		debug.FreeOSMemory()
		return c.probeHere(ctx, name)
	}
	cmd := c.child(ctx, ModeProbe)
	cmd.Env = append(os.Environ(), probeQueueVariable+"="+name)
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("probe: %w: %s", err, stderrOf(err))
	}
	var res Result
	if err := json.Unmarshal(out, &res); err != nil || res.Restart == nil {
		return nil, fmt.Errorf("probe answered %q: %w", out, err)
	}
	return res.Restart, nil
}

func stderrOf(err error) []byte {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return bytes.TrimSpace(exit.Stderr)
	}
	return nil
}

// child is a process of this program that works on the same data.
func (c *coreRun) child(ctx context.Context, mode string) *exec.Cmd {
	o := c.o
	args := append(append([]string(nil), o.Self[1:]...), "--mode", mode, "--data", o.Dir, "--sync", o.Sync, "-o", "json",
		"--producers", fmt.Sprint(o.Producers), "--consumers", fmt.Sprint(o.Consumers), "--queues", fmt.Sprint(o.Queues),
		"--batch", fmt.Sprint(o.Batch), "--size", fmt.Sprint(o.Size), "--duration", "24h",
		"--ahead", fmt.Sprint(o.Ahead), "--window", fmt.Sprint(o.Window), "--seed", fmt.Sprint(o.Seed),
		fmt.Sprintf("--fifo=%t", o.FIFO), fmt.Sprintf("--sync-marks=%t", o.SyncMarks))
	return exec.CommandContext(ctx, o.Self[0], args...)
}

// crash lets a child load the queues, kills it with SIGKILL after Duration, and
// measures the restart.
func (c *coreRun) crash(ctx context.Context) (*Result, error) {
	if len(c.o.Self) == 0 {
		return nil, errors.New("mode crash needs a child process")
	}
	// What the load leaves in its queues at the kill may all be in flight: the
	// first message after the restart comes from another queue.
	if err := c.openBacklog(ctx, crashQueue); err != nil {
		return nil, err
	}
	if err := errors.Join(c.load(ctx, crashQueue, crashMessages, nil), c.node.Close()); err != nil {
		return nil, err
	}
	load := ModePipelined
	if c.o.Consumers > 0 {
		load = ModeCycle
	}
	cmd := c.child(ctx, load)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	err := pause(ctx, c.o.Duration)
	_ = cmd.Process.Kill()
	if werr := cmd.Wait(); cmd.ProcessState.Exited() {
		return nil, fmt.Errorf("the loading process ended by itself: %w: %s", werr, bytes.TrimSpace(stderr.Bytes()))
	}
	if err != nil {
		return nil, err
	}
	r, err := c.probeChild(ctx, crashQueue)
	if err != nil {
		return nil, err
	}
	r.State = "kill -9 in mode " + load
	return &Result{Kind: "core", Mode: c.o.Mode, Options: c.o, Machine: ThisMachine(), Restart: r, Seconds: c.o.Duration.Seconds()}, nil
}

// manyQueues makes Count queues with one message each and restarts.
func (c *coreRun) manyQueues(ctx context.Context) (*Result, error) {
	if err := c.open(ctx, 0); err != nil {
		return nil, err
	}
	resetPeak()
	cost := startCost(0)
	if err := c.fillQueues(ctx); err != nil {
		return nil, errors.Join(err, c.node.Close())
	}
	cost.end(0)
	mem := SelfMemory()
	if err := c.node.Close(); err != nil {
		return nil, err
	}
	r, err := c.probeChild(ctx, queueName(int(c.o.Count/2)))
	if err != nil {
		return nil, err
	}
	r.State = fmt.Sprintf("%d queues", c.o.Count)
	return &Result{
		Kind: "core", Mode: c.o.Mode, Options: c.o, Machine: ThisMachine(), Seconds: cost.elapsed.Seconds(),
		Messages: c.o.Count, PerSecond: perSecond(c.o.Count, cost.elapsed), Cost: cost.perMessage(c.o.Count),
		Memory: &mem, Restart: r,
	}, nil
}

// fillQueues declares the queues and sends to each, with all producers.
func (c *coreRun) fillQueues(ctx context.Context) error {
	var wg sync.WaitGroup
	errs := make([]error, c.o.Producers)
	for i := range c.o.Producers {
		wg.Go(func() {
			p := &coreProducer{run: c, index: i, next: 1}
			b := c.newBatch()
			for q := i; q < int(c.o.Count) && errs[i] == nil; q += c.o.Producers {
				if errs[i] = c.declare(ctx, queueName(q)); errs[i] == nil {
					b.out, errs[i] = c.client.Publish(ctx, queueName(q), p.stamp(b, 1, c.began), b.out[:0])
				}
				if i == 0 && c.o.Progress != nil {
					c.o.Progress(int64(q), c.o.Count)
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// treeBytes returns the size of all files under dir. Files that vanish
// meanwhile do not count.
func treeBytes(dir string) int64 {
	var n int64
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		if info, err := d.Info(); err == nil {
			n += info.Size()
		}
		return nil
	})
	return n
}
