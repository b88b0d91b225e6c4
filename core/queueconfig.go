package core

import "time"

// QueueKind says how a queue orders its messages.
type QueueKind uint8

// The kinds of queue. The numbers are stored.
const (
	KindStandard QueueKind = 0
	KindFIFO     QueueKind = 1
	KindPriority QueueKind = 2
	KindMemory   QueueKind = 3 // never stored; see Client.DeclareMemory
)

// Marks says when a timed receive is made durable. The numbers are stored.
type Marks uint8

// The policies. FIFO queues always use MarksSync.
const (
	MarksAsync Marks = 0 // in the open Change; the answer does not wait
	MarksSync  Marks = 1 // the answer waits
)

// DedupScope says what a deduplication id is unique in. The numbers are stored.
type DedupScope uint8

// The scopes.
const (
	DedupQueue DedupScope = 0
	DedupGroup DedupScope = 1
)

// Overflow says what happens to a send beyond MaxMessages or MaxBytes.
type Overflow uint8

// The overflow policies. The numbers are stored.
const (
	OverflowReject     Overflow = 0
	OverflowDropOldest Overflow = 1
	OverflowClose      Overflow = 2 // memory queues: nothing more is taken, and the owner is told
)

// QueueConfig is what may be set on a queue. The zero value of each field is
// its default unless the field says otherwise; see DefaultQueueConfig.
type QueueConfig struct {
	Kind              QueueKind         `json:"kind,omitzero"`
	VisibilityTimeout time.Duration     `json:"visibility_timeout"` // 0 to VisibilityMax
	Delay             time.Duration     `json:"delay,omitzero"`     // 0 to DelayMax
	Retention         time.Duration     `json:"retention"`          // 0: for ever
	ReceiveWait       time.Duration     `json:"receive_wait,omitzero"`
	MaxMessageBytes   int64             `json:"max_message_bytes,omitzero"` // for frontends and copies; 0: no limit here
	MaxMessages       int64             `json:"max_messages,omitzero"`      // 0: no limit
	MaxBytes          int64             `json:"max_bytes,omitzero"`         // 0: no limit
	Overflow          Overflow          `json:"overflow,omitzero"`
	InOrder           bool              `json:"in_order,omitzero"` // what comes back goes first, however often; else it takes turns
	Marks             Marks             `json:"marks,omitzero"`
	ContentDedup      bool              `json:"content_dedup,omitzero"`
	DedupScope        DedupScope        `json:"dedup_scope,omitzero"`
	Redelivery        Redelivery        `json:"redelivery,omitzero"`
	ExpiredToDLQ      bool              `json:"expired_to_dlq,omitzero"` // else dropped
	Routes            Routes            `json:"routes,omitzero"`
	Attributes        map[string]string `json:"attributes,omitzero"` // verbatim, for frontends (Policy, KmsMasterKeyId, ...)
	Tags              map[string]string `json:"tags,omitzero"`
}

// Redelivery is the policy for messages that come back.
type Redelivery struct {
	DeadLetterQueue string        `json:"dead_letter_queue,omitzero"` // name; empty: none
	MaxReceives     int           `json:"max_receives,omitzero"`      // 1 to 1000 with a dead-letter queue; 0: no limit
	InitialDelay    time.Duration `json:"initial_delay,omitzero"`
	Multiplier      float64       `json:"multiplier,omitzero"` // of each further delay; below 1 counts as 1
	MaxDelay        time.Duration `json:"max_delay,omitzero"`
}

// DefaultQueueConfig returns the configuration of a queue of kind for which
// nothing was asked: visibility timeout 30 s, retention 4 days.
func DefaultQueueConfig(kind QueueKind) QueueConfig {
	c := QueueConfig{Kind: kind, VisibilityTimeout: 30 * time.Second, Retention: RetentionDefault}
	if kind == KindFIFO {
		c.Marks = MarksSync
	}
	return c
}

// Queue describes a queue.
type Queue struct {
	Name       string
	ID         QID         // of the first incarnation: kept through purges
	QID        QID         // of the present incarnation
	CreatedAt  int64       // milliseconds since the epoch
	ModifiedAt int64       // milliseconds since the epoch
	Config     QueueConfig // maps are shared: read only
}

// QueueStats counts the messages of a queue. Ready + InFlight + Delayed is
// Messages, but for messages whose deletion is being committed.
type QueueStats struct {
	Messages int64
	Bytes    int64 // of bodies and attributes
	Ready    int64
	InFlight int64
	Delayed  int64
	OldestAt int64 // enqueue time of the oldest, milliseconds since the epoch; 0: none
	Waiters  int
}
