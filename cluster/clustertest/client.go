package clustertest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/leasemq/broker/cluster"
	"github.com/leasemq/broker/core"
)

// client is what runs on a primary: it decides against its state, as the core
// does, and submits.
type client struct {
	world *world
	node  string
	gate  *Gate
	store *Store
	lease *cluster.Lease

	mu      sync.Mutex
	busy    map[string]bool // keys with something uncommitted
	pending sync.WaitGroup
}

// run goes on until ctx ends, and then waits for all that it submitted.
func (c *client) run(ctx context.Context) error {
	defer c.pending.Wait()
	for {
		if sleep(ctx, c.world.between(opEvery/2, 3*opEvery/2)) != nil || c.gate.Pass() != nil {
			return nil
		}
		if c.world.intN(4) == 0 {
			c.read()
			continue
		}
		for range 1 + c.world.intN(3) { // some are under way at once
			c.submit()
		}
	}
}

func (c *client) key() string { return "k" + strconv.Itoa(c.world.intN(keys)) }

// read reads a key, and counts if the lease covers the answer.
func (c *client) read() {
	_, _, at := c.store.Read(c.key())
	if c.lease.Covers() {
		c.world.happened(event{read: true, node: c.node, epoch: c.lease.Epoch(), seq: at.Seq, covered: true})
	}
}

// submit claims a key that is free, or releases it.
func (c *client) submit() {
	key := c.key()
	c.mu.Lock()
	if c.busy[key] {
		c.mu.Unlock()
		return
	}
	c.busy[key] = true
	c.mu.Unlock()
	owner, owned, _ := c.store.Read(key)
	o := c.world.newOp(key, owner, !owned)
	c.pending.Add(1)
	c.lease.Submit(o.change(c.world.began, c.world.intN(8) == 0), func(pos core.Pos, err error) {
		defer c.pending.Done()
		c.mu.Lock()
		delete(c.busy, key)
		c.mu.Unlock()
		if err == nil && c.gate.Pass() == nil {
			c.world.happened(event{node: c.node, epoch: c.lease.Epoch(), seq: uint64(pos), covered: c.lease.Covers(), op: o})
		}
	})
}

func (w *world) newOp(key, owner string, claim bool) op {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ops++
	return op{id: w.ops, key: key, claim: claim, was: owner}
}

func (w *world) happened(e event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
}

// change makes the Change of an op: the key, and the op's own record, by which it
// is found again. Large ones take several records of the log.
func (o op) change(began time.Time, large bool) *core.Change {
	owner := fmt.Sprint("op", o.id)
	if large {
		owner += strings.Repeat(".", 200)
	}
	c := &core.Change{Time: time.Since(began).Milliseconds()}
	if o.claim {
		c.Edits = append(c.Edits, core.Edit{Kind: core.EditPutRecord, Key: []byte(o.key), Value: []byte(owner)})
	} else {
		c.Edits = append(c.Edits, core.Edit{Kind: core.EditDropRecord, Key: []byte(o.key)})
	}
	return c
}
