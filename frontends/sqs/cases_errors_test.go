package sqs

import (
	"context"
	"fmt"
	"strings"

	"github.com/leasemq/broker/core"
)

// Codes and texts of AWS that several cases want.
const (
	codeNoQueue   = "AWS.SimpleQueueService.NonExistentQueue"
	codeParameter = "InvalidParameterValue"
	codeMissing   = "MissingParameter"
	textNoQueue   = "The specified queue does not exist."
)

// errorCases has the errors on queues and handles.
func errorCases() []rawCase {
	cases := []rawCase{
		{name: "error/unknown queue", action: "SendMessage", in: `{"QueueUrl":"http://sqs.test:9324/000000000000/nope","MessageBody":"x"}`, code: codeNoQueue, text: textNoQueue},
		{name: "error/QueueUrl absent", action: "SendMessage", in: `{"MessageBody":"x"}`, code: codeNoQueue, text: textNoQueue},
		{name: "error/QueueUrl empty", action: "SendMessage", in: `{"QueueUrl":"","MessageBody":"x"}`, code: codeNoQueue, text: textNoQueue},
		{
			name: "error/name taken", given: []string{makeQ}, action: "CreateQueue", in: `{"QueueName":"q","Attributes":{"VisibilityTimeout":"30","DelaySeconds":"1"}}`,
			code: "QueueAlreadyExists", text: "A queue already exists with the same name and a different value for attribute DelaySeconds",
		},
		{
			name: "error/deleted within 60 s", given: []string{makeQ, `DeleteQueue {"QueueUrl":"q"}`, "advance 59s"}, action: "CreateQueue", in: `{"QueueName":"q"}`,
			code: "AWS.SimpleQueueService.QueueDeletedRecently", text: "You must wait 60 seconds after deleting a queue before you can create another with the same name.",
			then: []string{"advance 1s", makeQ},
		},
		{name: "error/attribute name", given: []string{makeQ}, action: "GetQueueAttributes", in: `{"QueueUrl":"q","AttributeNames":["Nope"]}`, code: "InvalidAttributeName", text: "Unknown Attribute Nope."},
		{name: "error/attribute value", given: []string{makeQ}, action: "SetQueueAttributes", in: `{"QueueUrl":"q","Attributes":{"DelaySeconds":"soon"}}`, code: "InvalidAttributeValue", text: "Invalid value for the parameter DelaySeconds."},
		{name: "error/bad characters", given: []string{makeQ}, action: "SendMessage", in: `{"QueueUrl":"q","MessageBody":"a\u0001"}`, code: "InvalidMessageContents", text: textCharacters},
		{
			name: "error/second purge in 60 s", given: []string{makeQ, `PurgeQueue {"QueueUrl":"q"}`, "advance 59s"}, action: "PurgeQueue", in: `{"QueueUrl":"q"}`,
			code: "AWS.SimpleQueueService.PurgeQueueInProgress", text: "Only one PurgeQueue operation on q is allowed every 60 seconds.",
			then: []string{"advance 1s", `PurgeQueue {"QueueUrl":"q"}`},
		},
		{
			name: "error/change of a deleted message", given: []string{makeQ, sendX, receiveX, `DeleteMessage {"QueueUrl":"q","ReceiptHandle":"[handle 1]"}`},
			action: "ChangeMessageVisibility", in: `{"QueueUrl":"q","ReceiptHandle":"[handle 1]","VisibilityTimeout":1}`,
			code: codeParameter, text: "Value [handle 1] for parameter ReceiptHandle is invalid. Reason: Message does not exist or is not available for visibility timeout change.",
		},
		{
			name: "error/handle of another queue", given: []string{makeQ, makeDLQ, sendX, receiveX}, action: "DeleteMessage", in: `{"QueueUrl":"dlq","ReceiptHandle":"[handle 1]"}`,
			code: "ReceiptHandleIsInvalid", text: `The input receipt handle "[handle 1]" is not a valid receipt handle.`,
		},
		{name: "error/source of a move", action: "StartMessageMoveTask", in: `{"SourceArn":"` + arnDLQ + `"}`, code: "ResourceNotFoundException", text: "The resource that you specified for the SourceArn parameter doesn't exist."},
		{
			name: "error/destination of a move", given: deadLettered("x"), action: "StartMessageMoveTask", in: `{"SourceArn":"` + arnDLQ + `","DestinationArn":"arn:aws:sqs:us-east-1:000000000000:nope"}`,
			code: "ResourceNotFoundException", text: "The resource that you specified for the DestinationArn parameter doesn't exist.",
		},
		{
			name: "error/move task", given: []string{makeDLQ}, action: "CancelMessageMoveTask",
			in: `{"TaskHandle":"eyJ0YXNrSWQiOiIxIiwic291cmNlQXJuIjoiYXJuOmF3czpzcXM6dXMtZWFzdC0xOjAwMDAwMDAwMDAwMDpkbHEifQ=="}`, code: "ResourceNotFoundException", text: "Task does not exist.",
		},
		{
			name: "error/second move of a source", given: append(deadLettered("x", "y"), `StartMessageMoveTask {"SourceArn":"`+arnDLQ+`","MaxNumberOfMessagesPerSecond":1}`), action: "StartMessageMoveTask", in: `{"SourceArn":"` + arnDLQ + `"}`,
			code: codeParameter, text: "There is already a task running. Only one active task is allowed for a source queue arn at a given time.",
		},
		{name: "error/move from a queue that is no DLQ", given: []string{makeDLQ}, action: "StartMessageMoveTask", in: `{"SourceArn":"` + arnDLQ + `"}`, code: codeParameter, text: "Source queue must be configured as a Dead Letter Queue."},
		{name: "error/handle of a move", action: "CancelMessageMoveTask", in: `{"TaskHandle":"garbage"}`, code: codeParameter, text: "Value for parameter TaskHandle is invalid."},
		{name: "error/unknown action", action: "FooBar", in: `{}`, code: "InvalidAction", text: "The action FooBar is not valid for this endpoint."},
		{name: "error/ListQueues at a queue", given: []string{makeQ}, action: "ListQueues", path: "/000000000000/q", only: query, code: "InvalidAction", text: "The action ListQueues is not valid for this endpoint."},
		{name: "error/CreateQueue at a queue", given: []string{makeQ}, action: "CreateQueue", in: `{"QueueName":"new"}`, path: "/000000000000/q", only: query, code: "InvalidAction", text: "The action CreateQueue is not valid for this endpoint."},
		{
			name: "error/permission twice", given: []string{makeQ, `AddPermission {"QueueUrl":"q","Label":"l","AWSAccountIds":["111122223333"],"Actions":["*"]}`}, action: "AddPermission",
			in: `{"QueueUrl":"q","Label":"l","AWSAccountIds":["111122223333"],"Actions":["*"]}`, code: codeParameter, text: "Value l for parameter Label is invalid. Reason: Already exists.",
		},
	}
	for _, action := range []string{"DeleteMessage", "ChangeMessageVisibility"} {
		cases = append(cases, rawCase{
			name: "error/malformed handle/" + action, given: []string{makeQ}, action: action, in: `{"QueueUrl":"q","ReceiptHandle":"garbage","VisibilityTimeout":1}`,
			code: "ReceiptHandleIsInvalid", text: `The input receipt handle "garbage" is not a valid receipt handle.`,
		})
	}
	for _, kind := range []string{"StringListValues", "BinaryListValues"} {
		cases = append(cases, rawCase{
			name: "error/" + kind, given: []string{makeQ}, action: "SendMessage", in: `{"QueueUrl":"q","MessageBody":"x","MessageAttributes":{"a":{"DataType":"String","` + kind + `":["YQ=="]}}}`,
			code: "AWS.SimpleQueueService.UnsupportedOperation", text: "Message attribute list values in SendMessage operation are not supported.",
		})
	}
	return cases
}

