package core_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/storage"
)

// tap stands between engine and storage. It sees each Change, keeps the ledger
// of what is submitted and of what is durable, and checks that each Change
// leaves a state that a crash may find.
type tap struct {
	db     *storage.DB
	term   uint32
	book   *book
	report func(error)
	pace   *pace // how long a page takes

	// paced lets pages take time. It is off while the engine reads them under a
	// queue's lock: whoever waits for a mutex stops the bubble's clock.
	paced atomic.Bool

	mu       sync.Mutex
	head     *ledger        // with all that was submitted
	durable  *ledger        // with all that was answered
	log      []*core.Change // of this process
	answered int            // of log
	basePos  core.Pos       // before the first of log, or up to
	doubt    core.Pos       // so many more
	reaped   bool           // a range deletion was submitted
}

// Submit implements core.Committer. What storage gets has been through the
// binary form.
func (t *tap) Submit(c *core.Change, done func(core.Pos, error)) {
	b, err := c.AppendBinary(nil)
	if err != nil {
		t.report(fmt.Errorf("encode change: %w", err))
	}
	copied, err := core.DecodeChange(b)
	if err != nil {
		t.report(fmt.Errorf("decode change: %w", err))
		copied = c
	}
	t.mu.Lock()
	if err := t.take(copied); err != nil {
		t.report(fmt.Errorf("change %d: %w", len(t.log), err))
	}
	t.log = append(t.log, copied)
	n := len(t.log)
	t.mu.Unlock()
	t.db.Submit(copied, func(pos core.Pos, err error) {
		if err == nil {
			t.commit(n, pos)
		}
		done(pos, err)
	})
}

func (t *tap) take(c *core.Change) error {
	shown, err := t.head.withBodies(c)
	if err != nil {
		return err
	}
	if err := t.book.justify(shown, t.head); err != nil {
		return err
	}
	if err := t.book.checkFans(shown, t.head, len(t.log)+1, t.term); err != nil {
		return err
	}
	if err := t.book.checkShared(c); err != nil {
		return err
	}
	given := t.head.given(c)
	if err := t.head.apply(c, t.term); err != nil {
		return err
	}
	if err := t.head.checkTurns(given, t.book); err != nil {
		return err
	}
	for i := range c.Edits {
		switch c.Edits[i].Kind {
		case core.EditReapQueue:
			t.reaped = true
			t.pace.rangeDeletes()
		case core.EditDropDedup, core.EditReapEpochs:
			t.pace.rangeDeletes()
		}
	}
	if err := t.book.checkWhole(shown, t.head); err != nil {
		return err
	}
	return t.head.check(c)
}

func (t *tap) commit(n int, pos core.Pos) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.answered == 0 && pos > t.basePos+1 && pos <= t.basePos+1+t.doubt {
		t.basePos = pos - 1
	}
	if n != t.answered+1 || pos != t.basePos+core.Pos(n) {
		t.report(fmt.Errorf("change %d was answered as the %d-th, at position %d, want %d", n, t.answered+1, pos, t.basePos+core.Pos(n)))
	}
	t.answered++
	if err := t.durable.apply(t.log[n-1], t.term); err != nil {
		t.report(fmt.Errorf("answered change %d: %w", n, err))
	}
}

// idle tells whether all that was submitted is durable.
func (t *tap) idle() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.answered == len(t.log)
}

// submitted counts the Changes of this process.
func (t *tap) submitted() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.log)
}

// durably looks at what is durable, and at what is submitted besides.
func (t *tap) durably(look func(durable, head *ledger)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	look(t.durable, t.head)
}

// snapshot returns the durable ledger and how many Changes it has.
func (t *tap) snapshot() (*ledger, int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.durable.clone(), t.answered
}

// since returns the Changes submitted after the n-th.
func (t *tap) since(n int) []*core.Change {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.log[n:len(t.log):len(t.log)]
}

// pages is the Store of a tap: reading a page takes a while, so that much can
// happen between the read and its use.
type pages struct {
	*storage.DB
	tap *tap
}

func (p pages) pause() {
	if p.tap.paced.Load() {
		time.Sleep(p.tap.pace.delay())
	}
}

// Messages implements core.Store.
func (p pages) Messages(q core.QID, lane core.Place, from, to core.Seq, visit func(core.Seq, []byte) bool) error {
	err := p.DB.Messages(q, lane, from, to, visit)
	p.pause()
	return err
}

// Delayed implements core.Store.
func (p pages) Delayed(q core.QID, due uint64, seq core.Seq, dueEnd uint64, visit func(uint64, core.Seq, []byte) bool) error {
	err := p.DB.Delayed(q, due, seq, dueEnd, visit)
	p.pause()
	return err
}

