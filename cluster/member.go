package cluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/leasemq/broker/core"
)

// Defaults and bounds of Options.
const (
	LeaseDefault = 2 * time.Second
	DepthDefault = 8
	depthMax     = 8
	leaseMin     = 10 * time.Millisecond
	rankMax      = 64
)

// Fractions of the lease.
const (
	coverPerMille   = 800  // for so long an acknowledged record covers answers
	silencePerMille = 1000 // so long without a valid record, and a standby takes over
	heartbeatsLease = 5    // an idle primary sends so many in a lease
	jitterLease     = 8    // ranks are this fraction of a lease apart
	moveLeaderLease = 4    // a move of the log's leader may take this fraction
	retryLease      = 8    // and so are tries of what did not work
)

// positionRecordsMax is how many records without Changes are passed before the
// position is stored: a restart looks at them again.
const positionRecordsMax = 64

// Options says what a Member stands on.
type Options struct {
	Node  string // name of this node, 1 to 255 bytes of UTF-8
	Rank  int    // 0 to 64: of several standbys the lowest takes over first
	Log   Log
	Store Store
	// Lead runs the node as primary, in a goroutine of its own, and returns when
	// it has ended all that uses the Lease or reads the Store, soon after ctx has
	// ended. Until it returns nothing else is applied. If the lease is not lost by
	// then, the Changes that are submitted to it still commit, and the member then
	// hands over. An error ends the member.
	Lead func(ctx context.Context, l *Lease) error
	// OnEpoch is told of each epoch that begins, and by whom, on the goroutine of
	// Run, which it must not hold up; nil: nobody is.
	OnEpoch func(epoch uint32, e Epoch)
	Lease   time.Duration // 0: LeaseDefault; the same on each node
	Depth   int           // records in flight, 1 to 8; 0: DepthDefault
	// Instance tells this process from those before it; zero: random.
	Instance [16]byte
	// Clock is a clock that also runs while the machine is suspended; nil: the
	// system's.
	Clock  func() time.Duration
	Logger *slog.Logger // nil: slog.Default

	// For tests alone.
	lax       bool // the apply rule takes everything
	padless   bool // a take-over has no pads
	partBytes int  // of Changes in one record
	// Fractions of a lease: how long a standby waits, how long an answer is covered.
	silencePerMille, coverPerMille int
}

// Member is one node of the cluster: a standby that applies what the log says,
// or the primary that writes it. Run is called once; the other methods may be
// called from any goroutine.
type Member struct {
	o     Options
	log   *slog.Logger
	clock func() time.Duration
	rand  *mathrand.Rand

	// These belong to the goroutine of Run.
	chain  *Chain
	stored uint64        // sequence of the position that the store has
	epoch  *Epoch        // the newest epoch record that was seen; nil: none since the start
	mine   bool          // this member wrote it, to lead
	silent time.Duration // how long after a valid record a take-over begins

	ringAt   atomic.Int64  // when it begins, by clock
	moved    chan struct{} // ringAt has come nearer; capacity 1
	lease    atomic.Pointer[Lease]
	handover chan handover
}

type handover struct {
	to    string
	ended chan error
}

// New checks o and makes a member that stands where its store does. The error wraps
// ErrGeneration if that has nothing to do with the log.
func New(o Options) (*Member, error) {
	o.Lease, o.Depth, o.partBytes = cmp.Or(o.Lease, LeaseDefault), cmp.Or(o.Depth, DepthDefault), cmp.Or(o.partBytes, partBytesMax)
	o.silencePerMille, o.coverPerMille = cmp.Or(o.silencePerMille, silencePerMille), cmp.Or(o.coverPerMille, coverPerMille)
	switch {
	case o.Node == "" || len(o.Node) > nodeNameBytesMax:
		return nil, fmt.Errorf("name of the node has %d bytes, want 1 to %d", len(o.Node), nodeNameBytesMax)
	case o.Rank < 0 || o.Rank > rankMax:
		return nil, fmt.Errorf("rank %d is not in 0 to %d", o.Rank, rankMax)
	case o.Depth < 1 || o.Depth > depthMax:
		// A take-over pads for depthMax records of the primary before.
		return nil, fmt.Errorf("depth %d is not in 1 to %d", o.Depth, depthMax)
	case o.Lease < leaseMin:
		return nil, fmt.Errorf("lease of %v is shorter than %v", o.Lease, leaseMin)
	case o.Log == nil || o.Store == nil || o.Lead == nil:
		return nil, errors.New("member needs Log, Store and Lead")
	}
	if o.Instance == (Epoch{}).Instance {
		if _, err := rand.Read(o.Instance[:]); err != nil {
			return nil, err
		}
	}
	m := &Member{
		o: o, log: o.Logger, clock: o.Clock,
		handover: make(chan handover), moved: make(chan struct{}, 1),
		rand: mathrand.New(mathrand.NewPCG(binary.BigEndian.Uint64(o.Instance[:]), binary.BigEndian.Uint64(o.Instance[8:]))),
	}
	if m.log == nil {
		m.log = slog.Default()
	}
	if m.clock == nil {
		m.clock = newBootClock()
	}
	at := o.Store.Applied()
	if err := checkGeneration(at, o.Log.Generation()); err != nil {
		return nil, err
	}
	at.Generation = o.Log.Generation()
	m.chain, m.stored = NewChain(at), at.Seq
	m.chain.lax = o.lax
	return m, nil
}

