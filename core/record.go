package core

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
)

// A message record is what is stored for a message, and what a window holds:
//
//	0  version: the lowest that knows its fields, from 2 on
//	1  flags: which of the optional fields are there
//	2  priority
//	3  origin
//	4  enqueue time, milliseconds, 6 bytes big endian
//	10 message id, 16 bytes
//	26 size, 4 bytes: what the message counts in the queue's bytes
//	30 recordExpires: expiry, milliseconds, 6 bytes
//	   recordShared: reference to a shared body, see bodyRef; version 4
//	   recordNames: group, dedup id, content type, traceparent, each with its length (uvarint)
//	   recordTopic: topic, with its length (uvarint); version 3
//	   recordDeadLetter: reason (1), first time (8), prior receives (uvarint), source
//	   recordAttributes: their count (uvarint); each: kind (1), name, type, value
//	   body: the rest; with recordShared, in memory, the stored form of the shared
//	   body, or nothing
const (
	recordVersion       = 2
	recordVersionNew    = 3 // with fields of recordNew
	recordVersionShared = 4 // with recordShared
	recordHeaderBytes   = 30
	recordTimeBytes     = 6
)

// Flags of a record.
const (
	recordDeadLetter = 1 << iota
	recordExpires
	recordNames
	recordAttributes
	recordTopic
	recordShared

	recordNew = recordTopic // flags that version 2 does not know
)

// NewMessageID returns a random (version 4) id.
func NewMessageID() MessageID {
	var id MessageID
	binary.BigEndian.PutUint64(id[:8], rand.Uint64())
	binary.BigEndian.PutUint64(id[8:], rand.Uint64())
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return id
}

// AppendText appends the UUID form, 36 characters. The error is always nil.
func (id MessageID) AppendText(b []byte) ([]byte, error) {
	b = hex.AppendEncode(b, id[0:4])
	b = hex.AppendEncode(append(b, '-'), id[4:6])
	b = hex.AppendEncode(append(b, '-'), id[6:8])
	b = hex.AppendEncode(append(b, '-'), id[8:10])
	return hex.AppendEncode(append(b, '-'), id[10:16]), nil
}

// String returns the UUID form.
func (id MessageID) String() string {
	b, _ := id.AppendText(make([]byte, 0, 36))
	return string(b)
}

// countedBytes is what m counts in its queue's bytes: body, attribute names,
// types and values.
func (m *Message) countedBytes() int {
	n := len(m.Body)
	for i := range m.Attributes {
		a := &m.Attributes[i]
		n += len(a.Name) + len(a.Type) + len(a.Value)
	}
	return n
}

// sizeBytes is what QueueConfig.MaxMessageBytes bounds: countedBytes without system
// attributes.
func (m *Message) sizeBytes() int {
	n := m.countedBytes()
	for i := range m.Attributes {
		if a := &m.Attributes[i]; a.Kind == AttributeSystem {
			n -= len(a.Name) + len(a.Type) + len(a.Value)
		}
	}
	return n
}

// recordBytes is at least the length of m's record.
func (m *Message) recordBytes(counted int) int {
	return recordHeaderBytes + recordTimeBytes + counted + len(m.Group) + len(m.DedupID) + len(m.ContentType) +
		len(m.TraceParent) + 5*4 + 5 + 16*len(m.Attributes) + len(m.Topic) + 3
}

// recordHead is what a record begins with.
type recordHead struct {
	flags, priority       byte
	origin                Origin
	enqueuedAt, expiresAt int64
	id                    MessageID
	counted               int
}

// flagIf is flag if there is something to keep.
func flagIf(there bool, flag byte) byte {
	if there {
		return flag
	}
	return 0
}

// append appends the head, whose flags say what follows it.
func (h *recordHead) append(b []byte) []byte {
	version := byte(recordVersion)
	switch {
	case h.flags&recordShared != 0:
		version = recordVersionShared
	case h.flags&recordNew != 0:
		version = recordVersionNew
	}
	b = append(b, version, h.flags|flagIf(h.expiresAt != 0, recordExpires), h.priority, byte(h.origin))
	b = appendTime(b, h.enqueuedAt)
	b = append(b, h.id[:]...)
	b = binary.BigEndian.AppendUint32(b, uint32(h.counted))
	if h.expiresAt != 0 {
		b = appendTime(b, h.expiresAt)
	}
	return b
}

