package broker

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/leasemq/broker/storage"
)

// requestMetrics counts the requests of the SQS frontend and measures them.
type requestMetrics struct {
	seconds *prometheus.HistogramVec
}

func newRequestMetrics() *requestMetrics {
	return &requestMetrics{seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "broker_sqs_request_seconds",
		Help:    "Time to answer SQS requests, the wait of long polls included, by action and error code.",
		Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20},
	}, []string{"action", "code"})}
}

func (m *requestMetrics) observe(action, code string, took time.Duration) {
	m.seconds.WithLabelValues(action, code).Observe(took.Seconds())
}

// Describe implements prometheus.Collector.
func (m *requestMetrics) Describe(ch chan<- *prometheus.Desc) { m.seconds.Describe(ch) }

// Collect implements prometheus.Collector.
func (m *requestMetrics) Collect(ch chan<- prometheus.Metric) { m.seconds.Collect(ch) }

// newFsyncHistogram measures the fsyncs of the log.
func newFsyncHistogram() prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "broker_fsync_seconds",
		Help:    "Time of an fsync of the log.",
		Buckets: prometheus.ExponentialBuckets(.0001, 2, 16), // 0.1 ms to 3.3 s
	})
}

// newBuildInfo is 1, with the build in its labels.
func newBuildInfo(version, revision string) prometheus.Collector {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "broker_build_info",
		Help: "The build of this node.",
	}, []string{"version", "revision", "go"})
	g.WithLabelValues(version, revision, runtime.Version()).Set(1)
	return g
}

// figure is one figure of the store.
type figure struct {
	name, help string
	kind       prometheus.ValueType
	value      float64
}

// storeFigures lists what m tells.
func storeFigures(m storage.Metrics) []figure {
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	full := 0.0
	if m.DiskFull {
		full = 1
	}
	return []figure{
		{"broker_store_disk_bytes", "Bytes that the store uses on the disk, with log files kept for use again.", gauge, float64(m.DiskBytes)},
		{"broker_store_wal_bytes", "Bytes of log that a restart would replay.", gauge, float64(m.LiveLogBytes)},
		{"broker_store_memtable_bytes", "Bytes of memtables.", gauge, float64(m.MemTableBytes)},
		{"broker_store_cache_bytes", "Bytes of the block cache.", gauge, float64(m.CacheBytes)},
		{"broker_store_tombstones", "Deletions that compactions have not removed yet; an estimate.", gauge, float64(m.TombstoneCount)},
		{"broker_store_compaction_debt_bytes", "Bytes that compactions have to move yet; an estimate.", gauge, float64(m.CompactionDebtBytes)},
		{"broker_store_read_amplification", "Tables that a read may have to look at.", gauge, float64(m.ReadAmplification)},
		{"broker_store_commits_total", "Changes that were stored.", counter, float64(m.Commits)},
		{"broker_store_committed_bytes_total", "Bytes of the changes that were stored.", counter, float64(m.CommittedBytes)},
		{"broker_store_log_bytes_total", "Bytes written to the log.", counter, float64(m.LogBytesWritten)},
		{"broker_store_flushed_bytes_total", "Bytes written by flushes.", counter, float64(m.FlushBytesWritten)},
		{"broker_store_compacted_bytes_total", "Bytes written by compactions.", counter, float64(m.CompactionBytesWritten)},
		{"broker_store_flushes_total", "Flushes of memtables.", counter, float64(m.Flushes)},
		{"broker_store_compactions_total", "Compactions.", counter, float64(m.Compactions)},
		{"broker_store_cache_hits_total", "Reads that the block cache answered.", counter, float64(m.CacheHits)},
		{"broker_store_cache_misses_total", "Reads that the block cache could not answer.", counter, float64(m.CacheMisses)},
		{"broker_store_write_stalls_total", "Times that writes had to wait for flushes or compactions.", counter, float64(m.WriteStalls)},
		{"broker_store_space_waits_total", "Writes that found no space on the disk.", counter, float64(m.SpaceWaits)},
		{"broker_store_background_errors_total", "Flushes and compactions that failed and were tried again.", counter, float64(m.BackgroundErrors)},
		{"broker_store_corruptions_total", "Unreadable blocks or records that were met.", counter, float64(m.Corruptions)},
		{"broker_disk_free_bytes", "Bytes free on the disk of the store.", gauge, float64(m.DiskFreeBytes)},
		{"broker_disk_total_bytes", "Size of the disk of the store.", gauge, float64(m.DiskTotalBytes)},
		{"broker_disk_full", "1 while producers are refused for want of space.", gauge, full},
	}
}

func (f figure) desc() *prometheus.Desc { return prometheus.NewDesc(f.name, f.help, nil, nil) }

// storeMetrics reads the figures of the store when it is scraped.
type storeMetrics struct{ db *atomic.Pointer[storage.DB] }

// Describe implements prometheus.Collector.
func (s storeMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range storeFigures(storage.Metrics{}) {
		ch <- f.desc()
	}
}

// Collect implements prometheus.Collector.
func (s storeMetrics) Collect(ch chan<- prometheus.Metric) {
	db := s.db.Load()
	if db == nil {
		return
	}
	for _, f := range storeFigures(db.Metrics()) {
		ch <- prometheus.MustNewConstMetric(f.desc(), f.kind, f.value)
	}
}
