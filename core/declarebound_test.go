package core_test

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/storage"
)

// changeTap sees the Changes that are committed.
type changeTap struct {
	core.Committer
	mu   sync.Mutex
	seen [][]core.EditKind // the edits of a queue and of records, by Change
}

func (c *changeTap) Submit(ch *core.Change, done func(core.Pos, error)) {
	var kinds []core.EditKind
	for _, e := range ch.Edits {
		if e.Kind == core.EditPutQueue || e.Kind == core.EditPutRecord && strings.HasPrefix(string(e.Key), "binding/") {
			kinds = append(kinds, e.Kind)
		}
	}
	c.mu.Lock()
	if kinds != nil {
		c.seen = append(c.seen, kinds)
	}
	c.mu.Unlock()
	c.Committer.Submit(ch, done)
}

// A queue and its bindings are one Change: no crash leaves one without the other.
func TestDeclareBound(t *testing.T) {
	fs := vfs.NewMem()
	open := func() (*core.Client, *changeTap, func()) {
		db, boot, err := storage.Open(storage.Options{Dir: "data", FS: fs, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		tap := &changeTap{Committer: db}
		e, err := core.Open(core.Options{Store: db, Committer: tap, Boot: boot, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		return e.Client(core.Principal{}), tap, func() {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	c, tap, end := open()
	cfg := core.DefaultQueueConfig(core.KindStandard)
	b := core.Binding{Filter: "a/+", Options: core.BindingOptions{Data: []byte("x")}}
	if _, created, err := c.DeclareBound(t.Context(), "q", cfg, b); !created || err != nil {
		t.Fatalf("created %v, error %v", created, err)
	}
	want := [][]core.EditKind{{core.EditPutQueue, core.EditPutRecord}}
	if !slices.EqualFunc(tap.seen, want, slices.Equal) {
		t.Errorf("changes %v, want %v", tap.seen, want)
	}
	b.Filter = "b"
	if _, created, err := c.DeclareBound(t.Context(), "q", cfg, b); created || err != nil {
		t.Errorf("again: created %v, error %v", created, err)
	}
	if _, _, err := c.DeclareBound(t.Context(), "r", cfg, core.Binding{Filter: "a/#/b"}); err != core.ErrInvalidTopic {
		t.Errorf("a bad filter: %v", err)
	}
	if _, err := c.Queue(t.Context(), "r"); err != core.ErrNoQueue {
		t.Errorf("a queue with a bad filter: %v", err)
	}
	for range 2 {
		got, err := c.Bindings(t.Context(), "q", "", 10)
		if err != nil || len(got) != 1 || got[0].Filter != "a/+" || string(got[0].Options.Data) != "x" {
			t.Errorf("bindings %+v, error %v", got, err)
		}
		out, err := c.PublishTopic(t.Context(), core.TopicPublish{Topic: "a/b", Messages: []core.Message{{Body: []byte("m")}}}, nil)
		if err != nil || out[0].Matched != 1 {
			t.Errorf("published to %+v, error %v", out, err)
		}
		end()
		c, _, end = open()
	}
	end()
}
