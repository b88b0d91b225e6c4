package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasemq/broker/core"
)

// Bounds of a backlog run.
const (
	backlogSamples   = 10    // of memory, while loading
	shortQueueLength = 4_000 // messages: fits the window that the core keeps in memory
	speedWaitMax     = 5 * time.Second
	holdVisibility   = time.Hour // of messages that are to stay in flight
)

// BacklogReport is what a deep queue costs.
type BacklogReport struct {
	Messages      int64           `json:"messages"`
	LoadPerSecond float64         `json:"load_per_second"`
	LoadCPU       float64         `json:"load_cpu_us"`
	Memory        []BacklogSample `json:"memory"` // while loading
	Speeds        []Speed         `json:"speeds"` // receive and delete
	Restarts      []RestartReport `json:"restarts"`
}

// BacklogSample is the memory held at a number of messages.
type BacklogSample struct {
	Messages int64 `json:"messages"`
	Memory
}

// Speed is how fast messages are received and deleted in some state.
type Speed struct {
	State     string  `json:"state"`
	Messages  int64   `json:"messages"`
	PerSecond float64 `json:"messages_per_second"`
	CPU       float64 `json:"cpu_us"`
	Ratio     float64 `json:"ratio"` // to that of a short queue
}

// backlog loads one queue with Count messages and looks at it from all sides.
func (c *coreRun) backlog(ctx context.Context) (res *Result, err error) {
	const deep, short = "bench-deep", "bench-short"
	if err := c.openBacklog(ctx, deep, short); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.node.Close()) }()
	rep := &BacklogReport{Messages: c.o.Count}
	start := startCost(0)
	if err := c.loadBacklog(ctx, deep, rep); err != nil {
		return nil, err
	}
	start.end(0)
	rep.LoadPerSecond = perSecond(c.o.Count, start.elapsed)
	rep.LoadCPU = perMessage(start.self, c.o.Count)
	mem := SelfMemory()

	if err := c.speedShort(ctx, short, rep); err != nil {
		return nil, err
	}
	if err := c.speed(ctx, "deep", deep, rep); err != nil {
		return nil, err
	}
	if err := c.restart(ctx, "deep", deep, rep); err != nil {
		return nil, err
	}
	if err := c.hold(ctx, deep, c.o.InFlight); err != nil {
		return nil, err
	}
	state := fmt.Sprintf("deep, %d in flight", c.o.InFlight)
	if err := c.speed(ctx, state, deep, rep); err != nil {
		return nil, err
	}
	if err := c.restart(ctx, state, deep, rep); err != nil {
		return nil, err
	}
	if err := c.deleteHead(ctx, deep, rep); err != nil {
		return nil, err
	}
	res = &Result{
		Kind: "core", Mode: c.o.Mode, Options: c.o, Machine: ThisMachine(), Seconds: start.elapsed.Seconds(),
		Messages: c.o.Count, PerSecond: rep.LoadPerSecond, Backlog: rep, Memory: &mem,
	}
	res.Cost = start.perMessage(c.o.Count)
	return res, nil
}

func (c *coreRun) openBacklog(ctx context.Context, names ...string) error {
	if err := c.open(ctx, 0); err != nil {
		return err
	}
	for _, name := range names {
		if err := c.declare(ctx, name); err != nil {
			return errors.Join(err, c.node.Close())
		}
	}
	return nil
}

// loadBacklog sends Count messages, pipelined, and samples memory on the way.
func (c *coreRun) loadBacklog(ctx context.Context, name string, rep *BacklogReport) error {
	resetPeak()
	part := max(1, c.o.Count/backlogSamples)
	for sent := int64(0); sent < c.o.Count; {
		n := min(part, c.o.Count-sent)
		if err := c.load(ctx, name, n, func(done int64) {
			if c.o.Progress != nil {
				c.o.Progress(sent+done, c.o.Count)
			}
		}); err != nil {
			return err
		}
		sent += n
		rep.Memory = append(rep.Memory, BacklogSample{Messages: sent, Memory: SelfMemory()})
	}
	return nil
}

// load sends n messages to a queue with Window batches under way.
func (c *coreRun) load(ctx context.Context, name string, n int64, progress func(done int64)) error {
	batches := make(chan *coreBatch, c.o.Window)
	for range c.o.Window {
		batches <- c.newBatch()
	}
	var failed atomic.Pointer[error]
	p := &coreProducer{run: c, next: 1}
	shown := time.Now()
	for left := n; left > 0 && failed.Load() == nil && ctx.Err() == nil; {
		b := <-batches
		k := int(min(int64(c.o.Batch), left))
		left -= int64(k)
		err := c.client.PublishAsync(name, p.stamp(b, k, c.began), func(_ []core.Published, err error) {
			if err != nil {
				failed.Store(&err)
			}
			batches <- b
		})
		if err != nil {
			failed.Store(&err)
			batches <- b
		}
		if now := time.Now(); progress != nil && now.Sub(shown) > progressInterval {
			shown = now
			progress(n - left)
		}
	}
	for range c.o.Window { // all are back: all is durable
		<-batches
	}
	if err := failed.Load(); err != nil {
		return fmt.Errorf("load %s: %w", name, *err)
	}
	return ctx.Err()
}

