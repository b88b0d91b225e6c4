package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/leasemq/broker/core"
)

// steadyTick is how often a steady consumer deletes what has lived long enough.
const steadyTick = 10 * time.Millisecond

// diskSamples is how often the use of the disk is looked at.
const diskSamples = 10

// steady sends at a fixed rate. Each message is received at once, held, and
// deleted when it has lived for Live: what storage writes then is what a queue
// in steady state costs.
func (c *coreRun) steady(ctx context.Context) (res *Result, err error) {
	if c.o.Rate <= 0 || c.o.Live <= 0 {
		return nil, errors.New("mode steady needs a rate and a life")
	}
	if held := c.o.Rate * c.o.Live.Seconds() / float64(c.o.Queues); held > core.InFlightMax*0.8 {
		return nil, fmt.Errorf("%.0f messages in flight a queue: use more queues", held)
	}
	if err := c.open(ctx, c.o.Queues); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.node.Close()) }()
	if c.o.Cold > 0 {
		if err := c.declare(ctx, "bench-cold"); err != nil {
			return nil, err
		}
		if err := c.load(ctx, "bench-cold", c.o.Cold, nil); err != nil {
			return nil, err
		}
	}
	c.tracker = NewTracker(c.o.Queues, 0)
	c.send, c.receive = newMeters(&c.phase, c.o.Queues), newMeters(&c.phase, c.o.Queues)
	c.del, c.passage = newMeters(&c.phase, c.o.Queues), newMeters(&c.phase, c.o.Queues)
	cost, before, err := c.driveSteady(ctx)
	if err != nil {
		return nil, err
	}
	res = c.result(cost, before)
	return res, nil
}

// driveSteady runs one producer and one consumer a queue.
func (c *coreRun) driveSteady(ctx context.Context) (Cost, Written, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var producers, consumers sync.WaitGroup
	c.began = time.Now()
	for i := range c.o.Queues {
		consumers.Go(func() { (&steadyConsumer{coreConsumer: coreConsumer{run: c, index: i}}).work(ctx) })
		producers.Go(func() { c.steadyProducer(ctx, i) })
	}
	stopProgress := c.showProgress(ctx, c.o.Queues)
	defer stopProgress()
	before := c.node.Written()
	stopSamples := func() {}
	if c.o.Duration > 0 {
		stopSamples = every(ctx, c.o.Duration/diskSamples, func() { c.disk = append(c.disk, c.node.Written().Disk) })
	}
	cost, err := c.measure(ctx, &producers)
	stopSamples()
	c.stopping.Store(true)
	if err != nil {
		cancel()
	}
	producers.Wait()
	for limit := time.Now().Add(c.o.Live + drainTimeout); err == nil && !c.tracker.Complete() && time.Now().Before(limit); {
		err = pause(ctx, drainPoll)
	}
	c.drained.Store(true)
	consumers.Wait()
	return cost, before, err
}

// steadyProducer sends batches when they are due.
func (c *coreRun) steadyProducer(ctx context.Context, i int) {
	p := &coreProducer{run: c, index: i, next: 1}
	b := c.newBatch()
	pace := newPace(c.began, c.o.Rate, i, c.o.Queues, c.o.Batch)
	for !c.stopping.Load() {
		due, ok := pace.wait(ctx)
		if !ok {
			return
		}
		first := p.next
		var err error
		b.out, err = c.client.Publish(ctx, queueName(i), p.stamp(b, c.o.Batch, due), b.out[:0])
		if err != nil {
			c.tracker.Unknown(i, first, uint64(c.o.Batch))
			c.send[i].Error("publish: " + err.Error())
			continue
		}
		c.tracker.Sent(i, first, uint64(c.o.Batch))
		c.send[i].Record(c.o.Batch, time.Since(due))
	}
}

// steadyConsumer receives at once and deletes later.
type steadyConsumer struct {
	coreConsumer
	held []heldLease // in the order of receipt
}

// heldLease is a message that lives on for a while.
type heldLease struct {
	receipt core.Receipt
	until   time.Time
}

func (k *steadyConsumer) work(ctx context.Context) {
	c := k.run
	name := queueName(k.index)
	o := core.ReceiveOptions{Max: c.o.Batch, Visibility: c.o.Live + time.Minute, Wait: steadyTick}
	for !c.drained.Load() || len(k.held) > 0 {
		if ctx.Err() != nil {
			return
		}
		start := time.Now()
		var err error
		k.deliveries, err = c.client.Receive(ctx, name, o, k.deliveries[:0])
		if err != nil {
			c.receive[k.index].Error("receive: " + err.Error())
			_ = pause(ctx, redialPause)
			continue
		}
		got := time.Now()
		if len(k.deliveries) > 0 {
			c.receive[k.index].Record(len(k.deliveries), got.Sub(start))
			k.book(got)
		}
		for i := range k.deliveries {
			k.held = append(k.held, heldLease{k.deliveries[i].Receipt, got.Add(c.o.Live)})
		}
		k.deleteDue(ctx, name, got)
	}
}

// deleteDue deletes what has lived long enough, a batch at a time.
func (k *steadyConsumer) deleteDue(ctx context.Context, name string, now time.Time) {
	c := k.run
	for len(k.held) > 0 && !k.held[0].until.After(now) {
		k.settlements = k.settlements[:0]
		for _, h := range k.held[:min(len(k.held), c.o.Batch)] {
			if h.until.After(now) {
				break
			}
			k.settlements = append(k.settlements, core.Settlement{Receipt: h.receipt})
		}
		n := len(k.settlements)
		start := time.Now()
		errs, err := c.client.Settle(ctx, name, k.settlements, k.errs[:0])
		if err = errors.Join(append(errs, err)...); err != nil {
			c.del[k.index].Error("settle: " + err.Error())
		} else {
			c.del[k.index].Record(n, time.Since(start))
		}
		k.held = k.held[n:]
	}
}
