package cluster

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/leasemq/broker/core"
)

func record(kind Kind, body []byte) *Record {
	return &Record{Kind: kind, Epoch: 7, Time: 1234, Prev: Hash{1, 2, 3}, Body: body}
}

func TestRecordReadsAsWritten(t *testing.T) {
	epoch := Epoch{Node: "a", Instance: Hash{9}, Vacant: true, Clean: true}
	for _, r := range []*Record{
		record(KindPad, []byte{}), record(KindHeartbeat, []byte{}),
		record(KindBatch, []byte{3, 0, 1}), record(KindEpoch, epoch.append(nil)),
	} {
		got, err := DecodeRecord(r.Append(nil))
		if err != nil || fmt.Sprint(got) != fmt.Sprint(*r) {
			t.Errorf("%s reads as %+v, %v, want %+v", r.Kind, got, err, *r)
		}
	}
	if got, err := decodeEpoch(epoch.append(nil)); err != nil || *got != epoch {
		t.Errorf("epoch reads as %+v, %v", got, err)
	}
}

func TestRecordIsRefused(t *testing.T) {
	good := record(KindBatch, []byte{3}).Append(nil)
	flip := func(i int) []byte {
		b := bytes.Clone(good)
		b[i] ^= 1
		return b
	}
	early := record(KindPad, nil)
	early.Time = -1
	none := record(KindPad, nil)
	none.Epoch = 0
	last := record(KindPad, nil)
	last.Epoch = epochMax + 1
	for name, c := range map[string]struct {
		data []byte
		want error
	}{
		"nothing":             {nil, ErrMalformed},
		"cut short":           {good[:recordHeaderBytes], ErrMalformed},
		"a newer version":     {append([]byte{recordVersion + 1}, good[1:]...), ErrNewer},
		"a version before":    {append([]byte{0}, good[1:]...), ErrMalformed},
		"a flipped header":    {flip(3), ErrMalformed},
		"a flipped body":      {flip(recordHeaderBytes), ErrMalformed},
		"a flipped sum":       {flip(len(good) - 1), ErrMalformed},
		"an unknown kind":     {record(9, nil).Append(nil), ErrMalformed},
		"a pad with a body":   {record(KindPad, []byte{1}).Append(nil), ErrMalformed},
		"a time before 1970":  {early.Append(nil), ErrMalformed},
		"epoch 0":             {none.Append(nil), ErrMalformed},
		"an epoch of 25 bits": {last.Append(nil), ErrMalformed},
	} {
		if _, err := DecodeRecord(c.data); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if !errors.Is(ErrMalformed, core.ErrCorrupt) {
		t.Error("what is malformed is not corrupt")
	}
}

func TestBatchReadsAsWritten(t *testing.T) {
	var b []byte
	for i := range 3 {
		c := &core.Change{Time: int64(i), Edits: []core.Edit{{Kind: core.EditPutRecord, Key: []byte{'k', byte(i)}, Value: []byte("v")}}}
		var err error
		if b, err = appendBatch(b, c); err != nil {
			t.Fatal(err)
		}
	}
	got, err := decodeBatch(b)
	if err != nil || len(got) != 3 || got[2].Time != 2 || string(got[2].Edits[0].Key) != "k\x02" {
		t.Errorf("%d Changes, %v", len(got), err)
	}
	for cut := range len(b) {
		if got, err := decodeBatch(b[:cut]); err == nil && len(got) == 3 {
			t.Errorf("cut at %d: all the same", cut)
		}
	}
}

// chainWriter writes what a primary would, and judges it.
type chainWriter struct {
	t     *testing.T
	chain *Chain
	epoch uint32
	prev  Hash
}

func (w *chainWriter) record(kind Kind, body string) []byte {
	r := Record{Kind: kind, Epoch: w.epoch, Prev: w.prev, Body: []byte(body)}
	return r.Append(nil)
}

// add adds a record that goes on from the last valid one.
func (w *chainWriter) add(kind Kind, body string) Step {
	w.t.Helper()
	data := w.record(kind, body)
	s, err := w.chain.Step(w.chain.At().Seq+1, data)
	if err != nil || !s.Valid {
		w.t.Fatalf("%s at %d: valid %v, %v", kind, w.chain.At().Seq, s.Valid, err)
	}
	if kind == KindEpoch || kind == KindBatch {
		w.prev = HashOf(data)
	}
	if got := w.chain.At(); got.Hash != w.prev || got.Epoch != w.epoch {
		w.t.Fatalf("%s: chain at %+v, want hash %x in epoch %d", kind, got, w.prev, w.epoch)
	}
	return s
}

func (w *chainWriter) begin(epoch uint32) {
	w.t.Helper()
	w.epoch = epoch
	body := Epoch{Node: "n"}
	w.add(KindEpoch, string(body.append(nil)))
}

// skip has data skipped.
func (w *chainWriter) skip(data []byte) {
	w.t.Helper()
	before := w.chain.At()
	s, err := w.chain.Step(before.Seq+1, data)
	if before.Seq++; err != nil || s.Valid || s.Batch != nil || w.chain.At() != before {
		w.t.Fatalf("not skipped: %+v, %v, at %+v", s, err, w.chain.At())
	}
}

// diverge has data stop the node.
func (w *chainWriter) diverge(name string, data []byte) {
	w.t.Helper()
	copied := *w.chain
	if _, err := copied.Step(copied.at.Seq+1, data); !errors.Is(err, ErrDiverged) {
		w.t.Errorf("%s: %v, want %v", name, err, ErrDiverged)
	}
}

func newChainWriter(t *testing.T) *chainWriter {
	return &chainWriter{t: t, chain: NewChain(core.LogPosition{Generation: 1})}
}

const whole = "\x03"

func TestChainOfOnePrimary(t *testing.T) {
	w := newChainWriter(t)
	w.begin(1)
	w.add(KindPad, "")
	if s := w.add(KindBatch, whole+"x"); string(s.Batch) != "x" {
		t.Errorf("batch %q", s.Batch)
	}
	w.add(KindHeartbeat, "")
	w.add(KindBatch, whole+"y")
	if at := w.chain.At(); at.Seq != 5 || !w.chain.Whole() {
		t.Errorf("at %+v, whole %v", at, w.chain.Whole())
	}
}

func TestStaleRecordsAreSkipped(t *testing.T) {
	w := newChainWriter(t)
	w.begin(1)
	stale := w.record(KindBatch, whole+"stale")
	beat := w.record(KindHeartbeat, "")
	w.begin(3)
	w.skip(stale)
	w.skip(beat)
	if w.chain.Whole() {
		t.Error("a restart here would judge the next record otherwise")
	}
	// The primary sent two records; the log refused the first, whose place was taken.
	lost := w.record(KindBatch, whole+"lost")
	prev := w.prev
	w.prev = HashOf(lost)
	w.skip(w.record(KindBatch, whole+"behind it"))
	w.prev = prev
	w.begin(4)
	w.diverge("a gap where nothing was skipped", func() []byte {
		r := Record{Kind: KindBatch, Epoch: 4, Prev: Hash{1}, Body: []byte(whole)}
		return r.Append(nil)
	}())
}

func TestDivergenceStops(t *testing.T) {
	w := newChainWriter(t)
	w.begin(2)
	w.add(KindBatch, whole)
	body := Epoch{}
	for name, r := range map[string]Record{
		"another batch before":    {Kind: KindBatch, Epoch: 2, Prev: Hash{1}, Body: []byte(whole)},
		"another heartbeat":       {Kind: KindHeartbeat, Epoch: 2, Prev: Hash{1}},
		"an epoch on other state": {Kind: KindEpoch, Epoch: 3, Prev: Hash{1}, Body: body.append(nil)},
		"an epoch twice":          {Kind: KindEpoch, Epoch: 2, Prev: w.prev, Body: body.append(nil)},
		"an epoch not begun":      {Kind: KindBatch, Epoch: 3, Prev: w.prev, Body: []byte(whole)},
	} {
		w.diverge(name, r.Append(nil))
	}
	if _, err := w.chain.Step(w.chain.At().Seq+2, w.record(KindPad, "")); !errors.Is(err, ErrDiverged) {
		t.Errorf("a gap: %v", err)
	}
}

func TestPartsAreOneBatch(t *testing.T) {
	w := newChainWriter(t)
	w.begin(1)
	w.add(KindBatch, "\x01aa")
	w.add(KindHeartbeat, "")
	w.add(KindBatch, "\x00bb")
	if w.chain.Whole() {
		t.Error("the position may be stored between two parts")
	}
	if s := w.add(KindBatch, "\x02cc"); string(s.Batch) != "aabbcc" || !w.chain.Whole() {
		t.Errorf("batch %q", s.Batch)
	}
	// An epoch record cuts parts off.
	w.add(KindBatch, "\x01dd")
	w.begin(2)
	if s := w.add(KindBatch, "\x03ee"); string(s.Batch) != "ee" {
		t.Errorf("batch %q", s.Batch)
	}
	for name, body := range map[string]string{"a last part alone": "\x02", "no flags": "", "unknown flags": "\x07"} {
		copied := *w.chain
		if _, err := copied.Step(copied.at.Seq+1, w.record(KindBatch, body)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzRecord(f *testing.F) {
	body := Epoch{Node: "n", Vacant: true}
	for _, r := range []*Record{record(KindPad, nil), record(KindBatch, []byte{3, 2, 1, 0}), record(KindEpoch, body.append(nil))} {
		f.Add(r.Append(nil))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if end := len(data) - recordSumBytes; end > 0 && data[end]&1 == 0 {
			data = binary.BigEndian.AppendUint32(bytes.Clone(data[:end]), sum(data[:end]))
		}
		r, err := DecodeRecord(data)
		if err != nil {
			return
		}
		if again := r.Append(nil); !bytes.Equal(again, data) {
			t.Errorf("%x is written as %x", data, again)
		}
		switch r.Kind {
		case KindEpoch:
			if e, err := decodeEpoch(r.Body); err == nil && !bytes.Equal(e.append(nil), r.Body) {
				t.Errorf("epoch %x is written as %x", r.Body, e.append(nil))
			}
		case KindBatch:
			if len(r.Body) > 0 {
				_, _ = decodeBatch(r.Body[1:])
			}
		}
	})
}

// FuzzChain judges records that are valid one by one, in any order.
func FuzzChain(f *testing.F) {
	f.Add([]byte{0x10, 0x11, 0x13, 0x23, 0x30, 0x14})
	f.Fuzz(func(t *testing.T, script []byte) {
		c := NewChain(core.LogPosition{})
		body := Epoch{Node: "n"}
		for _, b := range script {
			r := Record{Kind: Kind(b&3) + 1, Epoch: uint32(b>>2&7) + 1, Prev: c.At().Hash}
			if b&1<<5 != 0 {
				r.Prev[0]++
			}
			switch r.Kind {
			case KindEpoch:
				r.Body = body.append(nil)
			case KindBatch:
				r.Body = []byte{b >> 6, b}
			}
			before := c.At()
			s, err := c.Step(before.Seq+1, r.Append(nil))
			if err != nil {
				return
			}
			at := c.At()
			if at.Seq != before.Seq+1 || at.Epoch < before.Epoch || !s.Valid && (at.Hash != before.Hash || s.Batch != nil) {
				t.Fatalf("%+v took %+v to %+v", s, before, at)
			}
		}
	})
}