// batchErrorCases has what fails a whole batch.
func batchErrorCases() []rawCase {
	var cases []rawCase
	for action, member := range map[string]string{"SendMessageBatch": `"MessageBody":"x"`, "DeleteMessageBatch": `"ReceiptHandle":"h"`, "ChangeMessageVisibilityBatch": `"ReceiptHandle":"h","VisibilityTimeout":1`} {
		entries := func(ids ...string) string {
			var list []string
			for _, id := range ids {
				list = append(list, fmt.Sprintf(`{"Id":"%s",%s}`, id, member))
			}
			return `{"QueueUrl":"q","Entries":[` + strings.Join(list, ",") + `]}`
		}
		const badID = "A batch entry id can only contain alphanumeric characters, hyphens and underscores. It can be at most 80 letters long."
		for _, c := range []rawCase{
			{name: "empty", in: entries(), code: "EmptyBatchRequest", text: "There should be at least one " + action + "RequestEntry in the request."},
			{name: "11 entries", in: entries("1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11"), code: "TooManyEntriesInBatchRequest", text: "Maximum number of entries per request are 10. You have sent 11."},
			{name: "equal ids", in: entries("1", "1"), code: "BatchEntryIdsNotDistinct", text: "Id 1 repeated."},
			{name: "bad id", in: entries("a b"), code: "InvalidBatchEntryId", text: badID},
			{name: "id of 81", in: entries(strings.Repeat("a", 81)), code: "InvalidBatchEntryId", text: badID},
			{name: "no id", in: entries(""), code: "InvalidBatchEntryId", text: badID},
		} {
			c.name, c.action, c.given, c.code = "error/"+action+"/"+c.name, action, []string{makeQ}, "AWS.SimpleQueueService."+c.code
			cases = append(cases, c)
		}
	}
	return append(
		cases,
		rawCase{
			name: "error/SendMessageBatch/group missing", given: []string{makeFIFO}, action: "SendMessageBatch", in: `{"QueueUrl":"q.fifo","Entries":[{"Id":"1","MessageBody":"x","MessageDeduplicationId":"d"}]}`,
			code: codeParameter, text: "The request must contain the parameter MessageGroupId.",
		},
		rawCase{
			name: "error/SendMessageBatch/deduplication id missing", given: []string{makeFIFO}, action: "SendMessageBatch", in: `{"QueueUrl":"q.fifo","Entries":[{"Id":"1","MessageBody":"x","MessageGroupId":"g"}]}`,
			code: codeParameter, text: "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly",
		},
		rawCase{
			name: "error/SendMessageBatch/body missing", given: []string{makeQ}, action: "SendMessageBatch", in: `{"QueueUrl":"q","Entries":[{"Id":"1"}]}`,
			code: codeMissing, text: "The request must contain the parameter SendMessageBatchRequestEntry.1.MessageBody.",
		},
	)
}

