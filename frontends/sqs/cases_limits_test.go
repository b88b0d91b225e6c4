package sqs

import (
	"fmt"
	"slices"
	"strings"
)

// edge is a limit: what is still taken, and what is not. $ stands in the input
// for either.
type edge struct {
	name, action, in string
	given            []string
	taken, refused   []string
	code, text       string // $ stands for what was refused
}

func edges(list []edge) []rawCase {
	var cases []rawCase
	for _, e := range list {
		for i, v := range append(slices.Clone(e.taken), e.refused...) {
			rc := rawCase{name: fmt.Sprintf("limit/%s/%s", e.name, label(v)), given: e.given, action: e.action, in: strings.ReplaceAll(e.in, "$", v)}
			if i >= len(e.taken) {
				rc.code, rc.text = e.code, strings.ReplaceAll(e.text, "$", v)
			}
			cases = append(cases, rc)
		}
	}
	return cases
}

// label makes a name of a value, short if it is long.
func label(v string) string {
	if len(v) > 30 {
		return fmt.Sprintf("%.5s... of %d", v, len([]rune(v)))
	}
	return v
}

// limitCases has the limits of queues.
func limitCases() []rawCase {
	const (
		set       = `{"QueueUrl":"q","Attributes":{"%s":"$"}}`
		value     = "InvalidAttributeValue"
		badName   = "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"
		badFIFO   = "The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, must end with .fifo suffix and be 1 to 80 in length"
		redrive   = `{"QueueUrl":"q","Attributes":{"RedrivePolicy":"{\"deadLetterTargetArn\":\"` + arnDLQ + `\",\"maxReceiveCount\":$}"}}`
		badCount  = `Value {"deadLetterTargetArn":"` + arnDLQ + `","maxReceiveCount":$} for parameter RedrivePolicy is invalid. Reason: Invalid value for maxReceiveCount: $, valid values are from 1 to 1000 both inclusive.`
		badTag    = "Tag %s must be between %d and %d characters in length."
		permitted = `{"QueueUrl":"q","Label":"$","AWSAccountIds":["111122223333"],"Actions":["*"]}`
	)
	attribute := func(name string, taken, refused []string) edge {
		return edge{name: name, given: []string{makeQ}, action: "SetQueueAttributes", in: fmt.Sprintf(set, name), taken: taken, refused: refused, code: value, text: "Invalid value for the parameter " + name + "."}
	}
	a := func(n int) string { return strings.Repeat("a", n) }
	list := []edge{
		attribute("DelaySeconds", []string{"0", "900"}, []string{"-1", "901", "1.5", "99999999999999999999"}),
		attribute("MessageRetentionPeriod", []string{"60", "1209600"}, []string{"59", "1209601"}),
		attribute("VisibilityTimeout", []string{"0", "43200"}, []string{"-1", "43201"}),
		attribute("ReceiveMessageWaitTimeSeconds", []string{"0", "20"}, []string{"-1", "21"}),
		attribute("MaximumMessageSize", []string{"1024", "1048576"}, []string{"1023", "1048577"}),
		attribute("KmsDataKeyReusePeriodSeconds", []string{"60", "86400"}, []string{"59", "86401"}),
		attribute("SqsManagedSseEnabled", []string{"true", "false"}, []string{"yes", ""}),
		{name: "maxReceiveCount", given: []string{makeDLQ, makeQ}, action: "SetQueueAttributes", in: redrive, taken: []string{"1", "1000"}, refused: []string{"0", "1001", "2.5"}, code: codeParameter, text: badCount},
		{name: "queue name", action: "CreateQueue", in: `{"QueueName":"$"}`, taken: []string{"a", "A-z_09", a(80)}, refused: []string{a(81), "a.b", "a b", "é", "a/b"}, code: codeParameter, text: badName},
		{name: "FIFO queue name", action: "CreateQueue", in: `{"QueueName":"$","Attributes":{"FifoQueue":"true"}}`, taken: []string{"a.fifo", a(75) + ".fifo"}, refused: []string{a(76) + ".fifo", "a", ".fifo"}, code: codeParameter, text: badFIFO},
		{
			name: "label", given: []string{makeQ}, action: "AddPermission", in: permitted, taken: []string{"l", a(80)}, refused: []string{a(81), "a.b"}, code: codeParameter,
			text: "Value $ for parameter Label is invalid. Reason: " + badName + ".",
		},
		{name: "tag key", given: []string{makeQ}, action: "TagQueue", in: `{"QueueUrl":"q","Tags":{"$":"v"}}`, taken: []string{a(128), strings.Repeat("é", 128)}, refused: []string{a(129), ""}, code: codeParameter, text: fmt.Sprintf(badTag, "keys", 1, 128)},
		{name: "tag value", given: []string{makeQ}, action: "TagQueue", in: `{"QueueUrl":"q","Tags":{"k":"$"}}`, taken: []string{"", a(256)}, refused: []string{a(257)}, code: codeParameter, text: fmt.Sprintf(badTag, "values", 0, 256)},
		{name: "ListQueues MaxResults", action: "ListQueues", in: `{"MaxResults":$}`, taken: []string{"1", "1000"}, refused: []string{"0", "1001"}, code: codeParameter, text: "Value $ for parameter MaxResults is invalid. Reason: Must be between 1 and 1000, if provided."},
		{
			name: "ListMessageMoveTasks MaxResults", given: []string{makeDLQ}, action: "ListMessageMoveTasks", in: `{"SourceArn":"` + arnDLQ + `","MaxResults":$}`, taken: []string{"1", "10"}, refused: []string{"0", "11"}, code: codeParameter,
			text: "Value $ for parameter MaxResults is invalid. Reason: Must be between 1 and 10, if provided.",
		},
		{
			name: "rate of a move", given: deadLettered("x"), action: "StartMessageMoveTask", in: `{"SourceArn":"` + arnDLQ + `","MaxNumberOfMessagesPerSecond":$}`, taken: []string{"1", "500"}, refused: []string{"0", "501"}, code: codeParameter,
			text: "Value $ for parameter MaxNumberOfMessagesPerSecond is invalid. Reason: Must be between 1 and 500, if provided.",
		},
	}
	cases := edges(list)
	numbered := func(n int, form, separator string) string {
		var items []string
		for i := range n {
			items = append(items, fmt.Sprintf(form, i))
		}
		return strings.Join(items, separator)
	}
	grants := `"SendMessage","ReceiveMessage","DeleteMessage","ChangeMessageVisibility","GetQueueAttributes","GetQueueUrl","PurgeQueue"`
	allow := func(n int) string {
		return `{"QueueUrl":"q","Attributes":{"RedriveAllowPolicy":"{\"redrivePermission\":\"byQueue\",\"sourceQueueArns\":[` + numbered(n, `\"arn:aws:sqs:us-east-1:000000000000:s%d\"`, ",") + `]}"}}`
	}
	return append(
		cases,
		rawCase{name: "limit/tags/50", given: []string{makeQ}, action: "TagQueue", in: `{"QueueUrl":"q","Tags":{` + numbered(50, `"k%d":"v"`, ",") + `}}`, void: true},
		rawCase{name: "limit/tags/51", given: []string{makeQ}, action: "TagQueue", in: `{"QueueUrl":"q","Tags":{` + numbered(51, `"k%d":"v"`, ",") + `}}`, code: codeParameter, text: "Too many tags added for queue q."},
		rawCase{name: "limit/actions of a permission/7", given: []string{makeQ}, action: "AddPermission", in: `{"QueueUrl":"q","Label":"l","AWSAccountIds":["111122223333"],"Actions":[` + grants + `]}`, void: true},
		rawCase{name: "limit/actions of a permission/8", given: []string{makeQ}, action: "AddPermission", in: `{"QueueUrl":"q","Label":"l","AWSAccountIds":["111122223333"],"Actions":[` + grants + `,"*"]}`, code: "OverLimit", text: "8 Actions were found, maximum allowed is 7."},
		rawCase{name: "limit/sources of RedriveAllowPolicy/10", given: []string{makeQ}, action: "SetQueueAttributes", in: allow(10), void: true},
		rawCase{
			name: "limit/sources of RedriveAllowPolicy/11", given: []string{makeQ}, action: "SetQueueAttributes", in: allow(11), code: codeParameter,
			text: `Value {"redrivePermission":"byQueue","sourceQueueArns":[` + numbered(11, `"arn:aws:sqs:us-east-1:000000000000:s%d"`, ",") + `]} for parameter RedriveAllowPolicy is invalid. Reason: Amazon SQS can't create the redrive allow policy. You can specify up to 10 sourceQueueArns values.`,
		},
		rawCase{name: "limit/relaxed/purge at once", options: Options{RelaxedLimits: true}, given: []string{makeQ, `PurgeQueue {"QueueUrl":"q"}`}, action: "PurgeQueue", in: `{"QueueUrl":"q"}`, void: true},
		rawCase{name: "limit/relaxed/create at once", options: Options{RelaxedLimits: true}, given: []string{makeQ, `DeleteQueue {"QueueUrl":"q"}`}, action: "CreateQueue", in: `{"QueueName":"q"}`},
	)
}

