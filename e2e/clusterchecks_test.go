package e2e

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The queues of forged histories, and the leases there.
const (
	plainQueue  = "q"
	groupQueue  = "q.fifo"
	forgedLease = 10 * time.Second
)

// tale makes a history by hand. Its clock goes on by a tenth of a second with each
// call and return.
type tale struct {
	now      int64
	sequence uint64
	ops      []op
}

func (h *tale) tick() int64 {
	h.now += int64(100 * time.Millisecond)
	return h.now
}

func (h *tale) pass(d time.Duration) { h.now += int64(d) }

// do adds an op that returns before anything else happens.
func (h *tale) do(o op) *tale {
	o.Outcome = cmp.Or(o.Outcome, outcomeOK)
	o.Call, o.Return = h.tick(), h.tick()
	h.ops = append(h.ops, o)
	return h
}

// during has what f does happen between call and return of the last op.
func (h *tale) during(f func()) {
	i := len(h.ops) - 1
	f()
	h.ops[i].Return = h.tick()
}

func (h *tale) send(id string, o ...outcome) *tale {
	return h.do(op{Kind: opSend, Queue: plainQueue, ID: id, MessageID: "m-" + id, Outcome: cmp.Or(o...)})
}

func (h *tale) get(id, receipt string) *tale {
	return h.do(op{Kind: opReceive, Queue: plainQueue, ID: id, MessageID: "m-" + id, Receipt: receipt, Visibility: forgedLease})
}

func (h *tale) drop(id, receipt string, o ...outcome) *tale {
	return h.do(op{Kind: opDelete, Queue: plainQueue, ID: id, Receipt: receipt, Outcome: cmp.Or(o...)})
}

// fifo has the last op be one on the group of a FIFO queue.
func (h *tale) fifo() *tale {
	o := &h.ops[len(h.ops)-1]
	o.Queue = groupQueue
	if o.ID != "" {
		o.Group = "g"
	}
	if o.Kind == opSend {
		h.sequence++
		o.Sequence = h.sequence
	}
	return h
}

func (h *tale) lostReceive() *tale {
	return h.do(op{Kind: opReceive, Queue: plainQueue, Outcome: outcomeUnknown})
}

func (h *tale) fault() *tale { return h.do(op{Kind: opFault}) }

func (h *tale) claim(node string, epoch uint64) *tale {
	return h.do(op{Kind: opClaim, Node: node, Epoch: epoch})
}

func (h *tale) last() *op { return &h.ops[len(h.ops)-1] }

func TestClusterChecksTakeSoundHistories(t *testing.T) {
	stories := soundTales()
	maps.Copy(stories, soundGroupTales())
	for name, story := range stories {
		t.Run(name, func(t *testing.T) {
			h := new(tale)
			story(h)
			if v := violations(h.ops); len(v) > 0 {
				t.Errorf("violations: %q", v)
			}
		})
	}
}

