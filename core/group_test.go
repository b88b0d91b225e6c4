package core_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/leasemq/broker/core"
)

// grouped is a standard queue and who consumes it.
type grouped struct {
	t *testing.T
	n *node
}

// member is a consumer that has groups to itself, and its session.
type member struct {
	*core.Consumer
	owner *core.Owner
}

func withGroups(t *testing.T, do func(g *grouped)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := &node{t: t, fs: vfs.NewMem()}
		n.open()
		defer n.close()
		if _, _, err := n.client.Declare(t.Context(), "q", core.DefaultQueueConfig(core.KindStandard)); err != nil {
			t.Fatal(err)
		}
		g := &grouped{t: t, n: n}
		do(g)
		synctest.Wait()
		if err := core.Audit(n.engine); err != nil {
			t.Error(err)
		}
	})
}

func (g *grouped) member() *member {
	return &member{Consumer: g.n.client.NewConsumer(), owner: g.n.client.NewOwner()}
}

// send sends messages "group number", or without a group.
func (g *grouped) send(bodies ...string) {
	g.t.Helper()
	var batch []core.Message
	for _, b := range bodies {
		m := core.Message{Body: []byte(b), Delay: -1}
		if group, _, ok := strings.Cut(b, " "); ok {
			m.Group = group
		}
		batch = append(batch, m)
	}
	if _, err := g.n.client.Publish(g.t.Context(), "q", batch, nil); err != nil {
		g.t.Fatal(err)
	}
}

// take receives, without a consumer for nil.
func (g *grouped) take(m *member, most int) []core.Delivery {
	g.t.Helper()
	o := core.ReceiveOptions{Max: most, Visibility: time.Hour}
	if m != nil {
		o.Owner, o.Consumer = m.owner, m.Consumer
	}
	got, err := g.n.client.Receive(g.t.Context(), "q", o, nil)
	if err != nil {
		g.t.Fatal(err)
	}
	return got
}

func (g *grouped) settle(got []core.Delivery, action core.SettleAction) {
	g.t.Helper()
	batch := make([]core.Settlement, len(got))
	for i := range got {
		batch[i] = core.Settlement{Receipt: got[i].Receipt, Action: action}
	}
	errs, err := g.n.client.Settle(g.t.Context(), "q", batch, nil)
	if err != nil || slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
		g.t.Fatal(err, errs)
	}
}

func bodyList(got []core.Delivery) string {
	var all []string
	for i := range got {
		all = append(all, string(got[i].Body))
	}
	return strings.Join(all, ", ")
}

func (g *grouped) expect(got []core.Delivery, want string) []core.Delivery {
	g.t.Helper()
	if bodyList(got) != want {
		g.t.Errorf("got %q, want %q", bodyList(got), want)
	}
	return got
}

// TestAGroupStaysWithItsConsumer: whoever is given the first message of a group has
// those that follow, also when none had been left in between, until it closes.
func TestAGroupStaysWithItsConsumer(t *testing.T) {
	withGroups(t, func(g *grouped) {
		one, two := g.member(), g.member()
		g.expect(g.take(one, 10), "")
		g.expect(g.take(two, 10), "")
		g.send("a 1", "a 2", "b 1", "b 2")
		first := g.expect(g.take(one, 10), "a 1, a 2")
		if !first[0].FirstOfGroup || first[1].FirstOfGroup {
			t.Errorf("first of their group: %v, %v; want the first alone", first[0].FirstOfGroup, first[1].FirstOfGroup)
		}
		second := g.expect(g.take(two, 10), "b 1, b 2")
		g.settle(first, core.SettleDelete)
		g.send("a 3", "b 3", "c 1")
		g.expect(g.take(two, 1), "b 3")
		g.expect(g.take(two, 1), "c 1")
		g.expect(g.take(two, 10), "")
		g.settle(second, core.SettleRelease)
		g.expect(g.take(one, 10), "a 3")
		if err := g.n.client.ReleaseOwner(two.owner, false); err != nil {
			t.Fatal(err)
		}
		g.expect(g.take(one, 10), "")
		two.Close()
		var rest []string
		for range 2 {
			for _, d := range g.take(one, 10) {
				if first := string(d.Body) == "b 1" || string(d.Body) == "c 1"; d.FirstOfGroup != first {
					t.Errorf("%s: first of its group %v", d.Body, d.FirstOfGroup)
				}
				rest = append(rest, string(d.Body))
			}
		}
		slices.Sort(rest)
		if want := []string{"b 1", "b 2", "b 3", "c 1"}; !slices.Equal(rest, want) {
			t.Errorf("after the other has gone: %v, want %v", rest, want)
		}
	})
}