// LeaseCovers tells whether this node may answer now: it is the primary, and
// nobody else can be yet. It is asked right before each answer.
func (m *Member) LeaseCovers() bool {
	l := m.lease.Load()
	return l != nil && l.Covers()
}

// Run follows the log, leads when nobody else does, and returns when ctx ends,
// after it has handed over, or with what ended it: ErrDiverged, ErrTrimmed,
// ErrMalformed, ErrNewer, or an error of the store or of Lead. The node must then
// stop, or start from another node's checkpoint.
func (m *Member) Run(ctx context.Context) error {
	m.silent = m.afterSilence()
	m.quietFor(m.silent)
	if info, err := m.o.Log.Info(ctx); err == nil && info.Last == 0 && m.chain.At().Seq == 0 {
		m.quietFor(m.jitter()) // nobody can lead yet
	}
	for {
		if err := m.follow(ctx); err != nil || ctx.Err() != nil {
			return err
		}
		l, err := m.takeOver(ctx)
		if err != nil {
			return err
		}
		if l == nil {
			continue
		}
		m.lease.Store(l)
		err = m.lead(ctx, l)
		m.lease.Store(nil)
		if err != nil || ctx.Err() != nil {
			return err
		}
		m.quietFor(m.silent)
	}
}

// Handover ends the lease of this node in order: Lead is asked to return, what
// was submitted commits, and then the node called to takes over without waiting;
// "" lets any. It returns core.ErrNotPrimary if there is nothing to hand over.
func (m *Member) Handover(ctx context.Context, to string) error {
	if len(to) > nodeNameBytesMax {
		return fmt.Errorf("name of a node has %d bytes: %w", len(to), core.ErrInvalidArgument)
	}
	l := m.lease.Load()
	if l == nil {
		return core.ErrNotPrimary
	}
	h := handover{to: to, ended: make(chan error, 1)}
	select {
	case m.handover <- h:
	case <-l.ended:
		return core.ErrNotPrimary
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-h.ended:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Trim removes from the log what no node needs any more: this one and those whose
// positions are given, which must be all that are to go on without a checkpoint,
// have it on stable storage. Only the primary may. It returns up to where.
func (m *Member) Trim(ctx context.Context, standbys []core.LogPosition) (uint64, error) {
	if !m.LeaseCovers() {
		return 0, core.ErrNotPrimary
	}
	at, err := m.o.Store.SyncApplied()
	if err != nil {
		return 0, err
	}
	to := trimTo(at, standbys)
	if to == 0 {
		return 0, nil
	}
	return to, m.o.Log.Trim(ctx, to)
}

// trimTo returns the sequence that all have passed.
func trimTo(own core.LogPosition, standbys []core.LogPosition) uint64 {
	to := own.Seq
	for _, p := range standbys {
		if p.Generation != own.Generation {
			return 0
		}
		to = min(to, p.Seq)
	}
	return to
}

// afterSilence returns how long without a valid record this node takes over.
func (m *Member) afterSilence() time.Duration {
	return m.o.Lease*time.Duration(m.o.silencePerMille)/1000 + m.jitter()
}

// jitter keeps standbys apart.
func (m *Member) jitter() time.Duration {
	step := m.o.Lease / jitterLease
	return time.Duration(m.o.Rank)*step + time.Duration(m.rand.Int64N(int64(step/2)+1))
}

// newBootClock returns a clock that goes on while the machine is suspended.
func newBootClock() func() time.Duration {
	start, base := time.Now(), core.Suspended()
	return func() time.Duration {
		run, slept := time.Since(start), core.Suspended()-base
		// Less is what passes between two readings that are not taken at once.
		const noise = 50 * time.Millisecond
		if slept > noise {
			run += slept
		}
		return run
	}
}