// take receives n messages with all consumers and, unless they are to be held,
// deletes them.
func (c *coreRun) take(ctx context.Context, name string, n int64, hold bool) error {
	var taken atomic.Int64
	var wg sync.WaitGroup
	workers := max(1, c.o.Consumers)
	errs := make([]error, workers)
	c.del = newMeters(&c.phase, workers)
	for i := range workers {
		wg.Go(func() { errs[i] = c.takeSome(ctx, i, name, n, &taken, hold) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (c *coreRun) takeSome(ctx context.Context, i int, name string, n int64, taken *atomic.Int64, hold bool) error {
	k := &coreConsumer{run: c, index: i}
	o := core.ReceiveOptions{Visibility: -1, Wait: coreWait}
	if hold {
		o.Visibility = holdVisibility
	}
	last := time.Now()
	for {
		// Reserved first, so that all workers together take exactly n.
		want := min(int64(c.o.Batch), n-taken.Add(int64(c.o.Batch))+int64(c.o.Batch))
		if want <= 0 {
			return nil
		}
		for left := int(want); left > 0; {
			o.Max = left
			var err error
			k.deliveries, err = c.client.Receive(ctx, name, o, k.deliveries[:0])
			if err != nil {
				return fmt.Errorf("receive from %s: %w", name, err)
			}
			got := len(k.deliveries)
			if got == 0 {
				if time.Since(last) > speedWaitMax {
					return fmt.Errorf("%s gives no message for %v: %w", name, speedWaitMax, errStalled)
				}
				continue
			}
			last = time.Now()
			if !hold && k.settle(ctx, name, core.SettleDelete) != got {
				return fmt.Errorf("%s: not all of %d messages could be deleted", name, got)
			}
			left -= got
		}
	}
}

// hold leaves n messages in flight.
func (c *coreRun) hold(ctx context.Context, name string, n int) error {
	return c.take(ctx, name, int64(n), true)
}

// speed measures how fast Probe messages are received and deleted.
func (c *coreRun) speed(ctx context.Context, state, name string, rep *BacklogReport) error {
	cost := startCost(0)
	if err := c.take(ctx, name, c.o.Probe, false); err != nil {
		return err
	}
	cost.end(0)
	rep.add(state, c.o.Probe, cost.elapsed, cost.self)
	return nil
}

// speedShort is speed on a queue that is filled again and again; only the
// emptying counts.
func (c *coreRun) speedShort(ctx context.Context, name string, rep *BacklogReport) error {
	var done int64
	var took, used time.Duration
	for done < c.o.Probe {
		n := min(shortQueueLength, c.o.Probe-done)
		if err := c.load(ctx, name, n, nil); err != nil {
			return err
		}
		cost := startCost(0)
		if err := c.take(ctx, name, n, false); err != nil {
			return err
		}
		cost.end(0)
		done, took, used = done+n, took+cost.elapsed, used+cost.self
	}
	rep.add("short", done, took, used)
	return nil
}

func (r *BacklogReport) add(state string, n int64, took, used time.Duration) {
	s := Speed{State: state, Messages: n, PerSecond: perSecond(n, took), CPU: perMessage(used, n), Ratio: 1}
	if len(r.Speeds) > 0 && r.Speeds[0].PerSecond > 0 {
		s.Ratio = s.PerSecond / r.Speeds[0].PerSecond
	}
	r.Speeds = append(r.Speeds, s)
}

// deleteHead deletes up to nine tenths of the queue and measures again, before
// and after a restart.
func (c *coreRun) deleteHead(ctx context.Context, name string, rep *BacklogReport) error {
	gone := 2*c.o.Probe + int64(c.o.InFlight)
	head := c.o.Count*9/10 - gone
	if head > 0 {
		cost := startCost(0)
		if err := c.take(ctx, name, head, false); err != nil {
			return err
		}
		cost.end(0)
		rep.add("head of the queue", head, cost.elapsed, cost.self)
	}
	const state = "behind nine tenths deleted"
	if err := c.speed(ctx, state, name, rep); err != nil {
		return err
	}
	if err := c.restart(ctx, state, name, rep); err != nil {
		return err
	}
	return c.speed(ctx, state+", restarted", name, rep)
}

// restart closes the node, lets a fresh process open it, and opens it again.
func (c *coreRun) restart(ctx context.Context, state, name string, rep *BacklogReport) error {
	if err := c.node.Close(); err != nil {
		return err
	}
	r, err := c.probeChild(ctx, name)
	if err != nil {
		return err
	}
	r.State = state
	rep.Restarts = append(rep.Restarts, *r)
	return c.open(ctx, 0)
}
