package admin

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/leasemq/broker/core"
)

// scrapesMax bounds the scrapes that are served at once.
const scrapesMax = 4

// scrapeWait bounds the reading of queues for one scrape.
const scrapeWait = 5 * time.Second

// metrics returns the handler of /metrics, over a registry of its own: two
// nodes in one process do not share counters.
func (s *Server) metrics() (http.Handler, error) {
	registry := prometheus.NewRegistry()
	all := append([]prometheus.Collector{
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		newQueueCollector(s),
	}, s.options.Collectors...)
	for _, c := range all {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
		ErrorHandling:       promhttp.ContinueOnError,
		MaxRequestsInFlight: scrapesMax,
	}), nil
}

// queueCollector reads the counts of queues when it is scraped, so that nothing
// is kept up to date for nobody.
type queueCollector struct {
	enter func() *access
	most  int
	log   *slog.Logger

	messages, bytes, oldest, waiters, total, refused *prometheus.Desc
	dropped                                          prometheus.Counter
}

func newQueueCollector(s *Server) *queueCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &queueCollector{
		enter: s.enter, most: s.options.MetricQueues, log: s.log,
		messages: desc("broker_queue_messages", "Messages in a queue, by state.", "queue", "state"),
		bytes:    desc("broker_queue_bytes", "Bytes of bodies and attributes in a queue.", "queue"),
		oldest:   desc("broker_queue_oldest_message_age_seconds", "Age of the oldest message of a queue; 0 if it is empty.", "queue"),
		waiters:  desc("broker_queue_waiting_receives", "Receives that wait for a message.", "queue"),
		total:    desc("broker_queues", "Queues of the node."),
		refused:  desc("broker_copies_refused_total", "Copies, of topics and routes, that a queue did not get, by reason.", "reason"),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "broker_series_dropped_total",
			Help: "Queues left out of scrapes because there were more than admin.metric_queues.",
		}),
	}
}

// Describe tells the registry which metrics to expect.
func (c *queueCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.messages, c.bytes, c.oldest, c.waiters, c.total, c.refused} {
		ch <- d
	}
	c.dropped.Describe(ch)
}

// Collect reads the queues, if the node has an engine. What cannot be read is left
// out and logged.
func (c *queueCollector) Collect(ch chan<- prometheus.Metric) {
	defer c.dropped.Collect(ch)
	a := c.enter()
	if a == nil {
		return
	}
	defer a.leave()
	ctx, cancel := context.WithTimeout(context.Background(), scrapeWait)
	defer cancel()
	names, total := c.largest(ctx, a)
	for _, name := range names {
		c.queue(ctx, ch, a, name)
	}
	c.dropped.Add(float64(max(0, total-max(0, c.most))))
	ch <- prometheus.MustNewConstMetric(c.total, prometheus.GaugeValue, float64(total))
	n := a.engine.Refused()
	for reason, v := range map[string]int64{"full": n.Full, "too_large": n.TooLarge, "no_queue": n.NoQueue} {
		ch <- prometheus.MustNewConstMetric(c.refused, prometheus.CounterValue, float64(v), reason)
	}
}

// largest returns the queues to show, those with the most messages, and how many
// there are. Queues that are not shown are not loaded.
func (c *queueCollector) largest(ctx context.Context, a *access) (names []string, total int) {
	var kept []core.Backlog
	byBacklog := func(x, y core.Backlog) int {
		return cmp.Or(cmp.Compare(y.Messages, x.Messages), strings.Compare(x.Name, y.Name))
	}
	for after := ""; ; {
		page, err := a.client.Backlogs(ctx, after, queuesMax)
		if err != nil {
			c.log.Warn("list queues for metrics", "error", err)
			break
		}
		total += len(page)
		kept = append(kept, page...)
		slices.SortFunc(kept, byBacklog)
		kept = kept[:min(len(kept), max(0, c.most))]
		if len(page) < queuesMax {
			break
		}
		after = page[len(page)-1].Name
	}
	for _, b := range kept {
		names = append(names, b.Name)
	}
	return names, total
}

func (c *queueCollector) queue(ctx context.Context, ch chan<- prometheus.Metric, a *access, name string) {
	st, err := a.client.Stats(ctx, name)
	if err != nil {
		c.log.Debug("read queue for metrics", "queue", name, "error", err)
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{name}, labels...)...)
	}
	gauge(c.messages, float64(st.Ready), "ready")
	gauge(c.messages, float64(st.InFlight), "inflight")
	gauge(c.messages, float64(st.Delayed), "delayed")
	gauge(c.bytes, float64(st.Bytes))
	gauge(c.waiters, float64(st.Waiters))
	age := 0.0
	if st.OldestAt != 0 {
		age = max(0, float64(a.engine.Now()-st.OldestAt)/1000)
	}
	gauge(c.oldest, age)
}
