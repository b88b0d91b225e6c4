package bench

import (
	"maps"
	"sync/atomic"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
)

// Bounds of a latency, in nanoseconds, and the digits that are kept of it. What
// is longer counts as the longest. Two digits keep the histograms small beside
// the memory that is measured.
const (
	latencyMin    = int64(100)
	latencyMax    = int64(10 * time.Minute)
	latencyDigits = 2
)

func newHistogram() *hdr.Histogram { return hdr.New(latencyMin, latencyMax, latencyDigits) }

// Phase is where a run stands. Only what happens while measuring counts.
type Phase struct{ n atomic.Int32 }

// The phases.
const (
	phaseWarmup int32 = iota
	phaseMeasure
	phaseDrain
)

func (p *Phase) set(n int32)     { p.n.Store(n) }
func (p *Phase) measuring() bool { return p.n.Load() == phaseMeasure }

// Meter counts what one worker does in one step, and how long it takes. It
// belongs to one goroutine, but for Messages.
type Meter struct {
	phase    *Phase
	messages atomic.Int64 // of the whole run
	measured int64
	requests int64
	hist     *hdr.Histogram // made when the first latency comes
	errors   map[string]int64
}

// NewMeter returns a Meter that records while phase says so.
func NewMeter(phase *Phase) *Meter {
	return &Meter{phase: phase}
}

// Messages returns how many messages were booked in the whole run. It may be
// called from any goroutine.
func (m *Meter) Messages() int64 { return m.messages.Load() }

// Record books one request for n messages.
func (m *Meter) Record(n int, took time.Duration) {
	m.messages.Add(int64(n))
	if m.phase.measuring() {
		m.measured += int64(n)
		m.requests++
		m.latency(took)
	}
}

// Count books n messages whose latency nobody knows.
func (m *Meter) Count(n int) {
	m.messages.Add(int64(n))
	if m.phase.measuring() {
		m.measured += int64(n)
	}
}

// RecordLatency books a latency alone.
func (m *Meter) RecordLatency(took time.Duration) {
	if m.phase.measuring() {
		m.latency(took)
	}
}

func (m *Meter) latency(took time.Duration) {
	if m.hist == nil {
		m.hist = newHistogram()
	}
	// The value is within the bounds, so that the error cannot be.
	_ = m.hist.RecordValue(min(max(int64(took), latencyMin), latencyMax))
}

// Error books an error, by its text. Errors count in every phase.
func (m *Meter) Error(text string) {
	if m.errors == nil {
		m.errors = make(map[string]int64)
	}
	m.errors[text]++
}

// Latency is a distribution of durations, in microseconds.
type Latency struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean_us"`
	P50   float64 `json:"p50_us"`
	P90   float64 `json:"p90_us"`
	P99   float64 `json:"p99_us"`
	P999  float64 `json:"p999_us"`
	Max   float64 `json:"max_us"`
}

// Step is what all workers did in one step of a run.
type Step struct {
	Name      string  `json:"name"`
	Messages  int64   `json:"messages"`
	Requests  int64   `json:"requests"`
	PerSecond float64 `json:"messages_per_second"`
	Latency   Latency `json:"latency"`
}

// NewStep sums meters up over a measured time. The workers must have stopped.
func NewStep(name string, elapsed time.Duration, meters []*Meter) Step {
	s := Step{Name: name}
	sum := newHistogram()
	for _, m := range meters {
		s.Messages += m.measured
		s.Requests += m.requests
		if m.hist != nil {
			sum.Merge(m.hist)
		}
	}
	s.PerSecond = perSecond(s.Messages, elapsed)
	s.Latency = newLatency(sum)
	return s
}

func newLatency(h *hdr.Histogram) Latency {
	if h.TotalCount() == 0 {
		return Latency{}
	}
	at := func(q float64) float64 { return float64(h.ValueAtQuantile(q)) / 1e3 }
	return Latency{
		Count: h.TotalCount(), Mean: h.Mean() / 1e3, Max: float64(h.Max()) / 1e3,
		P50: at(50), P90: at(90), P99: at(99), P999: at(99.9),
	}
}

// sumErrors adds the errors of meters up.
func sumErrors(meters ...[]*Meter) map[string]int64 {
	sum := make(map[string]int64)
	for _, ms := range meters {
		for _, m := range ms {
			for text, n := range maps.All(m.errors) {
				sum[text] += n
			}
		}
	}
	if len(sum) == 0 {
		return nil
	}
	return sum
}

// sumMessages returns how many messages meters booked up to now.
func sumMessages(meters []*Meter) int64 {
	var n int64
	for _, m := range meters {
		n += m.Messages()
	}
	return n
}

func perSecond(n int64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}

// perMessage divides a cost in d by n messages, in microseconds.
func perMessage(d time.Duration, n int64) float64 {
	if n <= 0 {
		return 0
	}
	return d.Seconds() * 1e6 / float64(n)
}
