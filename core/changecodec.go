package core

import (
	"encoding/binary"
	"fmt"
)

// The binary form of a Change, which the replicated log carries:
//
//	version (1), time (varint), number of edits (uvarint), edits
//
// An edit is its kind and the fields that the kind uses, in the order of
// editFields. Incarnations and sequences are differences to those of the edit
// before, and times to that of the Change: all are small, since a Change
// collects what happened to few queues at nearly one time. Whoever adds a kind
// or a field raises the version; numbers are never given a new meaning. A Change
// has the lowest version that knows its kinds, so that older readers take it.
const (
	changeVersion       = 1
	changeVersionShared = 2 // with the kinds from EditPutBody on
)

// version returns the first version that knows k.
func (k EditKind) version() byte {
	if k >= EditPutBody {
		return changeVersionShared
	}
	return changeVersion
}

// editFields are the fields of an edit that its kind stores.
type editFields uint16

const (
	fieldQID    editFields = 1 << iota // varint, difference
	fieldPlace                         // kind, and unless it is PlaceTail the number: 8 bytes for groups, else uvarint
	fieldSeq                           // varint, difference
	fieldSingle                        // byte, 0 or 1
	fieldMinute                        // uvarint
	fieldHash                          // Key, 16 bytes
	fieldKey                           // Key, uvarint length
	fieldValue                         // Value, uvarint length
	fieldState                         // flags, times, receives, failures, nonce
)

// hashBytes is the length of an EditPutDedup's Key.
const hashBytes = 16

// minEditBytes is the least that an encoded edit can take.
const minEditBytes = 2

// fields returns what k stores, 0 for an unknown kind.
func (k EditKind) fields() editFields {
	const ref = fieldQID | fieldPlace | fieldSeq
	switch k {
	case EditPutMessage:
		return ref | fieldValue
	case EditDropMessage:
		return ref
	case EditPutState:
		return ref | fieldState
	case EditDropState:
		return ref | fieldSingle
	case EditPutQueue, EditPutQueueState:
		return fieldQID | fieldValue
	case EditDropQueue, EditPutReap, EditDropReap, EditReapQueue:
		return fieldQID
	case EditPutName:
		return fieldQID | fieldKey
	case EditDropName, EditDropRecord:
		return fieldKey
	case EditPutLane:
		return fieldQID | fieldPlace | fieldValue
	case EditDropLane:
		return fieldQID | fieldPlace
	case EditPutDedup:
		return fieldQID | fieldMinute | fieldHash | fieldValue
	case EditDropDedup:
		return fieldMinute
	case EditPutRecord:
		return fieldKey | fieldValue
	case EditPutBody:
		return fieldQID | fieldSeq | fieldValue
	case EditPutEpoch:
		return fieldQID | fieldValue
	case EditReapEpochs:
		return fieldQID | fieldSeq
	}
	return 0
}

// valid tells whether storage has a key for p.
func (p Place) valid() bool {
	switch p.Kind {
	case PlaceTail:
		return p.N == 0
	case PlacePriority:
		return p.N <= 1<<8-1
	case PlaceGroup:
		return true
	case PlaceDelayed:
		return p.N <= 1<<48-1
	}
	return false
}

// AppendBinary appends the versioned binary form of c. The error, after which
// the bytes are of no use, says that an edit breaks the contract of its kind.
func (c *Change) AppendBinary(b []byte) ([]byte, error) {
	at := len(b)
	b = append(b, changeVersion)
	b = binary.AppendVarint(b, c.Time)
	b = binary.AppendUvarint(b, uint64(len(c.Edits)))
	var last Ref
	for i := range c.Edits {
		var err error
		if b, err = c.Edits[i].appendBinary(b, &last, c.Time); err != nil {
			return nil, fmt.Errorf("edit %d of kind %d: %w", i, c.Edits[i].Kind, err)
		}
		b[at] = max(b[at], c.Edits[i].Kind.version())
	}
	return b, nil
}

func (e *Edit) appendBinary(b []byte, last *Ref, now int64) ([]byte, error) {
	f := e.Kind.fields()
	switch {
	case f == 0:
		return nil, fmt.Errorf("unknown kind: %w", ErrInvalidArgument)
	case f&fieldPlace != 0 && !e.Place.valid():
		return nil, fmt.Errorf("place %d.%x: %w", e.Place.Kind, e.Place.N, ErrInvalidArgument)
	case f&fieldHash != 0 && len(e.Key) != hashBytes:
		return nil, fmt.Errorf("hash of %d bytes: %w", len(e.Key), ErrInvalidArgument)
	}
	b = append(b, byte(e.Kind))
	if f&fieldQID != 0 {
		b = binary.AppendVarint(b, int64(e.QID-last.QID))
		last.QID = e.QID
	}
	if f&fieldPlace != 0 {
		b = e.Place.appendBinary(b)
	}
	if f&fieldSeq != 0 {
		b = binary.AppendVarint(b, int64(e.Seq-last.Seq))
		last.Seq = e.Seq
	}
	if f&fieldSingle != 0 {
		single := byte(0)
		if e.Single {
			single = 1
		}
		b = append(b, single)
	}
	if f&fieldMinute != 0 {
		b = binary.AppendUvarint(b, uint64(e.Minute))
	}
	if f&fieldHash != 0 {
		b = append(b, e.Key...)
	}
	if f&fieldKey != 0 {
		b = appendBytes(b, e.Key)
	}
	if f&fieldValue != 0 {
		b = appendBytes(b, e.Value)
	}
	if f&fieldState != 0 {
		b = e.State.appendBinary(b, now)
	}
	return b, nil
}

