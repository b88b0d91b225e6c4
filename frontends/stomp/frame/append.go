package frame

import (
	"strconv"
	"strings"
)

// AppendHeader appends one header in the form of v, for any command but CONNECT
// and CONNECTED.
//
// 1.0 has no escapes: there an end of line becomes a space, and a header whose
// name cannot be told is left out. A NUL cannot be told in any version; it
// becomes a space too.
func AppendHeader[T string | []byte](b []byte, v Version, name string, value T) []byte {
	if v == V10 && strings.ContainsAny(name, ":\n\r\x00") {
		return b
	}
	b = AppendValue(b, v, name)
	b = append(b, ':')
	b = AppendValue(b, v, value)
	return append(b, '\n')
}

// AppendValue appends s, which is part of a header, with the escapes of v.
func AppendValue[T string | []byte](b []byte, v Version, s T) []byte {
	from := 0
	for i := range len(s) {
		var with string
		switch c := s[i]; {
		case c == 0:
			with = " "
		case c > '\\' || c != '\n' && c != ':' && c != '\\' && c != '\r':
			continue
		case v == V10:
			if c == ':' || c == '\\' {
				continue
			}
			with = " "
		case c == '\n':
			with = `\n`
		case c == ':':
			with = `\c`
		case c == '\\':
			with = `\\`
		case v == V12: // a carriage return
			with = `\r`
		default:
			continue
		}
		b = append(b, s[from:i]...)
		b = append(b, with...)
		from = i + 1
	}
	return append(b, s[from:]...)
}

// AppendCommand begins a frame.
func AppendCommand(b []byte, command string) []byte {
	return append(append(b, command...), '\n')
}

// AppendBody appends content-length, the body and the end of the frame.
func AppendBody(b, body []byte) []byte {
	b = append(b, "content-length:"...)
	b = strconv.AppendInt(b, int64(len(body)), 10)
	b = append(b, "\n\n"...)
	b = append(b, body...)
	return append(b, 0, '\n')
}

// AppendEnd ends a frame that has no body.
func AppendEnd(b []byte) []byte { return append(b, '\n', 0, '\n') }

// Append appends f whole. It adds content-length if there is a body; one among
// the headers is left out.
func Append(b []byte, v Version, f *Frame) []byte {
	b = AppendCommand(b, f.Command)
	for i := range f.Headers {
		h := &f.Headers[i]
		switch {
		case h.Name == ContentLength:
		case escaped(V12, f.Command):
			b = AppendHeader(b, v, h.Name, h.Value)
		default:
			b = AppendHeader(b, V10, h.Name, h.Value)
		}
	}
	if len(f.Body) == 0 {
		return AppendEnd(b)
	}
	return AppendBody(b, f.Body)
}
