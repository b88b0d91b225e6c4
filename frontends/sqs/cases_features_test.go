package sqs

import (
	"fmt"
	"slices"
	"strings"
)

// settingCases has each attribute of a queue: read as it was set, and as it is if
// it was not.
func settingCases() []rawCase {
	const get = `{"QueueUrl":"%s","AttributeNames":["%s"]}`
	read := func(queue, name, value string, given ...string) rawCase {
		return rawCase{
			name: "setting/" + name, given: given, action: "GetQueueAttributes", in: fmt.Sprintf(get, queue, name),
			json: fmt.Sprintf(`{"Attributes":{"%s":"%s"}}`, name, strings.ReplaceAll(value, `"`, `\"`)),
			xml:  fmt.Sprintf("<Attribute><Name>%s</Name><Value>%s</Value></Attribute>", name, strings.ReplaceAll(value, `"`, "&quot;")),
		}
	}
	set := func(name, value string) []string {
		return []string{makeDLQ, makeQ, fmt.Sprintf(`SetQueueAttributes {"QueueUrl":"q","Attributes":{"%s":"%s"}}`, name, strings.ReplaceAll(value, `"`, `\"`))}
	}
	kept := func(name, value string) rawCase { return read("q", name, value, set(name, value)...) }
	fifo := func(name, value string) rawCase {
		return read("q.fifo", name, value, `CreateQueue {"QueueName":"q.fifo","Attributes":{"FifoQueue":"true","`+name+`":"`+value+`"}}`)
	}
	throughput := read("q.fifo", "FifoThroughputLimit", "perMessageGroupId", `CreateQueue {"QueueName":"q.fifo","Attributes":{"FifoQueue":"true","DeduplicationScope":"messageGroup","FifoThroughputLimit":"perMessageGroupId"}}`)
	redrive := kept("RedrivePolicy", `{"deadLetterTargetArn":"`+arnDLQ+`","maxReceiveCount":3}`)
	redrive.given[2] = strings.Replace(redrive.given[2], ":3}", `:\"3\" }`, 1) // sent as a string
	reuse := kept("KmsDataKeyReusePeriodSeconds", "600")
	created := read("q", "CreatedTimestamp", "946684800", makeQ, "advance 10s", `SetQueueAttributes {"QueueUrl":"q","Attributes":{"DelaySeconds":"1"}}`)
	modified := read("q", "LastModifiedTimestamp", "946684810", created.given...)
	fair := []string{makeQ, `SendMessageBatch {"QueueUrl":"q","Entries":[{"Id":"1","MessageBody":"x"},{"Id":"2","MessageBody":"x"},{"Id":"3","MessageBody":"x"},{"Id":"4","MessageBody":"x","DelaySeconds":9}]}`, receiveX}
	all := `"VisibilityTimeout":"30","MaximumMessageSize":"1048576","MessageRetentionPeriod":"345600","ApproximateNumberOfMessages":"0","ApproximateNumberOfMessagesNotVisible":"0","CreatedTimestamp":"946684800",` +
		`"LastModifiedTimestamp":"946684800","QueueArn":"arn:aws:sqs:us-east-1:000000000000:%s","ApproximateNumberOfMessagesDelayed":"0","DelaySeconds":"0","ReceiveMessageWaitTimeSeconds":"0",`
	return []rawCase{
		kept("DelaySeconds", "5"), kept("MaximumMessageSize", "2048"), kept("MessageRetentionPeriod", "61"), kept("ReceiveMessageWaitTimeSeconds", "2"), kept("VisibilityTimeout", "11"),
		kept("Policy", `{"Version":"2012-10-17","Statement":[]}`), redrive, kept("RedriveAllowPolicy", `{"redrivePermission":"denyAll"}`),
		kept("KmsMasterKeyId", "alias/aws/sqs"), reuse, kept("SqsManagedSseEnabled", "false"), kept("PublishTopic", "devices/{d}/cmd"),
		fifo("ContentBasedDeduplication", "true"), fifo("DeduplicationScope", "messageGroup"), throughput, read("q.fifo", "FifoQueue", "true", makeFIFO),
		read("q", "QueueArn", "arn:aws:sqs:us-east-1:000000000000:q", makeQ), created, modified,
		read("q", "ApproximateNumberOfMessages", "2", fair...), read("q", "ApproximateNumberOfMessagesNotVisible", "1", fair...), read("q", "ApproximateNumberOfMessagesDelayed", "1", fair...),
		{name: "setting/All", given: []string{makeQ}, action: "GetQueueAttributes", in: fmt.Sprintf(get, "q", "All"), only: awsJSON, json: `{"Attributes":{` + fmt.Sprintf(all, "q") + `"SqsManagedSseEnabled":"true"}}`},
		{
			name: "setting/All of FIFO", given: []string{makeFIFO}, action: "GetQueueAttributes", in: fmt.Sprintf(get, "q.fifo", "All"), only: awsJSON,
			json: `{"Attributes":{` + fmt.Sprintf(all, "q.fifo") + `"FifoQueue":"true","ContentBasedDeduplication":"false","DeduplicationScope":"queue","FifoThroughputLimit":"perQueue","SqsManagedSseEnabled":"true"}}`,
		},
		{name: "setting/unset", given: []string{makeQ}, action: "GetQueueAttributes", in: `{"QueueUrl":"q","AttributeNames":["Policy","RedrivePolicy","RedriveAllowPolicy","KmsMasterKeyId"]}`, json: "{}"},
		{
			name: "setting/removed", given: set("Policy", "{}"), action: "SetQueueAttributes", in: `{"QueueUrl":"q","Attributes":{"Policy":"","RedrivePolicy":"","RedriveAllowPolicy":"","KmsMasterKeyId":""}}`, void: true,
			then: []string{`GetQueueAttributes {"QueueUrl":"q","AttributeNames":["Policy"]} => {}`},
		},
		{name: "setting/KMS key reads managed as false", given: set("KmsMasterKeyId", "k"), action: "GetQueueAttributes", in: fmt.Sprintf(get, "q", "SqsManagedSseEnabled"), json: `{"Attributes":{"SqsManagedSseEnabled":"false"}}`, only: awsJSON},
	}
}