// parameterErrorCases has what is wrong with single parameters: the texts that
// clients compare.
func parameterErrorCases() []rawCase {
	missing := func(name string) string { return "The request must contain the parameter " + name + "." }
	cases := []rawCase{
		{name: "error/MessageGroupId missing", given: []string{makeFIFO}, action: "SendMessage", in: `{"QueueUrl":"q.fifo","MessageBody":"x","MessageDeduplicationId":"d"}`, code: codeMissing, text: missing("MessageGroupId")},
		{
			name: "error/MessageDeduplicationId missing", given: []string{makeFIFO}, action: "SendMessage", in: `{"QueueUrl":"q.fifo","MessageBody":"x","MessageGroupId":"g"}`,
			code: codeParameter, text: "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly",
		},
		{
			name: "error/MessageDeduplicationId on standard", given: []string{makeQ}, action: "SendMessage", in: `{"QueueUrl":"q","MessageBody":"x","MessageDeduplicationId":"d"}`,
			code: codeParameter, text: "Value d for parameter MessageDeduplicationId is invalid. Reason: The request include parameter that is not valid for this queue type.",
		},
		{
			name: "error/DelaySeconds on FIFO", given: []string{makeFIFO}, action: "SendMessage", in: `{"QueueUrl":"q.fifo","MessageBody":"x","MessageGroupId":"g","MessageDeduplicationId":"d","DelaySeconds":2}`,
			code: codeParameter, text: "Value 2 for parameter DelaySeconds is invalid. Reason: The request include parameter that is not valid for this queue type.",
		},
		{name: "error/name of a FIFO queue without FifoQueue", action: "CreateQueue", in: `{"QueueName":"q.fifo"}`, code: codeParameter, text: "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"},
		{
			name: "error/empty value of a message attribute", given: []string{makeQ}, action: "SendMessage", in: `{"QueueUrl":"q","MessageBody":"x","MessageAttributes":{"x":{"DataType":"String","StringValue":""}}}`,
			code: codeParameter, text: "Message (user) attribute 'x' must contain a non-empty value of type 'String'.",
		},
		{
			name: "error/expired handle on FIFO", given: []string{makeFIFO, `SendMessage {"QueueUrl":"q.fifo","MessageBody":"x","MessageGroupId":"g","MessageDeduplicationId":"d"}`, `ReceiveMessage {"QueueUrl":"q.fifo"} => [handle 1]`, "advance 31s"},
			action: "DeleteMessage", in: `{"QueueUrl":"q.fifo","ReceiptHandle":"[handle 1]"}`, code: codeParameter, text: "Value [handle 1] for parameter ReceiptHandle is invalid. Reason: The receipt handle has expired.",
		},
		{name: "error/FifoQueue on standard", given: []string{makeQ}, action: "SetQueueAttributes", in: `{"QueueUrl":"q","Attributes":{"FifoQueue":"false"}}`, code: "InvalidAttributeName", text: "Unknown Attribute FifoQueue."},
		{
			name: "error/FifoQueue set to false", given: []string{makeFIFO}, action: "SetQueueAttributes", in: `{"QueueUrl":"q.fifo","Attributes":{"FifoQueue":"false"}}`,
			code: "InvalidAttributeValue", text: "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported.",
		},
		{name: "error/ContentBasedDeduplication on standard", action: "CreateQueue", in: `{"QueueName":"q","Attributes":{"ContentBasedDeduplication":"true"}}`, code: "InvalidAttributeName", text: "Unknown Attribute ContentBasedDeduplication."},
		{
			name: "error/DeduplicationScope on standard", action: "CreateQueue", in: `{"QueueName":"q","Attributes":{"DeduplicationScope":"queue"}}`,
			code: "InvalidAttributeName", text: "You can specify the DeduplicationScope only when FifoQueue is set to true.",
		},
		{
			name: "error/other system attribute", given: []string{makeQ}, action: "SendMessage", in: `{"QueueUrl":"q","MessageBody":"x","MessageSystemAttributes":{"SenderId":{"DataType":"String","StringValue":"x"}}}`,
			code: codeParameter, text: "Message system attribute name 'SenderId' is invalid.",
		},
		{
			name: "error/two kinds of encryption", given: []string{makeQ}, action: "SetQueueAttributes", in: `{"QueueUrl":"q","Attributes":{"KmsMasterKeyId":"k","SqsManagedSseEnabled":"true"}}`,
			code: "InvalidAttributeName", text: "You can use one type of server-side encryption (SSE) at one time. You can either enable KMS SSE or SQS SSE.",
		},
	}
	for _, m := range []struct{ action, in, name string }{
		{"AddPermission", `{"QueueUrl":"q"}`, "Label"},
		{"CancelMessageMoveTask", `{}`, "TaskHandle"},
		{"ChangeMessageVisibility", `{"QueueUrl":"q","ReceiptHandle":"h"}`, "VisibilityTimeout"},
		{"CreateQueue", `{}`, "QueueName"},
		{"DeleteMessage", `{"QueueUrl":"q"}`, "ReceiptHandle"},
		{"GetQueueUrl", `{}`, "QueueName"},
		{"ListMessageMoveTasks", `{}`, "SourceArn"},
		{"RemovePermission", `{"QueueUrl":"q"}`, "Label"},
		{"SendMessage", `{"QueueUrl":"q"}`, "MessageBody"},
		{"SetQueueAttributes", `{"QueueUrl":"q"}`, "Attributes"},
		{"StartMessageMoveTask", `{}`, "SourceArn"},
		{"TagQueue", `{"QueueUrl":"q"}`, "Tags"},
		{"UntagQueue", `{"QueueUrl":"q"}`, "TagKeys"},
	} {
		cases = append(cases, rawCase{name: "error/missing/" + m.action, given: []string{makeQ}, action: m.action, in: m.in, code: codeMissing, text: missing(m.name)})
	}
	return cases
}

