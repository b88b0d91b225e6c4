package cluster

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"unicode/utf8"

	"github.com/leasemq/broker/core"
)

// Kind says what a record is. The numbers are never reused.
type Kind uint8

// The kinds.
const (
	KindEpoch     Kind = 1 // a primary lease begins, or ends in order
	KindPad       Kind = 2 // takes a sequence, so that no stale record gets it
	KindHeartbeat Kind = 3 // renews the lease
	KindBatch     Kind = 4 // Changes, or a part of them
)

// String names k.
func (k Kind) String() string {
	switch k {
	case KindEpoch:
		return "epoch"
	case KindPad:
		return "pad"
	case KindHeartbeat:
		return "heartbeat"
	case KindBatch:
		return "batch"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Hash names a record: the first half of the SHA-256 of its bytes.
type Hash = [16]byte

// Record is what one sequence of the log holds. Its form, big endian:
//
//	version (1) kind (1) epoch (4) time (8) prev (16) body CRC-32C (4)
//
// The body of an epoch record is flags (1), instance (16) and the name of the
// node; that of a batch is flags (1) and the bytes of the part. Pads and
// heartbeats have none. Whoever changes the form raises the version.
type Record struct {
	Kind  Kind
	Epoch uint32
	Time  int64 // log time: milliseconds since the epoch, at least that of the record before
	Prev  Hash  // of the last valid record
	Body  []byte
}

// Bounds of a record.
const (
	recordVersion     = 1
	recordHeaderBytes = 1 + 1 + 4 + 8 + len(Hash{})
	recordSumBytes    = 4
	partBytesMax      = 256 << 10 // of Changes in one record
	nodeNameBytesMax  = 255
	// epochMax is the last epoch that fits the term of a core.Seq.
	epochMax = 1<<24 - 1
)

// What a record cannot be read for. Both end the member.
var (
	ErrMalformed = fmt.Errorf("record is malformed: %w", core.ErrCorrupt)
	ErrNewer     = errors.New("record was written by a newer version")
)

// Append appends the encoded record to b.
func (r *Record) Append(b []byte) []byte {
	from := len(b)
	b = append(b, recordVersion, byte(r.Kind))
	b = binary.BigEndian.AppendUint32(b, r.Epoch)
	b = binary.BigEndian.AppendUint64(b, uint64(r.Time))
	b = append(b, r.Prev[:]...)
	b = append(b, r.Body...)
	return binary.BigEndian.AppendUint32(b, sum(b[from:]))
}

// DecodeRecord reads what Append wrote. Body is a view into b.
func DecodeRecord(b []byte) (Record, error) {
	if len(b) > 0 && b[0] > recordVersion {
		return Record{}, fmt.Errorf("%w: its version is %d, this binary knows %d", ErrNewer, b[0], recordVersion)
	}
	if len(b) < recordHeaderBytes+recordSumBytes || b[0] != recordVersion {
		return Record{}, ErrMalformed
	}
	end := len(b) - recordSumBytes
	if sum(b[:end]) != binary.BigEndian.Uint32(b[end:]) {
		return Record{}, fmt.Errorf("checksum differs: %w", ErrMalformed)
	}
	r := Record{
		Kind:  Kind(b[1]),
		Epoch: binary.BigEndian.Uint32(b[2:]),
		Time:  int64(binary.BigEndian.Uint64(b[6:])),
		Body:  b[recordHeaderBytes:end:end],
	}
	copy(r.Prev[:], b[14:])
	switch r.Kind {
	case KindEpoch, KindBatch:
	case KindPad, KindHeartbeat:
		if len(r.Body) != 0 {
			return Record{}, fmt.Errorf("%s with a body: %w", r.Kind, ErrMalformed)
		}
	default:
		return Record{}, fmt.Errorf("%s: %w", r.Kind, ErrMalformed)
	}
	if r.Epoch == 0 || r.Epoch > epochMax || r.Time < 0 {
		return Record{}, fmt.Errorf("epoch %d, time %d: %w", r.Epoch, r.Time, ErrMalformed)
	}
	return r, nil
}

// HashOf returns the name of an encoded record.
func HashOf(b []byte) Hash {
	h := sha256.Sum256(b)
	return Hash(h[:len(Hash{})])
}

func sum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// Epoch is the body of an epoch record.
type Epoch struct {
	Node     string   // who leads; of a vacant one: who shall
	Instance [16]byte // of the member that wrote it: random, new in each process
	Vacant   bool     // nobody leads in this epoch: the writer stepped down
	Clean    bool     // of a vacant one: what led before was closed in order
}

const (
	epochVacant = 1 << 0
	epochClean  = 1 << 1
)

func (e *Epoch) append(b []byte) []byte {
	flags := byte(0)
	if e.Vacant {
		flags |= epochVacant
	}
	if e.Clean {
		flags |= epochClean
	}
	b = append(append(b, flags), e.Instance[:]...)
	return append(b, e.Node...)
}

func decodeEpoch(b []byte) (*Epoch, error) {
	if len(b) < 1+len(Epoch{}.Instance) || b[0]&^(epochVacant|epochClean) != 0 {
		return nil, fmt.Errorf("epoch: %w", ErrMalformed)
	}
	e := &Epoch{Vacant: b[0]&epochVacant != 0, Clean: b[0]&epochClean != 0}
	name := b[1+copy(e.Instance[:], b[1:]):]
	if len(name) > nodeNameBytesMax || !utf8.Valid(name) {
		return nil, fmt.Errorf("name of a node: %w", ErrMalformed)
	}
	e.Node = string(name)
	return e, nil
}

// A batch is whole in one record or spans several, which follow each other but
// for heartbeats.
const (
	partFirst = 1 << 0
	partLast  = 1 << 1
)

// appendBatch appends c to a batch: its length and its binary form.
func appendBatch(b []byte, c *core.Change) ([]byte, error) {
	form, err := c.AppendBinary(nil)
	if err != nil {
		return nil, err
	}
	return append(binary.AppendUvarint(b, uint64(len(form))), form...), nil
}

// decodeBatch reads the Changes of a whole batch. They are views into b.
func decodeBatch(b []byte) ([]*core.Change, error) {
	var changes []*core.Change
	for len(b) > 0 {
		n, w := binary.Uvarint(b)
		if w <= 0 || n > uint64(len(b)-w) {
			return nil, fmt.Errorf("batch: %w", ErrMalformed)
		}
		c, err := core.DecodeChange(b[w : w+int(n)])
		if err != nil {
			return nil, err
		}
		changes, b = append(changes, c), b[w+int(n):]
	}
	return changes, nil
}
