package core

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// sourcesRecord is the name of the record that says that the records of all
// sources are there. Stores of an early binary lack it, and them.
const sourcesRecord = "sources-indexed"

// sourcesPage is how many queues are looked at for one Change.
const sourcesPage = 1000

// indexSources writes the records of all sources, once for a store. Nobody uses
// the engine yet. A crash in between leaves records that are right, and the rest
// for the next open.
func (e *Engine) indexSources() error {
	b, err := e.store.Record(sourcesRecord)
	switch {
	case err != nil:
		return err
	case b != nil && !slices.Equal(b, []byte{sourceVersion}):
		return ErrCorrupt
	case b != nil:
		return nil
	}
	for after, last := "", false; !last; {
		var names []string
		var qids []QID
		err := e.store.Names("", after, func(name string, q QID) bool {
			names, qids = append(names, name), append(qids, q)
			return len(names) < sourcesPage
		})
		if err != nil {
			return err
		}
		if last = len(names) < sourcesPage; !last {
			after = names[len(names)-1]
		}
		if err := e.indexPage(names, qids, last); err != nil {
			return err
		}
	}
	return nil
}

// indexPage writes the records of some queues, and with the last of them that all
// are there.
func (e *Engine) indexPage(names []string, qids []QID, last bool) error {
	targets := make([]string, len(names))
	for i, q := range qids {
		b, err := e.store.QueueRecord(q)
		var rec *queueRecord
		if err == nil {
			rec, err = decodeQueueRecord(b)
		}
		switch {
		case errors.Is(err, ErrCorrupt):
			// Its load will say so; the other queues have their index.
			e.complain("index of sources", err, "queue", names[i])
			continue
		case err != nil:
			return err
		}
		targets[i] = rec.Config.Redelivery.DeadLetterQueue
	}
	g, err := e.seq.begin()
	if err != nil {
		return err
	}
	for i, name := range names {
		g.putSource(name, "", targets[i])
	}
	if last {
		g.putSourcesIndexed()
	}
	done := g.done
	e.seq.end()
	return done.wait()
}

func (g *group) putSourcesIndexed() {
	g.put(Edit{Kind: EditPutRecord, Key: []byte(sourcesRecord), Value: []byte{sourceVersion}})
}

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
