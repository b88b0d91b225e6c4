package storage

import (
	"bytes"
	"cmp"
	"testing"

	"pgregory.net/rapid"

	"github.com/leasemq/broker/core"
)

// drawPlace draws a place that has a key, often one at an edge.
func drawPlace(t *rapid.T, label string) core.Place {
	kind := core.PlaceKind(rapid.IntRange(0, 3).Draw(t, label+" kind"))
	most := uint64(0)
	switch kind {
	case core.PlacePriority:
		most = 255
	case core.PlaceGroup:
		most = 1<<64 - 1
	case core.PlaceDelayed:
		most = dueMax
	}
	n := rapid.OneOf(rapid.SampledFrom([]uint64{0, most}), rapid.Uint64Range(0, most)).Draw(t, label+" number")
	return core.Place{Kind: kind, N: n}
}

func drawUint64(t *rapid.T, label string) uint64 {
	return rapid.OneOf(rapid.SampledFrom([]uint64{0, 1, 255, 256, 1<<63 - 1, 1<<64 - 1}), rapid.Uint64()).Draw(t, label)
}

func drawRef(t *rapid.T, label string) core.Ref {
	return core.Ref{
		QID:   core.QID(drawUint64(t, label+" queue")),
		Place: drawPlace(t, label),
		Seq:   core.Seq(drawUint64(t, label+" seq")),
	}
}

func compareRefs(a, b core.Ref) int {
	return cmp.Or(cmp.Compare(a.QID, b.QID), cmp.Compare(a.Place.Kind, b.Place.Kind),
		cmp.Compare(a.Place.N, b.Place.N), cmp.Compare(a.Seq, b.Seq))
}

func TestKeyOrderIsTupleOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawRef(t, "a"), drawRef(t, "b")
		if rapid.Bool().Draw(t, "same queue") {
			b.QID = a.QID
		}
		if rapid.Bool().Draw(t, "same place") {
			b.Place = a.Place
		}
		want := compareRefs(a, b)
		if got := bytes.Compare(appendStateKey(nil, a), appendStateKey(nil, b)); got != want {
			t.Errorf("state keys of %v and %v compare %d, want %d", a, b, got, want)
		}
		// Delayed messages have a space of their own, so that only messages of
		// one space have an order.
		if (a.Place.Kind == core.PlaceDelayed) != (b.Place.Kind == core.PlaceDelayed) {
			return
		}
		if got := bytes.Compare(appendMessageKey(nil, a), appendMessageKey(nil, b)); got != want {
			t.Errorf("message keys of %v and %v compare %d, want %d", a, b, got, want)
		}
		wantLane := compareRefs(core.Ref{QID: a.QID, Place: a.Place}, core.Ref{QID: b.QID, Place: b.Place})
		if got := bytes.Compare(appendLaneKey(nil, a.QID, a.Place), appendLaneKey(nil, b.QID, b.Place)); got != wantLane {
			t.Errorf("lane keys of %v and %v compare %d, want %d", a, b, got, wantLane)
		}
	})
}

func TestKeysRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRef(t, "ref")
		if got, err := parseRef(appendMessageKey(nil, r)); got != r || err != nil {
			t.Errorf("message key of %v reads as %v, %v", r, got, err)
		}
		if got, err := parseRef(appendStateKey(nil, r)); got != r || err != nil {
			t.Errorf("state key of %v reads as %v, %v", r, got, err)
		}
		if q, p, err := parseLane(appendLaneKey(nil, r.QID, r.Place)); q != r.QID || p != r.Place || err != nil {
			t.Errorf("lane key of %v reads as %v %v, %v", r, q, p, err)
		}
		if len(appendStateKey(nil, r)) > keyBytesMax {
			t.Errorf("state key of %v is longer than keyBytesMax", r)
		}
		minute := rapid.Uint32().Draw(t, "minute")
		hash := [16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "hash"))
		m, q, h, err := parseDedup(appendDedupKey(nil, minute, r.QID, hash[:]))
		if m != minute || q != r.QID || h != hash || err != nil {
			t.Errorf("deduplication key reads as %d %d %x, %v", m, q, h, err)
		}
	})
}

func TestStandardMessageKeyIs18Bytes(t *testing.T) {
	r := core.Ref{QID: 7, Seq: core.MakeSeq(3) + 9}
	if got := len(appendMessageKey(nil, r)); got != 18 {
		t.Errorf("key of %d bytes, want 18", got)
	}
}

func TestSuccessorIsTheFirstKeyBehindThePrefix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prefix := append([]byte{'m'}, rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 254, 255}), 0, 9).Draw(t, "prefix")...)
		other := append([]byte{'m'}, rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 254, 255}), 0, 12).Draw(t, "other")...)
		end := successor(bytes.Clone(prefix))
		inside := bytes.Compare(prefix, other) <= 0 && bytes.Compare(other, end) < 0
		if want := bytes.HasPrefix(other, prefix); inside != want {
			t.Errorf("%x in [%x, %x) is %v, want %v", other, prefix, end, inside, want)
		}
	})
}

func TestPlacesWithoutAKeyAreRefused(t *testing.T) {
	for _, p := range []core.Place{
		{Kind: core.PlaceTail, N: 1},
		{Kind: core.PlacePriority, N: 256},
		{Kind: core.PlaceDelayed, N: 1 << 48},
		{Kind: 4},
		{Kind: 255, N: 1},
	} {
		if checkPlace(p) == nil {
			t.Errorf("place %+v was taken", p)
		}
	}
}

// FuzzParseKey checks that no key makes the parsers panic, and that each key
// they take is the one that they would have made.
func FuzzParseKey(f *testing.F) {
	r := core.Ref{QID: 1, Seq: core.MakeSeq(1) + 1}
	f.Add(appendMessageKey(nil, r))
	f.Add(appendStateKey(nil, r))
	r.Place = core.Place{Kind: core.PlaceDelayed, N: 1_700_000_000_000}
	f.Add(appendMessageKey(nil, r))
	f.Add(appendStateKey(nil, r))
	f.Add(appendLaneKey(nil, 1, core.Place{Kind: core.PlaceGroup, N: 1 << 63}))
	f.Add(appendDedupKey(nil, 1, 2, make([]byte, 16)))
	f.Add(appendQID(nil, spaceReap, 3))
	f.Fuzz(func(t *testing.T, key []byte) {
		if r, err := parseRef(key); err == nil {
			made := appendMessageKey(nil, r)
			if key[0] == spaceState {
				made = appendStateKey(nil, r)
			}
			if !bytes.Equal(made, key) {
				t.Errorf("%x reads as %v, whose key is %x", key, r, made)
			}
		}
		if q, p, err := parseLane(key); err == nil && !bytes.Equal(appendLaneKey(nil, q, p), key) {
			t.Errorf("%x reads as lane %v of %d", key, p, q)
		}
		if m, q, h, err := parseDedup(key); err == nil && !bytes.Equal(appendDedupKey(nil, m, q, h[:]), key) {
			t.Errorf("%x reads as entry %d %d %x", key, m, q, h)
		}
		if q, err := parseQID(key, spaceReap); err == nil && !bytes.Equal(appendQID(nil, spaceReap, q), key) {
			t.Errorf("%x reads as mark of %d", key, q)
		}
	})
}