// messageLimitCases has the limits of what is sent: sizes, batches, characters.
func messageLimitCases() []rawCase {
	const mib = 1 << 20
	a := func(n int) string { return strings.Repeat("a", n) }
	send := func(body string) string { return `{"QueueUrl":"q","MessageBody":"` + body + `"}` }
	const attributed = `{"QueueUrl":"q","MessageBody":"%s","MessageAttributes":{"name":{"DataType":"String.x","StringValue":"value"}}}` // 4+8+5 bytes
	const traced = `{"QueueUrl":"q","MessageBody":"%s","MessageSystemAttributes":{"AWSTraceHeader":{"DataType":"String","StringValue":"Root=1"}}}`
	tooLong := "One or more parameters are invalid. Reason: Message must be shorter than 1048576 bytes."
	batch := func(sizes ...int) string {
		var list []string
		for i, n := range sizes {
			list = append(list, fmt.Sprintf(`{"Id":"%d","MessageBody":"%s"}`, i, a(n)))
		}
		return `{"QueueUrl":"q","Entries":[` + strings.Join(list, ",") + `]}`
	}
	small := `CreateQueue {"QueueName":"q","Attributes":{"MaximumMessageSize":"1024"}}`
	cases := []rawCase{
		{name: "limit/body/1", given: []string{makeQ}, action: "SendMessage", in: send("a")},
		{name: "limit/body/0", given: []string{makeQ}, action: "SendMessage", in: send(""), code: codeMissing, text: "The request must contain the parameter MessageBody."},
		{name: "limit/body/1 MiB", given: []string{makeQ}, action: "SendMessage", in: send(a(mib))},
		{name: "limit/body/1 MiB and 1", given: []string{makeQ}, action: "SendMessage", in: send(a(mib + 1)), code: codeParameter, text: tooLong},
		{name: "limit/body/1 MiB of UTF-8", given: []string{makeQ}, action: "SendMessage", in: send(strings.Repeat("é", mib/2))},
		{name: "limit/body/1 MiB and 1 of UTF-8", given: []string{makeQ}, action: "SendMessage", in: send(strings.Repeat("é", mib/2) + "a"), code: codeParameter, text: tooLong},
		{name: "limit/body with attributes/1 MiB", given: []string{makeQ}, action: "SendMessage", in: fmt.Sprintf(attributed, a(mib-17))},
		{name: "limit/body with attributes/1 MiB and 1", given: []string{makeQ}, action: "SendMessage", in: fmt.Sprintf(attributed, a(mib-16)), code: codeParameter, text: tooLong},
		{name: "limit/body with system attributes/1 MiB", given: []string{makeQ}, action: "SendMessage", in: fmt.Sprintf(traced, a(mib))},
		{name: "limit/MaximumMessageSize of the queue/1024", given: []string{small}, action: "SendMessage", in: send(a(1024))},
		{name: "limit/MaximumMessageSize of the queue/1025", given: []string{small}, action: "SendMessage", in: send(a(1025)), code: codeParameter, text: "One or more parameters are invalid. Reason: Message must be shorter than 1024 bytes."},
		{
			name: "limit/MaximumMessageSize of the queue/1025 in a batch", given: []string{small}, action: "SendMessageBatch", in: batch(1025),
			json: `{"Failed":[{"Id":"0","SenderFault":true,"Code":"InvalidParameterValue","Message":"One or more parameters cannot be validated. Reason: Message must be shorter than 1024 bytes."}]}`,
			xml:  "<BatchResultErrorEntry><Id>0</Id><SenderFault>true</SenderFault><Code>InvalidParameterValue</Code><Message>One or more parameters cannot be validated. Reason: Message must be shorter than 1024 bytes.</Message></BatchResultErrorEntry>",
		},
		{name: "limit/batch entries/10", given: []string{makeQ}, action: "SendMessageBatch", in: batch(1, 1, 1, 1, 1, 1, 1, 1, 1, 1)},
		{name: "limit/batch bytes/1 MiB", given: []string{makeQ}, action: "SendMessageBatch", in: batch(mib/2, mib/2)},
		{
			name: "limit/batch bytes/1 MiB and 1", given: []string{makeQ}, action: "SendMessageBatch", in: batch(mib/2, mib/2+1),
			code: "AWS.SimpleQueueService.BatchRequestTooLong", text: "Batch requests cannot be longer than 1048576 bytes. You have sent 1048577 bytes.",
		},
		{name: "limit/batch id/80", given: []string{makeQ}, action: "SendMessageBatch", in: `{"QueueUrl":"q","Entries":[{"Id":"` + a(78) + `_-","MessageBody":"x"}]}`},
	}
	return append(cases, edges([]edge{
		{
			name: "characters", given: []string{makeQ}, action: "SendMessage", in: send("$"), taken: []string{`\u0009\u000a\u000d\u0020\ud7ff`, `\ue000\ufffd`, `\ud800\udc00\udbff\udfff`},
			refused: []string{`\u0000`, `\u0008`, `\u000b`, `\u001f`, `\ufffe`, `\uffff`}, code: "InvalidMessageContents", text: textCharacters,
		},
		{
			name: "DelaySeconds of a message", given: []string{makeQ}, action: "SendMessage", in: `{"QueueUrl":"q","MessageBody":"x","DelaySeconds":$}`, taken: []string{"0", "900"}, refused: []string{"-1", "901"}, code: codeParameter,
			text: "Value $ for parameter DelaySeconds is invalid. Reason: DelaySeconds must be >= 0 and <= 900.",
		},
	})...)
}

