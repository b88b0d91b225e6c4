package core

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"testing"
)

// sampleRecords are records of messages with everything and with nothing.
func sampleRecords() [][]byte {
	full := Message{
		Body: []byte("body"), Group: "g", DedupID: "d", ContentType: "text/plain", TraceParent: "00-0af7-b7ad-01", Priority: 9, Origin: OriginMQTT,
		Attributes: []Attribute{
			{Kind: AttributeUser, Name: "price", Type: "Number.int", Value: []byte("12")},
			{Kind: AttributeSystem, Name: "AWSTraceHeader", Type: "String", Value: []byte("Root=1")},
			{Kind: AttributeProperty, Name: "", Value: nil},
		},
	}
	id := MessageID{1, 2, 3, 4, 5, 6, 0x47, 8, 0x89}
	records := [][]byte{
		appendRecord(nil, &full, id, full.countedBytes(), 1_700_000_000_000, 1_700_000_060_000),
		appendRecord(nil, &Message{}, MessageID{}, 0, 0, 0),
	}
	var s Stored
	if err := decodeRecord(records[0], &s); err != nil {
		panic(err)
	}
	s.DeadLetter, s.PriorReceives = DeadLetter{Source: "orders", Reason: DeadLetterMaxReceives, FirstAt: 1_700_000_030_000}, 4
	records = append(records, rerecord(&s, full.countedBytes()))
	shared := sharedRecord(records[0], len(full.Body))
	recordRef(shared).set(7, 9)
	return append(records, shared, shared[:len(shared)-len(full.Body)-1])
}

func attributesOf(s *Stored) []Attribute {
	var out []Attribute
	s.Attributes(func(a Attribute) bool {
		out = append(out, a)
		return true
	})
	return out
}

// FuzzDecodeRecord: what decodes is the same when it is written and read again;
// nothing panics; the views lie within the record.
func FuzzDecodeRecord(f *testing.F) {
	for _, rec := range sampleRecords() {
		f.Add(rec)
		f.Add(rec[:len(rec)-5])
		liar := bytes.Clone(rec)
		copy(liar[26:], "\xff\xff\xff\xff") // what it counts in bytes
		f.Add(liar)
	}
	f.Fuzz(func(t *testing.T, rec []byte) {
		kept := bytes.Clone(rec)
		var s Stored
		if err := decodeRecord(rec, &s); err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatalf("error does not wrap ErrCorrupt: %v", err)
			}
			return
		}
		attributes := attributesOf(&s)
		if len(attributes) != s.AttributeCount() || len(attributes) > AttributesMax {
			t.Fatalf("%d attributes, count %d", len(attributes), s.AttributeCount())
		}
		if n := len(s.Group) + len(s.DedupID) + len(s.ContentType) + len(s.TraceParent) + len(s.Body); n > len(rec) {
			t.Fatalf("fields of %d bytes out of a record of %d", n, len(rec))
		}
		if s.DeadLetter.Reason == DeadLetterNone {
			s.DeadLetter, s.PriorReceives = DeadLetter{}, 0 // a flag without a reason is not written again
		}
		if s.ref != nil {
			s.Body = nil // a shared body stays where it is
		}
		var again Stored
		if err := decodeRecord(rerecord(&s, int(recordCounted(rec))), &again); err != nil {
			t.Fatalf("written again it does not decode: %v", err)
		}
		if got := attributesOf(&again); !reflect.DeepEqual(got, attributes) {
			t.Fatalf("attributes %v, were %v", got, attributes)
		}
		// The encoding of a length may be longer than needed, and a name may be empty
		// instead of not there.
		s.attributes, again.attributes = nil, nil
		for _, name := range []*[]byte{&s.Group, &s.DedupID, &s.ContentType, &s.TraceParent, &s.Topic, &again.Group, &again.DedupID, &again.ContentType, &again.TraceParent, &again.Topic} {
			if len(*name) == 0 {
				*name = nil
			}
		}
		if !reflect.DeepEqual(again, s) {
			t.Fatalf("written again it is\n%+v\nand was\n%+v", again, s)
		}
		if !bytes.Equal(rec, kept) {
			t.Fatal("the record was written to")
		}
	})
}

