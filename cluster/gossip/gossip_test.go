package gossip

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// patience is how long a test waits for what must come: long, since the machine may
// be busy.
const patience = time.Minute

// options are those of a node on loopback that detects failures fast.
func options(name string, seeds ...string) Options {
	return Options{
		ID: "id-" + name, Cluster: "test", Fast: true, Logger: slog.New(slog.DiscardHandler),
		Node:  Node{Name: name, Route: "127.0.0.1:1", Roles: []string{RoleLog}},
		Bind:  netip.MustParseAddrPort("127.0.0.1:0"),
		Seeds: seeds,
	}
}

func start(t *testing.T, o Options) *Gossip {
	t.Helper()
	g, err := Start(o)
	if err != nil {
		t.Fatalf("start %s: %v", o.ID, err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Errorf("close %s: %v", o.ID, err)
		}
	})
	return g
}

// address is where g gossips.
func address(g *Gossip) string { return g.Self().Address.String() }

// trio starts nodes a, b and c, which find each other by way of a.
func trio(t *testing.T) []*Gossip {
	t.Helper()
	a := start(t, options("a"))
	all := []*Gossip{a, start(t, options("b", address(a))), start(t, options("c", address(a)))}
	for _, g := range all {
		await(t, g, "three members alive", func(ms []Member) bool { return alive(ms) == 3 })
	}
	return all
}

func alive(members []Member) (n int) {
	for _, m := range members {
		if m.State == Alive {
			n++
		}
	}
	return n
}

// await waits until what g believes is as said.
func await(t *testing.T, g *Gossip, what string, ok func([]Member) bool) {
	t.Helper()
	end := time.After(patience)
	for {
		members, changed := g.Watch()
		if ok(members) {
			return
		}
		select {
		case <-changed:
		case <-end:
			t.Fatalf("%s does not see %s; members: %+v", g.o.ID, what, members)
		}
	}
}

// member finds a member by its id.
func member(members []Member, id string) Member {
	i := slices.IndexFunc(members, func(m Member) bool { return m.ID == id })
	if i < 0 {
		return Member{}
	}
	return members[i]
}

// awaitState waits until g believes that id is in state s.
func awaitState(t *testing.T, g *Gossip, id string, s State) {
	t.Helper()
	await(t, g, fmt.Sprintf("%s %v", id, s), func(ms []Member) bool { return member(ms, id).State == s })
}

func TestThreeNodesFindEachOther(t *testing.T) {
	all := trio(t)
	want := []Member{all[0].Self(), all[1].Self(), all[2].Self()}
	if got := []string{want[0].ID, want[1].ID, want[2].ID}; !slices.IsSorted(got) {
		t.Fatalf("ids %v are not in order: the test is wrong", got)
	}
	for _, g := range all {
		if diff := cmp.Diff(want, g.Members(), cmpopts.IgnoreFields(Member{}, "Since"), cmpopts.EquateComparable(netip.AddrPort{})); diff != "" {
			t.Errorf("members as %s sees them (-want +got):\n%s", g.o.ID, diff)
		}
	}
}

func TestANodeJoinsWhenItsSeedComes(t *testing.T) {
	a := start(t, options("a"))
	seed := address(a)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	b := start(t, options("b", "localhost:"+seed[strings.LastIndex(seed, ":")+1:]))
	if n, err := b.joinOnce(); n != 0 || err == nil {
		t.Fatalf("join by way of a seed that is not there: %d reached, error %v", n, err)
	}
	o := options("a")
	o.Bind = netip.MustParseAddrPort(seed)
	a = start(t, o)
	awaitState(t, a, "id-b", Alive)
	awaitState(t, b, "id-a", Alive)
}

