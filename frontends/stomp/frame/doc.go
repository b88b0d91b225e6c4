// Package frame reads and writes the frames of STOMP 1.0, 1.1 and 1.2.
//
// A Reader enforces its limits while it reads: it never holds more than a peer
// has sent, twice that at most, plus a small buffer. What it returns are views
// that are valid until the next Read. The Append functions write into the
// caller's buffer, so that many frames go out with one call of Write.
//
// Nothing here is safe for concurrent use, and nothing starts a goroutine.
package frame
