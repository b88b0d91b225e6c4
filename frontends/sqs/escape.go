package sqs

import (
	"encoding/binary"
	"unicode/utf8"
	"unsafe"
)

const hexDigits = "0123456789abcdef"

// bytesOf returns s as bytes without a copy. Nobody writes to them.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// appendQuoted appends b as a JSON string.
func appendQuoted(dst, b []byte) []byte {
	dst = append(dst, '"')
	dst = appendJSON(dst, b)
	return append(dst, '"')
}

// appendJSON appends b as it stands within a JSON string. What is not UTF-8
// becomes U+FFFD.
func appendJSON(dst, b []byte) []byte {
	for len(b) > 0 {
		n, ascii := plain(b)
		if ascii || utf8.Valid(b[:n]) {
			dst = append(dst, b[:n]...)
		} else {
			dst = appendValid(dst, b[:n])
		}
		if n == len(b) {
			return dst
		}
		switch c := b[n]; c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xF])
		}
		b = b[n+1:]
	}
	return dst
}

// appendValid appends b with U+FFFD for each byte that is not UTF-8.
func appendValid(dst, b []byte) []byte {
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		dst = utf8.AppendRune(dst, r)
		b = b[n:]
	}
	return dst
}

// appendXML appends b as it stands within an XML element. What XML 1.0 cannot
// say becomes U+FFFD. A carriage return is escaped, since a parser would make a
// newline of it (XML 1.0, 2.11).
func appendXML(dst, b []byte) []byte {
	for len(b) > 0 {
		n, ascii := plainXML(b)
		if ascii || utf8.Valid(b[:n]) && !hasNonCharacter(b[:n]) {
			dst = append(dst, b[:n]...)
		} else {
			dst = appendValidXML(dst, b[:n])
		}
		if n == len(b) {
			return dst
		}
		switch b[n] {
		case '&':
			dst = append(dst, "&amp;"...)
		case '<':
			dst = append(dst, "&lt;"...)
		case '>':
			dst = append(dst, "&gt;"...)
		case '"':
			dst = append(dst, "&quot;"...)
		case '\r':
			dst = append(dst, "&#xD;"...)
		case '\n', '\t':
			dst = append(dst, b[n])
		default:
			dst = utf8.AppendRune(dst, utf8.RuneError)
		}
		b = b[n+1:]
	}
	return dst
}

// plainXML returns how many bytes b starts with that stand for themselves in
// XML; bytes of 0x80 and above count, ascii tells whether there were none.
func plainXML(b []byte) (n int, ascii bool) {
	var seen uint64
	for len(b)-n >= 8 {
		w := binary.LittleEndian.Uint64(b[n:])
		stop := zeroByte(w^'&'*ones) | zeroByte(w^'<'*ones) | zeroByte(w^'>'*ones) | zeroByte(w^'"'*ones)
		if stop|(w-0x20*ones)&^w&highs != 0 {
			break
		}
		seen |= w
		n += 8
	}
	ascii = seen&highs == 0
	for ; n < len(b); n++ {
		switch c := b[n]; {
		case c < 0x20 || c == '&' || c == '<' || c == '>' || c == '"':
			return n, ascii
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	return n, ascii
}

// appendValidXML is appendValid without the non-characters that XML forbids.
func appendValidXML(dst, b []byte) []byte {
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == 0xFFFE || r == 0xFFFF {
			r = utf8.RuneError
		}
		dst = utf8.AppendRune(dst, r)
		b = b[n:]
	}
	return dst
}
