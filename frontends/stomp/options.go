package stomp

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/leasemq/broker/core"
)

// Options configures a Server. The zero value of each field is its default.
type Options struct {
	// NoAutoCreate refuses queues that are not there. Otherwise they are created
	// when they are first sent or subscribed to.
	NoAutoCreate bool
	// NewQueue returns the configuration of a queue that is created like that;
	// nil: DefaultNewQueue.
	NewQueue func(name string) core.QueueConfig

	BodyBytesMax   int // of a frame; 4 MiB
	HeaderBytesMax int // of a frame; 64 KiB
	HeadersMax     int // of a frame; 128

	// Origins lists the hosts whose pages may connect over WebSocket, such as
	// "*.example.org" or "app.example.org:8080", besides the broker's own host.
	Origins []string

	MaxConnections int // a listener; 10,000
	MaxPerAddress  int // connections from one IP address; no limit

	LoginTimeout time.Duration // from the connection to the end of CONNECT; 10 s
	HeartBeatMin time.Duration // the shortest heart-beat that is agreed to; 1 s
	StallTimeout time.Duration // for a client that takes nothing of what is written to it; 60 s
	// Hold is how long a client may sit on a message before its connection is
	// closed; 30 minutes. Negative: for ever.
	Hold time.Duration

	Prefetch      int   // messages that a subscription may have unacknowledged, unless it asks otherwise; 1000
	PrefetchBytes int64 // and bytes; 4 MiB
	// TopicMessages and TopicBytes bound what waits for a subscription to topics
	// that is not durable, and in a temporary queue: 10,000 messages and 16 MiB.
	// Beyond them the oldest are dropped, or, with CloseSlow, the connection ends.
	TopicMessages int
	TopicBytes    int64
	CloseSlow     bool
	// TransactionBytes bounds the messages of all open transactions of all
	// connections; 256 MiB.
	TransactionBytes int64
	// NackToDeadLetter makes a NACK without the header requeue reject the message
	// for good, as ActiveMQ does. Otherwise it is delivered again, by the policy
	// of its queue.
	NackToDeadLetter bool

	// LooseGroups has a queue's subscriptions share each message group, as SQS's
	// receivers do. Otherwise a group stays with one of them.
	LooseGroups bool

	// Authenticate tells whether a login has this passcode; nil: both are not
	// looked at.
	Authenticate func(login, passcode string) bool

	Logger *slog.Logger // slog.Default
}

// Defaults and bounds of Options.
const (
	defaultBodyBytesMax   = 4 << 20
	defaultHeaderBytesMax = 64 << 10
	defaultHeadersMax     = 128
	defaultMaxConnections = 10_000
	defaultLoginTimeout   = 10 * time.Second
	defaultHeartBeatMin   = time.Second
	defaultStallTimeout   = time.Minute
	defaultHold           = 30 * time.Minute
	defaultPrefetch       = 1000
	defaultPrefetchBytes  = 4 << 20

	defaultTransactionBytes = 256 << 20
)

// withDefaults returns o with its zero fields set, or what is wrong with it.
func (o Options) withDefaults() (Options, error) {
	if o.NewQueue == nil {
		o.NewQueue = DefaultNewQueue
	}
	orDefault(&o.BodyBytesMax, defaultBodyBytesMax)
	orDefault(&o.HeaderBytesMax, defaultHeaderBytesMax)
	orDefault(&o.HeadersMax, defaultHeadersMax)
	orDefault(&o.MaxConnections, defaultMaxConnections)
	orDefault(&o.LoginTimeout, defaultLoginTimeout)
	orDefault(&o.HeartBeatMin, defaultHeartBeatMin)
	orDefault(&o.StallTimeout, defaultStallTimeout)
	orDefault(&o.Hold, defaultHold)
	orDefault(&o.Prefetch, defaultPrefetch)
	orDefault(&o.PrefetchBytes, defaultPrefetchBytes)
	orDefault(&o.TopicMessages, core.MemoryMessagesDefault)
	orDefault(&o.TopicBytes, core.MemoryBytesDefault)
	orDefault(&o.TransactionBytes, defaultTransactionBytes)
	orDefault(&o.Logger, slog.Default())
	switch {
	case o.BodyBytesMax < 1024 || o.BodyBytesMax > core.BodyBytesMax:
		return o, fmt.Errorf("the body limit of %d bytes is not within 1024 and %d", o.BodyBytesMax, core.BodyBytesMax)
	case o.HeaderBytesMax < 1024 || o.HeaderBytesMax > core.AttributeBytesMax:
		return o, fmt.Errorf("the header limit of %d bytes is not within 1024 and %d", o.HeaderBytesMax, core.AttributeBytesMax)
	case o.HeadersMax < 16 || o.HeadersMax > core.AttributesMax:
		return o, fmt.Errorf("the limit of %d headers is not within 16 and %d", o.HeadersMax, core.AttributesMax)
	case o.TopicMessages < 1 || o.TopicBytes < 1:
		return o, fmt.Errorf("the bound of %d messages or %d bytes of a subscription to topics is below 1", o.TopicMessages, o.TopicBytes)
	case o.Prefetch < 1 || o.Prefetch > core.InFlightMax || o.PrefetchBytes < 1:
		return o, fmt.Errorf("the prefetch of %d messages or %d bytes is out of bounds", o.Prefetch, o.PrefetchBytes)
	}
	return o, nil
}

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
