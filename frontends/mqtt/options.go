package mqtt

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/leasemq/broker/core"
)

// Options configures a Server. The zero value of each field is its default.
type Options struct {
	PacketBytesMax int // of a packet; 1 MiB and 64 KiB
	ReceiveMax     int // messages with QoS above 0 on their way, each direction; 1000

	MaxConnections int // a listener; 100,000
	MaxPerAddress  int // connections from one IP address; no limit

	// SessionExpiryMax bounds how long a session outlives its connection. It is
	// what a client of MQTT 3 gets that asks for no clean session; 7 days.
	SessionExpiryMax time.Duration
	// KeepAliveMax bounds the keep alive of MQTT 5, whose clients are told; 0: it
	// is as the client says.
	KeepAliveMax time.Duration

	LoginTimeout time.Duration // from the connection to the end of CONNECT; 10 s
	StallTimeout time.Duration // for a client that takes nothing of what is written to it; 60 s

	// LooseMessages and LooseBytes bound what waits in memory for a session, beyond
	// which the oldest of QoS 0 are dropped, and a session that is not stored is
	// closed: 10,000 messages and 16 MiB.
	LooseMessages int
	LooseBytes    int64

	// SessionMessages and SessionBytes bound what is stored for a session that
	// outlives its connection, beyond which a PUBLISH that it matches is refused:
	// 1,000,000 messages and 1 GiB.
	SessionMessages int64
	SessionBytes    int64

	// DenyFilters lists filters that nobody may subscribe to, nor to a topic that
	// they match.
	DenyFilters []string

	// Origins lists the hosts whose pages may connect over WebSocket, such as
	// "*.example.org" or "app.example.org:8080", besides the broker's own host.
	Origins []string

	// Authenticate tells whether a user has this password; nil: both are not looked
	// at.
	Authenticate func(user, password string) bool

	Version string       // of the broker, for $SYS/broker/version
	Logger  *slog.Logger // slog.Default
}

// Defaults and bounds of Options.
const (
	defaultPacketBytesMax   = 1<<20 + 64<<10
	defaultReceiveMax       = 1000
	defaultMaxConnections   = 100_000
	defaultSessionExpiryMax = 7 * 24 * time.Hour
	defaultLoginTimeout     = 10 * time.Second
	defaultStallTimeout     = time.Minute
	defaultSessionMessages  = 1_000_000
	defaultSessionBytes     = 1 << 30
	keepAliveLimit          = 65535 * time.Second
)

// withDefaults returns o with its zero fields set, or what is wrong with it.
func (o Options) withDefaults() (Options, error) {
	orDefault(&o.PacketBytesMax, defaultPacketBytesMax)
	orDefault(&o.ReceiveMax, defaultReceiveMax)
	orDefault(&o.MaxConnections, defaultMaxConnections)
	orDefault(&o.SessionExpiryMax, defaultSessionExpiryMax)
	orDefault(&o.LoginTimeout, defaultLoginTimeout)
	orDefault(&o.StallTimeout, defaultStallTimeout)
	orDefault(&o.LooseMessages, core.MemoryMessagesDefault)
	orDefault(&o.LooseBytes, core.MemoryBytesDefault)
	orDefault(&o.SessionMessages, defaultSessionMessages)
	orDefault(&o.SessionBytes, defaultSessionBytes)
	orDefault(&o.Logger, slog.Default())
	switch {
	case o.PacketBytesMax < 1024 || o.PacketBytesMax > core.BodyBytesMax:
		return o, fmt.Errorf("the packet limit of %d bytes is not within 1024 and %d", o.PacketBytesMax, core.BodyBytesMax)
	case o.ReceiveMax < 1 || o.ReceiveMax > 32767:
		return o, fmt.Errorf("the receive maximum of %d is not within 1 and 32767", o.ReceiveMax)
	case o.SessionExpiryMax < time.Second || o.KeepAliveMax < 0 || o.KeepAliveMax > keepAliveLimit:
		return o, fmt.Errorf("the session expiry of %v or the keep alive of %v is out of bounds", o.SessionExpiryMax, o.KeepAliveMax)
	case min(int64(o.LooseMessages), o.LooseBytes, o.SessionMessages, o.SessionBytes) < 1:
		return o, fmt.Errorf("a bound of what waits for a session is below 1")
	}
	return o, nil
}

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
