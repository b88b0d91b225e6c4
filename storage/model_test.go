package storage

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"pgregory.net/rapid"

	"github.com/leasemq/broker/core"
)

// model is what a Store should show, as plain maps.
type model struct {
	messages map[core.Ref]string
	states   map[core.Ref]core.MessageState
	queues   map[core.QID]string
	counts   map[core.QID]string // queue states
	names    map[string]core.QID
	lanes    map[core.Ref]string // Seq is 0
	dedup    map[dedupID]string
	reaps    map[core.QID]bool
	records  map[string]string
	bodies   map[core.Ref]string // QID is the epoch
	epochs   map[core.QID]string
}

type dedupID struct {
	minute uint32
	qid    core.QID
	hash   [16]byte
}

func newModel() *model {
	return &model{
		messages: map[core.Ref]string{}, states: map[core.Ref]core.MessageState{}, queues: map[core.QID]string{},
		counts: map[core.QID]string{}, names: map[string]core.QID{}, lanes: map[core.Ref]string{},
		dedup: map[dedupID]string{}, reaps: map[core.QID]bool{}, records: map[string]string{},
		bodies: map[core.Ref]string{}, epochs: map[core.QID]string{},
	}
}

func (m *model) apply(c *core.Change) {
	for _, e := range c.Edits {
		lane := core.Ref{QID: e.QID, Place: e.Place}
		switch e.Kind {
		case core.EditPutMessage:
			m.messages[e.Ref] = string(e.Value)
		case core.EditDropMessage:
			delete(m.messages, e.Ref)
		case core.EditPutState:
			m.states[e.Ref] = e.State
		case core.EditDropState:
			delete(m.states, e.Ref)
		case core.EditPutQueue:
			m.queues[e.QID] = string(e.Value)
		case core.EditDropQueue:
			delete(m.queues, e.QID)
			delete(m.counts, e.QID)
		case core.EditPutName:
			m.names[string(e.Key)] = e.QID
		case core.EditDropName:
			delete(m.names, string(e.Key))
		case core.EditPutQueueState:
			m.counts[e.QID] = string(e.Value)
		case core.EditPutLane:
			m.lanes[lane] = string(e.Value)
		case core.EditDropLane:
			delete(m.lanes, lane)
		case core.EditPutDedup:
			m.dedup[dedupID{e.Minute, e.QID, [16]byte(e.Key)}] = string(e.Value)
		case core.EditDropDedup:
			maps.DeleteFunc(m.dedup, func(k dedupID, _ string) bool { return k.minute < e.Minute })
		case core.EditPutReap:
			m.reaps[e.QID] = true
		case core.EditDropReap:
			delete(m.reaps, e.QID)
		case core.EditReapQueue:
			maps.DeleteFunc(m.messages, func(r core.Ref, _ string) bool { return r.QID == e.QID })
			maps.DeleteFunc(m.states, func(r core.Ref, _ core.MessageState) bool { return r.QID == e.QID })
			maps.DeleteFunc(m.lanes, func(r core.Ref, _ string) bool { return r.QID == e.QID })
		case core.EditPutRecord:
			m.records[string(e.Key)] = string(e.Value)
		case core.EditDropRecord:
			delete(m.records, string(e.Key))
		case core.EditPutBody:
			m.bodies[e.Ref] = string(e.Value)
		case core.EditPutEpoch:
			m.epochs[e.QID] = string(e.Value)
		case core.EditReapEpochs:
			in := func(q core.QID) bool { return q >= e.QID && q <= core.QID(e.Seq) }
			maps.DeleteFunc(m.bodies, func(r core.Ref, _ string) bool { return in(r.QID) })
			maps.DeleteFunc(m.epochs, func(q core.QID, _ string) bool { return in(q) })
		}
	}
}

// size counts the keys, with the engine's own.
func (m *model) size(own int) int {
	return len(m.messages) + len(m.states) + len(m.queues) + len(m.counts) + len(m.names) + len(m.lanes) +
		len(m.dedup) + len(m.reaps) + len(m.records) + len(m.bodies) + len(m.epochs) + own
}

// incarnations are those with any record.
func (m *model) incarnations() map[core.QID]bool {
	out := map[core.QID]bool{}
	for r := range m.messages {
		out[r.QID] = true
	}
	for r := range m.states {
		out[r.QID] = true
	}
	for r := range m.lanes {
		out[r.QID] = true
	}
	for q := range m.queues {
		out[q] = true
	}
	for q := range m.counts {
		out[q] = true
	}
	return out
}

