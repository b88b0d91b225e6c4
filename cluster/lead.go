package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leasemq/broker/core"
)

// moveLeaderEvery is how often the log is asked to keep its leader elsewhere.
const moveLeaderEvery = 10 * time.Second

// lead keeps the lease until it is lost or handed over, and returns when Lead
// has. The error is one that ends the member.
func (m *Member) lead(ctx context.Context, l *Lease) error {
	leading, cancel := context.WithCancel(context.WithoutCancel(ctx))
	returned := make(chan error, 1)
	go func() { returned <- m.o.Lead(leading, l) }()
	ended := m.keepLeaderAway(leading, l)
	defer func() {
		cancel()
		ended()
	}()
	var h handover
	asked, stopping := m.handover, ctx.Done()
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		next, err := m.advance(l)
		if err != nil {
			l.fail(err)
			cancel()
			return m.endLease(l, returned, h, err)
		}
		if l.over() != nil {
			cancel()
			return m.endLease(l, returned, h, nil)
		}
		t.Reset(next)
		select {
		case <-l.wake:
		case <-t.C:
		case h = <-asked:
			asked = nil
			cancel()
		case <-stopping:
			stopping = nil
			cancel()
		case err := <-returned:
			return m.resign(l, h, err)
		}
	}
}

// advance commits what is acknowledged, in order, and keeps the lease alive. It
// returns after what time there is something to do at the latest. It loses the
// lease at the first record that is not where it belongs.
func (m *Member) advance(l *Lease) (next time.Duration, err error) {
	for {
		p, bad := l.front()
		if bad != nil {
			m.log.Warn("this node is no longer the primary", "epoch", l.epoch, "error", bad)
			l.fail(bad)
			return 0, nil
		}
		if p == nil {
			break
		}
		if err := m.commit(l, p); err != nil {
			return 0, err
		}
	}
	now := m.clock()
	l.mu.Lock()
	sentAt, flying := l.sentAt, l.flying
	if flying > 0 {
		sentAt = l.queue[0].sentAt
	}
	l.mu.Unlock()
	if flying > 0 {
		if next = sentAt + m.coverage() - now; next <= 0 {
			m.log.Warn("this node is no longer the primary: no acknowledgement in time", "epoch", l.epoch)
			l.fail(ErrUnknown)
		}
		return next, nil
	}
	every := m.o.Lease / heartbeatsLease
	if next = sentAt + every - now; next > 0 {
		return next, nil
	}
	l.heartbeat()
	return every, nil
}

// front takes the oldest off the queue if it is acknowledged, or was refused. An
// error is that of any record: all behind it are void.
func (l *Lease) front() (*pending, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 || l.err != nil {
		return nil, nil
	}
	if p := l.queue[0]; p.acked || p.seq == 0 {
		l.queue[0] = nil
		l.queue = l.queue[1:]
		if p.acked {
			l.flying--
			l.room.Signal()
		}
		return p, nil
	}
	for _, p := range l.queue {
		if p.err != nil {
			return nil, p.err
		}
	}
	return nil, nil
}

// commit applies a record that is acknowledged, as all before it are.
func (m *Member) commit(l *Lease, p *pending) error {
	if p.seq == 0 {
		p.done(0, fmt.Errorf("%w: %w", core.ErrNotPrimary, errHandedOver))
		return nil
	}
	l.cover(p.sentAt)
	if _, err := m.apply(Entry{Seq: p.seq, Data: p.data}, p.change); err != nil {
		if p.done != nil {
			p.done(0, fmt.Errorf("%w: %w", core.ErrStopped, err))
		}
		return err
	}
	if p.done != nil {
		p.done(core.Pos(p.seq), nil)
	}
	return nil
}

// endLease answers all that is submitted, until Lead has returned.
func (m *Member) endLease(l *Lease, returned <-chan error, h handover, err error) error {
	if h.ended != nil {
		h.ended <- fmt.Errorf("hand over: %w", l.over())
	}
	for {
		l.refuseAll()
		select {
		case <-l.wake:
		case ledErr := <-returned:
			l.close()
			if err == nil && ledErr != nil && !errors.Is(ledErr, core.ErrNotPrimary) {
				err = fmt.Errorf("lead: %w", ledErr)
			}
			return err
		}
	}
}

// refuseAll answers everything in the queue: its fate is unknown.
func (l *Lease) refuseAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) > 0 {
		p := l.queue[0]
		l.queue = l.queue[1:]
		if p.done == nil {
			continue
		}
		l.mu.Unlock()
		p.done(0, l.err)
		l.mu.Lock()
	}
	l.flying = 0
}

// close makes the lease refuse by itself, and ends it.
func (l *Lease) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.refuseAll()
	close(l.ended)
}

// resign ends a lease that is not lost, when Lead has returned: the epoch that
// follows has no primary, so that another takes over without waiting.
func (m *Member) resign(l *Lease, h handover, ledErr error) error {
	l.leave()
	err := m.vacate(l, Epoch{Node: h.to, Instance: m.o.Instance, Vacant: true, Clean: ledErr == nil})
	l.fail(errHandedOver)
	l.close()
	if h.ended != nil {
		h.ended <- err
	}
	if ledErr != nil {
		return fmt.Errorf("lead: %w", ledErr)
	}
	if err != nil {
		m.log.Warn("lease could not be handed over: it runs out", "error", err)
	}
	return fatal(err)
}

// vacate commits what is still under way, and then the record of a vacant epoch.
func (m *Member) vacate(l *Lease, body Epoch) error {
	if l.epoch >= epochMax {
		return errors.New("all epochs are used up")
	}
	t := time.NewTimer(m.coverage())
	defer t.Stop()
	var last *pending
	for {
		p, bad := l.front()
		switch {
		case bad != nil:
			return bad
		case p != nil:
			if err := m.commit(l, p); err != nil {
				return stop(err)
			}
			if p == last {
				return nil
			}
			continue
		case last == nil && l.idle():
			last = &pending{time: time.Now().UnixMilli()}
			l.sending.lock()
			sent := l.send(KindEpoch, body.append(nil), last)
			l.sending.unlock()
			if !sent {
				return l.over()
			}
		}
		select {
		case <-l.wake:
		case <-t.C:
			return ErrUnknown
		}
	}
}

// keepLeaderAway looks from time to time where the leader of the log is, and
// moves it to another node. The function that it returns waits until that has
// ended.
func (m *Member) keepLeaderAway(ctx context.Context, l *Lease) (wait func()) {
	mover, ok := m.o.Log.(LeaderMover)
	if !ok {
		return func() {}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			here, err := mover.LeaderHere(ctx)
			if here {
				err = m.moveLeader(ctx, l, mover)
			}
			if err != nil && ctx.Err() == nil {
				m.log.Info("leader of the log may stay on this node", "error", err)
			}
			m.pause(ctx, moveLeaderEvery)
		}
	}()
	return func() { <-ended }
}

// moveLeader moves the leader of the log while nothing is under way: a record
// that is refused would end the lease.
func (m *Member) moveLeader(ctx context.Context, l *Lease, mover LeaderMover) error {
	ctx, cancel := context.WithTimeout(ctx, m.o.Lease/moveLeaderLease)
	defer cancel()
	l.sending.lock()
	defer l.sending.unlock()
	for !l.idle() {
		if m.pause(ctx, time.Millisecond); ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return mover.MoveLeader(ctx)
}
