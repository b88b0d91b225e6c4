package sqs

import (
	"crypto/md5"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/leasemq/broker/core"
)

// digest is the MD5 of something as clients check it, in hexadecimal. A zero
// digest means that there was nothing to digest.
type digest [2 * md5.Size]byte

// digests are those of one message that was sent.
type digests struct {
	body       digest
	attributes digest
	system     digest
}

func (d *digest) isZero() bool { return d[0] == 0 }

func (d *digest) set(b []byte) {
	sum := md5.Sum(b)
	hex.Encode(d[:], sum[:])
}

// plainBytes writes d into a field of an answer.
func (a *answer) digestField(name string, d *digest) {
	if d.isZero() {
		return
	}
	a.beginPlain(name)
	a.b = append(a.b, d[:]...)
	a.endPlain(name)
}

// The transport types of a digest.
const (
	transportString = 1 // also of numbers
	transportBinary = 2
)

// digestAttributes digests the attributes that order names, which it sorts by
// name.
func (c *call) digestAttributes(attributes []core.Attribute, order []int) (d digest) {
	if len(order) == 0 {
		return d
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(attributes[a].Name, attributes[b].Name) })
	b := c.scratch[:0]
	for _, i := range order {
		a := &attributes[i]
		b = appendSized(b, bytesOf(a.Name))
		b = appendSized(b, bytesOf(a.Type))
		if isBinary(a.Type) {
			b = append(b, transportBinary)
		} else {
			b = append(b, transportString)
		}
		b = appendSized(b, a.Value)
	}
	c.scratch = b
	d.set(b)
	return d
}

func appendSized(dst, b []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(b)))
	return append(dst, b...)
}

// isBinary tells whether a data type, with its label, is Binary.
func isBinary(dataType string) bool {
	base, _, _ := strings.Cut(dataType, ".")
	return base == "Binary"
}
