package core_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/leasemq/broker/core"
)

// large is a body that is shared by many copies.
func large(name string) []byte { return append([]byte(name+" "), bytes.Repeat([]byte("x"), 1000)...) }

// fanned opens a node with standard queues that are bound to "a/#".
func fanned(t *testing.T, n *node, queues ...string) {
	t.Helper()
	if n.fs == nil {
		n.fs = vfs.NewMem()
	}
	n.open()
	declareAll(t, n, queues...)
	for _, q := range queues {
		if err := n.client.Bind(t.Context(), core.Binding{Filter: "a/#", Queue: q}); err != nil {
			t.Fatal(err)
		}
	}
}

func publishTo(t *testing.T, n *node, p core.TopicPublish) core.TopicResult {
	t.Helper()
	out, err := n.client.PublishTopic(t.Context(), p, nil)
	if err != nil || len(out) != len(p.Messages) {
		t.Fatalf("publish: %v, %v", out, err)
	}
	return out[0]
}

// epochs returns the counts of the epochs that storage has.
func epochs(t *testing.T, n *node) (counts []uint64) {
	t.Helper()
	err := n.db.Epochs(func(_ core.QID, v []byte) bool {
		count, err := core.DecodeEpoch(v)
		if err != nil {
			t.Error(err)
		}
		counts = append(counts, count)
		return true
	})
	if err != nil {
		t.Error(err)
	}
	return counts
}

// takeBody receives one message, whose body is wanted, and settles it.
func takeBody(t *testing.T, n *node, queue string, want []byte, action core.SettleAction) {
	t.Helper()
	got, err := n.client.Receive(t.Context(), queue, core.ReceiveOptions{Max: 1, Visibility: time.Minute}, nil)
	if err != nil || len(got) != 1 || !bytes.Equal(got[0].Body, want) {
		t.Fatalf("%s gives %d messages, %v, want one of %d bytes: %v", queue, len(got), err, len(want), got)
	}
	errs, err := n.client.Settle(t.Context(), queue, []core.Settlement{{Receipt: got[0].Receipt, Action: action}}, nil)
	if err != nil || errs[0] != nil {
		t.Fatalf("settle in %s: %v, %v", queue, errs, err)
	}
}

// putsOf counts the bodies that a Change puts, and the bytes of its edits.
type putsOf struct{ bodies, bytes atomic.Int64 }

func (p *putsOf) watch(n *node) {
	n.gate.seen = func(c *core.Change) {
		for i := range c.Edits {
			if c.Edits[i].Kind == core.EditPutBody {
				p.bodies.Add(1)
			}
			p.bytes.Add(int64(len(c.Edits[i].Value)))
		}
	}
}

func TestLargeBodyOfAFanOutIsStoredOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{t: t}
		fanned(t, n, "q0", "q1", "q2", "q3", "q4", "q5")
		defer func() { n.close() }()
		var puts putsOf
		puts.watch(n)
		body := large("once")
		publishTo(t, n, core.TopicPublish{Topic: "a/b", Messages: []core.Message{{Body: body}}})
		synctest.Wait()
		if bodies, size := puts.bodies.Load(), puts.bytes.Load(); bodies != 1 || size > int64(len(body)+6*150) {
			t.Errorf("%d bodies in %d bytes for 6 copies of %d", bodies, size, len(body))
		}
		if got := epochs(t, n); !slices.Equal(got, []uint64{6}) {
			t.Errorf("references are %v, want 6", got)
		}
		takeBody(t, n, "q0", body, core.SettleDelete) // from the window
		takeBody(t, n, "q1", body, core.SettleRelease)
		takeBody(t, n, "q1", body, core.SettleDelete) // read again
		n.close()
		n.open()
		takeBody(t, n, "q2", body, core.SettleDelete) // from a page
		got, _, err := n.client.Peek(t.Context(), "q3", core.PeekPos{}, 10)
		if err != nil || len(got) != 1 || !bytes.Equal(got[0].Body, body) {
			t.Errorf("q3 shows %v, %v", got, err)
		}
		if err := n.client.Purge(t.Context(), "q3"); err != nil {
			t.Fatal(err)
		}
		if err := n.client.Delete(t.Context(), "q4"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := epochs(t, n); !slices.Equal(got, []uint64{1}) {
			t.Errorf("references are %v, want 1", got)
		}
		takeBody(t, n, "q5", body, core.SettleDelete)
		time.Sleep(time.Minute)
		if got := epochs(t, n); len(got) != 0 {
			t.Errorf("references are %v where there are no messages", got)
		}
	})
}

