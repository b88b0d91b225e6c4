package sqs

import (
	"syscall"

	"github.com/leasemq/broker/frontends"
)

// peerAlive tells whether the client of this request is still there. It looks
// at the socket and waits for nothing. Bytes of a next request count as life, and
// so does whatever cannot be looked at.
func (c *call) peerAlive() bool {
	conn := c.http.Conn()
	sc, ok := frontends.Unwrap(conn).(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false // it is closed
	}
	alive := true
	// Control, not Read: the read deadline has passed long since.
	err = raw.Control(func(fd uintptr) { alive = socketAlive(int(fd), frontends.IsTLS(conn)) })
	return alive && err == nil
}
