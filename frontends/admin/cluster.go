package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/leasemq/broker/core"
)

// ErrClusterState is what a Cluster answers with when it will not do what it is
// asked in the state that it is in. The text that it is wrapped in says why.
var ErrClusterState = errors.New("not in this state of the cluster")

// errNoCluster answers for a node that is no member of a cluster.
var errNoCluster = errors.New("this node is not a member of a cluster")

// How long a cluster may take for an answer.
const (
	statusMax   = 10 * time.Second
	handoverMax = time.Minute
	verifyMax   = 10 * time.Minute // every node reads all that it has
	reseedMax   = 10 * time.Minute
	answerMax   = 10 * time.Second // for sending it then
)

// Cluster is a node's view of its cluster. Its methods may be called at any time
// and from any goroutine, on every node. Apart from the errors of core, they
// answer with [ErrClusterState].
type Cluster interface {
	// Status tells what the node knows. A node that cannot be reached is part of
	// it, and no error.
	Status(ctx context.Context) (ClusterStatus, error)
	// Handover makes the node called to the primary; "" lets any standby. It
	// returns when this node has ceased to be primary.
	Handover(ctx context.Context, to string) error
	// Verify compares what the nodes store at one position of the log.
	Verify(ctx context.Context) (ClusterVerify, error)
	// Reseed starts a new generation of the log from what this node stores.
	// confirm is the name of this node, as a person has typed it.
	Reseed(ctx context.Context, confirm string) error
}

// ClusterStatus is what a node knows of its cluster.
type ClusterStatus struct {
	Node       string        `json:"node"` // that answers
	Role       string        `json:"role"` // its own: primary, standby, witness or starting
	Epoch      uint64        `json:"epoch"`
	Generation uint64        `json:"generation"`        // of the log
	Primary    string        `json:"primary,omitempty"` // empty: none is known
	Log        ClusterLog    `json:"log"`
	Nodes      []ClusterNode `json:"nodes"` // by name
}

// ClusterLog is the state of the replicated log.
type ClusterLog struct {
	Leader     string `json:"leader,omitempty"` // the node that orders its records
	Durability string `json:"durability"`       // synced, unsynced or unverified
	First      uint64 `json:"first"`
	Last       uint64 `json:"last"`
	Bytes      int64  `json:"bytes"`
	MaxBytes   int64  `json:"max_bytes"`
}

// ClusterNode is what is known of one node.
type ClusterNode struct {
	Node      string            `json:"node"`
	Role      string            `json:"role"`
	Epoch     uint64            `json:"epoch"`
	Applied   uint64            `json:"applied"` // the last record of the log that its state has
	Durable   uint64            `json:"durable"` // the last one whose effects are on its disk
	Lag       uint64            `json:"lag"`     // records behind the primary
	Reachable bool              `json:"reachable"`
	Version   string            `json:"version,omitempty"`
	Addresses map[string]string `json:"addresses,omitempty"` // by listener
	Clients   map[string]int    `json:"clients,omitempty"`   // connections, by listener
	Warning   string            `json:"warning,omitempty"`   // what is wrong with it
}

// ClusterVerify is the outcome of a comparison.
type ClusterVerify struct {
	Sequence uint64          `json:"sequence"` // of the log, at which the nodes were compared
	Equal    bool            `json:"equal"`
	Nodes    []ClusterDigest `json:"nodes"`
}

// ClusterDigest stands for all that a node stores at a position of the log.
type ClusterDigest struct {
	Node     string `json:"node"`
	Sequence uint64 `json:"sequence"`
	SHA256   string `json:"sha256,omitempty"` // in hexadecimal
	Error    string `json:"error,omitempty"`  // why there is none
}

// HandoverRequest asks for another primary; an empty To lets any standby be it.
type HandoverRequest struct {
	To string `json:"to,omitempty"`
}

// ReseedRequest asks for a new generation of the log. Confirm is the name of the
// node that it is asked of.
type ReseedRequest struct {
	Confirm string `json:"confirm"`
}

func (s *Server) clusterStatus(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var st ClusterStatus
	err := s.ofCluster(w, r, statusMax, nil, func(ctx context.Context, c Cluster) (err error) {
		st, err = c.Status(ctx)
		return err
	})
	return http.StatusOK, st, err
}

func (s *Server) clusterHandover(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var req HandoverRequest
	return http.StatusNoContent, nil, s.ofCluster(w, r, handoverMax, &req, func(ctx context.Context, c Cluster) error {
		return c.Handover(ctx, req.To)
	})
}

func (s *Server) clusterVerify(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var v ClusterVerify
	err := s.ofCluster(w, r, verifyMax, nil, func(ctx context.Context, c Cluster) (err error) {
		v, err = c.Verify(ctx)
		return err
	})
	return http.StatusOK, v, err
}

func (s *Server) clusterReseed(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var req ReseedRequest
	return http.StatusNoContent, nil, s.ofCluster(w, r, reseedMax, &req, func(ctx context.Context, c Cluster) error {
		if req.Confirm == "" {
			return fmt.Errorf("%w: confirm is empty, and not the name of the node", core.ErrInvalidArgument)
		}
		return c.Reseed(ctx, req.Confirm)
	})
}

// ofCluster asks the node's cluster, for at most as long as given. A body is read
// into req, if that is not nil.
func (s *Server) ofCluster(w http.ResponseWriter, r *http.Request, most time.Duration, req any, ask func(context.Context, Cluster) error) error {
	if s.options.Cluster == nil {
		return errNoCluster
	}
	if req != nil {
		b, err := readBody(r, settingsBytesMax)
		if err != nil {
			return err
		}
		if err := decode(b, req); err != nil {
			return err
		}
	}
	// The server's own deadlines are for answers that come sooner.
	control, end := http.NewResponseController(w), time.Now().Add(most+answerMax)
	if err := errors.Join(control.SetReadDeadline(end), control.SetWriteDeadline(end)); err != nil {
		return fmt.Errorf("extend the deadlines of a request: %w", err)
	}
	ctx, cancel := context.WithTimeout(r.Context(), most)
	defer cancel()
	return ask(ctx, s.options.Cluster)
}
