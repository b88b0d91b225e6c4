package core

import (
	"context"
	"slices"
)

// Bounds of the records that frontends keep.
const (
	RecordNameBytesMax  = 1 << 10
	RecordValueBytesMax = 256 << 10
)

// What frontends keep are node-wide records of this prefix; the value has a version
// byte in front.
const (
	clientRecordPrefix  = "client/"
	clientRecordVersion = 1
)

// A walk through node-wide records reads so many, or so much, at a time.
const (
	recordPage      = 256
	recordPageBytes = 1 << 20
)

// txRecord is the name of a record and its value, which is nil if it is dropped.
type txRecord struct {
	name  string
	value []byte
}

// PutRecord adds a record, in the place of one of the same name: a value that the
// core keeps for a frontend and does not look at, such as the state of a session.
// Names are those of one node; a frontend begins its own with its name and '/'.
// The last of several operations of one name holds. The value must not change
// before Commit.
func (t *Tx) PutRecord(name string, value []byte) error {
	if value == nil {
		value = []byte{}
	}
	return t.addRecord(txRecord{name: name, value: value})
}

// DropRecord removes a record. That there is none is no error.
func (t *Tx) DropRecord(name string) error { return t.addRecord(txRecord{name: name}) }

func (t *Tx) addRecord(r txRecord) error {
	switch {
	case r.name == "" || len(r.name) > RecordNameBytesMax || len(r.value) > RecordValueBytesMax:
		return ErrInvalidArgument
	case t.done || t.size+1 > TxOpsMax:
		return ErrInvalidArgument
	}
	t.size++
	t.records = append(t.records, r)
	return nil
}

// write appends the edit of the record.
func (r *txRecord) write(g *group) {
	e := Edit{Kind: EditDropRecord, Key: []byte(clientRecordPrefix + r.name)}
	if r.value != nil {
		e.Kind, e.Value = EditPutRecord, slices.Concat([]byte{clientRecordVersion}, r.value)
	}
	g.put(e)
}

// Record returns the value of a record that Tx.PutRecord put, nil if there is none.
// What was committed before the call is there, and it is durable.
func (c *Client) Record(ctx context.Context, name string) ([]byte, error) {
	if err := c.engine.read(ctx); err != nil {
		return nil, err
	}
	v, err := c.engine.store.Record(clientRecordPrefix + name)
	if err != nil || v == nil {
		return nil, err
	}
	return recordValue(v)
}

// Records calls visit with the records whose names begin with prefix and sort after
// the given one, by name, until it returns false. What was committed before the
// call is there; what is committed meanwhile may be. Nothing is held while visit
// runs, which may keep the value.
func (c *Client) Records(ctx context.Context, prefix, after string, visit func(name string, value []byte) bool) error {
	if err := c.engine.read(ctx); err != nil {
		return err
	}
	if after != "" {
		after = clientRecordPrefix + after
	}
	var bad error
	err := c.engine.walkRecords(clientRecordPrefix+prefix, after, func(name string, v []byte) bool {
		if v, bad = recordValue(v); bad != nil {
			return false
		}
		if !visit(name[len(clientRecordPrefix):], v) {
			return false
		}
		bad = ctx.Err()
		return bad == nil
	})
	if err == nil {
		err = bad
	}
	return err
}

func recordValue(v []byte) ([]byte, error) {
	if len(v) == 0 || v[0] != clientRecordVersion {
		return nil, ErrCorrupt
	}
	return v[1:], nil
}

// read waits until all that has been decided is durable, so that storage may be
// read.
func (e *Engine) read(ctx context.Context) error {
	if err := e.up(); err != nil {
		return err
	}
	if done := e.seq.barrier(); done != nil {
		return wait(ctx, done)
	}
	return nil
}

// walkRecords calls visit with copies of the node-wide records whose names begin
// with prefix and sort after the given one, by pages, until it returns false.
func (e *Engine) walkRecords(prefix, after string, visit func(name string, value []byte) bool) error {
	type record struct {
		name  string
		value []byte
	}
	for {
		var page []record
		size := 0
		err := e.store.Records(prefix, after, func(name string, v []byte) bool {
			page = append(page, record{name, slices.Clone(v)})
			size += len(v)
			return len(page) < recordPage && size < recordPageBytes
		})
		if err != nil {
			return err
		}
		for _, r := range page {
			if !visit(r.name, r.value) {
				return nil
			}
		}
		if len(page) < recordPage && size < recordPageBytes {
			return nil
		}
		after = page[len(page)-1].name
	}
}
