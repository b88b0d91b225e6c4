//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package frontends

import "syscall"

// peekAlive looks at the next byte of fd and leaves it there.
func peekAlive(fd int) bool {
	var b [1]byte
	n, _, err := syscall.Recvfrom(fd, b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	switch err {
	case nil:
		return n > 0 // 0 is the end of the stream
	case syscall.EAGAIN, syscall.EINTR:
		return true
	}
	return false
}