// featureCases has what messages and queues do beyond one action.
func featureCases() []rawCase {
	denied := `SetQueueAttributes {"QueueUrl":"q","Attributes":{"Policy":"{\"Version\":\"2012-10-17\",\"Statement\":[{\"Effect\":\"Deny\",\"Principal\":\"*\",\"Action\":\"*\",\"Resource\":\"*\"}]}"}}`
	attributes := `SendMessage {"QueueUrl":"q","MessageBody":"x","MessageAttributes":{"col":{"DataType":"String","StringValue":"1"},"color":{"DataType":"String","StringValue":"2"},"b":{"DataType":"Binary.png","BinaryValue":"AAE="},"n":{"DataType":"Number.int","StringValue":"3"}}}`
	take := func(names string) string { return `{"QueueUrl":"q","MessageAttributeNames":["` + names + `"]}` }
	once := func(group, id string) string {
		return `SendMessage {"QueueUrl":"q.fifo","MessageBody":"x","MessageGroupId":"` + group + `","MessageDeduplicationId":"` + id + `"} => [id 1]`
	}
	expired := []string{makeQ, sendX, receiveX, "advance 31s"}
	return []rawCase{
		{name: "feature/policy is not enforced", given: []string{makeQ, denied}, action: "SendMessage", in: `{"QueueUrl":"q","MessageBody":"x"}`},
		{name: "feature/encryption is echoed", given: []string{makeQ, `SetQueueAttributes {"QueueUrl":"q","Attributes":{"KmsMasterKeyId":"no-such-key"}}`}, action: "SendMessage", in: `{"QueueUrl":"q","MessageBody":"x"}`, then: []string{receiveX}},
		{
			name: "feature/names: a prefix is plain text", given: []string{makeQ, attributes}, action: "ReceiveMessage", in: take("col.*"), only: awsJSON,
			json: `{"Messages":[{"MessageId":"[id 1]","ReceiptHandle":"[handle 1]","MD5OfBody":"` + md5X + `","Body":"x","MD5OfMessageAttributes":"d02889e25aba5b5214b1888540814294","MessageAttributes":{"col":{"StringValue":"1","DataType":"String"},"color":{"StringValue":"2","DataType":"String"}}}]}`,
		},
		{name: "feature/types with labels", given: []string{makeQ}, action: "SendMessage", in: strings.SplitN(attributes, " ", 2)[1]},
		{name: "feature/unknown system names are ignored", given: []string{makeQ, sendX}, action: "ReceiveMessage", in: `{"QueueUrl":"q","MessageSystemAttributeNames":["Nope"]}`},
		{
			name: "feature/trace header", given: []string{makeQ, `SendMessage {"QueueUrl":"q","MessageBody":"x","MessageSystemAttributes":{"AWSTraceHeader":{"DataType":"String","StringValue":"Root=1"}}}`}, action: "ReceiveMessage", in: `{"QueueUrl":"q","AttributeNames":["AWSTraceHeader"]}`, only: awsJSON,
			json: `{"Messages":[{"MessageId":"[id 1]","ReceiptHandle":"[handle 1]","MD5OfBody":"` + md5X + `","Body":"x","Attributes":{"AWSTraceHeader":"Root=1"}}]}`,
		},
		{name: "feature/delay of the queue", given: []string{`CreateQueue {"QueueName":"q","Attributes":{"DelaySeconds":"5"}}`, sendX, "advance 4s"}, action: "ReceiveMessage", in: `{"QueueUrl":"q"}`, json: "{}", then: []string{"advance 2s", receiveX}},
		{name: "feature/delay of a message", given: []string{makeQ}, action: "SendMessage", in: `{"QueueUrl":"q","MessageBody":"x","DelaySeconds":5}`, then: []string{"advance 4s", `ReceiveMessage {"QueueUrl":"q"} => {}`, "advance 2s", receiveX}},
		{name: "feature/retention", given: []string{`CreateQueue {"QueueName":"q","Attributes":{"MessageRetentionPeriod":"60"}}`, sendX, "advance 61s"}, action: "ReceiveMessage", in: `{"QueueUrl":"q"}`, json: "{}"},
		{name: "feature/delete after expiry", given: expired, action: "DeleteMessage", in: `{"QueueUrl":"q","ReceiptHandle":"[handle 1]"}`, void: true, then: []string{`ReceiveMessage {"QueueUrl":"q"} => {}`}},
		{
			name: "feature/delete by an older handle", given: append(expired, `ReceiveMessage {"QueueUrl":"q"} => [handle 2]`), action: "DeleteMessage", in: `{"QueueUrl":"q","ReceiptHandle":"[handle 1]"}`, void: true,
			then: []string{"advance 31s", `ReceiveMessage {"QueueUrl":"q"} => "Body":"x"`},
		},
		{name: "feature/delete again", given: []string{makeQ, sendX, receiveX, `DeleteMessage {"QueueUrl":"q","ReceiptHandle":"[handle 1]"}`}, action: "DeleteMessage", in: `{"QueueUrl":"q","ReceiptHandle":"[handle 1]"}`, void: true},
		{
			name: "feature/change after expiry hides again", given: expired, action: "ChangeMessageVisibility", in: `{"QueueUrl":"q","ReceiptHandle":"[handle 1]","VisibilityTimeout":10}`, void: true,
			then: []string{`ReceiveMessage {"QueueUrl":"q"} => {}`, "advance 11s", `ReceiveMessage {"QueueUrl":"q"} => "Body":"x"`},
		},
		{
			name: "feature/handle of an earlier queue", options: Options{RelaxedLimits: true}, given: []string{makeQ, sendX, receiveX, `DeleteQueue {"QueueUrl":"q"}`, makeQ, sendX}, action: "DeleteMessage", in: `{"QueueUrl":"q","ReceiptHandle":"[handle 1]"}`,
			code: "ReceiptHandleIsInvalid", text: `The input receipt handle "[handle 1]" is not a valid receipt handle.`, then: []string{`ReceiveMessage {"QueueUrl":"q"} => "Body":"x"`},
		},
		{
			name: "feature/purge takes all", given: []string{makeQ, sendTwo, `SendMessage {"QueueUrl":"q","MessageBody":"late","DelaySeconds":5}`, receiveX}, action: "PurgeQueue", in: `{"QueueUrl":"q"}`, void: true,
			then: []string{"advance 40s", `ReceiveMessage {"QueueUrl":"q"} => {}`},
		},
		{
			name: "feature/deduplication for 5 min", given: []string{makeFIFO, once("g", "d"), `ReceiveMessage {"QueueUrl":"q.fifo"} => [handle 1]`, `DeleteMessage {"QueueUrl":"q.fifo","ReceiptHandle":"[handle 1]"}`, "advance 299s"},
			action: "SendMessage", in: `{"QueueUrl":"q.fifo","MessageBody":"other","MessageGroupId":"g","MessageDeduplicationId":"d"}`,
			then: []string{`ReceiveMessage {"QueueUrl":"q.fifo"} => {}`, "advance 2s", `SendMessage {"QueueUrl":"q.fifo","MessageBody":"x","MessageGroupId":"g","MessageDeduplicationId":"d"} =/> [id 1]`},
		},
		{
			name: "feature/deduplication in the whole queue", given: []string{makeFIFO, once("g", "d"), once("h", "d")}, action: "ReceiveMessage", in: `{"QueueUrl":"q.fifo","MaxNumberOfMessages":10}`, only: awsJSON,
			json: `{"Messages":[{"MessageId":"[id 1]","ReceiptHandle":"[handle 1]","MD5OfBody":"` + md5X + `","Body":"x"}]}`,
		},
		{name: "feature/DelaySeconds 0 on FIFO", given: []string{makeFIFO}, action: "SendMessage", in: `{"QueueUrl":"q.fifo","MessageBody":"x","MessageGroupId":"g","MessageDeduplicationId":"d","DelaySeconds":0}`},
		{name: "feature/group on standard", given: []string{makeQ}, action: "SendMessage", in: `{"QueueUrl":"q","MessageBody":"x","MessageGroupId":"t"}`, then: []string{`ReceiveMessage {"QueueUrl":"q","AttributeNames":["All"]} => "MessageGroupId":"t"`}},
		{
			name: "feature/dead letter keeps id and count", given: deadLettered("x"), action: "ReceiveMessage", in: `{"QueueUrl":"dlq","AttributeNames":["ApproximateReceiveCount","DeadLetterQueueSourceArn","SentTimestamp"]}`, only: awsJSON,
			json: `{"Messages":[{"MessageId":"[id 1]","ReceiptHandle":"[handle 2]","MD5OfBody":"` + md5X + `","Body":"x","Attributes":{"SentTimestamp":"946684800000","ApproximateReceiveCount":"2","DeadLetterQueueSourceArn":"arn:aws:sqs:us-east-1:000000000000:q"}}]}`,
		},
		{name: "feature/dead letter keeps its retention", given: append([]string{`CreateQueue {"QueueName":"dlq","Attributes":{"MessageRetentionPeriod":"60"}}`}, append(deadLettered("x")[1:], "advance 58s")...), action: "ReceiveMessage", in: `{"QueueUrl":"dlq"}`, json: "{}"},
		{name: "feature/own dead-letter queue", given: []string{makeQ}, action: "SetQueueAttributes", in: `{"QueueUrl":"q","Attributes":{"RedrivePolicy":"{\"deadLetterTargetArn\":\"arn:aws:sqs:us-east-1:000000000000:q\",\"maxReceiveCount\":1}"}}`, void: true},
		{
			name: "feature/RedriveAllowPolicy is enforced", given: []string{`CreateQueue {"QueueName":"dlq","Attributes":{"RedriveAllowPolicy":"{\"redrivePermission\":\"denyAll\"}"}}`}, action: "CreateQueue", in: strings.SplitN(makeDQ, " ", 2)[1],
			code: codeParameter, text: `Value {"deadLetterTargetArn":"` + arnDLQ + `","maxReceiveCount":1} for parameter RedrivePolicy is invalid. Reason: Queue q does not have permission to use the target as its dead-letter queue.`,
		},
		{
			name: "feature/dead-letter queue of another account", given: []string{makeQ}, action: "SetQueueAttributes", in: `{"QueueUrl":"q","Attributes":{"RedrivePolicy":"{\"deadLetterTargetArn\":\"arn:aws:sqs:us-east-1:111122223333:q\",\"maxReceiveCount\":1}"}}`,
			code: codeParameter, text: `Value {"deadLetterTargetArn":"arn:aws:sqs:us-east-1:111122223333:q","maxReceiveCount":1} for parameter RedrivePolicy is invalid. Reason: Dead letter target does not exist.`,
		},
		{
			name: "feature/dead-letter queue of another region", given: []string{makeQ}, action: "SetQueueAttributes", in: `{"QueueUrl":"q","Attributes":{"RedrivePolicy":"{\"deadLetterTargetArn\":\"arn:aws:sqs:eu-west-1:000000000000:q\",\"maxReceiveCount\":1}"}}`,
			code: codeParameter, text: `Value {"deadLetterTargetArn":"arn:aws:sqs:eu-west-1:000000000000:q","maxReceiveCount":1} for parameter RedrivePolicy is invalid. Reason: Dead letter target does not exist.`,
		},
		{name: "feature/unnumbered AttributeName", only: query, given: []string{makeQ}, action: "GetQueueAttributes", form: "Action=GetQueueAttributes&QueueUrl=q&AttributeName=DelaySeconds", xml: "<Attribute><Name>DelaySeconds</Name><Value>0</Value></Attribute>"},
		{name: "feature/DefaultVisibilityTimeout", only: query, action: "CreateQueue", form: "Action=CreateQueue&QueueName=q&DefaultVisibilityTimeout=1800", xml: "<QueueUrl>" + urlQ + "</QueueUrl>", then: []string{`GetQueueAttributes {"QueueUrl":"q","AttributeNames":["VisibilityTimeout"]} => 1800`}},
		{name: "feature/created on first use", options: Options{AutoCreate: true}, action: "SendMessage", in: `{"QueueUrl":"q","MessageBody":"x"}`},
		{
			name: "feature/purge clears deduplication", given: []string{makeFIFO, once("g", "d")}, action: "PurgeQueue", in: `{"QueueUrl":"q.fifo"}`, void: true,
			then: []string{`SendMessage {"QueueUrl":"q.fifo","MessageBody":"x","MessageGroupId":"g","MessageDeduplicationId":"d"} =/> [id 1]`},
		},
	}
}

