package sqs

import (
	"context"
	"strings"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends"
)

// peerAlive tells whether the client of this request is still there.
func (c *call) peerAlive() bool {
	c.parked = true
	return frontends.PeerAlive(c.http.Conn())
}

// giveBackUnsent looks after the messages of a long poll whose client may have
// gone since it was woken. They are handed back if it has, or if the answer
// cannot be written, instead of staying invisible.
func (c *call) giveBackUnsent(queue string) {
	if !c.parked || len(c.deliveries) == 0 {
		return
	}
	client, queue := c.client, strings.Clone(queue)
	held := make([]core.Settlement, len(c.deliveries))
	for i := range held {
		held[i] = core.Settlement{Receipt: c.deliveries[i].Receipt, Action: core.SettleRelease}
	}
	giveBack := func() {
		// An error leaves them to their visibility timeout.
		_, _ = client.Settle(context.Background(), queue, held, nil)
	}
	if !c.peerAlive() {
		giveBack()
		c.deliveries = c.deliveries[:0]
		c.http.SetConnectionClose()
		return
	}
	if conn, ok := c.http.Conn().(*frontends.Conn); ok {
		conn.OnUnsent(giveBack)
	}
}