// appendRecord appends the record of m.
func appendRecord(b []byte, m *Message, id MessageID, counted int, enqueuedAt, expiresAt int64) []byte {
	h := recordHead{
		priority: m.Priority, origin: m.Origin, enqueuedAt: enqueuedAt, expiresAt: expiresAt, id: id, counted: counted,
		flags: flagIf(len(m.Group)+len(m.DedupID)+len(m.ContentType)+len(m.TraceParent) > 0, recordNames) |
			flagIf(len(m.Attributes) > 0, recordAttributes) | flagIf(m.Topic != "", recordTopic),
	}
	b = h.append(b)
	if h.flags&recordNames != 0 {
		b = appendString(b, m.Group)
		b = appendString(b, m.DedupID)
		b = appendString(b, m.ContentType)
		b = appendString(b, m.TraceParent)
	}
	if m.Topic != "" {
		b = appendString(b, m.Topic)
	}
	if h.flags&recordAttributes != 0 {
		b = binary.AppendUvarint(b, uint64(len(m.Attributes)))
	}
	for i := range m.Attributes {
		a := &m.Attributes[i]
		b = append(b, byte(a.Kind))
		b = appendString(b, a.Name)
		b = appendString(b, a.Type)
		b = appendBytes(b, a.Value)
	}
	return append(b, m.Body...)
}

// sharedRecord is a record with room for a reference to its body, of that length.
// The stored form of the body follows.
func sharedRecord(rec []byte, length int) []byte {
	at, head := recordHeaderBytes, len(rec)-length
	if rec[1]&recordExpires != 0 {
		at += recordTimeBytes
	}
	b := make([]byte, 0, len(rec)+bodyRefBytes+1)
	b = append(b, rec[:at]...)
	b[0], b[1] = recordVersionShared, b[1]|recordShared
	b = append(b, make([]byte, bodyRefBytes-4)...)
	b = binary.BigEndian.AppendUint32(b, uint32(length))
	b = append(b, rec[at:head]...)
	return append(append(b, bodyVersion), rec[head:]...)
}

// recordRef returns the reference of a record to a shared body, a view, or nil if
// the record has the body itself.
func recordRef(rec []byte) *bodyRef {
	if rec[1]&recordShared == 0 {
		return nil
	}
	at := recordHeaderBytes
	if rec[1]&recordExpires != 0 {
		at += recordTimeBytes
	}
	return (*bodyRef)(rec[at:])
}

// rerecord is the record of s in another queue: what changes are the enqueue
// time, the expiry, the dedup id and the dead-letter fields. A reference to a shared
// body goes over.
func rerecord(s *Stored, counted int) []byte {
	names := len(s.Group) + len(s.DedupID) + len(s.ContentType) + len(s.TraceParent)
	h := recordHead{
		priority: s.Priority, origin: s.Origin, enqueuedAt: s.EnqueuedAt, expiresAt: s.ExpiresAt, id: s.ID,
		counted: counted, // not asked: it is what a record says of itself
		flags: flagIf(names > 0, recordNames) | flagIf(s.attributeCount > 0, recordAttributes) |
			flagIf(s.DeadLetter.Reason != DeadLetterNone, recordDeadLetter) | flagIf(len(s.Topic) > 0, recordTopic) |
			flagIf(s.ref != nil, recordShared),
	}
	body := s.Body
	if s.ref != nil {
		body = s.ref[:]
	}
	b := h.append(make([]byte, 0, recordHeaderBytes+len(body)+names+len(s.Topic)+len(s.DeadLetter.Source)+len(s.attributes)+50))
	if s.ref != nil {
		b = append(b, body...)
	}
	if h.flags&recordNames != 0 {
		b = appendBytes(b, s.Group)
		b = appendBytes(b, s.DedupID)
		b = appendBytes(b, s.ContentType)
		b = appendBytes(b, s.TraceParent)
	}
	if len(s.Topic) > 0 {
		b = appendBytes(b, s.Topic)
	}
	if h.flags&recordDeadLetter != 0 {
		b = append(b, byte(s.DeadLetter.Reason))
		b = binary.BigEndian.AppendUint64(b, uint64(s.DeadLetter.FirstAt))
		b = binary.AppendUvarint(b, uint64(s.PriorReceives))
		b = appendString(b, s.DeadLetter.Source)
	}
	if h.flags&recordAttributes != 0 {
		b = binary.AppendUvarint(b, uint64(s.attributeCount))
	}
	b = append(b, s.attributes...)
	if s.ref != nil {
		return b
	}
	return append(b, body...)
}

// recordTimeMax is in the year 10889. What is later is never.
const recordTimeMax = 1<<(8*recordTimeBytes) - 1

func appendTime(b []byte, ms int64) []byte {
	ms = min(max(ms, 0), recordTimeMax)
	return append(b, byte(ms>>40), byte(ms>>32), byte(ms>>24), byte(ms>>16), byte(ms>>8), byte(ms))
}

