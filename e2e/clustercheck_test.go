package e2e

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// expiredReceipt is in the refusal of a receipt whose lease has ended or that is
// not the newest one. All other refusals are wrong.
const expiredReceipt = "receipt handle has expired"

// violations runs all checks over a history and returns what they found.
func violations(ops []op) []string {
	s := newStory(ops)
	return slices.Concat(
		s.checkSends(), s.checkDeletes(), s.checkReceipts(), s.checkIdentity(), s.checkRefusals(),
		s.checkEpochs(), s.checkSequences(), s.checkMessages(), s.checkGroups(),
	)
}

// checkSends wants each message whose send was acknowledged to be received, and a
// delete that may have worked: the history must end with a drain of all queues.
func (s *story) checkSends() (found []string) {
	deleted := make(map[string]bool)
	for i := range s.ops {
		if o := &s.ops[i]; o.Kind == opDelete && s.possible(o) {
			deleted[o.ID] = true
		}
	}
	for i := range s.ops {
		o := &s.ops[i]
		switch {
		case o.Kind != opSend || o.Outcome != outcomeOK:
		case len(s.takes[o.ID]) == 0:
			found = append(found, fmt.Sprintf("lost: never received: %v", o))
		case !deleted[o.ID]:
			found = append(found, fmt.Sprintf("lost: not deleted, and not there in the end: %v", o))
		}
	}
	return found
}

// possible tells whether a delete may have worked: not if it was refused, nor by an
// old receipt, unless a fault made the broker forget that it is one.
func (s *story) possible(d *op) bool {
	r := s.receives[d.Receipt]
	if d.Outcome == outcomeFailed || r == nil {
		return false
	}
	return s.supersedes(r, d) == nil || !d.fifo() && s.disturbed(d.end()) >= r.Call
}

// checkDeletes wants no message in the answer to a receive that was called after a
// delete of it had returned that must have worked.
func (s *story) checkDeletes() (found []string) {
	gone := make(map[string]*op)
	for i := range s.ops {
		o := &s.ops[i]
		if o.Kind != opDelete || !s.sure(o) {
			continue
		}
		if first := gone[o.ID]; first == nil || o.Return < first.Return {
			gone[o.ID] = o
		}
	}
	for id, d := range gone {
		for _, r := range s.takes[id] {
			if r.Call > d.Return {
				found = append(found, fmt.Sprintf("received after its delete: %v, then %v", d, r))
			}
		}
	}
	return found
}

// checkReceipts wants receipts to differ, the one of a running lease to be taken,
// and on a FIFO queue no other one.
func (s *story) checkReceipts() (found []string) {
	first := make(map[string]*op)
	for i := range s.ops {
		o := &s.ops[i]
		if o.Kind != opReceive || o.Outcome != outcomeOK {
			continue
		}
		if other := first[o.Receipt]; other != nil {
			found = append(found, fmt.Sprintf("one receipt of two receives: %v and %v", other, o))
		}
		first[o.Receipt] = o
	}
	deletes := make(map[string][]*op)
	for i := range s.ops {
		if o := &s.ops[i]; o.Kind == opDelete {
			deletes[o.ID] = append(deletes[o.ID], o)
		}
	}
	for i := range s.ops {
		d := &s.ops[i]
		r := s.receives[d.Receipt]
		switch {
		case d.Kind != opDelete || r == nil:
		case d.Outcome == outcomeFailed && d.Refusal != "" && d.Return < r.lease() && s.alone(r, d):
			found = append(found, fmt.Sprintf("the receipt of a running lease was refused: %v, then %v", r, d))
		case d.Outcome == outcomeOK && d.fifo():
			if newer := s.supersedes(r, d); newer != nil && !deletedBefore(deletes[d.ID], d) {
				found = append(found, fmt.Sprintf("an old receipt was taken: %v, then %v, then %v", r, newer, d))
			}
		}
	}
	return found
}

