package core_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/leasemq/broker/core"
)

// What the crash model has found, each alone.

// onNode runs f in a bubble, on a node with a queue called q.
func onNode(t *testing.T, n *node, f func(t *testing.T, n *node)) {
	synctest.Test(t, func(t *testing.T) {
		n.t, n.fs = t, vfs.NewCrashableMem()
		n.open()
		if _, _, err := n.client.Declare(t.Context(), "q", core.DefaultQueueConfig(core.KindStandard)); err != nil {
			t.Fatal(err)
		}
		f(t, n)
		n.close()
	})
}

func publish(t *testing.T, n *node, msgs ...core.Message) {
	t.Helper()
	if _, err := n.client.Publish(t.Context(), "q", msgs, nil); err != nil {
		t.Fatal(err)
	}
}

func text(s string) core.Message { return core.Message{Body: []byte(s), Delay: -1} }

func take(t *testing.T, n *node, o core.ReceiveOptions) []core.Delivery {
	t.Helper()
	ds, err := n.client.Receive(t.Context(), "q", o, nil)
	if err != nil {
		t.Fatal(err)
	}
	return ds
}

// TestReleaseOwnerLeavesAQueueAloneThatLeftMemory: the owner remembered a queue
// that it had settled everything of, and stored the state that this had then.
func TestReleaseOwnerLeavesAQueueAloneThatLeftMemory(t *testing.T) {
	onNode(t, new(node), func(t *testing.T, n *node) {
		publish(t, n, text("first"))
		o := n.client.NewOwner()
		ds := take(t, n, core.ReceiveOptions{Max: 1, Owner: o})
		if _, err := n.client.Settle(t.Context(), "q", []core.Settlement{{Receipt: ds[0].Receipt}}, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute) // idle queues leave memory
		publish(t, n, text("a"), text("b"), text("c"))
		if err := n.client.ReleaseOwner(o, false); err != nil {
			t.Fatal(err)
		}
		n.close()
		n.open()
		st, err := n.client.Stats(t.Context(), "q")
		if err != nil || st.Messages != 3 || st.Bytes != 3 {
			t.Errorf("stats %+v, %v, want 3 messages of 3 bytes", st, err)
		}
	})
}

// TestRedeliveredOutlivesAnOrderlyRestart: a message that a session was given
// before a crash is in doubt until it is given again.
func TestRedeliveredOutlivesAnOrderlyRestart(t *testing.T) {
	onNode(t, new(node), func(t *testing.T, n *node) {
		publish(t, n, text("a"))
		if ds := take(t, n, core.ReceiveOptions{Max: 1, Owner: n.client.NewOwner()}); len(ds) != 1 || ds[0].Redelivered {
			t.Fatalf("got %+v", ds)
		}
		n.crash()
		n.close()
		n.open()
		if ds := take(t, n, core.ReceiveOptions{Max: 1, Visibility: time.Minute}); len(ds) != 1 || !ds[0].Redelivered {
			t.Errorf("got %+v, want a redelivery", ds)
		}
	})
}

