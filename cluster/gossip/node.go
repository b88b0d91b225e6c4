package gossip

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/hashicorp/memberlist"
)

// NodeBytesMax bounds what a node says of itself, in its encoded form.
const NodeBytesMax = memberlist.MetaMaxSize

// RoleLog is the role of the nodes that keep the replicated log.
const RoleLog = "log"

// Node is what a node says of itself. All of it is told by peers: hints and
// addresses to try.
type Node struct {
	Name    string            `json:"n"`           // 1 to 64 letters, digits and . _ -; unique in the cluster
	Route   string            `json:"r,omitempty"` // host and port at which servers of the log connect
	Clients map[string]string `json:"c,omitempty"` // addresses for clients by listener, such as "stomp"
	Relay   string            `json:"y,omitempty"` // host and port of the relay
	Roles   []string          `json:"o,omitempty"`
	Version string            `json:"v,omitempty"`
	Leads   uint32            `json:"e,omitempty"` // the epoch in which it is the primary; 0: in none, so far as it knows
	Applied uint64            `json:"a,omitempty"` // sequence of the log, some time ago
	Expect  int               `json:"x,omitempty"` // with how many log members it boots first; see Gossip.Bootstrap
	Leaving bool              `json:"l,omitempty"` // set by Gossip.Leave
}

// encode returns the binary form of n, or why there is none.
func (n Node) encode() ([]byte, error) {
	if !validName(n.Name) {
		return nil, fmt.Errorf("name %q of the node is not 1 to 64 letters, digits and . _ -", n.Name)
	}
	b, err := json.Marshal(n)
	if err != nil {
		return nil, err
	}
	if len(b) > NodeBytesMax {
		return nil, fmt.Errorf("what node %s says of itself has %d bytes, over %d", n.Name, len(b), NodeBytesMax)
	}
	return b, nil
}

// decode reads what a peer says. Unknown fields are those of a newer version.
func decode(b []byte) (Node, error) {
	if len(b) > NodeBytesMax {
		return Node{}, fmt.Errorf("%d bytes, over %d", len(b), NodeBytesMax)
	}
	var n Node
	if err := json.Unmarshal(b, &n); err != nil {
		return Node{}, err
	}
	if !validName(n.Name) {
		return Node{}, fmt.Errorf("name %q", n.Name)
	}
	return n, nil
}

func validName(s string) bool { return regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`).MatchString(s) }

// State is what is believed of a member.
type State int

// The states of a member.
const (
	Alive State = iota + 1
	Left        // it said that it leaves, and is gone
	Dead        // it does not answer
)

// String names s.
func (s State) String() string {
	switch s {
	case Alive:
		return "alive"
	case Left:
		return "left"
	case Dead:
		return "dead"
	}
	return fmt.Sprintf("State(%d)", int(s))
}

// Member is a node as this one believes it to be.
type Member struct {
	ID      string
	Address netip.AddrPort // at which it gossips
	Node    Node           // zero if what it says cannot be read
	State   State
	Since   time.Time // of State, by this node's clock
}

// LogRoutes returns the routes of all log members in the order of their names, those
// of members that are gone too: a server looks for the others until they are back. Of
// members with one name the one that is alive counts, else the one that was last. A
// route that is not a host and a port is left out.
func LogRoutes(members []Member) []string {
	last := make(map[string]Member)
	for _, m := range members {
		if !slices.Contains(m.Node.Roles, RoleLog) || !validRoute(m.Node.Route) {
			continue
		}
		if before, ok := last[m.Node.Name]; !ok || m.supersedes(before) {
			last[m.Node.Name] = m
		}
	}
	var routes []string
	for _, name := range slices.Sorted(maps.Keys(last)) {
		routes = append(routes, last[name].Node.Route)
	}
	return routes
}

// supersedes reports whether m rather than other is the node of their name.
func (m Member) supersedes(other Member) bool {
	if alive := m.State == Alive; alive != (other.State == Alive) {
		return alive
	}
	return m.Since.After(other.Since)
}

func validRoute(s string) bool {
	host, port, err := net.SplitHostPort(s)
	if err != nil || host == "" {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}
