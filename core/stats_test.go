package core_test

import (
	"slices"
	"testing"

	"github.com/leasemq/broker/core"
)

// TestBacklogsTellOfQueuesThatAreNotLoaded: the counts are those of Stats, in
// memory and in storage.
func TestBacklogsTellOfQueuesThatAreNotLoaded(t *testing.T) {
	onNode(t, new(node), func(t *testing.T, n *node) {
		declareAll(t, n, "a", "b", "c")
		publish(t, n, numbered(0, 3)...) // to q
		if _, err := n.client.Publish(t.Context(), "b", numbered(0, 2), nil); err != nil {
			t.Fatal(err)
		}
		all := []core.Backlog{{Name: "a"}, {Name: "b", Messages: 2}, {Name: "c"}, {Name: "q", Messages: 3}}
		want := func(when, after string, most int, want []core.Backlog) {
			t.Helper()
			if got, err := n.client.Backlogs(t.Context(), after, most); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: %v, %v, want %v", when, got, err, want)
			}
		}
		want("in memory", "", 10, all)
		want("a page", "a", 2, all[1:3])
		n.close()
		n.open()
		want("in storage", "", 10, all)
		publish(t, n, numbered(3, 1)...)
		all[3].Messages = 4
		want("both", "", 10, all)
	})
}
