package match_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/leasemq/broker/core/match"
)

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		filter, topic string
		want          bool
	}{
		{"a", "a", true},
		{"a", "b", false},
		{"a", "a/b", false},
		{"a/b", "a", false},
		{"a/b/c", "a/b/c", true},
		{"a/+/c", "a/b/c", true},
		{"a/+/c", "a//c", true},
		{"a/+/c", "a/b/d", false},
		{"a/+", "a", false},
		{"a/+", "a/", true},
		{"a/+", "a/b/c", false},
		{"+", "a", true},
		{"+", "", true},
		{"+/+", "/a", true},
		{"/+", "/a", true},
		{"+", "/a", false},
		{"#", "a", true},
		{"#", "a/b/c", true},
		{"#", "/", true},
		{"a/#", "a", true},
		{"a/#", "a/", true},
		{"a/#", "a/b/c", true},
		{"a/#", "ab", false},
		{"a/b/#", "a", false},
		{"a/+/#", "a", false},
		{"a/+/#", "a/b", true},
		{"+/b/#", "a/b/c/d", true},
		{"+/#", "a", true},
		{"#", "$SYS/a", false},
		{"+/a", "$SYS/a", false},
		{"+/#", "$SYS", false},
		{"$SYS/#", "$SYS/a", true},
		{"$SYS/+", "$SYS/a", true},
		{"a/#", "a/$b", true},
		{"é/+", "é/ö", true},
	} {
		if got := match.Matches(c.filter, c.topic); got != c.want {
			t.Errorf("Matches(%q, %q) = %t", c.filter, c.topic, got)
		}
		var tree match.Tree[int]
		tree.Insert(c.filter, 1)
		if got := len(tree.Append(nil, c.topic)) == 1; got != c.want {
			t.Errorf("the tree matches %q with %q: %t", c.filter, c.topic, got)
		}
	}
}

func TestChecks(t *testing.T) {
	deep := strings.Repeat("/", match.LevelsMax-1)
	for _, c := range []struct {
		name          string
		topic, filter bool
	}{
		{"a/b", true, true},
		{"/", true, true},
		{"a//b", true, true},
		{"$SYS/a", true, true},
		{"a b/ü", true, true},
		{"+", false, true},
		{"#", false, true},
		{"a/+/b", false, true},
		{"a/#", false, true},
		{"+/#", false, true},
		{"a/#/b", false, false},
		{"a+", false, false},
		{"a/b#", false, false},
		{"++", false, false},
		{"##", false, false},
		{"", false, false},
		{"a\x00b", false, false},
		{"a\xff", false, false},
		{strings.Repeat("a", match.BytesMax), true, true},
		{strings.Repeat("a", match.BytesMax+1), false, false},
		{deep, true, true},
		{deep + "/", false, false},
	} {
		if err := match.CheckTopic(c.name); (err == nil) != c.topic {
			t.Errorf("CheckTopic(%.20q) = %v", c.name, err)
		}
		if err := match.CheckFilter(c.name); (err == nil) != c.filter {
			t.Errorf("CheckFilter(%.20q) = %v", c.name, err)
		}
	}
}

// TestTreeIsAList compares the tree with a list of filters under random changes.
func TestTreeIsAList(t *testing.T) {
	type pair struct {
		filter string
		v      int
	}
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		level := func(of ...string) string { return of[rng.IntN(len(of))] }
		name := func(of ...string) string {
			levels := make([]string, 1+rng.IntN(4))
			for i := range levels {
				levels[i] = level(of...)
			}
			return strings.Join(levels, "/")
		}
		var tree match.Tree[int]
		list := map[pair]bool{}
		for range 2000 {
			p := pair{name("a", "b", "", "+", fmt.Sprint(rng.IntN(20))), rng.IntN(50)}
			if rng.IntN(4) == 0 {
				p.filter += "/#"
			}
			if rng.IntN(3) > 0 {
				if got := tree.Insert(p.filter, p.v); got == list[p] {
					t.Fatalf("seed %d: insert %v: %t", seed, p, got)
				}
				list[p] = true
			} else {
				if got := tree.Remove(p.filter, p.v); got != list[p] {
					t.Fatalf("seed %d: remove %v: %t", seed, p, got)
				}
				delete(list, p)
			}
			topic := name("a", "b", "", "$x", fmt.Sprint(rng.IntN(20)))
			var want []int
			for p := range list {
				if match.Matches(p.filter, topic) {
					want = append(want, p.v)
				}
			}
			got := tree.Append(nil, topic)
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d: %q matches %v, want %v", seed, topic, got, want)
			}
		}
		if tree.Len() != len(list) {
			t.Errorf("seed %d: %d pairs, want %d", seed, tree.Len(), len(list))
		}
		for p := range list {
			tree.Remove(p.filter, p.v)
		}
		if !tree.Bare() {
			t.Errorf("seed %d: nodes are left in an empty tree", seed)
		}
	}
}