// FuzzMessageRecord: a message reads as it was sent.
func FuzzMessageRecord(f *testing.F) {
	f.Add([]byte("body"), "group", "dedup", "text/plain", "name", "String", []byte("value"), byte(4), int64(1), int64(2))
	f.Add([]byte{}, "", "", "", "", "", []byte{}, byte(0), int64(0), int64(recordTimeMax))
	f.Fuzz(func(t *testing.T, body []byte, group, dedup, contentType, name, kind string, value []byte, priority byte, at, expires int64) {
		m := Message{
			Body: body, Group: group, DedupID: dedup, ContentType: contentType, Priority: priority, TraceParent: name,
			Attributes: []Attribute{{Name: name, Type: kind, Value: value}, {Kind: AttributeSystem, Name: kind}},
		}
		id := NewMessageID()
		at, expires = min(max(at, 0), recordTimeMax), min(max(expires, 0), recordTimeMax)
		rec := appendRecord(nil, &m, id, m.countedBytes(), at, expires)
		if len(rec) > m.recordBytes(m.countedBytes()) {
			t.Errorf("record of %d bytes, room was made for %d", len(rec), m.recordBytes(m.countedBytes()))
		}
		var s Stored
		if err := decodeRecord(rec, &s); err != nil {
			t.Fatal(err)
		}
		switch {
		case s.ID != id, s.EnqueuedAt != at, s.ExpiresAt != expires, s.Priority != priority,
			string(s.Group) != group, string(s.DedupID) != dedup, string(s.ContentType) != contentType,
			string(s.TraceParent) != name, !bytes.Equal(s.Body, body):
			t.Errorf("read as %+v", s)
		}
		same := func(a, b Attribute) bool {
			return a.Kind == b.Kind && a.Name == b.Name && a.Type == b.Type && bytes.Equal(a.Value, b.Value)
		}
		if got := attributesOf(&s); !slices.EqualFunc(got, m.Attributes, same) {
			t.Errorf("attributes read as %+v", got)
		}
		if recordCounted(rec) != int64(m.countedBytes()) {
			t.Errorf("counts %d bytes, want %d", recordCounted(rec), m.countedBytes())
		}
	})
}

func TestRecordWithTooManyAttributesIsRefused(t *testing.T) {
	m := Message{Attributes: make([]Attribute, AttributesMax+1), Body: []byte("body")}
	var s Stored
	err := decodeRecord(appendRecord(nil, &m, MessageID{1}, 0, 0, 0), &s)
	if !errors.Is(err, ErrCorrupt) {
		t.Errorf("got %v and body %q, want ErrCorrupt: what follows would be taken for the body", err, s.Body)
	}
}

func sampleReceipt() Receipt {
	return Receipt{
		Queue: 1<<40 + 1, Receives: 3, Nonce: 0xdeadbeef,
		Ref: Ref{QID: 1<<40 + 2, Place: Place{Kind: PlaceGroup, N: 1 << 63}, Seq: 1<<40 + 9},
	}
}

// FuzzParseHandle: a handle that is accepted is one that this key makes, to the
// last sign. The fuzzer does not know the key: it must find none but those that
// it was given.
func FuzzParseHandle(f *testing.F) {
	key := receiptKey{k0: 0x0123456789abcdef, k1: 0xfedcba9876543210}
	other := receiptKey{k0: 0x0123456789abcdef, k1: 0xfedcba9876543211}
	genuine := map[string]Receipt{}
	for _, r := range []Receipt{sampleReceipt(), {}, {Ref: Ref{Place: Place{Kind: 255}}}} {
		h := string(key.appendHandle(nil, r))
		genuine[h] = r
		f.Add(h)
		f.Add(string(other.appendHandle(nil, r)))
		f.Add(h[1:] + "A")
	}
	f.Fuzz(func(t *testing.T, h string) {
		r, err := key.parseHandle(h)
		if err != nil {
			if err != ErrBadReceipt {
				t.Fatalf("got %v, want ErrBadReceipt", err)
			}
			if _, ok := genuine[h]; ok {
				t.Fatalf("genuine handle %s is refused", h)
			}
			return
		}
		if want, ok := genuine[h]; !ok || r != want {
			t.Fatalf("forged handle %s is accepted as %+v", h, r)
		}
	})
}

// FuzzReceipt: each receipt survives its text form, and no other handle of the
// same length that is near to it is accepted.
func FuzzReceipt(f *testing.F) {
	r := sampleReceipt()
	f.Add(uint64(r.Queue), uint64(r.Ref.QID), byte(r.Ref.Place.Kind), r.Ref.Place.N, uint64(r.Ref.Seq), r.Receives, r.Nonce, uint64(5), uint64(6), uint16(7))
	f.Fuzz(func(t *testing.T, queue, qid uint64, kind byte, n, seq uint64, receives, nonce uint32, k0, k1 uint64, flip uint16) {
		key := receiptKey{k0: k0, k1: k1}
		r := Receipt{
			Queue: QID(queue), Ref: Ref{QID: QID(qid), Place: Place{Kind: PlaceKind(kind), N: n}, Seq: Seq(seq)},
			Receives: receives, Nonce: nonce,
		}
		h := key.appendHandle([]byte("x"), r)[1:]
		if len(h) != ReceiptHandleBytes {
			t.Fatalf("handle of %d bytes, want %d", len(h), ReceiptHandleBytes)
		}
		got, err := key.parseHandle(string(h))
		if err != nil || got != r {
			t.Fatalf("read as %+v, %v, want %+v", got, err, r)
		}
		i := int(flip) % (8 * len(h))
		h[i/8] ^= 1 << (i % 8)
		if got, err := key.parseHandle(string(h)); err == nil {
			t.Fatalf("with bit %d changed it is accepted as %+v", i, got)
		}
	})
}

