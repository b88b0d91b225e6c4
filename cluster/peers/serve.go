package peers

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/leasemq/broker/core"
)

// Bounds of a Server.
const (
	clusterBytesMax = 64
	statusesMax     = 16 // requests at once
	requestsMax     = 16
	digestsMax      = 1
	handoversMax    = 1
	checkpointsMax  = 2 // there at once
	backlogMax      = 1024
	backlogBytesMax = 8 << 20
	IdleMaxDefault  = 2 * time.Minute
	holdAfterwards  = time.Minute // a position, after its checkpoint was released
	subjectPrefix   = "lease.peer."
	subjectAll      = ".all"
)

// Options says what a Server answers with. What a node does not have is nil.
type Options struct {
	Cluster string // name of the cluster: letters, digits, - and _, 1 to 64
	Node    string // name of the node: the same, and dots, 1 to 128

	// Status is called for each request, and is quick.
	Status func() Status
	// Handover is cluster.Member.Handover.
	Handover func(ctx context.Context, to string) error
	// Digest hashes the state right after the first batch at or above a sequence,
	// or when wait has passed: storage.DB.DigestAt.
	Digest func(ctx context.Context, at uint64, wait time.Duration) (core.LogPosition, [32]byte, error)
	// Checkpoint is cluster.Store.Checkpoint.
	Checkpoint func(dir string) (core.LogPosition, error)

	// Dir is where checkpoints are made: a folder of this package's own, on the
	// file system of the state, so that they are links. It is emptied at the start.
	Dir     string
	IdleMax time.Duration // a checkpoint that nobody reads is removed then; 0: IdleMaxDefault

	Logger *slog.Logger // nil: slog.Default
}

func (o Options) check() (Options, error) {
	o.IdleMax = cmp.Or(o.IdleMax, IdleMaxDefault)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	switch {
	case o.Cluster == "" || !isWord(o.Cluster, clusterBytesMax):
		return o, fmt.Errorf("name %q of the cluster is not 1 to %d letters, digits, - and _", o.Cluster, clusterBytesMax)
	case !isNode(o.Node):
		return o, fmt.Errorf("name %q of the node is not 1 to %d letters, digits, dots, - and _", o.Node, nodeBytesMax)
	case o.Status == nil:
		return o, errors.New("peers need Status")
	case o.Checkpoint != nil && o.Dir == "":
		return o, errors.New("peers need Dir for checkpoints")
	case o.IdleMax < 0:
		return o, fmt.Errorf("checkpoints are idle after %v", o.IdleMax)
	}
	return o, nil
}

// Server answers the other nodes.
type Server struct {
	o     Options
	shelf *shelf
	ctx   context.Context // of the handlers
	end   context.CancelFunc
	subs  []*nats.Subscription
	// Of requests under way, by kind.
	statuses, requests, digests, handovers chan struct{}

	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
}

// Serve begins to answer. nc is not closed by the Server.
func Serve(nc *nats.Conn, o Options) (*Server, error) {
	o, err := o.check()
	if err != nil {
		return nil, err
	}
	s := &Server{
		o:        o,
		statuses: make(chan struct{}, statusesMax), requests: make(chan struct{}, requestsMax),
		digests: make(chan struct{}, digestsMax), handovers: make(chan struct{}, handoversMax),
	}
	if o.Checkpoint != nil {
		if err := os.RemoveAll(o.Dir); err != nil {
			return nil, fmt.Errorf("empty folder of checkpoints: %w", err)
		}
		if err := os.MkdirAll(o.Dir, 0o700); err != nil {
			return nil, fmt.Errorf("make folder of checkpoints: %w", err)
		}
	}
	s.shelf = newShelf(&s.o)
	s.ctx, s.end = context.WithCancel(context.Background())
	all := subjectPrefix + o.Cluster + subjectAll
	for _, subject := range []string{all, subjectOf(o.Cluster, o.Node)} {
		sub, err := nc.Subscribe(subject, s.take(subject == all))
		if err == nil {
			s.subs = append(s.subs, sub)
			err = sub.SetPendingLimits(backlogMax, backlogBytesMax)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("subscribe: %w", err), s.Close())
		}
	}
	// What is asked when Serve has returned is answered.
	if err := nc.FlushTimeout(waitDefault); err != nil {
		return nil, errors.Join(fmt.Errorf("subscribe: %w", err), s.Close())
	}
	return s, nil
}