// attributeLimitCases has the limits of message attributes.
func attributeLimitCases() []rawCase {
	send := func(attributes string) string {
		return `{"QueueUrl":"q","MessageBody":"x","MessageAttributes":{` + attributes + `}}`
	}
	a := func(n int) string { return strings.Repeat("a", n) }
	many := func(n int) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf(`"a%d":{"DataType":"String","StringValue":"v"}`, i))
		}
		return send(strings.Join(list, ","))
	}
	named := send(`"$":{"DataType":"String","StringValue":"v"}`)
	const reserved = "You can't use message attribute names beginning with 'AWS.' or 'Amazon.'. These strings are reserved for internal use. Additionally, they cannot start or end with '.'."
	cases := edges([]edge{
		{name: "attribute name", given: []string{makeQ}, action: "SendMessage", in: named, taken: []string{"a", a(256), "A.b-c_9"}, refused: []string{a(257)}, code: codeParameter, text: "Message (user) attribute names must be shorter than 256 Bytes"},
		{name: "reserved attribute name", given: []string{makeQ}, action: "SendMessage", in: named, taken: []string{"awsome", "amazonas"}, refused: []string{"AWS.x", "aws.x", "Amazon.x", "AMAZON.x"}, code: codeParameter, text: reserved},
		{
			name: "dots of an attribute name", given: []string{makeQ}, action: "SendMessage", in: named, taken: []string{"a.b.c"}, refused: []string{".a", "a.", "a..b"}, code: codeParameter,
			text: "Message (user) attributes name can not start or end with a period, and can not have periods in succession.",
		},
		{
			name: "signs of an attribute name", given: []string{makeQ}, action: "SendMessage", in: named, refused: []string{"a b", "é", "a/b"}, code: codeParameter,
			text: "Message (user) attributes name can only contain upper and lower score characters, digits, periods, hyphens and underscores. ",
		},
		{
			name: "attribute type", given: []string{makeQ}, action: "SendMessage", in: send(`"a":{"DataType":"$","StringValue":"1"}`), taken: []string{"String", "Number", "String.x", "Number.int", "String." + a(249)}, refused: []string{"string", "Strings", "x"},
			code: codeParameter, text: "The message attribute 'a' has an invalid message attribute type, the set of supported type prefixes is Binary, Number, and String.",
		},
		{name: "length of an attribute type", given: []string{makeQ}, action: "SendMessage", in: send(`"a":{"DataType":"$","StringValue":"1"}`), refused: []string{"String." + a(250)}, code: codeParameter, text: "Message (user) attribute types must be shorter than 256 Bytes"},
		{
			name: "number", given: []string{makeQ}, action: "SendMessage", in: send(`"a":{"DataType":"Number","StringValue":"$"}`),
			taken:   []string{"0", "-1.5", strings.Repeat("9", 38), "1e126", "-1e126", "1e-128"},
			refused: []string{"twelve", "1e127", "1e-129", strings.Repeat("9", 39), "1e999999999999"}, code: codeParameter, text: "Can't cast the value of message (user) attribute 'a' to a number.",
		},
	})
	return append(
		cases,
		rawCase{name: "limit/attributes/10", given: []string{makeQ}, action: "SendMessage", in: many(10)},
		rawCase{name: "limit/attributes/11", given: []string{makeQ}, action: "SendMessage", in: many(11), code: codeParameter, text: "Number of message attributes [11] exceeds the allowed maximum [10]."},
		rawCase{name: "limit/attribute type/Binary.x", given: []string{makeQ}, action: "SendMessage", in: send(`"a":{"DataType":"Binary.x","BinaryValue":"AAE="}`)},
	)
}