// selectRefs returns the references of refs that keep takes, in order.
func selectRefs[V any](refs map[core.Ref]V, keep func(core.Ref) bool) []core.Ref {
	var out []core.Ref
	for r := range refs {
		if keep(r) {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, compareRefs)
	return out
}

// workload makes Changes that keep the contract of their edits: a message is
// put once, Single is said only of a state that this process put once.
type workload struct {
	pick  func(n int, what string) int // a number below n
	model *model                       // after all that was made
	seq   core.Seq
	qid   core.QID
	once  map[core.Ref]bool // states put exactly once by this process
	epoch core.QID
}

func newWorkload(pick func(n int, what string) int) *workload {
	return &workload{pick: pick, model: newModel(), qid: 3, once: map[core.Ref]bool{}}
}

// restart says that the process has restarted and found what m holds.
func (w *workload) restart(m *model, term uint32) {
	w.model, w.once, w.epoch = m, map[core.Ref]bool{}, 0
	w.seq = core.MakeSeq(term)
}

func (w *workload) place() core.Place {
	switch w.pick(5, "place") {
	case 0:
		return core.Place{Kind: core.PlacePriority, N: uint64(w.pick(3, "priority"))}
	case 1:
		return core.Place{Kind: core.PlaceGroup, N: uint64(w.pick(3, "group")) << 60}
	case 2:
		return core.Place{Kind: core.PlaceDelayed, N: 1_700_000_000_000 + uint64(w.pick(5, "due"))}
	}
	return core.Place{}
}

// queue picks one of the incarnations that are not reaped.
func (w *workload) queue() core.QID { return w.qid - core.QID(w.pick(3, "queue")) }

// one picks one of refs, if there is any.
func (w *workload) one(refs []core.Ref) (core.Ref, bool) {
	if len(refs) == 0 {
		return core.Ref{}, false
	}
	return refs[w.pick(len(refs), "which")], true
}

func (w *workload) live(core.Ref) bool { return true }

// change makes a Change of up to n operations.
func (w *workload) change(n int) *core.Change {
	c := &core.Change{Time: int64(w.seq)}
	for range 1 + w.pick(n, "operations") {
		for _, e := range w.operation() {
			c.Edits = append(c.Edits, e)
			w.model.apply(&core.Change{Edits: []core.Edit{e}})
		}
	}
	return c
}

func (w *workload) operation() []core.Edit {
	switch k := w.pick(23, "operation"); {
	case k < 8:
		w.seq++
		r := core.Ref{QID: w.queue(), Place: w.place(), Seq: w.seq}
		return []core.Edit{put(r, fmt.Appendf(nil, "%v %s", r, strings.Repeat("x", w.pick(600, "body"))))}
	case k < 11:
		return w.receive()
	case k < 15:
		return w.remove()
	case k < 17:
		return w.queueOperation(k == 15)
	case k < 18:
		return w.dedupOperation()
	case k < 19:
		name := []byte{'r', byte('a' + w.pick(4, "record"))}
		if w.pick(3, "drop record") == 0 {
			return []core.Edit{{Kind: core.EditDropRecord, Key: name}}
		}
		return []core.Edit{{Kind: core.EditPutRecord, Key: name, Value: fmt.Append(nil, w.seq)}}
	case k < 20:
		return w.reapOperation()
	default:
		return w.bodyOperation()
	}
}

// bodyOperation puts a body into the newest epoch or into one of its own, or
// removes some of the oldest epochs.
func (w *workload) bodyOperation() []core.Edit {
	w.seq++
	k := w.pick(6, "body operation")
	if epochs := slices.Sorted(maps.Keys(w.model.epochs)); k == 0 && len(epochs) > 0 {
		from := w.pick(len(epochs), "first epoch")
		last := epochs[from+w.pick(min(len(epochs)-from, 3), "epochs")]
		if last >= w.epoch {
			w.epoch = 0
		}
		return []core.Edit{{Kind: core.EditReapEpochs, Ref: core.Ref{QID: epochs[from], Seq: core.Seq(last)}}}
	}
	if k <= 2 || w.epoch == 0 {
		w.epoch = core.QID(w.seq)
	}
	return []core.Edit{
		{Kind: core.EditPutBody, Ref: core.Ref{QID: w.epoch, Seq: w.seq}, Value: fmt.Appendf(nil, "body %d", w.seq)},
		{Kind: core.EditPutEpoch, Ref: core.Ref{QID: w.epoch}, Value: fmt.Append(nil, w.seq)},
	}
}

func (w *workload) receive() []core.Edit {
	r, ok := w.one(selectRefs(w.model.messages, w.live))
	if !ok {
		return nil
	}
	st := w.model.states[r]
	w.once[r] = st == core.MessageState{}
	st.VisibleAt, st.FirstReceived = int64(w.seq)+30_000, cmp.Or(st.FirstReceived, int64(w.seq))
	st.Receives, st.Failures, st.Nonce = st.Receives+1, st.Failures+uint32(w.pick(2, "failure")), uint32(w.seq)*2654435761
	return []core.Edit{{Kind: core.EditPutState, Ref: r, State: st}}
}

func (w *workload) remove() []core.Edit {
	r, ok := w.one(selectRefs(w.model.messages, w.live))
	if !ok {
		return nil
	}
	edits := []core.Edit{drop(r)}
	if _, received := w.model.states[r]; received {
		edits = append(edits, core.Edit{Kind: core.EditDropState, Ref: r, Single: w.once[r]})
	}
	delete(w.once, r)
	return edits
}

func (w *workload) queueOperation(lane bool) []core.Edit {
	q := w.queue()
	if lane {
		place := core.Place{Kind: core.PlaceGroup, N: uint64(w.pick(3, "lane")) << 60}
		if w.pick(3, "drop lane") == 0 {
			return []core.Edit{{Kind: core.EditDropLane, Ref: core.Ref{QID: q, Place: place}}}
		}
		return []core.Edit{{Kind: core.EditPutLane, Ref: core.Ref{QID: q, Place: place}, Value: fmt.Append(nil, w.seq)}}
	}
	name := []byte{'q', byte('a' + w.pick(4, "name"))}
	if w.pick(3, "drop queue") == 0 {
		return []core.Edit{{Kind: core.EditDropName, Key: name}, {Kind: core.EditDropQueue, Ref: core.Ref{QID: q}}}
	}
	return []core.Edit{
		{Kind: core.EditPutName, Ref: core.Ref{QID: q}, Key: name},
		{Kind: core.EditPutQueue, Ref: core.Ref{QID: q}, Value: fmt.Append(nil, "config ", w.seq)},
		{Kind: core.EditPutQueueState, Ref: core.Ref{QID: q}, Value: fmt.Append(nil, "counts ", w.seq)},
	}
}

func (w *workload) dedupOperation() []core.Edit {
	minute := uint32(28_000_000 + w.pick(6, "minute"))
	if w.pick(4, "drop minutes") == 0 {
		return []core.Edit{{Kind: core.EditDropDedup, Minute: minute}}
	}
	hash := [16]byte{byte(w.pick(4, "hash"))}
	return []core.Edit{{Kind: core.EditPutDedup, Ref: core.Ref{QID: w.queue()}, Minute: minute, Key: hash[:], Value: fmt.Append(nil, w.seq)}}
}

// reapOperation purges the oldest incarnation, or removes one that was purged.
func (w *workload) reapOperation() []core.Edit {
	if reaps := slices.Sorted(maps.Keys(w.model.reaps)); len(reaps) > 0 && w.pick(2, "reap now") == 0 {
		return []core.Edit{{Kind: core.EditReapQueue, Ref: core.Ref{QID: reaps[0]}}, {Kind: core.EditDropReap, Ref: core.Ref{QID: reaps[0]}}}
	}
	w.qid++
	return []core.Edit{{Kind: core.EditPutReap, Ref: core.Ref{QID: w.qid - 3}}}
}

// check compares all that d shows with m.
func (m *model) check(t tb, d *DB, own int) {
	t.Helper()
	shown := newModel()
	fill := &filler{t: t, d: d, shown: shown}
	// A queue that the model does not know shows in the count of keys.
	for q := range m.incarnations() {
		fill.queue(q)
	}
	fill.node()
	for id := range m.dedup {
		v, err := d.Dedup(id.minute, id.qid, id.hash)
		fill.must(err)
		if v != nil {
			shown.dedup[id] = string(v)
		}
	}
	compareMaps(t, "messages", shown.messages, m.messages)
	compareMaps(t, "states", shown.states, m.states)
	compareMaps(t, "queues", shown.queues, m.queues)
	compareMaps(t, "queue states", shown.counts, m.counts)
	compareMaps(t, "names", shown.names, m.names)
	compareMaps(t, "lanes", shown.lanes, m.lanes)
	compareMaps(t, "dedup", shown.dedup, m.dedup)
	compareMaps(t, "reaps", shown.reaps, m.reaps)
	compareMaps(t, "records", shown.records, m.records)
	compareMaps(t, "epochs", shown.epochs, m.epochs)
	for r, want := range m.bodies {
		if v, err := d.Body(r.QID, r.Seq); string(v) != want || err != nil {
			t.Errorf("body %v is %q, %v; want %q", r, v, err, want)
		}
	}
	if got, want := countKeys(t, d.pebble), m.size(own); got != want {
		t.Errorf("%d keys in the database, want %d", got, want)
	}
}

func countKeys(t tb, p *pebble.DB) int {
	t.Helper()
	it, err := p.NewIter(nil)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		n++
	}
	if err := it.Close(); err != nil {
		t.Fatal(err)
	}
	return n
}

