package gossip

import (
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/hashicorp/memberlist"
)

// PortDefault is that of seeds that name none.
const PortDefault = 7946

// seedsMax bounds Options.Seeds.
const seedsMax = 64

// Options says what a Gossip stands on.
type Options struct {
	ID      string // of the node's data, stable for ever: 1 to 64 letters, digits and . _ -
	Cluster string // its label: 1 to 64 letters, digits, - and _
	Node    Node   // what it says of itself at first

	Bind netip.AddrPort // for UDP and TCP; port 0: any
	// Advertise is where others reach this node. Zero: Bind, which must be one
	// address then; port 0: that of Bind.
	Advertise netip.AddrPort
	// Seeds are hosts, with a port or PortDefault. Names are resolved anew at each
	// try. The node's own address may be among them.
	Seeds []string
	// Keys have 16, 24 or 32 bytes. The first one encrypts, all decrypt. None is
	// allowed on loopback alone.
	Keys [][]byte

	Fast   bool         // a dead node is known after a second, for tests; else after about seven
	Logger *slog.Logger // nil: slog.Default
}

// timing is how often things are done.
type timing struct {
	retryMin, retryMax time.Duration // until a seed is reached
	rejoin             time.Duration // after that: two halves find together again
	tell               time.Duration // what the node says changes once in so long
	resolve            time.Duration // of a name
	leave              time.Duration // each step of it
	conflict           time.Duration // for so long one is told
}

func (o Options) timing() timing {
	if o.Fast {
		return timing{
			retryMin: 20 * time.Millisecond, retryMax: 200 * time.Millisecond, rejoin: time.Second,
			tell: 20 * time.Millisecond, resolve: time.Second, leave: time.Second, conflict: 2 * time.Second,
		}
	}
	return timing{
		retryMin: 200 * time.Millisecond, retryMax: 10 * time.Second, rejoin: 10 * time.Second,
		tell: time.Second, resolve: 5 * time.Second, leave: 2 * time.Second, conflict: time.Minute,
	}
}

func (o Options) check() error {
	switch {
	case !validName(o.ID):
		return fmt.Errorf("id %q of the node is not 1 to 64 letters, digits and . _ -", o.ID)
	case !regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`).MatchString(o.Cluster):
		return fmt.Errorf("name %q of the cluster is not 1 to 64 letters, digits, - and _", o.Cluster)
	case !o.Bind.IsValid():
		return errors.New("gossip needs an IP address to bind")
	case o.Bind.Addr().IsUnspecified() && !o.Advertise.IsValid():
		return fmt.Errorf("gossip on %v needs an address to advertise", o.Bind)
	case o.Advertise.IsValid() && o.Advertise.Addr().IsUnspecified():
		return fmt.Errorf("gossip cannot advertise %v", o.Advertise)
	case len(o.Keys) == 0 && !o.Bind.Addr().IsLoopback():
		return fmt.Errorf("gossip on %v needs a key: without one it is for loopback", o.Bind)
	case len(o.Seeds) > seedsMax:
		return fmt.Errorf("%d seeds, over %d", len(o.Seeds), seedsMax)
	}
	for _, k := range o.Keys {
		if err := memberlist.ValidateKey(k); err != nil {
			return fmt.Errorf("key of %d bytes: want 16, 24 or 32", len(k))
		}
	}
	for _, s := range o.Seeds {
		if _, _, err := splitSeed(s); err != nil {
			return fmt.Errorf("seed %q: %w", s, err)
		}
	}
	return nil
}

// splitSeed returns host and port of a seed.
func splitSeed(seed string) (string, uint16, error) {
	if _, err := netip.ParseAddr(seed); err == nil {
		return seed, PortDefault, nil
	}
	host, port, err := net.SplitHostPort(seed)
	if err != nil {
		host, port = seed, strconv.Itoa(PortDefault)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return "", 0, fmt.Errorf("port %q", port)
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return host, uint16(n), nil
	}
	if !regexp.MustCompile(`^[A-Za-z0-9._-]{1,253}$`).MatchString(host) {
		return "", 0, fmt.Errorf("host %q", host)
	}
	return host, uint16(n), nil
}

// config is o for memberlist.
func (o Options) config(logger *log.Logger, ring *memberlist.Keyring) *memberlist.Config {
	c := memberlist.DefaultLANConfig()
	c.Name, c.Label = o.ID, o.Cluster
	c.BindAddr, c.BindPort = o.Bind.Addr().String(), int(o.Bind.Port())
	c.AdvertiseAddr, c.AdvertisePort = c.BindAddr, c.BindPort
	if o.Advertise.IsValid() {
		c.AdvertiseAddr = o.Advertise.Addr().String()
		if p := int(o.Advertise.Port()); p != 0 {
			c.AdvertisePort = p
		}
	}
	c.Keyring = ring
	c.Logger = logger
	c.TCPTimeout = 3 * time.Second          // Close may wait as long
	c.DeadNodeReclaimTime = 5 * time.Second // a node that moved is let in again
	if o.Fast {
		c.ProbeInterval, c.ProbeTimeout = 200*time.Millisecond, 100*time.Millisecond
		c.SuspicionMult, c.SuspicionMaxTimeoutMult = 3, 2
		c.GossipInterval, c.PushPullInterval = 50*time.Millisecond, 500*time.Millisecond
		c.TCPTimeout, c.DeadNodeReclaimTime = 500*time.Millisecond, time.Second
		c.AwarenessMaxMultiplier = 2
	}
	return c
}

// ringOf returns a ring of keys, without any where encryption is not wanted.
func ringOf(keys [][]byte) (*memberlist.Keyring, error) {
	if len(keys) == 0 {
		return memberlist.NewKeyring(nil, nil)
	}
	own := make([][]byte, len(keys))
	for i, k := range keys {
		own[i] = slices.Clone(k)
	}
	return memberlist.NewKeyring(own[1:], own[0])
}
