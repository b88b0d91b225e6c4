package core_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/storage"
)

// TestFanOutIsAllOrNothing publishes to topics on a node that crashes now and
// then, in the middle of what it does. Whatever survives: each publish is in all
// of its queues or in none, what was answered is in all, each queue has the order
// of the publishes, and what is retained is the last that survived.
func TestFanOutIsAllOrNothing(t *testing.T) {
	for seed := range uint64(runsOf(40)) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newFanWorld(t, seed).run() })
		})
	}
}

// fanWorld is one run. Topics and queues stay what they are.
type fanWorld struct {
	t       *testing.T
	rng     *rand.Rand
	pace    *pace
	fs      *vfs.MemFS
	db      *storage.DB
	engine  *core.Engine
	client  *core.Client
	owner   *core.Owner
	sent    []*fanSent
	pending int // publishes of this process without an answer
}

// fanSent is a publish; its number is its body.
type fanSent struct {
	topic    string
	also     string // a queue that the same transaction sends to
	retain   bool
	answered atomic.Bool
	deleted  []string // queues that it was deleted from
}

// fanQueues are the filters of each queue.
func fanQueues() map[string][]string {
	return map[string][]string{
		"all": {"#"}, "some": {"t/0", "t/1"}, "plus": {"+/0", "t/+"}, "fifo": {"t/0", "t/2"}, "priority": {"t/#"}, "plain": nil,
		"door": nil, "gate": nil,
	}
}

// fanRoutes are the routes of those that keep nothing.
func fanRoutes() map[string]core.Routes {
	return map[string]core.Routes{
		"door": {CopyTo: []string{"plain"}, PublishTopic: "{a}/{b}"}, "gate": {CopyTo: []string{"plain"}, MoveTo: "some"},
	}
}

