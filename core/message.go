package core

import "time"

// Bounds of a message.
const (
	BodyBytesMax      = 16 << 20 // bytes; frontends have lower limits of their own
	AttributesMax     = 256      // attributes a message
	AttributeBytesMax = 1 << 20  // bytes of names, types and values, all attributes of a message
	QueueNameBytesMax = 256      // bytes of UTF-8
	ConfigBytesMax    = 64 << 10 // bytes of names and values, all attributes and tags of a queue
	groupBytesMax     = 256      // bytes of a message group or deduplication id
	PriorityMax       = 9        // 0 lowest, 9 highest, 4 the default of JMS
	InFlightMax       = 120_000  // leases a queue
	VisibilityMax     = 12 * time.Hour
	RetentionDefault  = 4 * 24 * time.Hour
	dedupWindow       = 5 * time.Minute
	DelayMax          = 365 * 24 * time.Hour
)

// MessageID identifies a message on every wire. It is kept through redelivery
// and dead-lettering. Its text form is that of a UUID.
type MessageID [16]byte

// AttributeKind says what a wire calls an attribute.
type AttributeKind uint8

// The kinds of attribute. The numbers are stored.
const (
	AttributeUser     AttributeKind = 0 // SQS message attribute, MQTT user property, STOMP header
	AttributeSystem   AttributeKind = 1 // SQS message system attribute (AWSTraceHeader), SenderId
	AttributeProperty AttributeKind = 2 // a property of the wire of origin that has no field of its own
)

// Attribute is one attribute of a message: kept verbatim and in order, so that
// SQS attributes, STOMP headers and MQTT properties survive a crossing.
type Attribute struct {
	Kind  AttributeKind
	Name  string
	Type  string // SQS data type, such as "String" or "Number.int"; empty elsewhere
	Value []byte
}

// Origin is the protocol that a message came in by. The numbers are stored.
type Origin uint8

// The origins.
const (
	OriginCore Origin = iota
	OriginSQS
	OriginSTOMP
	OriginMQTT
	OriginAdmin
)

// Message is what a producer hands in.
type Message struct {
	ID          MessageID // zero: the core gives one
	Body        []byte    // copied by Publish
	Attributes  []Attribute
	Group       string        // FIFO: required; standard: fair queueing
	DedupID     string        // FIFO
	ContentType string        //
	Priority    uint8         // 0 to PriorityMax; used by priority queues
	Delay       time.Duration // negative: the queue's; rounded up to milliseconds
	TTL         time.Duration // 0: the queue's retention alone
	Origin      Origin
	TraceParent string // W3C
	Topic       string // that it was published to; PublishTopic sets it
}

// Published tells what became of a message that was sent.
type Published struct {
	ID        MessageID
	Seq       Seq
	Duplicate bool // ID and Seq are those of the first send; nothing was stored
}

// DeadLetter tells why and from where a message was dead-lettered.
type DeadLetter struct {
	Source  string // name of the queue it came from first
	Reason  DeadLetterReason
	FirstAt int64 // milliseconds since the epoch: when it was first dead-lettered
}

// DeadLetterReason is stored as a number.
type DeadLetterReason uint8

// The reasons.
const (
	DeadLetterNone DeadLetterReason = iota
	DeadLetterMaxReceives
	DeadLetterExpired
	DeadLetterRejected
)

// Delivery is a message under lease. Its byte slices are views of immutable
// buffers: the receiver may keep them, and never writes to them.
type Delivery struct {
	Stored
	State        MessageState
	Receipt      Receipt
	Redelivered  bool // it was, or after a crash may have been, delivered before
	FirstOfGroup bool // the first of its group that the Consumer was given since it has that
}

// Stored is a message as it is kept.
type Stored struct {
	Seq           Seq
	ID            MessageID
	EnqueuedAt    int64 // milliseconds since the epoch
	ExpiresAt     int64 // milliseconds since the epoch; 0: by retention alone
	Priority      uint8
	Origin        Origin
	DeadLetter    DeadLetter
	PriorReceives uint32 // receives in the queues that it was dead-lettered from

	Group       []byte
	DedupID     []byte
	ContentType []byte
	TraceParent []byte
	Topic       []byte // that it was published to; nil: straight to a queue
	Body        []byte

	attributes     []byte // encoded; see Attributes
	attributeCount int
	ref            *bodyRef // of a shared body; Body is nil until that is read
}