// alone tells whether nobody else may have received the message of r before d
// returned.
func (s *story) alone(r, d *op) bool {
	return !slices.ContainsFunc(s.takes[d.ID], func(other *op) bool {
		return other != r && other.Return > r.Call && other.Call < d.Return
	})
}

// supersedes returns a receive of the message that came wholly between r and d.
func (s *story) supersedes(r, d *op) *op {
	for _, other := range s.takes[d.ID] {
		if other.Call > r.Return && other.Return < d.Call {
			return other
		}
	}
	return nil
}

// deletedBefore tells whether another receipt may have deleted the message of d
// before d returned: then d was answered with success because there was nothing.
func deletedBefore(deletes []*op, d *op) bool {
	return slices.ContainsFunc(deletes, func(other *op) bool {
		return other.Receipt != d.Receipt && other.Outcome != outcomeFailed && other.Call < d.Return
	})
}

// checkIdentity wants messages that were sent, and one id of each: a send that was
// repeated under one deduplication id is stored once. A receive may wait for its
// message, and so be called before the send.
func (s *story) checkIdentity() (found []string) {
	sends := make(map[string]*op)
	for i := range s.ops {
		o := &s.ops[i]
		switch {
		case o.Kind != opSend || o.Outcome == outcomeFailed:
		case sends[o.ID] != nil:
			found = append(found, fmt.Sprintf("the test is wrong: sent twice: %v", o))
		default:
			sends[o.ID] = o
		}
	}
	for id, takes := range s.takes {
		sent := sends[id]
		for _, r := range takes {
			if sent == nil || r.Return < sent.Call {
				found = append(found, fmt.Sprintf("received before it was sent: %v", r))
			} else if want := cmp.Or(sent.MessageID, takes[0].MessageID); r.MessageID != want {
				found = append(found, fmt.Sprintf("two messages of one send: %s and %v", want, r))
			}
		}
	}
	return found
}

// checkRefusals wants no refusal but that of an old receipt.
func (s *story) checkRefusals() (found []string) {
	for i := range s.ops {
		o := &s.ops[i]
		if o.Refusal != "" && (o.Kind != opDelete || !o.fifo() || !strings.Contains(o.Refusal, expiredReceipt)) {
			found = append(found, fmt.Sprintf("refused: %v", o))
		}
	}
	return found
}

// checkEpochs wants one primary an epoch.
func (s *story) checkEpochs() (found []string) {
	primaries := make(map[uint64]string)
	for i := range s.ops {
		o := &s.ops[i]
		if o.Kind != opClaim {
			continue
		}
		if other, ok := primaries[o.Epoch]; ok && other != o.Node {
			found = append(found, fmt.Sprintf("two primaries of one epoch: %s and %v", other, o))
		}
		primaries[o.Epoch] = o.Node
	}
	return found
}

// checkSequences wants the sequences of acknowledged sends to differ, and to rise
// where one send returned before the other was called. A sequence begins with the
// epoch, so that two nodes that acknowledged at the same time are found.
func (s *story) checkSequences() (found []string) {
	var called []*op
	seen := make(map[uint64]*op)
	for i := range s.ops {
		o := &s.ops[i]
		if o.Kind != opSend || o.Outcome != outcomeOK || !o.fifo() {
			continue
		}
		if other := seen[o.Sequence]; other != nil {
			found = append(found, fmt.Sprintf("one sequence of two sends: %v and %v", other, o))
		}
		seen[o.Sequence] = o
		called = append(called, o)
	}
	returned := slices.Clone(called)
	slices.SortFunc(returned, func(a, b *op) int { return cmp.Compare(a.Return, b.Return) })
	var highest *op // of those that returned before
	for _, o := range called {
		for len(returned) > 0 && returned[0].Return < o.Call {
			if highest == nil || returned[0].Sequence > highest.Sequence {
				highest = returned[0]
			}
			returned = returned[1:]
		}
		if highest != nil && o.Sequence < highest.Sequence {
			found = append(found, fmt.Sprintf("a sequence that falls: %v, then %v", highest, o))
		}
	}
	return found
}