// orderCases has what order, groups and delays do on FIFO queues.
func orderCases() []rawCase {
	one := func(group, body string) string {
		return `SendMessage {"QueueUrl":"q.fifo","MessageBody":"` + body + `","MessageGroupId":"` + group + `","MessageDeduplicationId":"` + body + `"}`
	}
	five := []string{makeFIFO, one("g1", "a"), one("g1", "b"), one("g2", "c"), one("g2", "d"), one("g3", "e")}
	shown := func(bodies string) string { // of a receive with VisibilityTimeout 0
		digests := map[rune]string{'a': "0cc175b9c0f1b6a831c399e269772661", 'b': "92eb5ffee6ae2fec3ad71c777531578f", 'c': "4a8a08f09d37b73795649038408b5f33"}
		var list []string
		for i, b := range bodies {
			list = append(list, fmt.Sprintf(`{"MessageId":"[id %d]","ReceiptHandle":"[handle %d]","MD5OfBody":"%s","Body":"%c"}`, i+1, i+1, digests[b], b))
		}
		return `{"Messages":[` + strings.Join(list, ",") + `]}`
	}
	both := []string{makeFIFO, one("g", "a"), one("g", "b"), `ReceiveMessage {"QueueUrl":"q.fifo","MaxNumberOfMessages":10} => [handle 2]`}
	expired := slices.Clip([]string{makeFIFO, one("g", "a"), `ReceiveMessage {"QueueUrl":"q.fifo"} => [handle 1]`})
	deadFIFO := []string{
		`CreateQueue {"QueueName":"d.fifo","Attributes":{"FifoQueue":"true","MessageRetentionPeriod":"60"}}`,
		`CreateQueue {"QueueName":"q.fifo","Attributes":{"FifoQueue":"true","RedrivePolicy":"{\"deadLetterTargetArn\":\"arn:aws:sqs:us-east-1:000000000000:d.fifo\",\"maxReceiveCount\":1}"}}`,
		one("g", "a"), `ReceiveMessage {"QueueUrl":"q.fifo"}`, "advance 31s", `ReceiveMessage {"QueueUrl":"q.fifo"} => {}`, "advance 50s",
	}
	return []rawCase{
		{
			name: "feature/groups take turns", given: five, action: "ReceiveMessage", in: `{"QueueUrl":"q.fifo","MaxNumberOfMessages":3,"VisibilityTimeout":0}`, only: awsJSON, json: shown("abc"),
			then: []string{
				`ReceiveMessage {"QueueUrl":"q.fifo","VisibilityTimeout":0} => "Body":"e"`, `ReceiveMessage {"QueueUrl":"q.fifo","VisibilityTimeout":0} => "Body":"a"`, `ReceiveMessage {"QueueUrl":"q.fifo","VisibilityTimeout":0} => "Body":"c"`,
			},
		},
		{
			name: "feature/first message of a group comes again alone", given: both, action: "ChangeMessageVisibility", in: `{"QueueUrl":"q.fifo","ReceiptHandle":"[handle 1]","VisibilityTimeout":0}`, void: true,
			then: []string{`ReceiveMessage {"QueueUrl":"q.fifo","MaxNumberOfMessages":10} => "Body":"a"}]}`},
		},
		{
			name: "feature/changed DelaySeconds counts at once on FIFO", given: []string{`CreateQueue {"QueueName":"q.fifo","Attributes":{"FifoQueue":"true","DelaySeconds":"100"}}`, one("g", "a"), `ReceiveMessage {"QueueUrl":"q.fifo"} => {}`},
			action: "SetQueueAttributes", in: `{"QueueUrl":"q.fifo","Attributes":{"DelaySeconds":"0"}}`, void: true, then: []string{`ReceiveMessage {"QueueUrl":"q.fifo"} => "Body":"a"`},
		},
		{
			name: "feature/changed DelaySeconds leaves sent messages on standard", given: []string{`CreateQueue {"QueueName":"q","Attributes":{"DelaySeconds":"100"}}`, sendX},
			action: "SetQueueAttributes", in: `{"QueueUrl":"q","Attributes":{"DelaySeconds":"0"}}`, void: true, then: []string{"advance 1s", `ReceiveMessage {"QueueUrl":"q"} => {}`, "advance 100s", `ReceiveMessage {"QueueUrl":"q"} => "Body":"x"`},
		},
		{
			name: "feature/changed visibility holds for one receive", given: []string{makeQ, sendX, receiveX}, action: "ChangeMessageVisibility", in: `{"QueueUrl":"q","ReceiptHandle":"[handle 1]","VisibilityTimeout":100}`, void: true,
			then: []string{"advance 99s", `ReceiveMessage {"QueueUrl":"q"} => {}`, "advance 2s", `ReceiveMessage {"QueueUrl":"q"} => [handle 2]`, "advance 31s", `ReceiveMessage {"QueueUrl":"q"} => [handle 3]`},
		},
		{
			name: "feature/dead letter on FIFO", given: deadFIFO, action: "ReceiveMessage", in: `{"QueueUrl":"d.fifo","AttributeNames":["MessageGroupId","MessageDeduplicationId","ApproximateReceiveCount"]}`, only: awsJSON,
			json: `{"Messages":[{"MessageId":"[id 1]","ReceiptHandle":"[handle 2]","MD5OfBody":"0cc175b9c0f1b6a831c399e269772661","Body":"a","Attributes":{"ApproximateReceiveCount":"2","MessageDeduplicationId":"[id 1]","MessageGroupId":"g"}}]}`,
		},
		{
			name: "feature/change after expiry on FIFO", given: append(expired, "advance 31s"), action: "ChangeMessageVisibility", in: `{"QueueUrl":"q.fifo","ReceiptHandle":"[handle 1]","VisibilityTimeout":5}`,
			code: codeParameter, text: "Value [handle 1] for parameter ReceiptHandle is invalid. Reason: The receipt handle has expired.",
		},
		{
			name: "feature/delete by an older handle on FIFO", given: append(expired, "advance 31s", `ReceiveMessage {"QueueUrl":"q.fifo"} => [handle 2]`), action: "DeleteMessage", in: `{"QueueUrl":"q.fifo","ReceiptHandle":"[handle 1]"}`,
			code: codeParameter, text: "Value [handle 1] for parameter ReceiptHandle is invalid. Reason: The receipt handle has expired.",
		},
		{
			name: "feature/delete again on FIFO", given: append(expired, `DeleteMessage {"QueueUrl":"q.fifo","ReceiptHandle":"[handle 1]"}`), action: "DeleteMessage", in: `{"QueueUrl":"q.fifo","ReceiptHandle":"[handle 1]"}`, void: true,
		},
		{
			name: "feature/explicit deduplication id beats content", given: []string{`CreateQueue {"QueueName":"q.fifo","Attributes":{"FifoQueue":"true","ContentBasedDeduplication":"true"}}`, `SendMessage {"QueueUrl":"q.fifo","MessageBody":"a","MessageGroupId":"g"} => [id 1]`},
			action: "SendMessage", in: `{"QueueUrl":"q.fifo","MessageBody":"a","MessageGroupId":"g","MessageDeduplicationId":"other"}`,
			json: `{"MD5OfMessageBody":"0cc175b9c0f1b6a831c399e269772661","MessageId":"[id 2]","SequenceNumber":"[sequence]"}`,
			xml:  "<MD5OfMessageBody>0cc175b9c0f1b6a831c399e269772661</MD5OfMessageBody><MessageId>[id 2]</MessageId><SequenceNumber>[sequence]</SequenceNumber>",
		},
	}
}