// TestStrangersAreKeptOut has two nodes that must not find together, and one of the
// cluster that does by the same way.
func TestStrangersAreKeptOut(t *testing.T) {
	key, other := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)
	for name, c := range map[string]func(o *Options){
		"another key":     func(o *Options) { o.Keys = [][]byte{other} },
		"no key":          func(o *Options) { o.Keys = nil },
		"another cluster": func(o *Options) { o.Cluster = "other" },
	} {
		t.Run(name, func(t *testing.T) {
			o := options("a")
			o.Keys = [][]byte{key}
			a := start(t, o)
			o = options("x", address(a))
			o.Keys = [][]byte{key}
			c(&o)
			x := start(t, o)
			if n, err := x.joinOnce(); n != 0 || err == nil {
				t.Errorf("a stranger joined: %d reached, error %v", n, err)
			}
			o = options("b", address(a))
			o.Keys = [][]byte{key}
			start(t, o)
			awaitState(t, a, "id-b", Alive)
			if ms := a.Members(); len(ms) != 2 {
				t.Errorf("the cluster believes in %+v, want a and b", ms)
			}
			if ms := x.Members(); len(ms) != 1 {
				t.Errorf("the stranger believes in %+v, want itself alone", ms)
			}
		})
	}
}

func TestOneThatIsKilledIsDead(t *testing.T) {
	all := trio(t)
	if err := all[2].Close(); err != nil {
		t.Fatal(err)
	}
	for _, g := range all[:2] {
		await(t, g, "id-c gone", func(ms []Member) bool { return member(ms, "id-c").State != Alive })
		if m := member(g.Members(), "id-c"); m.State != Dead || m.Node.Name != "c" {
			t.Errorf("%s sees %+v, want c dead", g.o.ID, m)
		}
	}
	o := options("c", address(all[0]))
	o.Bind = all[2].Self().Address
	c := start(t, o)
	awaitState(t, all[0], "id-c", Alive)
	awaitState(t, all[1], "id-c", Alive)
	awaitState(t, c, "id-b", Alive)
}

func TestOneThatLeavesHasLeft(t *testing.T) {
	all := trio(t)
	if err := all[2].Leave(); err != nil {
		t.Log(err) // what the others see decides
	}
	if err := errors.Join(all[2].Leave(), all[2].Close()); err != nil {
		t.Errorf("leave and close again: %v", err)
	}
	for _, g := range all[:2] {
		await(t, g, "id-c gone", func(ms []Member) bool { return member(ms, "id-c").State != Alive })
		if m := member(g.Members(), "id-c"); m.State != Left {
			t.Errorf("%s sees %+v, want that it left", g.o.ID, m)
		}
	}
	c := start(t, options("c", address(all[0]))) // at another address
	awaitState(t, all[0], "id-c", Alive)
	awaitState(t, all[1], "id-c", Alive)
	if got := member(all[1].Members(), "id-c"); got.Address != c.Self().Address || got.Node.Leaving {
		t.Errorf("c came back as %+v, want it at %s", got, address(c))
	}
}

func TestADeadNodeMayMove(t *testing.T) {
	all := trio(t)
	if err := all[2].Close(); err != nil {
		t.Fatal(err)
	}
	c := start(t, options("c", address(all[0])))
	for _, g := range all[:2] {
		await(t, g, "c at its new address", func(ms []Member) bool {
			m := member(ms, "id-c")
			return m.State == Alive && m.Address == c.Self().Address
		})
	}
}

func TestNewsReachTheOthers(t *testing.T) {
	all := trio(t)
	for i := range 5 {
		if err := all[1].Update(func(n *Node) { n.Applied, n.Clients = uint64(i+1), map[string]string{"sqs": "h:1"} }); err != nil {
			t.Fatal(err)
		}
	}
	for _, g := range all {
		await(t, g, "the last news of b", func(ms []Member) bool {
			n := member(ms, "id-b").Node
			return n.Applied == 5 && maps.Equal(n.Clients, map[string]string{"sqs": "h:1"}) && n.Name == "b"
		})
	}
	before := all[1].Self().Node
	for what, edit := range map[string]func(*Node){
		"too much":   func(n *Node) { n.Version = strings.Repeat("v", NodeBytesMax) },
		"a bad name": func(n *Node) { n.Name = "b b" },
	} {
		if err := all[1].Update(edit); err == nil {
			t.Errorf("news with %s are taken", what)
		}
	}
	if diff := cmp.Diff(before, all[1].Self().Node); diff != "" {
		t.Errorf("refused news changed the node:\n%s", diff)
	}
	all[0].Members()[0].Node.Roles[0] = "x"
	if got := all[0].Members()[0].Node.Roles[0]; got != RoleLog {
		t.Errorf("a caller changed a role to %q: what is returned is not a copy", got)
	}
}

