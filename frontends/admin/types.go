package admin

import (
	"encoding"
	"fmt"
	"strings"
	"time"
)

// Duration is a time.Duration written as "30s" or "1h30m".
type Duration time.Duration

// MarshalText writes d as time.Duration does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads what time.ParseDuration reads.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("%q is not a duration such as 30s", b)
	}
	*d = Duration(v)
	return nil
}

var (
	_ encoding.TextMarshaler   = Duration(0)
	_ encoding.TextUnmarshaler = (*Duration)(nil)
)

// Queue is a queue as the API shows it.
type Queue struct {
	Name       string    `json:"name"`
	CreatedAt  time.Time `json:"created_at,omitzero"`
	ModifiedAt time.Time `json:"modified_at,omitzero"`
	Stats      Stats     `json:"stats"`
	Settings   Settings  `json:"settings"`
}

// Stats counts the messages of a queue.
type Stats struct {
	Messages int64     `json:"messages"`
	Ready    int64     `json:"ready"`
	InFlight int64     `json:"in_flight"`
	Delayed  int64     `json:"delayed"`
	Bytes    int64     `json:"bytes"`
	Oldest   time.Time `json:"oldest,omitzero"`
	Waiters  int       `json:"waiters"`
}

// Settings are what may be set on a queue. A request names those that it
// changes; tags, attributes and copy_to are replaced whole.
type Settings struct {
	Kind              string            `json:"kind"` // standard, fifo, priority or memory; fixed once created
	VisibilityTimeout Duration          `json:"visibility_timeout"`
	Delay             Duration          `json:"delay"`
	Retention         Duration          `json:"retention"` // 0s: for ever
	ReceiveWait       Duration          `json:"receive_wait"`
	MaxMessageBytes   int64             `json:"max_message_bytes"`
	MaxMessages       int64             `json:"max_messages"`
	MaxBytes          int64             `json:"max_bytes"`
	Overflow          string            `json:"overflow"` // reject or drop-oldest
	Marks             string            `json:"marks"`    // async or sync
	ContentDedup      bool              `json:"content_dedup"`
	DedupScope        string            `json:"dedup_scope"` // queue or group
	Redelivery        Redelivery        `json:"redelivery"`
	ExpiredToDLQ      bool              `json:"expired_to_dlq"`
	CopyTo            []string          `json:"copy_to,omitempty"`       // queues that get a copy of each message; replaced whole
	MoveTo            string            `json:"move_to,omitempty"`       // the queue that gets them in the place of this one
	PublishTopic      string            `json:"publish_topic,omitempty"` // the topic that they go to, with {attribute}
	Attributes        map[string]string `json:"attributes,omitempty"`
	Tags              map[string]string `json:"tags,omitempty"`
}

// Redelivery is what happens to messages that come back.
type Redelivery struct {
	DeadLetterQueue string   `json:"dead_letter_queue"`
	MaxReceives     int      `json:"max_receives"`
	InitialDelay    Duration `json:"initial_delay"`
	Multiplier      float64  `json:"multiplier"`
	MaxDelay        Duration `json:"max_delay"`
}

// QueueList is a page of queues.
type QueueList struct {
	Queues []Queue `json:"queues"`
	Next   string  `json:"next,omitempty"` // pass as after; empty: this was the last page
}

// Attribute is an attribute of a message. Value is its text; what is not UTF-8
// stands in ValueBase64.
type Attribute struct {
	Name        string `json:"name"`
	Type        string `json:"type,omitempty"`
	Value       string `json:"value,omitempty"`
	ValueBase64 []byte `json:"value_base64,omitempty"`
}

// NewMessage is a message to send. Absent fields take the queue's defaults.
type NewMessage struct {
	Body        string      `json:"body,omitempty"`
	BodyBase64  []byte      `json:"body_base64,omitempty"`
	Attributes  []Attribute `json:"attributes,omitempty"`
	Group       string      `json:"group,omitempty"`
	DedupID     string      `json:"dedup_id,omitempty"`
	ContentType string      `json:"content_type,omitempty"`
	Priority    *int        `json:"priority,omitempty"` // 0 to 9; absent: 4
	Delay       *Duration   `json:"delay,omitempty"`
	TTL         Duration    `json:"ttl,omitzero"`
}

// PublishRequest sends messages, all or none.
type PublishRequest struct {
	Messages []NewMessage `json:"messages"`
}

// PublishResponse has one entry for each message of the request.
type PublishResponse struct {
	Messages []Published `json:"messages"`
}

// Published tells what became of a message.
type Published struct {
	ID        string `json:"id"`
	Sequence  uint64 `json:"sequence"`
	Duplicate bool   `json:"duplicate,omitzero"`
}

// Message is a message as it lies in a queue or is delivered.
type Message struct {
	ID            string      `json:"id"`
	Sequence      uint64      `json:"sequence"`
	Body          string      `json:"body,omitempty"`
	BodyBase64    []byte      `json:"body_base64,omitempty"`
	Attributes    []Attribute `json:"attributes,omitempty"`
	Topic         string      `json:"topic,omitempty"` // that it was published to
	Group         string      `json:"group,omitempty"`
	DedupID       string      `json:"dedup_id,omitempty"`
	ContentType   string      `json:"content_type,omitempty"`
	Priority      uint8       `json:"priority"`
	EnqueuedAt    time.Time   `json:"enqueued_at"`
	ExpiresAt     time.Time   `json:"expires_at,omitzero"`
	Receives      uint32      `json:"receives"`
	FirstReceived time.Time   `json:"first_received,omitzero"`
	DeadLetter    *DeadLetter `json:"dead_letter,omitempty"`

	Receipt     string `json:"receipt,omitempty"`     // of a delivery
	Redelivered bool   `json:"redelivered,omitempty"` // of a delivery
	State       string `json:"state,omitempty"`       // of a peek: ready, in_flight or delayed
}

