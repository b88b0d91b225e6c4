package jetstream

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"time"

	"github.com/nats-io/nats.go"
)

// What a Log is refused for.
var (
	ErrUnsynced  = errors.New("servers of the log do not fsync each write (sync_interval: always)")
	ErrOldServer = errors.New("server of the log is too old")
	ErrAlone     = errors.New("server of the log is not part of a cluster")
	ErrSettings  = errors.New("stream of the log has other settings")
	ErrReplicas  = errors.New("stream of the log has too few replicas")
)

// Bounds and defaults.
const (
	replicas = 3
	// The oldest server with what the log needs, and with the repairs of its Raft.
	versionMajor, versionMinor = 2, 15

	payloadMin        = 1 << 20 // of a message; records have 256 KiB at most
	MaxBytesDefault   = 8 << 30
	maxBytesMin       = 16 << 20
	AckTimeoutDefault = 2 * time.Second
	ackTimeoutMin     = 10 * time.Millisecond
	duplicates        = 100 * time.Millisecond // the least that there is: nothing has a message id

	readRecordsMax = 256     // of one direct get
	readBytesMax   = 4 << 20 // likewise
	readWait       = time.Second
	readRetry      = 20 * time.Millisecond
	tailBacklog    = 4096        // republished records that wait; more are read again
	tailPoll       = time.Second // without a record the log is looked at
	peersWait      = 2 * time.Second
	movePoll       = 5 * time.Millisecond
	moveTryWait    = 100 * time.Millisecond
	tryWait        = 2 * time.Second // for an answer about the stream
)

// Options says what a Log stands on.
type Options struct {
	// Conn reaches the servers; it must not buffer while it reconnects
	// (Connect makes such a one). The Log does not close it.
	Conn *nats.Conn
	// System is a connection of the system account, by which the settings of all
	// servers are read; nil: they are not verified.
	System *nats.Conn

	Name       string // of the cluster of brokers: letters, digits, - and _
	Generation uint32 // 0: 1
	MaxBytes   int64  // of the stream; 0: MaxBytesDefault
	// AllowUnsynced takes servers that do not fsync each write. A loss of power
	// of several may then lose what was acknowledged.
	AllowUnsynced bool

	// Server is the name of the server on this node, where the leader of the log
	// is not wanted while this node is the primary; "": it may be anywhere.
	Server string
	// Prefer is the name of the server that shall have it, such as a witness.
	Prefer string

	AckTimeout time.Duration // 0: AckTimeoutDefault
	Logger     *slog.Logger  // nil: slog.Default
}

func (o Options) check() (Options, error) {
	o.Generation = cmp.Or(o.Generation, 1)
	o.MaxBytes = cmp.Or(o.MaxBytes, MaxBytesDefault)
	o.AckTimeout = cmp.Or(o.AckTimeout, AckTimeoutDefault)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	switch {
	case o.Conn == nil:
		return o, errors.New("log needs a connection")
	case !regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`).MatchString(o.Name):
		return o, fmt.Errorf("name %q of the cluster is not 1 to 64 letters, digits, - and _", o.Name)
	case o.MaxBytes < maxBytesMin:
		return o, fmt.Errorf("log of %d bytes is below %d", o.MaxBytes, maxBytesMin)
	case o.AckTimeout < ackTimeoutMin:
		return o, fmt.Errorf("acknowledgement within %v is below %v", o.AckTimeout, ackTimeoutMin)
	}
	return o, nil
}

// Connect connects to servers, separated by commas, as a Log needs it.
func Connect(url string, more ...nats.Option) (*nats.Conn, error) {
	return nats.Connect(url, append([]nats.Option{
		nats.ReconnectBufSize(-1), // what cannot be sent now must not be sent later
		nats.MaxReconnects(-1),
		nats.ReconnectWait(100 * time.Millisecond),
		nats.ReconnectJitter(50*time.Millisecond, 50*time.Millisecond),
		nats.PingInterval(2 * time.Second),
		nats.MaxPingsOutstanding(2),
		nats.FlusherTimeout(AckTimeoutDefault),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			slog.Debug("connection to the log", "error", err)
		}),
	}, more...)...)
}