func TestTwoOfOneIDAreInConflict(t *testing.T) {
	a := start(t, options("a"))
	o := options("b", address(a))
	o.ID = "id-a"
	b := start(t, o)
	for _, g := range []*Gossip{a, b} {
		await(t, g, "a conflict of ids", func([]Member) bool { return errors.Is(g.Conflict(), ErrConflict) })
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); a.Conflict() != nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the conflict does not pass: %v", a.Conflict())
		}
	}
}

func TestTwoOfOneNameAreInConflict(t *testing.T) {
	a := start(t, options("a"))
	o := options("a", address(a))
	o.ID = "id-b"
	b := start(t, o)
	for _, g := range []*Gossip{a, b} {
		await(t, g, "a conflict of names", func([]Member) bool { return errors.Is(g.Conflict(), ErrConflict) })
	}
	if err := b.Update(func(n *Node) { n.Name = "b" }); err != nil {
		t.Fatal(err)
	}
	for _, g := range []*Gossip{a, b} {
		await(t, g, "no conflict of names", func([]Member) bool { return g.Conflict() == nil })
	}
}

func TestKeysAreChangedWhileNodesRun(t *testing.T) {
	first, second := bytes.Repeat([]byte{1}, 16), bytes.Repeat([]byte{2}, 32)
	o := options("a")
	o.Keys = [][]byte{first}
	a := start(t, o)
	o = options("b", address(a))
	o.Keys = [][]byte{first}
	b := start(t, o)
	o = options("c", address(a))
	o.Keys = [][]byte{second}
	c := start(t, o)
	awaitState(t, a, "id-b", Alive)
	if n, err := c.joinOnce(); n != 0 || err == nil {
		t.Fatalf("a node with the second key joined too early: %d reached, error %v", n, err)
	}
	use := func(keys ...[]byte) {
		for _, g := range []*Gossip{a, b} {
			if err := g.UseKeys(keys); err != nil {
				t.Fatal(err)
			}
		}
	}
	use(first, second)
	use(second, first)
	for _, g := range []*Gossip{a, b, c} {
		await(t, g, "three members alive", func(ms []Member) bool { return alive(ms) == 3 })
	}
	for name, keys := range map[string][][]byte{"none": nil, "one of 5 bytes": {second, []byte("short")}} {
		if err := a.UseKeys(keys); err == nil {
			t.Errorf("keys are taken: %s", name)
		}
	}
	if err := start(t, options("d")).UseKeys([][]byte{first}); err == nil {
		t.Error("a node without keys takes keys while it runs")
	}
}

func TestGarbageDoesNoHarm(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	all := trio(t)
	label := append([]byte{244, byte(len("test"))}, "test"...) // as memberlist labels what it sends
	for kind := range 256 {
		garbage := []byte{byte(kind), 0xff, 0xff, 0xff, 0xff}
		for range r.IntN(600) {
			garbage = append(garbage, byte(r.Uint32()))
		}
		for _, packet := range [][]byte{garbage, append(slices.Clone(label), garbage...), garbage[:1], {}} {
			for _, network := range []string{"udp", "tcp"} {
				conn, err := net.Dial(network, address(all[0]))
				if err != nil {
					t.Fatalf("the port is closed after garbage: %v", err)
				}
				_, _ = conn.Write(packet)
				_ = conn.Close()
			}
		}
	}
	if err := all[1].Update(func(n *Node) { n.Applied = 7 }); err != nil {
		t.Fatal(err)
	}
	await(t, all[0], "news after garbage", func(ms []Member) bool { return member(ms, "id-b").Node.Applied == 7 })
	await(t, all[1], "a alive", func(ms []Member) bool { return alive(ms) == 3 })
	if n := len(all[1].Members()); n != 3 {
		t.Errorf("%d members after garbage, want 3", n)
	}
}

