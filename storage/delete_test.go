package storage

import (
	"context"
	"slices"
	"testing"

	"github.com/leasemq/broker/core"
)

func flush(t tb, d *DB) {
	t.Helper()
	if err := d.pebble.Flush(); err != nil {
		t.Fatal(err)
	}
}

func compactAll(t tb, d *DB) {
	t.Helper()
	if err := d.pebble.Compact(context.Background(), []byte{'!'}, []byte{'~'}, false); err != nil {
		t.Fatal(err)
	}
}

// TestDeletedMessagesStayGone takes the SET and the SINGLEDEL of messages apart
// by flushes and compactions in each combination.
func TestDeletedMessagesStayGone(t *testing.T) {
	settle := []struct {
		name string
		do   func(t tb, d *DB)
	}{
		{"memtable", func(tb, *DB) {}},
		{"flush", flush},
		{"compact", func(t tb, d *DB) { flush(t, d); compactAll(t, d) }},
	}
	for _, first := range settle {
		for _, second := range settle {
			t.Run(first.name+" "+second.name, func(t *testing.T) {
				d := openForTest(t, small(onMem()))
				for i := core.Seq(1); i <= 30; i++ {
					mustCommit(t, d, put(ref(1, i), make([]byte, 1000)),
						core.Edit{Kind: core.EditPutState, Ref: ref(1, i), State: core.MessageState{Receives: 1}})
				}
				first.do(t, d)
				for i := core.Seq(1); i <= 30; i++ {
					if i%3 != 0 {
						mustCommit(t, d, drop(ref(1, i)), core.Edit{Kind: core.EditDropState, Ref: ref(1, i), Single: true})
					}
				}
				var want []core.Seq
				for i := core.Seq(3); i <= 30; i += 3 {
					want = append(want, i)
				}
				for range 2 {
					if got := seqs(t, d, 1); !slices.Equal(got, want) {
						t.Errorf("messages %v, want %v", got, want)
					}
					second.do(t, d)
				}
				if first.name == "compact" && second.name == "compact" {
					if n := d.pebble.Metrics().Keys.TombstoneCount; n != 0 {
						t.Errorf("%d tombstones are left", n)
					}
				}
				if n := d.Metrics().MisusedDeletes; n != 0 {
					t.Errorf("%d suspicious deletes", n)
				}
			})
		}
	}
}

// TestSingleDeleteOfARewrittenStateIsWrong shows why Edit.Single must be true
// only of a record that was put once: the older one comes back.
func TestSingleDeleteOfARewrittenStateIsWrong(t *testing.T) {
	for _, single := range []bool{false, true} {
		d := openForTest(t, small(onMem()))
		state := core.Edit{Kind: core.EditPutState, Ref: ref(1, 1), State: core.MessageState{Receives: 1}}
		mustCommit(t, d, state)
		flush(t, d)
		state.State.Receives = 2
		mustCommit(t, d, state)
		mustCommit(t, d, core.Edit{Kind: core.EditDropState, Ref: ref(1, 1), Single: single})
		flush(t, d)
		if _, there, err := d.State(ref(1, 1)); there != single || err != nil {
			t.Errorf("single=%v: the old record is there: %v, %v", single, there, err)
		}
	}
}

func TestReapRemovesOneIncarnationAndNoOther(t *testing.T) {
	d := openForTest(t, small(onMem()))
	w := newModel()
	for _, q := range []core.QID{0, 1, 2, 255, 256, 1<<64 - 2, 1<<64 - 1} {
		for _, place := range []core.Place{{}, {Kind: core.PlacePriority, N: 9}, {Kind: core.PlaceGroup, N: 1<<64 - 1}, {Kind: core.PlaceDelayed, N: dueMax}} {
			r := core.Ref{QID: q, Place: place, Seq: core.SeqMax}
			c := change(put(r, body(1)),
				core.Edit{Kind: core.EditPutState, Ref: r, State: core.MessageState{Receives: 1}},
				core.Edit{Kind: core.EditPutLane, Ref: core.Ref{QID: q, Place: place}, Value: []byte("lane")})
			w.apply(c)
			mustCommit(t, d, c.Edits...)
		}
	}
	for _, q := range []core.QID{1, 255, 1<<64 - 1} {
		c := change(core.Edit{Kind: core.EditReapQueue, Ref: core.Ref{QID: q}})
		w.apply(c)
		mustCommit(t, d, c.Edits...)
		flush(t, d)
		if got, want := countKeys(t, d.pebble), w.size(ownKeys); got != want {
			t.Errorf("after %d: %d keys, want %d", q, got, want)
		}
	}
	for r := range w.messages {
		if v, err := d.Message(r); v == nil || err != nil {
			t.Errorf("message %v is gone, %v", r, err)
		}
	}
}

func TestDroppedMinutesAreGone(t *testing.T) {
	d := openForTest(t, onMem())
	for minute := uint32(1); minute <= 5; minute++ {
		mustCommit(t, d, core.Edit{Kind: core.EditPutDedup, Ref: core.Ref{QID: 1}, Minute: minute, Key: make([]byte, 16), Value: []byte{byte(minute)}})
	}
	for _, below := range []uint32{0, 1, 4, 4, 6} {
		mustCommit(t, d, core.Edit{Kind: core.EditDropDedup, Minute: below})
		minute, ok, err := d.DedupFrom()
		if want := max(below, 1); ok != (below < 6) || ok && minute != want || err != nil {
			t.Errorf("below %d: oldest minute %d, %v, %v", below, minute, ok, err)
		}
	}
	if v, err := d.Dedup(5, 1, [16]byte{}); v != nil || err != nil {
		t.Errorf("entry of a dropped minute: %x, %v", v, err)
	}
}
