package bench

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// trackPageBits is how many counters one page of a sender's record covers.
const trackPageBits = 1 << 16

// Tracker books which messages were acknowledged and which arrived. It is safe
// for concurrent use.
type Tracker struct {
	senders   []senderTrack
	groups    int
	foreign   atomic.Int64
	duplicate atomic.Int64
	disorder  atomic.Int64
	received  atomic.Int64
}

// senderTrack is the record of one sender.
type senderTrack struct {
	mu      sync.Mutex
	sent    uint64 // highest counter that was handed out; counters start at 1
	unknown []span // counters whose send was not answered
	pages   []*[trackPageBits / 64]uint64
	newest  []uint64 // for each group, the highest counter that arrived; ordered runs only
}

// span is the counters from first to last.
type span struct{ first, last uint64 }

// NewTracker returns a Tracker for that many senders. With groups above 0 the
// messages of a sender are spread over that many groups, counter modulo groups,
// and each group must arrive in order.
func NewTracker(senders, groups int) *Tracker {
	t := &Tracker{senders: make([]senderTrack, senders), groups: groups}
	for i := range t.senders {
		t.senders[i].newest = make([]uint64, groups)
	}
	return t
}

// Sent books n counters from first on as acknowledged.
func (t *Tracker) Sent(sender int, first, n uint64) {
	s := &t.senders[sender]
	s.mu.Lock()
	s.sent = max(s.sent, first+n-1)
	s.mu.Unlock()
}

// Unknown books n counters from first on as sent without an answer: they may
// arrive or not.
func (t *Tracker) Unknown(sender int, first, n uint64) {
	s := &t.senders[sender]
	s.mu.Lock()
	s.sent = max(s.sent, first+n-1)
	s.unknown = append(s.unknown, span{first, first + n - 1})
	s.mu.Unlock()
}

// Received books one arrival.
func (t *Tracker) Received(st Stamp) {
	if st.Sender >= len(t.senders) || st.Counter == 0 || st.Counter > counterMax {
		t.foreign.Add(1)
		return
	}
	t.received.Add(1)
	s := &t.senders[st.Sender]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mark(st.Counter) {
		t.duplicate.Add(1)
		return
	}
	if t.groups == 0 {
		return
	}
	g := st.Counter % uint64(t.groups)
	if st.Counter < s.newest[g] {
		t.disorder.Add(1)
	}
	s.newest[g] = max(s.newest[g], st.Counter)
}

// Disordered books an arrival behind a later one, which the caller has noticed.
func (t *Tracker) Disordered() { t.disorder.Add(1) }

// Foreign books the arrival of a body that is not of this run, or damaged.
func (t *Tracker) Foreign() { t.foreign.Add(1) }

// Complete tells whether all that was acknowledged has arrived.
func (t *Tracker) Complete() bool {
	for i := range t.senders {
		s := &t.senders[i]
		s.mu.Lock()
		gaps := s.gaps()
		s.mu.Unlock()
		if gaps > 0 {
			return false
		}
	}
	return true
}

// Verdict is what a Tracker has found.
type Verdict struct {
	Sent       uint64 `json:"sent"`       // acknowledged
	Unknown    uint64 `json:"unknown"`    // sent, but not answered
	Received   uint64 `json:"received"`   // arrivals, repeats included
	Gaps       uint64 `json:"gaps"`       // acknowledged, never arrived
	Duplicates uint64 `json:"duplicates"` // arrivals beyond the first
	Disorder   uint64 `json:"disorder"`   // arrivals behind a later one of their group
	Foreign    uint64 `json:"foreign"`    // bodies of another run, or damaged
}

// Clean tells whether every message came through, once, whole and in order.
func (v Verdict) Clean() bool {
	return v.Gaps == 0 && v.Duplicates == 0 && v.Disorder == 0 && v.Foreign == 0
}

// Verdict returns what was found up to now.
func (t *Tracker) Verdict() Verdict {
	v := Verdict{
		Received:   uint64(t.received.Load()),
		Duplicates: uint64(t.duplicate.Load()),
		Disorder:   uint64(t.disorder.Load()),
		Foreign:    uint64(t.foreign.Load()),
	}
	for i := range t.senders {
		s := &t.senders[i]
		s.mu.Lock()
		var unknown uint64
		for _, u := range s.unknown {
			unknown += u.last - u.first + 1
		}
		v.Sent += s.sent - unknown
		v.Unknown += unknown
		v.Gaps += s.gaps()
		s.mu.Unlock()
	}
	return v
}

// mark notes that counter has arrived and tells whether it had before.
func (s *senderTrack) mark(counter uint64) bool {
	page := counter / trackPageBits
	for uint64(len(s.pages)) <= page {
		s.pages = append(s.pages, nil)
	}
	if s.pages[page] == nil {
		s.pages[page] = new([trackPageBits / 64]uint64)
	}
	word, bit := &s.pages[page][counter%trackPageBits/64], uint64(1)<<(counter%64)
	if *word&bit != 0 {
		return true
	}
	*word |= bit
	return false
}

// marked tells whether counter has arrived.
func (s *senderTrack) marked(counter uint64) bool {
	page := counter / trackPageBits
	if page >= uint64(len(s.pages)) || s.pages[page] == nil {
		return false
	}
	return s.pages[page][counter%trackPageBits/64]>>(counter%64)&1 == 1
}

// gaps counts what was acknowledged and has not arrived.
func (s *senderTrack) gaps() uint64 {
	n := s.sent - s.markedUpTo(s.sent)
	for _, u := range s.unknown {
		for c := u.first; c <= u.last; c++ {
			if !s.marked(c) {
				n--
			}
		}
	}
	return n
}

// markedUpTo counts the arrivals with counters 1 to last.
func (s *senderTrack) markedUpTo(last uint64) uint64 {
	n := 0
	for i, page := range s.pages {
		first := uint64(i) * trackPageBits
		if page == nil || first > last {
			continue
		}
		for j, word := range page {
			switch at := first + uint64(j)*64; {
			case at > last:
				return uint64(n)
			case last-at < 63:
				n += bits.OnesCount64(word << (63 - (last - at)))
			default:
				n += bits.OnesCount64(word)
			}
		}
	}
	return uint64(n)
}
