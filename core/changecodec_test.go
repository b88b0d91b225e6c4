package core_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/storage"
)

// everyEdit has an edit of each kind, with all the fields that the kind uses.
func everyEdit() *core.Change {
	q, s := core.QID(core.MakeSeq(3)+7), core.MakeSeq(3)+1000
	tail := core.Ref{QID: q, Seq: s}
	group := core.Ref{QID: q + 5, Place: core.Place{Kind: core.PlaceGroup, N: 0xfedcba9876543210}, Seq: s - 3}
	delayed := core.Ref{QID: q, Place: core.Place{Kind: core.PlaceDelayed, N: 1_700_000_060_000}, Seq: s + 1}
	priority := core.Ref{QID: 1, Place: core.Place{Kind: core.PlacePriority, N: 9}, Seq: core.SeqMax}
	return &core.Change{Time: 1_700_000_000_000, Edits: []core.Edit{
		{Kind: core.EditPutMessage, Ref: tail, Value: []byte("record")},
		{Kind: core.EditPutMessage, Ref: delayed, Value: []byte{1}},
		{Kind: core.EditDropMessage, Ref: priority},
		{Kind: core.EditPutState, Ref: group, State: core.MessageState{
			VisibleAt: 1_700_000_030_000, FirstReceived: 1_699_999_999_000,
			Receives: 3, Failures: 2, Nonce: 0xdeadbeef, Flags: core.StateSession,
		}},
		{Kind: core.EditDropState, Ref: group, Single: true},
		{Kind: core.EditDropState, Ref: tail},
		{Kind: core.EditPutQueue, Ref: core.Ref{QID: q}, Value: []byte("\x01{}")},
		{Kind: core.EditDropQueue, Ref: core.Ref{QID: q}},
		{Kind: core.EditPutName, Ref: core.Ref{QID: q}, Key: []byte("orders")},
		{Kind: core.EditDropName, Key: []byte("orders.fifo")},
		{Kind: core.EditPutQueueState, Ref: core.Ref{QID: q}, Value: []byte{1, 2, 3}},
		{Kind: core.EditPutLane, Ref: core.Ref{QID: q, Place: group.Place}, Value: []byte{1}},
		{Kind: core.EditDropLane, Ref: core.Ref{QID: q, Place: priority.Place}},
		{Kind: core.EditPutDedup, Ref: core.Ref{QID: q}, Minute: 28_333_333, Key: []byte("0123456789abcdef"), Value: []byte("entry")},
		{Kind: core.EditDropDedup, Minute: math.MaxUint32},
		{Kind: core.EditPutReap, Ref: core.Ref{QID: q}},
		{Kind: core.EditDropReap, Ref: core.Ref{QID: math.MaxUint64}},
		{Kind: core.EditReapQueue, Ref: core.Ref{QID: q}},
		{Kind: core.EditPutRecord, Key: []byte("receipt-key"), Value: []byte("secret")},
		{Kind: core.EditDropRecord, Key: []byte("move/1")},
	}}
}

// sharedEdits has an edit of each kind that came with version 2.
func sharedEdits() *core.Change {
	epoch := core.QID(core.MakeSeq(3) + 2000)
	return &core.Change{Time: 1_700_000_000_000, Edits: []core.Edit{
		{Kind: core.EditPutBody, Ref: core.Ref{QID: epoch, Seq: core.Seq(epoch) + 9}, Value: []byte("\x01body")},
		{Kind: core.EditPutEpoch, Ref: core.Ref{QID: epoch}, Value: []byte{1, 4}},
		{Kind: core.EditReapEpochs, Ref: core.Ref{QID: epoch - 700, Seq: core.Seq(epoch) - 600}},
	}}
}

// sharedEditsHex is the stored form of sharedEdits.
const sharedEditsHex = "0280a0abfef9620313a09f808080c001b29f808080c0010501626f6479140002010415f70ac109"

