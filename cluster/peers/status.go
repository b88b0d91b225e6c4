package peers

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/leasemq/broker/core"
)

// Role is what a node is just now. Later versions may know others.
type Role string

// The roles.
const (
	RolePrimary  Role = "primary"
	RoleStandby  Role = "standby"
	RoleWitness  Role = "witness"  // has a server of the log, and no state
	RoleStarting Role = "starting" // does not follow the log yet
)

// Status is what a node says of itself.
type Status struct {
	Node       string `json:"node"`
	Role       Role   `json:"role"`
	Generation uint32 `json:"generation"` // of the log that it follows
	Epoch      uint32 `json:"epoch"`
	Applied    uint64 `json:"applied"` // sequence of the newest record that it has looked at
	Durable    uint64 `json:"durable"` // sequence up to which a loss of power takes nothing
	Hash       string `json:"hash"`    // of the newest valid record, in hexadecimal; "" or 32 digits
	Version    string `json:"version"`

	Relay   string            `json:"relay,omitempty"`   // address for relayed connections, host:port
	Clients map[string]string `json:"clients,omitempty"` // addresses for clients, by listener

	LogLast  uint64 `json:"log_last,omitempty"` // end of the log, as far as it knows
	HeardMS  int64  `json:"heard_ms,omitempty"` // since the newest valid record
	TimeMS   int64  `json:"time_ms"`            // its clock, milliseconds since the epoch
	Degraded string `json:"degraded,omitempty"` // what is wrong with it, in words; "": nothing

	// Held is the lowest position that the node has given out a checkpoint of,
	// which somebody may start from. The Server sets it.
	Held *uint64 `json:"held,omitempty"`
}

// Bounds of a Status.
const (
	statusBytesMax   = 32 << 10
	nodeBytesMax     = 128
	roleBytesMax     = 32
	versionBytesMax  = 128
	addressBytesMax  = 255
	clientsMax       = 32
	clientBytesMax   = 64
	degradedBytesMax = 1024
)

// SetApplied sets what a position says.
func (s *Status) SetApplied(at core.LogPosition) {
	s.Generation, s.Epoch, s.Applied, s.Hash = at.Generation, at.Epoch, at.Seq, hex.EncodeToString(at.Hash[:])
}

// Position is what the node has applied. Its time is zero.
func (s *Status) Position() core.LogPosition {
	at := core.LogPosition{Generation: s.Generation, Epoch: s.Epoch, Seq: s.Applied}
	if b, err := hex.DecodeString(s.Hash); err == nil {
		copy(at.Hash[:], b)
	}
	return at
}

// Opened tells whether the node has said what it has applied, if only that it has
// nothing: its store is open.
func (s *Status) Opened() bool { return s.Hash != "" }

// HasState tells whether the node has applied anything.
func (s *Status) HasState() bool { return s.Position().Hash != core.LogPosition{}.Hash }

// check tells whether s may be sent, and believed to be a status.
func (s *Status) check() error {
	switch {
	case !isNode(s.Node):
		return fmt.Errorf("node: %w", errField)
	case s.Role == "" || !isWord(string(s.Role), roleBytesMax):
		return fmt.Errorf("role: %w", errField)
	case s.Hash != "" && !isHash(s.Hash, 2*len(core.LogPosition{}.Hash)):
		return fmt.Errorf("hash: %w", errField)
	case s.Durable > s.Applied:
		return fmt.Errorf("durable, above applied: %w", errField)
	case !isText(s.Version, versionBytesMax):
		return fmt.Errorf("version: %w", errField)
	case s.Relay != "" && !isAddress(s.Relay):
		return fmt.Errorf("relay: %w", errField)
	case len(s.Clients) > clientsMax:
		return fmt.Errorf("clients, of which there are %d: %w", len(s.Clients), errField)
	case s.HeardMS < 0 || s.TimeMS < 0:
		return fmt.Errorf("time: %w", errField)
	case !isText(s.Degraded, degradedBytesMax):
		return fmt.Errorf("degraded: %w", errField)
	}
	for name, address := range s.Clients {
		if !isWord(name, clientBytesMax) || !isText(address, addressBytesMax) {
			return fmt.Errorf("clients: %w", errField)
		}
	}
	return nil
}

// decodeStatus reads what a node has sent. Unknown fields are of later versions.
func decodeStatus(b []byte) (Status, error) {
	var s Status
	if len(b) > statusBytesMax {
		return s, fmt.Errorf("status of %d bytes: %w", len(b), ErrMalformed)
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return Status{}, fmt.Errorf("status: %w: %w", ErrMalformed, err)
	}
	if err := s.check(); err != nil {
		return Status{}, fmt.Errorf("status: %w: %w", ErrMalformed, err)
	}
	return s, nil
}

// isNode tells whether s names a node: letters, digits, dots, - and _.
func isNode(s string) bool {
	return s != "" && isWord(strings.ReplaceAll(s, ".", ""), nodeBytesMax) && len(s) <= nodeBytesMax
}

// subjectOf is where a node is asked. A dot would divide the subject.
func subjectOf(cluster, node string) string {
	return subjectPrefix + cluster + ".node." + strings.ReplaceAll(node, ".", "=")
}

func isWordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}

// isWord tells whether s has letters, digits, - and _ alone.
func isWord(s string, most int) bool {
	for i := range len(s) {
		if !isWordByte(s[i]) {
			return false
		}
	}
	return len(s) <= most
}

// isText tells whether s can be printed.
func isText(s string, most int) bool {
	if len(s) > most || !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}

func isHash(s string, digits int) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b)*2 == digits
}

func isAddress(s string) bool {
	_, port, err := net.SplitHostPort(s)
	return err == nil && port != "" && isText(s, addressBytesMax)
}
