package core

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Options says what an Engine stands on.
type Options struct {
	Store     Store
	Committer Committer
	Boot      Boot
	Logger    *slog.Logger // nil: slog.Default
	// WindowBytes bounds the messages that all queues keep in memory ahead of
	// their consumers; 0: 64 MiB.
	WindowBytes int64
	// AllowDeadLetter tells whether a queue of that configuration lets the queue
	// called source name it as its dead-letter queue; nil: every queue does. It is
	// called without locks of queues, and must not call the engine.
	AllowDeadLetter func(deadLetter *QueueConfig, source string) bool
	// Covers tells whether the node is the primary at this moment; nil: always. It is
	// asked before each answer that no commit stands behind, so that nobody is told
	// what another primary has changed since. It must be cheap.
	Covers func() bool
}

// windowBytesDefault is Options.WindowBytes when it is not given.
const windowBytesDefault = 64 << 20

// receiptKeyRecord is the name of the record that holds the receipt key.
const receiptKeyRecord = "receipt-key"

// uncleanRecord is the name of the record that holds the last term that did not
// end in order.
const uncleanRecord = "unclean-term"

// Engine is one node's queue core. Open makes it, Client is the way in.
type Engine struct {
	store       Store
	log         *slog.Logger
	boot        Boot
	clock       *clock
	seq         *sequencer
	receipts    receiptKey
	windowMax   int64
	uncleanTerm uint32 // the last term that ended by a crash
	windowBytes atomic.Int64
	memoryBytes atomic.Int64 // of the messages of all memory queues
	refused     [refusedReasons]atomic.Int64
	dedup       dedupFilter
	returnedMax atomic.Int64 // returned messages of a lane in memory; smaller in tests
	allowDead   func(deadLetter *QueueConfig, source string) bool
	covers      func() bool // nil: always

	draining  chan struct{}
	drainOnce sync.Once
	hold      atomic.Pointer[error]

	failOnce sync.Once
	failed   chan struct{}
	failure  error       // set before failed is closed
	down     atomic.Bool // failed or closed

	closing chan struct{}
	work    sync.WaitGroup // the sequencer, background reads, sweeps
	workMu  sync.Mutex     // guards closed against work.Add
	closed  bool

	tableMu  sync.RWMutex
	byName   map[string]*queue
	tableMax int           // beyond it the table is trimmed
	trimWake chan struct{} // one token: it is to be
	loading  sync.Mutex    // one load at a time

	moves    moveTable
	bodies   bodyTable
	topics   topicTable
	retained retainedTable

	dedupTimer *time.Timer
	dedupArmed atomic.Bool
	reapMu     sync.Mutex
	reapQueue  []reap
	reapWake   chan struct{}
}

