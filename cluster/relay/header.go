package relay

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
)

// ErrHeader is what a header is refused for.
var ErrHeader = errors.New("header of the PROXY protocol is refused")

// The PROXY protocol, version 2.
const (
	signature      = "\r\n\r\n\x00\r\nQUIT\n"
	fixedBytes     = len(signature) + 4 // up to the addresses
	versionCommand = 0x21               // version 2, PROXY
	familyTCP4     = 0x11
	familyTCP6     = 0x21
	addressBytes4  = 2*4 + 2*2
	addressBytes6  = 2*16 + 2*2
	tlvBytes       = 3    // type and length
	tlvListener    = 0xE0 // the first of those that anybody may use
)

// Bounds of a header.
const (
	headerBytesMax = 512 // after the fixed part
	nameBytesMax   = 64  // of a listener
)

// header says whose connection is relayed.
type header struct {
	client   netip.AddrPort
	standby  netip.AddrPort // where the client has come to
	listener string
}

// append appends h in its binary form.
func (h header) append(b []byte) ([]byte, error) {
	client, standby := h.client.Addr().Unmap(), h.standby.Addr().Unmap()
	if !client.IsValid() || !standby.IsValid() {
		return b, fmt.Errorf("address %v or %v is none of IP", h.client, h.standby)
	}
	if err := checkName(h.listener); err != nil {
		return b, err
	}
	b = append(append(b, signature...), versionCommand)
	length := tlvBytes + len(h.listener)
	if client.Is4() && standby.Is4() {
		b = binary.BigEndian.AppendUint16(append(b, familyTCP4), uint16(addressBytes4+length))
		b = append(append(b, client.AsSlice()...), standby.AsSlice()...)
	} else {
		from, to := client.As16(), standby.As16()
		b = binary.BigEndian.AppendUint16(append(b, familyTCP6), uint16(addressBytes6+length))
		b = append(append(b, from[:]...), to[:]...)
	}
	b = binary.BigEndian.AppendUint16(b, h.client.Port())
	b = binary.BigEndian.AppendUint16(b, h.standby.Port())
	b = binary.BigEndian.AppendUint16(append(b, tlvListener), uint16(len(h.listener)))
	return append(b, h.listener...), nil
}

// readHeader reads one header and nothing after it.
func readHeader(r io.Reader) (header, error) {
	var fixed [fixedBytes]byte
	if _, err := io.ReadFull(r, fixed[:]); err != nil {
		return header{}, fmt.Errorf("%w: %w", ErrHeader, err)
	}
	rest := fixed[len(signature):]
	length := int(binary.BigEndian.Uint16(rest[2:]))
	switch {
	case !bytes.HasPrefix(fixed[:], []byte(signature)):
		return header{}, fmt.Errorf("%w: no signature", ErrHeader)
	case rest[0] != versionCommand:
		return header{}, fmt.Errorf("%w: version and command %#x", ErrHeader, rest[0])
	case length > headerBytesMax:
		return header{}, fmt.Errorf("%w: %d bytes, over %d", ErrHeader, length, headerBytesMax)
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(r, body); err != nil {
		return header{}, fmt.Errorf("%w: %w", ErrHeader, err)
	}
	return parseHeader(rest[1], body)
}

// parseHeader parses what follows the fixed part.
func parseHeader(family byte, body []byte) (header, error) {
	size := 0
	switch family {
	case familyTCP4:
		size = 4
	case familyTCP6:
		size = 16
	default:
		return header{}, fmt.Errorf("%w: family %#x", ErrHeader, family)
	}
	if len(body) < 2*size+4 {
		return header{}, fmt.Errorf("%w: addresses are cut off", ErrHeader)
	}
	ports := body[2*size:]
	h := header{
		client:  addressOf(body[:size], ports),
		standby: addressOf(body[size:2*size], ports[2:]),
	}
	named := false
	for tlvs := ports[4:]; len(tlvs) > 0; {
		if len(tlvs) < tlvBytes {
			return header{}, fmt.Errorf("%w: TLV is cut off", ErrHeader)
		}
		kind, length := tlvs[0], int(binary.BigEndian.Uint16(tlvs[1:]))
		tlvs = tlvs[tlvBytes:]
		if length > len(tlvs) {
			return header{}, fmt.Errorf("%w: TLV %#x is cut off", ErrHeader, kind)
		}
		if kind == tlvListener {
			if named {
				return header{}, fmt.Errorf("%w: two names of a listener", ErrHeader)
			}
			h.listener, named = string(tlvs[:length]), true
		}
		tlvs = tlvs[length:]
	}
	if err := checkName(h.listener); err != nil {
		return header{}, fmt.Errorf("%w: %w", ErrHeader, err)
	}
	return h, nil
}

func addressOf(ip, port []byte) netip.AddrPort {
	a, _ := netip.AddrFromSlice(ip) // it has 4 or 16 bytes
	return netip.AddrPortFrom(a.Unmap(), binary.BigEndian.Uint16(port))
}

// checkName checks the name of a listener.
func checkName(name string) error {
	if name == "" || len(name) > nameBytesMax {
		return fmt.Errorf("name of a listener has %d bytes, want 1 to %d", len(name), nameBytesMax)
	}
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return fmt.Errorf("name %q of a listener is not of a-z, 0-9, - and _", name)
		}
	}
	return nil
}
