package broker

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/leasemq/broker/frontends/stomp"
)

// stompFigures lists what s tells, but for the frames.
func stompFigures(s *stomp.Stats) []figure {
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	return []figure{
		{"broker_stomp_connections", "Open connections of STOMP.", gauge, float64(s.Connections)},
		{"broker_stomp_sessions", "Connections of STOMP that have logged in.", gauge, float64(s.Sessions)},
		{"broker_stomp_subscriptions", "Subscriptions of STOMP.", gauge, float64(s.Subscriptions)},
		{"broker_stomp_unacknowledged_messages", "Messages that STOMP clients hold.", gauge, float64(s.Unacked)},
		{"broker_stomp_subscriptions_out_of_credit", "Subscriptions of STOMP that wait for an acknowledgement.", gauge, float64(s.OutOfCredit)},
		{"broker_stomp_connections_out_of_room", "Connections of STOMP whose clients read too slowly.", gauge, float64(s.OutOfRoom)},
		{"broker_stomp_connections_refused_total", "Connections of STOMP beyond the limits.", counter, float64(s.Refused)},
		{"broker_stomp_delivered_messages_total", "Messages delivered by STOMP.", counter, float64(s.Delivered)},
		{"broker_stomp_acked_messages_total", "Messages acknowledged by STOMP, those of auto mode too.", counter, float64(s.Acked)},
		{"broker_stomp_nacked_messages_total", "Messages rejected by STOMP.", counter, float64(s.Nacked)},
		{"broker_stomp_stalled_total", "Connections of STOMP that were ended because the client took nothing.", counter, float64(s.Stalled)},
		{"broker_stomp_slow_subscribers_total", "Connections of STOMP that were ended because messages of a topic came too fast.", counter, float64(s.SlowSubscribers)},
		{"broker_stomp_held_too_long_total", "Connections of STOMP that were ended because a message was held too long.", counter, float64(s.HeldTooLong)},
		{"broker_stomp_topic_copies_refused_total", "Copies of messages that STOMP sent to a topic, and that a full queue refused.", counter, float64(s.TopicFull)},
	}
}

// stompMetrics reads the counts of the STOMP frontend when it is scraped.
type stompMetrics struct {
	server *stomp.Server
	frames *prometheus.Desc
}

func newSTOMPMetrics(server *stomp.Server) stompMetrics {
	return stompMetrics{server, prometheus.NewDesc("broker_stomp_frames_total", "Frames of STOMP.", []string{"direction", "command"}, nil)}
}

// Describe implements prometheus.Collector.
func (m stompMetrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- m.frames
	for _, f := range stompFigures(&stomp.Stats{}) {
		ch <- f.desc()
	}
}

// Collect implements prometheus.Collector.
func (m stompMetrics) Collect(ch chan<- prometheus.Metric) {
	s := m.server.Stats()
	for _, f := range stompFigures(&s) {
		ch <- prometheus.MustNewConstMetric(f.desc(), f.kind, f.value)
	}
	for direction, frames := range map[string]map[string]int64{"in": s.FramesIn, "out": s.FramesOut} {
		for command, n := range frames {
			ch <- prometheus.MustNewConstMetric(m.frames, prometheus.CounterValue, float64(n), direction, command)
		}
	}
}
