package core_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/leasemq/broker/core"
)

// TestSourcesOfAnOldStoreAreIndexed: a store that knows no index gets one at its
// next open, and the open after it finds nothing to do.
func TestSourcesOfAnOldStoreAreIndexed(t *testing.T) {
	const many = 2100 // some pages
	onNode(t, new(node), func(t *testing.T, n *node) {
		declareAll(t, n, "dead", "other")
		var want []string
		for i := range many {
			name := fmt.Sprintf("s%04d", i)
			cfg := core.DefaultQueueConfig(core.KindStandard)
			cfg.Redelivery = core.Redelivery{DeadLetterQueue: "dead", MaxReceives: 1}
			if i%3 == 0 {
				cfg.Redelivery.DeadLetterQueue = "other"
			} else {
				want = append(want, name)
			}
			if _, _, err := n.client.Declare(t.Context(), name, cfg); err != nil {
				t.Fatal(err)
			}
		}
		if got := dropSources(t, n); got != many+1 {
			t.Fatalf("%d records are dropped", got)
		}
		for _, when := range []string{"after the first open", "after a crash", "after another open"} {
			if when == "after a crash" {
				n.crash()
			} else {
				n.close()
				n.open()
			}
			if got, err := n.client.Sources(t.Context(), "dead", "", many); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s there are %d sources, want %d, %v", when, len(got), len(want), err)
			}
			if got, err := n.client.Sources(t.Context(), "other", "", many); err != nil || len(got) != many-len(want) {
				t.Errorf("%s there are %d sources, want %d, %v", when, len(got), many-len(want), err)
			}
		}
	})
}

// dropSources makes the store what an early binary left: without an index.
func dropSources(t *testing.T, n *node) int {
	t.Helper()
	if err := n.engine.Close(); err != nil {
		t.Fatal(err)
	}
	change := core.Change{Time: n.engine.Now()}
	err := n.db.Records("source", "", func(name string, _ []byte) bool {
		change.Edits = append(change.Edits, core.Edit{Kind: core.EditDropRecord, Key: []byte(strings.Clone(name))})
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	stored := make(chan error, 1)
	n.db.Submit(&change, func(_ core.Pos, err error) { stored <- err })
	if err := <-stored; err != nil {
		t.Fatal(err)
	}
	return len(change.Edits)
}
