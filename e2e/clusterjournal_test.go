package e2e

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// opKind is what was asked for, or what happened to the cluster.
type opKind string

const (
	opSend    opKind = "send"
	opReceive opKind = "receive" // of one message; an answer with several is several
	opDelete  opKind = "delete"
	opClaim   opKind = "claim" // a node said that it is the primary
	opFault   opKind = "fault" // from when it was made to when the cluster served again
)

// outcome is what the client knows of what became of an op.
type outcome string

const (
	outcomeOK      outcome = "ok"
	outcomeFailed  outcome = "failed"  // it had no effect, and will have none
	outcomeUnknown outcome = "unknown" // it had an effect, has none, or will have one
)

// op is one thing that a client asked for, and what it was told. Times are of the
// one monotonic clock of its journal, in nanoseconds.
type op struct {
	Kind    opKind
	Outcome outcome
	Client  int    `json:",omitempty"`
	Node    string `json:",omitempty"` // that was asked; of a fault: what was done
	Queue   string `json:",omitempty"`
	Group   string `json:",omitempty"` // of a FIFO queue
	ID      string `json:",omitempty"` // what the body says; unique among sends

	MessageID  string        `json:",omitempty"`
	Receipt    string        `json:",omitempty"`
	Sequence   uint64        `json:",omitempty"` // of a send to a FIFO queue
	Visibility time.Duration `json:",omitempty"` // of a receive
	Epoch      uint64        `json:",omitempty"` // of a claim
	Refusal    string        `json:",omitempty"` // the answer that refused it

	Call   int64
	Return int64
}

// fifo tells whether the op is on a FIFO queue.
func (o *op) fifo() bool { return strings.HasSuffix(o.Queue, ".fifo") }

// lease returns when the lease of a receive may end at the soonest.
func (o *op) lease() int64 { return o.Call + int64(o.Visibility) }

func (o *op) String() string {
	b, err := json.Marshal(o)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// journal takes down ops while they happen. It is safe for concurrent use.
type journal struct {
	start time.Time

	mu  sync.Mutex
	ops []op
}

func newJournal() *journal { return &journal{start: time.Now()} }

// now is the time of the journal's clock.
func (j *journal) now() int64 { return int64(time.Since(j.start)) }

// add takes down o, which returns now.
func (j *journal) add(o op) {
	j.mu.Lock()
	defer j.mu.Unlock()
	o.Return = j.now()
	j.ops = append(j.ops, o)
}

// all returns what was taken down so far.
func (j *journal) all() []op {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.ops)
}

// count returns how many ops of a kind went well.
func (j *journal) count(kind opKind) (n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := range j.ops {
		if j.ops[i].Kind == kind && j.ops[i].Outcome == outcomeOK {
			n++
		}
	}
	return n
}

// totals counts for the log of a test.
func (j *journal) totals() string {
	n := make(map[string]int)
	for _, o := range j.all() {
		n[fmt.Sprintf("%s %s", o.Kind, o.Outcome)]++
	}
	return fmt.Sprint(n)
}

// judge runs all checks. If one finds something, the whole history is written to
// the test's artifacts.
func (j *journal) judge(t *testing.T) {
	t.Helper()
	ops := j.all()
	t.Logf("history: %s", j.totals())
	found := violations(ops)
	for i, v := range found {
		if i == crashViolations {
			t.Errorf("and %d more", len(found)-i)
			break
		}
		t.Error(v)
	}
	if len(found) == 0 {
		return
	}
	path := filepath.Join(t.ArtifactDir(), "history.jsonl")
	if err := writeOps(path, ops); err != nil {
		t.Errorf("write the history: %v", err)
	}
	t.Logf("the history is in %s if the test runs with -artifacts", path)
}

func writeOps(path string, ops []op) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	e := json.NewEncoder(w)
	for i := range ops {
		err = errors.Join(err, e.Encode(&ops[i]))
	}
	return errors.Join(err, w.Flush(), f.Close())
}

// story is a history that has ended, in the order of calls, with what the checks
// look up.
type story struct {
	ops      []op
	receives map[string]*op   // by receipt; those that were answered
	takes    map[string][]*op // the same by message
	lost     map[string][]*op // receives by queue whose answer did not come
	faults   []*op
}

func newStory(ops []op) *story {
	s := &story{
		ops: slices.Clone(ops), receives: make(map[string]*op), takes: make(map[string][]*op),
		lost: make(map[string][]*op),
	}
	slices.SortStableFunc(s.ops, func(a, b op) int { return cmp.Compare(a.Call, b.Call) })
	for i := range s.ops {
		o := &s.ops[i]
		switch {
		case o.Kind == opFault:
			s.faults = append(s.faults, o)
		case o.Kind != opReceive:
		case o.Outcome == outcomeUnknown:
			s.lost[o.Queue] = append(s.lost[o.Queue], o)
		case o.Outcome == outcomeOK:
			s.receives[o.Receipt] = o
			s.takes[o.ID] = append(s.takes[o.ID], o)
		}
	}
	return s
}

// disturbed returns the end of the last fault that was made before a time, or
// minus one.
func (s *story) disturbed(before int64) int64 {
	last := int64(-1)
	for _, f := range s.faults {
		if f.Call <= before {
			last = max(last, f.Return)
		}
	}
	return last
}

// sure tells whether a delete that was answered with success must have worked. On a
// FIFO queue each one must: an old receipt is refused. On a standard queue an old
// receipt is answered with success, too, and does nothing; and a receive whose mark
// was lost in a fault, with its answer still to come, may be overtaken.
func (s *story) sure(d *op) bool {
	if d.Outcome != outcomeOK {
		return false
	}
	r := s.receives[d.Receipt]
	switch {
	case r == nil:
		return false
	case d.fifo():
		return true
	case d.Return >= r.lease():
		return false
	}
	for _, other := range s.takes[d.ID] {
		if other.Receipt != d.Receipt && other.Return > r.Call && other.Call < d.Return {
			return false
		}
	}
	for _, f := range s.faults {
		if f.Return < r.Call || f.Call > d.Return {
			continue
		}
		if slices.ContainsFunc(s.lost[d.Queue], func(u *op) bool { return u.Call < d.Return && u.Return > f.Call }) {
			return false
		}
	}
	return true
}

// end is the return of an op as a model sees it: one of unknown outcome may take
// effect at any later time.
func (o *op) end() int64 {
	if o.Outcome == outcomeUnknown {
		return math.MaxInt64
	}
	return o.Return
}

// readOps reads what writeOps wrote.
func readOps(path string) ([]op, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var ops []op
	for d := json.NewDecoder(bytes.NewReader(b)); ; {
		var o op
		if err := d.Decode(&o); err == io.EOF {
			return ops, nil
		} else if err != nil {
			return nil, err
		}
		ops = append(ops, o)
	}
}