// coreErrorCases has errors that a whole core gives only in bad times.
func coreErrorCases() []rawCase {
	in := `{"QueueUrl":"q","MessageBody":"x"}`
	return []rawCase{
		{name: "error/too many in flight", core: core.ErrOverLimit, action: "ReceiveMessage", in: `{"QueueUrl":"q"}`, code: "OverLimit", text: "Too many messages are in flight."},
		{name: "error/not in flight", core: core.ErrNotInFlight, action: "ChangeMessageVisibility", in: `{"QueueUrl":"q","ReceiptHandle":"h","VisibilityTimeout":1}`, code: "AWS.SimpleQueueService.MessageNotInflight", text: "The message is not in flight."},
		{name: "error/disk full", core: fmt.Errorf("queue 7: %w", core.ErrDiskFull), action: "SendMessage", in: in, code: "ServiceUnavailable", text: "The disk of the node is nearly full: messages can be received and deleted, not sent."},
		{name: "error/queue full", core: core.ErrQueueFull, action: "SendMessage", in: in, code: "ServiceUnavailable", text: "The queue is full."},
		{name: "error/node stopped", core: core.ErrStopped, action: "SendMessage", in: in, code: "ServiceUnavailable", text: "The node has stopped."},
		{name: "error/not primary", core: core.ErrNotPrimary, action: "SendMessage", in: in, code: "ServiceUnavailable", text: "The node is not the primary of its cluster."},
		{name: "error/node drains", core: core.ErrDraining, action: "SendMessage", in: in, code: "ServiceUnavailable", text: "The node is shutting down."},
		{name: "error/cut off", core: context.Canceled, action: "SendMessage", in: in, code: "ServiceUnavailable", text: "The node is shutting down."},
		{name: "error/too large for the core", core: core.ErrTooLarge, action: "SendMessage", in: in, code: codeParameter, text: "One or more parameters are invalid. Reason: Message is too large."},
		{name: "error/no queue any more", core: core.ErrNoQueue, action: "SendMessage", in: in, code: codeNoQueue, text: textNoQueue},
		{name: "error/no group for the core", core: core.ErrMissingGroup, action: "SendMessage", in: in, code: codeMissing, text: "The request must contain the parameter MessageGroupId."},
		{name: "error/unreadable data", core: core.ErrCorrupt, action: "SendMessage", in: in, code: "InternalFailure", text: "Stored data of the queue is unreadable."},
		{name: "error/unheard of", core: fmt.Errorf("unheard of"), action: "SendMessage", in: in, code: "InternalFailure", text: "The request could not be processed because of an internal error."},
	}
}

