package mqtt

import (
	"context"
	"fmt"
	"net"

	"github.com/leasemq/broker/frontends"
)

// ServeWebSocket speaks MQTT over WebSocket at /mqtt and / until ctx is done; see
// frontends.Frontend. Packets and messages of WebSocket need not begin and end
// together.
func (s *Server) ServeWebSocket(ctx context.Context, ln net.Listener) error {
	l := s.listener(ln)
	s.enter()
	defer s.leave()
	web := frontends.WebSockets{
		Paths: []string{"/mqtt", "/"}, Subprotocols: []string{"mqtt", "mqttv3.1"}, Origins: s.options.Origins, BinaryOnly: true,
		Timeout: s.options.LoginTimeout, Logger: s.options.Logger, Conn: func(socket *frontends.WebSocket) { s.serveConn(ctx, socket) },
	}
	serving, err := web.Serve(ctx, l)
	if err != nil {
		err = fmt.Errorf("mqtt: serve %s: %w", ln.Addr(), err)
	}
	s.drain(l, serving, err != nil)
	return err
}