func TestWhatIsGoneIsForgottenAtSomeTime(t *testing.T) {
	a := start(t, options("a"))
	for i := range 2 * goneMax {
		m := Member{ID: fmt.Sprintf("gone-%03d", i), State: Alive, Since: time.Now()}
		a.keep(m)
		if _, ok := a.lose(m.ID); !ok {
			t.Fatalf("%s was not kept", m.ID)
		}
	}
	members := a.Members()
	if len(members) != goneMax+1 {
		t.Errorf("%d members are known, want %d gone ones and the node itself", len(members), goneMax)
	}
	if last := fmt.Sprintf("gone-%03d", 2*goneMax-1); member(members, last).State != Dead {
		t.Errorf("%s, the last one that went, is forgotten", last)
	}
}

// bootstrapped is what one Bootstrap returned.
type bootstrapped struct {
	members []Member
	err     error
}

// bootstrap runs Bootstrap of each of gs.
func bootstrap(ctx context.Context, n int, gs ...*Gossip) <-chan bootstrapped {
	out := make(chan bootstrapped, len(gs))
	for _, g := range gs {
		go func() {
			members, err := g.Bootstrap(ctx, n)
			out <- bootstrapped{members, err}
		}()
	}
	return out
}

func TestBootstrapWaitsForAll(t *testing.T) {
	a := start(t, options("a"))
	b := start(t, options("b", address(a)))
	standby := options("s", address(a))
	standby.Node.Roles = nil
	s := start(t, standby)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out := bootstrap(ctx, 3, a, b)
	for _, g := range []*Gossip{a, b, s} {
		await(t, g, "that two wait", func(ms []Member) bool {
			return alive(ms) == 3 && member(ms, "id-a").Node.Expect == 3 && member(ms, "id-b").Node.Expect == 3
		})
	}
	select {
	case got := <-out:
		t.Fatalf("two of three went on: %+v, error %v", got.members, got.err)
	default:
	}
	c := start(t, options("c", address(a)))
	all := []bootstrapped{<-out, <-out, <-bootstrap(ctx, 3, c)}
	for _, got := range all {
		if got.err != nil {
			t.Fatal(got.err)
		}
		var ids []string
		for _, m := range got.members {
			ids = append(ids, m.ID)
		}
		if want := []string{"id-a", "id-b", "id-c"}; !slices.Equal(ids, want) {
			t.Errorf("bootstrap of %v, want %v", ids, want)
		}
	}
}

func TestBootstrapEnds(t *testing.T) {
	a := start(t, options("a"))
	ctx, cancel := context.WithCancel(t.Context())
	out := bootstrap(ctx, 3, a)
	cancel()
	if got := <-out; !errors.Is(got.err, context.Canceled) {
		t.Errorf("a bootstrap that is given up: error %v", got.err)
	}
	if _, err := a.Bootstrap(t.Context(), 0); err == nil {
		t.Error("a log of no members is taken")
	}
	out = bootstrap(t.Context(), 3, a)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if got := <-out; !errors.Is(got.err, ErrClosed) {
		t.Errorf("bootstrap of a closed gossip: error %v", got.err)
	}
}

func TestBootstrapRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(o *Options)
		want string
	}{
		"another number": {func(o *Options) { o.Node.Expect = 3 }, "expects 3 log members, this one 2"},
		"one name twice": {func(o *Options) { o.Node.Name = "a" }, "a is the name of id-a and id-b"},
	} {
		t.Run(name, func(t *testing.T) {
			a := start(t, options("a"))
			o := options("b", address(a))
			c.edit(&o)
			start(t, o)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if members, err := a.Bootstrap(ctx, 2); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("bootstrap: %+v, error %v; want %q", members, err, c.want)
			}
		})
	}
}