// everyEditHex is the stored form of everyEdit. A difference means that logs
// written so far cannot be read any more: raise the version instead.
const everyEditHex = "0180a0abfef96214018e80808080c00100d08f808080c001067265636f7264010003e0a499ffbc31020101028b80808080c0" +
	"010109d38f808080c001039680808080c00102fedcba9876543210cc8f808080c00101e0d403d00f0302deadbeef040002fe" +
	"dcba987654321000010409000600050003017b7d06000700066f7264657273080b6f72646572732e6669666f090003010203" +
	"0a0002fedcba987654321001010b0001090c0095aac10d3031323334353637383961626364656605656e7472790dffffffff" +
	"0f0e000f8f80808080c001109080808080c001110b726563656970742d6b65790673656372657412066d6f76652f31"

func mustAppend(t testing.TB, c *core.Change) []byte {
	t.Helper()
	b, err := c.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestChangeFormIsStable(t *testing.T) {
	for _, want := range []struct {
		change *core.Change
		form   string
	}{{everyEdit(), everyEditHex}, {sharedEdits(), sharedEditsHex}} {
		if got := hex.EncodeToString(mustAppend(t, want.change)); got != want.form {
			t.Errorf("a Change is now written as\n%s\nand was as\n%s", got, want.form)
		}
		b, err := hex.DecodeString(want.form)
		if err != nil {
			t.Fatal(err)
		}
		c, err := core.DecodeChange(b)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.change, c, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("stored form reads differently (-want +got):\n%s", diff)
		}
	}
}

func TestEveryKindIsInTheGoldenChange(t *testing.T) {
	seen := map[core.EditKind]bool{}
	for _, e := range slices.Concat(everyEdit().Edits, sharedEdits().Edits) {
		seen[e.Kind] = true
	}
	for kind := core.EditKind(1); ; kind++ {
		b := new(pebble.Batch)
		e := core.Edit{Kind: kind, Minute: 1, Key: make([]byte, 16), Value: []byte{1}}
		if storage.Encode(&core.Change{Edits: []core.Edit{e}}, b) != nil {
			if int(kind) <= len(seen) {
				t.Errorf("storage does not know kind %d", kind)
			}
			return
		}
		if !seen[kind] {
			t.Errorf("kind %d is not in the golden Change", kind)
		}
	}
}

func TestAppendBinaryAppends(t *testing.T) {
	want := append([]byte("before"), mustAppend(t, everyEdit())...)
	got, err := everyEdit().AppendBinary([]byte("before"))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %x, %v, want %x", got, err, want)
	}
}

func TestDecodedChangeIsAView(t *testing.T) {
	b := mustAppend(t, &core.Change{Edits: []core.Edit{{Kind: core.EditPutMessage, Ref: core.Ref{QID: 1, Seq: 1}, Value: []byte("body")}}})
	c, err := core.DecodeChange(b)
	if err != nil {
		t.Fatal(err)
	}
	v := c.Edits[0].Value
	copy(b[len(b)-4:], "BODY")
	if string(v) != "BODY" || cap(v) != 4 {
		t.Errorf("value is %q with capacity %d, want a view that cannot grow", v, cap(v))
	}
}

