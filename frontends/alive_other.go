//go:build !(linux || darwin || dragonfly || freebsd || netbsd || openbsd)

package frontends

// socketAlive cannot look without taking what it sees: it trusts the peer.
func socketAlive(int, bool) bool { return true }
