package core

// What the crash model, which stands outside with storage, needs to see of the
// stored forms.

// DecodeStoredDedup reads a deduplication entry.
func DecodeStoredDedup(b []byte) (MessageID, error) {
	d, err := decodeDedup(b)
	return d.id, err
}

// DecodeStoredQueue reads a queue record.
func DecodeStoredQueue(b []byte) (name string, id QID, cfg QueueConfig, err error) {
	r, err := decodeQueueRecord(b)
	if err != nil {
		return "", 0, QueueConfig{}, err
	}
	return r.Name, r.ID, r.Config, nil
}

// DecodeStoredBinding reads the record of a binding. The QID is its Queue.ID.
func DecodeStoredBinding(name string, v []byte) (Binding, QID, error) {
	b, err := decodeBinding(name, v)
	if err != nil {
		return Binding{}, 0, err
	}
	return b.Binding, b.id, nil
}

// LeaseGrainMS is how late a lease may end.
const LeaseGrainMS = leaseTickMS

// MarkDeferMS is how long a session lease may lack its state record.
const MarkDeferMS = markDeferMS
