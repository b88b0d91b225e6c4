package storage

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/leasemq/broker/core"
)

// The first byte of a key is its space. FORMAT.md lists them, with those that
// are reserved; none is ever used for something else.
const (
	spaceEngine     = '!'
	spaceRecord     = 'a'
	spaceBody       = 'b'
	spaceQueueState = 'c'
	spaceDelayed    = 'd'
	spaceEpoch      = 'e'
	spaceLane       = 'g'
	spaceMessage    = 'm'
	spaceName       = 'n'
	spaceQueue      = 'q'
	spaceState      = 's'
	spaceReap       = 't'
	spaceDedup      = 'x'
)

// The keys of the engine's own records.
const (
	keyFormat   = "!v"
	keyTerm     = "!t"
	keyPosition = "!r"
	keyClean    = "!c"
)

const (
	qidKeyBytes   = 1 + 8
	dueBytes      = 6
	dueMax        = 1<<(8*dueBytes) - 1
	dedupKeyBytes = 1 + 4 + 8 + 16
	// keyBytesMax bounds the keys of fixed form: a state record of a group lane.
	keyBytesMax = 1 + 8 + 1 + 8 + 8
)

var errKey = errors.New("malformed key")

// placeNumberBytes is the width of Place.N by kind, -1 for an unknown kind.
func placeNumberBytes(k core.PlaceKind) int {
	switch k {
	case core.PlaceTail:
		return 0
	case core.PlacePriority:
		return 1
	case core.PlaceGroup:
		return 8
	case core.PlaceDelayed:
		return dueBytes
	}
	return -1
}

// checkPlace tells whether p has a key.
func checkPlace(p core.Place) error {
	n := placeNumberBytes(p.Kind)
	if n < 0 || n < 8 && p.N>>(8*n) != 0 {
		return fmt.Errorf("place %d.%x has no key", p.Kind, p.N)
	}
	return nil
}

func appendQID(b []byte, space byte, q core.QID) []byte {
	return binary.BigEndian.AppendUint64(append(b, space), uint64(q))
}

// appendPlace appends the kind and, in the width of its kind, the number: the
// order of keys is that of kind and number.
func appendPlace(b []byte, p core.Place) []byte {
	return appendPlaceNumber(append(b, byte(p.Kind)), p)
}

func appendPlaceNumber(b []byte, p core.Place) []byte {
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], p.N)
	return append(b, n[8-placeNumberBytes(p.Kind):]...)
}

// appendLanePrefix appends what the message keys of one place have in common.
// Delayed messages have a space of their own, without the kind.
func appendLanePrefix(b []byte, q core.QID, p core.Place) []byte {
	if p.Kind == core.PlaceDelayed {
		return appendPlaceNumber(appendQID(b, spaceDelayed, q), p)
	}
	return appendPlace(appendQID(b, spaceMessage, q), p)
}

func appendSeq(b []byte, s core.Seq) []byte { return binary.BigEndian.AppendUint64(b, uint64(s)) }

func appendMessageKey(b []byte, r core.Ref) []byte {
	return appendSeq(appendLanePrefix(b, r.QID, r.Place), r.Seq)
}

func appendStateKey(b []byte, r core.Ref) []byte {
	return appendSeq(appendPlace(appendQID(b, spaceState, r.QID), r.Place), r.Seq)
}

func appendLaneKey(b []byte, q core.QID, p core.Place) []byte {
	return appendPlace(appendQID(b, spaceLane, q), p)
}

func appendDedupMinute(b []byte, minute uint32) []byte {
	return binary.BigEndian.AppendUint32(append(b, spaceDedup), minute)
}

func appendDedupKey(b []byte, minute uint32, q core.QID, hash []byte) []byte {
	b = binary.BigEndian.AppendUint64(appendDedupMinute(b, minute), uint64(q))
	return append(b, hash...)
}

// successor turns prefix, in place, into the first key after all that begin
// with it. The space byte is never 0xff, so there always is one.
func successor(prefix []byte) []byte {
	for i := len(prefix) - 1; ; i-- {
		if prefix[i]++; prefix[i] != 0 {
			return prefix[:i+1]
		}
	}
}

// parseQID reads a key that is a space and an incarnation.
func parseQID(key []byte, space byte) (core.QID, error) {
	if len(key) != qidKeyBytes || key[0] != space {
		return 0, errKey
	}
	return core.QID(binary.BigEndian.Uint64(key[1:])), nil
}

// parsePlace takes a place off the front of b.
func parsePlace(b []byte) (p core.Place, rest []byte, err error) {
	if len(b) == 0 {
		return p, nil, errKey
	}
	p.Kind = core.PlaceKind(b[0])
	return parsePlaceNumber(p, b[1:])
}

func parsePlaceNumber(p core.Place, b []byte) (core.Place, []byte, error) {
	n := placeNumberBytes(p.Kind)
	if n < 0 || len(b) < n {
		return core.Place{}, nil, errKey
	}
	for _, c := range b[:n] {
		p.N = p.N<<8 | uint64(c)
	}
	return p, b[n:], nil
}

// parseRef reads the key of a message or of a state record.
func parseRef(key []byte) (core.Ref, error) {
	if len(key) < qidKeyBytes {
		return core.Ref{}, errKey
	}
	r := core.Ref{QID: core.QID(binary.BigEndian.Uint64(key[1:]))}
	rest := key[qidKeyBytes:]
	var err error
	switch key[0] {
	case spaceDelayed:
		r.Place, rest, err = parsePlaceNumber(core.Place{Kind: core.PlaceDelayed}, rest)
	case spaceMessage:
		r.Place, rest, err = parsePlace(rest)
		if r.Place.Kind == core.PlaceDelayed {
			return core.Ref{}, errKey
		}
	case spaceState:
		r.Place, rest, err = parsePlace(rest)
	default:
		return core.Ref{}, errKey
	}
	if err != nil || len(rest) != 8 {
		return core.Ref{}, errKey
	}
	r.Seq = core.Seq(binary.BigEndian.Uint64(rest))
	return r, nil
}

// parseLane reads the key of a lane record.
func parseLane(key []byte) (core.QID, core.Place, error) {
	if len(key) < qidKeyBytes || key[0] != spaceLane {
		return 0, core.Place{}, errKey
	}
	p, rest, err := parsePlace(key[qidKeyBytes:])
	if err != nil || len(rest) != 0 {
		return 0, core.Place{}, errKey
	}
	return core.QID(binary.BigEndian.Uint64(key[1:])), p, nil
}

// parseDedup reads the key of a deduplication entry.
func parseDedup(key []byte) (minute uint32, q core.QID, hash [16]byte, err error) {
	if len(key) != dedupKeyBytes || key[0] != spaceDedup {
		return 0, 0, hash, errKey
	}
	copy(hash[:], key[1+4+8:])
	return binary.BigEndian.Uint32(key[1:]), core.QID(binary.BigEndian.Uint64(key[5:])), hash, nil
}
