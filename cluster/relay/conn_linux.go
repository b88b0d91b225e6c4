package relay

import "golang.org/x/sys/unix"

// tcpEstablished is TCP_ESTABLISHED of Linux's tcp_states.h.
const tcpEstablished = 1

// established tells whether neither side has ended the connection of fd.
func established(fd int) bool {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	return err != nil || info.State == tcpEstablished // an error: it is not TCP
}