func TestChangeThatIsNotOneIsRefused(t *testing.T) {
	whole := mustAppend(t, everyEdit())
	broken := map[string][]byte{
		"nothing":               nil,
		"version 0":             append([]byte{0}, whole[1:]...),
		"next version":          append([]byte{3}, whole[1:]...),
		"kind of version 2":     append([]byte{1}, mustAppend(t, sharedEdits())[1:]...),
		"a byte too many":       append(bytes.Clone(whole), 0),
		"unknown kind":          {2, 0, 1, 22, 0},
		"kind 0":                {1, 0, 1, 0, 0},
		"count of 2^63":         {1, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
		"place of unknown kind": {1, 0, 1, byte(core.EditDropMessage), 0, 9, 0, 0},
		"priority of 256":       {1, 0, 1, byte(core.EditDropMessage), 0, byte(core.PlacePriority), 0x80, 2, 0},
		"single is 2":           {1, 0, 1, byte(core.EditDropState), 0, 0, 0, 2},
		"minute of 2^32":        {1, 0, 1, byte(core.EditDropDedup), 0x80, 0x80, 0x80, 0x80, 0x10},
	}
	for name, b := range broken {
		if _, err := core.DecodeChange(b); !errors.Is(err, core.ErrCorrupt) {
			t.Errorf("%s: got %v, want ErrCorrupt", name, err)
		}
	}
	for n := range len(whole) {
		if _, err := core.DecodeChange(whole[:n]); !errors.Is(err, core.ErrCorrupt) {
			t.Errorf("cut at %d: got %v, want ErrCorrupt", n, err)
		}
	}
}

func TestBrokenEditIsNotWritten(t *testing.T) {
	for name, e := range map[string]core.Edit{
		"unknown kind":   {Kind: 22},
		"no kind":        {},
		"tail number":    {Kind: core.EditDropMessage, Ref: core.Ref{Place: core.Place{N: 1}}},
		"priority 256":   {Kind: core.EditDropLane, Ref: core.Ref{Place: core.Place{Kind: core.PlacePriority, N: 256}}},
		"due too late":   {Kind: core.EditDropState, Ref: core.Ref{Place: core.Place{Kind: core.PlaceDelayed, N: 1 << 48}}},
		"unknown place":  {Kind: core.EditPutState, Ref: core.Ref{Place: core.Place{Kind: 4}}},
		"hash of 15":     {Kind: core.EditPutDedup, Key: make([]byte, 15)},
		"hash is absent": {Kind: core.EditPutDedup},
	} {
		c := &core.Change{Edits: []core.Edit{e}}
		if _, err := c.AppendBinary(nil); !errors.Is(err, core.ErrInvalidArgument) || !strings.Contains(err.Error(), "edit 0") {
			t.Errorf("%s: got %v, want ErrInvalidArgument that names the edit", name, err)
		}
	}
}

// randomChange makes a Change of any edits, with values at the bounds.
func randomChange(rng *rand.Rand) *core.Change {
	number := func(bits int) uint64 {
		switch rng.IntN(4) {
		case 0:
			return 0
		case 1:
			return 1<<bits - 1
		}
		return rng.Uint64() >> (64 - 1 - rng.IntN(bits))
	}
	text := func() []byte {
		b := make([]byte, rng.IntN(20))
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return b
	}
	c := &core.Change{Time: int64(number(63))}
	for range rng.IntN(30) {
		e := core.Edit{Kind: core.EditKind(1 + rng.IntN(21))}
		e.QID, e.Seq = core.QID(number(63)), core.Seq(number(63))
		switch e.Place.Kind = core.PlaceKind(rng.IntN(4)); e.Place.Kind {
		case core.PlacePriority:
			e.Place.N = number(8)
		case core.PlaceGroup:
			e.Place.N = number(63)
		case core.PlaceDelayed:
			e.Place.N = number(48)
		}
		e.Single, e.Minute, e.Key, e.Value = rng.IntN(2) == 0, uint32(number(32)), text(), text()
		if e.Kind == core.EditPutDedup {
			e.Key = append(e.Key, make([]byte, 16)...)[:16]
		}
		e.State = core.MessageState{
			VisibleAt: int64(number(63)), FirstReceived: int64(number(63)),
			Receives: uint32(number(32)), Failures: uint32(number(32)), Nonce: uint32(number(32)), Flags: core.StateFlags(number(8)),
		}
		c.Edits = append(c.Edits, e)
	}
	return c
}

// checkSameBatch checks that storage makes the same of two Changes.
func checkSameBatch(t *testing.T, a, b *core.Change) {
	t.Helper()
	var x, y pebble.Batch
	errA, errB := storage.Encode(a, &x), storage.Encode(b, &y)
	if errA != nil || errB != nil {
		t.Fatalf("storage refuses: %v, %v", errA, errB)
	}
	if !bytes.Equal(x.Repr(), y.Repr()) {
		t.Errorf("storage would write\n%x\nand after a trip through the binary form\n%x", x.Repr(), y.Repr())
	}
}

func TestStorageMakesTheSameOfADecodedChange(t *testing.T) {
	checkSameBatchAfterTrip := func(c *core.Change) {
		t.Helper()
		b := mustAppend(t, c)
		decoded, err := core.DecodeChange(b)
		if err != nil {
			t.Fatal(err)
		}
		if decoded.Time != c.Time || len(decoded.Edits) != len(c.Edits) {
			t.Fatalf("time %d and %d edits, want %d and %d", decoded.Time, len(decoded.Edits), c.Time, len(c.Edits))
		}
		checkSameBatch(t, c, decoded)
		if again := mustAppend(t, decoded); !bytes.Equal(b, again) {
			t.Errorf("written again it is\n%x\nand was\n%x", again, b)
		}
	}
	checkSameBatchAfterTrip(everyEdit())
	checkSameBatchAfterTrip(sharedEdits())
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		checkSameBatchAfterTrip(randomChange(rng))
	}
}

