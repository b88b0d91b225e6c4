package core

import (
	"encoding/base64"
	"encoding/binary"

	"github.com/dchest/siphash"
)

// Receipt names one delivery of one message. It says itself what it names and
// is authenticated, so that it is valid with or without a stored mark, after a
// restart and on another node.
type Receipt struct {
	Queue    QID // Queue.ID: the first incarnation
	Ref      Ref
	Receives uint32
	Nonce    uint32
}

// receiptVersion is the first byte of the binary form.
const receiptVersion = 1

// receiptBytes is the size of the binary form:
// version, queue, incarnation, place kind, place, seq, receives, nonce, MAC.
const receiptBytes = 1 + 8 + 8 + 1 + 8 + 8 + 4 + 4 + 8

// ReceiptHandleBytes is the length of the text form.
const ReceiptHandleBytes = (receiptBytes*8 + 5) / 6

// receiptKey is the node-wide secret of the MAC. In a cluster it is shared.
type receiptKey struct{ k0, k1 uint64 }

// appendHandle appends the text form of r: URL-safe base64 without padding.
func (k receiptKey) appendHandle(dst []byte, r Receipt) []byte {
	var b [receiptBytes]byte
	b[0] = receiptVersion
	binary.BigEndian.PutUint64(b[1:], uint64(r.Queue))
	binary.BigEndian.PutUint64(b[9:], uint64(r.Ref.QID))
	b[17] = byte(r.Ref.Place.Kind)
	binary.BigEndian.PutUint64(b[18:], r.Ref.Place.N)
	binary.BigEndian.PutUint64(b[26:], uint64(r.Ref.Seq))
	binary.BigEndian.PutUint32(b[34:], r.Receives)
	binary.BigEndian.PutUint32(b[38:], r.Nonce)
	binary.BigEndian.PutUint64(b[42:], siphash.Hash(k.k0, k.k1, b[:42]))
	return base64.RawURLEncoding.AppendEncode(dst, b[:])
}

// parseHandle reads the text form. Anything that this key did not make is
// ErrBadReceipt.
func (k receiptKey) parseHandle(s string) (Receipt, error) {
	var b [receiptBytes + 2]byte
	if len(s) != ReceiptHandleBytes {
		return Receipt{}, ErrBadReceipt
	}
	var text [ReceiptHandleBytes]byte
	copy(text[:], s)
	// Strict: otherwise the unused low bits of the last sign would make several
	// handles of one receipt.
	n, err := base64.RawURLEncoding.Strict().Decode(b[:], text[:])
	if err != nil || n != receiptBytes || b[0] != receiptVersion {
		return Receipt{}, ErrBadReceipt
	}
	if siphash.Hash(k.k0, k.k1, b[:42]) != binary.BigEndian.Uint64(b[42:]) {
		return Receipt{}, ErrBadReceipt
	}
	return Receipt{
		Queue: QID(binary.BigEndian.Uint64(b[1:])),
		Ref: Ref{
			QID:   QID(binary.BigEndian.Uint64(b[9:])),
			Place: Place{Kind: PlaceKind(b[17]), N: binary.BigEndian.Uint64(b[18:])},
			Seq:   Seq(binary.BigEndian.Uint64(b[26:])),
		},
		Receives: binary.BigEndian.Uint32(b[34:]),
		Nonce:    binary.BigEndian.Uint32(b[38:]),
	}, nil
}
