package cluster

import (
	"context"
	"errors"
	"fmt"

	"github.com/leasemq/broker/core"
)

// Entry is a record of the log.
type Entry struct {
	Seq  uint64
	Data []byte
}

// LogInfo says what the log holds. It may be of a moment ago.
type LogInfo struct {
	First uint64 // the oldest record; Last + 1 if there is none
	Last  uint64 // 0: nothing was ever appended
}

// Log is the replicated log. A sequence is given to one record, without gaps,
// from 1 on; a record is never changed, and removed by Trim alone. All methods may
// be called from any goroutine.
type Log interface {
	// Generation tells which log it is: one that was started anew has a higher one.
	Generation() uint32
	// Info is a hint: it may be stale.
	Info(ctx context.Context) (LogInfo, error)
	// Append asks for data to be stored at prev+1, if prev is the last sequence,
	// and calls done with the sequence once it is on stable storage of a majority.
	// Records of one caller are sent in the order of the calls. It does not wait
	// for done, which is called at least once, from any goroutine, in any order;
	// only the first call counts. A *WrongLastError, or one that wraps ErrRefused,
	// says that nothing was stored. Any other leaves that open for good: the
	// record may be stored later.
	Append(prev uint64, data []byte, done func(seq uint64, err error))
	// AppendAtomic stores all records behind prev or none, and returns the sequence
	// of the first. Its errors are those of Append.
	AppendAtomic(ctx context.Context, prev uint64, records [][]byte) (first uint64, err error)
	// Read visits the records from one sequence to another, both included, in
	// order. It returns nil when all were visited. The error wraps ErrTrimmed if
	// one is gone; that of visit is returned.
	Read(ctx context.Context, from, to uint64, visit func(Entry) error) error
	// Tail visits the records from a sequence on, in order and without gaps, and
	// then those that come, on the goroutine of the caller. It returns when ctx
	// ends, when visit returns an error, with that, or when it cannot go on.
	Tail(ctx context.Context, from uint64, visit func(Entry) error) error
	// Trim removes the records up to seq.
	Trim(ctx context.Context, seq uint64) error
}

// LeaderMover is a Log that can move its leader away from this node: a loss of
// the node would take both, and a new leader takes long to be found.
type LeaderMover interface {
	// LeaderHere tells whether the leader is on this node.
	LeaderHere(ctx context.Context) (bool, error)
	// MoveLeader moves it, and returns when it is elsewhere. What is appended
	// meanwhile may be refused.
	MoveLeader(ctx context.Context) error
}

// What a Log answers.
var (
	ErrRefused = errors.New("log refused the record")     // nothing was stored
	ErrUnknown = errors.New("log gave no answer in time") // the record may be stored, now or later
	ErrTrimmed = errors.New("log has been trimmed beyond the position")
)

// WrongLastError says that the log does not end where the writer thinks. Last is
// its real end: there is no other read of it that is sure to be true.
type WrongLastError struct{ Last uint64 }

// Error says what the last sequence is.
func (e *WrongLastError) Error() string { return fmt.Sprintf("last sequence of the log is %d", e.Last) }

// Store is the state of a node, as the member needs it.
type Store interface {
	// Apply applies changes as one batch, whole or not at all, with the position
	// at, without waiting for an fsync. There may be none: the position moves.
	// After an error the node stops.
	Apply(at core.LogPosition, changes []*core.Change) error
	// Applied returns the position of the newest batch.
	Applied() core.LogPosition
	// SyncApplied makes what is applied durable and returns its position.
	SyncApplied() (core.LogPosition, error)
	// Checkpoint writes a copy of the state into dir, which must not exist, and
	// returns its position: what another node starts from when the log was trimmed
	// beyond its own.
	Checkpoint(dir string) (core.LogPosition, error)
}