// movesActive are steps that leave n move tasks active.
func movesActive(n int) []string {
	steps := []string{makeQ}
	for i := range n {
		steps = append(steps, fmt.Sprintf(`CreateQueue {"QueueName":"d%d"}`, i),
			fmt.Sprintf(`CreateQueue {"QueueName":"s%d","Attributes":{"RedrivePolicy":"{\"deadLetterTargetArn\":\"arn:aws:sqs:us-east-1:000000000000:d%d\",\"maxReceiveCount\":1}"}}`, i, i),
			fmt.Sprintf(`SendMessageBatch {"QueueUrl":"d%d","Entries":[{"Id":"1","MessageBody":"x"},{"Id":"2","MessageBody":"x"}]}`, i))
		if i < n-1 {
			steps = append(steps, fmt.Sprintf(`StartMessageMoveTask {"SourceArn":"arn:aws:sqs:us-east-1:000000000000:d%d","DestinationArn":"arn:aws:sqs:us-east-1:000000000000:q","MaxNumberOfMessagesPerSecond":1}`, i))
		}
	}
	return steps
}

// activeMoveCases has how many move tasks may be active.
func activeMoveCases() []rawCase {
	const in = `{"SourceArn":"arn:aws:sqs:us-east-1:000000000000:d%d","DestinationArn":"arn:aws:sqs:us-east-1:000000000000:q"}`
	return []rawCase{
		{name: "limit/active moves/100", given: movesActive(100), action: "StartMessageMoveTask", in: fmt.Sprintf(in, 99)},
		{name: "limit/active moves/101", given: movesActive(101), action: "StartMessageMoveTask", in: fmt.Sprintf(in, 100), code: "OverLimit", text: "Too many message move tasks are active."},
	}
}

