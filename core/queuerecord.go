package core

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
)

// Every stored value opens with a version byte.
const (
	queueRecordVersion = 1
	queueStateVersion  = 2
	laneStateVersion   = 1
	dedupVersion       = 1
)

// queueRecord is what is stored of a queue's configuration: the version byte
// and JSON, since it is written rarely and grows often.
type queueRecord struct {
	Name       string      `json:"name"`
	ID         QID         `json:"id"`
	CreatedAt  int64       `json:"created_at"`
	ModifiedAt int64       `json:"modified_at"`
	Config     QueueConfig `json:"config"`
}

func encodeQueueRecord(r *queueRecord) []byte {
	b, err := json.Marshal(r)
	if err != nil {
		panic(fmt.Sprintf("queue record %+v: %v", r, err)) // plain data: a NaN is all that could fail, and check refuses it
	}
	return append([]byte{queueRecordVersion}, b...)
}

func decodeQueueRecord(b []byte) (*queueRecord, error) {
	if len(b) == 0 || b[0] != queueRecordVersion {
		return nil, fmt.Errorf("queue record: %w", ErrCorrupt)
	}
	r := new(queueRecord)
	if err := json.Unmarshal(b[1:], r); err != nil {
		return nil, fmt.Errorf("queue record: %w: %w", ErrCorrupt, err)
	}
	return r, nil
}

// QueueState is stored once per Change and touched queue. Messages, Bytes and
// Received are exact in each Change; what is ready and in flight is derived.
type QueueState struct {
	Messages  int64 // live, of whatever state
	Bytes     int64
	Received  int64  // live and with a state record
	Delayed   int64  // live, in the delayed space, without a state record
	Cursor    Seq    // tail lane: all below it have a state record or are gone
	DueCursor uint64 // delayed space, with DueSeq: the same
	DueSeq    Seq
	OldState  Seq    // tail lane: no state record lies below it
	Ordinal   uint64 // of the newest message; dense; for session queues
	Watermark Seq    // session leases: nothing at or above it has been delivered unmarked
	OldestAt  int64  // no live message was enqueued before it, milliseconds; 0: empty
	Shared    int64  // live, with bodies that are shared
}

// fields are what is stored, most of them as they are. A sequence is stored as
// its distance from the cursor, which is small.
func (s *QueueState) fields() [queueStateFields]uint64 {
	return [...]uint64{
		uint64(s.Messages), uint64(s.Bytes), uint64(s.Received), uint64(s.Delayed), uint64(s.Cursor), s.DueCursor,
		s.Ordinal, uint64(s.OldestAt), away(s.OldState, s.Cursor), away(s.Watermark, s.Cursor), away(s.DueSeq, s.Cursor),
		uint64(s.Shared),
	}
}

const queueStateFields = 12

// away is how far s is from base, a small number for a short way in either
// direction, and 0 for no sequence at all. back is s again.
func away(s, base Seq) uint64 {
	if s == 0 {
		return 0
	}
	d := int64(s - base)
	return 1 + (uint64(d<<1) ^ uint64(d>>63))
}

func back(v uint64, base Seq) Seq {
	if v == 0 {
		return 0
	}
	v--
	return base + (Seq(v>>1) ^ -Seq(v&1))
}

// append appends the version, a bit for each field that is not 0 (uvarint), and
// those fields (uvarints): it is the record that is written most.
func (s *QueueState) append(b []byte) []byte {
	fields, there := s.fields(), uint64(0)
	for i, v := range fields {
		if v != 0 {
			there |= 1 << i
		}
	}
	b = binary.AppendUvarint(append(b, queueStateVersion), there)
	for _, v := range fields {
		if v != 0 {
			b = binary.AppendUvarint(b, v)
		}
	}
	return b
}

func decodeQueueState(b []byte) (QueueState, error) {
	r := reader{b: b}
	version, there := r.byte(), r.uvarint()
	var f [queueStateFields]uint64
	for i := range f {
		if there&(1<<i) != 0 {
			f[i] = r.uvarint()
		}
	}
	if r.bad || version != queueStateVersion || there>>queueStateFields != 0 {
		return QueueState{}, fmt.Errorf("queue state: %w", ErrCorrupt)
	}
	cursor := Seq(f[4])
	return QueueState{
		Messages: int64(f[0]), Bytes: int64(f[1]), Received: int64(f[2]), Delayed: int64(f[3]), Cursor: cursor, DueCursor: f[5],
		Ordinal: f[6], OldestAt: int64(f[7]),
		OldState: back(f[8], cursor), Watermark: back(f[9], cursor), DueSeq: back(f[10], cursor),
		Shared: int64(f[11]),
	}, nil
}

// laneState is stored for each lane but the tail lane; it exists while the lane
// holds messages.
type laneState struct {
	Cursor Seq
	Count  int64
}

func (s laneState) append(b []byte) []byte {
	b = append(b, laneStateVersion)
	b = binary.AppendUvarint(b, uint64(s.Cursor))
	return binary.AppendUvarint(b, uint64(s.Count))
}

func decodeLaneState(b []byte) (laneState, error) {
	r := reader{b: b}
	v := r.byte()
	s := laneState{Cursor: Seq(r.uvarint()), Count: int64(r.uvarint())}
	if r.bad || v != laneStateVersion {
		return laneState{}, fmt.Errorf("lane state: %w", ErrCorrupt)
	}
	return s, nil
}

// dedupEntry is what the first send of a deduplication id was answered with.
type dedupEntry struct {
	seq    Seq
	id     MessageID
	sentAt int64 // milliseconds
}

func (d dedupEntry) append(b []byte) []byte {
	b = append(b, dedupVersion)
	b = binary.BigEndian.AppendUint64(b, uint64(d.seq))
	b = binary.BigEndian.AppendUint64(b, uint64(d.sentAt))
	return append(b, d.id[:]...)
}

func decodeDedup(b []byte) (dedupEntry, error) {
	r := reader{b: b}
	v := r.byte()
	d := dedupEntry{seq: Seq(r.uint64()), sentAt: int64(r.uint64())}
	copy(d.id[:], r.take(16))
	if r.bad || v != dedupVersion {
		return dedupEntry{}, fmt.Errorf("dedup entry: %w", ErrCorrupt)
	}
	return d, nil
}
