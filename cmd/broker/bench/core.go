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

// drainTimeout is how long a run waits at its end for what is still under way.
const drainTimeout = 60 * time.Second

// The modes of a run against the core.
const (
	ModeCycle      = "cycle"       // send, receive, delete in a closed loop
	ModeSend       = "send"        // send, each waiting for its answer
	ModePipelined  = "pipelined"   // send with a window of unanswered ones
	ModeBacklog    = "backlog"     // one deep queue
	ModeManyQueues = "many-queues" // one message in each of many queues
	ModeSteady     = "steady"      // messages that live for a while, at a fixed rate
	ModeCrash      = "crash"       // kill -9 under load, and the restart after it
	ModeProbe      = "probe"       // open, one receive: the restart of the modes above
)

// CoreOptions says what to do to the core in this process.
type CoreOptions struct {
	Mode      string        `json:"mode"`
	Dir       string        `json:"-"`         // of the data; empty: in memory
	Sync      string        `json:"sync"`      // commit, interval or never
	Producers int           `json:"producers"` //
	Consumers int           `json:"consumers"` //
	Queues    int           `json:"queues"`
	Batch     int           `json:"batch"`
	Size      int           `json:"size"`        // of a body, bytes
	Count     int64         `json:"count"`       // messages (queues, for many-queues); 0: by Duration
	Warmup    time.Duration `json:"warmup_ns"`   //
	Duration  time.Duration `json:"duration_ns"` //
	Window    int           `json:"window"`      // pipelined: unanswered batches a producer
	Ahead     int           `json:"ahead"`       // cycle: messages a queue that producers may run ahead
	Rate      float64       `json:"rate"`        // steady: messages/s
	Live      time.Duration `json:"live_ns"`     // steady: from send to delete
	Cold      int64         `json:"cold"`        // steady: messages at rest in another queue
	Probe     int64         `json:"probe"`       // backlog: messages of each speed measurement
	InFlight  int           `json:"in_flight"`   // backlog
	FIFO      bool          `json:"fifo"`        //
	SyncMarks bool          `json:"sync_marks"`  // receives wait for their marks
	Seed      uint64        `json:"seed"`

	Open     func(dir string) (*Node, error) `json:"-"` // opens storage and core
	Self     []string                        `json:"-"` // command of this program's "bench core"; nil: no child processes
	Progress Progress                        `json:"-"`
}

// Node is storage and core in this process.
type Node struct {
	Engine  *core.Engine
	Written func() Written // what storage has written since it was opened
	Close   func() error   // closes the engine, then storage; called once
}

// Written is what storage wrote, in bytes.
type Written struct {
	WAL       int64   `json:"wal_bytes"`
	Tables    int64   `json:"table_bytes"`            // flushed and compacted
	Disk      int64   `json:"disk_bytes"`             // in use now
	Syncs     int64   `json:"syncs"`                  // of the log
	User      int64   `json:"user_bytes"`             // keys and bodies that were sent
	Samples   []int64 `json:"disk_samples,omitempty"` // steady: Disk at each tenth of the measured time
	Amplified float64 `json:"write_amplification"`
}

// coreKeyBytes is the size of a message's key, part of what counts as user data.
const coreKeyBytes = 18

// since returns what was written after before, for n messages of size bytes.
func (w Written) since(before Written, n int64, size int) *Written {
	w.WAL -= before.WAL
	w.Tables -= before.Tables
	w.Syncs -= before.Syncs
	w.User = n * int64(size+coreKeyBytes)
	if w.User > 0 {
		w.Amplified = float64(w.WAL+w.Tables) / float64(w.User)
	}
	return &w
}

// ErrOptions is what an error wraps if nothing was run: options are wrong.
var ErrOptions = errors.New("cannot run")

