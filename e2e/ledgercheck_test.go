package e2e

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"
)

// history plays a story to a ledger. Its clock stands still unless told.
type history struct {
	*ledger
	now time.Time
}

func newHistory() *history {
	return &history{newLedger(10*time.Second, "f"), time.Unix(1_000_000, 0)}
}

func (h *history) pass(d time.Duration) { h.now = h.now.Add(d) }

// send is a send with its answer.
func (h *history) send(k key) {
	h.sending(k)
	h.sent(k, "id-"+k.String())
}

// get is a receive of some messages in one answer, a second after the last event.
func (h *history) get(count int, keys ...key) {
	h.pass(time.Second)
	var batch []arrival
	for _, k := range keys {
		batch = append(batch, arrival{key: k, id: "id-" + k.String(), handle: k.String(), count: count, whole: true})
	}
	h.received(h.now, h.now, batch)
}

// drop is a delete with its answer, by the handle of get.
func (h *history) drop(k key) {
	h.pass(time.Second)
	h.deleting(k)
	h.deleted(k, k.String(), h.now)
}

var errNo = errors.New("no")

func TestSoundHistoriesPass(t *testing.T) {
	stories := soundStories()
	maps.Copy(stories, soundOrderStories())
	for name, story := range stories {
		t.Run(name, func(t *testing.T) {
			h := newHistory()
			story(h)
			if v := h.finish(); len(v) > 0 {
				t.Errorf("violations: %q", v)
			}
		})
	}
}

// soundStories are about single messages.
func soundStories() map[string]func(h *history) {
	s1, s2, f1 := key{"s", 0, 1}, key{"s", 0, 2}, key{"f", 0, 1}
	return map[string]func(h *history){
		"send, receive, delete": func(h *history) { h.send(s1); h.get(1, s1); h.drop(s1) },
		"a standard queue may mix": func(h *history) {
			h.send(s1)
			h.send(s2)
			h.get(1, s2, s1)
			h.drop(s1)
			h.drop(s2)
		},
		"an unanswered send may be lost":     func(h *history) { h.sending(s1) },
		"an unanswered send may have worked": func(h *history) { h.sending(s1); h.get(1, s1); h.drop(s1) },
		"redelivery after the lease": func(h *history) {
			h.send(s1)
			h.get(1, s1)
			h.pass(10 * time.Second)
			h.get(2, s1)
			h.drop(s1)
		},
		"redelivery after a release": func(h *history) {
			h.send(f1)
			h.get(1, f1)
			h.released(f1, f1.String(), h.now)
			h.get(2, f1)
			h.drop(f1)
		},
		"a standard queue may forget a mark in a crash": func(h *history) {
			h.send(s1)
			h.get(1, s1)
			h.restarted()
			h.get(1, s1)
			h.drop(s1)
		},
	}
}

// soundOrderStories are about deletes that prove nothing, and about groups.
func soundOrderStories() map[string]func(h *history) {
	s1 := key{"s", 0, 1}
	f1, f2, f3 := key{"f", 0, 1}, key{"f", 0, 2}, key{"f", 0, 3}
	return map[string]func(h *history){
		"an unanswered delete may not have worked": func(h *history) {
			h.send(s1)
			h.get(1, s1)
			h.deleting(s1)
			h.restarted()
			h.pass(10 * time.Second)
			h.get(2, s1)
			h.drop(s1)
		},
		"a delete after the lease proves nothing": func(h *history) {
			h.send(s1)
			h.get(1, s1)
			h.pass(10 * time.Second)
			h.drop(s1)
			h.get(2, s1)
		},
		"a delete by an older handle proves nothing": func(h *history) {
			h.send(s1)
			h.get(1, s1)
			h.restarted()
			h.pass(time.Second)
			h.received(h.now, h.now, []arrival{{s1, "id-" + s1.String(), "newer", 1, true}})
			h.drop(s1)
			h.pass(10 * time.Second)
			h.get(2, s1)
		},
		"a receive under way during the delete may still bring it": func(h *history) {
			h.send(s1)
			h.get(1, s1)
			asked := h.now
			h.restarted()
			h.drop(s1)
			h.received(asked, h.now, []arrival{{s1, "id-" + s1.String(), "x", 1, true}})
		},
		"a group in one answer": func(h *history) {
			h.send(f1)
			h.send(f2)
			h.get(1, f1, f2)
			h.drop(f1)
			h.drop(f2)
		},
		"a lost send leaves a gap in its group": func(h *history) {
			h.send(f1)
			h.sending(f2)
			h.restarted()
			h.send(f3)
			h.get(1, f1, f3)
			h.drop(f1)
			h.drop(f3)
		},
		"a send repeated under one deduplication id": func(h *history) {
			h.sending(f1)
			h.restarted()
			h.send(f1)
			h.get(1, f1)
			h.drop(f1)
		},
	}
}

