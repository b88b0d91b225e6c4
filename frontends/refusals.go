package frontends

import (
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"
)

// Bounds of what is logged of refused logins.
const (
	refusalsEvery = 10 * time.Second
	refusalsMax   = 10 // one by one in that time
	refusedName   = 64 // bytes of a user's name
)

// Refusals logs logins that a frontend has refused: ten of each ten seconds, and
// with the next one how many were left out. So whoever guesses is seen, and cannot
// fill the disk. It is made by NewRefusals.
type Refusals struct {
	log  *slog.Logger
	wire string

	mu    sync.Mutex
	since time.Time
	n     int // since then
}

// NewRefusals returns the log of a frontend of that name.
func NewRefusals(wire string, log *slog.Logger) *Refusals { return &Refusals{log: log, wire: wire} }

// Note logs that a login as user was refused to peer. It is not told what else was
// sent: a password is in no log.
func (r *Refusals) Note(peer net.Addr, user string) {
	r.mu.Lock()
	now, left := time.Now(), 0
	if now.Sub(r.since) >= refusalsEvery {
		left = max(r.n-refusalsMax, 0)
		r.since, r.n = now, 0
	}
	r.n++
	few := r.n <= refusalsMax
	r.mu.Unlock()
	if !few {
		return
	}
	attrs := []any{"frontend", r.wire, "peer", peer.String(), "user", strings.ToValidUTF8(user[:min(len(user), refusedName)], "?")}
	if left > 0 {
		attrs = append(attrs, "more_before", left)
	}
	r.log.Warn("login refused", attrs...)
}
