package stomp

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasemq/broker/frontends/stomp/frame"
)

// groupBook is who has which group, and how far it has come.
type groupBook struct {
	t    *testing.T
	mu   sync.Mutex
	held map[string]*groupEntry
	left atomic.Int32 // messages that are not acknowledged yet
}

type groupEntry struct {
	by    *groupSession
	last  int // newest that its session was given
	acked int // all below are
}

type groupSession struct {
	peer *peer
	gone bool // it has hung up, or is about to
}

// given notes a message, "group number".
func (b *groupBook) given(s *groupSession, body string) (*groupEntry, int) {
	var group string
	var n int
	if _, err := fmt.Sscanf(body, "%s %d", &group, &n); err != nil {
		b.t.Error(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.held[group]
	if e == nil {
		e = &groupEntry{}
		b.held[group] = e
	}
	switch {
	case e.by == s && n != e.last+1:
		b.t.Errorf("%q came after %d to the same session", body, e.last)
	case e.by != s && e.by != nil && !e.by.gone:
		b.t.Errorf("%q came to another session than %d, and that is alive", body, e.last)
	case e.by != s && n != e.acked:
		b.t.Errorf("%q came first to another session, and %d was acknowledged last", body, e.acked-1)
	}
	e.by, e.last = s, n
	return e, n
}

// TestGroupsWhileSessionsComeAndGo: sessions with credit for little and much take
// groups, acknowledge some of what they are given, and hang up. A group is with one
// session at a time and goes on where the last one stopped; nothing is given twice
// that was acknowledged, and nothing is stuck.
func TestGroupsWhileSessionsComeAndGo(t *testing.T) {
	address, _ := listenAndServe(t, Options{})
	const groupsOf, each, sessions = 20, 60, 6
	b := &groupBook{t: t, held: make(map[string]*groupEntry)}
	b.left.Store(groupsOf * each)
	var all sync.WaitGroup
	all.Go(func() {
		p, err := dialPeer(address)
		if err != nil {
			t.Error(err)
			return
		}
		defer p.HangUp()
		for n := range each {
			for g := range groupsOf {
				f := &frame.Frame{
					Command: frame.Send, Headers: headers("destination", "/queue/q", "JMSXGroupID", strconv.Itoa(g)),
					Body: fmt.Appendf(nil, "g%d %d", g, n),
				}
				if g == groupsOf-1 {
					err = p.do(f)
				} else {
					err = p.write(f)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	for i := range sessions {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 7))
			for b.left.Load() > 0 && !t.Failed() {
				b.session(address, rng)
			}
		})
	}
	all.Wait()
}

// session is the life of one session.
func (b *groupBook) session(address string, rng *rand.Rand) {
	p, err := dialPeer(address)
	if err != nil {
		b.t.Error(err)
		return
	}
	s := &groupSession{peer: p}
	defer func() {
		b.mu.Lock()
		s.gone = true
		b.mu.Unlock()
		p.HangUp()
	}()
	p.subs["s"] = true // Receive is not to subscribe
	subscribe := headers("id", "s", "destination", "/queue/q", "ack", "client-individual", "prefetch-count", strconv.Itoa(1+rng.IntN(30)))
	if err := p.do(&frame.Frame{Command: frame.Subscribe, Headers: subscribe}); err != nil {
		b.t.Error(err)
		return
	}
	for range 1 + rng.IntN(80) {
		if b.left.Load() == 0 {
			return
		}
		m, ok, err := p.Receive("s", 200*time.Millisecond)
		if err != nil {
			b.t.Error(err)
			return
		}
		if !ok {
			continue
		}
		e, n := b.given(s, string(m.Body))
		if err := p.Ack(m); err != nil {
			b.t.Error(err)
			return
		}
		b.mu.Lock()
		if n != e.acked {
			b.t.Errorf("%q is acknowledged, and %d was last", m.Body, e.acked-1)
		}
		e.acked = n + 1
		b.mu.Unlock()
		b.left.Add(-1)
	}
}
