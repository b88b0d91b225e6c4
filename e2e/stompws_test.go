package e2e

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// stompWSQuiet is how long a raw connection is listened to.
const stompWSQuiet = 4 * time.Second

// wsFrame is one masked frame of WebSocket.
func wsFrame(first byte, payload string) []byte {
	b := []byte{first}
	if len(payload) < 126 {
		b = append(b, 0x80|byte(len(payload)))
	} else {
		b = binary.BigEndian.AppendUint16(append(b, 0x80|126), uint16(len(payload)))
	}
	mask := []byte{1, 2, 3, 4}
	b = append(b, mask...)
	for i := range len(payload) {
		b = append(b, payload[i]^mask[i%4])
	}
	return b
}

// upgradeRaw opens a WebSocket connection whose frames are the test's own.
func upgradeRaw(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, startMax)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(startMax)); err != nil {
		t.Fatal(err)
	}
	_, err = io.WriteString(conn, "GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: v12.stomp\r\n\r\n")
	if err != nil {
		t.Fatal(err)
	}
	var head []byte
	for one := make([]byte, 1); !strings.HasSuffix(string(head), "\r\n\r\n"); head = append(head, one...) {
		if _, err := io.ReadFull(conn, one); err != nil {
			t.Fatalf("upgrade: %v after %q", err, head)
		}
	}
	return conn
}

// TestSTOMPOverOddWebSocketFrames sends frames of STOMP in fragments of a byte, with
// pings in between, and what WebSocket does not allow.
func TestSTOMPOverOddWebSocketFrames(t *testing.T) {
	n := startNode(t, "--memory")
	session := "CONNECT\naccept-version:1.2\nhost:x\n\n\x00SEND\ndestination:/queue/q\nreceipt:r\n\nhi\x00DISCONNECT\nreceipt:end\n\n\x00"
	var pieces []byte
	for i := range len(session) {
		first := byte(0) // a continuation
		if i == 0 {
			first = 1 // text
		}
		if i == len(session)-1 {
			first |= 0x80
		}
		pieces = append(pieces, wsFrame(first, session[i:i+1])...)
		if i%10 == 5 {
			pieces = append(pieces, wsFrame(0x89, "ping")...)
		}
	}
	for name, c := range map[string]struct {
		wire []byte
		want string
	}{
		"fragments and pings":  {pieces, "receipt-id:end"},
		"no mask":              {[]byte{0x82, 1, 'x'}, "\x88"},
		"an unknown opcode":    {wsFrame(0x85, "x"), "\x88"},
		"a large ping":         {wsFrame(0x89, strings.Repeat("x", 200)), "\x88"},
		"a ping in fragments":  {wsFrame(0x09, "x"), "\x88"},
		"a continuation first": {wsFrame(0x80, "x"), "\x88"},
		"a close":              {wsFrame(0x88, "\x03\xe8"), "\x88"},
		"no STOMP":             {wsFrame(0x82, "\x01\x02\n\n\x00"), "Not connected"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := upgradeRaw(t, n.ws)
			if _, err := conn.Write(c.wire); err != nil && !closedByPeer(err) {
				t.Fatal(err)
			}
			_ = conn.SetReadDeadline(time.Now().Add(stompWSQuiet))
			got, err := io.ReadAll(conn)
			if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) && !closedByPeer(err) {
				t.Error(err)
			}
			if !strings.Contains(string(got), c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	t.Run("still well", func(t *testing.T) {
		p := dialSTOMP(t, n.stomp)
		p.must(t, "SEND", "x", "destination", "/queue/q")
	})
}
