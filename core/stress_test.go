package core_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/core/selector"
)

// stress is many goroutines on one queue: what is sent, and what of it is settled
// for good.
type stress struct {
	t    *testing.T
	n    *node
	name string
	fifo bool
	sels []*selector.Selector // receives have one of these, if there are any; together they select all
	want int
	ctx  context.Context // done when all that was sent has been deleted
	done context.CancelFunc

	mu      sync.Mutex
	deleted map[string]int // by which delete
	next    map[string]int // FIFO: the number that a group has to go on with
}

// TestConcurrentUseLosesNothing lets senders and waiting receivers of all sorts
// loose on a queue of each kind. Receivers give up, go away while they are being
// woken, and hand messages back. Each message is deleted once, those of a group in
// order, and none waits for a wake-up that does not come: then the fake clock
// would run on.
func TestConcurrentUseLosesNothing(t *testing.T) { concurrentUse(t) }

// TestConcurrentSelectorsLoseNothing has all receivers use selectors: there is none
// to take what one of them forgets.
func TestConcurrentSelectorsLoseNothing(t *testing.T) {
	concurrentUse(t, "JMSPriority < 3", "JMSPriority BETWEEN 3 AND 6", "JMSPriority > 6", "JMSTimestamp > 0")
}

func concurrentUse(t *testing.T, selectors ...string) {
	var sels []*selector.Selector
	for _, text := range selectors {
		sels = append(sels, parse(t, text))
	}
	for name, kind := range map[string]core.QueueKind{"standard": core.KindStandard, "fifo": core.KindFIFO, "priority": core.KindPriority} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &node{t: t, fs: vfs.NewMem()}
				n.open()
				defer n.close()
				cfg := core.DefaultQueueConfig(kind)
				cfg.ContentDedup = true
				if _, _, err := n.client.Declare(t.Context(), name, cfg); err != nil {
					t.Fatal(err)
				}
				s := &stress{
					t: t, n: n, name: name, fifo: kind == core.KindFIFO, want: 4 * 100, sels: sels,
					deleted: make(map[string]int), next: make(map[string]int),
				}
				s.ctx, s.done = context.WithCancel(t.Context())
				s.run()
			})
		})
	}
}

func (s *stress) run() {
	began := time.Now()
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() { s.send(i) })
	}
	for i := range 12 {
		wg.Go(func() { s.receive(i, rand.New(rand.NewPCG(uint64(i), 1))) })
	}
	wg.Wait()
	if took := time.Since(began); took > 10*time.Minute {
		s.t.Errorf("it took %v: somebody was not woken", took)
	}
	st, err := s.n.client.Stats(s.t.Context(), s.name)
	if err != nil || st.Messages != 0 || st.InFlight != 0 || st.Waiters != 0 {
		s.t.Errorf("left over: %+v, %v", st, err)
	}
	if err := core.Audit(s.n.engine); err != nil {
		s.t.Error(err)
	}
}

// send sends a hundred messages of one group.
func (s *stress) send(group int) {
	rng := rand.New(rand.NewPCG(uint64(group), 2))
	for i := 0; i < 100; {
		var batch []core.Message
		for range min(1+rng.IntN(5), 100-i) {
			batch = append(batch, core.Message{
				Body: fmt.Appendf(nil, "%d %d", group, i), Group: fmt.Sprint(group), Priority: uint8(rng.IntN(10)),
				Delay: time.Duration(rng.IntN(2)) * 20 * time.Millisecond,
			})
			i++
		}
		if _, err := s.n.client.Publish(s.t.Context(), s.name, batch, nil); err != nil {
			s.t.Error(err)
			return
		}
		time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond)
	}
}

// receive takes messages until all are gone.
func (s *stress) receive(i int, rng *rand.Rand) {
	for {
		if s.ctx.Err() != nil {
			return
		}
		ctx, cancel := context.WithCancel(s.ctx)
		o := core.ReceiveOptions{Max: 1 + rng.IntN(4), Visibility: 30 * time.Second, Wait: time.Hour}
		if len(s.sels) > 0 {
			o.Selector = s.sels[i%len(s.sels)] // each is always waited for
		}
		var owner *core.Owner
		switch rng.IntN(4) {
		case 0: // it gives up while it may be woken
			time.AfterFunc(time.Duration(rng.IntN(30))*time.Millisecond, cancel)
		case 1: // its peer goes away
			o.Alive = func() bool { return rng.IntN(3) > 0 }
		case 2:
			owner = s.n.client.NewOwner()
			o.Owner = owner
			time.AfterFunc(time.Duration(rng.IntN(30))*time.Millisecond, func() {
				if err := s.n.client.ReleaseOwner(owner, false); err != nil {
					s.t.Error(err)
				}
				cancel()
			})
		}
		s.mu.Lock()
		before := len(s.deleted)
		s.mu.Unlock()
		got, err := s.n.client.Receive(ctx, s.name, o, nil)
		if err != nil && !errors.Is(err, context.Canceled) {
			s.t.Error(err)
		}
		kept := true
		for i := range got {
			s.mu.Lock()
			if n, ok := s.deleted[string(got[i].Body)]; ok && n < before {
				s.t.Errorf("%q was deleted and is given again", got[i].Body)
			}
			s.mu.Unlock()
			kept = s.settle(rng, &got[i], kept || !s.fifo) && kept
		}
		cancel()
	}
}

