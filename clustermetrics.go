package broker

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/leasemq/broker/cluster/jetstream"
	"github.com/leasemq/broker/cluster/relay"
)

// figures lists what m tells.
func (m *clusterNode) figures() []figure {
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	m.mu.Lock()
	replica, led := m.replica, m.leader
	m.mu.Unlock()
	primary, epoch := 0.0, led.epoch
	if at := m.leads.Load(); at != 0 {
		primary, epoch = 1, at
	}
	list := []figure{
		{"broker_cluster_primary", "1 while this node is the primary of its cluster.", gauge, primary},
		{"broker_cluster_epoch", "The newest epoch that this node knows of since its start; 0: none.", gauge, float64(epoch)},
	}
	if db := m.node.db.Load(); db != nil {
		list = append(list, figure{"broker_cluster_applied_sequence", "The last record of the log that the state of this node has.", gauge, float64(db.Applied().Seq)})
	}
	if replica != nil {
		unsynced := 0.0
		if replica.Durability() == jetstream.Unsynced {
			unsynced = 1
		}
		list = append(list, figure{"broker_cluster_log_unsynced", "1 if a server of the log acknowledges what it has not fsynced.", gauge, unsynced})
	}
	if m.forwarder == nil {
		return list
	}
	return append(list, relayFigures(m.forwarder.Counts(), gauge, counter)...)
}

func relayFigures(c relay.ForwarderCounts, gauge, counter prometheus.ValueType) []figure {
	return []figure{
		{"broker_cluster_relayed_connections", "Connections of clients that this node relays to the primary.", gauge, float64(c.Open)},
		{"broker_cluster_relayed_total", "Connections of clients that were relayed to the primary.", counter, float64(c.Relayed)},
		{"broker_cluster_relay_refused_total", "Connections that were not relayed since there were too many.", counter, float64(c.Refused)},
		{"broker_cluster_relay_unserved_total", "Connections that were not relayed since no primary answered.", counter, float64(c.Unserved)},
	}
}

// clusterMetrics reads the figures of the cluster when it is scraped. A node that
// stands alone has none, so that it describes nothing.
type clusterMetrics struct{ node *Node }

// Describe implements prometheus.Collector.
func (clusterMetrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (m clusterMetrics) Collect(ch chan<- prometheus.Metric) {
	if m.node.cluster == nil {
		return
	}
	for _, f := range m.node.cluster.figures() {
		ch <- prometheus.MustNewConstMetric(f.desc(), f.kind, f.value)
	}
}
