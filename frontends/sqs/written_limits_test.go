package sqs

func docQueueLimits() []docRow {
	edge := func(feature, aws, name string) docRow {
		return docRow{feature, aws, unknown, "", []string{"limit/" + name + "/*"}}
	}
	return []docRow{
		edge("queue name", "1 to 80 of `[A-Za-z0-9_-]`", "queue name"),
		edge("FIFO queue name", "the same, `.fifo` counts", "FIFO queue name"),
		edge("DelaySeconds of a queue", "0 to 900", "DelaySeconds"),
		edge("MessageRetentionPeriod, bounds", "60 to 1,209,600", "MessageRetentionPeriod"),
		edge("VisibilityTimeout of a queue", "0 to 43,200", "VisibilityTimeout"),
		edge("ReceiveMessageWaitTimeSeconds, bounds", "0 to 20", "ReceiveMessageWaitTimeSeconds"),
		edge("MaximumMessageSize, bounds", "1,024 to 1,048,576", "MaximumMessageSize"),
		edge("KmsDataKeyReusePeriodSeconds, bounds", "60 to 86,400", "KmsDataKeyReusePeriodSeconds"),
		edge("maxReceiveCount", "1 to 1,000", "maxReceiveCount"),
		edge("source ARNs of RedriveAllowPolicy", "10", "sources of RedriveAllowPolicy"),
		{"Policy", unknown, unknown, "8,192 bytes", []string{"TestPoliciesAreBounded"}},
		edge("tags of a queue", "50", "tags"),
		{"key of a tag", unknown, unknown, "1 to 128 characters", []string{"limit/tag key/*"}},
		{"value of a tag", unknown, unknown, "0 to 256 characters", []string{"limit/tag value/*"}},
		edge("label of a permission", "80", "label"),
		edge("actions of a permission", "7", "actions of a permission"),
		edge("MaxResults of ListQueues", "1 to 1,000", "ListQueues MaxResults"),
		edge("MaxResults of ListMessageMoveTasks", "1 to 10", "ListMessageMoveTasks MaxResults"),
		edge("rate of a move task", "500", "rate of a move"),
		edge("active move tasks", "100", "active moves"),
		{"messages in flight", "about 120,000: short poll OverLimit, long poll empty", "no limit", "120,000, the same", []string{"TestInFlightLimit", "error/too many in flight"}},
	}
}

func docMessageLimits() []docRow {
	edge := func(feature, aws, name string) docRow {
		return docRow{feature, aws, unknown, "", []string{"limit/" + name + "/*"}}
	}
	return []docRow{
		edge("body", "1 character to 1,048,576 bytes", "body"),
		edge("body and attributes together", "1,048,576 bytes", "body with attributes"),
		edge("MaximumMessageSize of the queue", "per entry in a batch", "MaximumMessageSize of the queue"),
		{"entries of a batch", "1 to 10", unknown, "", []string{"limit/batch entries/*", "error/SendMessageBatch/11 entries", "error/SendMessageBatch/empty"}},
		edge("bytes of a batch", "1,048,576", "batch bytes"),
		{"id of a batch entry", "1 to 80 of `[A-Za-z0-9_-]`, distinct", unknown, "", []string{"limit/batch id/*", "error/SendMessageBatch/id of 81", "error/SendMessageBatch/bad id", "error/SendMessageBatch/equal ids"}},
		edge("characters of a body", "those of XML 1.0", "characters"),
		edge("message attributes", "10", "attributes"),
		edge("name of an attribute", "256 of `[A-Za-z0-9_.-]`", "attribute name"),
		edge("reserved names of attributes", "`AWS.`, `Amazon.`, in any case", "reserved attribute name"),
		edge("dots in the name of an attribute", "not first, last or double", "dots of an attribute name"),
		edge("signs in the name of an attribute", "no others", "signs of an attribute name"),
		{"type of an attribute", "String, Number, Binary, with a label, 256", unknown, "", []string{"limit/attribute type/*", "limit/length of an attribute type/*"}},
		{"value of an attribute", "not empty", unknown, "", []string{"error/empty value of a message attribute"}},
		edge("value of a Number", "38 digits, to 10^126", "number"),
		edge("DelaySeconds of a message", "0 to 900", "DelaySeconds of a message"),
		{"group, deduplication and attempt ids", "1 to 128 letters, digits, punctuation", unknown, "", []string{"limit/MessageGroupId/*", "limit/MessageDeduplicationId/*", "limit/ReceiveRequestAttemptId/*"}},
		edge("MaxNumberOfMessages", "1 to 10", "MaxNumberOfMessages"),
		edge("WaitTimeSeconds", "0 to 20", "WaitTimeSeconds"),
		{"VisibilityTimeout of a request", "0 to 43,200", unknown, "", []string{"limit/VisibilityTimeout of a receive/*", "limit/VisibilityTimeout of a change/*"}},
		edge("invisible in all", "43,200 s from the receive", "12 hours in all"),
		edge("receipt handle", "1,024", "receipt handle"),
	}
}

