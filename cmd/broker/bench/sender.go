package bench

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// windowMax bounds the sends of a sender that are not answered.
const windowMax = 1 << 16

// gatheredBytes is how much is gathered before it is written.
const gatheredBytes = 32 << 10

// outlet is the connection that a sender sends through.
type outlet interface {
	// put gathers the message of a stamp, whose answer will name the slot.
	put(slot int, st Stamp)
	gathered() int
	// flush writes what was gathered.
	flush() error
	// listen tells s of the answers until the connection ends.
	listen(ctx context.Context, s *sender) error
	close()
}

// slot is a send that was not answered yet.
type slot struct {
	counter atomic.Uint64 // 0: free
	due     atomic.Int64  // nanoseconds since the run began
}

// sender sends through one connection and has a window of sends unanswered.
type sender struct {
	run    *course
	index  int
	of     int     // senders of the run
	rate   float64 // messages/s of all senders; 0: as fast as answers come
	copies int     // receivers that get each message
	blind  bool    // nothing is answered
	flow   *Flow
	meter  *Meter
	out    outlet

	slots []slot
	free  chan int      // numbers of free slots
	ended chan struct{} // listen has ended
	next  uint64        // counter of the next message
}

// window makes the slots.
func (s *sender) window(n int) *sender {
	s.slots, s.free, s.ended, s.next = make([]slot, n), make(chan int, n), make(chan struct{}), 1
	for i := range s.slots {
		s.free <- i
	}
	return s
}

// work sends until the run stops or the share of the count is sent, and waits for
// the answers that are due.
func (s *sender) work(ctx context.Context) {
	stop := context.AfterFunc(ctx, s.out.close)
	defer stop()
	go s.listen(ctx)
	err := s.send(ctx)
	if err == nil {
		err = s.out.flush()
	}
	// All slots free: nothing is awaited.
	limit := time.After(s.run.patience)
	for n := 0; err == nil && n < len(s.slots); n++ {
		select {
		case <-s.free:
		case <-s.ended:
			n = len(s.slots)
		case <-limit:
			err = errors.New("answers are missing")
		}
	}
	s.out.close()
	<-s.ended
	if err != nil && ctx.Err() == nil {
		s.meter.Error("send: " + errorText(err))
	}
	for i := range s.slots {
		if counter := s.slots[i].counter.Load(); counter != 0 {
			s.lose(counter)
		}
	}
}

func (s *sender) listen(ctx context.Context) {
	defer close(s.ended)
	if err := s.out.listen(ctx, s); err != nil && ctx.Err() == nil {
		s.meter.Error("answer: " + errorText(err))
	}
}

func (s *sender) send(ctx context.Context) error {
	quota := share(s.run.count, s.index, s.of)
	pace := newPace(s.run.began, s.rate, s.index, s.of, 1)
	for !s.run.stopping.Load() && ctx.Err() == nil && (s.run.count == 0 || int64(s.next) <= quota) {
		if pace.interval > 0 && time.Until(pace.next) > 0 || s.out.gathered() >= gatheredBytes {
			if err := s.out.flush(); err != nil {
				return err
			}
		}
		due, ok := pace.wait(ctx)
		if !ok {
			return nil
		}
		at, err := s.slot(ctx)
		if err != nil || at < 0 {
			return err
		}
		if pace.interval == 0 {
			due = time.Now()
		}
		st := Stamp{Sender: s.index, Counter: s.next, Due: due.Sub(s.run.began)}
		s.slots[at].due.Store(int64(st.Due))
		s.slots[at].counter.Store(st.Counter)
		if s.out.put(at, st); s.blind {
			s.answered(at)
		}
		s.next++
	}
	return nil
}

// slot returns a free slot, -1 when the run ends. What was gathered is written
// before it waits.
func (s *sender) slot(ctx context.Context) (int, error) {
	if !s.flow.TryReserve(s.copies) {
		if err := s.out.flush(); err != nil {
			return -1, err
		}
		if !s.flow.Reserve(s.copies) {
			return -1, nil
		}
	}
	select {
	case at := <-s.free:
		return at, nil
	default:
	}
	err := s.out.flush()
	if err == nil {
		select {
		case at := <-s.free:
			return at, nil
		case <-s.ended:
		case <-ctx.Done():
		}
	}
	s.flow.Done(s.copies)
	return -1, err
}

// answered books the answer to the send in a slot, and tells whether there is one.
func (s *sender) answered(at int) bool {
	counter, due, ok := s.take(at)
	if !ok {
		return false
	}
	for i := range s.copies {
		s.run.tracker.Sent(s.index+i*s.of, counter, 1)
	}
	s.flow.Sent(s.copies)
	if s.blind {
		s.meter.Count(1)
	} else {
		s.meter.Record(1, time.Since(s.run.began)-due)
	}
	s.free <- at
	return true
}

// refused books that the send in a slot was answered with a refusal.
func (s *sender) refused(at int, why string) bool {
	counter, _, ok := s.take(at)
	if !ok {
		return false
	}
	s.meter.Error(why)
	s.lose(counter)
	s.free <- at
	return true
}

func (s *sender) take(at int) (counter uint64, due time.Duration, ok bool) {
	if at < 0 || at >= len(s.slots) || s.slots[at].counter.Load() == 0 {
		return 0, 0, false
	}
	due = time.Duration(s.slots[at].due.Load())
	return s.slots[at].counter.Swap(0), due, true
}

// lose books a send of which nobody knows what became of it.
func (s *sender) lose(counter uint64) {
	for i := range s.copies {
		s.run.tracker.Unknown(s.index+i*s.of, counter, 1)
	}
	s.flow.Done(s.copies)
}
