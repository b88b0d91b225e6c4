package sqs

import (
	"context"
	"errors"
	"fmt"

	"github.com/leasemq/broker/core"
)

// fault is a kind of error that SQS has.
type fault uint8

const (
	faultInternal fault = iota
	faultUnavailable
	faultNoQueue
	faultQueueExists
	faultQueueDeletedRecently
	faultInvalidParameter
	faultMissingParameter
	faultInvalidAttributeName
	faultInvalidAttributeValue
	faultInvalidMessageContents
	faultReceiptHandle
	faultNotInFlight
	faultPurgeInProgress
	faultOverLimit
	faultNotFound
	faultEmptyBatch
	faultTooManyEntries
	faultIDsNotDistinct
	faultInvalidEntryID
	faultBatchTooLong
	faultUnsupported
	faultUnknownAction
	faultMissingAction
	faultUnknownPath
	faultMalformed
	faultMalformedQuery
	faultTooLarge
	faultTimeout
	faultHeadersTooLarge
	faultBadHTTP
	faultAccessDenied
	faultUnknownKey
	faultSignature
	faultBrokenSignature
	faultEnd
)

// wire is how a fault is told.
type wire struct {
	code     string // in x-amzn-query-error, in XML and in batch results
	shape    string // in __type, after its namespace
	status   int    // of HTTP
	general  bool   // the shape is of com.amazon.coral.service, not of com.amazonaws.sqs
	receiver bool   // our fault, not the sender's
}

// The namespaces of __type, and the prefix of the old codes.
const (
	sqsShapes     = "com.amazonaws.sqs#"
	generalShapes = "com.amazon.coral.service#"
	oldCode       = "AWS.SimpleQueueService."
)

// wire returns how f is told.
func (f fault) wire() wire {
	switch f {
	case faultUnavailable:
		return wire{code: "ServiceUnavailable", shape: "ServiceUnavailableException", status: 503, general: true, receiver: true}
	case faultNoQueue:
		return wire{code: oldCode + "NonExistentQueue", shape: "QueueDoesNotExist", status: 400}
	case faultQueueExists:
		return wire{code: "QueueAlreadyExists", shape: "QueueNameExists", status: 400}
	case faultQueueDeletedRecently:
		return wire{code: oldCode + "QueueDeletedRecently", shape: "QueueDeletedRecently", status: 400}
	case faultInvalidParameter:
		return wire{code: "InvalidParameterValue", shape: "InvalidParameterValueException", status: 400, general: true}
	case faultMissingParameter:
		return wire{code: "MissingParameter", shape: "MissingRequiredParameterException", status: 400, general: true}
	case faultInvalidAttributeName:
		return wire{code: "InvalidAttributeName", shape: "InvalidAttributeName", status: 400}
	case faultInvalidAttributeValue:
		return wire{code: "InvalidAttributeValue", shape: "InvalidAttributeValue", status: 400}
	case faultInvalidMessageContents:
		return wire{code: "InvalidMessageContents", shape: "InvalidMessageContents", status: 400}
	case faultReceiptHandle:
		return wire{code: "ReceiptHandleIsInvalid", shape: "ReceiptHandleIsInvalid", status: 404}
	case faultNotInFlight:
		return wire{code: oldCode + "MessageNotInflight", shape: "MessageNotInflight", status: 400}
	case faultPurgeInProgress:
		return wire{code: oldCode + "PurgeQueueInProgress", shape: "PurgeQueueInProgress", status: 403}
	case faultOverLimit:
		return wire{code: "OverLimit", shape: "OverLimit", status: 403}
	case faultNotFound:
		return wire{code: "ResourceNotFoundException", shape: "ResourceNotFoundException", status: 404}
	}
	return f.requestWire()
}

