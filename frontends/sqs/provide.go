package sqs

import (
	"fmt"
	"maps"
	"slices"

	"github.com/leasemq/broker/core"
)

// SetAttributes replaces the attributes in cfg that only SQS has by the given
// ones, checked as SetQueueAttributes checks them: Policy, RedriveAllowPolicy,
// KmsMasterKeyId, KmsDataKeyReusePeriodSeconds, SqsManagedSseEnabled and, on FIFO
// queues, FifoThroughputLimit. It is for who sets up queues by other ways than
// SQS. The error wraps core.ErrInvalidConfig; cfg is then as it was.
func SetAttributes(cfg *core.QueueConfig, attributes map[string]string) error {
	next := *cfg
	next.Attributes = nil
	var sse encryption
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		value := attributes[name]
		var err error
		switch name {
		case attrPolicy, attrRedriveAllow, attrKMSKey, attrKMSReuse, attrManagedEncryption:
			err = setKept(&next, name, value)
		case attrThroughput:
			err = setFIFOAttribute(&next, name, value, true)
		default:
			err = unknownAttribute(name)
			if slices.Contains(attributeList(), name) {
				err = fmt.Errorf("the attribute %s has a setting of its own, or cannot be set", name)
			}
		}
		if err != nil {
			return fmt.Errorf("%w: %w", core.ErrInvalidConfig, err)
		}
		sse.see(name, value)
	}
	if err := reconcile(&next, sse); err != nil {
		return fmt.Errorf("%w: %w", core.ErrInvalidConfig, err)
	}
	*cfg = next
	return nil
}
