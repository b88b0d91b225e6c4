package e2e

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// modelMax bounds the search in one partition. Without a verdict by then, the
// partition counts as wrong: histories must be made so that it suffices.
const modelMax = 20 * time.Second

// step is an op as the models see it.
type step struct {
	*op
	sure      bool  // of a delete: it must have worked
	disturbed int64 // of a receive: leases from before this time may have been forgotten
}

// steps returns the ops of a partition as the search wants them. What had no effect
// is left out; what may have none may take effect when all else is over.
func (s *story) steps(ops []*op) []porcupine.Operation {
	var out []porcupine.Operation
	for i, o := range ops {
		if o.Outcome == outcomeFailed {
			continue
		}
		in := step{op: o, sure: s.sure(o), disturbed: s.disturbed(o.Return)}
		out = append(out, porcupine.Operation{ClientId: i, Input: in, Call: o.Call, Return: o.end()})
	}
	return out
}

// checkMessages searches, for each message of a standard queue, an order of its ops
// in which each had the answer that it had.
func (s *story) checkMessages() []string {
	return s.check(messageModel(), func(o *op) string {
		if o.fifo() {
			return ""
		}
		return o.ID
	})
}

// checkGroups does so for each group of a FIFO queue.
func (s *story) checkGroups() []string {
	return s.check(groupModel(), func(o *op) string { return o.Group })
}

// check searches in each partition, but that without a name.
func (s *story) check(model porcupine.Model, partition func(*op) string) (found []string) {
	parts := make(map[string][]*op)
	for i := range s.ops {
		o := &s.ops[i]
		if p := partition(o); p != "" {
			parts[p] = append(parts[p], o)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		steps := s.steps(parts[name])
		switch porcupine.CheckOperationsTimeout(model, steps, modelMax) {
		case porcupine.Illegal:
			found = append(found, fmt.Sprintf("no order explains the ops of %s:\n%s", name, transcript(parts[name])))
		case porcupine.Unknown:
			found = append(found, fmt.Sprintf("inconclusive: %d ops of %s", len(steps), name))
		}
	}
	return found
}

// transcript is ops, one a line, from when each was called.
func transcript(ops []*op) string {
	var b strings.Builder
	for _, o := range slices.SortedFunc(slices.Values(ops), func(a, b *op) int { return cmp.Compare(a.Call, b.Call) }) {
		fmt.Fprintf(&b, "\t%v\n", o)
	}
	return b.String()
}

// messageState is a message of a standard queue.
type messageState struct {
	stored bool
	gone   bool
	held   string // the newest receipt
	since  int64  // when its receive was called
	until  int64  // when its lease may end at the soonest
}

// messageModel is that of one message of a standard queue. A lease may be forgotten
// in a fault, since its mark is not waited for.
func messageModel() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{messageState{}} },
		Step: func(state, input, _ any) []any {
			at, in := state.(messageState), input.(step)
			switch in.Kind {
			case opSend:
				at.stored = true
				return []any{at}
			case opReceive:
				leased := at.held != "" && in.Return < at.until-int64(leaseSlack) && in.disturbed < at.since
				if !at.stored || at.gone || leased {
					return nil
				}
				at.held, at.since, at.until = in.Receipt, in.Call, in.lease()
				return []any{at}
			case opDelete:
				after := at
				after.gone = true
				switch {
				case at.gone || at.held != in.Receipt:
					return []any{at} // nothing, or an old receipt: success, and nothing happens
				case in.sure:
					return []any{after}
				}
				return []any{at, after}
			}
			return nil
		},
	}
	return m.ToModel()
}

// groupState is a message group of a FIFO queue. It is comparable.
type groupState struct {
	ids   string // each with a line end
	held  string // receipt of the first one
	until int64  // when its lease may end at the soonest
}

// groupModel is that of one group, of which one message is received at a time. No
// fault forgets a lease.
func groupModel() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{groupState{}} },
		Step: func(state, input, _ any) []any {
			at, in := state.(groupState), input.(step)
			line := in.ID + "\n"
			first := strings.HasPrefix(at.ids, line)
			switch in.Kind {
			case opSend:
				at.ids += line
				return []any{at}
			case opReceive:
				if !first || at.held != "" && in.Return < at.until-int64(leaseSlack) {
					return nil
				}
				at.held, at.until = in.Receipt, in.lease()
				return []any{at}
			case opDelete:
				switch {
				case first && at.held == in.Receipt:
					return []any{groupState{ids: strings.TrimPrefix(at.ids, line)}}
				case in.Outcome == outcomeUnknown || !strings.Contains("\n"+at.ids, "\n"+line):
					return []any{at}
				}
				return nil // an old receipt was taken
			}
			return nil
		},
	}
	return m.ToModel()
}
