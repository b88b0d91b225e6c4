package relay

import (
	"bytes"
	"errors"
	"net/netip"
	"strings"
	"testing"
)

func sample(t testing.TB, client, standby, listener string) (header, []byte) {
	t.Helper()
	h := header{netip.MustParseAddrPort(client), netip.MustParseAddrPort(standby), listener}
	b, err := h.append(nil)
	if err != nil {
		t.Fatal(err)
	}
	return h, b
}

func TestHeadersComeBack(t *testing.T) {
	for _, c := range [][3]string{
		{"192.0.2.7:51000", "198.51.100.1:61613", "stomp"},
		{"[2001:db8::7]:51000", "[2001:db8::1]:9324", "sqs"},
		{"192.0.2.7:0", "[2001:db8::1]:65535", strings.Repeat("m", nameBytesMax)},
	} {
		h, b := sample(t, c[0], c[1], c[2])
		r := bytes.NewReader(append(b, "next"...))
		got, err := readHeader(r)
		if err != nil || got != h {
			t.Errorf("header %v came back as %v, %v", h, got, err)
		}
		if r.Len() != len("next") {
			t.Errorf("%d bytes are left after the header, want %d", r.Len(), len("next"))
		}
	}
	h, b := sample(t, "[::ffff:192.0.2.7]:1", "192.0.2.8:2", "sqs")
	if got, err := readHeader(bytes.NewReader(b)); err != nil || got.client.Addr() != h.client.Addr().Unmap() {
		t.Errorf("a mapped address came back as %v, %v", got.client, err)
	}
}

func TestHeadersAreLaidOutAsSpecified(t *testing.T) {
	_, b := sample(t, "192.0.2.7:258", "198.51.100.1:772", "sqs")
	want := "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x12\xc0\x00\x02\x07\xc6\x33\x64\x01\x01\x02\x03\x04\xe0\x00\x03sqs"
	if string(b) != want {
		t.Errorf("header is %q, want %q", b, want)
	}
}

func TestBadHeadersAreRefused(t *testing.T) {
	_, good := sample(t, "192.0.2.7:51000", "198.51.100.1:61613", "stomp")
	for i := range good {
		if _, err := readHeader(bytes.NewReader(good[:i])); !errors.Is(err, ErrHeader) {
			t.Errorf("a header cut off after %d bytes: %v", i, err)
		}
	}
	edit := func(f func(b []byte) []byte) []byte { return f(bytes.Clone(good)) }
	at := func(i int, v byte) []byte { return edit(func(b []byte) []byte { b[i] = v; return b }) }
	tlv := func(s string) []byte {
		return edit(func(b []byte) []byte {
			b = append(b[:fixedBytes+addressBytes4], s...)
			b[15] = byte(addressBytes4 + len(s))
			return b
		})
	}
	for name, b := range map[string][]byte{
		"garbage":         []byte(strings.Repeat("GET / HTTP/1.1\r\n", 4)),
		"version 1":       []byte("PROXY TCP4 192.0.2.7 198.51.100.1 51000 61613\r\n"),
		"signature":       at(3, 'x'),
		"version 3":       at(12, 0x31),
		"LOCAL":           at(12, 0x20),
		"unspecified":     at(13, 0x00),
		"UDP":             at(13, 0x12),
		"a unix socket":   at(13, 0x31),
		"TCP6 cut off":    at(13, 0x21),
		"too long":        at(14, 0xff),
		"no name":         tlv(""),
		"an empty name":   tlv("\xe0\x00\x00"),
		"two names":       tlv("\xe0\x00\x01a\xe0\x00\x01b"),
		"an odd name":     tlv("\xe0\x00\x02A\n"),
		"a TLV cut off":   tlv("\xe0\x00\x01a\x04\x00"),
		"a TLV too long":  tlv("\xe0\x00\x05sqs"),
		"a name too long": tlv("\xe0\x00\x41" + strings.Repeat("a", nameBytesMax+1)),
	} {
		if h, err := readHeader(bytes.NewReader(b)); !errors.Is(err, ErrHeader) {
			t.Errorf("%s: header %v, %v", name, h, err)
		}
	}
	if h, err := readHeader(bytes.NewReader(tlv("\x04\x00\x02..\xe0\x00\x03sqs\x30\x00\x00"))); err != nil || h.listener != "sqs" {
		t.Errorf("a header with other TLVs: %v, %v", h, err)
	}
}

func TestHeadersThatCannotBeAreNotMade(t *testing.T) {
	a := netip.MustParseAddrPort("192.0.2.7:1")
	for _, h := range []header{{a, a, ""}, {a, a, "a b"}, {a, netip.AddrPort{}, "sqs"}, {netip.AddrPort{}, a, "sqs"}} {
		if b, err := h.append(nil); err == nil {
			t.Errorf("header %v is %q", h, b)
		}
	}
}

func FuzzHeader(f *testing.F) {
	for _, c := range []string{"192.0.2.7:51000", "[2001:db8::7]:51000"} {
		_, b := sample(f, c, c, "stomp")
		f.Add(b)
		f.Add(b[:20])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := readHeader(bytes.NewReader(b))
		if err != nil {
			if !errors.Is(err, ErrHeader) {
				t.Fatalf("error %v", err)
			}
			return
		}
		again, err := h.append(nil)
		if err != nil {
			t.Fatalf("header %v was read but cannot be made: %v", h, err)
		}
		if back, err := readHeader(bytes.NewReader(again)); err != nil || back != h {
			t.Fatalf("header %v came back as %v, %v", h, back, err)
		}
	})
}