func TestFalseCountsDoNotAllocate(t *testing.T) {
	// Two bytes an edit would fit; none is there.
	b := append([]byte{1, 0, 0x80, 0x80, 0x40}, make([]byte, 2<<20)...)
	const editBytesMax = 200
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := core.DecodeChange(b); err == nil {
		t.Fatal("zeroes were taken for a Change")
	}
	runtime.ReadMemStats(&after)
	got := after.TotalAlloc - before.TotalAlloc
	if most := uint64(len(b)/16*editBytesMax + 1<<16); got > most {
		t.Errorf("a false count of a million edits in %d bytes made it allocate %d, want at most %d", len(b), got, most)
	}
}

func BenchmarkChangeCodec(b *testing.B) {
	c := &core.Change{Time: 1_700_000_000_000}
	for i := range core.Seq(1000) {
		r := core.Ref{QID: 7, Seq: core.MakeSeq(9) + i}
		c.Edits = append(c.Edits, core.Edit{Kind: core.EditPutMessage, Ref: r, Value: make([]byte, 250)},
			core.Edit{Kind: core.EditPutState, Ref: r, State: core.MessageState{VisibleAt: c.Time + 30_000, FirstReceived: c.Time, Receives: 1, Nonce: 1 << 31}})
	}
	var buf []byte
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			buf, _ = c.AppendBinary(buf[:0])
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(c.Edits)), "ns/edit")
		b.ReportMetric(float64(len(buf)-250*1000)/float64(len(c.Edits)), "overhead-bytes/edit")
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			if _, err := core.DecodeChange(buf); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(c.Edits)), "ns/edit")
	})
}

// FuzzDecodeChange: what decodes is written again as something that decodes to
// the same, and storage makes the same of both.
func FuzzDecodeChange(f *testing.F) {
	f.Add([]byte{})
	f.Add(mustAppend(f, &core.Change{}))
	f.Add(mustAppend(f, everyEdit()))
	f.Add(mustAppend(f, sharedEdits()))
	rng := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		f.Add(mustAppend(f, randomChange(rng)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := core.DecodeChange(b)
		if err != nil {
			if !errors.Is(err, core.ErrCorrupt) {
				t.Fatalf("error does not wrap ErrCorrupt: %v", err)
			}
			return
		}
		again, err := core.DecodeChange(mustAppend(t, c))
		if err != nil {
			t.Fatalf("what was decoded does not decode when written again: %v", err)
		}
		if diff := cmp.Diff(c, again); diff != "" {
			t.Fatalf("two trips differ:\n%s", diff)
		}
		checkSameBatch(t, c, again)
	})
}
