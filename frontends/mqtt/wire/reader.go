package wire

import (
	"io"
	"slices"
)

// Sizes of a Reader's buffer, in bytes.
const (
	bufferFirst = 256
	bufferKept  = 64 << 10 // a larger one is dropped when its packet is done with
)

// Reader takes packets out of a stream.
type Reader struct {
	src io.Reader
	buf []byte // what was read and is not taken yet is buf[r:w]
	r   int
	w   int
	max int
	// first lets nothing in but CONNECT.
	first bool
}

// NewReader returns a Reader that takes a CONNECT of at most that many bytes.
func NewReader(src io.Reader, maxBytes int) *Reader {
	return &Reader{src: src, max: maxBytes, first: true}
}

// SetMax sets the bound of a packet, for those that follow the CONNECT.
func (r *Reader) SetMax(maxBytes int) { r.max, r.first = maxBytes, false }

// Next returns the next packet, if it has arrived whole. Otherwise, it is to be
// called again after Fill.
func (r *Reader) Next() (pk Packet, ok bool, err error) {
	b := r.buf[r.r:r.w]
	if len(b) == 0 {
		return pk, false, nil
	}
	pk.Type, pk.Flags = Type(b[0]>>4), b[0]&15
	if r.first && b[0] != byte(CONNECT)<<4 {
		return pk, false, Fail(ProtocolError, "the first packet is not CONNECT")
	}
	if err := checkHeader(pk.Type, pk.Flags); err != nil {
		return pk, false, err
	}
	n, size, short, err := r.length(b[1:])
	if short || err != nil {
		return pk, false, err
	}
	if pk.Size = 1 + size + n; pk.Size > r.max {
		return pk, false, Fail(PacketTooLarge, "a packet has %d bytes, over %d", pk.Size, r.max)
	}
	if len(b) < pk.Size {
		return pk, false, nil
	}
	pk.Body = b[1+size : pk.Size : pk.Size]
	r.r += pk.Size
	return pk, true, nil
}

// length reads the remaining length. short says that it has not arrived.
func (r *Reader) length(b []byte) (n, size int, short bool, err error) {
	for i, c := range b[:min(4, len(b))] {
		if c < 0x80 {
			n, size, err = cutVarint(b[:i+1])
			return n, size, false, err
		}
	}
	if len(b) >= 4 {
		_, _, err = cutVarint(b)
		return 0, 0, false, err
	}
	return 0, 0, true, nil
}

// checkHeader tells whether a packet of a client may begin like that.
func checkHeader(t Type, flags byte) error {
	want := byte(0)
	switch t {
	case PUBLISH:
		return nil
	case PUBREL, SUBSCRIBE, UNSUBSCRIBE:
		want = 2
	case CONNECT, PUBACK, PUBREC, PUBCOMP, PINGREQ, DISCONNECT, AUTH:
	default:
		return Fail(ProtocolError, "a client sends no packet of type %d", t)
	}
	if flags != want {
		return Fail(MalformedPacket, "the flags of a packet of type %d are %d", t, flags)
	}
	return nil
}

// Buffered tells whether a part of a packet, or more, has arrived.
func (r *Reader) Buffered() bool { return r.r < r.w }

// Fill reads once from the stream. What Next has returned is not good any more.
func (r *Reader) Fill() error {
	have := r.buf[r.r:r.w]
	switch {
	case len(have) == 0 && len(r.buf) > bufferKept:
		r.buf = nil
	case len(have) == 0:
	case len(have) == len(r.buf):
		// Twice as much as has arrived.
		r.buf = append(r.buf, make([]byte, len(r.buf))...)
	default:
		copy(r.buf, have)
	}
	r.r, r.w = 0, len(have)
	if len(r.buf) == 0 {
		r.buf = make([]byte, bufferFirst)
	}
	n, err := r.src.Read(r.buf[r.w:])
	r.w += n
	if n > 0 {
		if r.w == len(r.buf) && r.w < bufferKept && len(have) == 0 {
			r.buf = slices.Grow(r.buf, len(r.buf))
			r.buf = r.buf[:cap(r.buf)]
		}
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}
