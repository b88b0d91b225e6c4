package core

import (
	"testing"
	"time"
)

// TestAgesAreBounded: however many messages come, what is kept of them is a part
// of the delay each, and the count is late by no more than that.
func TestAgesAreBounded(t *testing.T) {
	const every, messages = 3, 400_000 // milliseconds; beyond the delay
	delay := (15 * time.Minute).Milliseconds()
	var a ages
	for i := range int64(messages) {
		now := i * every
		a.prune(now, delay)
		a.add(Seq(i)+1, now, delay)
	}
	if n := len(a.spans); n > 2*ageSpansMax {
		t.Errorf("%d spans are kept", n)
	}
	now := int64(messages-1) * every
	for _, passed := range []time.Duration{0, time.Minute, 10 * time.Minute, 15 * time.Minute} {
		a.prune(now+passed.Milliseconds(), delay)
		exact := max(0, (delay-passed.Milliseconds())/every)
		if late := a.n - exact; late < 0 || late > delay/ageSpansMax/every+1 {
			t.Errorf("after %v %d messages are counted, %d are held", passed, a.n, exact)
		}
	}
	if len(a.spans) != 0 || a.n != 0 {
		t.Errorf("%d spans are left, of %d messages", len(a.spans), a.n)
	}
}
