package core_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/storage"
)

// BenchmarkFanOut is one producer with a window of 100 publishes, to a topic that
// 100 queues are bound to. One operation is one publish: 100 entries.
func BenchmarkFanOut(b *testing.B) {
	const queues = 100
	for _, size := range []int{100, 1 << 10, 10 << 10} {
		b.Run(fmt.Sprintf("body=%d", size), func(b *testing.B) {
			c := openBench(b, storage.Options{})
			bindMany(b, c, queues)
			window := make(chan struct{}, 100)
			p := core.TopicPublish{Topic: "a/b", Messages: []core.Message{{Body: make([]byte, size)}}}
			done := func(out []core.TopicResult, err error) {
				if err != nil || out[0].Matched != queues {
					b.Error(out, err)
				}
				<-window
			}
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				window <- struct{}{}
				if err := c.PublishTopicAsync(p, done); err != nil {
					b.Fatal(err)
				}
			}
			for range cap(window) {
				window <- struct{}{}
			}
			b.ReportMetric(float64(b.N)*queues/b.Elapsed().Seconds(), "entries/s")
		})
	}
}

func bindMany(b *testing.B, c *core.Client, queues int) {
	for i := range queues {
		name := fmt.Sprint("q", i)
		if _, _, err := c.Declare(b.Context(), name, core.DefaultQueueConfig(core.KindStandard)); err != nil {
			b.Fatal(err)
		}
		if err := c.Bind(b.Context(), core.Binding{Filter: "a/+", Queue: name}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFanOutDelivered is BenchmarkFanOut with a consumer a queue, which
// receives up to 50 at a time and deletes them. At most 200 publishes are ahead of
// the slowest.
func BenchmarkFanOutDelivered(b *testing.B) {
	const queues, ahead = 100, 200
	db, boot, err := storage.Open(storage.Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	e, err := core.Open(core.Options{Store: db, Committer: db, Boot: boot})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := errors.Join(e.Close(), db.Close()); err != nil {
			b.Error(err)
		}
	}()
	c := e.Client(core.Principal{})
	bindMany(b, c, queues)
	var taken [queues]atomic.Int64
	var consumers sync.WaitGroup
	before := db.Metrics().LogBytesWritten
	b.ResetTimer()
	for i := range queues {
		consumers.Go(func() {
			owner := c.NewOwner()
			var got []core.Delivery
			var settle []core.Settlement
			var errs []error
			for taken[i].Load() < int64(b.N) {
				var err error
				got, err = c.Receive(b.Context(), fmt.Sprint("q", i), core.ReceiveOptions{Max: 50, Wait: time.Minute, Owner: owner}, got[:0])
				settle = settle[:0]
				for j := range got {
					settle = append(settle, core.Settlement{Receipt: got[j].Receipt})
				}
				if err == nil && len(settle) > 0 {
					errs, err = c.Settle(b.Context(), fmt.Sprint("q", i), settle, errs[:0])
				}
				if err != nil {
					b.Error(err)
					return
				}
				taken[i].Add(int64(len(got)))
			}
		})
	}
	p := core.TopicPublish{Topic: "a/b", Messages: []core.Message{{Body: make([]byte, 1<<10)}}}
	for sent := int64(0); sent < int64(b.N); sent++ {
		for i := range taken {
			for taken[i].Load()+ahead < sent && !b.Failed() {
				time.Sleep(time.Millisecond)
			}
		}
		if err := c.PublishTopicAsync(p, func([]core.TopicResult, error) {}); err != nil {
			b.Fatal(err)
		}
	}
	consumers.Wait()
	b.ReportMetric(float64(b.N)*queues/b.Elapsed().Seconds(), "entries/s")
	b.ReportMetric(float64(db.Metrics().LogBytesWritten-before)/float64(b.N*queues), "log-bytes/entry")
}

// BenchmarkOpenWithBindings opens a node that has 100,000 bindings, and waits
// until they are known.
func BenchmarkOpenWithBindings(b *testing.B) {
	const bindings = 100_000
	o := storage.Options{Dir: b.TempDir()}
	open := func() (*core.Client, func()) {
		db, boot, err := storage.Open(o)
		if err != nil {
			b.Fatal(err)
		}
		e, err := core.Open(core.Options{Store: db, Committer: db, Boot: boot})
		if err != nil {
			b.Fatal(err)
		}
		return e.Client(core.Principal{}), func() {
			if err := e.Close(); err != nil {
				b.Error(err)
			}
			if err := db.Close(); err != nil {
				b.Error(err)
			}
		}
	}
	c, closeAll := open()
	for i := range 100 {
		if _, _, err := c.Declare(b.Context(), fmt.Sprint("q", i), core.DefaultQueueConfig(core.KindStandard)); err != nil {
			b.Fatal(err)
		}
	}
	work := make(chan int)
	failed := make(chan error, 100)
	for range cap(failed) {
		go func() {
			var first error
			for i := range work {
				err := c.Bind(b.Context(), core.Binding{Filter: fmt.Sprintf("device/%d/state", i), Queue: fmt.Sprint("q", i%100)})
				if first == nil {
					first = err
				}
			}
			failed <- first
		}()
	}
	for i := range bindings {
		work <- i
	}
	close(work)
	for range cap(failed) {
		if err := <-failed; err != nil {
			b.Fatal(err)
		}
	}
	closeAll()
	b.ResetTimer()
	for range b.N {
		c, closeAll := open()
		if _, err := c.PublishTopic(b.Context(), core.TopicPublish{Topic: "nobody", Messages: make([]core.Message, 1)}, nil); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		closeAll()
		b.StartTimer()
	}
}
