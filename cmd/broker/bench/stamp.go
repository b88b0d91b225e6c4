package bench

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// StampBytes is the size of the stamp that each body starts with: the sender
// (4 hex digits), its counter (12), and when it was due, in microseconds since
// the run began (12).
const StampBytes = 28

// fillingBytes is the size of the text that fillings are cut from: large, so
// that two bodies of one storage block hardly share any of it and compression
// gains nothing.
const fillingBytes = 1 << 20

// Bounds of what a stamp can hold.
const (
	SendersMax = 1 << 16
	counterMax = 1<<48 - 1
)

// ErrForeignBody is answered for a body that this run did not make, or that
// came back changed.
var ErrForeignBody = errors.New("body is not of this run")

// fillingAlphabet needs no escape in JSON, in XML or in a form.
const fillingAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// Stamp says who sent a message, as which, and when it was due.
type Stamp struct {
	Sender  int
	Counter uint64
	Due     time.Duration // since the run began
}

// Bodies makes the bodies of a run and knows them again. It is read only once
// made, and may be shared.
type Bodies struct {
	size    int
	filling []byte
}

// NewBodies returns the bodies of size bytes of the run with that seed.
func NewBodies(seed uint64, size int) (*Bodies, error) {
	if size < StampBytes || size > fillingBytes {
		return nil, fmt.Errorf("body size %d: must be %d to %d", size, StampBytes, fillingBytes)
	}
	r := rand.New(rand.NewPCG(seed, 0x6c65617365))
	b := &Bodies{size: size, filling: make([]byte, fillingBytes+size)}
	for i := range b.filling {
		b.filling[i] = fillingAlphabet[r.Uint32()%64]
	}
	return b, nil
}

// Size returns the size of each body in bytes.
func (b *Bodies) Size() int { return b.size }

// Fill writes the body of s over dst, which has Size bytes.
func (b *Bodies) Fill(dst []byte, s Stamp) {
	putHex(dst[0:4], uint64(s.Sender))
	putHex(dst[4:16], s.Counter)
	putHex(dst[16:28], uint64(s.Due.Microseconds()))
	copy(dst[StampBytes:b.size], b.fillingOf(s))
}

// Parse reads the stamp of a body and compares all of its filling.
func (b *Bodies) Parse(body []byte) (Stamp, error) {
	if len(body) != b.size {
		return Stamp{}, ErrForeignBody
	}
	sender, ok1 := parseHex(body[0:4])
	counter, ok2 := parseHex(body[4:16])
	due, ok3 := parseHex(body[16:28])
	s := Stamp{Sender: int(sender), Counter: counter, Due: time.Duration(due) * time.Microsecond}
	if !ok1 || !ok2 || !ok3 || !bytes.Equal(body[StampBytes:], b.fillingOf(s)) {
		return Stamp{}, ErrForeignBody
	}
	return s, nil
}

// fillingOf cuts the filling of s out of the text, at a place that differs from
// message to message.
func (b *Bodies) fillingOf(s Stamp) []byte {
	h := (s.Counter<<16 | uint64(s.Sender)) * 0x9e3779b97f4a7c15
	at := int(h >> 44) // 20 bits: below fillingBytes
	return b.filling[at : at+b.size-StampBytes]
}

// putHex writes v over all of dst in lower-case hex.
func putHex(dst []byte, v uint64) {
	const digits = "0123456789abcdef"
	for i := len(dst) - 1; i >= 0; i-- {
		dst[i] = digits[v&15]
		v >>= 4
	}
}

// parseHex reads what putHex wrote.
func parseHex(src []byte) (uint64, bool) {
	var v uint64
	for _, c := range src {
		switch {
		case c >= '0' && c <= '9':
			v = v<<4 | uint64(c-'0')
		case c >= 'a' && c <= 'f':
			v = v<<4 | uint64(c-'a'+10)
		default:
			return 0, false
		}
	}
	return v, true
}