// TestSessionsWaitForTheWatermarkOfOthers: the watermark that the first delivery
// has raised covers the second one only once it is durable.
func TestSessionsWaitForTheWatermarkOfOthers(t *testing.T) {
	onNode(t, new(node), func(t *testing.T, n *node) {
		publish(t, n, text("a"), text("b"))
		n.gate.hold()
		var got sync.WaitGroup
		answered := 0
		var mu sync.Mutex
		for range 2 {
			got.Go(func() {
				_, err := n.client.Receive(context.Background(), "q", core.ReceiveOptions{Max: 1, Owner: n.client.NewOwner()}, nil)
				mu.Lock()
				defer mu.Unlock()
				if answered++; err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		mu.Lock()
		if answered > 0 {
			t.Errorf("%d deliveries before the watermark was durable", answered)
		}
		mu.Unlock()
		n.gate.release()
		got.Wait()
	})
}

// TestPurgeReapsALaneThatItsOwnChangeHasBegun: the reaper finds messages by the
// records of their lanes.
func TestPurgeReapsALaneThatItsOwnChangeHasBegun(t *testing.T) {
	onNode(t, new(node), func(t *testing.T, n *node) {
		var mu sync.Mutex
		var put []core.Ref
		n.gate.mu.Lock()
		n.gate.seen = func(c *core.Change) {
			mu.Lock()
			defer mu.Unlock()
			for i := range c.Edits {
				if c.Edits[i].Kind == core.EditPutMessage {
					put = append(put, c.Edits[i].Ref)
				}
			}
		}
		n.gate.mu.Unlock()
		grouped := text("b")
		grouped.Group = "g"
		n.gate.hold()
		for _, m := range []core.Message{text("a"), grouped} { // the second waits for the Change of the first
			if err := n.client.PublishAsync("q", []core.Message{m}, func([]core.Published, error) {}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		purged := make(chan error, 1)
		go func() { purged <- n.client.Purge(context.Background(), "q") }()
		synctest.Wait()
		n.gate.release()
		if err := <-purged; err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if len(put) != 2 {
			t.Errorf("%d messages were stored, want 2", len(put))
		}
		for _, r := range put {
			if rec, err := n.db.Message(r); rec != nil || err != nil {
				t.Errorf("message %v is still stored: %q, %v", r, rec, err)
			}
		}
	})
}

// slowPages is a store whose pages of delayed messages take a while to come.
type slowPages struct {
	core.Store
	take time.Duration
}

// Delayed implements core.Store.
func (s slowPages) Delayed(q core.QID, due uint64, seq core.Seq, dueEnd uint64, visit func(uint64, core.Seq, []byte) bool) error {
	err := s.Store.Delayed(q, due, seq, dueEnd, visit)
	time.Sleep(s.take)
	return err
}

// TestMessageThatIsDueDuringAPageIsNotLost: the page lacks it, and the queue's
// timer, which a lease has set, has come by already.
func TestMessageThatIsDueDuringAPageIsNotLost(t *testing.T) {
	slow := &node{tune: func(o *core.Options) { o.Store = slowPages{o.Store, 50 * time.Millisecond} }}
	onNode(t, slow, func(t *testing.T, n *node) {
		a, b := text("a"), text("b")
		a.Delay, b.Delay = 100*time.Millisecond, 10*time.Millisecond
		publish(t, n, text("leased"))
		take(t, n, core.ReceiveOptions{Max: 1, Visibility: 110 * time.Millisecond})
		publish(t, n, a)
		time.Sleep(100 * time.Millisecond)
		got := map[string]bool{}
		receive := func() {
			ds, err := n.client.Receive(context.Background(), "q", core.ReceiveOptions{Max: 10, Visibility: time.Minute}, nil)
			if err != nil {
				t.Error(err)
			}
			for _, d := range ds {
				got[string(d.Body)] = true
			}
		}
		var reading sync.WaitGroup
		reading.Go(receive)
		synctest.Wait() // it reads the page
		publish(t, n, b)
		reading.Wait()
		time.Sleep(time.Second)
		for range 3 { // what is in memory is given first
			receive()
		}
		if !got["a"] || !got["b"] || !got["leased"] {
			t.Errorf("got %v, want what was leased, a, and b, which has been due", got)
		}
	})
}

// TestReturnedBeyondTheCursorKeepsItsCount: after a crash messages behind an
// unmarked one lie beyond the cursor, and have state records. Left to storage,
// one would be taken for new.
func TestReturnedBeyondTheCursorKeepsItsCount(t *testing.T) {
	few := &node{opened: func(e *core.Engine) { core.SetReturnedMax(e, 1) }}
	onNode(t, few, func(t *testing.T, n *node) {
		publish(t, n, text("a"), text("b"), text("c"), text("d"))
		take(t, n, core.ReceiveOptions{Max: 1, Owner: n.client.NewOwner()})
		if ds := take(t, n, core.ReceiveOptions{Max: 3, Visibility: time.Second}); len(ds) != 3 {
			t.Fatalf("got %+v", ds)
		}
		synctest.Wait() // the marks are durable
		n.crash()
		if _, err := n.client.Stats(t.Context(), "q"); err != nil { // loads it
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		want := map[string]uint32{"a": 1, "b": 2, "c": 2, "d": 2}
		for range 10 {
			for _, d := range take(t, n, core.ReceiveOptions{Max: 10, Visibility: time.Minute}) {
				body := string(d.Body)
				if d.State.Receives != want[body] {
					t.Errorf("%s: receive %d, want %d", body, d.State.Receives, want[body])
				}
				delete(want, body)
			}
		}
		if len(want) > 0 {
			t.Errorf("%v did not come", want)
		}
	})
}
