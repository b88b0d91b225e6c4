package core_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/core/selector"
	"github.com/leasemq/broker/storage"
)

// crashOptions is what one run of the crash model depends on.
type crashOptions struct {
	seed  uint64
	ops   int
	sync  storage.SyncPolicy
	trace int   // operations that a failure prints
	keep  []int // percent of unsynced data that survives a crash, one at random
}

// world is one run: a node that is driven, crashed and opened again.
type world struct {
	o         crashOptions
	rng       *rand.Rand
	pace      *pace
	window    int64 // core.Options.WindowBytes
	returned  int   // returned messages of a lane in memory; 0: as many as ever
	epoch     int   // bytes of shared bodies that close an epoch; 0: as many as ever
	fs        *vfs.MemFS
	db        *storage.DB
	tap       *tap
	engine    *core.Engine
	client    *core.Client
	book      *book
	yards     []*yard
	subs      []*yard // queues of topics
	owners    []*core.Owner
	selectors []*selector.Selector
	tasks     []*task
	life      int
	ranged    bool // a range deletion was made: suspicious SINGLEDELs may be false alarms
	txs       int

	mu      sync.Mutex
	failure error
	trace   []string // of the last operations
}

// yard is a queue as the driver knows it.
type yard struct {
	name     string
	cfg      core.QueueConfig
	exists   bool
	parked   int // receives without an answer yet
	received int // receives launched
	configs  int // changes of its configuration
	dedup    []dedupSend
	lastID   string // the last deduplication id that was sent
}

// dedupSend is a first send of a deduplication id.
type dedupSend struct {
	key string
	id  core.MessageID
	at  int64
}

// task is an operation whose answer is not waited for.
type task struct {
	done   chan struct{}
	finish func() // by the driver, once done is closed
}

// runCrash runs one seed. It is called in a bubble. What it returns names the
// first broken promise, or nil.
func runCrash(o crashOptions) error {
	rng := rand.New(rand.NewPCG(o.seed, 0x6c656173656d71))
	w := &world{o: o, rng: rng, fs: vfs.NewCrashableMem(), book: newBook()}
	w.pace = &pace{rng: rand.New(rand.NewPCG(o.seed, 1)), max: pick(rng, 0, time.Millisecond, 4*time.Millisecond, 30*time.Millisecond, 150*time.Millisecond)}
	w.window = pick[int64](rng, 0, 0, 1, 2<<10)
	w.returned, w.epoch = pick(rng, 0, 0, 1, 5), pick(rng, 0, 1, 2000, 10_000)
	w.yards, w.subs = newYards(rng), newSubs()
	for _, text := range []string{"JMSPriority > 4", "JMSPriority = 0", "JMSPriority < 8"} {
		sel, err := selector.Parse(text)
		if err != nil {
			return err
		}
		w.selectors = append(w.selectors, sel)
	}
	if err := w.open(newLedger(), 0, nil); err != nil {
		return err
	}
	w.declareAll()
	for range o.ops {
		if w.failed() != nil {
			break
		}
		w.step()
	}
	if w.failed() == nil {
		w.drainAll()
	}
	if w.db != nil {
		w.stop()
	}
	if err := w.failed(); err != nil {
		return fmt.Errorf("%w\nlast operations:\n%s", err, strings.Join(w.trace, "\n"))
	}
	return nil
}

func pick[T any](rng *rand.Rand, of ...T) T { return of[rng.IntN(len(of))] }

func (w *world) chance(percent int) bool { return w.rng.IntN(100) < percent }