// settle deletes most messages, and hands some back, or all when those before it
// in the group were. It tells whether it deleted.
func (s *stress) settle(rng *rand.Rand, d *core.Delivery, kept bool) bool {
	x := core.Settlement{Receipt: d.Receipt, Action: core.SettleDelete}
	switch n := rng.IntN(8); {
	case n == 0 || !kept:
		x.Action = core.SettleRelease
	case n == 1:
		x.Action, x.Delay = core.SettleRelease, 10*time.Millisecond
	case n == 2:
		x.Action = core.SettleReject
	}
	body, group := string(d.Body), string(d.Group)
	s.mu.Lock()
	defer s.mu.Unlock()
	errs, err := s.n.client.Settle(s.t.Context(), s.name, []core.Settlement{x}, nil)
	if err != nil {
		s.t.Error(err)
		return false
	}
	if errs[0] != nil || x.Action != core.SettleDelete {
		return false // a session that has ended holds nothing
	}
	if owned := d.State.Flags&core.StateSession != 0; owned && s.given(d) {
		return false
	}
	if _, ok := s.deleted[body]; ok {
		return false // its session had ended, and another deleted it
	}
	s.deleted[body] = len(s.deleted)
	if s.fifo {
		var g, n int
		if _, err := fmt.Sscan(body, &g, &n); err != nil || s.next[group] != n {
			s.t.Errorf("%q is deleted, the group is at %d, %v", body, s.next[group], err)
		}
		s.next[group]++
	}
	if len(s.deleted) == s.want {
		s.done()
	}
	return true
}

// given tells whether a message that a session had is there still: its delete did
// nothing, since another has received it.
func (s *stress) given(d *core.Delivery) bool {
	var pos core.PeekPos
	for {
		got, next, err := s.n.client.Peek(s.t.Context(), s.name, pos, 100)
		if err != nil {
			s.t.Error(err)
			return false
		}
		for i := range got {
			if got[i].Seq == d.Seq {
				return true
			}
		}
		if next == pos {
			return false
		}
		pos = next
	}
}

// TestQueuesComeAndGo declares, purges and deletes queues under those who use
// them. Nothing panics or hangs, and nothing is left behind.
func TestQueuesComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{t: t, fs: vfs.NewMem(), tune: func(o *core.Options) { o.WindowBytes = 200 }}
		n.opened = func(e *core.Engine) { core.SetReturnedMax(e, 2) }
		n.open()
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(i), 3))
				owner := n.client.NewOwner()
				for range 150 {
					if err := comeAndGo(t.Context(), n.client, rng, owner); err != nil && !errors.Is(err, core.ErrNoQueue) {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		if err := core.Audit(n.engine); err != nil {
			t.Error(err)
		}
		names, err := n.client.Queues(t.Context(), "", "", 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if err := n.client.Delete(t.Context(), name); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(10 * time.Minute) // the reaper takes its time
		synctest.Wait()
		if err := n.db.Reaps(func(q core.QID) bool {
			t.Errorf("incarnation %d awaits removal", q)
			return true
		}); err != nil {
			t.Error(err)
		}
		if err := core.Audit(n.engine); err != nil {
			t.Error(err)
		}
		n.close()
	})
}

// comeAndGo does one thing to a queue that may not be there.
func comeAndGo(ctx context.Context, c *core.Client, rng *rand.Rand, owner *core.Owner) error {
	name := []string{"standard", "fifo", "priority"}[rng.IntN(3)]
	switch n := rng.IntN(100); {
	case n < 10:
		kinds := map[string]core.QueueKind{"standard": core.KindStandard, "fifo": core.KindFIFO, "priority": core.KindPriority}
		cfg := core.DefaultQueueConfig(kinds[name])
		cfg.ContentDedup = true
		cfg.Redelivery = core.Redelivery{DeadLetterQueue: "standard", MaxReceives: 2}
		_, _, err := c.Declare(ctx, name, cfg)
		return err
	case n < 13:
		return c.Delete(ctx, name)
	case n < 18:
		return c.Purge(ctx, name)
	case n < 50:
		msgs := make([]core.Message, 1+rng.IntN(20))
		for i := range msgs {
			msgs[i] = core.Message{
				Body: fmt.Appendf(nil, "%d", rng.Uint64()), Group: fmt.Sprint(rng.IntN(5)), Priority: uint8(rng.IntN(10)),
				Delay: time.Duration(rng.IntN(3)) * 100 * time.Millisecond,
			}
		}
		_, err := c.Publish(ctx, name, msgs, nil)
		return err
	case n < 55:
		_, err := c.Stats(ctx, name)
		return err
	case n < 60:
		_, _, err := c.Peek(ctx, name, core.PeekPos{}, 50)
		return err
	case n < 65:
		time.Sleep(time.Duration(rng.IntN(1000)) * time.Millisecond)
		return nil
	}
	o := core.ReceiveOptions{Max: 1 + rng.IntN(10), Visibility: time.Duration(1+rng.IntN(500)) * time.Millisecond, Wait: time.Duration(rng.IntN(2)) * time.Second}
	if rng.IntN(3) == 0 {
		o.Owner = owner
	}
	got, err := c.Receive(ctx, name, o, nil)
	if err != nil {
		return err
	}
	var batch []core.Settlement
	for i := range got {
		batch = append(batch, core.Settlement{Receipt: got[i].Receipt, Action: core.SettleAction(rng.IntN(5))})
	}
	_, err = c.Settle(ctx, name, batch, nil)
	return err
}
