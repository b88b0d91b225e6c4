package stomp

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
)

// greetingMax is how many bytes tell another protocol from STOMP.
const greetingMax = 8

// foreign tells which other protocol the first bytes of a connection belong to,
// nil if to none that is known, or not yet. No command of STOMP begins like one.
func foreign(first []byte) *fault {
	if len(first) == 0 {
		return nil
	}
	switch first[0] {
	case 0x16: // a handshake record
		return fail("TLS on a plain port", "This port speaks STOMP without TLS: connect without it, or to a port of stomp.tls_listen.")
	case 0x10: // a CONNECT packet
		return fail("MQTT on a STOMP port", "This port speaks STOMP, not MQTT.")
	}
	switch {
	case bytes.HasPrefix(first, []byte("AMQP")):
		return fail("AMQP on a STOMP port", "This port speaks STOMP, not AMQP.")
	case isHTTP(first):
		f := fail("HTTP on a STOMP port", "This port speaks STOMP over TCP. STOMP over WebSocket is at stomp.ws_listen, SQS at sqs.listen.")
		f.http = true
		return f
	}
	return nil
}

func isHTTP(first []byte) bool {
	method, _, ok := strings.Cut(string(first), " ")
	if !ok {
		return false
	}
	switch method {
	case "GET", "PUT", "POST", "HEAD", "PATCH", "DELETE", "OPTIONS", "PRI":
		return true
	}
	return false
}

// greet looks at the first bytes of a connection.
func (c *conn) greet(p []byte) error {
	n := min(len(p), greetingMax-len(c.greeting))
	if n <= 0 {
		return nil
	}
	c.greeting = append(c.greeting, p[:n]...)
	if f := foreign(c.greeting); f != nil {
		return f
	}
	return nil
}

// noTLS tells a client that speaks no TLS to a port that does, in the clear: it
// knows no other language.
func noTLS(err error) []byte {
	var plain tls.RecordHeaderError
	if !errors.As(err, &plain) || plain.Conn == nil {
		return nil
	}
	f := fail("No TLS on a TLS port", "This port speaks STOMP over TLS alone.")
	f.http = isHTTP(plain.RecordHeader[:])
	return appendError(nil, 0, f, "")
}

// appendHTTP appends what an HTTP client understands.
func (f *fault) appendHTTP(b []byte) []byte {
	text := f.message + ": " + f.detail + "\n"
	return fmt.Appendf(b, "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(text), text)
}