// Close ends the requests under way, waits for them, and removes checkpoints.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.end()
	for _, sub := range s.subs {
		_ = sub.Unsubscribe() // the connection may be gone
	}
	s.running.Wait()
	return s.shelf.close()
}

// take returns what is called with requests, one at a time.
func (s *Server) take(all bool) nats.MsgHandler {
	return func(m *nats.Msg) {
		r, err := decodeRequest(m.Data)
		if err == nil && all && r.Op != opStatus {
			err = fmt.Errorf("%w: all nodes are asked to %q", errRequest, r.Op)
		}
		if err != nil {
			s.answer(m, nil, err)
			return
		}
		slots := s.requests
		switch r.Op {
		case opStatus:
			slots = s.statuses
		case opDigest:
			slots = s.digests
		case opHandover:
			slots = s.handovers
		}
		if !s.begin(slots, m, r) {
			s.answer(m, nil, ErrBusy)
		}
	}
}

// begin runs a request in a goroutine of its own if there is room in slots.
func (s *Server) begin(slots chan struct{}, m *nats.Msg, r *request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	select {
	case slots <- struct{}{}:
	default:
		return false
	}
	s.running.Go(func() {
		data, err := s.handle(r)
		<-slots // who has the answer may ask again
		s.answer(m, data, err)
	})
	return true
}

// answer sends data or err to who asked. If it cannot be sent they ask again.
func (s *Server) answer(m *nats.Msg, data []byte, err error) {
	if m.Reply == "" {
		return
	}
	a := nats.NewMsg(m.Reply)
	a.Data = data
	if err != nil {
		a.Data = nil
		a.Header.Set(headerError, encodeError(err))
	}
	if err := m.RespondMsg(a); err != nil {
		s.o.Logger.Debug("peers: answer was not sent", "error", err)
	}
}

// handle runs a request, and makes an error of a panic.
func (s *Server) handle(r *request) (data []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.o.Logger.Error("peers: request ended in a panic", "request", r.Op, "panic", fmt.Sprint(p))
			data, err = nil, fmt.Errorf("%w: panic in %q", errInternal, r.Op)
		}
	}()
	ctx, cancel := context.WithTimeout(s.ctx, r.wait())
	defer cancel()
	switch r.Op {
	case opStatus:
		return s.status()
	case opHandover:
		return nil, s.handover(ctx, r)
	case opDigest:
		return s.digest(ctx, r)
	case opCheckpoint:
		return s.shelf.make()
	case opFiles:
		return s.shelf.files(r)
	case opChunk:
		return s.shelf.chunk(r)
	case opSum:
		return s.shelf.sum(ctx, r)
	case opRelease:
		return nil, s.shelf.release(r.Checkpoint)
	}
	return nil, fmt.Errorf("%w: %.50q is unknown", errRequest, r.Op)
}

func (s *Server) status() ([]byte, error) {
	st := s.o.Status()
	st.Node, st.Held = s.o.Node, s.shelf.held()
	// Whatever is wrong with the node, the others must hear that it is.
	st.Version, st.Degraded = printable(st.Version, versionBytesMax), printable(st.Degraded, degradedBytesMax)
	if err := st.check(); err != nil {
		return nil, fmt.Errorf("status of this node: %w", err)
	}
	data, err := json.Marshal(&st)
	if err == nil && len(data) > statusBytesMax {
		err = fmt.Errorf("status of this node: %w: it has %d bytes", errField, len(data))
	}
	return data, err
}

func (s *Server) handover(ctx context.Context, r *request) error {
	switch {
	case s.o.Handover == nil:
		return fmt.Errorf("handover: %w", errors.ErrUnsupported)
	case r.To != "" && !isNode(r.To):
		return fmt.Errorf("handover to %.200q: %w", r.To, core.ErrInvalidArgument)
	}
	return s.o.Handover(ctx, r.To)
}

// digestAnswer is a Digest as it is sent.
type digestAnswer struct {
	At  position `json:"at"`
	Sum string   `json:"sum"`
}

func (s *Server) digest(ctx context.Context, r *request) ([]byte, error) {
	if s.o.Digest == nil {
		return nil, fmt.Errorf("digest: %w", errors.ErrUnsupported)
	}
	at, sum, err := s.o.Digest(ctx, r.At, milliseconds(r.SettleMS))
	if err != nil {
		return nil, err
	}
	return json.Marshal(digestAnswer{At: newPosition(at), Sum: hex.EncodeToString(sum[:])})
}