// docRelaxed has what sqs.limits changes.
func docRelaxed() []docRow {
	return []docRow{
		{"60 s between purges, `sqs.limits: strict`", "yes", "no", "", []string{"error/second purge in 60 s"}},
		{"60 s from deletion to creation, `sqs.limits: strict`", "yes", "no", "", []string{"error/deleted within 60 s"}},
		{"both, `sqs.limits: relaxed`", "none there", "no waits", "no waits", []string{"limit/relaxed/*"}},
	}
}

func docErrors() []docRow {
	const old = "`AWS.SimpleQueueService."
	row := func(code, aws string, shownBy ...string) docRow { return docRow{code, aws, unknown, "", shownBy} }
	return []docRow{
		{old + "NonExistentQueue`", "400: unknown, absent or empty QueueUrl", told, "", []string{"error/unknown queue", "error/QueueUrl absent", "error/QueueUrl empty"}},
		row("`QueueAlreadyExists`", "400", "error/name taken"),
		row(old+"QueueDeletedRecently`", "400", "error/deleted within 60 s"),
		row("`InvalidParameterValue`", "400", "error/MessageDeduplicationId on standard", "limit/MaxNumberOfMessages/11"),
		row("`MissingParameter`", "400", "error/missing/*"),
		row("`InvalidAttributeName`", "400", "error/attribute name"),
		row("`InvalidAttributeValue`", "400", "error/attribute value"),
		row("`InvalidMessageContents`", "400", "error/bad characters"),
		{"`ReceiptHandleIsInvalid`", "404", told, "", []string{"error/malformed handle/*"}},
		{old + "MessageNotInflight`", "400, sources disagree when", unknown, "known, and not needed: a change after the timeout succeeds", []string{"error/not in flight", "feature/change after expiry hides again"}},
		row(old+"PurgeQueueInProgress`", "403", "error/second purge in 60 s"),
		row("`OverLimit`", "403", "error/too many in flight", "TestInFlightLimit", "limit/actions of a permission/8"),
		row(old+"EmptyBatchRequest`", "400", "error/SendMessageBatch/empty", "error/DeleteMessageBatch/empty", "error/ChangeMessageVisibilityBatch/empty"),
		row(old+"TooManyEntriesInBatchRequest`", "400", "error/SendMessageBatch/11 entries", "error/DeleteMessageBatch/11 entries", "error/ChangeMessageVisibilityBatch/11 entries"),
		row(old+"BatchEntryIdsNotDistinct`", "400", "error/SendMessageBatch/equal ids", "error/DeleteMessageBatch/equal ids", "error/ChangeMessageVisibilityBatch/equal ids"),
		row(old+"InvalidBatchEntryId`", "400", "error/SendMessageBatch/bad id", "error/DeleteMessageBatch/bad id", "error/ChangeMessageVisibilityBatch/bad id"),
		row(old+"BatchRequestTooLong`", "400", "limit/batch bytes/1 MiB and 1"),
		row(old+"UnsupportedOperation`", "400", "error/StringListValues", "error/BinaryListValues"),
		row("`ResourceNotFoundException`", "404", "error/source of a move", "error/destination of a move", "error/move task"),
		{"`InvalidAction`", "400", told + ": 404", "", []string{"error/unknown action", "error/no target", "error/other service"}},
		row("`MalformedInput`", "400", "error/broken JSON", "error/no JSON object", "error/too many parameters"),
		{"`AccessDenied`", "403", "no signatures are checked", "", []string{"TestSignaturesOnTheWire"}},
		{"`InvalidClientTokenId`", "403", "no signatures are checked", "", []string{"TestSignaturesOnTheWire"}},
		{"`SignatureDoesNotMatch`", "403", "no signatures are checked", "", []string{"TestSignaturesOnTheWire"}},
		{"`IncompleteSignature`", "400", "no signatures are checked", "", []string{"TestSignaturesOnTheWire"}},
		row("`UnknownOperationException`", "404 in XML: a GET without an action", "error/GET without action", "error/other method"),
	}
}

// docOwnErrors has those that reference pages of SQS do not tell of.
func docOwnErrors() []docRow {
	row := func(code, ours string, shownBy ...string) docRow {
		return docRow{code, unknown, unknown, ours, shownBy}
	}
	return []docRow{
		row("`MissingAction`", "400: a form that names no action", "error/no action"),
		row("`MalformedQueryString`", "400: a form that is none", "error/broken form"),
		row("`RequestEntityTooLarge`", "413: a body over 8 MiB", "error/http/1 GB announced"),
		row("`RequestTimeout`", "408: a header within 10 s, a body within 30 s", "error/http/body that does not come", "error/http/header that does not end"),
		row("`RequestHeadersTooLarge`", "431: a header over 16 KiB", "error/http/long header"),
		row("`MalformedHttpRequest`", "400", "error/http/garbage", "error/http/broken chunks"),
		row("`ServiceUnavailable`", "503 with Retry-After: full disk or queue, draining, stopped", "error/disk full", "error/queue full", "error/node drains", "error/node stopped"),
		row("`InternalFailure`", "500: the cause is in the log", "error/unreadable data", "error/unheard of"),
	}
}
