package stomp

import (
	"time"

	"github.com/leasemq/broker/frontends"
)

// claimWait is how long a client may take to be gone before it is back.
const claimWait = 5 * time.Second

// claim takes a client-id, which one connection at a time has. One whose peer has
// vanished loses it.
func (c *conn) claim(id string) error {
	if id == "" {
		return nil
	}
	if len(id) > subscriptionID {
		return invalidHeader("client-id", id, "of at most 1024 bytes")
	}
	s := c.server
	late := time.NewTimer(claimWait)
	defer late.Stop()
	for {
		s.mu.Lock()
		old := s.ids[id]
		if old == nil {
			s.ids[id] = c
			s.mu.Unlock()
			c.clientID = id
			return nil
		}
		s.mu.Unlock()
		if !old.leaving() {
			if frontends.PeerAlive(old.socket) {
				return fail("Client-id in use", "Another connection has the client-id '%.200s'.", id)
			}
			old.end(nil)
		}
		select {
		case <-old.gone:
		case <-late.C:
			return fail("Client-id in use", "Another connection has the client-id '%.200s'.", id)
		case <-c.ctx.Done():
			return shuttingDown()
		}
	}
}

// leaving tells whether a connection has ended, and only cleans up.
func (c *conn) leaving() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}

// disclaim gives up the client-id of a connection.
func (s *Server) disclaim(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.clientID != "" && s.ids[c.clientID] == c {
		delete(s.ids, c.clientID)
	}
}