// forgery is a history that must be found out, and what must be said of it.
type forgery struct {
	story func(h *history)
	want  string
}

func TestForgedHistoriesAreFound(t *testing.T) {
	forgeries := forgedContents()
	maps.Copy(forgeries, forgedLeases())
	for name, f := range forgeries {
		t.Run(name, func(t *testing.T) {
			h := newHistory()
			f.story(h)
			v := h.finish()
			if len(v) == 0 || !strings.Contains(strings.Join(v, "\n"), f.want) {
				t.Errorf("violations %q lack %q", v, f.want)
			}
		})
	}
}

// forgedContents lose, change and resurrect messages.
func forgedContents() map[string]forgery {
	s1, f1 := key{"s", 0, 1}, key{"f", 0, 1}
	return map[string]forgery{
		"lost":               {func(h *history) { h.send(s1) }, "acknowledged, but never arrived"},
		"lost after a lease": {func(h *history) { h.send(s1); h.get(1, s1) }, "did not arrive in the end"},
		"never sent":         {func(h *history) { h.get(1, s1) }, "never sent"},
		"another body": {func(h *history) {
			h.send(s1)
			h.received(h.now, h.now, []arrival{{s1, "id-" + s1.String(), "h", 1, false}})
			h.drop(s1)
		}, "another body"},
		"another id": {func(h *history) {
			h.send(s1)
			h.received(h.now, h.now, []arrival{{s1, "other", "h", 1, true}})
			h.drop(s1)
		}, "arrived with id other"},
		"two ids of an unanswered send": {func(h *history) {
			h.sending(s1)
			h.get(1, s1)
			h.pass(20 * time.Second)
			h.received(h.now, h.now, []arrival{{s1, "other", "h", 2, true}})
			h.drop(s1)
		}, "and before with id"},
		"stored twice by a repeated send": {func(h *history) {
			h.sending(f1)
			h.get(1, f1)
			h.sent(f1, "other")
			h.drop(f1)
		}, "acknowledged with id other, but arrived"},
		"back after its delete": {func(h *history) {
			h.send(s1)
			h.get(1, s1)
			h.drop(s1)
			h.restarted()
			h.pass(20 * time.Second)
			h.get(2, s1)
		}, "arrived after its delete was answered"},
		"back after a delete by a handle from before the crash": {func(h *history) {
			h.send(s1)
			h.get(1, s1)
			h.restarted()
			h.drop(s1)
			h.pass(20 * time.Second)
			h.get(2, s1)
		}, "arrived after its delete was answered"},
		"a good handle refused": {func(h *history) {
			h.send(s1)
			h.get(1, s1)
			h.restarted()
			h.deleting(s1)
			h.refused(s1, s1.String(), h.now, errNo)
		}, "by a good handle was refused"},
	}
}

// forgedLeases break leases, counts and the order of groups.
func forgedLeases() map[string]forgery {
	s1 := key{"s", 0, 1}
	f1, f2, f3, g1 := key{"f", 0, 1}, key{"f", 0, 2}, key{"f", 0, 3}, key{"f", 1, 1}
	return map[string]forgery{
		"leased twice": {func(h *history) {
			h.send(s1)
			h.get(1, s1)
			h.get(2, s1)
			h.drop(s1)
		}, "arrived again while it was leased"},
		"a FIFO lease forgotten in a crash": {func(h *history) {
			h.send(f1)
			h.get(1, f1)
			h.restarted()
			h.get(2, f1)
			h.drop(f1)
		}, "arrived again while it was leased"},
		"a FIFO count forgotten in a crash": {func(h *history) {
			h.send(f1)
			h.get(1, f1)
			h.restarted()
			h.pass(20 * time.Second)
			h.get(1, f1)
			h.drop(f1)
		}, "receive count 1, after 1"},
		"a count that does not rise": {func(h *history) {
			h.send(s1)
			h.get(3, s1)
			h.pass(20 * time.Second)
			h.get(2, s1)
			h.drop(s1)
		}, "receive count 2, after 3"},
		"a group overtaken": {func(h *history) {
			h.send(f1)
			h.send(f2)
			h.get(1, f1)
			h.get(1, f2)
			h.drop(f1)
			h.drop(f2)
		}, "neither deleted nor with it"},
		"a group out of order in one answer": {func(h *history) {
			h.send(f1)
			h.send(f2)
			h.get(1, f2, f1)
			h.drop(f1)
			h.drop(f2)
		}, "behind f/0/2 in one answer"},
		"a lost send that comes late": {func(h *history) {
			h.send(f1)
			h.sending(f2)
			h.send(f3)
			h.get(1, f1, f3)
			h.drop(f1)
			h.drop(f3)
			h.get(1, f2)
			h.drop(f2)
		}, "arrived after f/0/3 of the same group"},
		"trouble": {func(h *history) { h.send(g1); h.get(1, g1); h.drop(g1); h.trouble("status %d", 500) }, "status 500"},
	}
}
