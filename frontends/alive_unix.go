//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package frontends

// socketAlive tells whether the peer of fd has neither closed nor reset it.
func socketAlive(fd int, _ bool) bool { return peekAlive(fd) }