func soundTales() map[string]func(h *tale) {
	return map[string]func(h *tale){
		"nothing":                            func(*tale) {},
		"send, receive, delete":              func(h *tale) { h.send("a").get("a", "1").drop("a", "1") },
		"an unknown send is lost":            func(h *tale) { h.send("a", outcomeUnknown) },
		"an unknown send works":              func(h *tale) { h.send("a", outcomeUnknown).get("a", "1").drop("a", "1") },
		"an unknown send works later":        func(h *tale) { h.send("a", outcomeUnknown).pass(time.Hour); h.get("a", "1").drop("a", "1") },
		"a failed send":                      func(h *tale) { h.send("a", outcomeFailed) },
		"a receive that waits for the send":  func(h *tale) { h.get("a", "1").during(func() { h.send("a") }); h.drop("a", "1") },
		"received before the send is over":   func(h *tale) { h.send("a").during(func() { h.get("a", "1") }); h.drop("a", "1") },
		"an unknown delete works":            func(h *tale) { h.send("a").get("a", "1").drop("a", "1", outcomeUnknown) },
		"a delete again":                     func(h *tale) { h.send("a").get("a", "1").drop("a", "1").drop("a", "1") },
		"a receive that was under way":       func(h *tale) { h.send("a").get("a", "1").during(func() { h.drop("a", "1") }) },
		"two orders of a standard queue":     func(h *tale) { h.send("a").send("b").get("b", "2").get("a", "1").drop("a", "1").drop("b", "2") },
		"epochs that rise":                   func(h *tale) { h.claim("a", 1).claim("a", 1).claim("b", 2).claim("a", 3) },
		"an old node that wakes and says so": func(h *tale) { h.claim("a", 1).claim("b", 2).claim("a", 1) },
		"redelivery after the lease": func(h *tale) {
			h.send("a").get("a", "1").pass(forgedLease)
			h.get("a", "2").drop("a", "2")
		},
		"an unknown delete does nothing": func(h *tale) {
			h.send("a").get("a", "1").drop("a", "1", outcomeUnknown).pass(forgedLease)
			h.get("a", "2").drop("a", "2")
		},
		"an old receipt does nothing": func(h *tale) {
			h.send("a").get("a", "1").pass(forgedLease)
			h.get("a", "2").drop("a", "1").pass(forgedLease)
			h.get("a", "3").drop("a", "3")
		},
		"a delete after its lease proves nothing": func(h *tale) {
			h.send("a").get("a", "1").pass(forgedLease)
			h.lostReceive().drop("a", "1").pass(forgedLease)
			h.get("a", "2").drop("a", "2")
		},
		"an old receipt works after a fault": func(h *tale) {
			h.send("a").get("a", "1").fault().get("a", "2").drop("a", "1")
		},
		"a fault forgets a lease": func(h *tale) { h.send("a").get("a", "1").fault().get("a", "2").drop("a", "2") },
		"a receipt survives a fault": func(h *tale) {
			h.send("a").get("a", "1").fault().drop("a", "1")
		},
		"overtaken by a receive that nobody saw": func(h *tale) {
			h.send("a").get("a", "1").fault().lostReceive().drop("a", "1").pass(forgedLease)
			h.get("a", "2").drop("a", "2")
		},
	}
}

func soundGroupTales() map[string]func(h *tale) {
	return map[string]func(h *tale){
		"a group in order": func(h *tale) {
			h.send("a").fifo().send("b").fifo()
			h.get("a", "1").fifo().drop("a", "1").fifo().get("b", "2").fifo().drop("b", "2").fifo()
		},
		"sends at the same time have any order": func(h *tale) {
			h.send("a").fifo().during(func() { h.send("b").fifo() })
			h.get("b", "1").fifo().drop("b", "1").fifo().get("a", "2").fifo().drop("a", "2").fifo()
		},
		"an unknown send leaves no gap": func(h *tale) {
			h.send("a").fifo().send("b", outcomeUnknown).fifo().send("c").fifo()
			h.get("a", "1").fifo().drop("a", "1").fifo().get("c", "2").fifo().drop("c", "2").fifo()
		},
		"an unknown send comes late": func(h *tale) {
			h.send("b", outcomeUnknown).fifo().send("c").fifo()
			h.get("c", "2").fifo().drop("c", "2").fifo().get("b", "1").fifo().drop("b", "1").fifo()
		},
		"the head again after its lease": func(h *tale) {
			h.send("a").fifo().send("b").fifo().get("a", "1").fifo().fault().pass(forgedLease)
			h.get("a", "2").fifo().drop("a", "1", outcomeFailed).fifo().last().Refusal = expiredReceipt
			h.drop("a", "2").fifo().get("b", "3").fifo().drop("b", "3").fifo()
		},
		"an unknown delete works and lets the next one come": func(h *tale) {
			h.send("a").fifo().send("b").fifo().get("a", "1").fifo().drop("a", "1", outcomeUnknown).fifo()
			h.get("b", "2").fifo().drop("b", "2").fifo()
		},
		"an old receipt of what is gone": func(h *tale) {
			h.send("a").fifo().get("a", "1").fifo().pass(forgedLease)
			h.get("a", "2").fifo().drop("a", "2").fifo().drop("a", "1").fifo()
		},
	}
}

// forgedTale is a history that must be found out, and what must be said of it.
type forgedTale struct {
	story func(h *tale)
	want  string
}

func TestClusterChecksFindForgedHistories(t *testing.T) {
	forgeries := forgedTales()
	maps.Copy(forgeries, forgedGroupTales())
	maps.Copy(forgeries, forgedEpochTales())
	for name, f := range forgeries {
		t.Run(name, func(t *testing.T) {
			h := new(tale)
			f.story(h)
			if v := violations(h.ops); !strings.Contains(strings.Join(v, "\n"), f.want) {
				t.Errorf("violations %q lack %q", v, f.want)
			}
		})
	}
}