// Open starts the core of one node. It reads no queue: each loads when it is
// first touched.
func Open(o Options) (*Engine, error) {
	e := &Engine{
		store: o.Store, log: o.Logger, boot: o.Boot, windowMax: o.WindowBytes, allowDead: o.AllowDeadLetter, covers: o.Covers,
		draining: make(chan struct{}), failed: make(chan struct{}), closing: make(chan struct{}),
		byName: make(map[string]*queue), tableMax: tableMin, trimWake: make(chan struct{}, 1), reapWake: make(chan struct{}, 1),
	}
	e.returnedMax.Store(returnedMax)
	e.bodies = bodyTable{byID: make(map[QID]*epoch), most: epochBytesMax}
	if e.log == nil {
		e.log = slog.Default()
	}
	if e.windowMax == 0 {
		e.windowMax = windowBytesDefault
	}
	e.clock = newClock(o.Boot.LastTime, e.log)
	e.seq = newSequencer(e, MakeSeq(o.Boot.Term)+1)
	e.background(func() { e.seq.run(o.Committer) })
	if err := e.start(); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// start reads the node-wide records.
func (e *Engine) start() error {
	if err := e.loadReceiptKey(); err != nil {
		return fmt.Errorf("receipt key: %w", err)
	}
	if err := e.loadUnclean(); err != nil {
		return fmt.Errorf("unclean term: %w", err)
	}
	if err := e.startDedup(); err != nil {
		return fmt.Errorf("deduplication: %w", err)
	}
	if err := e.loadEpochs(); err != nil {
		return fmt.Errorf("shared bodies: %w", err)
	}
	if err := e.startReaper(); err != nil {
		return fmt.Errorf("reaper: %w", err)
	}
	if err := e.loadMoves(); err != nil {
		return fmt.Errorf("move tasks: %w", err)
	}
	e.startTopics()
	e.background(e.sweep)
	return nil
}

// loadReceiptKey reads the secret of the receipts, or makes it at the first
// start of a store.
func (e *Engine) loadReceiptKey() error {
	b, err := e.store.Record(receiptKeyRecord)
	if err != nil {
		return err
	}
	if b == nil {
		b = make([]byte, 17)
		b[0] = 1
		if _, err := rand.Read(b[1:]); err != nil {
			return err
		}
		g, err := e.seq.begin()
		if err != nil {
			return err
		}
		g.put(Edit{Kind: EditPutRecord, Key: []byte(receiptKeyRecord), Value: b})
		done := g.done
		e.seq.end()
		if err := done.wait(); err != nil {
			return err
		}
	}
	if len(b) != 17 || b[0] != 1 {
		return ErrCorrupt
	}
	e.receipts = receiptKey{k0: binary.BigEndian.Uint64(b[1:]), k1: binary.BigEndian.Uint64(b[9:])}
	return nil
}

// loadUnclean finds out which was the last term that ended by a crash. It is
// stored, since what sessions were given in it is in doubt until it is received
// again, through any number of orderly stops.
func (e *Engine) loadUnclean() error {
	b, err := e.store.Record(uncleanRecord)
	if err != nil {
		return err
	}
	if b != nil {
		if len(b) != 5 || b[0] != 1 {
			return ErrCorrupt
		}
		e.uncleanTerm = binary.BigEndian.Uint32(b[1:])
	}
	if e.boot.Clean {
		return nil
	}
	e.uncleanTerm = e.boot.Term - 1
	g, err := e.seq.begin()
	if err != nil {
		return err
	}
	// Nobody waits for it: if it is lost, so is the orderly stop.
	g.put(Edit{Kind: EditPutRecord, Key: []byte(uncleanRecord), Value: binary.BigEndian.AppendUint32([]byte{1}, e.uncleanTerm)})
	e.seq.end()
	return nil
}

// Client returns the door of one principal.
func (e *Engine) Client(p Principal) *Client { return &Client{engine: e, principal: p} }

// Now is the core's clock: milliseconds since the epoch. It never goes back.
func (e *Engine) Now() int64 { return e.clock.now() }

// HoldProducers makes every publish fail with an error that wraps reason; nil
// lets them go on. Consumers are not held.
func (e *Engine) HoldProducers(reason error) {
	if reason == nil {
		e.hold.Store(nil)
		return
	}
	e.hold.Store(&reason)
}

func (e *Engine) held() error {
	if p := e.hold.Load(); p != nil {
		return *p
	}
	return nil
}

// Drain makes parked receives answer empty at once; later ones do not wait. It
// may be called more than once.
func (e *Engine) Drain() { e.drainOnce.Do(func() { close(e.draining) }) }

// Failed is closed when a commit has failed; Err then says why. The node must
// stop: what became of the last Changes is unknown.
func (e *Engine) Failed() <-chan struct{} { return e.failed }

// Err returns why the engine has stopped by itself, nil if it has not.
func (e *Engine) Err() error {
	select {
	case <-e.failed:
		return e.failure
	default:
		return nil
	}
}

// fail stops the engine and returns what every caller is answered.
func (e *Engine) fail(err error) error {
	e.failOnce.Do(func() {
		if !errors.Is(err, ErrStopped) {
			err = fmt.Errorf("%w: %w", ErrStopped, err)
		}
		e.failure = err
		if errors.Is(err, ErrNotPrimary) {
			e.log.Warn("this node serves nobody any more: another one may be the primary", "error", err)
		} else {
			e.log.Error("commit failed: the node stops", "error", err)
		}
		e.seq.fail(err)
		close(e.failed)
		e.down.Store(true)
	})
	return e.failure
}

// up tells why nothing is answered any more, if so: the node has failed, was
// closed, or is not the primary.
func (e *Engine) up() error {
	if !e.down.Load() {
		if e.covers != nil && !e.covers() {
			return ErrNotPrimary
		}
		return nil
	}
	if err := e.Err(); err != nil {
		return err
	}
	return ErrStopped
}

// complain logs an error of work that nobody waits for. That the node stops is
// none.
func (e *Engine) complain(what string, err error, args ...any) {
	if !errors.Is(err, ErrStopped) {
		e.log.Error(what, append(args, "error", err)...)
	}
}

// stopped tells whether nothing more can be decided.
func (e *Engine) stopped() bool {
	select {
	case <-e.failed:
		return true
	case <-e.closing:
		return true
	default:
		return false
	}
}

// Close commits what has been accepted and ends all work. Operations that come
// later answer ErrStopped. The Store may be closed afterwards.
func (e *Engine) Close() error {
	e.Drain()
	e.workMu.Lock()
	if e.closed {
		e.workMu.Unlock()
		return nil
	}
	e.closed = true
	e.workMu.Unlock()
	close(e.closing)
	e.down.Store(true)
	e.stopTimers()
	if c := e.seq.barrier(); c != nil && e.Err() == nil {
		_ = c.wait() // its callers are told
	}
	e.seq.close()
	e.work.Wait()
	e.seq.drain()
	return e.Err()
}

func (e *Engine) stopTimers() {
	if e.dedupTimer != nil {
		e.dedupTimer.Stop()
	}
	e.tableMu.RLock()
	loaded := slices.Collect(maps.Values(e.byName))
	e.tableMu.RUnlock() // a queue that leaves the table holds its own lock first
	for _, q := range loaded {
		q.mu.Lock()
		if q.timer != nil {
			q.timer.Stop()
		}
		q.mu.Unlock()
	}
}

// background runs f in a goroutine that Close waits for. After Close it does
// nothing.
func (e *Engine) background(f func()) {
	e.workMu.Lock()
	defer e.workMu.Unlock()
	if e.closed {
		return
	}
	e.work.Add(1)
	go func() {
		defer e.work.Done()
		f()
	}()
}

// AppendHandle appends the text form of a receipt, ReceiptHandleBytes long.
func (c *Client) AppendHandle(dst []byte, r Receipt) []byte {
	return c.engine.receipts.appendHandle(dst, r)
}

// wait is for a commit under a caller's context. A commit is never abandoned:
// when ctx ends first, what was decided still happens.
func wait(ctx context.Context, c *commit) error {
	select {
	case <-c.ch:
		return c.err
	case <-ctx.Done():
		return ctx.Err()
	}
}
