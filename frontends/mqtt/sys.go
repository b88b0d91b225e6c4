package mqtt

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends/mqtt/wire"
)

// systemEvery is how often what is below $SYS is told.
const systemEvery = 10 * time.Second

// counts are what is told below $SYS.
type counts struct {
	sockets  atomic.Int64
	connects atomic.Int64
	offline  atomic.Int64 // sessions at the start
	bytesIn  atomic.Int64
	bytesOut atomic.Int64
	packets  atomic.Int64
	received atomic.Int64 // PUBLISH of clients
	sent     atomic.Int64 // and to clients
	dropped  atomic.Int64
	tooLarge atomic.Int64
}

func (n *counts) packetIn(*wire.Packet) { n.packets.Add(1) }

// tellSystem publishes below $SYS, with the names of Mosquitto.
func (s *Server) tellSystem(ctx context.Context) {
	tick := time.NewTicker(systemEvery)
	defer tick.Stop()
	told := make(map[string]string)
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		for topic, value := range s.system() {
			if told[topic] == value {
				continue
			}
			told[topic] = value
			_ = s.client.PublishTopicAsync(core.TopicPublish{Topic: topic, Unreliable: true, Messages: []core.Message{{
				Body: []byte(value), Origin: core.OriginMQTT, Attributes: []core.Attribute{property(propQoS, []byte("0"))},
			}}}, nil) // the next comes soon
		}
	}
}

// system returns what is below $SYS.
func (s *Server) system() map[string]string {
	n := &s.counts
	number := func(v int64) string { return strconv.FormatInt(v, 10) }
	connected := number(int64(s.registry.connected()))
	return map[string]string{
		"$SYS/broker/version":                   "LeaseMQ " + s.options.Version,
		"$SYS/broker/uptime":                    number((s.now()-s.openedAt)/1000) + " seconds",
		"$SYS/broker/clients/connected":         connected,
		"$SYS/broker/clients/active":            connected,
		"$SYS/broker/messages/received":         number(n.packets.Load()),
		"$SYS/broker/publish/messages/received": number(n.received.Load()),
		"$SYS/broker/publish/messages/sent":     number(n.sent.Load()),
		"$SYS/broker/publish/messages/dropped":  number(n.dropped.Load() + n.tooLarge.Load()),
		"$SYS/broker/bytes/received":            number(n.bytesIn.Load()),
		"$SYS/broker/bytes/sent":                number(n.bytesOut.Load()),
	}
}
