package sqs

import (
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/leasemq/broker/core"
)

// Options configures a Server. The zero value of each field is its default.
type Options struct {
	Region  string // in ARNs; us-east-1
	Account string // 12 digits, in ARNs and queue URLs; 000000000000
	// URLBase is what queue URLs begin with, such as "https://sqs.example.org".
	// Empty: the scheme and Host of each request, so that a client gets URLs
	// that it can reach.
	URLBase string

	// AccessKeys are what requests must be signed with. Empty: any signature,
	// and none, is taken, and everyone is the anonymous principal.
	AccessKeys []AccessKey
	// SigningRegion is the region that signatures must be scoped to; any.
	SigningRegion string
	// RefuseSessionTokens turns away requests with a session token, which is
	// ignored else.
	RefuseSessionTokens bool

	// BodyBytesMax bounds the HTTP body of a request; 8 MiB. A batch of 1 MiB
	// grows up to sixfold in JSON, threefold in Query.
	BodyBytesMax int
	// MessageBytesMax bounds a message, and the sum of a batch; 1 MiB, as on AWS.
	MessageBytesMax int
	// RelaxedLimits lifts what AWS enforces for its own sake: the 60 seconds
	// between two purges, and between the deletion of a queue and its
	// creation. It suits tests.
	RelaxedLimits bool
	// AutoCreate creates a queue on first use, FIFO if its name says so.
	AutoCreate bool
	// NewQueue returns the configuration of a queue that AutoCreate creates;
	// nil: the defaults, with content-based deduplication for FIFO.
	NewQueue func(name string) core.QueueConfig

	// EncodePayloads shows every payload of MQTT in base64, not those alone that are
	// no text: consumers need not look at mqtt.encoding.
	EncodePayloads bool

	MaxConnections int // a listener; 16,384: 10,000 long polls and who sends to them
	MaxPerAddress  int // connections from one IP address; no limit

	HeaderTimeout time.Duration // from the first byte of a request to the end of its header; 10 s
	BodyTimeout   time.Duration // for a body that does not come with its header; 30 s
	IdleTimeout   time.Duration // between two requests; 120 s
	WriteTimeout  time.Duration // for an answer; 30 s

	Logger *slog.Logger // slog.Default
	// Observe, if set, is told of every request that named an action: its
	// name, or Unauthenticated if its sender was not known, the error code ("" if it succeeded), and how long it took,
	// including the wait of a long poll.
	Observe func(action, code string, took time.Duration)
}

// AccessKey is what a client signs its requests with. Its id is the name of the
// principal in the core.
type AccessKey struct {
	ID     string
	Secret string `json:"-"`
}

// String returns the id: the secret is not for logs.
func (k AccessKey) String() string { return k.ID }

// GoString is String.
func (k AccessKey) GoString() string { return k.ID }

// Defaults of Options.
const (
	defaultRegion          = "us-east-1"
	defaultAccount         = "000000000000"
	defaultBodyBytesMax    = 8 << 20
	defaultMessageBytesMax = 1 << 20
	defaultMaxConnections  = 16_384
	defaultHeaderTimeout   = 10 * time.Second
	defaultBodyTimeout     = 30 * time.Second
	defaultIdleTimeout     = 120 * time.Second
	defaultWriteTimeout    = 30 * time.Second
)

// withDefaults returns o with its zero fields set, or what is wrong with it.
func (o Options) withDefaults() (Options, error) {
	orDefault(&o.Region, defaultRegion)
	orDefault(&o.Account, defaultAccount)
	orDefault(&o.BodyBytesMax, defaultBodyBytesMax)
	orDefault(&o.MessageBytesMax, defaultMessageBytesMax)
	orDefault(&o.MaxConnections, defaultMaxConnections)
	orDefault(&o.HeaderTimeout, defaultHeaderTimeout)
	orDefault(&o.BodyTimeout, defaultBodyTimeout)
	orDefault(&o.IdleTimeout, defaultIdleTimeout)
	orDefault(&o.WriteTimeout, defaultWriteTimeout)
	orDefault(&o.Logger, slog.Default())
	if !isAccount(o.Account) {
		return o, fmt.Errorf("account %q is not of 12 digits", o.Account)
	}
	if o.MessageBytesMax < 1024 || o.MessageBytesMax > core.BodyBytesMax {
		return o, fmt.Errorf("the message limit of %d bytes is not within 1024 and %d", o.MessageBytesMax, core.BodyBytesMax)
	}
	if o.URLBase != "" {
		o.URLBase = strings.TrimRight(o.URLBase, "/")
		if u, err := url.Parse(o.URLBase); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return o, fmt.Errorf("the base %q of queue URLs is not an http or https URL", o.URLBase)
		}
	}
	return o, nil
}

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func isAccount(s string) bool {
	if len(s) != 12 {
		return false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}
