package stomp

import (
	"context"
	"fmt"
	"math"
	"net"

	"github.com/leasemq/broker/frontends"
)

// wholeBatches is conn.chunk where a write must not be cut.
const wholeBatches = math.MaxInt

// ServeWebSocket speaks STOMP over WebSocket at /ws and /stomp until ctx is done;
// see frontends.Frontend. Frames and messages of WebSocket need not begin and end
// together. Answers are text for a client whose first message was text, and binary
// otherwise, or where they are not UTF-8.
func (s *Server) ServeWebSocket(ctx context.Context, ln net.Listener) error {
	l := s.listener(ln)
	stopSweep := s.sweep()
	defer stopSweep()
	web := frontends.WebSockets{
		Paths: []string{"/ws", "/stomp"}, Subprotocols: []string{"v12.stomp", "v11.stomp", "v10.stomp"}, Origins: s.options.Origins,
		Timeout: s.options.LoginTimeout, Logger: s.options.Logger, Conn: func(socket *frontends.WebSocket) { s.serveConn(ctx, socket) },
	}
	serving, err := web.Serve(ctx, l)
	if err != nil {
		err = fmt.Errorf("stomp: serve %s: %w", ln.Addr(), err)
	}
	s.drain(l, serving, err != nil)
	return err
}
