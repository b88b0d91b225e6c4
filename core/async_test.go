package core_test

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/leasemq/broker/core"
)

// What is settled without waiting is told of in the order of commits, and not
// before it is durable.
func TestSettlesAndTransactionsWithoutWaiting(t *testing.T) {
	n := &node{t: t, fs: vfs.NewCrashableMem()}
	n.open()
	defer n.close()
	ctx := t.Context()
	if _, _, err := n.client.Declare(ctx, "q", core.DefaultQueueConfig(core.KindStandard)); err != nil {
		t.Fatal(err)
	}
	msgs := []core.Message{{Body: []byte("a")}, {Body: []byte("b")}}
	if _, err := n.client.Publish(ctx, "q", msgs, nil); err != nil {
		t.Fatal(err)
	}
	got, err := n.client.Receive(ctx, "q", core.ReceiveOptions{Max: 2, Owner: n.client.NewOwner()}, nil)
	if err != nil || len(got) != 2 {
		t.Fatalf("received %d, %v", len(got), err)
	}

	told := make(chan string, 10)
	tell := func(what string) func([]error, error) {
		return func(errs []error, err error) { told <- what + " " + errors.Join(append(errs, err)...).Error() }
	}
	ok := func(what string) func([]error, error) {
		return func(errs []error, err error) {
			if err = errors.Join(append(errs, err)...); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			told <- what
		}
	}
	del := func(d core.Delivery) []core.Settlement {
		return []core.Settlement{{Receipt: d.Receipt, Action: core.SettleDelete}}
	}
	n.gate.hold()
	if err := n.client.SettleAsync("q", del(got[0]), ok("first")); err != nil {
		t.Fatal(err)
	}
	if err := n.client.SettleAsync("q", del(got[0]), ok("first again")); err != nil {
		t.Fatal(err)
	}
	tx := n.client.Begin()
	if err := errors.Join(tx.Publish("q", msgs[0]), tx.Settle("q", del(got[1])[0])); err != nil {
		t.Fatal(err)
	}
	if err := tx.CommitAsync(func(p []core.Published, err error) { ok("transaction")(nil, err) }); err != nil {
		t.Fatal(err)
	}
	select {
	case what := <-told:
		t.Errorf("%s was told of before it was durable", what)
	default:
	}
	n.gate.release()
	for _, want := range []string{"first", "first again", "transaction"} {
		if what := <-told; what != want {
			t.Errorf("told of %q, want %q", what, want)
		}
	}
	if err := n.client.SettleAsync("q", del(got[0]), ok("nothing to do")); err != nil || <-told != "nothing to do" {
		t.Errorf("a settled message: %v", err)
	}
	release := del(got[0])
	release[0].Action = core.SettleRelease
	if err := n.client.SettleAsync("q", release, tell("gone:")); err != nil || <-told != "gone: "+core.ErrNoMessage.Error() {
		t.Errorf("a message that is gone: %v", err)
	}
	if err := n.client.SettleAsync("none", release, tell("no queue")); !errors.Is(err, core.ErrNoQueue) {
		t.Errorf("no queue: %v", err)
	}
	if err := n.client.Begin().CommitAsync(func([]core.Published, error) { told <- "empty" }); err != nil || <-told != "empty" {
		t.Errorf("an empty transaction: %v", err)
	}
}
