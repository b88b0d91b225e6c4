package peers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/leasemq/broker/core"
)

// Defaults and bounds of trimming.
const (
	TrimEveryDefault    = 5 * time.Second
	TrimForgetDefault   = 10 * time.Minute
	DurableEveryDefault = time.Second
	fullPercent         = 70 // of the log: then who does not answer is given up
	missedMax           = 2  // rounds without an answer, which are not answering
)

// TrimOptions says what KeepTrimmed stands on.
type TrimOptions struct {
	Peers *Peers
	Node  string // this one: it must answer itself
	// Generation is that of the log. Who is of another does not need it.
	Generation uint32
	// Trim is cluster.Member.Trim.
	Trim func(ctx context.Context, standbys []core.LogPosition) (uint64, error)
	// Usage tells how many bytes the log has, and may have; nil: it is never full.
	Usage func(ctx context.Context) (used, most uint64, err error)
	// Nodes are those that have a state, as far as is known. One that has not
	// answered yet counts as if it had, and needed all, when it first appears here.
	Nodes func() []string // may be nil

	Every  time.Duration // 0: TrimEveryDefault
	Forget time.Duration // who was not heard for so long is given up; 0: TrimForgetDefault
	Logger *slog.Logger  // nil: slog.Default
}

// KeepTrimmed trims the log, as long as this node is the primary: it is to run
// until the lease ends. From time to time it asks all nodes what they have on
// stable storage, and removes what all have that were heard lately, and what no
// checkpoint needs that somebody fetches. A standby that was away for too long, or
// does not answer while the log is over 70 percent full, is given up: it must start
// from a checkpoint. KeepTrimmed returns when ctx ends.
func KeepTrimmed(ctx context.Context, o TrimOptions) error {
	if o.Peers == nil || o.Node == "" || o.Generation == 0 || o.Trim == nil {
		return errors.New("trimming needs Peers, Node, Generation and Trim")
	}
	newTrimmer(o, o.Peers.All).run(ctx)
	return nil
}

// trimmer is who keeps the log trimmed.
type trimmer struct {
	o       TrimOptions
	ask     func(context.Context) ([]Status, error)
	known   map[string]bool // names that were in Nodes
	members map[string]*holder
	trimmed uint64
}

// holder is a node that needs the log from a position on.
type holder struct {
	at     uint64 // what it had on stable storage
	heard  time.Time
	missed int // rounds since then
}

func newTrimmer(o TrimOptions, ask func(context.Context) ([]Status, error)) *trimmer {
	o.Every, o.Forget = cmp.Or(o.Every, TrimEveryDefault), cmp.Or(o.Forget, TrimForgetDefault)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &trimmer{o: o, ask: ask, known: map[string]bool{o.Node: true}, members: map[string]*holder{}}
}

func (t *trimmer) run(ctx context.Context) {
	t.meet(time.Now())
	for pause(ctx, t.o.Every) == nil {
		if err := t.round(ctx); err != nil && ctx.Err() == nil {
			t.o.Logger.Warn("log is not trimmed", "error", err)
		}
	}
}

// round asks and trims once.
func (t *trimmer) round(ctx context.Context) error {
	all, err := t.ask(ctx)
	if !slices.ContainsFunc(all, func(s Status) bool { return s.Node == t.o.Node }) {
		// Who is cut off must not conclude that the others are gone.
		return errors.Join(errors.New("this node does not hear itself"), err)
	}
	if err != nil {
		t.o.Logger.Warn("what a node says is not understood", "error", err)
	}
	now := time.Now()
	t.meet(now)
	t.hear(now, all)
	full := false
	if t.o.Usage != nil {
		used, most, err := t.o.Usage(ctx)
		if err != nil {
			return fmt.Errorf("size of the log: %w", err)
		}
		full = most > 0 && used >= most/100*fullPercent
	}
	t.giveUp(now, full)
	positions := t.positions(all)
	lowest := slices.MinFunc(positions, func(a, b core.LogPosition) int { return cmp.Compare(a.Seq, b.Seq) })
	if lowest.Seq <= t.trimmed {
		return nil
	}
	to, err := t.o.Trim(ctx, positions)
	t.trimmed = max(t.trimmed, to)
	if errors.Is(err, core.ErrNotPrimary) {
		return nil // who runs this ends it
	}
	return err
}

// meet takes in the nodes that are new in Nodes.
func (t *trimmer) meet(now time.Time) {
	if t.o.Nodes == nil {
		return
	}
	for _, name := range t.o.Nodes() {
		if !t.known[name] {
			t.known[name] = true
			t.members[name] = &holder{heard: now}
		}
	}
}

// hear notes what the nodes have said.
func (t *trimmer) hear(now time.Time, all []Status) {
	for _, m := range t.members {
		m.missed++
	}
	for _, s := range all {
		fresh := s.Generation == 0 && s.Applied == 0
		switch {
		case s.Node == t.o.Node:
		case s.Role == RoleWitness, s.Generation != t.o.Generation && !fresh:
			delete(t.members, s.Node)
		case s.Role == RoleStarting:
			// It may be about to start from elsewhere: what counts is what it had as
			// a standby, and the checkpoint that it fetches.
		default:
			m := t.members[s.Node]
			if m == nil || m.missed > 0 || s.Durable < m.at { // of two with one name, the lower
				t.members[s.Node] = &holder{at: s.Durable, heard: now}
			}
		}
	}
}

// giveUp forgets who was not heard for too long.
func (t *trimmer) giveUp(now time.Time, full bool) {
	for name, m := range t.members {
		switch {
		case full && m.missed >= missedMax:
			t.o.Logger.Warn("log is nearly full: a node that does not answer is given up, and must start from a checkpoint",
				"node", name, "position", m.at, "percent", fullPercent)
		case now.Sub(m.heard) > t.o.Forget:
			t.o.Logger.Warn("a node was away for too long: it must start from a checkpoint",
				"node", name, "position", m.at, "silent", now.Sub(m.heard).Round(time.Second))
		default:
			continue
		}
		delete(t.members, name)
	}
}

// positions are those that the log must go back to.
func (t *trimmer) positions(all []Status) []core.LogPosition {
	var out []core.LogPosition
	for _, m := range t.members {
		out = append(out, core.LogPosition{Generation: t.o.Generation, Seq: m.at})
	}
	for _, s := range all {
		// A checkpoint of this node, made since it was asked, is at or above what it
		// has said, and may be below what it has now.
		if s.Node == t.o.Node {
			out = append(out, core.LogPosition{Generation: t.o.Generation, Seq: s.Applied})
		}
		if s.Held != nil && s.Generation == t.o.Generation {
			out = append(out, core.LogPosition{Generation: t.o.Generation, Seq: *s.Held})
		}
	}
	return out
}

// DurableStore is what KeepDurable needs of a cluster.Store.
type DurableStore interface {
	Applied() core.LogPosition
	SyncApplied() (core.LogPosition, error)
}

// KeepDurable makes what is applied durable from time to time, so that the primary
// can trim the log up to there; every is DurableEveryDefault if it is 0. It returns
// when ctx ends, or with the error of the store.
func KeepDurable(ctx context.Context, store DurableStore, every time.Duration) error {
	var last core.LogPosition
	for pause(ctx, cmp.Or(every, DurableEveryDefault)) == nil {
		if store.Applied() == last {
			continue
		}
		var err error
		if last, err = store.SyncApplied(); err != nil {
			return fmt.Errorf("sync what is applied: %w", err)
		}
	}
	return nil
}