func newFanWorld(t *testing.T, seed uint64) *fanWorld {
	w := &fanWorld{t: t, rng: rand.New(rand.NewPCG(seed, 9)), fs: vfs.NewCrashableMem()}
	w.pace = &pace{rng: rand.New(rand.NewPCG(seed, 1)), max: pick(w.rng, time.Millisecond, 4*time.Millisecond, 30*time.Millisecond)}
	w.open()
	for name, filters := range fanQueues() {
		cfg := core.DefaultQueueConfig(map[string]core.QueueKind{"fifo": core.KindFIFO, "priority": core.KindPriority}[name])
		cfg.Routes = fanRoutes()[name]
		if _, _, err := w.client.Declare(t.Context(), name, cfg); err != nil {
			t.Fatal(err)
		}
		for _, f := range filters {
			if err := w.client.Bind(t.Context(), core.Binding{Filter: f, Queue: name}); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.openMemory()
	return w
}

func (w *fanWorld) open() {
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	w.pace.hurried(func() {
		db, boot, err := storage.Open(storage.Options{
			Dir: "data", FS: &slowFS{FS: w.fs, delay: w.pace.delay}, Logger: quiet,
			Profile: storage.Profile{MemTableBytes: 64 << 10, CacheBytes: 1 << 20},
		})
		if err != nil {
			w.t.Fatal(err)
		}
		w.db = db
		if w.engine, err = core.Open(core.Options{Store: db, Committer: db, Boot: boot, Logger: quiet}); err != nil {
			w.t.Fatal(err)
		}
	})
	w.client = w.engine.Client(core.Principal{})
	w.owner = w.client.NewOwner()
	w.pending = 0
}

// openMemory binds a queue to everything that no crash must bring back.
func (w *fanWorld) openMemory() {
	cfg := core.QueueConfig{Kind: core.KindMemory, MaxMessages: 5, Overflow: core.OverflowDropOldest}
	if _, err := w.client.DeclareMemory("memory", cfg, w.owner, nil); err != nil {
		w.t.Fatal(err)
	}
	if err := w.client.Bind(w.t.Context(), core.Binding{Filter: "#", Queue: "memory"}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *fanWorld) stop() {
	if err := w.engine.Close(); err != nil {
		w.t.Errorf("close engine: %v", err)
	}
	synctest.Wait()
	w.pace.hurried(func() {
		if err := w.db.Close(); err != nil {
			w.t.Errorf("close storage: %v", err)
		}
	})
}

func (w *fanWorld) run() {
	for range 300 {
		switch n := w.rng.IntN(100); {
		case n < 3:
			w.crash()
		case n < 4:
			w.stop()
			w.open()
			w.openMemory()
			w.check()
		case n < 20:
			time.Sleep(time.Duration(w.rng.Int64N(int64(20 * time.Millisecond))))
		case n < 30:
			w.consume()
		default:
			w.publish()
		}
	}
	w.crash()
	w.stop()
}

// publish sends the next number, most times without waiting for the answer.
func (w *fanWorld) publish() {
	n := len(w.sent)
	s := &fanSent{topic: pick(w.rng, "t/0", "t/1", "t/2", "u/0"), retain: w.rng.IntN(3) == 0}
	w.sent = append(w.sent, s)
	m := core.Message{Body: fmt.Appendf(nil, "%d %s", n, make([]byte, pick(w.rng, 0, 100, 1000, 5000))), Delay: -1, Priority: 4}
	p := core.TopicPublish{Topic: s.topic, Messages: []core.Message{m}, Retain: s.retain}
	w.pending++
	answer := func(err error) {
		if !errors.Is(err, core.ErrStopped) {
			s.answered.Store(err == nil)
		}
	}
	switch w.rng.IntN(10) {
	case 0:
		_, err := w.client.PublishTopic(context.Background(), p, nil)
		answer(err)
	case 2:
		s.also, s.retain = "plain", false
		a, b, _ := strings.Cut(s.topic, "/")
		m.Attributes = []core.Attribute{{Name: "a", Value: []byte(a)}, {Name: "b", Value: []byte(b)}}
		w.send("door", m, answer)
	case 3:
		s.topic, s.also, s.retain = "", "plain", false
		w.send("gate", m, answer)
	case 1:
		s.also = "plain"
		tx := w.client.Begin()
		if err := errors.Join(tx.PublishTopic(p), tx.Publish("plain", m)); err != nil {
			w.t.Fatal(err)
		}
		if err := tx.CommitAsync(func(_ []core.Published, err error) { answer(err) }); err != nil {
			w.t.Fatal(err)
		}
	default:
		if err := w.client.PublishTopicAsync(p, func(_ []core.TopicResult, err error) { answer(err) }); err != nil {
			w.t.Fatal(err)
		}
	}
}

// send sends to a queue with routes, sometimes in a transaction.
func (w *fanWorld) send(queue string, m core.Message, answer func(error)) {
	done := func(_ []core.Published, err error) { answer(err) }
	if w.rng.IntN(2) == 0 {
		if err := w.client.PublishAsync(queue, []core.Message{m}, done); err != nil {
			w.t.Fatal(err)
		}
		return
	}
	tx := w.client.Begin()
	if err := errors.Join(tx.Publish(queue, m), tx.CommitAsync(done)); err != nil {
		w.t.Fatal(err)
	}
}

// consume deletes some of what a queue has.
func (w *fanWorld) consume() {
	name := pick(w.rng, "all", "some", "plus", "fifo", "priority", "plain", "memory")
	got, err := w.client.Receive(w.t.Context(), name, core.ReceiveOptions{Max: 1 + w.rng.IntN(5), Visibility: time.Minute}, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range got {
		if w.rng.IntN(2) > 0 {
			continue
		}
		if _, err := w.client.Settle(w.t.Context(), name, []core.Settlement{{Receipt: got[i].Receipt}}, nil); err != nil {
			w.t.Fatal(err)
		}
		s := w.sent[number(w.t, &got[i].Stored)]
		s.deleted = append(s.deleted, name)
	}
}

func number(t *testing.T, m *core.Stored) int {
	digits, _, _ := strings.Cut(string(m.Body), " ")
	n, err := strconv.Atoi(digits)
	if err != nil {
		t.Fatalf("body %.20q", m.Body)
	}
	return n
}

// crash goes on from what is on disk at this moment.
func (w *fanWorld) crash() {
	cfg := vfs.CrashCloneCfg{UnsyncedDataPercent: pick(w.rng, 0, 30, 70, 100)}
	if cfg.UnsyncedDataPercent > 0 {
		cfg.RNG = rand.New(rand.NewPCG(w.rng.Uint64(), 2))
	}
	answered := make([]bool, len(w.sent))
	for i, s := range w.sent {
		answered[i] = s.answered.Load()
	}
	clone := w.fs.CrashClone(cfg)
	w.stop()
	for i, s := range w.sent {
		s.answered.Store(answered[i]) // what came after does not count
	}
	w.fs = clone
	w.open()
	w.check()
	w.openMemory()
}

// check compares what the queues hold with what was published, and takes it for
// what was answered.
func (w *fanWorld) check() {
	found := make([][]string, len(w.sent))
	for name := range fanQueues() {
		last := -1
		var pos core.PeekPos
		for {
			got, next, err := w.client.Peek(w.t.Context(), name, pos, 50)
			if err != nil {
				w.t.Fatal(err)
			}
			for i := range got {
				n := number(w.t, &got[i].Stored)
				if name != "fifo" && n <= last { // which has a lane a topic
					w.t.Errorf("%s has %d behind %d", name, n, last)
				}
				last = n
				found[n] = append(found[n], name)
			}
			if next == pos {
				break
			}
			pos = next
		}
	}
	kept := map[string]int{}
	for n, s := range w.sent {
		want := s.deleted
		if s.answered.Load() || len(found[n]) > 0 {
			want = slices.Clone(s.queues())
			s.answered.Store(true)
		}
		want = slices.DeleteFunc(slices.Clone(want), func(q string) bool { return slices.Contains(s.deleted, q) })
		slices.Sort(want)
		slices.Sort(found[n])
		if !slices.Equal(found[n], want) {
			w.t.Errorf("publish %d to %s is in %v, want %v (answered %t)", n, s.topic, found[n], want, s.answered.Load())
		}
		if s.retain && s.answered.Load() {
			kept[s.topic] = n
		}
	}
	err := w.client.Retained(w.t.Context(), "#", func(topic string, m *core.Stored) bool {
		if n := number(w.t, m); kept[topic] != n {
			w.t.Errorf("%s keeps %d, want %d", topic, n, kept[topic])
		}
		delete(kept, topic)
		return true
	})
	if err != nil || len(kept) > 0 {
		w.t.Errorf("retained: %v, missing %v", err, kept)
	}
}

// queues are those that get a publish.
func (s *fanSent) queues() []string {
	of := map[string][]string{
		"t/0": {"all", "fifo", "plus", "priority", "some"}, "t/1": {"all", "plus", "priority", "some"},
		"t/2": {"all", "fifo", "plus", "priority"}, "u/0": {"all", "plus"}, "": {"some"},
	}
	out := slices.Clone(of[s.topic])
	if s.also != "" {
		out = append(out, s.also)
	}
	return out
}
