package core_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/leasemq/broker/core"
)

// watcher receives from a queue by a Watch.
type watcher struct {
	t      *testing.T
	client *core.Client
	watch  *core.Watch
	called chan struct{}
}

func newWatcher(t *testing.T, c *core.Client) *watcher {
	w := &watcher{t: t, client: c, called: make(chan struct{}, 1)}
	w.watch = core.NewWatch(func() { w.called <- struct{}{} })
	return w
}

func (w *watcher) receive(queue string) ([]core.Delivery, error) {
	return w.client.Receive(w.t.Context(), queue, core.ReceiveOptions{Max: 1, Visibility: core.VisibilityMax, Watch: w.watch}, nil)
}

func (w *watcher) wants(n int) {
	w.t.Helper()
	if got, err := w.receive("q"); err != nil || len(got) != n {
		w.t.Errorf("received %d messages, %v, want %d", len(got), err, n)
	}
}

func watchedQueue(t *testing.T) *node {
	n := &node{t: t, fs: vfs.NewCrashableMem()}
	n.open()
	t.Cleanup(n.close)
	if _, _, err := n.client.Declare(t.Context(), "q", core.DefaultQueueConfig(core.KindStandard)); err != nil {
		t.Fatal(err)
	}
	return n
}

func sendOne(t *testing.T, c *core.Client) {
	t.Helper()
	if _, err := c.Publish(t.Context(), "q", []core.Message{{Body: []byte("x")}}, nil); err != nil {
		t.Error(err)
	}
}

// A message calls one watch of those that are parked, the oldest; one that leaves
// hands it on, and a queue that goes calls all.
func TestWatchesStandInLine(t *testing.T) {
	n := watchedQueue(t)
	a, b := newWatcher(t, n.client), newWatcher(t, n.client)
	a.wants(0)
	b.wants(0)
	sendOne(t, n.client)
	<-a.called
	if len(b.called) != 0 {
		t.Error("one message has called two watches")
	}
	a.watch.Leave()
	<-b.called
	b.wants(1)
	b.wants(0)
	b.watch.Leave()
	a.wants(0)
	sendOne(t, n.client)
	<-a.called
	if len(b.called) != 0 {
		t.Error("a watch was called that has left")
	}
	a.wants(1)
	a.wants(0)
	if err := n.client.Delete(t.Context(), "q"); err != nil {
		t.Fatal(err)
	}
	<-a.called
	if _, err := a.receive("q"); !errors.Is(err, core.ErrNoQueue) {
		t.Errorf("a receive from a queue that has gone says %v", err)
	}
}

// Watches that come and go lose no message: each is received by one of them.
func TestWatchesLoseNothing(t *testing.T) {
	const watchers, messages = 8, 2000
	n := watchedQueue(t)
	var left sync.WaitGroup
	left.Add(messages)
	stop := make(chan struct{})
	var work sync.WaitGroup
	for i := range watchers {
		w := newWatcher(t, n.client)
		rng := rand.New(rand.NewPCG(1, uint64(i)))
		work.Go(func() {
			for {
				got, err := w.receive("q")
				if err != nil {
					t.Error(err)
					return
				}
				if len(got) > 0 {
					left.Done()
					continue
				}
				select {
				case <-w.called:
				case <-stop:
					return
				}
				if rng.IntN(3) == 0 {
					w.watch.Leave()
				}
			}
		})
	}
	for range 4 {
		work.Go(func() {
			for range messages / 4 {
				sendOne(t, n.client)
			}
		})
	}
	left.Wait()
	close(stop)
	work.Wait()
}
