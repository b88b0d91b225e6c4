package frontends

import (
	"net"
	"syscall"
)

// PeerAlive tells whether the peer of c is still there. It looks at the socket and
// waits for nothing. Bytes that have come and are not read yet count as life, and
// so does whatever cannot be looked at.
func PeerAlive(c net.Conn) bool {
	sc, ok := Unwrap(c).(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false // it is closed
	}
	alive := true
	// Control, not Read: the read deadline may have passed long since.
	err = raw.Control(func(fd uintptr) { alive = socketAlive(int(fd), IsTLS(c)) })
	return alive && err == nil
}
