package storage

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/leasemq/broker/core"
)

// Batch is what Encode writes to. A pebble.Batch is one. It copies what it is
// given.
type Batch interface {
	Set(key, value []byte, _ *pebble.WriteOptions) error
	Delete(key []byte, _ *pebble.WriteOptions) error
	SingleDelete(key []byte, _ *pebble.WriteOptions) error
	DeleteRange(start, end []byte, _ *pebble.WriteOptions) error
}

// Encode appends to b what c does to the database. It is a pure function of c:
// no read, no clock, no random. An error says that c breaks the contract of
// its edits; b is then of no use.
func Encode(c *core.Change, b Batch) error {
	e := encoder{batch: b}
	return e.change(c)
}

// encoder holds the buffers of one Encode, so that a DB can use them again.
type encoder struct {
	batch           Batch
	key, end, value []byte
}

func (e *encoder) change(c *core.Change) error {
	for i := range c.Edits {
		edit := &c.Edits[i]
		if err := e.edit(edit); err != nil {
			return fmt.Errorf("edit %d of kind %d: %w", i, edit.Kind, err)
		}
	}
	return nil
}

// edit dispatches: what concerns one message first, since there is most of it.
func (e *encoder) edit(edit *core.Edit) error {
	switch edit.Kind {
	case core.EditPutMessage, core.EditDropMessage, core.EditPutState, core.EditDropState:
		return e.messageEdit(edit)
	case core.EditPutQueue, core.EditDropQueue, core.EditPutName, core.EditDropName,
		core.EditPutQueueState, core.EditPutLane, core.EditDropLane:
		return e.queueEdit(edit)
	case core.EditPutDedup, core.EditDropDedup, core.EditPutReap, core.EditDropReap,
		core.EditReapQueue, core.EditPutRecord, core.EditDropRecord:
		return e.nodeEdit(edit)
	case core.EditPutBody, core.EditPutEpoch, core.EditReapEpochs:
		return e.bodyEdit(edit)
	}
	return fmt.Errorf("unknown kind")
}

func (e *encoder) messageEdit(edit *core.Edit) error {
	if err := checkPlace(edit.Place); err != nil {
		return err
	}
	switch edit.Kind {
	case core.EditPutMessage:
		e.key = appendMessageKey(e.key[:0], edit.Ref)
		return e.batch.Set(e.key, edit.Value, nil)
	case core.EditDropMessage:
		e.key = appendMessageKey(e.key[:0], edit.Ref)
		return e.batch.SingleDelete(e.key, nil)
	case core.EditPutState:
		e.key = appendStateKey(e.key[:0], edit.Ref)
		e.value = appendState(e.value[:0], &edit.State)
		return e.batch.Set(e.key, e.value, nil)
	default: // core.EditDropState
		e.key = appendStateKey(e.key[:0], edit.Ref)
		if edit.Single {
			return e.batch.SingleDelete(e.key, nil)
		}
		return e.batch.Delete(e.key, nil)
	}
}

func (e *encoder) queueEdit(edit *core.Edit) error {
	switch edit.Kind {
	case core.EditPutQueue:
		e.key = appendQID(e.key[:0], spaceQueue, edit.QID)
		return e.batch.Set(e.key, edit.Value, nil)
	case core.EditDropQueue:
		e.key = appendQID(e.key[:0], spaceQueue, edit.QID)
		if err := e.batch.Delete(e.key, nil); err != nil {
			return err
		}
		e.key = appendQID(e.key[:0], spaceQueueState, edit.QID)
		return e.batch.Delete(e.key, nil)
	case core.EditPutQueueState:
		e.key = appendQID(e.key[:0], spaceQueueState, edit.QID)
		return e.batch.Set(e.key, edit.Value, nil)
	case core.EditPutName:
		e.key = append(append(e.key[:0], spaceName), edit.Key...)
		e.value = appendName(e.value[:0], edit.QID)
		return e.batch.Set(e.key, e.value, nil)
	case core.EditDropName:
		e.key = append(append(e.key[:0], spaceName), edit.Key...)
		return e.batch.Delete(e.key, nil)
	}
	if err := checkPlace(edit.Place); err != nil {
		return err
	}
	e.key = appendLaneKey(e.key[:0], edit.QID, edit.Place)
	if edit.Kind == core.EditPutLane {
		return e.batch.Set(e.key, edit.Value, nil)
	}
	return e.batch.Delete(e.key, nil)
}

func (e *encoder) nodeEdit(edit *core.Edit) error {
	switch edit.Kind {
	case core.EditPutDedup:
		if len(edit.Key) != 16 {
			return fmt.Errorf("deduplication hash of %d bytes, want 16", len(edit.Key))
		}
		e.key = appendDedupKey(e.key[:0], edit.Minute, edit.QID, edit.Key)
		return e.batch.Set(e.key, edit.Value, nil)
	case core.EditDropDedup:
		e.key = appendDedupMinute(e.key[:0], 0)
		e.end = appendDedupMinute(e.end[:0], edit.Minute)
		return e.dropRange()
	case core.EditPutReap:
		e.key = appendQID(e.key[:0], spaceReap, edit.QID)
		e.value = append(e.value[:0], reapVersion)
		return e.batch.Set(e.key, e.value, nil)
	case core.EditDropReap:
		e.key = appendQID(e.key[:0], spaceReap, edit.QID)
		return e.batch.Delete(e.key, nil)
	case core.EditPutRecord:
		e.key = append(append(e.key[:0], spaceRecord), edit.Key...)
		return e.batch.Set(e.key, edit.Value, nil)
	case core.EditDropRecord:
		e.key = append(append(e.key[:0], spaceRecord), edit.Key...)
		return e.batch.Delete(e.key, nil)
	}
	for _, space := range [...]byte{spaceMessage, spaceDelayed, spaceState, spaceLane} {
		e.key = appendQID(e.key[:0], space, edit.QID)
		e.end = successor(append(e.end[:0], e.key...))
		if err := e.dropRange(); err != nil {
			return err
		}
	}
	return nil
}

func (e *encoder) bodyEdit(edit *core.Edit) error {
	switch edit.Kind {
	case core.EditPutBody:
		e.key = appendSeq(appendQID(e.key[:0], spaceBody, edit.QID), edit.Seq)
		return e.batch.Set(e.key, edit.Value, nil)
	case core.EditPutEpoch:
		e.key = appendQID(e.key[:0], spaceEpoch, edit.QID)
		return e.batch.Set(e.key, edit.Value, nil)
	}
	for _, space := range [...]byte{spaceBody, spaceEpoch} {
		e.key = appendQID(e.key[:0], space, edit.QID)
		e.end = successor(appendQID(e.end[:0], space, core.QID(edit.Seq)))
		if err := e.dropRange(); err != nil {
			return err
		}
	}
	return nil
}

// dropRange removes [key, end). An empty range writes nothing.
func (e *encoder) dropRange() error {
	if string(e.key) >= string(e.end) {
		return nil
	}
	return e.batch.DeleteRange(e.key, e.end, nil)
}

// position appends the position record.
func (e *encoder) position(p position) error {
	e.key = append(e.key[:0], keyPosition...)
	e.value = p.append(e.value[:0])
	return e.batch.Set(e.key, e.value, nil)
}
