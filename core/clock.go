package core

import (
	"log/slog"
	"sync"
	"time"
)

// Bounds of the clock.
const (
	clockSlewPerMille = 10          // at most 1 % towards the wall
	clockStepMS       = 1000        // a difference to the wall above it is an alarm
	clockSample       = time.Second // the wall is looked at no more often
)

// clock is the only time that the core, storage, retention and timestamps read:
// max(wall, last stored time) at open, plus the time that has run since, slewed
// towards the wall. It never goes back, whatever the wall does.
type clock struct {
	log   *slog.Logger
	start time.Time // carries the monotonic reading
	base  int64     // milliseconds at start

	mu      sync.Mutex
	sampled time.Duration // since start
	offset  int64         // milliseconds of slew so far
	alarmed bool
	last    int64
	asleep  time.Duration // how much longer than the monotonic clock the boot-time clock had run, at the last sample
}

func newClock(lastTime int64, log *slog.Logger) *clock {
	now := time.Now()
	return &clock{log: log, start: now, base: max(now.UnixMilli(), lastTime), asleep: Suspended()}
}

// now returns milliseconds since the epoch.
func (c *clock) now() int64 {
	wall := time.Now()
	run := wall.Sub(c.start)
	c.mu.Lock()
	defer c.mu.Unlock()
	if run-c.sampled >= clockSample {
		c.slewLocked(wall, run)
	}
	c.last = max(c.last, c.base+run.Milliseconds()+c.offset)
	return c.last
}

// slewLocked moves the clock towards the wall by at most 1 % of the time since
// the last sample. A machine that slept has really aged by that time: it counts
// as run.
func (c *clock) slewLocked(wall time.Time, run time.Duration) {
	if s := Suspended(); s > c.asleep+clockSample {
		c.offset += (s - c.asleep).Milliseconds()
		c.asleep = s
	}
	diff := wall.Round(0).UnixMilli() - (c.base + run.Milliseconds() + c.offset)
	limit := (run - c.sampled).Milliseconds() * clockSlewPerMille / 1000
	c.offset += min(max(diff, -limit), limit)
	c.sampled = run
	if off := diff > clockStepMS || diff < -clockStepMS; off != c.alarmed {
		c.alarmed = off
		if off {
			c.log.Warn("wall clock stepped: following it at 1 %", "difference_ms", diff)
		} else {
			c.log.Info("wall clock followed")
		}
	}
}
