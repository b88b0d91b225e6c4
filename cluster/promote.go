package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// takeOver appends the epoch record of this member, unless a primary turns out
// to be alive: then, or when the log does not answer, the lease is nil, and the
// log is to be followed for a while.
func (m *Member) takeOver(ctx context.Context) (*Lease, error) {
	trying, cancel := context.WithTimeout(ctx, m.o.Lease)
	defer cancel()
	for {
		l, last, err := m.claim(trying)
		if l != nil || fatal(err) != nil {
			return l, fatal(err)
		}
		at := m.chain.At().Seq
		switch {
		case err != nil:
			m.log.Warn("take-over: log did not answer", "error", err)
		case last < at:
			return nil, fmt.Errorf("the log ends at %d, of which %d are applied: %w", last, at, ErrDiverged)
		case last > at:
			alive, err := m.fill(trying, last)
			if fatal(err) != nil {
				return nil, fatal(err)
			}
			if err == nil && !alive {
				continue
			}
			if err == nil {
				m.log.Info("take-over given up: there is a primary", "epoch", m.chain.At().Epoch)
				m.quietFor(m.silent)
				return nil, nil
			}
			m.log.Warn("take-over: log cannot be read", "error", err)
		}
		m.quietFor(m.o.Lease/retryLease + m.jitter())
		return nil, nil
	}
}

// claim tries to begin an epoch at the end of what is applied. If the log does
// not end there, last says where it does.
func (m *Member) claim(ctx context.Context) (l *Lease, last uint64, err error) {
	at := m.chain.At()
	if at.Epoch >= epochMax {
		return nil, 0, stop(fmt.Errorf("all %d epochs are used up", epochMax))
	}
	vacated := m.epoch
	body := Epoch{Node: m.o.Node, Instance: m.o.Instance}
	records := m.epochRecords(body, m.pads())
	sent := m.clock()
	first, err := m.o.Log.AppendAtomic(ctx, at.Seq, records)
	var wrong *WrongLastError
	switch {
	case errors.As(err, &wrong):
		return nil, wrong.Last, nil
	case err != nil:
		return nil, 0, err
	case first != at.Seq+1:
		return nil, 0, fmt.Errorf("epoch record is at %d, want %d: %w", first, at.Seq+1, ErrUnknown)
	}
	for i, data := range records {
		if _, err := m.apply(Entry{Seq: first + uint64(i), Data: data}, nil); err != nil {
			return nil, 0, stop(err)
		}
	}
	clean := vacated != nil && vacated.Vacant && vacated.Clean
	m.log.Info("this node is the primary", "epoch", at.Epoch+1, "from", first)
	return newLease(m, sent, clean), 0, nil
}

// epochRecords makes the epoch record that comes next, and pads. They take the
// sequences that records of the primary before, still under way, ask for.
func (m *Member) epochRecords(body Epoch, pads int) [][]byte {
	at := m.chain.At()
	r := Record{Kind: KindEpoch, Epoch: at.Epoch + 1, Time: m.logTime(), Prev: at.Hash, Body: body.append(nil)}
	records := [][]byte{r.Append(nil)}
	pad := Record{Kind: KindPad, Epoch: r.Epoch, Time: r.Time, Prev: HashOf(records[0])}
	for range pads {
		records = append(records, pad.Append(nil))
	}
	return records
}

// pads is how many a take-over needs: what the primary before may have under
// way asks for at most depthMax sequences behind its last one that is stored.
func (m *Member) pads() int {
	if m.o.padless {
		return 0
	}
	return depthMax
}

// logTime is the time of a record that comes next: it never goes back.
func (m *Member) logTime() int64 { return max(time.Now().UnixMilli(), m.chain.At().Time) }

// fill applies the records up to last, and tells whether one of them is of a
// primary other than this member.
func (m *Member) fill(ctx context.Context, last uint64) (alive bool, err error) {
	err = m.o.Log.Read(ctx, m.chain.At().Seq+1, last, func(e Entry) error {
		s, err := m.apply(e, nil)
		if err != nil {
			return stop(err)
		}
		if s.Epoch != nil {
			// What was heard before it is of no account: a vacant epoch has no primary.
			alive = !m.mine && !s.Epoch.Vacant
		} else if s.Valid && s.Kind != KindPad && !m.mine && !m.vacant() {
			alive = true
		}
		return nil
	})
	return alive, err
}

// vacant tells whether nobody leads in the current epoch.
func (m *Member) vacant() bool { return m.epoch != nil && m.epoch.Vacant }