// requestWire is wire for what is wrong with a batch or with the request itself.
func (f fault) requestWire() wire {
	switch f {
	case faultEmptyBatch:
		return wire{code: oldCode + "EmptyBatchRequest", shape: "EmptyBatchRequest", status: 400}
	case faultTooManyEntries:
		return wire{code: oldCode + "TooManyEntriesInBatchRequest", shape: "TooManyEntriesInBatchRequest", status: 400}
	case faultIDsNotDistinct:
		return wire{code: oldCode + "BatchEntryIdsNotDistinct", shape: "BatchEntryIdsNotDistinct", status: 400}
	case faultInvalidEntryID:
		return wire{code: oldCode + "InvalidBatchEntryId", shape: "InvalidBatchEntryId", status: 400}
	case faultBatchTooLong:
		return wire{code: oldCode + "BatchRequestTooLong", shape: "BatchRequestTooLong", status: 400}
	case faultUnsupported:
		return wire{code: oldCode + "UnsupportedOperation", shape: "UnsupportedOperation", status: 400}
	case faultUnknownAction:
		return wire{code: "InvalidAction", shape: "UnknownOperationException", status: 400, general: true}
	case faultMissingAction:
		return wire{code: "MissingAction", shape: "MissingActionException", status: 400, general: true}
	case faultUnknownPath:
		return wire{code: "UnknownOperationException", shape: "UnknownOperationException", status: 404, general: true}
	case faultMalformed:
		return wire{code: "MalformedInput", shape: "SerializationException", status: 400, general: true}
	case faultMalformedQuery:
		return wire{code: "MalformedQueryString", shape: "MalformedQueryStringException", status: 400, general: true}
	case faultTooLarge:
		return wire{code: "RequestEntityTooLarge", shape: "RequestEntityTooLargeException", status: 413, general: true}
	case faultTimeout:
		return wire{code: "RequestTimeout", shape: "RequestTimeoutException", status: 408, general: true}
	case faultHeadersTooLarge:
		return wire{code: "RequestHeadersTooLarge", shape: "RequestHeadersTooLargeException", status: 431, general: true}
	case faultBadHTTP:
		return wire{code: "MalformedHttpRequest", shape: "MalformedHttpRequestException", status: 400, general: true}
	case faultAccessDenied:
		return wire{code: "AccessDenied", shape: "AccessDeniedException", status: 403, general: true}
	case faultUnknownKey:
		return wire{code: "InvalidClientTokenId", shape: "UnrecognizedClientException", status: 403, general: true}
	case faultSignature:
		return wire{code: "SignatureDoesNotMatch", shape: "InvalidSignatureException", status: 403, general: true}
	case faultBrokenSignature:
		return wire{code: "IncompleteSignature", shape: "IncompleteSignatureException", status: 400, general: true}
	}
	return wire{code: "InternalFailure", shape: "InternalFailure", status: 500, general: true, receiver: true}
}

// Texts of AWS that several places use.
const (
	noQueueJSON = "The specified queue does not exist."
	noQueueXML  = "The specified queue does not exist for this wsdl version."
)

// failure is the answer to a request that failed.
type failure struct {
	fault      fault
	message    string
	retryAfter int   // seconds; 0: not told
	cause      error // for the log
}

// Error makes failure an error.
func (f *failure) Error() string { return f.fault.wire().code + ": " + f.message }

// Unwrap returns the error that caused f.
func (f *failure) Unwrap() error { return f.cause }

// messageBytesShown bounds an error text, which may hold a value of the request.
const messageBytesShown = 2 << 10

func fail(f fault, format string, args ...any) *failure {
	message := format
	if len(args) > 0 {
		message = fmt.Sprintf(format, args...)
	}
	if len(message) > messageBytesShown {
		message = message[:messageBytesShown] + "..."
	}
	return &failure{fault: f, message: message}
}

func missing(parameter string) *failure {
	return fail(faultMissingParameter, "The request must contain the parameter %s.", parameter)
}

// invalid says what is wrong with the value of a parameter.
func invalid(value text, parameter, reason string) *failure {
	return fail(faultInvalidParameter, "Value %s for parameter %s is invalid. Reason: %s", value, parameter, reason)
}

// coreFault is how an error of the core is told.
type coreFault struct {
	err        error
	fault      fault
	message    string // empty: that of err
	retryAfter int
}

// retrySeconds is the hint to producers and consumers that are turned away for
// a while.
const retrySeconds = 5