func compareMaps[K comparable, V comparable](t tb, what string, got, want map[K]V) {
	t.Helper()
	for k, v := range want {
		if g, ok := got[k]; !ok || g != v {
			t.Errorf("%s: %v is %v (there: %v), want %v", what, k, g, ok, v)
			return
		}
	}
	for k, v := range got {
		if _, ok := want[k]; !ok {
			t.Errorf("%s: %v is there (%v), and should not be", what, k, v)
			return
		}
	}
}

// filler reads a Store into a model.
type filler struct {
	t     tb
	d     *DB
	shown *model
}

func (f *filler) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *filler) queue(q core.QID) {
	f.t.Helper()
	lanes := []core.Place{{}}
	for n := range uint64(3) {
		lanes = append(lanes, core.Place{Kind: core.PlacePriority, N: n}, core.Place{Kind: core.PlaceGroup, N: n << 60})
	}
	for _, lane := range lanes {
		f.must(f.d.Messages(q, lane, 0, core.SeqMax, func(s core.Seq, v []byte) bool {
			f.shown.messages[core.Ref{QID: q, Place: lane, Seq: s}] = string(v)
			return true
		}))
	}
	f.must(f.d.Delayed(q, 0, 0, 1<<60, func(due uint64, s core.Seq, v []byte) bool {
		f.shown.messages[core.Ref{QID: q, Place: core.Place{Kind: core.PlaceDelayed, N: due}, Seq: s}] = string(v)
		return true
	}))
	f.must(f.d.States(core.Ref{QID: q}, func(r core.Ref, st core.MessageState) bool {
		f.shown.states[r] = st
		return true
	}))
	f.must(f.d.Lanes(q, core.Place{}, func(p core.Place, v []byte) bool {
		f.shown.lanes[core.Ref{QID: q, Place: p}] = string(v)
		return true
	}))
	if v, err := f.d.QueueRecord(q); v != nil || err != nil {
		f.must(err)
		f.shown.queues[q] = string(v)
	}
	if v, err := f.d.QueueState(q); v != nil || err != nil {
		f.must(err)
		f.shown.counts[q] = string(v)
	}
}