// TestReceivesWithoutAConsumerTakeFromAllGroups: fair queues are as they are
// without consumers that keep groups.
func TestReceivesWithoutAConsumerTakeFromAllGroups(t *testing.T) {
	withGroups(t, func(g *grouped) {
		one := g.member()
		g.send("a 1", "b 1", "a 2", "b 2", "plain", "a 3")
		g.expect(g.take(one, 2), "a 1, b 1")
		g.expect(g.take(nil, 10), "a 2, b 2, plain, a 3")
		g.send("a 4", "b 3")
		g.expect(g.take(one, 10), "a 4, b 3")
	})
}

// TestGroupsAreShared: one receive takes its share of the groups that nobody has,
// so that others that ask get some too.
func TestGroupsAreShared(t *testing.T) {
	withGroups(t, func(g *grouped) {
		members := []*member{g.member(), g.member(), g.member()}
		for _, m := range members {
			g.take(m, 1)
		}
		for i := range 9 {
			g.send(fmt.Sprintf("%d 1", i))
		}
		for i, want := range []int{3, 2, 2} {
			if got := g.take(members[i], 100); len(got) != want {
				t.Errorf("consumer %d got %q, want %d groups", i, bodyList(got), want)
			}
		}
	})
}

// TestAClosedGroupIsFree: a consumer may give up one group.
func TestAClosedGroupIsFree(t *testing.T) {
	withGroups(t, func(g *grouped) {
		one, two := g.member(), g.member()
		g.take(two, 1)
		g.send("a 1", "b 1")
		a := g.take(one, 1)
		b := g.take(one, 1)
		g.settle(a, core.SettleDelete)
		one.CloseGroup(a[0].Receipt)
		g.send("b 2", "a 2")
		g.expect(g.take(two, 10), "a 2")
		one.CloseGroup(b[0].Receipt)
		g.expect(g.take(two, 10), "b 2")
		one.CloseGroup(b[0].Receipt) // which is another's now
		g.send("b 3")
		g.expect(g.take(one, 10), "")
		g.expect(g.take(two, 10), "b 3")
	})
}

// TestALooseConsumerHasNoGroups: it takes what is there, and gives up what it had.
func TestALooseConsumerHasNoGroups(t *testing.T) {
	withGroups(t, func(g *grouped) {
		one, two := g.member(), g.member()
		g.take(two, 1)
		g.send("a 1", "a 2", "b 1")
		g.expect(g.take(one, 1), "a 1")
		one.Stick(false)
		g.expect(g.take(two, 10), "b 1, a 2")
		g.send("a 3")
		g.expect(g.take(one, 10), "a 3")
		one.Stick(true)
		g.send("a 4", "b 2", "c 1")
		g.expect(g.take(one, 10), "c 1")
		g.expect(g.take(two, 10), "a 4, b 2")
	})
}

// TestWaitingConsumersAreWoken: each for what it may have.
func TestWaitingConsumersAreWoken(t *testing.T) {
	withGroups(t, func(g *grouped) {
		t := g.t
		waits := func(m *member) func() string {
			var got []core.Delivery
			done := make(chan struct{})
			go func() {
				defer close(done)
				o := core.ReceiveOptions{Max: 10, Wait: time.Minute, Visibility: time.Hour}
				if m != nil {
					o.Owner, o.Consumer = m.owner, m.Consumer
				}
				var err error
				if got, err = g.n.client.Receive(t.Context(), "q", o, nil); err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			}()
			synctest.Wait()
			return func() string { <-done; return bodyList(got) }
		}
		one, two := g.member(), g.member()
		g.send("a 1")
		g.take(one, 1)
		// The one that has waited for longer may not have it.
		second, first := waits(two), waits(one)
		began := time.Now()
		g.send("a 2")
		if got := first(); got != "a 2" {
			t.Errorf("the holder got %q", got)
		}
		first = waits(one)
		g.send("b 1")
		if got := second(); got != "b 1" {
			t.Errorf("the other got %q", got)
		}
		second = waits(two)
		if err := g.n.client.ReleaseOwner(one.owner, false); err != nil {
			t.Fatal(err)
		}
		one.Close()
		if got := second(); got != "a 1, a 2" {
			t.Errorf("when the holder has gone the other got %q", got)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("somebody was not woken, but ran out of time: %v", took)
		}
		if got := first(); got != "" { // its session has ended
			t.Errorf("one that has closed got %q", got)
		}
	})
}

