package cluster_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/leasemq/broker/cluster"
	"github.com/leasemq/broker/cluster/clustertest"
)

var (
	simSeed  = flag.Uint64("sim.seed", 0, "simulate this history alone, and tell what happens")
	simSeeds = flag.Int("sim.seeds", 0, "simulate so many histories")
)

// simulate runs the history of s, and those of the n-1 seeds that follow, until
// one fails. It returns what was wrong, and with which seed.
func simulate(t *testing.T, s clustertest.Sim, n int) (bad []string, seed uint64) {
	t.Helper()
	const bubbleful = 50
	for last := s.Seed + uint64(n); s.Seed < last && len(bad) == 0; {
		t.Run(fmt.Sprint("from=", s.Seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for range min(bubbleful, last-s.Seed) {
					if bad, seed = clustertest.Simulate(s), s.Seed; len(bad) > 0 {
						return
					}
					s.Seed++
				}
			})
		})
		if t.Failed() {
			return []string{"the bubble failed"}, s.Seed
		}
	}
	return bad, seed
}

func parts(o *cluster.Options) { cluster.SmallParts(o, 100) }

// runs returns how many histories to simulate: n, a tenth of it under the race
// detector, fifty times as many in a long run.
func runs(n int) int {
	switch {
	case *simSeeds > 0:
		return *simSeeds
	case os.Getenv("LEASEMQ_SOAK") != "":
		return 50 * n
	case raceEnabled:
		return n / 10
	}
	return n
}

// TestSimulatedHistories runs three members on a log with faults, and checks
// what must never happen.
func TestSimulatedHistories(t *testing.T) {
	s := clustertest.Sim{Seed: 1, Tune: parts, Seen: map[string]int{}}
	n := runs(10_000)
	if os.Getenv("LEASEMQ_SOAK") != "" {
		s.Troubles = 8
	}
	if *simSeed != 0 {
		n, s.Seed, s.Verbose = 1, *simSeed, os.Stderr
	}
	if bad, seed := simulate(t, s, n); len(bad) > 0 {
		t.Fatalf("-sim.seed=%d:\n%s", seed, strings.Join(bad, "\n"))
	}
	t.Log(s.Seen)
}

// TestStalePipelineIsFenced lets the records of a deposed primary arrive right
// behind the epoch record of the next one, and forges some that lie in the log.
func TestStalePipelineIsFenced(t *testing.T) {
	s := clustertest.Sim{Seed: 1, Tune: parts, Stale: true, Seen: map[string]int{}}
	if bad, seed := simulate(t, s, runs(1000)); len(bad) > 0 {
		t.Fatalf("seed %d:\n%s", seed, strings.Join(bad, "\n"))
	}
	for _, what := range []string{"stale records refused", "stale records stored"} {
		if s.Seen[what] == 0 {
			t.Errorf("no %s: %v", what, s.Seen)
		}
	}
}

// TestRegressIsFound lets the log lose what it has acknowledged.
func TestRegressIsFound(t *testing.T) {
	s := clustertest.Sim{Seed: 1, Tune: parts, Regress: true, Seen: map[string]int{}}
	if bad, seed := simulate(t, s, runs(1000)); len(bad) > 0 {
		t.Fatalf("seed %d:\n%s", seed, strings.Join(bad, "\n"))
	}
	if s.Seen["divergences found"] == 0 {
		t.Errorf("no divergences: %v", s.Seen)
	}
}

// TestSimulationCanFail turns off what fences a deposed primary, one at a time.
func TestSimulationCanFail(t *testing.T) {
	for name, c := range map[string]struct {
		tune func(o *cluster.Options)
		want string
	}{
		"without pads":       {cluster.Padless, "I8: record"},
		"without the chain":  {cluster.Lax, "I8: state"},
		"without a silence":  {cluster.Hasty, "I2:"},
		"with a long answer": {cluster.Overstaying, "I2:"},
	} {
		t.Run(name, func(t *testing.T) {
			s := clustertest.Sim{Seed: 1, Stale: true, Tune: func(o *cluster.Options) { parts(o); c.tune(o) }}
			if c.want == "I2:" {
				s.Stale = false
			}
			var bad []string
			for range 1000 {
				if bad, s.Seed = simulate(t, s, 1000); slices.ContainsFunc(bad, func(b string) bool { return strings.HasPrefix(b, c.want) }) {
					return
				}
				s.Seed++
			}
			t.Errorf("nothing found, last %q", bad)
		})
	}
}