const noOrder = "no order explains the ops of "

func forgedTales() map[string]forgedTale {
	return map[string]forgedTale{
		"lost":               {func(h *tale) { h.send("a") }, "lost: never received"},
		"lost after a lease": {func(h *tale) { h.send("a").get("a", "1") }, "lost: not deleted"},
		"lost after a no":    {func(h *tale) { h.send("a").get("a", "1").drop("a", "1", outcomeFailed) }, "lost: not deleted"},
		"lost behind an old receipt": {func(h *tale) {
			h.send("a").get("a", "1").pass(forgedLease)
			h.get("a", "2").drop("a", "1")
		}, "lost: not deleted"},
		"never sent":          {func(h *tale) { h.get("a", "1").drop("a", "1") }, "received before it was sent"},
		"a failed send works": {func(h *tale) { h.send("a", outcomeFailed).get("a", "1").drop("a", "1") }, "received before it was sent"},
		"received too early":  {func(h *tale) { h.get("a", "1").send("a").drop("a", "1") }, noOrder + "a"},
		"back after its delete": {func(h *tale) {
			h.send("a").get("a", "1").drop("a", "1").pass(forgedLease)
			h.get("a", "2").drop("a", "2")
		}, "received after its delete"},
		"back after its delete, for the model": {func(h *tale) {
			h.send("a").get("a", "1").drop("a", "1").pass(forgedLease)
			h.get("a", "2").drop("a", "2")
		}, noOrder + "a"},
		"back after its delete and a fault": {func(h *tale) {
			h.send("a").get("a", "1").drop("a", "1").fault().get("a", "2").drop("a", "2")
		}, "received after its delete"},
		"a receipt of before a fault does not hold": {func(h *tale) {
			h.send("a").get("a", "1").fault().drop("a", "1").pass(forgedLease)
			h.get("a", "2").drop("a", "2")
		}, "received after its delete"},
		"leased twice":       {func(h *tale) { h.send("a").get("a", "1").get("a", "2").drop("a", "2") }, noOrder + "a"},
		"leased twice later": {func(h *tale) { h.fault().send("a").get("a", "1").get("a", "2").drop("a", "2").fault() }, noOrder + "a"},
		"one receipt twice":  {func(h *tale) { h.send("a").send("b").get("a", "1").get("b", "1").drop("a", "1").drop("b", "1") }, "one receipt of two receives"},
		"a good receipt is refused": {func(h *tale) {
			h.send("a").get("a", "1").fault().drop("a", "1", outcomeFailed).last().Refusal = expiredReceipt
		}, "the receipt of a running lease was refused"},
		"stored twice": {func(h *tale) {
			h.send("a").get("a", "1").drop("a", "1").get("a", "2").last().MessageID = "other"
			h.drop("a", "2")
		}, "two messages of one send"},
		"an unknown send is stored twice": {func(h *tale) {
			h.send("a", outcomeUnknown).last().MessageID = ""
			h.get("a", "1").get("a", "2").last().MessageID = "other"
		}, "two messages of one send"},
		"a send is refused":                {func(h *tale) { h.send("a", outcomeFailed).last().Refusal = "no such queue" }, "refused: "},
		"an expired receipt of a standard": {func(h *tale) { h.drop("a", "1", outcomeFailed).last().Refusal = expiredReceipt }, "refused: "},
	}
}