// TestAGroupThatIsFreeWakesOthers: one that is closed, and one whose consumer has
// gone without its having been asked for more.
func TestAGroupThatIsFreeWakesOthers(t *testing.T) {
	for name, leave := range map[string]func(one *member, r core.Receipt){
		"closed": func(one *member, r core.Receipt) { one.CloseGroup(r) },
		"gone":   func(one *member, _ core.Receipt) { one.Close() },
		"loose":  func(one *member, _ core.Receipt) { one.Stick(false) },
	} {
		t.Run(name, func(t *testing.T) {
			withGroups(t, func(g *grouped) {
				one, two := g.member(), g.member()
				g.send("a 1", "a 2")
				got := g.take(one, 1)
				done := make(chan string)
				go func() {
					o := core.ReceiveOptions{Max: 10, Wait: time.Minute, Owner: two.owner, Consumer: two.Consumer}
					got, err := g.n.client.Receive(g.t.Context(), "q", o, nil)
					done <- fmt.Sprint(bodyList(got), err)
				}()
				synctest.Wait()
				leave(one, got[0].Receipt)
				synctest.Wait()
				select {
				case got := <-done:
					if got != "a 2<nil>" {
						g.t.Errorf("the other got %s", got)
					}
				default:
					g.t.Errorf("the other was not woken")
					<-done
				}
			})
		})
	}
}

// TestAGroupIsInOrderHoweverOftenItComesBack: what keeps coming back holds up its
// group, and nothing else.
func TestAGroupIsInOrderHoweverOftenItComesBack(t *testing.T) {
	withGroups(t, func(g *grouped) {
		one := g.member()
		g.send("a 1", "a 2", "b 1", "b 2")
		for range 10 {
			got := g.take(one, 2)
			if all := bodyList(got); all != "a 1, b 1" && all != "b 1, a 1" {
				t.Fatalf("got %q, want the first of each group", all)
			}
			g.settle(got, core.SettleRelease)
		}
	})
}

// TestGroupsInMemoryAreBounded: of those without messages the latest are known.
func TestGroupsInMemoryAreBounded(t *testing.T) {
	withGroups(t, func(g *grouped) {
		one := g.member()
		g.take(one, 1)
		for i := range 100 {
			var batch []string
			for j := range 100 {
				batch = append(batch, fmt.Sprintf("%d 1", 100*i+j))
			}
			g.send(batch...)
			for range 10 {
				got := g.take(one, 10)
				g.settle(got, core.SettleDelete)
			}
		}
		if n := core.Groups(g.n.engine); n < 4096 || n > 4096+200 {
			t.Errorf("%d groups are in memory, want 4096 and a few that have just ended", n)
		}
		one.Close()
		if n := core.Groups(g.n.engine); n != 0 {
			t.Errorf("%d groups are in memory when the consumer has gone", n)
		}
	})
}

// crew is many consumers that come and go on a queue with groups.
type crew struct {
	*grouped
	plain bool // some receive without a consumer
	want  int
	ctx   context.Context
	done  context.CancelFunc

	mu      sync.Mutex
	deleted map[string]bool
	held    map[string]map[int]*member // by group and number; nil: without a consumer
}

// TestConsumersComeAndGo has consumers with small and large receives, which settle,
// hand back, go away in the midst of it, lose their groups and take them again. The
// messages of a group are with one of them at a time and come in order; each is
// deleted once, and none waits for a wake-up that does not come.
func TestConsumersComeAndGo(t *testing.T) {
	for name, plain := range map[string]bool{"consumers alone": false, "beside others": true} {
		t.Run(name, func(t *testing.T) {
			withGroups(t, func(g *grouped) {
				t := g.t
				c := &crew{grouped: g, plain: plain, want: 12 * 100, deleted: make(map[string]bool), held: make(map[string]map[int]*member)}
				c.ctx, c.done = context.WithCancel(t.Context())
				began := time.Now()
				var wg sync.WaitGroup
				for i := range 12 {
					wg.Go(func() { c.sends(fmt.Sprint("g", i), rand.New(rand.NewPCG(uint64(i), 5))) })
				}
				for i := range 8 {
					wg.Go(func() {
						rng := rand.New(rand.NewPCG(uint64(i), 4))
						for c.ctx.Err() == nil {
							c.works(rng, plain && i < 3)
						}
					})
				}
				wg.Wait()
				if took := time.Since(began); took > 10*time.Minute {
					t.Errorf("it took %v: somebody was not woken", took)
				}
				if n := core.Groups(g.n.engine); n != 0 {
					t.Errorf("%d groups are left", n)
				}
			})
		})
	}
}

