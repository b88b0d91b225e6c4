package peers

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/leasemq/broker/core"
)

// Bounds and defaults of Peers.
const (
	nodesMax     = 64                     // answers to All
	waitDefault  = 2 * time.Second        // for an answer
	quietDefault = 200 * time.Millisecond // after it nobody else answers
	waitGrace    = time.Second            // for an answer that says that it took too long
)

// Peers asks the nodes of a cluster.
type Peers struct {
	nc     *nats.Conn
	o      AskOptions
	settle time.Duration // verifySettle, but for a test
}

// AskOptions says who is asked, and how long.
type AskOptions struct {
	Cluster string // as in Options
	// Nodes are those that All waits for; nil or none: it returns when nobody has
	// answered for a while.
	Nodes func() []string
	Wait  time.Duration // for a status, or a piece of a checkpoint; 0: 2 s
	Quiet time.Duration // without an answer, after which All does not wait; 0: 200 ms
}

// New makes a Peers. nc stays the caller's.
func New(nc *nats.Conn, o AskOptions) (*Peers, error) {
	o.Wait, o.Quiet = cmp.Or(o.Wait, waitDefault), cmp.Or(o.Quiet, quietDefault)
	if o.Cluster == "" || !isWord(o.Cluster, clusterBytesMax) {
		return nil, fmt.Errorf("name %q of the cluster is not 1 to %d letters, digits, - and _", o.Cluster, clusterBytesMax)
	}
	if o.Wait <= 0 || o.Quiet <= 0 {
		return nil, fmt.Errorf("waits of %v and %v are too short", o.Wait, o.Quiet)
	}
	return &Peers{nc: nc, o: o, settle: verifySettle}, nil
}

// All asks all nodes, this one too, and returns what has come in time, in the
// order of their names. The error is of answers that make no sense, or that the
// connection has ended; who does not answer is no error. Two answers in one name
// are two nodes.
func (p *Peers) All(ctx context.Context) ([]Status, error) {
	ctx, cancel := context.WithTimeout(ctx, p.o.Wait)
	defer cancel()
	answers, err := p.nc.SubscribeSync(p.nc.NewInbox())
	if err != nil {
		return nil, fmt.Errorf("ask all nodes: %w", err)
	}
	defer func() { _ = answers.Unsubscribe() }()
	ask, err := json.Marshal(&request{Op: opStatus, WaitMS: p.o.Wait.Milliseconds()})
	if err == nil {
		err = p.nc.PublishRequest(subjectPrefix+p.o.Cluster+subjectAll, answers.Subject, ask)
	}
	if err != nil {
		return nil, fmt.Errorf("ask all nodes: %w", err)
	}
	var absent []string
	if p.o.Nodes != nil {
		absent = slices.Clone(p.o.Nodes())
	}
	known := len(absent) > 0
	var got []Status
	var bad error
	for n := 0; (!known || len(absent) > 0) && n < nodesMax; n++ {
		s, err := p.nextStatus(ctx, answers, !known && len(got) > 0)
		if errors.Is(err, errQuiet) || errors.Is(err, ErrNoNode) {
			break
		}
		if err != nil {
			bad = errors.Join(bad, err)
			if errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrBadSubscription) {
				break
			}
			continue
		}
		got = append(got, s)
		absent = slices.DeleteFunc(absent, func(name string) bool { return name == s.Node })
	}
	slices.SortFunc(got, func(a, b Status) int { return strings.Compare(a.Node, b.Node) })
	return got, bad
}

// errQuiet says that nobody answers any more.
var errQuiet = errors.New("no answer is to come")

// nextStatus waits for one answer.
func (p *Peers) nextStatus(ctx context.Context, answers *nats.Subscription, quick bool) (Status, error) {
	if quick {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.o.Quiet)
		defer cancel()
	}
	m, err := answers.NextMsgWithContext(ctx)
	if errors.Is(err, nats.ErrNoResponders) {
		return Status{}, ErrNoNode
	}
	if ctx.Err() != nil {
		return Status{}, errQuiet
	}
	if err != nil {
		return Status{}, err
	}
	data, err := decodeAnswer(m)
	if err != nil {
		return Status{}, err
	}
	return decodeStatus(data)
}

// Status asks one node. The error wraps ErrNoNode if it does not answer.
func (p *Peers) Status(ctx context.Context, node string) (Status, error) {
	data, err := p.ask(ctx, node, &request{Op: opStatus}, p.o.Wait)
	if err != nil {
		return Status{}, err
	}
	s, err := decodeStatus(data)
	if err == nil && s.Node != node {
		err = fmt.Errorf("%w: it is of node %s", ErrMalformed, s.Node)
	}
	if err != nil {
		return Status{}, fmt.Errorf("status of node %s: %w", node, err)
	}
	return s, nil
}

// Handover asks node to hand over to another, "" for any: see
// cluster.Member.Handover. It takes as long as ctx gives, at most 30 minutes.
func (p *Peers) Handover(ctx context.Context, node, to string) error {
	_, err := p.ask(ctx, node, &request{Op: opHandover, To: to}, waitMax)
	return err
}

// Digest is the hash of a node's state at a position.
type Digest struct {
	Node string
	At   core.LogPosition
	Sum  [32]byte
}

// Digest asks node for the digest of its state right after the first batch at or
// above a sequence. If that has passed, or has not come within settle, it is of
// the state as it then is. It takes as long as ctx gives, at most 30 minutes.
func (p *Peers) Digest(ctx context.Context, node string, at uint64, settle time.Duration) (Digest, error) {
	data, err := p.ask(ctx, node, &request{Op: opDigest, At: at, SettleMS: settle.Milliseconds()}, waitMax)
	if err != nil {
		return Digest{}, err
	}
	d := Digest{Node: node}
	if err := d.decode(data); err != nil {
		return Digest{}, fmt.Errorf("digest of node %s: %w", node, err)
	}
	return d, nil
}

func (d *Digest) decode(data []byte) (err error) {
	var a digestAnswer
	if err := json.Unmarshal(data, &a); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if d.At, err = a.At.decode(); err != nil {
		return err
	}
	if d.Sum, err = decodeSum(a.Sum); err != nil {
		return err
	}
	return nil
}

func decodeSum(s string) (sum [32]byte, err error) {
	if !isHash(s, 2*len(sum)) {
		return sum, fmt.Errorf("%w: hash", ErrMalformed)
	}
	b, err := hex.DecodeString(s)
	copy(sum[:], b)
	return sum, err
}

// ask asks one node. It waits for at most that long.
func (p *Peers) ask(ctx context.Context, node string, r *request, wait time.Duration) ([]byte, error) {
	if !isNode(node) {
		return nil, fmt.Errorf("name %.200q of the node: %w", node, core.ErrInvalidArgument)
	}
	if end, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(end))
	}
	r.WaitMS = max(wait.Milliseconds(), 1)
	asking, cancel := context.WithTimeout(ctx, wait+waitGrace)
	defer cancel()
	data, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	m, err := p.nc.RequestWithContext(asking, subjectOf(p.o.Cluster, node), data)
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		err = fmt.Errorf("%w: %w", ErrNoNode, err)
	case err == nil:
		data, err = decodeAnswer(m)
	}
	if err != nil {
		return nil, fmt.Errorf("ask node %s for %s: %w", node, r.Op, err)
	}
	return data, nil
}
