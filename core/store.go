package core

// Store is what the core reads from storage. A Store shows Changes once they
// are applied, which may be before they are durable: the core bounds its reads
// by what it knows to be durable. Slices passed to callbacks are valid during
// the call only; a callback that returns false ends the walk. Every method may
// be called from any goroutine. An error that wraps ErrCorrupt marks unreadable
// data.
type Store interface {
	Catalog
	Bodies
	// QueueState returns what EditPutQueueState stored for q, nil if there is nothing.
	QueueState(q QID) ([]byte, error)
	// State returns the state record at r and whether there is one.
	State(r Ref) (MessageState, bool, error)
	// Messages walks the records of one lane with from <= seq < to, in order.
	Messages(q QID, lane Place, from, to Seq, visit func(s Seq, record []byte) bool) error
	// Delayed walks the delayed records from (due, seq) on, in order, to those
	// with a due time below dueEnd.
	Delayed(q QID, due uint64, seq Seq, dueEnd uint64, visit func(due uint64, s Seq, record []byte) bool) error
	// States walks the state records of q from r on (r.QID is q), ordered by
	// place kind, place number, sequence.
	States(r Ref, visit func(r Ref, st MessageState) bool) error
	// Lanes walks the lane records of q with a place after the given one, in
	// the order of place kind and number. Place{} starts at the first.
	Lanes(q QID, after Place, visit func(p Place, value []byte) bool) error
}

// Bodies is the part of a Store that finds single messages, and the bodies that
// several share.
type Bodies interface {
	// Message returns a copy of the record at r, nil if there is none.
	Message(r Ref) ([]byte, error)
	// Body returns a copy of what EditPutBody stored for s in an epoch, nil if there
	// is nothing.
	Body(epoch QID, s Seq) ([]byte, error)
	// Epochs walks the epochs in order, with what EditPutEpoch stored.
	Epochs(visit func(epoch QID, value []byte) bool) error
}

// Catalog is the part of a Store that finds queues and node-wide records.
type Catalog interface {
	// QueueID returns the incarnation that name stands for, 0 if there is none.
	QueueID(name string) (QID, error)
	// QueueRecord returns a copy of the queue record of q, nil if there is none.
	QueueRecord(q QID) ([]byte, error)
	// Names walks the queue names with prefix that sort after the given one.
	Names(prefix, after string, visit func(name string, q QID) bool) error
	// Reaps walks the incarnations that await removal.
	Reaps(visit func(q QID) bool) error
	// Dedup returns a copy of a deduplication entry, nil if there is none.
	Dedup(minute uint32, q QID, hash [16]byte) ([]byte, error)
	// DedupFrom returns the oldest minute that has entries, and whether any has.
	DedupFrom() (minute uint32, ok bool, err error)
	// Record returns a copy of a node-wide record, nil if there is none.
	Record(name string) ([]byte, error)
	// Records walks the node-wide records with prefix whose names sort after the
	// given one.
	Records(prefix, after string, visit func(name string, value []byte) bool) error
}

// Boot is what storage knows when it is opened.
type Boot struct {
	Term     uint32 // bumped and synced by this open
	LastTime int64  // the Time of the last Change applied, milliseconds since the epoch
	Clean    bool   // the last shutdown was orderly
}