// newYards are the queues of a run: one of each kind, and dead-letter queues.
func newYards(rng *rand.Rand) []*yard {
	base := func(kind core.QueueKind) core.QueueConfig {
		c := core.DefaultQueueConfig(kind)
		c.VisibilityTimeout = pick(rng, time.Second, 5*time.Second, 30*time.Second)
		return c
	}
	dead := func(c core.QueueConfig, dlq string) core.QueueConfig {
		c.Redelivery = core.Redelivery{DeadLetterQueue: dlq, MaxReceives: 1 + rng.IntN(4), InitialDelay: pick(rng, 0, 2*time.Second), Multiplier: 2}
		c.ExpiredToDLQ = rng.IntN(2) == 0
		return c
	}
	std, fifo, priority := base(core.KindStandard), base(core.KindFIFO), base(core.KindPriority)
	strictMarks, small, short := std, std, std
	strictMarks.Marks = core.MarksSync
	small.MaxMessages, small.Overflow = 20, pick(rng, core.OverflowDropOldest, core.OverflowReject)
	short.Retention = 3 * time.Minute
	grouped := fifo
	grouped.DedupScope, grouped.Delay = core.DedupGroup, pick(rng, 0, 0, 2*time.Second)
	fifo.ContentDedup = true
	return []*yard{
		{name: "std", cfg: dead(std, "dead")},
		{name: "strict", cfg: dead(strictMarks, "dead")},
		{name: "fifo", cfg: dead(fifo, "dead.fifo")},
		{name: "priority", cfg: dead(priority, "dead")},
		{name: "grouped", cfg: grouped},
		{name: "small", cfg: small},
		{name: "short", cfg: dead(short, "dead")},
		{name: "dead", cfg: base(core.KindStandard)},
		{name: "dead.fifo", cfg: base(core.KindFIFO)},
	}
}

func (w *world) report(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failure == nil {
		w.failure = fmt.Errorf("seed %d, life %d: %w", w.o.seed, w.life, err)
		w.trace = append(w.trace, "-> "+err.Error())
	}
}

func (w *world) failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failure
}

func (w *world) failf(format string, args ...any) { w.report(fmt.Errorf(format, args...)) }

// note remembers the last operations for the report.
func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failure != nil {
		return
	}
	if len(w.trace) == w.o.trace {
		w.trace = append(w.trace[:0], w.trace[1:]...)
	}
	w.trace = append(w.trace, fmt.Sprintf("%s ", time.Now().Format("15:04:05.000"))+fmt.Sprintf(format, args...))
}

// open opens the node. Storage must hold base, with all or the first of later.
func (w *world) open(base *ledger, pos core.Pos, later []*core.Change) error {
	term := uint32(w.life) + 1
	quiet := slog.New(strict{w.report})
	var db *storage.DB
	var boot core.Boot
	var err error
	w.pace.hurried(func() {
		db, boot, err = storage.Open(storage.Options{
			Dir: "data", FS: &slowFS{FS: w.fs, delay: w.pace.delay}, Sync: w.o.sync, Logger: quiet,
			Profile: storage.Profile{MemTableBytes: 64 << 10, CacheBytes: 1 << 20},
		})
	})
	if err != nil {
		return fmt.Errorf("seed %d, life %d: %w", w.o.seed, w.life, err)
	}
	w.db = db
	if boot.Term != term {
		w.failf("term %d, want %d", boot.Term, term)
	}
	found, n, idle := w.recovered(base, later, boot)
	w.tap = &tap{db: db, term: term, book: w.book, report: w.report, pace: w.pace, head: found.clone(), durable: found, basePos: pos + core.Pos(n), doubt: core.Pos(idle)}
	w.tap.paced.Store(true)
	w.engine, err = core.Open(core.Options{
		Store: pages{db, w.tap}, Committer: w.tap, Boot: boot, Logger: quiet, WindowBytes: w.window,
	})
	if err != nil {
		return errors.Join(fmt.Errorf("seed %d, life %d: %w", w.o.seed, w.life, err), db.Close())
	}
	if w.returned > 0 {
		core.SetReturnedMax(w.engine, w.returned)
	}
	if w.epoch > 0 {
		core.SetEpochBytes(w.engine, w.epoch)
	}
	w.client = w.engine.Client(core.Principal{})
	w.owners = []*core.Owner{w.client.NewOwner(), w.client.NewOwner()}
	return nil
}

