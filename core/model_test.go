package core_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"github.com/leasemq/broker/core"
)

// TestModel plays random operations on an engine over real storage, in fake time,
// beside a model that is simple enough to be believed (model_queue_test.go), and
// compares all that can be seen after each. It prints how to repeat a failure.
//
// LEASEMQ_SEEDS is the number of runs; a run has some hundred steps.
func TestModel(t *testing.T) {
	for _, p := range []profile{
		{name: "small", runs: 110, steps: 700},
		{name: "nothing-kept", runs: 40, steps: 400, paged: true, tune: func(o *core.Options) { o.WindowBytes = 1 }},
		{name: "large-bodies", runs: 25, steps: 300, paged: true, pad: 100_000, lookEvery: 10},
		{name: "spilling", runs: 40, steps: 400, paged: true, returnedMax: 2},
	} {
		t.Run(p.name, func(t *testing.T) {
			setRapid(t, "rapid.checks", runsOf(p.runs))
			setRapid(t, "rapid.steps", p.steps)
			rapid.Check(t, func(t *rapid.T) {
				rapid.SyncTest(t, func(t *rapid.T) { runModel(t, p) })
			})
		})
	}
}

// profile is a way to run the model.
type profile struct {
	name      string
	runs      int
	steps     int
	paged     bool // messages are read from storage: a receive may stop where a page ends
	pad       int  // bytes that each message is made larger by
	lookEvery int  // steps from one look at all messages to the next; 0: 1
	tune      func(o *core.Options)
	// returnedMax bounds the returned messages of a lane in memory; 0: as it is.
	returnedMax int
}

// runsOf is how often to run: fewer where each step costs more.
func runsOf(n int) int {
	if s := os.Getenv("LEASEMQ_SEEDS"); s != "" {
		if most, err := strconv.Atoi(s); err == nil {
			return most
		}
	}
	if raceEnabled {
		n /= 50
	}
	return max(n, 1)
}

// setRapid sets a flag of rapid for this test, unless the command line does.
func setRapid(t *testing.T, name string, value int) {
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == name })
	if set {
		return
	}
	f := flag.Lookup(name)
	before := f.Value.String()
	if err := f.Value.Set(strconv.Itoa(value)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Value.Set(before); err != nil {
			t.Error(err)
		}
	})
}

func runModel(t *rapid.T, p profile) {
	r := newRig(t, p)
	defer r.close()
	look := max(p.lookEvery, 1)
	actions := r.actions()
	for name, f := range actions {
		actions[name] = func(t *rapid.T) {
			r.note("%s", name)
			f(t)
			r.settleDown()
			if slices.ContainsFunc(r.queues, (*mQueue).overflows) {
				r.look()
			}
		}
	}
	actions[""] = func(*rapid.T) {
		r.steps++
		if r.steps%look == 0 {
			r.look()
		}
		r.checkStats()
		if r.steps%25 == 0 {
			r.recount()
		}
	}
	t.Repeat(actions)
	r.drainAll()
}

// rig is a run: an engine and the model of it.
type rig struct {
	t        *rapid.T
	p        profile
	n        *node
	start    time.Time
	steps    int
	passing  bool  // nothing happens but the passing of time
	lookedAt int64 // when all messages were last compared
	bodies   int
	queues   []*mQueue
	byID     map[core.MessageID][]*mMessage // copies have one id
	kept     map[string]mKept               // by topic
	owners   []*mOwner
	waiters  []*mWaiter
	gone     []mReceipt // receipts of messages that are no more, or of other queues
	log      []string
	ended    bool
}

func newRig(t *rapid.T, p profile) *rig {
	r := &rig{t: t, p: p, start: time.Now(), byID: make(map[core.MessageID][]*mMessage), kept: make(map[string]mKept)}
	r.n = &node{
		t: t, fs: vfs.NewMem(), tune: p.tune,
		opened: func(e *core.Engine) {
			core.SetEpochBytes(e, 3000)
			if p.returnedMax > 0 {
				core.SetReturnedMax(e, p.returnedMax)
			}
		},
	}
	r.n.open()
	for _, name := range []string{"a", "b", "c", "d"} {
		r.queues = append(r.queues, &mQueue{name: name, dedup: make(map[string]mDedup)})
	}
	return r
}

// note keeps the last operations for the report of a failure.
func (r *rig) note(format string, args ...any) {
	r.log = append(r.log, fmt.Sprintf("%8v %s", time.Since(r.start), fmt.Sprintf(format, args...)))
	if len(r.log) > 60 {
		r.log = r.log[1:]
	}
}

func (r *rig) failf(format string, args ...any) {
	r.t.Helper()
	for _, line := range r.log {
		r.t.Logf("%s", line)
	}
	r.t.Fatalf(format, args...)
}

func (r *rig) now() int64 { return r.n.engine.Now() }

// settleDown lets everything that is on its way arrive, and looks at the receives
// that have ended.
func (r *rig) settleDown() {
	synctest.Wait()
	r.endWaits()
}

func (r *rig) close() {
	for _, w := range r.waiters {
		w.cancel()
	}
	r.n.close()
	synctest.Wait()
}
