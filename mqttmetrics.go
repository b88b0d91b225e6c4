package broker

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/leasemq/broker/frontends/mqtt"
)

// mqttFigures lists what s tells.
func mqttFigures(s *mqtt.Stats) []figure {
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	return []figure{
		{"broker_mqtt_connections", "Open connections of MQTT.", gauge, float64(s.Connections)},
		{"broker_mqtt_sessions", "Connections of MQTT that have logged in.", gauge, float64(s.Sessions)},
		{"broker_mqtt_connects_total", "Logins of MQTT.", counter, float64(s.Connects)},
		{"broker_mqtt_packets_in_total", "Packets of MQTT clients.", counter, float64(s.PacketsIn)},
		{"broker_mqtt_received_messages_total", "Messages that MQTT clients published.", counter, float64(s.PublishIn)},
		{"broker_mqtt_delivered_messages_total", "Messages delivered by MQTT, repetitions too.", counter, float64(s.PublishOut)},
		{"broker_mqtt_dropped_messages_total", "Messages with QoS 0 that MQTT clients published and that could not be taken.", counter, float64(s.Dropped)},
		{"broker_mqtt_too_large_messages_total", "Messages that were skipped since they were larger than their MQTT clients take.", counter, float64(s.TooLarge)},
		{"broker_mqtt_bytes_in_total", "Bytes that MQTT clients sent.", counter, float64(s.BytesIn)},
		{"broker_mqtt_bytes_out_total", "Bytes that MQTT clients were sent.", counter, float64(s.BytesOut)},
	}
}

// mqttMetrics reads the counts of the MQTT frontend when it is scraped.
type mqttMetrics struct{ server *mqtt.Server }

// Describe implements prometheus.Collector.
func (m mqttMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range mqttFigures(&mqtt.Stats{}) {
		ch <- f.desc()
	}
}

// Collect implements prometheus.Collector.
func (m mqttMetrics) Collect(ch chan<- prometheus.Metric) {
	s := m.server.Stats()
	for _, f := range mqttFigures(&s) {
		ch <- prometheus.MustNewConstMetric(f.desc(), f.kind, f.value)
	}
}
