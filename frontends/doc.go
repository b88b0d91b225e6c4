// Package frontends holds what all wires share: the Frontend contract and a
// Listener that counts, bounds and closes its connections.
//
// A frontend translates the words of one protocol onto the core and imports
// the core and this package only. It never imports another frontend.
//
// # Who may call what
//
// Each method may be called from any goroutine. The one lock, Listener.mu,
// guards the set of connections; it is never held over IO or a callback.
package frontends

import (
	"context"
	"net"
)

// Frontend speaks one protocol.
type Frontend interface {
	// Name is what --frontends calls it, such as "sqs".
	Name() string
	// Serve accepts connections on ln until ctx is done. Then it drains: it
	// stops accepting, lets requests in flight have their answers, closes every
	// connection and returns nil. It takes at most DrainMax for that, closes ln,
	// and returns an error only if ln fails while ctx is not done. A frontend
	// serves several listeners at once by several calls.
	Serve(ctx context.Context, ln net.Listener) error
}
