package bench

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// Trouble says in words why a result is not clean.
func (r *Result) Trouble() string {
	var words []string
	if v := r.Check; v != nil {
		for _, t := range []struct {
			n    uint64
			what string
		}{
			{v.Gaps, "lost"},
			{v.Duplicates, "repeated"},
			{v.Disorder, "out of order"},
			{v.Foreign, "foreign or damaged"},
			{v.Unknown, "unanswered"},
		} {
			if t.n > 0 {
				words = append(words, fmt.Sprintf("%d messages %s", t.n, t.what))
			}
		}
	}
	for _, text := range sortedKeys(r.Errors) {
		words = append(words, fmt.Sprintf("%d times %q", r.Errors[text], text))
	}
	if r.Canned != nil && !r.Canned.Clean() {
		words = append(words, "canned: "+r.Canned.Trouble())
	}
	return strings.Join(words, ", ")
}

func sortedKeys(m map[string]int64) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// WriteTable writes the result for a reader.
func (r *Result) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	if len(r.Steps) > 0 {
		fmt.Fprintln(t, "STEP\tMESSAGES\tREQUESTS\tMESSAGES/S\tP50 US\tP90 US\tP99 US\tP99.9 US\tMAX US\t")
	}
	for _, s := range r.Steps {
		fmt.Fprintf(t, "%s\t%d\t%d\t%.0f\t", s.Name, s.Messages, s.Requests, s.PerSecond)
		writeLatency(t, s.Latency)
	}
	if r.Passage != nil {
		fmt.Fprintf(t, "passage\t\t\t\t")
		writeLatency(t, *r.Passage)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, line := range r.lines() {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

func writeLatency(w io.Writer, l Latency) {
	fmt.Fprintf(w, "%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t\n", l.P50, l.P90, l.P99, l.P999, l.Max)
}

// lines are what stands below the table.
func (r *Result) lines() []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if r.Messages > 0 {
		add("%d messages in %.1f s: %.0f/s", r.Messages, r.Seconds, r.PerSecond)
		cpu := fmt.Sprintf("CPU a message: %.2f us in this process", r.Cost.Process)
		if r.Cost.Server > 0 {
			cpu += fmt.Sprintf(", %.2f us in the server", r.Cost.Server)
		}
		add("%s; heap objects a message: %.1f", cpu, r.Cost.Allocs)
	}
	if m := r.Memory; m != nil {
		add("memory: %s resident, %s at its peak", mebibytes(m.RSS), mebibytes(m.Peak))
	}
	if m := r.ServerMemory; m != nil {
		add("memory of the server: %s resident, %s at its peak", mebibytes(m.RSS), mebibytes(m.Peak))
	}
	if s := r.Storage; s != nil {
		add("storage wrote %s of log and %s of tables for %s: %.2f times; on disk %s",
			mebibytes(s.WAL), mebibytes(s.Tables), mebibytes(s.User), s.Amplified, mebibytes(s.Disk))
	}
	if s := r.Storage; s != nil && len(s.Samples) > 0 {
		var text []string
		for _, n := range s.Samples {
			text = append(text, mebibytes(n))
		}
		add("on disk over time: %s", strings.Join(text, ", "))
	}
	if b := r.Backlog; b != nil {
		out = append(out, b.lines()...)
	}
	if r.Restart != nil {
		add("%s", r.Restart.line())
	}
	if r.Start != nil {
		add("start to first answer: %.1f ms; idle: %s resident", r.Start.FirstAnswer, mebibytes(r.Start.Memory.RSS))
	}
	if r.Idle != nil {
		add("%s", r.Idle.line())
	}
	if v := r.Check; v != nil {
		add("check: %d sent, %d received, %d lost, %d repeated, %d out of order, %d foreign, %d unanswered",
			v.Sent, v.Received, v.Gaps, v.Duplicates, v.Disorder, v.Foreign, v.Unknown)
	}
	for _, text := range sortedKeys(r.Errors) {
		add("error, %d times: %s", r.Errors[text], text)
	}
	if r.Canned != nil {
		add("canned answers: %.0f/s at %.2f us of CPU; this is %.0f %% of their rate, and by CPU time %.0f %%",
			r.Canned.PerSecond, r.Canned.Cost.Process+r.Canned.Cost.Server, 100*r.Ratio, 100*r.CPURatio)
	}
	if len(r.Rounds) > 1 {
		add("median of %d rounds; messages/s of each: %.0f", len(r.Rounds), r.Rounds)
	}
	return out
}

func (b *BacklogReport) lines() []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	add("load: %d messages at %.0f/s, %.2f us of CPU each", b.Messages, b.LoadPerSecond, b.LoadCPU)
	for _, s := range b.Memory {
		add("memory at %d messages: %s resident, %s at its peak", s.Messages, mebibytes(s.RSS), mebibytes(s.Peak))
	}
	for _, s := range b.Speeds {
		add("receive and delete, %s: %.0f/s, %.2f us of CPU, %.0f %% of a short queue", s.State, s.PerSecond, s.CPU, 100*s.Ratio)
	}
	for i := range b.Restarts {
		add("%s", b.Restarts[i].line())
	}
	return out
}

func (r *RestartReport) line() string {
	return fmt.Sprintf("restart, %s: open %.0f ms, first message after %.0f ms, %s resident, %d messages in the queue, %s on disk",
		r.State, r.Open, r.First, mebibytes(r.Memory.RSS), r.Messages, mebibytes(r.DiskBytes))
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
