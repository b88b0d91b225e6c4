package core_test

import (
	"context"
	"fmt"
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
	db, boot, err := storage.Open(o)
	if err != nil {
		b.Fatal(err)
	}
	e, err := core.Open(core.Options{Store: db, Committer: db, Boot: boot})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := e.Close(); err != nil {
			b.Error(err)
		}
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	})
	return e.Client(core.Principal{})
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
