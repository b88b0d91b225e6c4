package storage

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/leasemq/broker/core"
)

func mustDigest(t tb, d *DB) (core.LogPosition, [32]byte) {
	t.Helper()
	p, sum, err := d.Digest(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return p, sum
}

// TestDigestIsOfTheStateAlone applies the same Changes one at a time, several at
// a time, and to a database that was opened more often and flushed.
func TestDigestIsOfTheStateAlone(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	w := newWorkload(func(n int, _ string) int { return rng.IntN(n) })
	one, many := openForTest(t, replicated(small(onMem()))), openForTest(t, replicated(small(onMem())))
	o := replicated(small(onMem()))
	other, _ := mustOpen(t, o)
	var held []*core.Change
	seen := map[[32]byte]bool{}
	for seq := uint64(1); seq <= 300; seq++ {
		c := w.change(10)
		mustApply(t, one, at(seq), c)
		mustApply(t, other, at(seq), c)
		if held = append(held, c); seq%30 == 0 {
			mustApply(t, many, at(seq), held...)
			held = nil
			pa, a := mustDigest(t, one)
			pb, b := mustDigest(t, many)
			if pa != at(seq) || pb != pa || a != b {
				t.Fatalf("at %d: digests of %+v and %+v are %x and %x", seq, pa, pb, a, b)
			}
			seen[a] = true
		}
		if seq%100 == 0 {
			if err := errors.Join(other.flush(), other.Close()); err != nil {
				t.Fatal(err)
			}
			other, _ = mustOpen(t, o)
		}
	}
	defer other.Close()
	_, a := mustDigest(t, one)
	if _, b := mustDigest(t, other); a != b || len(seen) < 5 {
		t.Errorf("digest %x, after restarts %x; %d digests in all", a, b, len(seen))
	}
	mustApply(t, other, at(301), change(put(ref(1<<40, 1), body(1))))
	if _, b := mustDigest(t, other); a == b {
		t.Error("one message more, and the digest is the same")
	}
	mustApply(t, one, at(301)) // the position is no part of it
	if _, b := mustDigest(t, one); a != b {
		t.Error("the position alone changed the digest")
	}
}

// TestDigestTellsKeysFromValues moves a byte from a value to its key.
func TestDigestTellsKeysFromValues(t *testing.T) {
	record := func(key, value string) *core.Change {
		return change(core.Edit{Kind: core.EditPutRecord, Key: []byte(key), Value: []byte(value)})
	}
	a, b := openForTest(t, replicated(onMem())), openForTest(t, replicated(onMem()))
	mustApply(t, a, at(1), record("k", "vw"))
	mustApply(t, b, at(1), record("kv", "w"))
	_, x := mustDigest(t, a)
	if _, y := mustDigest(t, b); x == y {
		t.Error("the digests are equal")
	}
}

// TestDigestAtABatchUnderLoad asks two databases, which apply the same records at
// different times, for the state at one of them.
func TestDigestAtABatchUnderLoad(t *testing.T) {
	a, b := openForTest(t, replicated(small(onMem()))), openForTest(t, replicated(small(onMem())))
	type digest struct {
		at  core.LogPosition
		sum [32]byte
		err error
	}
	const last = 400
	got := make(chan digest, 2)
	for _, d := range []*DB{a, b} {
		go func() {
			var g digest
			g.at, g.sum, g.err = d.DigestAt(context.Background(), 202, time.Hour)
			got <- g
		}()
	}
	waitFor(t, func() bool { return waiting(a) == 1 && waiting(b) == 1 })
	for seq := uint64(5); seq <= last; seq += 5 { // no batch ends at 202
		c := change(put(ref(1, core.Seq(seq)), make([]byte, 3000)))
		mustApply(t, a, at(seq), c)
		mustApply(t, b, at(seq), c)
	}
	x, y := <-got, <-got
	if x.err != nil || y.err != nil || x.at != at(205) || x != y {
		t.Errorf("digests %+v and %+v, want equal ones at 205", x, y)
	}
	if p, sum, err := a.DigestAt(context.Background(), 100, time.Hour); err != nil || p != at(last) || sum == x.sum {
		t.Errorf("of a batch that has passed: %+v, %v", p, err)
	}
	if p, _, err := a.DigestAt(context.Background(), 1000, time.Millisecond); err != nil || p != at(last) || waiting(a) != 0 {
		t.Errorf("of a batch that does not come: %+v, %v", p, err)
	}
}

func waiting(d *DB) int {
	d.applied.mu.Lock()
	defer d.applied.mu.Unlock()
	return len(d.applied.digests.waiting)
}

func waitFor(t *testing.T, cond func() bool) {
	t.Helper()
	for range 5000 {
		if cond() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("it does not happen")
}

func TestDigestEnds(t *testing.T) {
	d, _ := mustOpen(t, replicated(onMem()))
	for seq := uint64(1); seq <= 20; seq++ {
		mustApply(t, d, at(seq), change(put(ref(1, core.Seq(seq)), make([]byte, digestSliceBytes))))
	}
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	if _, _, err := d.Digest(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("without a context: %v", err)
	}
	if _, _, err := d.DigestAt(gone, 100, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("while it waits, without a context: %v", err)
	}
	ended := make(chan error)
	for range digestsMax {
		go func() {
			_, _, err := d.DigestAt(context.Background(), 100, time.Hour)
			ended <- err
		}()
	}
	waitFor(t, func() bool { return waiting(d) == digestsMax })
	if _, _, err := d.Digest(context.Background()); !errors.Is(err, errDigests) {
		t.Errorf("beside %d others: %v", digestsMax, err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for range digestsMax {
		if err := <-ended; !errors.Is(err, core.ErrStopped) {
			t.Errorf("when the database was closed: %v", err)
		}
	}
	if _, _, err := d.Digest(context.Background()); !errors.Is(err, core.ErrStopped) {
		t.Errorf("of a closed database: %v", err)
	}
}

func TestDigestMeetsDamage(t *testing.T) {
	d := openForTest(t, replicated(onMem()))
	mustApply(t, d, at(1), change(put(ref(1, 1), body(1))))
	// What no encoder writes.
	if err := d.pebble.Set([]byte(keyPosition), []byte{99}, nil); err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.Digest(context.Background()); !errors.Is(err, core.ErrCorrupt) {
		t.Errorf("digest: %v", err)
	}
	if _, err := d.Checkpoint("copy"); !errors.Is(err, core.ErrCorrupt) {
		t.Errorf("checkpoint: %v", err)
	}
}
