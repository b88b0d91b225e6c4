package mqtt

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/core/match"
)

// systemPrefix begins the topics of what the server tells about itself.
const systemPrefix = "$SYS/"

// systemEvery is how often what is below $SYS is told.
const systemEvery = 10 * time.Second

// counts are what is told below $SYS.
type counts struct {
	sockets  atomic.Int64
	connects atomic.Int64
	most     atomic.Int64 // connections that were seen at the same time
	bytesIn  atomic.Int64
	bytesOut atomic.Int64
	packets  atomic.Int64
	received atomic.Int64 // PUBLISH of clients
	sent     atomic.Int64 // and to clients
	dropped  atomic.Int64
	tooLarge atomic.Int64
}

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
			m := core.Message{Body: []byte(value), Origin: core.OriginMQTT, Attributes: []core.Attribute{property(propQoS, []byte("0"))}}
			_ = s.client.PublishTopicAsync(core.TopicPublish{Topic: topic, Unreliable: true, Messages: []core.Message{m}}, nil) // the next comes soon
		}
	}
}

// takeSystem has a new subscription told what there is below $SYS.
func (r *replay) takeSystem() {
	for topic, value := range r.conn.server.system() {
		if match.Matches(r.sub.Filter, topic) {
			r.rest = append(r.rest, core.Message{Body: []byte(value), Topic: topic, Delay: -1, Origin: core.OriginMQTT, Attributes: []core.Attribute{
				property(propQoS, []byte("0")), property(propRetained, []byte(r.sub.Filter)),
			}})
		}
	}
}

// system returns what is below $SYS.
func (s *Server) system() map[string]string {
	n := &s.counts
	number := func(v int64) string { return strconv.FormatInt(v, 10) }
	online := int64(s.registry.connected())
	n.most.Store(max(n.most.Load(), online))
	connected := number(online)
	return map[string]string{
		"$SYS/broker/version":                   "LeaseMQ " + s.options.Version,
		"$SYS/broker/uptime":                    number((s.now()-s.openedAt)/1000) + " seconds",
		"$SYS/broker/clients/connected":         connected,
		"$SYS/broker/clients/active":            connected,
		"$SYS/broker/clients/maximum":           number(n.most.Load()),
		"$SYS/broker/connections/socket/count":  number(n.connects.Load()),
		"$SYS/broker/messages/received":         number(n.packets.Load()),
		"$SYS/broker/publish/messages/received": number(n.received.Load()),
		"$SYS/broker/publish/messages/sent":     number(n.sent.Load()),
		"$SYS/broker/publish/messages/dropped":  number(n.dropped.Load() + n.tooLarge.Load()),
		"$SYS/broker/bytes/received":            number(n.bytesIn.Load()),
		"$SYS/broker/bytes/sent":                number(n.bytesOut.Load()),
	}
}