// FuzzStoredValues: queue state, lane state, deduplication entry, queue record and
// move task.
func FuzzStoredValues(f *testing.F) {
	full := QueueState{
		Messages: 1, Bytes: 2, Received: 3, Delayed: 4, Cursor: 5 << 40, DueCursor: 1 << 47, DueSeq: 7,
		OldState: 8, Ordinal: 1<<64 - 1, Watermark: SeqMax, OldestAt: 1_700_000_000_000,
	}
	for _, b := range [][]byte{
		{},
		{1},
		[]byte("\x01{\"name\":\"a\",\"config\":{\"tags\":{\"a\":\"b\"}}}"), full.append(nil), (&QueueState{}).append(nil), laneState{Cursor: 1 << 40, Count: 1 << 62}.append(nil),
		dedupEntry{seq: 9, id: MessageID{1}, sentAt: 1_700_000_000_000}.append(nil),
		sampleMoveTask().append(nil), (&moveTask{}).append(nil),
	} {
		f.Add(b)
		f.Add(append(b, 0))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := decodeMoveTask(b); err == nil {
			again, err := decodeMoveTask(m.append(nil))
			if err != nil || again.MoveTask != m.MoveTask || again.source != m.source || again.incarnation != m.incarnation {
				t.Errorf("move task %+v reads as %+v, %v", m, again, err)
			}
		} else if !errors.Is(err, ErrCorrupt) {
			t.Errorf("move task: %v", err)
		}
		if s, err := decodeQueueState(b); err == nil {
			if again, err := decodeQueueState(s.append(nil)); err != nil || again != s {
				t.Errorf("queue state %+v reads as %+v, %v", s, again, err)
			}
		} else if !errors.Is(err, ErrCorrupt) {
			t.Errorf("queue state: %v", err)
		}
		if s, err := decodeLaneState(b); err == nil {
			if again, err := decodeLaneState(s.append(nil)); err != nil || again != s {
				t.Errorf("lane state %+v reads as %+v, %v", s, again, err)
			}
		} else if !errors.Is(err, ErrCorrupt) {
			t.Errorf("lane state: %v", err)
		}
		if d, err := decodeDedup(b); err == nil {
			if again, err := decodeDedup(d.append(nil)); err != nil || again != d {
				t.Errorf("dedup entry %+v reads as %+v, %v", d, again, err)
			}
		} else if !errors.Is(err, ErrCorrupt) {
			t.Errorf("dedup entry: %v", err)
		}
		if r, err := decodeQueueRecord(b); err == nil {
			if again, err := decodeQueueRecord(encodeQueueRecord(r)); err != nil || !reflect.DeepEqual(again, r) {
				t.Errorf("queue record %+v reads as %+v, %v", r, again, err)
			}
		} else if !errors.Is(err, ErrCorrupt) {
			t.Errorf("queue record: %v", err)
		}
	})
}

// FuzzQueueState: the state of a queue reads as it was written, and what does not
// decode says that it is corrupt.
func FuzzQueueState(f *testing.F) {
	const term = 7 << 40
	f.Add([]byte{}, int64(0), int64(0), int64(0), int64(0), uint64(0), uint64(0), uint64(0), uint64(0), uint64(0), uint64(0), int64(0))
	f.Add([]byte{queueStateVersion, 16, 1}, int64(12), int64(2400), int64(3), int64(1), uint64(term+9), uint64(1_700_000_000_000), uint64(term+12),
		uint64(term+2), uint64(44), uint64(term+4096), int64(1_700_000_000_000))
	f.Add([]byte{queueStateVersion, 0xff, 0xff, 3}, int64(1), int64(1), int64(1), int64(1), uint64(term), uint64(1), uint64(term), uint64(term),
		uint64(1), uint64(6<<40), int64(1))
	f.Fuzz(func(t *testing.T, stored []byte, messages, size, received, delayed int64, cursor, dueCursor, dueSeq, oldState, ordinal, watermark uint64, oldest int64) {
		const seqMax = 1<<63 - 1
		s := QueueState{
			Messages: messages, Bytes: size, Received: received, Delayed: delayed, Cursor: Seq(cursor & seqMax), DueCursor: dueCursor,
			DueSeq: Seq(dueSeq & seqMax), OldState: Seq(oldState & seqMax), Ordinal: ordinal, Watermark: Seq(watermark & seqMax), OldestAt: oldest,
		}
		if got, err := decodeQueueState(s.append(nil)); got != s || err != nil {
			t.Fatalf("written and read\n%+v, %v\nand was\n%+v", got, err, s)
		}
		if _, err := decodeQueueState(stored); err != nil && !errors.Is(err, ErrCorrupt) {
			t.Fatalf("error does not wrap ErrCorrupt: %v", err)
		}
	})
}