func (f *filler) node() {
	f.t.Helper()
	f.must(f.d.Names("", "", func(name string, q core.QID) bool { f.shown.names[name] = q; return true }))
	f.must(f.d.Epochs(func(q core.QID, v []byte) bool { f.shown.epochs[q] = string(v); return true }))
	f.must(f.d.Reaps(func(q core.QID) bool { f.shown.reaps[q] = true; return true }))
	f.must(f.d.Records("", "", func(name string, v []byte) bool { f.shown.records[name] = string(v); return true }))
}

// ownKeys are the engine's own keys of an open database: format, term, position.
const ownKeys = 3

func TestStoreShowsWhatTheModelHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, _ := mustOpen(t, small(onMem()))
		defer func() {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}()
		w := newWorkload(func(n int, what string) int { return rapid.IntRange(0, n-1).Draw(t, what) })
		for range rapid.IntRange(1, 25/slowdown).Draw(t, "changes") {
			if _, err := commit(d, w.change(8)); err != nil {
				t.Fatal(err)
			}
			if rapid.IntRange(0, 9).Draw(t, "flush") == 0 {
				if err := d.pebble.Flush(); err != nil {
					t.Fatal(err)
				}
			}
			readAround(t, d, w)
		}
		w.model.check(t, d, ownKeys)
		if n := d.Metrics().MisusedDeletes; n != 0 {
			t.Errorf("%d suspicious deletes", n)
		}
	})
}