func (c *crew) sends(group string, rng *rand.Rand) {
	for i := 0; i < 100; {
		var batch []string
		for range min(1+rng.IntN(5), 100-i) {
			batch = append(batch, fmt.Sprintf("%s %d", group, i))
			i++
		}
		c.send(batch...)
		time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond)
	}
}

// works is the life of one consumer.
func (c *crew) works(rng *rand.Rand, plain bool) {
	m := c.member()
	o := core.ReceiveOptions{Owner: m.owner, Consumer: m.Consumer}
	if plain {
		o.Consumer = nil
	}
	var open []core.Delivery
	for range 1 + rng.IntN(40) {
		o.Max, o.Wait = 1+rng.IntN(10), time.Duration(rng.IntN(2))*time.Hour
		patience := time.Duration(1+rng.IntN(200)) * time.Millisecond
		if len(open) == 0 && rng.IntN(8) > 0 {
			patience = time.Hour // others wait for nothing that it has
		}
		ctx, cancel := context.WithTimeout(c.ctx, patience)
		if c.plain && rng.IntN(4) == 0 {
			stick := rng.IntN(2) == 0
			time.AfterFunc(time.Duration(rng.IntN(20))*time.Millisecond, func() { m.Stick(stick) })
		}
		got, err := c.n.client.Receive(ctx, "q", o, nil)
		cancel()
		if err != nil && ctx.Err() == nil {
			c.t.Error(err)
			return
		}
		for i := range got {
			c.given(m, &got[i])
		}
		open = append(open, got...)
		for len(open) > 0 && rng.IntN(4) > 0 {
			c.settles(rng, &open[0])
			open = open[1:]
		}
	}
	c.mu.Lock()
	for i := range open {
		group, n := c.number(&open[i])
		if c.held[group][n] == m {
			delete(c.held[group], n)
		}
	}
	err := c.n.client.ReleaseOwner(m.owner, rng.IntN(2) == 0)
	c.mu.Unlock()
	if err != nil {
		c.t.Error(err)
	}
	time.Sleep(time.Duration(rng.IntN(2)) * time.Millisecond)
	m.Close()
}

func (c *crew) number(d *core.Delivery) (group string, n int) {
	if _, err := fmt.Sscanf(string(d.Body), "%s %d", &group, &n); err != nil {
		c.t.Error(err)
	}
	return group, n
}

// given checks a delivery against what others hold and what came before it.
func (c *crew) given(m *member, d *core.Delivery) {
	group, n := c.number(d)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.deleted[string(d.Body)] {
		c.t.Errorf("%q was deleted and is given again", d.Body)
	}
	if c.held[group] == nil {
		c.held[group] = make(map[int]*member)
	}
	if other := c.held[group][n]; other != nil {
		c.t.Errorf("%q is given twice", d.Body)
	}
	c.held[group][n] = m
	if c.plain {
		return
	}
	for k, other := range c.held[group] {
		if other != m {
			c.t.Errorf("%q is given to one while %d of its group is with another", d.Body, k)
		}
	}
	for k := range n {
		if c.held[group][k] == nil && !c.deleted[fmt.Sprintf("%s %d", group, k)] {
			c.t.Errorf("%q is given before %d of its group", d.Body, k)
		}
	}
}

func (c *crew) settles(rng *rand.Rand, d *core.Delivery) {
	group, n := c.number(d)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.held[group], n)
	if rng.IntN(10) == 0 {
		c.settle([]core.Delivery{*d}, core.SettleRelease)
		return
	}
	c.settle([]core.Delivery{*d}, core.SettleDelete)
	c.deleted[string(d.Body)] = true
	if len(c.deleted) == c.want {
		c.done()
	}
}