// recovered finds out how many of the unanswered Changes have survived. It must
// be a number of the first ones, each whole.
// idle counts those behind them that change nothing but the position, and may
// have survived or not.
func (w *world) recovered(base *ledger, later []*core.Change, boot core.Boot) (found *ledger, n, idle int) {
	var first error
	for ; ; n++ {
		err := base.difference(w.db)
		if err == nil && boot.LastTime != base.time {
			err = fmt.Errorf("time is %d, want %d", boot.LastTime, base.time)
		}
		switch {
		case err == nil:
			found = base.clone()
			idle++
		case found != nil:
			return found, n - idle, idle - 1
		case first == nil:
			first = err
		}
		if n == len(later) {
			break
		}
		if err := base.apply(later[n], uint32(w.life)); err != nil {
			w.failf("unanswered change: %w", err)
		}
	}
	if found == nil {
		w.failf("storage holds neither what was answered nor that and some of the next %d changes: %w", len(later), first)
		return base, n, 0
	}
	return found, n + 1 - idle, idle - 1
}

// stop closes the node in order.
func (w *world) stop() {
	w.engine.Drain()
	if err := w.engine.Close(); err != nil {
		w.failf("close engine: %w", err)
	}
	for _, t := range w.tasks {
		<-t.done
	}
	w.ranged = w.ranged || w.tap.reaped
	if n := w.db.Metrics().MisusedDeletes; n > 0 && !w.ranged {
		w.failf("%d SINGLEDELs did not meet exactly one SET", n)
	}
	w.pace.hurried(func() {
		if err := w.db.Close(); err != nil {
			w.failf("close storage: %w", err)
		}
	})
}

// restart closes the node and opens it again: nothing is lost, answered or not.
func (w *world) restart() {
	w.note("restart")
	for _, o := range w.owners {
		w.releaseOwner(o, false)
	}
	w.stop()
	w.harvest()
	if !w.tap.idle() {
		w.failf("changes are not answered after an orderly stop")
	}
	base, n := w.tap.snapshot()
	w.life++
	if err := w.open(base, w.tap.basePos+core.Pos(n), nil); err != nil {
		w.report(err)
		w.db = nil
		return
	}
	w.afterOpen()
}

// crash makes the node go on from what a crash at this moment leaves.
func (w *world) crash() {
	if w.chance(70) {
		w.lastWords()
	}
	w.harvest()
	base, n := w.tap.snapshot()
	cfg := vfs.CrashCloneCfg{UnsyncedDataPercent: pick(w.rng, w.o.keep...)}
	if cfg.UnsyncedDataPercent > 0 {
		cfg.RNG = rand.New(rand.NewPCG(w.rng.Uint64(), 2))
	}
	clone := w.fs.CrashClone(cfg)
	later := w.tap.since(n)
	w.note("crash, %d%% of what is not synced is kept, %d changes unanswered, %d tasks", cfg.UnsyncedDataPercent, len(later), len(w.tasks))
	w.stop()
	w.tasks = nil
	w.fs = clone
	w.life++
	if err := w.open(base, w.tap.basePos+core.Pos(n), later); err != nil {
		w.report(err)
		w.db = nil
		return
	}
	w.afterOpen()
}

// lastWords starts operations that a crash may cut off.
func (w *world) lastWords() {
	if w.chance(30) {
		w.move(false)
	}
	for range w.rng.IntN(6) {
		w.operate(false)
		if w.chance(40) {
			w.topical(false)
		}
	}
	if w.chance(15) {
		w.endQueue(pick(w.rng, slices.Concat(w.yards, w.subs)...), w.chance(50), false)
	}
	if w.pace.max > 0 && w.chance(60) {
		time.Sleep(time.Duration(w.rng.Int64N(int64(w.pace.max))))
	}
}