// DeadLetter tells why and from where a message was dead-lettered.
type DeadLetter struct {
	Source string    `json:"source"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

// MessageList is a page of messages.
type MessageList struct {
	Messages []Message `json:"messages"`
	Next     string    `json:"next,omitempty"` // pass as after; empty: this was the last page
}

// ReceiveRequest asks for messages under lease.
type ReceiveRequest struct {
	Max        int       `json:"max,omitzero"`         // 1 to 100; absent: 1
	Visibility *Duration `json:"visibility,omitempty"` // absent: the queue's
	Wait       Duration  `json:"wait,omitzero"`        // up to 20s
	AttemptID  string    `json:"attempt_id,omitempty"`
}

// SettleRequest settles deliveries.
type SettleRequest struct {
	Settlements []Settlement `json:"settlements"`
}

// Settlement settles one delivery: delete, extend, release, reject or
// dead_letter.
type Settlement struct {
	Receipt string   `json:"receipt"`
	Action  string   `json:"action"`
	Delay   Duration `json:"delay,omitzero"`
}

// SettleResponse has one entry for each settlement of the request.
type SettleResponse struct {
	Results []SettleResult `json:"results"`
}

// SettleResult is empty for a settlement that was done.
type SettleResult struct {
	Error *Error `json:"error,omitempty"`
}

// MoveRequest starts a move task. An empty destination sends each message back to
// the queue that it was dead-lettered from.
type MoveRequest struct {
	Destination string `json:"destination,omitempty"`
	Rate        int    `json:"rate,omitzero"` // messages a second, up to 500; 0: no limit
}

// Move is a move task.
type Move struct {
	ID          string    `json:"id"`
	Source      string    `json:"source"`
	Destination string    `json:"destination,omitempty"`
	Rate        int       `json:"rate,omitzero"`
	State       string    `json:"state"`             // running, completed, cancelling, cancelled or failed
	Failure     string    `json:"failure,omitempty"` // why it has failed
	StartedAt   time.Time `json:"started_at"`
	ToMove      int64     `json:"to_move"` // messages that were ready when it began
	Moved       int64     `json:"moved"`
	Expired     int64     `json:"expired,omitzero"` // dropped or dead-lettered instead
}

// MoveList has the last tasks of a source, newest first.
type MoveList struct {
	Moves []Move `json:"moves"`
}

// MoveCancelled tells how many messages a cancelled task had moved.
type MoveCancelled struct {
	Moved int64 `json:"moved"`
}

// BindRequest binds a queue to the topics that a filter matches.
type BindRequest struct {
	Filter   string `json:"filter"`
	Queue    string `json:"queue"`
	Selector string `json:"selector,omitempty"` // as in JMS: of these topics, what it selects
}

// Binding is a binding as the API shows it.
type Binding struct {
	Filter   string `json:"filter"`
	Queue    string `json:"queue"`
	Origin   string `json:"origin"`             // core, sqs, stomp, mqtt or admin
	NoLocal  string `json:"no_local,omitempty"` // the publisher whose messages are passed over
	Selector string `json:"selector,omitempty"`
}

// BindingList is a page of bindings.
type BindingList struct {
	Bindings []Binding `json:"bindings"`
	Next     string    `json:"next,omitempty"` // pass as after; empty: this was the last page
}

// TopicRequest publishes messages to a topic: each bound queue gets all of them.
type TopicRequest struct {
	Topic    string       `json:"topic"`
	Messages []NewMessage `json:"messages"`
	Retain   bool         `json:"retain,omitzero"` // keep the last; one without a body removes what is kept
}

// TopicResponse has one entry for each message of the request.
type TopicResponse struct {
	Messages []TopicPublished `json:"messages"`
}

// TopicPublished tells what became of a message.
type TopicPublished struct {
	ID       string `json:"id"`
	Queues   int    `json:"queues"`             // that got a copy
	Full     int    `json:"full,omitzero"`      // queues that got none, since they are full
	TooLarge int    `json:"too_large,omitzero"` // queues that got none, since they take no message of that size
}

// Retained is the retained value of a topic.
type Retained struct {
	Topic   string  `json:"topic"`
	Message Message `json:"message"`
}

// RetainedList is a page of retained values, in the order of their topics.
type RetainedList struct {
	Retained []Retained `json:"retained"`
	Next     string     `json:"next,omitempty"` // pass as after; empty: this was the last page
}

// Error says what went wrong: Code is stable, Message is for people.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// ErrorResponse is the body of every answer with a status of 400 or more.
type ErrorResponse struct {
	Error Error `json:"error"`
}

// namesOfKind are the spellings of core.QueueKind, by number; the others alike.
func namesOfKind() []string     { return []string{"standard", "fifo", "priority"} }
func namesOfOverflow() []string { return []string{"reject", "drop-oldest"} }
func namesOfMarks() []string    { return []string{"async", "sync"} }
func namesOfScope() []string    { return []string{"queue", "group"} }
func namesOfReason() []string {
	return []string{"", "max_receives", "expired", "rejected"}
}

// nameOf spells the value n.
func nameOf[T ~uint8](n T, names []string) string {
	if int(n) < len(names) {
		return names[n]
	}
	return fmt.Sprint(uint8(n))
}

// valueOf reads the spelling s of the setting key.
func valueOf[T ~uint8](key, s string, names []string) (T, error) {
	for i, name := range names {
		if s == name {
			return T(i), nil
		}
	}
	return 0, fmt.Errorf("%s is %q, not one of %s", key, s, strings.Join(names, ", "))
}

// when turns milliseconds since the epoch into a time; 0 is the zero time.
func when(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