// idLimitCases has the limits of groups, deduplication and attempt ids.
func idLimitCases() []rawCase {
	of := func(parameter, action, in string, given ...string) edge {
		const punctuation = `!#%&'()*+,-./:;<=>?@[]^_{|}~`
		return edge{
			name: parameter, given: given, action: action, in: in, taken: []string{"a", strings.Repeat("a", 128), punctuation}, refused: []string{strings.Repeat("a", 129), "a b", "é", ""}, code: codeParameter,
			text: "Value $ for parameter " + parameter + " is invalid. Reason: " + parameter + " can only include alphanumeric and punctuation characters. 1 to 128 in length.",
		}
	}
	standard := of("MessageGroupId", "SendMessage", `{"QueueUrl":"q","MessageBody":"x","MessageGroupId":"$"}`, makeQ)
	standard.name += " on standard"
	return edges([]edge{
		standard,
		of("MessageGroupId", "SendMessage", `{"QueueUrl":"q.fifo","MessageBody":"x","MessageGroupId":"$","MessageDeduplicationId":"d"}`, makeFIFO),
		of("MessageDeduplicationId", "SendMessage", `{"QueueUrl":"q.fifo","MessageBody":"x","MessageGroupId":"g","MessageDeduplicationId":"$"}`, makeFIFO),
		of("ReceiveRequestAttemptId", "ReceiveMessage", `{"QueueUrl":"q.fifo","ReceiveRequestAttemptId":"$"}`, makeFIFO),
	})
}