// wishCases has what users of other servers suffered from, where no other case
// or transcript shows it.
func wishCases() []rawCase {
	return []rawCase{
		{
			name: "wish/empty MessageAttributes leave no digest", given: []string{makeQ}, action: "SendMessage", in: `{"QueueUrl":"q","MessageBody":"x","MessageAttributes":{}}`,
			json: `{"MD5OfMessageBody":"` + md5X + `","MessageId":"[id 1]"}`, xml: "<MD5OfMessageBody>" + md5X + "</MD5OfMessageBody><MessageId>[id 1]</MessageId>",
			then: []string{`ReceiveMessage {"QueueUrl":"q","AttributeNames":["SequenceNumber"],"MessageAttributeNames":["All"]} => {"Messages":[{"MessageId":"[id 1]","ReceiptHandle":"[handle 1]","MD5OfBody":"` + md5X + `","Body":"x"}]}`},
		},
		{
			name: "wish/digest of a type with a label", given: []string{makeQ}, action: "SendMessage", in: `{"QueueUrl":"q","MessageBody":"x","MessageAttributes":{"a":{"DataType":"Number.x","StringValue":"1"}}}`,
			json: `{"MD5OfMessageBody":"` + md5X + `","MD5OfMessageAttributes":"dce4b6e41af571003b9337426c745ca5","MessageId":"[id 1]"}`, xml: "<MD5OfMessageBody>" + md5X + "</MD5OfMessageBody><MD5OfMessageAttributes>dce4b6e41af571003b9337426c745ca5</MD5OfMessageAttributes><MessageId>[id 1]</MessageId>",
		},
		{name: "wish/GetQueueUrl of a queue that is not there", action: "GetQueueUrl", in: `{"QueueName":"nope"}`, code: codeNoQueue, text: textNoQueue},
		{
			name: "wish/unreadable RedrivePolicy", given: []string{makeQ}, action: "SetQueueAttributes", in: `{"QueueUrl":"q","Attributes":{"RedrivePolicy":"{\"deadLetterTargetArn\":\"arn:aws:sqs:us-east-1:000000000000:nope\",\"maxReceiveCount\":3}"}}`,
			code: codeParameter, text: `Value {"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:nope","maxReceiveCount":3} for parameter RedrivePolicy is invalid. Reason: Dead letter target does not exist.`,
		},
		{
			name: "wish/expired message wakes a poll", given: []string{makeQ, sendX, receiveX}, action: "ReceiveMessage", in: `{"QueueUrl":"q","WaitTimeSeconds":20}`, json: "{}",
			then: []string{`ReceiveMessage {"QueueUrl":"q","WaitTimeSeconds":20} => "Body":"x"`},
		},
		{
			name: "wish/delayed message wakes a poll", given: []string{makeQ, `SendMessage {"QueueUrl":"q","MessageBody":"x","DelaySeconds":5}`}, action: "ReceiveMessage", in: `{"QueueUrl":"q","WaitTimeSeconds":4}`, json: "{}",
			then: []string{`ReceiveMessage {"QueueUrl":"q","WaitTimeSeconds":2} => "Body":"x"`},
		},
		{
			name: "wish/created again with equal attributes", given: []string{`CreateQueue {"QueueName":"q","Attributes":{"DelaySeconds":"3","KmsMasterKeyId":"k"}}`}, action: "CreateQueue", in: `{"QueueName":"q","Attributes":{"DelaySeconds":"3","VisibilityTimeout":"30","KmsMasterKeyId":"k"},"tags":{"other":"x"}}`,
			json: `{"QueueUrl":"` + urlQ + `"}`, xml: "<QueueUrl>" + urlQ + "</QueueUrl>",
		},
	}
}
