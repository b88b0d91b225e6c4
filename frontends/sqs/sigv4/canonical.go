package sigv4

import (
	"bytes"
	"encoding/hex"
	"slices"
)

// pairsMax bounds the parameters of a query.
const pairsMax = 4096

// pair is a parameter of the query.
type pair struct {
	name, value []byte // in the canonical encoding
	raw         []byte // the value as it was sent
}

func comparePairs(a, b pair) int {
	if n := bytes.Compare(a.name, b.name); n != 0 {
		return n
	}
	return bytes.Compare(a.value, b.value)
}

// readQuery splits and sorts the query.
func (c *Claim) readQuery() error {
	for rest := c.request.Query; len(rest) > 0; {
		var field []byte
		if field, rest, _ = bytes.Cut(rest, []byte{'&'}); len(field) == 0 {
			continue
		}
		if len(c.query) == pairsMax {
			return refuse(Incomplete, "There are too many query-string parameters.")
		}
		name, value, _ := bytes.Cut(field, []byte{'='})
		p := pair{raw: value}
		start := len(c.text)
		c.text = appendQueryEscaped(c.text, name)
		p.name = c.text[start:]
		start = len(c.text)
		c.text = appendQueryEscaped(c.text, value)
		p.value = c.text[start:]
		c.query = append(c.query, p)
	}
	slices.SortFunc(c.query, comparePairs)
	return nil
}

// parameter returns the value of a parameter and how often it is there.
func (c *Claim) parameter(name string) (value []byte, times int) {
	for i := range c.query {
		if string(c.query[i].name) != name {
			continue
		}
		if times++; times == 1 {
			start := len(c.text)
			c.text = appendUnescaped(c.text, c.query[i].raw)
			value = c.text[start:]
		}
	}
	return value, times
}

// appendCanonical appends the canonical request. normalize resolves dots and
// repeated slashes in the path.
func (c *Claim) appendCanonical(b []byte, normalize bool) []byte {
	b = append(b, c.request.Method...)
	b = append(b, '\n')
	if normalize {
		b = appendNormalized(b, c.request.Path)
	} else {
		b = appendPath(b, c.request.Path)
	}
	b = append(b, '\n')
	b = c.appendQuery(b)
	b = append(b, '\n')
	b = c.appendHeaders(b)
	b = append(b, '\n')
	b = append(b, c.signed...)
	b = append(b, '\n')
	if c.unsigned {
		return append(b, unsignedWord...)
	}
	return append(b, c.hash[:]...)
}

// appendPath appends the path encoded once more than it was sent, as every
// service but S3 has it.
func appendPath(b, path []byte) []byte {
	if len(path) == 0 {
		return append(b, '/')
	}
	for _, c := range path {
		if c == '/' {
			b = append(b, c)
		} else {
			b = appendEscaped(b, c)
		}
	}
	return b
}

// hasDots tells whether normalizing changes path.
func hasDots(path []byte) bool {
	return bytes.Contains(path, []byte("//")) || bytes.Contains(path, []byte("/."))
}

// appendNormalized is appendPath of the normalized path.
func appendNormalized(b, path []byte) []byte {
	start := len(b)
	open := bytes.HasSuffix(path, []byte{'/'})
	for len(path) > 0 {
		var segment []byte
		segment, path, _ = bytes.Cut(path, []byte{'/'})
		switch string(segment) {
		case "", ".":
		case "..":
			b = b[:start+max(0, bytes.LastIndexByte(b[start:], '/'))]
		default:
			b = appendPath(append(b, '/'), segment)
		}
	}
	if open || len(b) == start {
		b = append(b, '/')
	}
	return b
}

// appendQuery appends the sorted query, without the signature itself.
func (c *Claim) appendQuery(b []byte) []byte {
	start := len(b)
	for i := range c.query {
		p := &c.query[i]
		if string(p.name) == parameterSignature {
			continue
		}
		if len(b) > start {
			b = append(b, '&')
		}
		b = append(b, p.name...)
		b = append(b, '=')
		b = append(b, p.value...)
	}
	return b
}

// appendHeaders appends the signed headers in the order in which they were
// signed.
func (c *Claim) appendHeaders(b []byte) []byte {
	for rest := c.signed; len(rest) > 0; {
		var name []byte
		name, rest, _ = bytes.Cut(rest, []byte{';'})
		b = append(b, name...)
		b = append(b, ':')
		for i, value := range c.request.Header.PeekAll(view(name)) {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendFolded(b, value)
		}
		b = append(b, '\n')
	}
	return b
}

// appendFolded appends value without spaces at its ends, and with one for each
// run of them within it.
func appendFolded(b, value []byte) []byte {
	start := len(b)
	gap := false
	for _, c := range value {
		if c == ' ' || '\t' <= c && c <= '\r' {
			gap = true
			continue
		}
		if gap && len(b) > start {
			b = append(b, ' ')
		}
		gap = false
		b = append(b, c)
	}
	return b
}

// appendQueryEscaped brings what was sent in a query into the one encoding of
// the canonical request.
func appendQueryEscaped(b, sent []byte) []byte {
	for i := 0; i < len(sent); i++ {
		c, n := unescape(sent[i:])
		b = appendEscaped(b, c)
		i += n - 1
	}
	return b
}

func appendUnescaped(b, sent []byte) []byte {
	for i := 0; i < len(sent); i++ {
		c, n := unescape(sent[i:])
		b = append(b, c)
		i += n - 1
	}
	return b
}

// unescape returns the first character of a query and how many bytes it takes.
func unescape(b []byte) (c byte, n int) {
	switch {
	case b[0] == '+':
		return ' ', 1
	case b[0] == '%' && len(b) > 2:
		var d [1]byte
		if _, err := hex.Decode(d[:], b[1:3]); err == nil {
			return d[0], 3
		}
	}
	return b[0], 1
}

// appendEscaped escapes all but the unreserved characters of RFC 3986.
func appendEscaped(b []byte, c byte) []byte {
	if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~' {
		return append(b, c)
	}
	const digits = "0123456789ABCDEF"
	return append(b, '%', digits[c>>4], digits[c&0xF])
}
