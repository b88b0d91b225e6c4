package core

// What the tests of package core_test need to see of the inside.

// DecodeQueueState reads what storage keeps as the state of a queue.
func DecodeQueueState(b []byte) (QueueState, error) { return decodeQueueState(b) }

// DecodeLaneState reads what storage keeps of a lane.
func DecodeLaneState(b []byte) (cursor Seq, count int64, err error) {
	s, err := decodeLaneState(b)
	return s.Cursor, s.Count, err
}

// DecodeRecord reads a message record.
func DecodeRecord(rec []byte) (Stored, error) {
	var s Stored
	err := decodeRecord(rec, &s)
	return s, err
}

// CountedBytes is what a stored message counts in its queue's bytes.
func CountedBytes(rec []byte) int64 { return recordCounted(rec) }

// DecodeMoveTask reads what storage keeps of a move task.
func DecodeMoveTask(b []byte) (MoveTask, error) {
	t, err := decodeMoveTask(b)
	if err != nil {
		return MoveTask{}, err
	}
	return t.MoveTask, nil
}

// RecordRef returns what a message record refers to, if its body is shared.
func RecordRef(rec []byte) (epoch QID, body Seq, ok bool) {
	ref := recordRef(rec)
	if ref == nil {
		return 0, 0, false
	}
	return ref.epoch(), ref.seq(), true
}

// DecodeEpoch reads what storage keeps of an epoch.
func DecodeEpoch(b []byte) (uint64, error) {
	n, err := decodeEpoch(b)
	return uint64(n), err
}

// SetEpochBytes bounds the bodies of an epoch. It is called before the engine is used.
func SetEpochBytes(e *Engine, n int) {
	e.seq.mu.Lock()
	defer e.seq.mu.Unlock()
	e.bodies.most = n
}