// waitLimitCases has the limits of receives and of visibility.
func waitLimitCases() []rawCase {
	received := []string{makeQ, sendX, receiveX}
	const visibility = "Value $ for parameter VisibilityTimeout is invalid. Reason: Must be between 0 and 43200, if provided."
	cases := edges([]edge{
		{
			name: "MaxNumberOfMessages", given: []string{makeQ}, action: "ReceiveMessage", in: `{"QueueUrl":"q","MaxNumberOfMessages":$}`, taken: []string{"1", "10"}, refused: []string{"0", "11"}, code: codeParameter,
			text: "Value $ for parameter MaxNumberOfMessages is invalid. Reason: Must be between 1 and 10, if provided.",
		},
		{
			name: "WaitTimeSeconds", given: []string{makeQ}, action: "ReceiveMessage", in: `{"QueueUrl":"q","WaitTimeSeconds":$}`, taken: []string{"0", "20"}, refused: []string{"-1", "21"}, code: codeParameter,
			text: "Value $ for parameter WaitTimeSeconds is invalid. Reason: Must be >= 0 and <= 20, if provided.",
		},
		{name: "VisibilityTimeout of a receive", given: []string{makeQ}, action: "ReceiveMessage", in: `{"QueueUrl":"q","VisibilityTimeout":$}`, taken: []string{"0", "43200"}, refused: []string{"-1", "43201", "9223372036854775807", "99999999999999999999"}, code: codeParameter, text: visibility},
		{name: "VisibilityTimeout of a change", given: received, action: "ChangeMessageVisibility", in: `{"QueueUrl":"q","ReceiptHandle":"[handle 1]","VisibilityTimeout":$}`, taken: []string{"0", "43200"}, refused: []string{"-1", "43201"}, code: codeParameter, text: visibility},
	})
	long := []string{makeQ, sendX, `ReceiveMessage {"QueueUrl":"q","VisibilityTimeout":7200} => [handle 1]`, "advance 1h"}
	return append(
		cases,
		rawCase{name: "limit/12 hours in all/11 more", given: long, action: "ChangeMessageVisibility", in: `{"QueueUrl":"q","ReceiptHandle":"[handle 1]","VisibilityTimeout":39600}`, void: true},
		rawCase{
			name: "limit/12 hours in all/12 more", given: long, action: "ChangeMessageVisibility", in: `{"QueueUrl":"q","ReceiptHandle":"[handle 1]","VisibilityTimeout":43200}`,
			code: codeParameter, text: "Value 43200 for parameter VisibilityTimeout is invalid. Reason: Total VisibilityTimeout for the message is beyond the limit [43200 seconds].",
		},
		rawCase{
			name: "limit/receipt handle/1025", given: []string{makeQ}, action: "DeleteMessage", in: `{"QueueUrl":"q","ReceiptHandle":"` + strings.Repeat("a", 1025) + `"}`, code: "ReceiptHandleIsInvalid",
			text: `The input receipt handle "` + strings.Repeat("a", 1025) + `" is not a valid receipt handle.`,
		},
	)
}
