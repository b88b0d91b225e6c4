package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// course is what the runs against a server have in common: when they measure, and
// when they end.
type course struct {
	warmup    time.Duration
	duration  time.Duration
	count     int64         // messages over all senders; 0: by duration
	patience  time.Duration // how long to wait at the end for what is under way
	serverPID int
	progress  Progress

	tracker  *Tracker
	phase    Phase
	began    time.Time
	stopping atomic.Bool // senders
	drained  atomic.Bool // receivers
}

// begin starts the clock of the run.
func (c *course) begin() {
	resetPeak()
	c.began = time.Now()
	if c.count > 0 {
		c.phase.set(phaseMeasure)
	}
}

// measure waits for the measured time to pass or, with a count, for the senders
// to end. moved counts what was done up to now.
func (c *course) measure(ctx context.Context, senders *sync.WaitGroup, moved func() int64) (Cost, error) {
	if c.count > 0 {
		cost := startCost(c.serverPID)
		return cost, waitProgress(ctx, senders, moved)
	}
	if err := pause(ctx, c.warmup); err != nil {
		return Cost{}, err
	}
	c.phase.set(phaseMeasure)
	cost := startCost(c.serverPID)
	err := pause(ctx, c.duration)
	c.phase.set(phaseDrain)
	cost.end(c.serverPID)
	return cost, err
}

// errStalled ends a run in which nothing moves any more.
var errStalled = errors.New("run has stalled")

// waitProgress waits for the workers to end, as long as progress rises.
func waitProgress(ctx context.Context, workers *sync.WaitGroup, progress func() int64) error {
	ended := make(chan struct{})
	go func() { workers.Wait(); close(ended) }()
	check := time.NewTicker(stallTimeout)
	defer check.Stop()
	last := int64(-1)
	for {
		select {
		case <-ended:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-check.C:
			now := progress()
			if now == last {
				return fmt.Errorf("no message for %v: %w", stallTimeout, errStalled)
			}
			last = now
		}
	}
}

// drain waits for what was sent to arrive.
func (c *course) drain(ctx context.Context) {
	limit := time.Now().Add(c.patience)
	for !c.tracker.Complete() && time.Now().Before(limit) {
		if pause(ctx, drainPoll) != nil {
			return
		}
	}
}

// showProgress tells progress how far the run is by meters, until stopped.
func (c *course) showProgress(ctx context.Context, meters []*Meter) (stop func()) {
	if c.progress == nil {
		return func() {}
	}
	return every(ctx, progressInterval, func() {
		done := sumMessages(meters)
		c.progress(done, projected(done, c.count, time.Since(c.began), c.warmup+c.duration))
	})
}

// result begins the result of the run; what the steps say is added.
func (c *course) result(kind string, options any, cost Cost) *Result {
	mem := SelfMemory()
	res := &Result{Kind: kind, Options: options, Machine: ThisMachine(), Seconds: cost.elapsed.Seconds(), Memory: &mem}
	if c.serverPID > 0 {
		if server, err := ProcessMemory(c.serverPID); err == nil {
			res.ServerMemory = &server
		}
	}
	return res
}

// sum takes the rate and the cost of a message from the last step.
func (r *Result) sum(cost Cost) {
	last := r.Steps[len(r.Steps)-1]
	r.Messages, r.PerSecond = last.Messages, last.PerSecond
	r.Cost = cost.perMessage(last.Messages)
}