func (p Place) appendBinary(b []byte) []byte {
	b = append(b, byte(p.Kind))
	switch p.Kind {
	case PlaceTail:
		return b
	case PlaceGroup:
		return binary.BigEndian.AppendUint64(b, p.N)
	}
	return binary.AppendUvarint(b, p.N)
}

func (s *MessageState) appendBinary(b []byte, now int64) []byte {
	b = append(b, byte(s.Flags))
	b = binary.AppendVarint(b, s.VisibleAt-now)
	b = binary.AppendVarint(b, now-s.FirstReceived)
	b = binary.AppendUvarint(b, uint64(s.Receives))
	b = binary.AppendUvarint(b, uint64(s.Failures))
	return binary.BigEndian.AppendUint32(b, s.Nonce)
}

// DecodeChange reads what AppendBinary wrote. Key and Value of the edits are
// views into b, which must not change as long as the Change is in use. An
// unknown version or kind, a field out of bounds, and bytes that are cut short
// or go on behind the last edit, are answered with an error that wraps
// ErrCorrupt. What is allocated is bounded by the length of b.
func DecodeChange(b []byte) (*Change, error) {
	r := reader{b: b}
	version := r.byte()
	if version < changeVersion || version > changeVersionShared || r.bad {
		return nil, fmt.Errorf("change of version %d, this binary knows %d to %d: %w", version, changeVersion, changeVersionShared, ErrCorrupt)
	}
	c := &Change{Time: r.varint()}
	n := r.uvarint()
	if r.bad || n > uint64(len(r.b))/minEditBytes {
		return nil, fmt.Errorf("change of %d bytes with %d edits: %w", len(b), n, ErrCorrupt)
	}
	// An edit in memory is much larger than the least that it takes here: a
	// false count is not believed at once.
	const believed = 16
	c.Edits = make([]Edit, 0, min(n, uint64(len(r.b))/believed+1))
	var last Ref
	for i := range n {
		c.Edits = append(c.Edits, Edit{})
		e := &c.Edits[i]
		if e.decodeBinary(&r, &last, c.Time); r.bad || e.Kind.version() > version {
			return nil, fmt.Errorf("edit %d of kind %d: %w", i, e.Kind, ErrCorrupt)
		}
	}
	if len(r.b) != 0 {
		return nil, fmt.Errorf("change with %d bytes too many: %w", len(r.b), ErrCorrupt)
	}
	return c, nil
}

// decodeBinary sets r.bad on anything that appendBinary does not write.
func (e *Edit) decodeBinary(r *reader, last *Ref, now int64) {
	e.Kind = EditKind(r.byte())
	f := e.Kind.fields()
	if f == 0 {
		r.bad = true
	}
	if f&fieldQID != 0 {
		last.QID += QID(r.varint())
		e.QID = last.QID
	}
	if f&fieldPlace != 0 {
		e.Place.decodeBinary(r)
	}
	if f&fieldSeq != 0 {
		last.Seq += Seq(r.varint())
		e.Seq = last.Seq
	}
	if f&fieldSingle != 0 {
		single := r.byte()
		e.Single = single == 1
		r.bad = r.bad || single > 1
	}
	if f&fieldMinute != 0 {
		e.Minute = r.uvarint32()
	}
	if f&fieldHash != 0 {
		e.Key = r.take(hashBytes)
	}
	if f&fieldKey != 0 {
		e.Key = r.bytes()
	}
	if f&fieldValue != 0 {
		e.Value = r.bytes()
	}
	if f&fieldState != 0 {
		e.State.decodeBinary(r, now)
	}
}

func (p *Place) decodeBinary(r *reader) {
	p.Kind = PlaceKind(r.byte())
	switch p.Kind {
	case PlaceTail:
	case PlaceGroup:
		p.N = r.uint64()
	default:
		p.N = r.uvarint()
	}
	r.bad = r.bad || !p.valid()
}

func (s *MessageState) decodeBinary(r *reader, now int64) {
	s.Flags = StateFlags(r.byte())
	s.VisibleAt = now + r.varint()
	s.FirstReceived = now - r.varint()
	s.Receives, s.Failures = r.uvarint32(), r.uvarint32()
	if b := r.take(4); b != nil {
		s.Nonce = binary.BigEndian.Uint32(b)
	}
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.take(n)
	return v
}

func (r *reader) uvarint32() uint32 {
	v := r.uvarint()
	if v > 1<<32-1 {
		r.bad = true
		return 0
	}
	return uint32(v)
}
