package core_test

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/leasemq/broker/core"
)

// Queues that nobody uses leave memory, with what they hold, and are there again
// when they are used; those that somebody waits at stay.
func TestIdleQueuesLeaveMemory(t *testing.T) {
	n := &node{t: t, fs: vfs.NewCrashableMem()}
	n.open()
	defer n.close()
	ctx := t.Context()
	for i := range 20 {
		name := fmt.Sprint("q", i)
		if _, _, err := n.client.Declare(ctx, name, core.DefaultQueueConfig(core.KindStandard)); err != nil {
			t.Fatal(err)
		}
		if err := n.client.Bind(ctx, core.Binding{Filter: "t/#", Queue: name}); err != nil {
			t.Fatal(err)
		}
	}
	publish := func(want int) {
		t.Helper()
		got, err := n.client.PublishTopic(ctx, core.TopicPublish{Topic: "t/1", Messages: []core.Message{{Body: []byte("x")}}}, nil)
		if err != nil || got[0].Matched != want {
			t.Errorf("published to %v, %v, want %d queues", got, err, want)
		}
	}
	receive := func(name string, w *core.Watch, want int) {
		t.Helper()
		got, err := n.client.Receive(ctx, name, core.ReceiveOptions{Max: 10, Visibility: core.VisibilityMax, Watch: w}, nil)
		if err != nil || len(got) != want {
			t.Errorf("%s: received %d, %v, want %d", name, len(got), err, want)
		}
	}
	publish(20)
	called := make(chan struct{}, 1)
	watch := core.NewWatch(func() { called <- struct{}{} })
	receive("q0", watch, 1)
	receive("q1", nil, 1)
	receive("q0", watch, 0)
	core.Trim(n.engine)
	if got := core.Loaded(n.engine); got != 2 {
		t.Errorf("%d queues are in memory, want the one that is watched and the one with a message in flight", got)
	}
	publish(20)
	<-called
	receive("q0", watch, 1)
	receive("q1", nil, 1)
	receive("q2", nil, 2)
}
