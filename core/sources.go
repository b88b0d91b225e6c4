package core

import (
	"context"
	"fmt"
)

// The queues that name a dead-letter queue are found by node-wide records, one
// for each of them, written in the Change that creates, configures or deletes
// the source. An index in memory would be smaller, but to build it an open
// would have to read every queue; this way neither an open nor a question costs
// more for queues that it is not about, and standbys have it too.
//
// A dead-letter queue is named, not held: a record goes with its source, not
// with the dead-letter queue, which has its sources again when it comes back
// under its name.

// sourceVersion is the value of such a record.
const sourceVersion = 1

// sourcePrefix begins the names of the records of a dead-letter queue; the
// source's own name ends them. The length in front keeps a name apart from a
// longer one that begins alike.
func sourcePrefix(deadLetter string) string {
	return fmt.Sprintf("source/%03x/%s/", len(deadLetter), deadLetter)
}

// putSource notes, within g, that the queue called name has changed its
// dead-letter queue; "" is none.
func (g *group) putSource(name, before, now string) {
	if before == now {
		return
	}
	if before != "" {
		g.put(Edit{Kind: EditDropRecord, Key: []byte(sourcePrefix(before) + name)})
	}
	if now != "" {
		g.put(Edit{Kind: EditPutRecord, Key: []byte(sourcePrefix(now) + name), Value: []byte{sourceVersion}})
	}
}

// Sources returns up to max names of the queues whose dead-letter queue is
// called name, which sort after the given one.
func (c *Client) Sources(ctx context.Context, name, after string, max int) ([]string, error) {
	if err := c.engine.up(); err != nil {
		return nil, err
	}
	if done := c.engine.seq.barrier(); done != nil {
		if err := wait(ctx, done); err != nil {
			return nil, err
		}
	}
	prefix := sourcePrefix(name)
	var names []string
	err := c.engine.store.Records(prefix, prefix+after, func(record string, _ []byte) bool {
		names = append(names, record[len(prefix):])
		return len(names) < max
	})
	return names, err
}
