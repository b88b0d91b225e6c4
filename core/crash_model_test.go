package core_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/leasemq/broker/storage"
)

// TestCrashModel runs the crash model on many seeds. LEASEMQ_SEED runs one of
// them, LEASEMQ_SEEDS another number.
func TestCrashModel(t *testing.T) {
	seeds := crashSeeds(t)
	trace := 60
	if len(seeds) == 1 {
		trace = 1 << 20
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			if err := inBubble(t, crashOptions{seed: seed, ops: 450, trace: trace, keep: []int{0, 30, 70, 100}}); err != nil {
				t.Errorf("%v\nrun it again with LEASEMQ_SEED=%d", err, seed)
			}
		})
	}
}

// TestCrashModelFindsMissingFsyncs: a model that finds nothing in a store that
// does not fsync would find nothing at all.
func TestCrashModelFindsMissingFsyncs(t *testing.T) {
	const seeds = 5
	for seed := range uint64(seeds) {
		if err := inBubble(t, crashOptions{seed: seed + 1, ops: 450, trace: 1, sync: storage.SyncNever, keep: []int{0}}); err == nil {
			t.Errorf("seed %d finds nothing wrong in a store that never fsyncs", seed+1)
		}
	}
}

func inBubble(t *testing.T, o crashOptions) (err error) {
	synctest.Test(t, func(*testing.T) { err = runCrash(o) })
	return err
}

func crashSeeds(t *testing.T) []uint64 {
	number := func(name string, or uint64) uint64 {
		s := os.Getenv(name)
		if s == "" {
			return or
		}
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return n
	}
	if seed := number("LEASEMQ_SEED", 0); seed != 0 {
		return []uint64{seed}
	}
	n := uint64(400)
	if raceEnabled {
		n = 5
	}
	if testing.Short() {
		n = 20
	}
	seeds := make([]uint64, number("LEASEMQ_SEEDS", n))
	for i := range seeds {
		seeds[i] = uint64(i) + 1
	}
	return seeds
}