func TestSmallFanOutsAndSmallBodiesAreCopied(t *testing.T) {
	for _, c := range []struct {
		queues, bytes int
		bodies        int64
	}{{3, 512, 0}, {4, 511, 0}, {4, 512, 1}} {
		n := &node{t: t}
		var queues []string
		for i := range c.queues {
			queues = append(queues, fmt.Sprint("q", i))
		}
		fanned(t, n, queues...)
		var puts putsOf
		puts.watch(n)
		publishTo(t, n, core.TopicPublish{Topic: "a/b", Messages: []core.Message{{Body: make([]byte, c.bytes)}}})
		if got := puts.bodies.Load(); got != c.bodies {
			t.Errorf("%d bytes for %d queues are put as %d shared bodies, want %d", c.bytes, c.queues, got, c.bodies)
		}
		n.close()
	}
}

func TestQueueThatGetsNoCopyDoesNotShare(t *testing.T) {
	n := &node{t: t}
	fanned(t, n, "q0", "q1", "q2", "full")
	defer n.close()
	if _, err := n.client.Configure(t.Context(), "full", func(c *core.QueueConfig) error {
		c.MaxMessages, c.Overflow = 1, core.OverflowReject
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	owner := n.client.NewOwner()
	if _, err := n.client.DeclareMemory("memory", core.DefaultQueueConfig(core.KindMemory), owner, nil); err != nil {
		t.Fatal(err)
	}
	if err := n.client.Bind(t.Context(), core.Binding{Filter: "a/#", Queue: "memory"}); err != nil {
		t.Fatal(err)
	}
	body := large("memory")
	sendAll(t, n.client, "full", text("there is no room for more"))
	var puts putsOf
	puts.watch(n)
	if got := publishTo(t, n, core.TopicPublish{Topic: "a/b", Messages: []core.Message{{Body: body}}}); got.Matched != 4 || got.Full != 1 {
		t.Errorf("publish came to %+v", got)
	}
	if got := puts.bodies.Load(); got != 0 {
		t.Errorf("%d bodies are shared by three stored queues", got)
	}
	if err := n.client.Purge(t.Context(), "full"); err != nil {
		t.Fatal(err)
	}
	publishTo(t, n, core.TopicPublish{Topic: "a/b", Messages: []core.Message{{Body: body}}})
	if got := puts.bodies.Load(); got != 1 {
		t.Errorf("%d bodies are shared by four stored queues", got)
	}
	for range 2 {
		takeBody(t, n, "memory", body, core.SettleDelete)
	}
	if err := n.client.ReleaseOwner(owner, false); err != nil {
		t.Fatal(err)
	}
	if got := epochs(t, n); !slices.Equal(got, []uint64{4}) {
		t.Errorf("references are %v, want 4", got)
	}
}

func TestMovesCarrySharedBodiesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{t: t}
		fanned(t, n, "q0", "q1", "q2", "q3")
		defer func() { n.close() }()
		declareAll(t, n, "dead", "other")
		if _, err := n.client.Configure(t.Context(), "q0", func(c *core.QueueConfig) error {
			c.Redelivery = core.Redelivery{DeadLetterQueue: "dead", MaxReceives: 10}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		var puts putsOf
		puts.watch(n)
		body := large("moved")
		publishTo(t, n, core.TopicPublish{Topic: "a/b", Messages: []core.Message{{Body: body, Attributes: []core.Attribute{{Name: "k", Value: []byte("v")}}}}})
		takeBody(t, n, "q0", body, core.SettleDeadLetter)
		startMoveOf(t, n, core.MoveOptions{Source: "dead", Destination: "other"})
		time.Sleep(time.Second)
		if got := epochs(t, n); !slices.Equal(got, []uint64{4}) || puts.bodies.Load() != 1 {
			t.Errorf("references are %v to %d bodies, want 4 to one", got, puts.bodies.Load())
		}
		got, _, err := n.client.Peek(t.Context(), "other", core.PeekPos{}, 1)
		if err != nil || len(got) != 1 || got[0].AttributeCount() != 1 || !bytes.Equal(got[0].Body, body) {
			t.Fatalf("other shows %v, %v", got, err)
		}
		takeBody(t, n, "other", body, core.SettleRelease)
		n.close()
		n.open()
		takeBody(t, n, "other", body, core.SettleDelete)
		if got := epochs(t, n); !slices.Equal(got, []uint64{3}) {
			t.Errorf("references are %v, want 3", got)
		}
	})
}

func TestRetainedValueHasItsBody(t *testing.T) {
	n := &node{t: t}
	fanned(t, n, "q0", "q1", "q2", "q3")
	defer func() { n.close() }()
	body := large("kept")
	publishTo(t, n, core.TopicPublish{Topic: "a/b", Retain: true, Messages: []core.Message{{Body: body}}})
	n.close()
	n.open()
	for _, q := range []string{"q0", "q1", "q2", "q3"} {
		takeBody(t, n, q, body, core.SettleDelete)
	}
	shown := 0
	err := n.client.Retained(t.Context(), "a/b", func(_ string, m *core.Stored) bool {
		if shown++; !bytes.Equal(m.Body, body) {
			t.Errorf("kept is %.40q", m.Body)
		}
		return true
	})
	if err != nil || shown != 1 {
		t.Errorf("%d values are kept, %v", shown, err)
	}
}

func TestFIFOAndTransactionsShare(t *testing.T) {
	n := &node{t: t}
	fanned(t, n, "q0", "q1", "q2")
	defer func() { n.close() }()
	for _, name := range []string{"a.fifo", "b.fifo"} {
		if _, _, err := n.client.DeclareBound(t.Context(), name, core.DefaultQueueConfig(core.KindFIFO), core.Binding{Filter: "a/#"}); err != nil {
			t.Fatal(err)
		}
	}
	var puts putsOf
	puts.watch(n)
	first, second := large("first"), large("second")
	tx := n.client.Begin()
	for _, body := range [][]byte{first, second} {
		if err := tx.PublishTopic(core.TopicPublish{Topic: "a/b", Messages: []core.Message{{Body: body, TTL: time.Hour}}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := epochs(t, n); !slices.Equal(got, []uint64{10}) || puts.bodies.Load() != 2 {
		t.Errorf("references are %v to %d bodies, want 10 to two", got, puts.bodies.Load())
	}
	takeBody(t, n, "a.fifo", first, core.SettleDelete)
	n.close()
	n.open()
	takeBody(t, n, "a.fifo", second, core.SettleDelete)
	takeBody(t, n, "b.fifo", first, core.SettleDelete)
	takeBody(t, n, "b.fifo", second, core.SettleDelete)
}

// damaged is a Store with other bodies.
type damaged struct {
	core.Store
	body func(v []byte) []byte
}

func (d *damaged) Body(epoch core.QID, s core.Seq) ([]byte, error) {
	v, err := d.Store.Body(epoch, s)
	return d.body(v), err
}

func TestDamagedBodyIsNotGiven(t *testing.T) {
	for name, damage := range map[string]func(v []byte) []byte{
		"missing":       func([]byte) []byte { return nil },
		"empty":         func([]byte) []byte { return []byte{} },
		"cut":           func(v []byte) []byte { return v[:len(v)-1] },
		"other version": func(v []byte) []byte { return append([]byte{2}, v[1:]...) },
	} {
		n := &node{t: t}
		fanned(t, n, "q0", "q1", "q2", "q3")
		publishTo(t, n, core.TopicPublish{Topic: "a/b", Messages: []core.Message{{Body: large("lost")}}})
		n.close()
		n.tune = func(o *core.Options) { o.Store = &damaged{o.Store, damage} }
		n.open()
		got, err := n.client.Receive(t.Context(), "q0", core.ReceiveOptions{Max: 1, Visibility: time.Minute}, nil)
		if len(got) != 0 || err != nil {
			t.Errorf("%s: gives %v, %v", name, got, err)
		}
		shown, _, err := n.client.Peek(t.Context(), "q1", core.PeekPos{}, 1)
		if len(shown) != 0 || err != nil {
			t.Errorf("%s: shows %v, %v", name, shown, err)
		}
		if st, err := n.client.Stats(t.Context(), "q0"); err != nil || st.Messages != 1 {
			t.Errorf("%s: %+v, %v", name, st, err)
		}
		n.close()
	}
}

// TestStoreOfFormat2Opens opens what a node wrote before bodies were shared: each
// line of testdata/store2.txt is a key and a value.
func TestStoreOfFormat2Opens(t *testing.T) {
	// In a bubble the clock stands long before what is delayed in the store is due.
	synctest.Test(t, testStoreOfFormat2)
}

func testStoreOfFormat2(t *testing.T) {
	n := &node{t: t, fs: vfs.NewMem()}
	loadStore(t, n.fs, "testdata/store2.txt")
	n.open()
	defer func() { n.close() }()
	before := append([]byte("large "), bytes.Repeat([]byte("x"), 600)...)
	after := large("after")
	publishTo(t, n, core.TopicPublish{Topic: "a/b", Messages: []core.Message{{Body: after}}})
	n.close()
	n.open()
	for i := range 4 {
		name := fmt.Sprint("q", i)
		takeBody(t, n, name, before, core.SettleDelete)
		if i == 0 {
			takeBody(t, n, name, []byte("small"), core.SettleDelete)
		}
		takeBody(t, n, name, after, core.SettleDelete)
	}
	if st, err := n.client.Stats(t.Context(), "q0"); err != nil || st.Messages != 1 {
		t.Errorf("q0 is left with %+v, %v, want the delayed message", st, err)
	}
}

func loadStore(t *testing.T, fs vfs.FS, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p, err := pebble.Open("data", &pebble.Options{FS: fs, FormatMajorVersion: pebble.FormatValueSeparation})
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		key, err := strconv.QuotedPrefix(lines.Text())
		if err != nil {
			t.Fatal(err)
		}
		k, err := strconv.Unquote(key)
		if err != nil {
			t.Fatal(err)
		}
		v, err := strconv.Unquote(lines.Text()[len(key)+1:])
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Set([]byte(k), []byte(v), pebble.Sync); err != nil {
			t.Fatal(err)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
}

// lateAnswers is a Committer whose answers can be held back.
type lateAnswers struct {
	core.Committer
	mu      sync.Mutex
	held    bool
	waiting []func()
}

// Submit implements core.Committer.
func (l *lateAnswers) Submit(c *core.Change, done func(core.Pos, error)) {
	l.Committer.Submit(c, func(pos core.Pos, err error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.held {
			l.waiting = append(l.waiting, func() { done(pos, err) })
			return
		}
		done(pos, err)
	})
}

func (l *lateAnswers) hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = true
}

func (l *lateAnswers) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = false
	for _, answer := range l.waiting {
		answer()
	}
	l.waiting = nil
}

// TestEpochThatClosesEmptyIsRemovedOnce: the last reference goes in one Change, and
// before that is answered the next one closes the epoch.
func TestEpochThatClosesEmptyIsRemovedOnce(t *testing.T) {
	for range 10 {
		synctest.Test(t, func(t *testing.T) {
			late := new(lateAnswers)
			n := &node{
				t: t, tune: func(o *core.Options) { late.Committer, o.Committer = o.Committer, late },
				opened: func(e *core.Engine) { core.SetEpochBytes(e, 1) },
			}
			queues := []string{"q0", "q1", "q2", "q3"}
			fanned(t, n, queues...)
			defer n.close()
			first, second := large("first"), large("second")
			publishTo(t, n, core.TopicPublish{Topic: "a/b", Messages: []core.Message{{Body: first}}})
			for _, q := range queues[:3] {
				takeBody(t, n, q, first, core.SettleDelete)
			}
			got, err := n.client.Receive(t.Context(), "q3", core.ReceiveOptions{Max: 1, Visibility: time.Minute}, nil)
			if err != nil || len(got) != 1 {
				t.Fatalf("q3 gives %v, %v", got, err)
			}
			synctest.Wait()
			late.hold()
			err = n.client.SettleAsync("q3", []core.Settlement{{Receipt: got[0].Receipt}}, func([]error, error) {})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			p := core.TopicPublish{Topic: "a/b", Messages: []core.Message{{Body: second}}}
			if err := n.client.PublishTopicAsync(p, func([]core.TopicResult, error) {}); err != nil {
				t.Fatal(err)
			}
			late.release()
			time.Sleep(time.Minute)
			if got := epochs(t, n); !slices.Equal(got, []uint64{4}) {
				t.Errorf("references are %v, want those of the second publish", got)
			}
		})
	}
}

// TestReceiptOfAnUnknownMessageDropsItsReference: memory has no lease for the
// message, only storage knows that it was received.
func TestReceiptOfAnUnknownMessageDropsItsReference(t *testing.T) {
	n := &node{t: t, opened: func(e *core.Engine) { core.SetReturnedMax(e, 1) }}
	fanned(t, n, "q0", "q1", "q2", "q3")
	defer func() { n.close() }()
	msgs := make([]core.Message, 5)
	for i := range msgs {
		msgs[i].Body = large(strconv.Itoa(i))
	}
	if _, err := n.client.PublishTopic(t.Context(), core.TopicPublish{Topic: "a/b", Messages: msgs}, nil); err != nil {
		t.Fatal(err)
	}
	got, err := n.client.Receive(t.Context(), "q0", core.ReceiveOptions{Max: 10}, nil)
	if err != nil || len(got) != len(msgs) {
		t.Fatalf("q0 gives %d messages, %v", len(got), err)
	}
	n.close()
	n.open()
	for i := range got {
		errs, err := n.client.Settle(t.Context(), "q0", []core.Settlement{{Receipt: got[i].Receipt}}, nil)
		if err != nil || errs[0] != nil {
			t.Fatalf("delete: %v, %v", errs, err)
		}
	}
	if got := epochs(t, n); !slices.Equal(got, []uint64{15}) {
		t.Errorf("references are %v, want 15", got)
	}
}
