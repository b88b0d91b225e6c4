package bench

import (
	"bytes"
	"errors"
	"math"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestStampsComeBackAndDamageIsSeen(t *testing.T) {
	b := newBodies(t, 200)
	body := make([]byte, b.Size())
	want := Stamp{Sender: SendersMax - 1, Counter: counterMax, Due: 3 * time.Hour}
	b.Fill(body, want)
	if got, err := b.Parse(body); err != nil || got != want {
		t.Fatalf("got %+v, %v; want %+v", got, err, want)
	}
	for i := range body {
		bad := bytes.Clone(body)
		bad[i] = '~'
		if _, err := b.Parse(bad); !errors.Is(err, ErrForeignBody) {
			t.Fatalf("damage at byte %d was not seen", i)
		}
	}
	if _, err := b.Parse(body[:199]); !errors.Is(err, ErrForeignBody) {
		t.Error("a cut body was not seen")
	}
	other, err := NewBodies(2, 200)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Parse(body); !errors.Is(err, ErrForeignBody) {
		t.Error("a body of another run was not seen")
	}
}

func TestTrackerFindsWhatIsMissingTwiceOrLate(t *testing.T) {
	tr := NewTracker(2, 2)
	tr.Sent(0, 1, 200_000)
	tr.Sent(1, 1, 4)
	tr.Unknown(1, 5, 2)
	tr.Sent(1, 7, 1)
	for c := uint64(1); c <= 200_000; c++ {
		if c != 70_000 {
			tr.Received(Stamp{Sender: 0, Counter: c})
		}
	}
	tr.Received(Stamp{Sender: 0, Counter: 3}) // a repeat
	for _, c := range []uint64{1, 4, 2, 7, 6} {
		tr.Received(Stamp{Sender: 1, Counter: c}) // 2 comes after 4 of the same group; 3 is lost; 6 came through unanswered
	}
	tr.Received(Stamp{Sender: 9, Counter: 1})
	tr.Foreign()
	if tr.Complete() {
		t.Error("complete, though messages are missing")
	}
	// Of group 0 (even counters) 2 follows 4; of group 1, nothing is late.
	want := Verdict{Sent: 200_005, Unknown: 2, Received: 200_005, Gaps: 2, Duplicates: 1, Disorder: 1, Foreign: 2}
	if got := tr.Verdict(); got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	tr.Received(Stamp{Sender: 0, Counter: 70_000})
	tr.Received(Stamp{Sender: 1, Counter: 3})
	if !tr.Complete() {
		t.Error("not complete, though all that was acknowledged has arrived")
	}
}

func TestTrackerCountsToTheBit(t *testing.T) {
	for _, n := range []uint64{1, 62, 63, 64, 65, 127, 128, trackPageBits - 1, trackPageBits, trackPageBits + 1} {
		tr := NewTracker(1, 0)
		for c := uint64(1); c <= n; c++ {
			tr.Received(Stamp{Counter: c})
		}
		tr.Sent(0, 1, n)
		if got := tr.Verdict().Gaps; got != 0 {
			t.Errorf("%d of %d: %d gaps, want 0", n, n, got)
		}
		tr.Sent(0, n+1, 1)
		if got := tr.Verdict().Gaps; got != 1 {
			t.Errorf("%d of %d: %d gaps, want 1", n, n+1, got)
		}
	}
}

func TestArrivalBeforeTheAnswerIsNoGap(t *testing.T) {
	tr := NewTracker(1, 0)
	tr.Received(Stamp{Counter: 1})
	tr.Received(Stamp{Counter: 2})
	tr.Sent(0, 1, 1)
	if v := tr.Verdict(); v.Gaps != 0 || !tr.Complete() {
		t.Errorf("got %+v", v)
	}
}

func TestFlowBoundsTheLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFlow(10)
		if !f.Reserve(10) {
			t.Fatal("no room at the start")
		}
		var got []string
		var wg sync.WaitGroup
		wg.Go(func() {
			if f.Reserve(5) {
				got = append(got, "reserved")
			}
			if !f.Reserve(100) {
				got = append(got, "stopped")
			}
		})
		synctest.Wait()
		if len(got) > 0 {
			t.Errorf("a sender went on beyond the limit: %v", got)
		}
		f.Done(5)
		synctest.Wait()
		if len(got) != 1 {
			t.Errorf("a sender waits though there is room: %v", got)
		}
		f.Stop()
		wg.Wait()
		if len(got) != 2 || got[1] != "stopped" {
			t.Errorf("stopping did not end the wait: %v", got)
		}
	})
}

func TestFlowGivesOutWhatWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFlow(0)
		taken := make(chan int, 3)
		go func() {
			for n := f.Take(10); ; n = f.Take(10) {
				taken <- n
				if n == 0 {
					return
				}
			}
		}()
		f.Reserve(13)
		f.Sent(13)
		if a, b := <-taken, <-taken; a+b != 13 || a > 10 || b > 10 {
			t.Errorf("took %d and %d of 13", a, b)
		}
		f.Stop()
		if n := <-taken; n != 0 {
			t.Errorf("took %d after the stop", n)
		}
	})
}

func TestPercentilesAreThoseOfTheValues(t *testing.T) {
	var phase Phase
	a, b := NewMeter(&phase), NewMeter(&phase)
	a.Record(5, time.Hour) // warm-up: not measured
	phase.set(phaseMeasure)
	for i := 1; i <= 1000; i++ {
		m := a
		if i%2 == 0 {
			m = b
		}
		m.Record(10, time.Duration(i)*time.Millisecond)
	}
	phase.set(phaseDrain)
	b.Record(5, time.Hour)
	s := NewStep("x", 2*time.Second, []*Meter{a, b})
	if s.Messages != 10_000 || s.Requests != 1000 || s.PerSecond != 5000 {
		t.Errorf("got %d messages, %d requests, %v/s", s.Messages, s.Requests, s.PerSecond)
	}
	for _, v := range []struct{ got, want float64 }{
		{s.Latency.P50, 500e3}, {s.Latency.P90, 900e3}, {s.Latency.P99, 990e3}, {s.Latency.P999, 999e3}, {s.Latency.Max, 1000e3},
	} {
		if math.Abs(v.got-v.want) > v.want/100 {
			t.Errorf("got %v us, want %v", v.got, v.want)
		}
	}
	if n := a.Messages() + b.Messages(); n != 10_010 {
		t.Errorf("%d messages in the whole run, want 10010", n)
	}
}

func TestLateRequestsOfAnOpenLoopKeepTheirDueTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		p := newPace(began, 100, 1, 2, 1) // each of two senders: every 20 ms, the second 10 ms in
		for i, want := range []time.Duration{10, 30, 50, 70, 90} {
			due, ok := p.wait(t.Context())
			if got := due.Sub(began); !ok || got != want*time.Millisecond {
				t.Errorf("request %d is due at %v, want %v ms", i, got, int64(want))
			}
			if i == 1 {
				time.Sleep(50 * time.Millisecond) // the server stalls: 50 and 70 are late and stay due then
			}
		}
		if got := time.Since(began); got != 90*time.Millisecond {
			t.Errorf("the schedule was not caught up with: %v", got)
		}
	})
}

func TestSharesAddUp(t *testing.T) {
	for _, count := range []int64{0, 1, 15, 16, 17, 1000} {
		var sum int64
		for i := range 16 {
			sum += share(count, i, 16)
		}
		if sum != count {
			t.Errorf("shares of %d add up to %d", count, sum)
		}
	}
}

func TestStatLineWithOddNameIsRead(t *testing.T) {
	line := "42 (a) b (c)) S 1 42 42 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 7 0 1 2 3"
	got, err := statCPU([]byte(line))
	if err != nil || got != 2*time.Second {
		t.Errorf("got %v, %v; want 2s", got, err)
	}
	for _, bad := range []string{"", "42 (a)", "42 (a) S 1 2 3 4 5 6 7 8 9 10 x y z"} {
		if _, err := statCPU([]byte(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestStatusLinesAreRead(t *testing.T) {
	status := []byte("Name:\tx\nVmHWM:\t   2048 kB\nVmRSS:\t1024 kB\nVmBad:\n")
	if got := statusBytes(status, "VmRSS:"); got != 1<<20 {
		t.Errorf("got %d, want %d", got, 1<<20)
	}
	if got := statusBytes(status, "VmBad:"); got != 0 {
		t.Errorf("got %d, want 0", got)
	}
}

func TestOwnProcessIsMeasured(t *testing.T) {
	if m := SelfMemory(); m.RSS < 1<<20 || m.Peak < m.RSS/2 {
		t.Errorf("implausible memory %+v", m)
	}
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("no /proc here")
	}
	if _, err := ProcessCPU(os.Getpid()); err != nil {
		t.Error(err)
	}
}

func BenchmarkTrackerReceived(b *testing.B) {
	tr := NewTracker(1, 0)
	b.ReportAllocs()
	var n uint64
	for b.Loop() {
		n++
		tr.Received(Stamp{Counter: n})
	}
}

func BenchmarkParse(b *testing.B) {
	bodies := newBodies(b, 200)
	body := make([]byte, 200)
	bodies.Fill(body, Stamp{Sender: 3, Counter: 4})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := bodies.Parse(body); err != nil {
			b.Fatal(err)
		}
	}
}