// afterOpen takes what is stored for the truth about what was not answered.
func (w *world) afterOpen() {
	w.tap.durably(func(l, _ *ledger) {
		w.book.mu.Lock()
		defer w.book.mu.Unlock()
		for _, y := range slices.Concat(w.yards, w.subs) {
			y.parked = 0
			qid, ok := l.names[y.name]
			y.exists = ok
			if ok {
				y.cfg = l.shelf(qid).cfg
			}
			if !slices.Contains(w.subs, y) { // ids of copies are new
				y.keepDedup(w.book, l, qid)
			}
		}
		clear(w.book.endTried)
		for _, p := range w.book.order {
			p.afterOpen(l)
		}
	})
}

// keepDedup forgets the ids whose first send did not survive, and learns those
// of unanswered sends that did. The book is locked.
func (y *yard) keepDedup(b *book, l *ledger, qid core.QID) {
	stored := map[core.MessageID]bool{}
	for row, v := range l.dedup {
		if id, err := core.DecodeStoredDedup(v); err == nil && row.qid == qid {
			stored[id] = true
		}
	}
	kept := y.dedup[:0]
	for _, d := range y.dedup {
		if stored[d.id] {
			kept = append(kept, d)
			delete(stored, d.id)
		}
	}
	y.dedup = kept
	for id := range stored { // sends without an answer
		p := b.parcels[id]
		y.dedup = append(y.dedup, dedupSend{key: y.dedupKey(&p.msg), id: id, at: p.sentAt})
	}
}

// afterOpen takes the stored state for the truth about p's lease.
func (p *parcel) afterOpen(l *ledger) {
	ref, ok := p.where(l)
	if !ok {
		p.lost = true // or gone: it must not come, or come back
		for _, h := range p.leases {
			h.over, h.pending = true, false
		}
		return
	}
	st := l.shelf(ref.QID).states[ref]
	p.floor = 0
	if ref == p.at {
		p.floor = st.Receives
	}
	h := p.newest()
	if h == nil || h.receipt.Ref != ref {
		return
	}
	same := st.Receives == h.receipt.Receives && st.Nonce == h.receipt.Nonce
	if st.Receives >= h.receipt.Receives && !same {
		p.superseded = true // by a receive without an answer
	}
	h.pending = false
	h.deadline = st.VisibleAt
	if !same || st.Flags&core.StateSession != 0 || h.owner != nil {
		h.over = true
	}
}

// launch starts an operation. finish takes its answer, in the driver: at once if
// it is awaited, else when there is one. Operations are decided in the order of
// their launches.
func (w *world) launch(awaited bool, run, finish func()) {
	t := &task{done: make(chan struct{}), finish: finish}
	go func() {
		defer close(t.done)
		run()
	}()
	if !awaited {
		synctest.Wait()
		w.tasks = append(w.tasks, t)
		return
	}
	<-t.done
	synctest.Wait() // whoever was answered before has taken it
	w.harvest()
	finish()
}

// harvest takes the answers that are there.
func (w *world) harvest() {
	left := w.tasks[:0]
	for _, t := range w.tasks {
		select {
		case <-t.done:
			t.finish()
		default:
			left = append(left, t)
		}
	}
	w.tasks = left
}

// declareAll makes sure that each queue is there.
func (w *world) declareAll() {
	for _, y := range slices.Concat(w.yards, w.subs) {
		w.declare(y, true)
	}
}

func (w *world) declare(y *yard, awaited bool) {
	var created bool
	var err error
	cfg := y.cfg
	w.note("declare %s awaited=%t", y.name, awaited)
	w.launch(awaited, func() { _, created, err = w.client.Declare(context.Background(), y.name, cfg) }, func() {
		switch {
		case errors.Is(err, core.ErrStopped):
			return
		case err != nil || created == y.exists:
			w.failf("declare %s: created=%t, %v", y.name, created, err)
		}
		y.exists = true
		w.tap.durably(func(l, _ *ledger) {
			if l.names[y.name] == 0 {
				w.failf("queue %s was declared and is not stored", y.name)
			}
		})
	})
}