func recordTime(b []byte) int64 {
	return int64(binary.BigEndian.Uint16(b))<<32 | int64(binary.BigEndian.Uint32(b[2:]))
}

// recordEnqueuedAt, recordExpiresAt and recordCounted read fixed fields of a
// record that decodeRecord accepted or this process made.
func recordEnqueuedAt(rec []byte) int64 { return recordTime(rec[4:]) }
func recordCounted(rec []byte) int64    { return int64(binary.BigEndian.Uint32(rec[26:])) }

// recordExpiresAt is 0 for a message that does not expire by itself.
func recordExpiresAt(rec []byte) int64 {
	if rec[1]&recordExpires == 0 {
		return 0
	}
	return recordTime(rec[recordHeaderBytes:])
}

// checkRecord tells whether the fixed part of a stored record can be read.
func checkRecord(rec []byte) error {
	least := recordHeaderBytes
	if len(rec) >= least && rec[1]&recordExpires != 0 {
		least += recordTimeBytes
	}
	if len(rec) >= least && rec[1]&recordShared != 0 {
		least += bodyRefBytes
	}
	if len(rec) < least {
		return fmt.Errorf("message record of %d bytes: %w", len(rec), ErrCorrupt)
	}
	if rec[0] < recordVersion || rec[0] > recordVersionShared {
		return fmt.Errorf("message record version %d: %w", rec[0], ErrCorrupt)
	}
	return nil
}

// decodeRecord fills s with views into rec.
func decodeRecord(rec []byte, s *Stored) error {
	if err := checkRecord(rec); err != nil {
		return err
	}
	*s = Stored{
		Seq: s.Seq, Priority: rec[2], Origin: Origin(rec[3]),
		EnqueuedAt: recordEnqueuedAt(rec), ExpiresAt: recordExpiresAt(rec), ID: MessageID(rec[10:26]),
	}
	r := reader{b: rec[recordHeaderBytes:]}
	if rec[1]&recordExpires != 0 {
		r.take(recordTimeBytes)
	}
	if rec[1]&recordShared != 0 {
		s.ref = (*bodyRef)(r.take(bodyRefBytes))
	}
	if rec[1]&recordNames != 0 {
		s.Group, s.DedupID, s.ContentType, s.TraceParent = r.bytes(), r.bytes(), r.bytes(), r.bytes()
	}
	if rec[1]&recordTopic != 0 {
		s.Topic = r.bytes()
	}
	if rec[1]&recordDeadLetter != 0 {
		s.DeadLetter.Reason = DeadLetterReason(r.byte())
		s.DeadLetter.FirstAt = int64(r.uint64())
		s.PriorReceives = r.uvarint32()
		s.DeadLetter.Source = string(r.bytes())
	}
	count := uint64(0)
	if rec[1]&recordAttributes != 0 {
		count = r.uvarint()
	}
	if count > AttributesMax {
		return fmt.Errorf("message record with %d attributes: %w", count, ErrCorrupt)
	}
	s.attributeCount = int(count)
	start := r.b
	for range s.attributeCount {
		r.byte()
		r.bytes()
		r.bytes()
		r.bytes()
	}
	if r.bad {
		return fmt.Errorf("message record: %w", ErrCorrupt)
	}
	s.attributes = start[:len(start)-len(r.b)]
	if s.ref != nil && len(r.b) > 0 {
		var err error
		s.Body, err = s.ref.body(r.b)
		return err
	}
	if s.ref == nil {
		s.Body = r.b
	}
	return nil
}

// Attributes calls visit with each attribute in order until it returns false.
// Attribute.Value is a view that must not be written to.
func (s *Stored) Attributes(visit func(a Attribute) bool) {
	r := reader{b: s.attributes}
	for range s.attributeCount {
		a := Attribute{Kind: AttributeKind(r.byte()), Name: string(r.bytes()), Type: string(r.bytes()), Value: r.bytes()}
		if r.bad || !visit(a) {
			return
		}
	}
}

// AttributeCount returns how many attributes there are.
func (s *Stored) AttributeCount() int { return s.attributeCount }

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendBytes(b, s []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// reader takes fields off the front of b. After a field that is not there it
// answers zeroes, and bad is set.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if r.bad || n < 0 || n > len(r.b) {
		r.bad = true
		return nil
	}
	out := r.b[:n:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) uint64() uint64 {
	if b := r.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.take(n)
	return v
}

func (r *reader) bytes() []byte {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.bad = true
		return nil
	}
	return r.take(int(n))
}