// RunCore does what o.Mode says.
func RunCore(ctx context.Context, o CoreOptions) (*Result, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	bodies, err := NewBodies(o.Seed, o.Size)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	c := &coreRun{o: o, bodies: bodies}
	switch o.Mode {
	case ModeCycle, ModeSend, ModePipelined:
		return c.loop(ctx)
	case ModeBacklog:
		return c.backlog(ctx)
	case ModeManyQueues:
		return c.manyQueues(ctx)
	case ModeSteady:
		return c.steady(ctx)
	case ModeCrash:
		return c.crash(ctx)
	case ModeProbe:
		return c.probe(ctx)
	}
	return nil, fmt.Errorf("%w: mode %q: must be cycle, send, pipelined, backlog, many-queues, steady or crash", ErrOptions, o.Mode)
}

func (o *CoreOptions) check() error {
	switch {
	case o.Open == nil:
		return errors.New("no way to open a node")
	case o.Producers < 1 || o.Producers > SendersMax:
		return fmt.Errorf("%d producers: must be 1 to %d", o.Producers, SendersMax)
	case o.Queues < 1 || o.Batch < 1 || o.Window < 1:
		return errors.New("queues, batch and window must be at least 1")
	case o.Mode == ModeCycle && (o.Producers < o.Queues || o.Consumers < o.Queues):
		return fmt.Errorf("%d queues need at least as many producers and consumers", o.Queues)
	case o.Duration <= 0 && o.Count <= 0 && o.Mode != ModeProbe:
		return errors.New("neither duration nor count is given")
	case o.Mode == ModeBacklog && o.Count < 10*(2*o.Probe+int64(o.InFlight))+1:
		return fmt.Errorf("a backlog of %d messages is too short for speeds over %d and %d in flight: a tenth of it must hold two speeds and those",
			o.Count, o.Probe, o.InFlight)
	case o.Dir == "" && (o.Mode == ModeBacklog || o.Mode == ModeManyQueues || o.Mode == ModeCrash || o.Mode == ModeProbe):
		return fmt.Errorf("mode %s needs a data directory", o.Mode)
	}
	return nil
}

// coreRun is one run under way.
type coreRun struct {
	o        CoreOptions
	bodies   *Bodies
	node     *Node
	client   *core.Client
	disk     []int64
	tracker  *Tracker
	flows    []*Flow
	phase    Phase
	began    time.Time
	stopping atomic.Bool // producers
	drained  atomic.Bool // consumers
	send     []*Meter
	receive  []*Meter
	del      []*Meter
	passage  []*Meter
}

// open opens the node and its queues.
func (c *coreRun) open(ctx context.Context, queues int) error {
	node, err := c.o.Open(c.o.Dir)
	if err != nil {
		return err
	}
	node.Close = sync.OnceValue(node.Close)
	c.node = node
	c.client = node.Engine.Client(core.Principal{Name: "bench"})
	for i := range queues {
		if err := c.declare(ctx, queueName(i)); err != nil {
			return errors.Join(err, c.node.Close())
		}
	}
	return nil
}

func (c *coreRun) declare(ctx context.Context, name string) error {
	kind := core.KindStandard
	if c.o.FIFO {
		kind = core.KindFIFO
	}
	cfg := core.DefaultQueueConfig(kind)
	if c.o.SyncMarks {
		cfg.Marks = core.MarksSync
	}
	if _, _, err := c.client.Declare(ctx, name, cfg); err != nil {
		return fmt.Errorf("declare %s: %w", name, err)
	}
	return nil
}

func queueName(i int) string { return fmt.Sprintf("bench-%d", i) }

// loop runs the modes that go round until their time is over.
func (c *coreRun) loop(ctx context.Context) (res *Result, err error) {
	if err := c.open(ctx, c.o.Queues); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.node.Close()) }()
	consumers, groups := 0, 0
	if c.o.Mode == ModeCycle {
		consumers = c.o.Consumers
	}
	if c.o.FIFO {
		groups = coreGroups
	}
	c.tracker = NewTracker(c.o.Producers, groups)
	for range c.o.Queues {
		ahead := c.o.Ahead
		if c.o.Mode != ModeCycle {
			ahead = 0
		}
		c.flows = append(c.flows, NewFlow(ahead))
	}
	c.send, c.receive = newMeters(&c.phase, c.o.Producers), newMeters(&c.phase, consumers)
	c.del, c.passage = newMeters(&c.phase, consumers), newMeters(&c.phase, consumers)

	resetPeak()
	before := c.node.Written()
	cost, err := c.drive(ctx, consumers)
	if err != nil {
		return nil, err
	}
	return c.result(cost, before), nil
}

