package bench

import (
	"context"
	"sync"
	"time"

	"github.com/leasemq/broker/core"
)

// coreGroups is how many message groups each producer uses on FIFO queues.
const coreGroups = 16

// coreWait is how long a consumer waits for a first message.
const coreWait = 200 * time.Millisecond

// coreProducer is one producing worker.
type coreProducer struct {
	run   *coreRun
	index int
	next  uint64
}

// coreBatch is the messages of one publish. Publish copies the bodies, so that a
// batch can be written again as soon as it returns.
type coreBatch struct {
	msgs []core.Message
	out  []core.Published
}

func (c *coreRun) newBatch() *coreBatch {
	b := &coreBatch{msgs: make([]core.Message, c.o.Batch), out: make([]core.Published, 0, c.o.Batch)}
	for i := range b.msgs {
		b.msgs[i].Body = make([]byte, c.o.Size)
		b.msgs[i].Delay = -1
	}
	return b
}

// stamp writes the next n messages of the producer into b.
func (p *coreProducer) stamp(b *coreBatch, n int, now time.Time) []core.Message {
	for i := range n {
		s := Stamp{Sender: p.index, Counter: p.next + uint64(i), Due: now.Sub(p.run.began)}
		p.run.bodies.Fill(b.msgs[i].Body, s)
		if p.run.o.FIFO {
			b.msgs[i].Group = coreGroup(p.index, int(s.Counter%coreGroups))
			b.msgs[i].DedupID = string(b.msgs[i].Body[:dedupBytes])
		}
	}
	p.next += uint64(n)
	return b.msgs[:n]
}

// coreGroup names a message group in two bytes a part.
func coreGroup(sender, group int) string {
	return string([]byte{'g', byte(sender >> 8), byte(sender), byte(group)})
}

// work publishes batch after batch, each waiting until it is durable.
func (p *coreProducer) work(ctx context.Context) {
	c := p.run
	queue := p.index % c.o.Queues
	name, flow, meter := queueName(queue), c.flows[queue], c.send[p.index]
	quota := share(c.o.Count, p.index, c.o.Producers)
	b := c.newBatch()
	p.next = 1
	for !c.stopping.Load() && ctx.Err() == nil {
		n := c.o.Batch
		if c.o.Count > 0 {
			n = int(min(int64(n), quota-int64(p.next-1)))
		}
		if n <= 0 || !flow.Reserve(n) {
			return
		}
		first, start := p.next, time.Now()
		var err error
		b.out, err = c.client.Publish(ctx, name, p.stamp(b, n, start), b.out[:0])
		if err != nil {
			c.tracker.Unknown(p.index, first, uint64(n))
			flow.Done(n)
			if ctx.Err() == nil {
				meter.Error("publish: " + err.Error())
				_ = pause(ctx, redialPause)
			}
			continue
		}
		c.tracker.Sent(p.index, first, uint64(n))
		meter.Record(n, time.Since(start))
	}
}

// pipeline publishes with a window of batches that are not yet durable.
func (p *coreProducer) pipeline(ctx context.Context) {
	c := p.run
	name, meter := queueName(p.index%c.o.Queues), c.send[p.index]
	quota := share(c.o.Count, p.index, c.o.Producers)
	// The callbacks of one client run one after the other with all others', so
	// that they must not block; the meter is theirs alone until wg is done.
	var mu sync.Mutex
	var wg sync.WaitGroup
	window := make(chan *coreBatch, c.o.Window)
	for range c.o.Window {
		window <- c.newBatch()
	}
	p.next = 1
	for !c.stopping.Load() && ctx.Err() == nil {
		n := c.o.Batch
		if c.o.Count > 0 {
			n = int(min(int64(n), quota-int64(p.next-1)))
		}
		if n <= 0 {
			break
		}
		b := <-window
		first, start := p.next, time.Now()
		wg.Add(1)
		err := c.client.PublishAsync(name, p.stamp(b, n, start), func(_ []core.Published, err error) {
			mu.Lock()
			if err != nil {
				c.tracker.Unknown(p.index, first, uint64(n))
				meter.Error("publish: " + err.Error())
			} else {
				c.tracker.Sent(p.index, first, uint64(n))
				meter.Record(n, time.Since(start))
			}
			mu.Unlock()
			window <- b
			wg.Done()
		})
		if err != nil {
			mu.Lock()
			c.tracker.Unknown(p.index, first, uint64(n))
			meter.Error("publish: " + err.Error())
			mu.Unlock()
			window <- b
			wg.Done()
			_ = pause(ctx, redialPause)
		}
	}
	wg.Wait()
}

// coreConsumer is one consuming worker.
type coreConsumer struct {
	run   *coreRun
	index int

	deliveries  []core.Delivery
	settlements []core.Settlement
	errs        []error
}

// work receives and deletes until all has arrived.
func (k *coreConsumer) work(ctx context.Context) {
	c := k.run
	queue := k.index % c.o.Queues
	name, flow := queueName(queue), c.flows[queue]
	receive, del := c.receive[k.index], c.del[k.index]
	o := core.ReceiveOptions{Max: c.o.Batch, Visibility: -1, Wait: coreWait}
	for !c.drained.Load() && ctx.Err() == nil {
		start := time.Now()
		var err error
		k.deliveries, err = c.client.Receive(ctx, name, o, k.deliveries[:0])
		if err != nil {
			if ctx.Err() == nil {
				receive.Error("receive: " + err.Error())
				_ = pause(ctx, redialPause)
			}
			continue
		}
		if len(k.deliveries) == 0 {
			continue
		}
		got := time.Now()
		receive.Record(len(k.deliveries), got.Sub(start))
		k.book(got)
		if n := k.settle(ctx, name, core.SettleDelete); n > 0 {
			flow.Done(n)
			del.Record(n, time.Since(got))
		}
	}
}

// book tells the tracker what has arrived.
func (k *coreConsumer) book(got time.Time) {
	c := k.run
	for i := range k.deliveries {
		st, err := c.bodies.Parse(k.deliveries[i].Body)
		if err != nil {
			c.tracker.Foreign()
			continue
		}
		c.tracker.Received(st)
		c.passage[k.index].RecordLatency(got.Sub(c.began) - st.Due)
	}
}

// settle settles all deliveries and returns how many it could.
func (k *coreConsumer) settle(ctx context.Context, name string, action core.SettleAction) int {
	meter := k.run.del[k.index]
	k.settlements = k.settlements[:0]
	for i := range k.deliveries {
		k.settlements = append(k.settlements, core.Settlement{Receipt: k.deliveries[i].Receipt, Action: action})
	}
	var err error
	k.errs, err = k.run.client.Settle(ctx, name, k.settlements, k.errs[:0])
	if err != nil {
		if ctx.Err() == nil {
			meter.Error("settle: " + err.Error())
		}
		return 0
	}
	n := len(k.settlements)
	for _, err := range k.errs {
		if err != nil {
			meter.Error("settle: " + err.Error())
			n--
		}
	}
	return n
}