// slowFS makes fsyncs of logs and tables take a while, half of it before and
// half after the data is safe.
type slowFS struct {
	vfs.FS
	delay func() time.Duration
}

func (f *slowFS) slow(file vfs.File, err error, name string) (vfs.File, error) {
	if err != nil || !strings.HasSuffix(name, ".log") && !strings.HasSuffix(name, ".sst") {
		return file, err
	}
	return &slowFile{File: file, fs: f}, nil
}

func (f *slowFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.Create(name, category)
	return f.slow(file, err, name)
}

func (f *slowFS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.ReuseForWrite(oldname, newname, category)
	return f.slow(file, err, newname)
}

func (f *slowFS) Unwrap() vfs.FS { return f.FS }

type slowFile struct {
	vfs.File
	fs *slowFS
}

func (f *slowFile) around(sync func() error) error {
	d := f.fs.delay()
	time.Sleep(d / 2)
	err := sync()
	time.Sleep(d - d/2)
	return err
}

func (f *slowFile) SyncData() error { return f.around(f.File.SyncData) }
func (f *slowFile) Sync() error     { return f.around(f.File.Sync) }

// pace gives random delays to any goroutine. It gives none while Pebble may sync
// under a lock that another goroutine waits for: in a bubble whoever waits for a
// mutex stops the clock.
type pace struct {
	max time.Duration

	mu      sync.Mutex
	rng     *rand.Rand
	hurry   bool        // Pebble opens or closes
	flushes []time.Time // about when it flushes for range deletions, from a goroutine of its own
}

// rangeDeletes notes that a range deletion is submitted.
func (p *pace) rangeDeletes() {
	const flushDelay = 10 * time.Second // storage's
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flushes = append(p.flushes, time.Now().Add(flushDelay))
}

// flushing tells whether a flush for range deletions may be near.
func (p *pace) flushing() bool {
	for len(p.flushes) > 0 {
		early := time.Until(p.flushes[0])
		if early > -(10*p.max + time.Second) {
			return early < 3*p.max+time.Millisecond
		}
		p.flushes = p.flushes[1:]
	}
	return false
}

// hurried runs f without any delay.
func (p *pace) hurried(f func()) {
	set := func(hurry bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.hurry = hurry
	}
	set(true)
	defer set(false)
	f()
}

func (p *pace) delay() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.max == 0 || p.hurry || p.rng.IntN(4) == 0 || p.flushing() {
		return 0
	}
	return time.Duration(p.rng.Int64N(int64(p.max)))
}

// strict is a log handler that reports errors: an engine on sound storage has
// none.
type strict struct{ report func(error) }

func (s strict) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelError }
func (s strict) WithAttrs([]slog.Attr) slog.Handler           { return s }
func (s strict) WithGroup(string) slog.Handler                { return s }

func (s strict) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += " " + a.String()
		return true
	})
	s.report(fmt.Errorf("logged: %s", text))
	return nil
}

// difference compares what storage holds with l, and returns the first
// difference that it finds.
func (l *ledger) difference(db *storage.DB) error {
	found, err := readLedger(db, l)
	if err != nil {
		return err
	}
	switch {
	case !maps.Equal(found.names, l.names):
		return fmt.Errorf("names are %v, want %v", found.names, l.names)
	case !maps.Equal(found.reaps, l.reaps):
		return fmt.Errorf("removal marks are %v, want %v", found.reaps, l.reaps)
	case !maps.EqualFunc(found.records, l.records, bytes.Equal):
		return fmt.Errorf("records are %q, want %q", found.records, l.records)
	case !maps.EqualFunc(found.dedup, l.dedup, bytes.Equal):
		return fmt.Errorf("%d deduplication entries, want %d, or others", len(found.dedup), len(l.dedup))
	case !sameBoxes(found.boxes, l.boxes):
		return fmt.Errorf("%d epochs of shared bodies, want %d, or others", len(found.boxes), len(l.boxes))
	}
	for qid, want := range l.queues {
		if err := want.difference(found.shelf(qid)); err != nil {
			return fmt.Errorf("queue %d (%s): %w", qid, want.name, err)
		}
	}
	return nil
}

