package frontends

import (
	"encoding/binary"
	"syscall"
)

// tcpEstablished is TCP_ESTABLISHED of Linux's tcp_states.h.
const tcpEstablished = 1

// socketAlive tells whether the peer of fd has neither closed nor reset it. Below
// TLS the last bytes are the farewell of a peer that closes, so that bytes prove
// nothing: there the state of the connection decides.
func socketAlive(fd int, isTLS bool) bool {
	if !isTLS {
		return peekAlive(fd)
	}
	// The state is the first byte of struct tcp_info.
	v, err := syscall.GetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_INFO)
	if err != nil {
		return peekAlive(fd) // not TCP
	}
	var b [4]byte
	binary.NativeEndian.PutUint32(b[:], uint32(v))
	return b[0] == tcpEstablished
}