// TestManyValuesOfOneFilter crosses the bound from which values are indexed.
func TestManyValuesOfOneFilter(t *testing.T) {
	var tree match.Tree[int]
	for i := range 1000 {
		tree.Insert("a/#", i)
	}
	for i := 0; i < 1000; i += 2 {
		if !tree.Remove("a/#", i) || tree.Remove("a/#", i) {
			t.Fatalf("remove %d", i)
		}
	}
	got := tree.Append(nil, "a/b")
	slices.Sort(got)
	if len(got) != 500 || got[0] != 1 || got[499] != 999 {
		t.Errorf("%d values, %v ... %v", len(got), got[:1], got[len(got)-1:])
	}
}

func TestConcurrentUse(t *testing.T) {
	var tree match.Tree[int]
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 500 {
				f := fmt.Sprintf("a/%d/+", j%10)
				tree.Insert(f, i)
				if !slices.Contains(tree.Append(nil, fmt.Sprintf("a/%d/x", j%10)), i) {
					t.Error("what was inserted does not match")
				}
				tree.Remove(f, i)
			}
		})
	}
	wg.Wait()
}

// TestMatchAllocatesNothing holds the promise of the package comment.
func TestMatchAllocatesNothing(t *testing.T) {
	var tree match.Tree[int]
	for i := range 1000 {
		tree.Insert(fmt.Sprintf("a/%d/+/#", i), i)
	}
	room := make([]int, 0, 8)
	if n := testing.AllocsPerRun(100, func() { room = tree.Append(room[:0], "a/500/b/c") }); n != 0 {
		t.Errorf("%v allocations a match", n)
	}
}

func FuzzMatches(f *testing.F) {
	f.Add("a/+/#", "a/b")
	f.Add("#", "$a")
	f.Fuzz(func(t *testing.T, filter, topic string) {
		if match.CheckFilter(filter) != nil || match.CheckTopic(topic) != nil {
			return
		}
		var tree match.Tree[int]
		tree.Insert(filter, 1)
		if got, want := len(tree.Append(nil, topic)) == 1, match.Matches(filter, topic); got != want {
			t.Errorf("%q and %q: the tree says %t, Matches %t", filter, topic, got, want)
		}
		if !tree.Remove(filter, 1) || !tree.Bare() {
			t.Errorf("%q is not removed", filter)
		}
	})
}

// BenchmarkMatch matches among a million filters: one a device, for a quarter of
// them with wildcards, and a few that match many topics.
func BenchmarkMatch(b *testing.B) {
	const filters = 1_000_000
	var tree match.Tree[int32]
	for i := range int32(filters) {
		switch i % 4 {
		case 0:
			tree.Insert(fmt.Sprintf("site/%d/device/%d/+", i%1000, i), i)
		default:
			tree.Insert(fmt.Sprintf("site/%d/device/%d/state", i%1000, i), i)
		}
	}
	tree.Insert("site/+/device/+/state", filters)
	tree.Insert("#", filters+1)
	topics := make([]string, 4096)
	for i := range topics {
		n := rand.IntN(filters)
		topics[i] = fmt.Sprintf("site/%d/device/%d/state", n%1000, n)
	}
	room := make([]int32, 0, 8)
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; b.Loop(); i++ {
		if room = tree.Append(room[:0], topics[i%len(topics)]); len(room) != 3 {
			b.Fatalf("%d matches", len(room))
		}
	}
}
