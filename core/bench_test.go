package core_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/storage"
)

// openBench opens an engine on a real disk, fsync on each commit.
func openBench(b *testing.B, o storage.Options) *core.Client {
	b.Helper()
	if !o.Memory {
		o.Dir = b.TempDir()
	}
	client, stop := openNode(b, o)
	b.Cleanup(stop)
	return client
}

// openNode opens an engine that stop closes.
func openNode(b *testing.B, o storage.Options) (client *core.Client, stop func()) {
	b.Helper()
	db, boot, err := storage.Open(o)
	if err != nil {
		b.Fatal(err)
	}
	e, err := core.Open(core.Options{Store: db, Committer: db, Boot: boot})
	if err != nil {
		b.Fatal(err)
	}
	return e.Client(core.Principal{}), func() {
		if err := errors.Join(e.Close(), db.Close()); err != nil {
			b.Error(err)
		}
	}
}

// BenchmarkCycle is send + receive + delete in a closed loop: 32 producers and
// 32 consumers on 8 queues, 200-byte bodies. One operation is one message.
func BenchmarkCycle(b *testing.B) {
	for _, batch := range []int{1, 10} {
		for _, memory := range []bool{false, true} {
			name := fmt.Sprintf("batch=%d/fsync", batch)
			if memory {
				name = fmt.Sprintf("batch=%d/memory", batch)
			}
			b.Run(name, func(b *testing.B) {
				benchCycle(b, openBench(b, storage.Options{Memory: memory}), batch)
			})
		}
	}
}

func benchCycle(b *testing.B, c *core.Client, batch int) {
	const queues, pairs = 8, 32
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	names := make([]string, queues)
	for i := range names {
		names[i] = fmt.Sprint("q", i)
		if _, _, err := c.Declare(ctx, names[i], core.DefaultQueueConfig(core.KindStandard)); err != nil {
			b.Fatal(err)
		}
	}
	body := make([]byte, 200)
	var sent, settled atomic.Int64
	var wg sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for i := range pairs {
		wg.Go(func() {
			msgs := make([]core.Message, batch)
			for j := range msgs {
				msgs[j] = core.Message{Body: body, Delay: -1}
			}
			var out []core.Published
			for sent.Add(int64(batch)) <= int64(b.N+batch-1) {
				var err error
				if out, err = c.Publish(ctx, names[i%queues], msgs, out[:0]); err != nil {
					b.Error(err)
					return
				}
			}
		})
		wg.Go(func() {
			var got []core.Delivery
			var settle []core.Settlement
			var errs []error
			for settled.Load() < int64(b.N) {
				var err error
				got, err = c.Receive(ctx, names[i%queues], core.ReceiveOptions{Max: batch, Visibility: time.Minute, Wait: time.Second}, got[:0])
				if err != nil {
					return
				}
				settle = settle[:0]
				for j := range got {
					settle = append(settle, core.Settlement{Receipt: got[j].Receipt})
				}
				if errs, err = c.Settle(ctx, names[i%queues], settle, errs[:0]); err != nil {
					b.Error(err)
					return
				}
				if settled.Add(int64(len(got))) >= int64(b.N) {
					cancel()
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
}

// BenchmarkPublishPipelined is one producer with a window of 1,000 sends that
// are not yet durable. One operation is one message.
func BenchmarkPublishPipelined(b *testing.B) {
	c := openBench(b, storage.Options{})
	if _, _, err := c.Declare(b.Context(), "q", core.DefaultQueueConfig(core.KindStandard)); err != nil {
		b.Fatal(err)
	}
	window := make(chan struct{}, 1000)
	msgs := []core.Message{{Body: make([]byte, 200), Delay: -1}}
	done := func(_ []core.Published, err error) {
		if err != nil {
			b.Error(err)
		}
		<-window
	}
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		window <- struct{}{}
		if err := c.PublishAsync("q", msgs, done); err != nil {
			b.Fatal(err)
		}
	}
	for range cap(window) {
		window <- struct{}{}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
}

// deepMessages is how many messages lie in the queue of BenchmarkFIFODeep at the
// start of each drain.
const deepMessages = 216_000

// BenchmarkFIFODeep receives and deletes, ten by ten, from one deep FIFO queue
// until it is empty. One operation is one message; -benchtime 216000x is one
// drain.
func BenchmarkFIFODeep(b *testing.B) {
	for _, d := range []deepQueue{
		{name: "groups=1", groups: 1},
		{name: "groups=100000", groups: 100_000},
		{name: "groups=100000/held=100000", groups: 100_000, held: 100_000},
		{name: "groups=100000/restarted", groups: 100_000, restart: true},
	} {
		b.Run(d.name, func(b *testing.B) {
			d := d // a new queue each time
			d.b, d.dir = b, b.TempDir()
			d.open()
			defer func() { d.stop() }()
			if _, _, err := d.client.Declare(b.Context(), "q", core.DefaultQueueConfig(core.KindFIFO)); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.ResetTimer()
			for n := 0; n < b.N; n += d.receive() {
				if d.left == 0 {
					b.StopTimer()
					d.fill()
					b.StartTimer()
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
		})
	}
}

// deepQueue is the FIFO queue "q" that is filled and drained.
type deepQueue struct {
	name    string
	groups  int
	held    int  // messages that stay in flight until nothing else comes
	restart bool // before it is drained

	b      *testing.B
	dir    string
	client *core.Client
	stop   func()

	sent, left int
	toKeep     int               // of the next messages, how many are not deleted yet
	kept       []core.Settlement // those
	got        []core.Delivery
	errs       []error
}

func (d *deepQueue) open() {
	d.client, d.stop = openNode(d.b, storage.Options{Dir: d.dir})
}

// fill sends deepMessages, spread over the groups.
func (d *deepQueue) fill() {
	const batch = 500
	body := make([]byte, 200)
	msgs := make([]core.Message, batch)
	var out []core.Published
	for range deepMessages / batch {
		for i := range msgs {
			group := fmt.Sprintf("group-%d", d.sent%d.groups)
			msgs[i] = core.Message{Body: body, Delay: -1, Group: group, DedupID: fmt.Sprint(d.sent)}
			d.sent++
		}
		var err error
		if out, err = d.client.Publish(d.b.Context(), "q", msgs, out[:0]); err != nil {
			d.b.Fatal(err)
		}
		d.left += batch
	}
	d.toKeep = d.held
	if d.restart {
		d.stop()
		d.open()
	}
}

// receive takes up to ten and deletes them. The first ones it keeps until there
// is nothing else.
func (d *deepQueue) receive() int {
	var err error
	d.got, err = d.client.Receive(d.b.Context(), "q", core.ReceiveOptions{Max: 10, Visibility: time.Hour}, d.got[:0])
	if err != nil {
		d.b.Fatal(err)
	}
	n := len(d.got)
	if n == 0 && len(d.kept) == 0 {
		d.b.Fatalf("nothing to receive with %d messages left", d.left)
	}
	d.left -= n
	var settle []core.Settlement
	for i := range d.got {
		settle = append(settle, core.Settlement{Receipt: d.got[i].Receipt})
	}
	if d.toKeep > 0 {
		d.toKeep -= n
		d.kept, settle = append(d.kept, settle...), nil
	}
	if n == 0 || d.left == 0 {
		d.kept, settle = nil, append(settle, d.kept...)
	}
	for some := range slices.Chunk(settle, 10) {
		if d.errs, err = d.client.Settle(d.b.Context(), "q", some, d.errs[:0]); err != nil {
			d.b.Fatal(err)
		}
	}
	return n
}
