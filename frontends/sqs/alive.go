package sqs

import (
	"context"
	"strings"
	"syscall"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends"
)

// peerAlive tells whether the client of this request is still there. It looks
// at the socket and waits for nothing. Bytes of a next request count as life, and
// so does whatever cannot be looked at.
func (c *call) peerAlive() bool {
	c.parked = true
	conn := c.http.Conn()
	sc, ok := frontends.Unwrap(conn).(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false // it is closed
	}
	alive := true
	// Control, not Read: the read deadline has passed long since.
	err = raw.Control(func(fd uintptr) { alive = socketAlive(int(fd), frontends.IsTLS(conn)) })
	return alive && err == nil
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