// drive runs the workers through warm-up, measurement and drain.
func (c *coreRun) drive(ctx context.Context, consumers int) (Cost, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var producers, receivers sync.WaitGroup
	c.began = time.Now()
	if c.o.Count > 0 {
		c.phase.set(phaseMeasure)
	}
	for i := range consumers {
		receivers.Go(func() { (&coreConsumer{run: c, index: i}).work(ctx) })
	}
	for i := range c.o.Producers {
		p := &coreProducer{run: c, index: i}
		if c.o.Mode == ModePipelined {
			producers.Go(func() { p.pipeline(ctx) })
		} else {
			producers.Go(func() { p.work(ctx) })
		}
	}
	stopProgress := c.showProgress(ctx, consumers)
	defer stopProgress()
	cost, err := c.measure(ctx, &producers)
	c.stopping.Store(true)
	if err != nil {
		cancel()
	}
	for _, f := range c.flows {
		f.Stop()
	}
	producers.Wait()
	for limit := time.Now().Add(drainTimeout); consumers > 0 && err == nil && !c.tracker.Complete() && time.Now().Before(limit); {
		err = pause(ctx, drainPoll)
	}
	if c.o.Count > 0 {
		cost.end(0)
	}
	c.drained.Store(true)
	receivers.Wait()
	return cost, err
}

func (c *coreRun) measure(ctx context.Context, producers *sync.WaitGroup) (Cost, error) {
	if c.o.Count > 0 {
		cost := startCost(0)
		return cost, waitProgress(ctx, producers, func() int64 { return sumMessages(c.send) + sumMessages(c.del) })
	}
	if err := pause(ctx, c.o.Warmup); err != nil {
		return Cost{}, err
	}
	c.phase.set(phaseMeasure)
	cost := startCost(0)
	err := pause(ctx, c.o.Duration)
	c.phase.set(phaseDrain)
	cost.end(0)
	return cost, err
}

func (c *coreRun) showProgress(ctx context.Context, consumers int) (stop func()) {
	if c.o.Progress == nil {
		return func() {}
	}
	meters := c.del
	if consumers == 0 {
		meters = c.send
	}
	return every(ctx, progressInterval, func() {
		done := sumMessages(meters)
		c.o.Progress(done, projected(done, c.o.Count, time.Since(c.began), c.o.Warmup+c.o.Duration))
	})
}

func (c *coreRun) result(cost Cost, before Written) *Result {
	mem := SelfMemory()
	res := &Result{
		Kind: "core", Mode: c.o.Mode, Options: c.o, Machine: ThisMachine(),
		Seconds: cost.elapsed.Seconds(), Memory: &mem,
	}
	res.Steps = append(res.Steps, NewStep("send", cost.elapsed, c.send))
	if len(c.del) > 0 {
		passage := NewStep("passage", cost.elapsed, c.passage).Latency
		v := c.tracker.Verdict()
		res.Passage, res.Check = &passage, &v
		res.Steps = append(res.Steps,
			NewStep("receive", cost.elapsed, c.receive),
			NewStep("delete", cost.elapsed, c.del))
	}
	last := res.Steps[len(res.Steps)-1]
	res.Messages, res.PerSecond = last.Messages, last.PerSecond
	res.Cost = cost.perMessage(last.Messages)
	// Storage counts over the whole run, warm-up and drain included.
	res.Storage = c.node.Written().since(before, sumMessages(c.send), c.o.Size)
	res.Storage.Samples = c.disk
	res.Errors = sumErrors(c.send, c.receive, c.del)
	return res
}
