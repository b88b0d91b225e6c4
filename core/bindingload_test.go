package core_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/leasemq/broker/core"
)

// slowBindings is a store that takes its time to show all bindings.
type slowBindings struct {
	core.Store
	gate chan struct{}
}

func (s *slowBindings) Records(prefix, after string, visit func(name string, value []byte) bool) error {
	if prefix == "binding/" {
		<-s.gate
	}
	return s.Store.Records(prefix, after, visit)
}

// A session goes on while the bindings of others are being read: its own are shown,
// and its memory queue is bound. A publish waits, and reaches both.
func TestSessionGoesOnWhileBindingsAreRead(t *testing.T) {
	n := &node{t: t, fs: vfs.NewCrashableMem()}
	n.open()
	ctx := t.Context()
	for _, name := range []string{"s", "s2"} {
		if _, _, err := n.client.Declare(ctx, name, core.DefaultQueueConfig(core.KindStandard)); err != nil {
			t.Fatal(err)
		}
	}
	for _, filter := range []string{"a/#", "b"} {
		if err := n.client.Bind(ctx, core.Binding{Filter: filter, Queue: "s"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.client.Bind(ctx, core.Binding{Filter: "c", Queue: "s2"}); err != nil {
		t.Fatal(err)
	}
	n.close()

	gate := make(chan struct{})
	n.tune = func(o *core.Options) { o.Store = &slowBindings{Store: o.Store, gate: gate} }
	n.open()
	defer n.close()
	got, err := n.client.Bindings(ctx, "s", "", 10)
	if err != nil || len(got) != 2 || got[0].Filter != "a/#" || got[1].Filter != "b" {
		t.Errorf("bindings %v, %v", got, err)
	}
	if got, err = n.client.Bindings(ctx, "s", "a/#", 10); err != nil || len(got) != 1 || got[0].Filter != "b" {
		t.Errorf("bindings behind the first %v, %v", got, err)
	}
	owner := n.client.NewOwner()
	if _, err := n.client.DeclareMemory("m", core.QueueConfig{Kind: core.KindMemory}, owner, nil); err != nil {
		t.Fatal(err)
	}
	if err := n.client.Bind(ctx, core.Binding{Filter: "a/+", Queue: "m"}); err != nil {
		t.Fatal(err)
	}
	if got, err = n.client.Bindings(ctx, "m", "", 10); err != nil || len(got) != 1 {
		t.Errorf("bindings of the memory queue %v, %v", got, err)
	}
	published := make(chan error, 1)
	go func() {
		results, err := n.client.PublishTopic(ctx, core.TopicPublish{Topic: "a/1", Messages: []core.Message{{Body: []byte("x")}}}, nil)
		if err == nil && results[0].Matched != 2 {
			t.Errorf("%d queues matched, want 2", results[0].Matched)
		}
		published <- err
	}()
	select {
	case err := <-published:
		t.Errorf("a publish did not wait for the bindings: %v", err)
	default:
	}
	close(gate)
	if err := <-published; err != nil {
		t.Error(err)
	}
	if got, err = n.client.Bindings(ctx, "s", "", 10); err != nil || len(got) != 2 {
		t.Errorf("bindings afterwards %v, %v", got, err)
	}
	if err := n.client.ReleaseOwner(owner, false); err != nil {
		t.Error(err)
	}
}