// coreFaults lists every sentinel of the core. Those of a receipt get a text of
// their own where the handle is known; see settleFailure.
func coreFaults() []coreFault {
	return []coreFault{
		{err: core.ErrNoQueue, fault: faultNoQueue, message: noQueueJSON},
		{err: core.ErrQueueExists, fault: faultQueueExists, message: "A queue already exists with the same name and different attributes."},
		{err: core.ErrNoMessage, fault: faultInvalidParameter, message: "Message does not exist or is not available for visibility timeout change."},
		{err: core.ErrBadReceipt, fault: faultReceiptHandle, message: "The input receipt handle is not a valid receipt handle."},
		{err: core.ErrReceiptExpired, fault: faultInvalidParameter, message: "The receipt handle has expired."},
		{err: core.ErrNotInFlight, fault: faultNotInFlight, message: "The message is not in flight."},
		{err: core.ErrOverLimit, fault: faultOverLimit, message: "Too many messages are in flight."},
		{err: core.ErrQueueFull, fault: faultUnavailable, message: "The queue is full.", retryAfter: retrySeconds},
		{err: core.ErrMissingGroup, fault: faultMissingParameter, message: "The request must contain the parameter MessageGroupId."},
		{err: core.ErrMissingDedupID, fault: faultInvalidParameter, message: textNoDedupID},
		{err: core.ErrDiskFull, fault: faultUnavailable, message: "The disk of the node is nearly full: messages can be received and deleted, not sent.", retryAfter: retrySeconds},
		{err: core.ErrStopped, fault: faultUnavailable, message: "The node has stopped.", retryAfter: retrySeconds},
		{err: core.ErrDraining, fault: faultUnavailable, message: "The node is shutting down.", retryAfter: retrySeconds},
		{err: core.ErrNotPrimary, fault: faultUnavailable, message: "The node is not the primary of its cluster.", retryAfter: 1},
		{err: core.ErrCorrupt, fault: faultInternal, message: "Stored data of the queue is unreadable."},
		{err: core.ErrTooLarge, fault: faultInvalidParameter, message: "One or more parameters are invalid. Reason: Message is too large."},
		{err: core.ErrInvalidName, fault: faultInvalidParameter, message: textQueueName},
		{err: core.ErrInvalidConfig, fault: faultInvalidAttributeValue},
		{err: core.ErrInvalidArgument, fault: faultInvalidParameter},
		{err: core.ErrMoveActive, fault: faultInvalidParameter, message: "There is already a task running. Only one active task is allowed for a source queue arn at a given time."},
		{err: core.ErrTooManyMoves, fault: faultOverLimit, message: "Too many message move tasks are active."},
		{err: core.ErrNoMove, fault: faultNotFound, message: "Task does not exist."},
		{err: core.ErrMoveTarget, fault: faultNotFound, message: "The resource that you specified for the DestinationArn parameter doesn't exist."},
		{err: core.ErrDeadLetterQueue, fault: faultInvalidParameter},
		{err: core.ErrRoute, fault: faultInvalidAttributeValue},
		// Bindings have no word in SQS.
		{err: core.ErrInvalidTopic, fault: faultInvalidParameter},
		{err: core.ErrNoBinding, fault: faultNotFound},
		{err: core.ErrTooManyBindings, fault: faultOverLimit},
		// A request that was cut off by the end of the node.
		{err: context.Canceled, fault: faultUnavailable, message: "The node is shutting down.", retryAfter: retrySeconds},
		{err: context.DeadlineExceeded, fault: faultUnavailable, message: "The request took too long.", retryAfter: retrySeconds},
	}
}

// asFailure returns how err is told.
func asFailure(err error) *failure {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	if errors.Is(err, errSyntax) {
		return &failure{fault: faultMalformed, message: err.Error(), cause: err}
	}
	for _, c := range coreFaults() {
		if !errors.Is(err, c.err) {
			continue
		}
		message := c.message
		if message == "" {
			message = err.Error()
		}
		return &failure{fault: c.fault, message: message, retryAfter: c.retryAfter, cause: err}
	}
	return &failure{fault: faultInternal, message: "The request could not be processed because of an internal error.", cause: err}
}

// settleFailure is asFailure for an error about what e asks of its message.
func settleFailure(err error, e *entry) *failure {
	handle := e.handle
	switch {
	case errors.Is(err, core.ErrBadReceipt):
		return fail(faultReceiptHandle, `The input receipt handle "%s" is not a valid receipt handle.`, handle)
	case errors.Is(err, core.ErrReceiptExpired):
		return invalid(handle, "ReceiptHandle", "The receipt handle has expired.")
	case errors.Is(err, core.ErrNoMessage):
		return invalid(handle, "ReceiptHandle", "Message does not exist or is not available for visibility timeout change.")
	case errors.Is(err, core.ErrInvalidArgument) && e.visibility.isSet():
		// Its own bounds were checked before.
		return invalid(e.visibility.sent, "VisibilityTimeout", "Total VisibilityTimeout for the message is beyond the limit [43200 seconds].")
	}
	return asFailure(err)
}
