package sqs

import (
	"bytes"
	"encoding/binary"
	"unicode/utf8"
	"unsafe"
)

// text is a value of a request: a view of the call's buffers that dies with the
// request. nil means absent; an empty text was sent empty.
type text []byte

// view returns t as a string without a copy. It dies with the request as well.
func (t text) view() string { return unsafe.String(unsafe.SliceData(t), len(t)) }

// arena hands out byte slices that live until reset. Slices of one arena never
// overlap or move.
type arena struct{ b []byte }

// Bounds of an arena's chunks: the size of a new one, and the size up to which
// one is kept for the next request.
const (
	arenaChunkBytes    = 4 << 10
	arenaKeptBytesMax  = 64 << 10
	bufferKeptBytesMax = 64 << 10 // of any other buffer of a call
)

// room returns an empty slice with room for n bytes. commit takes what was
// appended to it; without commit the next room is the same.
func (a *arena) room(n int) []byte {
	if cap(a.b)-len(a.b) < n {
		// The old chunk lives on as long as texts refer to it.
		a.b = make([]byte, 0, max(n, arenaChunkBytes))
	}
	return a.b[len(a.b):len(a.b):cap(a.b)]
}

// commit makes b, an extension of the last room, permanent.
func (a *arena) commit(b []byte) text {
	a.b = a.b[:len(a.b)+len(b)]
	return text(b[:len(b):len(b)])
}

func (a *arena) reset() {
	if cap(a.b) > arenaKeptBytesMax {
		a.b = nil
	}
	a.b = a.b[:0]
}

// Masks for eight bytes at a time.
const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// zeroByte has the high bit of at least the lowest zero byte of w set, and is 0
// if w has none.
func zeroByte(w uint64) uint64 { return (w - ones) &^ w & highs }

// plain returns how many bytes b starts with that need no escape in a JSON
// string: no quote, no backslash, no control sign. Bytes of 0x80 and above
// count as plain; ascii tells whether there were none among them.
func plain(b []byte) (n int, ascii bool) {
	var seen uint64
	for len(b)-n >= 8 {
		w := binary.LittleEndian.Uint64(b[n:])
		quote := zeroByte(w ^ '"'*ones)
		slash := zeroByte(w ^ '\\'*ones)
		// The subtraction borrows into the next byte only above a byte below
		// 0x20, and then the loop ends anyway.
		control := (w - 0x20*ones) &^ w & highs
		if quote|slash|control != 0 {
			break
		}
		seen |= w
		n += 8
	}
	ascii = seen&highs == 0
	for ; n < len(b); n++ {
		if c := b[n]; c == '"' || c == '\\' || c < 0x20 {
			break
		} else if c >= utf8.RuneSelf {
			ascii = false
		}
	}
	return n, ascii
}

// validText tells whether b may be a message body: UTF-8 of #x9 #xA #xD
// #x20-#xD7FF #xE000-#xFFFD #x10000-#x10FFFF.
func validText(b []byte) bool {
	allASCII := true
	for i := 0; i < len(b); i++ {
		n, ascii := plain(b[i:])
		allASCII = allASCII && ascii
		if i += n; i == len(b) {
			break
		}
		if c := b[i]; c < 0x20 && c != '\t' && c != '\n' && c != '\r' {
			return false
		}
	}
	return allASCII || utf8.Valid(b) && !hasNonCharacter(b)
}

// hasNonCharacter tells whether b holds U+FFFE or U+FFFF, which are EF BF BE and
// EF BF BF: all that UTF-8 can say and a message body may not.
func hasNonCharacter(b []byte) bool {
	for {
		i := bytes.IndexByte(b, 0xEF)
		if i < 0 || i+2 >= len(b) {
			return false
		}
		if b[i+1] == 0xBF && b[i+2] >= 0xBE {
			return true
		}
		b = b[i+1:]
	}
}
