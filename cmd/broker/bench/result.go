package bench

import (
	"context"
	"runtime"
	"sync"
	"time"
)

// progressInterval is how often Progress is told.
const progressInterval = 200 * time.Millisecond

// Result is what a run has found. Rates are of its last step: where a run sends,
// receives and deletes, a message counts when it is deleted.
type Result struct {
	Kind         string           `json:"kind"`
	Mode         string           `json:"mode,omitempty"`
	Options      any              `json:"options"`
	Machine      Machine          `json:"machine"`
	Seconds      float64          `json:"seconds"`
	Messages     int64            `json:"messages"`
	PerSecond    float64          `json:"messages_per_second"`
	Steps        []Step           `json:"steps,omitempty"`
	Passage      *Latency         `json:"passage,omitempty"` // from due to received
	Cost         MessageCost      `json:"cost"`
	Memory       *Memory          `json:"memory,omitempty"`        // of this process, while measured
	ServerMemory *Memory          `json:"server_memory,omitempty"` // of the server, if it is another process
	Storage      *Written         `json:"storage,omitempty"`
	Backlog      *BacklogReport   `json:"backlog,omitempty"`
	Restart      *RestartReport   `json:"restart,omitempty"`
	Start        *StartReport     `json:"start,omitempty"`
	Idle         *IdleReport      `json:"idle,omitempty"`
	Check        *Verdict         `json:"check,omitempty"`
	Errors       map[string]int64 `json:"errors,omitempty"`
	Canned       *Result          `json:"canned,omitempty"`           // the same work against canned answers
	Ratio        float64          `json:"canned_ratio,omitempty"`     // of the rate to that of the canned answers
	CPURatio     float64          `json:"canned_cpu_ratio,omitempty"` // of the CPU time of a canned message to that of this one
	Rounds       []float64        `json:"rounds,omitempty"`           // messages/s of each round; the result is the median one
}

// StartReport is what the start of a spawned server costs.
type StartReport struct {
	FirstAnswer float64 `json:"first_answer_ms"` // from the start of the process to its first answered request
	Memory      Memory  `json:"memory"`          // idle, after that request
}

// Clean tells whether nothing went wrong.
func (r *Result) Clean() bool {
	return len(r.Errors) == 0 && (r.Check == nil || r.Check.Clean() && r.Check.Unknown == 0) &&
		(r.Canned == nil || r.Canned.Clean())
}

// Compare sets the ratios to the same work against canned answers.
func (r *Result) Compare(canned *Result) {
	r.Canned = canned
	if canned.PerSecond > 0 {
		r.Ratio = r.PerSecond / canned.PerSecond
	}
	if used := r.Cost.Process + r.Cost.Server; used > 0 {
		r.CPURatio = (canned.Cost.Process + canned.Cost.Server) / used
	}
}

// Machine is where a run took place.
type Machine struct {
	OS   string `json:"os"`
	Arch string `json:"arch"`
	CPUs int    `json:"cpus"`
	Go   string `json:"go"`
}

// ThisMachine describes the machine that this process runs on.
func ThisMachine() Machine {
	return Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.GOMAXPROCS(0), Go: runtime.Version()}
}

// MessageCost is what one message cost.
type MessageCost struct {
	Process float64 `json:"process_cpu_us"`          // CPU time of this process: the generator, and the server if it runs inside
	Server  float64 `json:"server_cpu_us,omitempty"` // CPU time of the server, if it is another process
	Allocs  float64 `json:"process_allocs"`          // heap objects made by this process
}

// Cost is the resources used between startCost and end.
type Cost struct {
	began        time.Time
	elapsed      time.Duration
	self, server time.Duration
	allocs       uint64
}

// startCost begins to count. A server process that cannot be read counts as 0.
func startCost(serverPID int) Cost {
	c := Cost{began: time.Now(), self: SelfCPU(), allocs: mallocs()}
	if serverPID > 0 {
		c.server, _ = ProcessCPU(serverPID)
	}
	return c
}

// end ends the counting.
func (c *Cost) end(serverPID int) {
	c.elapsed = time.Since(c.began)
	c.self = SelfCPU() - c.self
	c.allocs = mallocs() - c.allocs
	if serverPID > 0 {
		now, _ := ProcessCPU(serverPID)
		c.server = max(0, now-c.server)
	}
}

func (c *Cost) perMessage(n int64) MessageCost {
	m := MessageCost{Process: perMessage(c.self, n), Server: perMessage(c.server, n)}
	if n > 0 {
		m.Allocs = float64(c.allocs) / float64(n)
	}
	return m
}

// projected is how many messages a run will have done at its end: count if it
// has one, else what it will come to at the rate up to now.
func projected(done, count int64, elapsed, all time.Duration) int64 {
	if count > 0 || elapsed <= 0 {
		return count
	}
	return max(done, int64(float64(done)*all.Seconds()/elapsed.Seconds()))
}

// every calls f at each interval until the returned stop, which waits for the
// last call to end.
func every(ctx context.Context, interval time.Duration, f func()) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		t := time.NewTicker(interval)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
				f()
			}
		}
	})
	return func() { cancel(); wg.Wait() }
}
