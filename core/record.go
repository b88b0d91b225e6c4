package core

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
)

// A message record is what is stored for a message, and what a window holds:
//
//	0  version (1)
//	1  flags: recordDeadLetter
//	2  priority
//	3  origin
//	4  enqueue time, milliseconds, 8 bytes big endian
//	12 expiry, milliseconds, 8 bytes, 0: none
//	20 message id, 16 bytes
//	36 size, 4 bytes: what the message counts in the queue's bytes
//	40 length-prefixed (uvarint): group, dedup id, content type, traceparent
//	   if recordDeadLetter: reason (1), first time (8), prior receives (uvarint), source
//	   attribute count (uvarint); each: kind (1), name, type, value
//	   body: the rest
const (
	recordVersion     = 1
	recordDeadLetter  = 1 << 0
	recordHeaderBytes = 40
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

// recordBytes is at least the length of m's record.
func (m *Message) recordBytes(counted int) int {
	return recordHeaderBytes + counted + len(m.Group) + len(m.DedupID) + len(m.ContentType) +
		len(m.TraceParent) + 5*4 + 5 + 16*len(m.Attributes)
}

// appendRecord appends the record of m.
func appendRecord(b []byte, m *Message, id MessageID, counted int, enqueuedAt, expiresAt int64) []byte {
	b = appendRecordHeader(b, 0, m.Priority, m.Origin, enqueuedAt, expiresAt, id, counted)
	b = appendString(b, m.Group)
	b = appendString(b, m.DedupID)
	b = appendString(b, m.ContentType)
	b = appendString(b, m.TraceParent)
	b = binary.AppendUvarint(b, uint64(len(m.Attributes)))
	for i := range m.Attributes {
		a := &m.Attributes[i]
		b = append(b, byte(a.Kind))
		b = appendString(b, a.Name)
		b = appendString(b, a.Type)
		b = appendBytes(b, a.Value)
	}
	return append(b, m.Body...)
}

func appendRecordHeader(b []byte, flags, priority byte, origin Origin, enqueuedAt, expiresAt int64, id MessageID, counted int) []byte {
	b = append(b, recordVersion, flags, priority, byte(origin))
	b = binary.BigEndian.AppendUint64(b, uint64(enqueuedAt))
	b = binary.BigEndian.AppendUint64(b, uint64(expiresAt))
	b = append(b, id[:]...)
	return binary.BigEndian.AppendUint32(b, uint32(counted))
}

// rerecord is the record of s in another queue: what changes are the enqueue
// time, the expiry, the dedup id and the dead-letter fields.
func rerecord(s *Stored, counted int) []byte {
	flags := byte(0)
	if s.DeadLetter.Reason != DeadLetterNone {
		flags = recordDeadLetter
	}
	// counted is not asked: it is what a record says of itself.
	b := make([]byte, 0, recordHeaderBytes+len(s.Body)+len(s.Group)+len(s.DedupID)+len(s.ContentType)+
		len(s.TraceParent)+len(s.DeadLetter.Source)+len(s.attributes)+40)
	b = appendRecordHeader(b, flags, s.Priority, s.Origin, s.EnqueuedAt, s.ExpiresAt, s.ID, counted)
	b = appendBytes(b, s.Group)
	b = appendBytes(b, s.DedupID)
	b = appendBytes(b, s.ContentType)
	b = appendBytes(b, s.TraceParent)
	if flags&recordDeadLetter != 0 {
		b = append(b, byte(s.DeadLetter.Reason))
		b = binary.BigEndian.AppendUint64(b, uint64(s.DeadLetter.FirstAt))
		b = binary.AppendUvarint(b, uint64(s.PriorReceives))
		b = appendString(b, s.DeadLetter.Source)
	}
	b = binary.AppendUvarint(b, uint64(s.attributeCount))
	b = append(b, s.attributes...)
	return append(b, s.Body...)
}

// recordEnqueuedAt, recordExpiresAt and recordCounted read fixed fields of a
// record that decodeRecord accepted or this process made.
func recordEnqueuedAt(rec []byte) int64 { return int64(binary.BigEndian.Uint64(rec[4:])) }
func recordExpiresAt(rec []byte) int64  { return int64(binary.BigEndian.Uint64(rec[12:])) }
func recordCounted(rec []byte) int64    { return int64(binary.BigEndian.Uint32(rec[36:])) }

// checkRecord tells whether the fixed part of a stored record can be read.
func checkRecord(rec []byte) error {
	if len(rec) < recordHeaderBytes {
		return fmt.Errorf("message record of %d bytes: %w", len(rec), ErrCorrupt)
	}
	if rec[0] != recordVersion {
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
		EnqueuedAt: recordEnqueuedAt(rec), ExpiresAt: recordExpiresAt(rec), ID: MessageID(rec[20:36]),
	}
	r := reader{b: rec[recordHeaderBytes:]}
	s.Group, s.DedupID, s.ContentType, s.TraceParent = r.bytes(), r.bytes(), r.bytes(), r.bytes()
	if rec[1]&recordDeadLetter != 0 {
		s.DeadLetter.Reason = DeadLetterReason(r.byte())
		s.DeadLetter.FirstAt = int64(r.uint64())
		s.PriorReceives = r.uvarint32()
		s.DeadLetter.Source = string(r.bytes())
	}
	count := r.uvarint()
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
	s.Body = r.b
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