// httpErrorCases has requests that are no requests of SQS, or no HTTP.
func httpErrorCases() []rawCase {
	const head, target = "POST / HTTP/1.1\r\nHost: h\r\n", "X-Amz-Target: AmazonSQS.SendMessage\r\n"
	both := func(rest string) map[protocol]string {
		return map[protocol]string{awsJSON: head + target + rest, query: head + rest}
	}
	bad := func(name, raw string) rawCase {
		return rawCase{name: "error/http/" + name, only: query, raw: map[protocol]string{query: raw}, code: "MalformedHttpRequest", text: "The request is not valid HTTP.", closes: true}
	}
	return []rawCase{
		{name: "error/broken JSON", only: awsJSON, action: "SendMessage", in: `{"QueueUrl":"q","MessageBody":"x"`, code: "MalformedInput", text: "malformed JSON: a comma or a closing bracket is missing (at byte 33)"},
		{name: "error/no JSON object", only: awsJSON, action: "SendMessage", in: `[]`, code: "MalformedInput", text: "malformed JSON: the request is not a JSON object (at byte 0)"},
		{name: "error/too many parameters", only: query, form: "Action=ListQueues" + strings.Repeat("&x=y", 4097), code: "MalformedInput", text: "The request is malformed: there are too many parameters."},
		{name: "error/broken form", only: query, form: "Action=ListQueues&QueueNamePrefix=%zz", code: "MalformedQueryString", text: "The request is malformed: a percent sign is not followed by two hexadecimal digits."},
		{name: "error/no action", only: query, form: "QueueUrl=q", code: "MissingAction", text: "The request is missing an action or a required parameter."},
		{name: "error/GET without action", only: query, raw: map[protocol]string{query: "GET /000000000000/q HTTP/1.1\r\nHost: h\r\n\r\n"}, code: "UnknownOperationException"},
		{name: "error/other method", only: query, raw: map[protocol]string{query: "DELETE /000000000000/q HTTP/1.1\r\nHost: h\r\n\r\n"}, code: "UnknownOperationException"},
		{name: "error/no target", only: awsJSON, raw: map[protocol]string{awsJSON: head + "Content-Type: application/x-amz-json-1.0\r\nContent-Length: 2\r\n\r\n{}"}, code: "InvalidAction", text: "The action  is not valid for this endpoint."},
		{name: "error/other service", only: awsJSON, raw: map[protocol]string{awsJSON: head + "X-Amz-Target: DynamoDB_20120810.ListTables\r\nContent-Length: 2\r\n\r\n{}"}, code: "InvalidAction", text: "The action DynamoDB_20120810.ListTables is not valid for this endpoint."},
		{name: "error/GET with a target", only: awsJSON, raw: map[protocol]string{awsJSON: "GET / HTTP/1.1\r\nHost: h\r\nX-Amz-Target: AmazonSQS.ListQueues\r\n\r\n"}, code: "InvalidAction", text: "The action ListQueues is not valid for this endpoint."},
		{name: "error/page of another site", raw: both("Sec-Fetch-Site: cross-site\r\nContent-Length: 0\r\n\r\n"), code: "AccessDenied", text: "Requests of web pages of other sites are refused unless they are signed."},
		{name: "error/http/1 GB announced", raw: both("Content-Length: 1073741824\r\n\r\n"), code: "RequestEntityTooLarge", text: "The request body is larger than 8388608 bytes.", closes: true},
		{name: "error/http/body that does not come", raw: both("Content-Length: 100000\r\n\r\n" + strings.Repeat("x", 8192)), code: "RequestTimeout", text: "The body did not come in time.", closes: true},
		{name: "error/http/header that does not end", only: query, raw: map[protocol]string{query: head}, code: "RequestTimeout", text: "The request did not come in time.", closes: true},
		{name: "error/http/long header", only: query, raw: map[protocol]string{query: head + "X: " + strings.Repeat("x", readBufferBytes) + "\r\n\r\n"}, code: "RequestHeadersTooLarge", text: "The request header is larger than 16384 bytes.", closes: true},
		{name: "error/http/broken chunks", raw: both("Transfer-Encoding: chunked\r\n\r\nzz\r\n"), code: "MalformedHttpRequest", text: "The body could not be read.", closes: true},
		{name: "error/http/the mark of a large body", only: query, raw: map[protocol]string{query: head + "too large: 1\r\ntoo:large: 1\r\n\r\n"}, code: "MissingAction", text: "The request is missing an action or a required parameter."},
		bad("garbage", "\x00\x01\x02\r\n\r\n"),
		bad("words", "HELO sqs\r\n\r\n"),
		bad("a TLS hello", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"),
		bad("negative length", head+"Content-Length: -1\r\n\r\n"),
		bad("two lengths", head+"Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx"),
	}
}