func (s *shelf) difference(found *shelf) error {
	switch {
	case !bytes.Equal(found.record, s.record):
		return fmt.Errorf("queue record is %q, want %q", found.record, s.record)
	case !bytes.Equal(found.state, s.state):
		return fmt.Errorf("queue state is %x, want %x", found.state, s.state)
	case !maps.EqualFunc(found.lanes, s.lanes, bytes.Equal):
		return fmt.Errorf("lanes are %v, want %v", found.lanes, s.lanes)
	}
	for r, m := range s.bodies {
		if f := found.bodies[r]; f == nil || !bytes.Equal(f.record, m.record) {
			return fmt.Errorf("message %v is lost, or another", r)
		}
	}
	for r := range found.bodies {
		if s.bodies[r] == nil {
			return fmt.Errorf("message %v has come back", r)
		}
	}
	for r, m := range s.states {
		if f, ok := found.states[r]; !ok || f.MessageState != m.MessageState {
			return fmt.Errorf("state of %v is %+v, want %+v", r, f.MessageState, m.MessageState)
		}
	}
	for r := range found.states {
		if _, ok := s.states[r]; !ok {
			return fmt.Errorf("state of %v has come back", r)
		}
	}
	return nil
}

// readLedger reads all that storage holds of the queues in known and in the
// names, and of the deduplication entries in known.
func readLedger(db *storage.DB, known *ledger) (*ledger, error) {
	l := newLedger()
	err := errors.Join(
		db.Names("", "", func(name string, q core.QID) bool { l.names[name] = q; return true }),
		db.Reaps(func(q core.QID) bool { l.reaps[q] = true; return true }),
		db.Records("", "", func(name string, v []byte) bool { l.records[name] = bytes.Clone(v); return true }),
	)
	boxes, e := readBoxes(db, known)
	l.boxes = boxes
	err = errors.Join(err, e)
	first, some, e := db.DedupFrom()
	err = errors.Join(err, e)
	ours := false
	for row := range known.dedup {
		ours = ours || row.minute == first
	}
	if some && !ours {
		return nil, fmt.Errorf("deduplication entries of minute %d have come back", first)
	}
	for row := range known.dedup {
		v, e := db.Dedup(row.minute, row.qid, row.hash)
		if err = errors.Join(err, e); v != nil {
			l.dedup[row] = v
		}
	}
	for qid := range known.queues {
		l.shelf(qid)
	}
	for _, qid := range l.names {
		l.shelf(qid)
	}
	for qid, s := range l.queues {
		err = errors.Join(err, readShelf(db, qid, s, known.queues[qid]))
	}
	return l, err
}

func readShelf(db *storage.DB, qid core.QID, s, known *shelf) (err error) {
	var errs [5]error
	s.record, errs[0] = db.QueueRecord(qid)
	s.state, errs[1] = db.QueueState(qid)
	places := map[core.Place]bool{{}: true}
	errs[2] = db.Lanes(qid, core.Place{}, func(p core.Place, v []byte) bool {
		s.lanes[p] = bytes.Clone(v)
		places[p] = true
		return true
	})
	if known != nil {
		for r := range known.bodies {
			if r.Place.Kind != core.PlaceDelayed {
				places[r.Place] = true
			}
		}
	}
	for p := range places {
		err = errors.Join(err, db.Messages(qid, p, 0, core.SeqMax, func(seq core.Seq, rec []byte) bool {
			s.bodies[core.Ref{QID: qid, Place: p, Seq: seq}] = &letter{record: bytes.Clone(rec)}
			return true
		}))
	}
	errs[3] = db.Delayed(qid, 0, 0, 1<<48-1, func(due uint64, seq core.Seq, rec []byte) bool {
		s.bodies[core.Ref{QID: qid, Place: core.Place{Kind: core.PlaceDelayed, N: due}, Seq: seq}] = &letter{record: bytes.Clone(rec)}
		return true
	})
	errs[4] = db.States(core.Ref{QID: qid}, func(r core.Ref, st core.MessageState) bool {
		s.states[r] = mark{MessageState: st}
		return true
	})
	return errors.Join(err, errors.Join(errs[:]...))
}

// sameMessage tells whether two records are of one message, but for what a move
// to a dead-letter queue changes.
func sameMessage(a, b []byte) bool {
	x, errX := core.DecodeRecord(a)
	y, errY := core.DecodeRecord(b)
	attributes := func(s *core.Stored) (out []core.Attribute) {
		s.Attributes(func(a core.Attribute) bool { out = append(out, a); return true })
		return out
	}
	return errX == nil && errY == nil && x.ID == y.ID && x.Priority == y.Priority && x.Origin == y.Origin &&
		bytes.Equal(x.Group, y.Group) && bytes.Equal(x.ContentType, y.ContentType) && bytes.Equal(x.TraceParent, y.TraceParent) &&
		bytes.Equal(x.Body, y.Body) && reflect.DeepEqual(attributes(&x), attributes(&y))
}