// readAround makes one read of each kind with drawn bounds.
func readAround(t *rapid.T, d *DB, w *workload) {
	limit := rapid.IntRange(1, 20).Draw(t, "limit")
	q, lane := w.queue(), w.place()
	from, to := core.Seq(rapid.Uint64Range(0, uint64(w.seq)+2).Draw(t, "from")), core.Seq(rapid.Uint64Range(0, uint64(w.seq)+2).Draw(t, "to"))
	var got []core.Ref
	visit := func(r core.Ref) bool {
		got = append(got, r)
		return len(got) < limit
	}
	compare := func(what string, err error, want []core.Ref) {
		want = want[:min(len(want), limit)]
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %v, %v; want %v", what, got, err, want)
		}
		got = nil
	}
	m := w.model
	err := d.Messages(q, lane, from, to, func(s core.Seq, v []byte) bool {
		r := core.Ref{QID: q, Place: lane, Seq: s}
		if string(v) != m.messages[r] {
			t.Errorf("message %v is %q", r, v)
		}
		return visit(r)
	})
	compare("Messages", err, selectRefs(m.messages, func(r core.Ref) bool {
		return r.QID == q && r.Place == lane && r.Seq >= from && r.Seq < to
	}))

	due := 1_700_000_000_000 + rapid.Uint64Range(0, 5).Draw(t, "due from")
	dueEnd := 1_700_000_000_000 + rapid.Uint64Range(0, 6).Draw(t, "due to")
	err = d.Delayed(q, due, from, dueEnd, func(due uint64, s core.Seq, _ []byte) bool {
		return visit(core.Ref{QID: q, Place: core.Place{Kind: core.PlaceDelayed, N: due}, Seq: s})
	})
	start := core.Ref{QID: q, Place: core.Place{Kind: core.PlaceDelayed, N: due}, Seq: from}
	compare("Delayed", err, selectRefs(m.messages, func(r core.Ref) bool {
		return r.QID == q && r.Place.Kind == core.PlaceDelayed && compareRefs(r, start) >= 0 && r.Place.N < dueEnd
	}))

	start = core.Ref{QID: q, Place: lane, Seq: from}
	err = d.States(start, func(r core.Ref, st core.MessageState) bool {
		if st != m.states[r] {
			t.Errorf("state of %v is %+v", r, st)
		}
		return visit(r)
	})
	compare("States", err, selectRefs(m.states, func(r core.Ref) bool { return r.QID == q && compareRefs(r, start) >= 0 }))

	after := core.Ref{QID: q, Place: core.Place{Kind: core.PlaceGroup, N: rapid.Uint64Range(0, 3).Draw(t, "after") << 60}}
	err = d.Lanes(q, after.Place, func(p core.Place, _ []byte) bool { return visit(core.Ref{QID: q, Place: p}) })
	compare("Lanes", err, selectRefs(m.lanes, func(r core.Ref) bool { return r.QID == q && compareRefs(r, after) > 0 }))
	readPoints(t, d, w)
}

func readPoints(t *rapid.T, d *DB, w *workload) {
	r := core.Ref{QID: w.queue(), Place: w.place(), Seq: core.Seq(rapid.Uint64Range(0, uint64(w.seq)+1).Draw(t, "seq"))}
	v, err := d.Message(r)
	if want, there := w.model.messages[r]; string(v) != want || (v != nil) != there || err != nil {
		t.Errorf("message %v is %q, %v; want %q", r, v, err, want)
	}
	st, ok, err := d.State(r)
	if want, there := w.model.states[r]; st != want || ok != there || err != nil {
		t.Errorf("state of %v is %+v, %v, %v; want %+v", r, st, ok, err, want)
	}
	prefix := rapid.SampledFrom([]string{"", "q", "qb", "qz"}).Draw(t, "prefix")
	after := rapid.SampledFrom([]string{"", "a", "q", "qa", "qb", "qzz"}).Draw(t, "after name")
	var names []string
	err = d.Names(prefix, after, func(name string, q core.QID) bool {
		names = append(names, name)
		return w.model.names[name] == q
	})
	var want []string
	for name := range w.model.names {
		if strings.HasPrefix(name, prefix) && name > after {
			want = append(want, name)
		}
	}
	slices.Sort(want)
	if !slices.Equal(names, want) || err != nil {
		t.Errorf("names with %q after %q: %v, %v; want %v", prefix, after, names, err, want)
	}
	var oldest uint32
	for id := range w.model.dedup {
		if oldest == 0 || id.minute < oldest {
			oldest = id.minute
		}
	}
	if minute, ok, err := d.DedupFrom(); minute != oldest || ok != (oldest != 0) || err != nil {
		t.Errorf("oldest minute %d, %v, %v; want %d", minute, ok, err, oldest)
	}
}