func forgedGroupTales() map[string]forgedTale {
	two := func(h *tale) *tale { return h.send("a").fifo().send("b").fifo() }
	return map[string]forgedTale{
		"a group overtaken": {func(h *tale) {
			two(h).get("b", "1").fifo().drop("b", "1").fifo().get("a", "2").fifo().drop("a", "2").fifo()
		}, noOrder + "g"},
		"a group overtaken, and nothing deleted": {func(h *tale) {
			two(h).get("b", "1").fifo().pass(forgedLease)
			h.get("a", "2").fifo().drop("a", "2").fifo().get("b", "3").fifo().drop("b", "3").fifo()
		}, noOrder + "g"},
		"two of a group in flight": {func(h *tale) {
			two(h).get("a", "1").fifo().get("b", "2").fifo().drop("a", "1").fifo().drop("b", "2").fifo()
		}, noOrder + "g"},
		"the head leased twice": {func(h *tale) {
			h.send("a").fifo().get("a", "1").fifo().get("a", "2").fifo().drop("a", "2").fifo()
		}, noOrder + "g"},
		"a lease of a group forgotten in a fault": {func(h *tale) {
			h.send("a").fifo().get("a", "1").fifo().fault().get("a", "2").fifo().drop("a", "2").fifo()
		}, noOrder + "g"},
		"a message of a group lost": {func(h *tale) {
			two(h).get("b", "2").fifo().drop("b", "2").fifo()
		}, noOrder + "g"},
		"an old receipt is taken": {func(h *tale) {
			h.send("a").fifo().get("a", "1").fifo().pass(forgedLease)
			h.get("a", "2").fifo().drop("a", "1").fifo()
		}, "an old receipt was taken"},
		"an old receipt is taken, for the model": {func(h *tale) {
			h.send("a").fifo().get("a", "1").fifo().pass(forgedLease)
			h.get("a", "2").fifo().drop("a", "1").fifo()
		}, noOrder + "g"},
		"a group's message back after its delete": {func(h *tale) {
			h.send("a").fifo().get("a", "1").fifo().drop("a", "1").fifo().get("a", "2").fifo().drop("a", "2").fifo()
		}, "received after its delete"},
	}
}

func forgedEpochTales() map[string]forgedTale {
	return map[string]forgedTale{
		"two primaries": {func(h *tale) { h.claim("a", 1).claim("b", 1) }, "two primaries of one epoch"},
		"one sequence twice": {func(h *tale) {
			h.send("a").fifo().send("b").fifo().last().Sequence = 1
		}, "one sequence of two sends"},
		"a deposed primary acknowledges": {func(h *tale) {
			h.send("a").fifo().last().Sequence = 2<<40 + 1
			h.send("b").fifo().last().Sequence = 1<<40 + 99
		}, "a sequence that falls"},
	}
}

// TestAHistoryIsWritten reads back what was written.
func TestAHistoryIsWritten(t *testing.T) {
	h := new(tale).send("a").get("a", "1")
	path := filepath.Join(t.TempDir(), "history.jsonl")
	if err := writeOps(path, h.ops); err != nil {
		t.Fatal(err)
	}
	if got, err := readOps(path); err != nil || !slices.Equal(got, h.ops) {
		t.Errorf("read back %v, error %v; want %v", got, err, h.ops)
	}
}

// TestClusterChecksScale judges a sound history of the size that a test makes.
func TestClusterChecksScale(t *testing.T) {
	r := newRand(t)
	ops := simulate(r, 8, 40)
	if v := violations(ops); len(v) > 0 {
		t.Fatalf("%d violations of a sound history of %d ops, the first: %s", len(v), len(ops), v[0])
	}
	// Take one delete away: its message is lost. Take one send away: it came from nowhere.
	for _, kind := range []opKind{opDelete, opSend} {
		i := r.IntN(len(ops))
		for ops[i].Kind != kind {
			i = (i + 1) % len(ops)
		}
		if v := violations(slices.Delete(slices.Clone(ops), i, i+1)); len(v) == 0 {
			t.Errorf("the history without %v is taken", &ops[i])
		}
	}
}

// simulate makes the history of a perfect queue: groups of messages that several
// clients send and receive at the same time.
func simulate(r *rand.Rand, groups, messages int) (ops []op) {
	for g := range groups {
		clock := int64(g)
		at := func(o op) {
			o.Outcome, o.Group, o.Queue = outcomeOK, "g"+strconv.Itoa(g), groupQueue
			clock += 10 // when it has its effect
			o.Call, o.Return = clock-r.Int64N(30), clock+r.Int64N(30)
			ops = append(ops, o)
		}
		for m := range messages {
			id := strconv.Itoa(g) + "-" + strconv.Itoa(m)
			at(op{Kind: opSend, ID: id, MessageID: id, Sequence: uint64(clock + 10)})
			at(op{Kind: opReceive, ID: id, MessageID: id, Receipt: id, Visibility: time.Hour})
			at(op{Kind: opDelete, ID: id, Receipt: id})
		}
	}
	return ops
}
