package storage

import (
	"encoding/binary"
	"fmt"

	"github.com/leasemq/broker/core"
)

// FormatVersion is the version of what FORMAT.md describes. A database with a
// higher one is refused, and so is one below formatVersionMin, which no release
// has written. Version 2 had no bodies that messages share; its databases are
// sound ones of version 3.
const (
	FormatVersion    = 3
	formatVersionMin = 2
)

// Each value opens with a version byte. Those of messages, queues, lanes and
// deduplication entries are the core's.
const (
	stateVersion    = 1
	nameVersion     = 1
	reapVersion     = 1
	formatVersion   = 1
	termVersion     = 1
	positionVersion = 1
	// positionVersionLog is that of a database that is fed from the log.
	positionVersionLog = 2
	cleanVersion       = 1
)

// stateBytesMax bounds an encoded state record.
const stateBytesMax = 1 + 1 + 2*binary.MaxVarintLen64 + 2*binary.MaxVarintLen32 + 4

// appendState appends a state record; about 20 bytes.
func appendState(b []byte, s *core.MessageState) []byte {
	b = append(b, stateVersion, byte(s.Flags))
	b = binary.AppendVarint(b, s.VisibleAt)
	b = binary.AppendVarint(b, s.VisibleAt-s.FirstReceived)
	b = binary.AppendUvarint(b, uint64(s.Receives))
	b = binary.AppendUvarint(b, uint64(s.Failures))
	return binary.BigEndian.AppendUint32(b, s.Nonce)
}

func decodeState(v []byte) (core.MessageState, error) {
	f := fields{b: v}
	version := f.byte()
	s := core.MessageState{Flags: core.StateFlags(f.byte())}
	s.VisibleAt = f.varint()
	s.FirstReceived = s.VisibleAt - f.varint()
	s.Receives, s.Failures = f.uvarint32(), f.uvarint32()
	s.Nonce = f.uint32()
	if err := f.end("state record", version, stateVersion); err != nil {
		return core.MessageState{}, err
	}
	return s, nil
}

func appendName(b []byte, q core.QID) []byte {
	return binary.BigEndian.AppendUint64(append(b, nameVersion), uint64(q))
}

func decodeName(v []byte) (core.QID, error) {
	f := fields{b: v}
	version := f.byte()
	q := core.QID(f.uint64())
	return q, f.end("name record", version, nameVersion)
}

// position is stored with each batch.
type position struct {
	pos  core.Pos
	time int64 // of the Change, milliseconds since the epoch
	// log is set when the batch came from the replicated log; pos and time are
	// its sequence and time then.
	log *core.LogPosition
}

func (p position) append(b []byte) []byte {
	version := byte(positionVersion)
	if p.log != nil {
		version = positionVersionLog
	}
	b = binary.BigEndian.AppendUint64(append(b, version), uint64(p.pos))
	b = binary.BigEndian.AppendUint64(b, uint64(p.time))
	if p.log != nil {
		b = binary.BigEndian.AppendUint32(b, p.log.Generation)
		b = binary.BigEndian.AppendUint32(b, p.log.Epoch)
		b = append(b, p.log.Hash[:]...)
	}
	return b
}

func decodePosition(v []byte) (position, error) {
	f := fields{b: v}
	version := f.byte()
	p := position{pos: core.Pos(f.uint64()), time: int64(f.uint64())}
	if version != positionVersionLog {
		return p, f.end("position record", version, positionVersion)
	}
	p.log = &core.LogPosition{Seq: uint64(p.pos), Time: p.time, Generation: f.uint32(), Epoch: f.uint32()}
	copy(p.log.Hash[:], f.take(len(p.log.Hash)))
	return p, f.end("position record", version, positionVersionLog)
}

func appendNumber(b []byte, version byte, n uint32) []byte {
	return binary.BigEndian.AppendUint32(append(b, version), n)
}

func decodeNumber(v []byte, what string, want byte) (uint32, error) {
	f := fields{b: v}
	version := f.byte()
	n := f.uint32()
	return n, f.end(what, version, want)
}

// fields takes fields off the front of b. After one that is not there it gives
// zeroes, and bad is set.
type fields struct {
	b   []byte
	bad bool
}

// end tells whether all was read, to the last byte, in the wanted version.
func (f *fields) end(what string, got, want byte) error {
	switch {
	case f.bad:
		return fmt.Errorf("%s: cut short: %w", what, core.ErrCorrupt)
	case got != want:
		return fmt.Errorf("%s: version %d, this binary knows %d: %w", what, got, want, core.ErrCorrupt)
	case len(f.b) != 0:
		return fmt.Errorf("%s: %d bytes too many: %w", what, len(f.b), core.ErrCorrupt)
	}
	return nil
}

func (f *fields) take(n int) []byte {
	if f.bad || len(f.b) < n {
		f.bad = true
		return nil
	}
	b := f.b[:n]
	f.b = f.b[n:]
	return b
}

func (f *fields) byte() byte {
	if b := f.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (f *fields) uint32() uint32 {
	if b := f.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (f *fields) uint64() uint64 {
	if b := f.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (f *fields) varint() int64 {
	v, n := binary.Varint(f.b)
	f.skip(n)
	return v
}

func (f *fields) uvarint32() uint32 {
	v, n := binary.Uvarint(f.b)
	if v>>32 != 0 {
		f.bad = true
		return 0
	}
	f.skip(n)
	return uint32(v)
}

// skip goes past a varint of n bytes; n <= 0 says that there was none.
func (f *fields) skip(n int) {
	if n <= 0 {
		f.bad = true
		return
	}
	f.take(n)
}
