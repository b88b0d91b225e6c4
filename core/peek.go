package core

import "context"

// Peek shows up to max messages from a position on, without leasing them: lane
// by lane, the delayed ones last. It returns where to go on; a position equal to
// the given one means that there is no more. What is not durable is not shown.
func (c *Client) Peek(_ context.Context, name string, after PeekPos, most int) ([]Peeked, PeekPos, error) {
	var out []Peeked
	pos := after
	err := c.engine.with(name, func(q *queue) error {
		if q.memory != nil {
			q.peekMemory(after.Seq, func(s Seq, rec []byte) bool {
				pos = PeekPos{Seq: s + 1}
				out = q.peeked(out, Place{}, s, rec)
				return len(out) < most
			})
			return nil
		}
		lanes := []Place{after.Place}
		for after.Place.Kind != PlaceDelayed && len(lanes) > 0 {
			for _, p := range lanes {
				from := Seq(0)
				if p == after.Place {
					from = after.Seq
				}
				if from == 0 && p.Kind == PlaceTail {
					from = min(q.state.OldState, q.state.Cursor)
				}
				err := q.engine.store.Messages(q.qid, p, from, q.durTail+1, func(s Seq, rec []byte) bool {
					pos = PeekPos{Place: p, Seq: s + 1}
					out = q.peeked(out, p, s, rec)
					return len(out) < most
				})
				if err != nil || len(out) >= most {
					return err
				}
			}
			var err error
			if lanes, err = q.peekLanes(lanes[len(lanes)-1], most); err != nil {
				return err
			}
		}
		due, seq := uint64(0), Seq(0)
		if after.Place.Kind == PlaceDelayed {
			due, seq = after.Place.N, after.Seq
		}
		return q.engine.store.Delayed(q.qid, due, seq, 1<<48-1, func(due uint64, s Seq, rec []byte) bool {
			if s <= q.durTail {
				pos = PeekPos{Place: Place{Kind: PlaceDelayed, N: due}, Seq: s + 1}
				out = q.peeked(out, pos.Place, s, rec)
			}
			return len(out) < most
		})
	})
	if err != nil {
		return nil, after, err
	}
	return out, pos, nil
}

// peekLanes returns up to most lanes behind p, in the order of their places:
// there may be many, and each has a message as a rule.
func (q *queue) peekLanes(p Place, most int) (lanes []Place, err error) {
	err = q.engine.store.Lanes(q.qid, p, func(p Place, _ []byte) bool {
		lanes = append(lanes, p)
		return len(lanes) < most
	})
	return lanes, err
}

func (q *queue) peeked(out []Peeked, p Place, s Seq, rec []byte) []Peeked {
	v := Peeked{Place: p}
	v.Seq = s
	if decodeRecord(append([]byte(nil), rec...), &v.Stored) != nil {
		return out
	}
	if found, err := q.engine.readBody(&v.Stored); err != nil || !found {
		return out // it has just gone
	}
	if _, le := q.leases.find(s); le != nil {
		if le.status == leaseDeleting {
			return out
		}
		v.State, v.InFlight = le.state(), le.status == leaseInFlight
	} else if l := q.laneOf(p); l != nil && l.spill != 0 && s >= l.spill && s < l.pos {
		if st, ok, err := q.engine.store.State(Ref{QID: q.qid, Place: p, Seq: s}); err == nil && ok {
			v.State = st
		}
	}
	return append(out, v)
}
