package core

// EditKind says what an Edit does. The numbers are part of the binary form of a
// Change and are never reused.
type EditKind uint8

// The kinds of edit. "Value" names the field of Edit that carries the payload.
const (
	EditPutMessage    EditKind = 1  // Ref; Value: the message record
	EditDropMessage   EditKind = 2  // Ref
	EditPutState      EditKind = 3  // Ref; State
	EditDropState     EditKind = 4  // Ref; Single
	EditPutQueue      EditKind = 5  // QID; Value: the queue record (EncodeQueueRecord)
	EditDropQueue     EditKind = 6  // QID: the queue record and the queue state
	EditPutName       EditKind = 7  // QID; Key: the queue's name
	EditDropName      EditKind = 8  // Key
	EditPutQueueState EditKind = 9  // QID; Value: of the core
	EditPutLane       EditKind = 10 // QID, Place; Value: EncodeLaneState
	EditDropLane      EditKind = 11 // QID, Place
	EditPutDedup      EditKind = 12 // QID; Minute; Key: 16-byte hash; Value: EncodeDedup
	EditDropDedup     EditKind = 13 // all dedup entries of minutes below Minute, node-wide
	EditPutReap       EditKind = 14 // QID: its messages, states and lanes await removal
	EditDropReap      EditKind = 15 // QID: the mark only
	EditReapQueue     EditKind = 16 // QID: one range deletion over all messages, states and lanes
	EditPutRecord     EditKind = 17 // Key: record name; Value: MAC keys, users, move tasks, sources of dead letters, ...
	EditDropRecord    EditKind = 18 // Key
	EditPutBody       EditKind = 19 // QID: the epoch; Seq; Value: a body that messages share, of the core
	EditPutEpoch      EditKind = 20 // QID: the epoch; Value: how many messages refer to its bodies, of the core
	EditReapEpochs    EditKind = 21 // QID, Seq: the first and the last of the epochs that go, with their bodies
)

// Edit is one typed mutation with absolute results: applying it needs no read,
// no clock and no random.
type Edit struct {
	Kind EditKind
	// Single, on EditDropState, says that the record was SET exactly once, by
	// this process, so that storage may use SINGLEDEL.
	Single bool
	Ref
	Minute uint32 // minutes since the epoch
	Key    []byte
	Value  []byte
	State  MessageState
}

// Change is what was decided: a list of edits that storage applies whole or not
// at all, in order. The sequencer seals many operations into one Change; an
// operation never straddles two.
//
// Key and Value slices are owned by the Change from its sealing to the end of
// its commit; nobody writes to them.
type Change struct {
	Time  int64 // core clock at sealing, milliseconds since the epoch
	Edits []Edit
}

// MessageState is the state record of a message that has been received at least
// once. A message without one has never been received, or its mark was lost in
// a crash.
type MessageState struct {
	VisibleAt     int64  // milliseconds since the epoch; at or before now: ready again
	FirstReceived int64  // milliseconds since the epoch
	Receives      uint32 // shown to consumers
	Failures      uint32 // drives the redelivery policy and the dead-letter queue
	Nonce         uint32 // of the newest receipt
	Flags         StateFlags
}

// StateFlags are the flags of a MessageState.
type StateFlags uint8

// StateSession marks a lease that is owned by a session: after a restart its
// message is ready again at once.
const StateSession StateFlags = 1 << 0

// Pos is the position of a committed Change in the order of commits.
type Pos uint64

// LogPosition says where a node's state stands in the replicated log: what was
// applied last. The zero value stands before the first record.
type LogPosition struct {
	Generation uint32   // of the log
	Epoch      uint32   // of the newest valid epoch record
	Seq        uint64   // of the newest record that was looked at
	Hash       [16]byte // of the newest valid record: the next one names it
	Time       int64    // the highest log time so far, milliseconds since the epoch
}

// Committer makes Changes durable. Alone it is storage; in a cluster it is the
// member that appends to the replicated log.
type Committer interface {
	// Submit takes sealed Changes in order and calls done in that order, from
	// another goroutine, once each: nil when the Change is durable, else an
	// error, after which the node must stop: what became of the Change is
	// unknown. Submit may block for back-pressure. A commit is never abandoned,
	// hence no context.
	Submit(c *Change, done func(pos Pos, err error))
}
