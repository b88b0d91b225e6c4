package sqs

// Steps that most cases begin with, and what they are about.
const (
	makeQ     = `CreateQueue {"QueueName":"q"}`
	makeFIFO  = `CreateQueue {"QueueName":"q.fifo","Attributes":{"FifoQueue":"true"}}`
	makeDLQ   = `CreateQueue {"QueueName":"dlq"}`
	makeDQ    = `CreateQueue {"QueueName":"q","Attributes":{"RedrivePolicy":"{\"deadLetterTargetArn\":\"arn:aws:sqs:us-east-1:000000000000:dlq\",\"maxReceiveCount\":1}"}}`
	sendX     = `SendMessage {"QueueUrl":"q","MessageBody":"x"}`
	sendTwo   = `SendMessageBatch {"QueueUrl":"q","Entries":[{"Id":"1","MessageBody":"x"},{"Id":"2","MessageBody":"y"}]}`
	receiveX  = `ReceiveMessage {"QueueUrl":"q"} => "ReceiptHandle":"[handle 1]"`
	receive10 = `ReceiveMessage {"QueueUrl":"q","MaxNumberOfMessages":10} => "ReceiptHandle":"[handle 2]"`
	urlQ      = "http://sqs.test:9324/000000000000/q"
	arnDLQ    = "arn:aws:sqs:us-east-1:000000000000:dlq"
	md5X      = "9dd4e461268c8034f5c8564e155c67a6"
	md5Y      = "415290769594460e2e485922904f345d"
)

// actionCases has a success of each action on queues.
func actionCases() []rawCase {
	return []rawCase{
		{
			name: "action/AddPermission", given: []string{makeQ}, action: "AddPermission", in: `{"QueueUrl":"q","Label":"l","AWSAccountIds":["111122223333"],"Actions":["SendMessage"]}`, void: true,
			then: []string{`GetQueueAttributes {"QueueUrl":"q","AttributeNames":["Policy"]} => \"Sid\":\"l\"`},
		},
		{
			name: "action/CreateQueue", action: "CreateQueue", in: `{"QueueName":"q","Attributes":{"DelaySeconds":"3"},"tags":{"k":"v"}}`,
			json: `{"QueueUrl":"` + urlQ + `"}`, xml: "<QueueUrl>" + urlQ + "</QueueUrl>",
			then: []string{`GetQueueAttributes {"QueueUrl":"q","AttributeNames":["DelaySeconds"]} => "3"`, `ListQueueTags {"QueueUrl":"q"} => "k":"v"`},
		},
		{name: "action/DeleteQueue", given: []string{makeQ}, action: "DeleteQueue", in: `{"QueueUrl":"q"}`, void: true, then: []string{"ListQueues {} => {}"}},
		{
			name: "action/GetQueueAttributes", given: []string{makeQ}, action: "GetQueueAttributes", in: `{"QueueUrl":"q","AttributeNames":["VisibilityTimeout","QueueArn"]}`,
			json: `{"Attributes":{"VisibilityTimeout":"30","QueueArn":"arn:aws:sqs:us-east-1:000000000000:q"}}`,
			xml:  "<Attribute><Name>VisibilityTimeout</Name><Value>30</Value></Attribute><Attribute><Name>QueueArn</Name><Value>arn:aws:sqs:us-east-1:000000000000:q</Value></Attribute>",
		},
		{name: "action/GetQueueAttributes without names", given: []string{makeQ}, action: "GetQueueAttributes", in: `{"QueueUrl":"q"}`, json: "{}"},
		{
			name: "action/GetQueueUrl", given: []string{makeQ}, action: "GetQueueUrl", in: `{"QueueName":"q","QueueOwnerAWSAccountId":"000000000000"}`,
			json: `{"QueueUrl":"` + urlQ + `"}`, xml: "<QueueUrl>" + urlQ + "</QueueUrl>",
		},
		{
			name: "action/ListDeadLetterSourceQueues", given: []string{makeDLQ, makeDQ}, action: "ListDeadLetterSourceQueues", in: `{"QueueUrl":"dlq"}`,
			json: `{"queueUrls":["` + urlQ + `"]}`, xml: "<QueueUrl>" + urlQ + "</QueueUrl>",
		},
		{
			name: "action/ListQueueTags", given: []string{`CreateQueue {"QueueName":"q","tags":{"k":"v"}}`}, action: "ListQueueTags", in: `{"QueueUrl":"q"}`,
			json: `{"Tags":{"k":"v"}}`, xml: "<Tag><Key>k</Key><Value>v</Value></Tag>",
		},
		{name: "action/ListQueueTags without tags", given: []string{makeQ}, action: "ListQueueTags", in: `{"QueueUrl":"q"}`, json: "{}"},
		{
			name: "action/ListQueues", given: []string{makeQ, makeDLQ}, action: "ListQueues", in: `{"QueueNamePrefix":"q"}`,
			json: `{"QueueUrls":["` + urlQ + `"]}`, xml: "<QueueUrl>" + urlQ + "</QueueUrl>",
		},
		{
			name: "action/ListQueues in pages", given: []string{makeQ, makeDLQ}, action: "ListQueues", in: `{"MaxResults":1}`,
			json: `{"NextToken":"ZGxx","QueueUrls":["http://sqs.test:9324/000000000000/dlq"]}`,
			xml:  "<NextToken>ZGxx</NextToken><QueueUrl>http://sqs.test:9324/000000000000/dlq</QueueUrl>",
			then: []string{`ListQueues {"MaxResults":1,"NextToken":"ZGxx"} => {"QueueUrls":["` + urlQ + `"]}`, "ListQueues {} =/> NextToken"},
		},
		{name: "action/PurgeQueue", given: []string{makeQ, sendX}, action: "PurgeQueue", in: `{"QueueUrl":"q"}`, void: true, then: []string{`ReceiveMessage {"QueueUrl":"q"} => {}`}},
		{
			name: "action/RemovePermission", given: []string{makeQ, `AddPermission {"QueueUrl":"q","Label":"l","AWSAccountIds":["111122223333"],"Actions":["*"]}`},
			action: "RemovePermission", in: `{"QueueUrl":"q","Label":"l"}`, void: true, then: []string{`GetQueueAttributes {"QueueUrl":"q","AttributeNames":["Policy"]} => {}`},
		},
		{
			name: "action/SetQueueAttributes", given: []string{makeQ}, action: "SetQueueAttributes", in: `{"QueueUrl":"q","Attributes":{"VisibilityTimeout":"7","DelaySeconds":"1"}}`, void: true,
			then: []string{`GetQueueAttributes {"QueueUrl":"q","AttributeNames":["VisibilityTimeout","DelaySeconds"]} => {"VisibilityTimeout":"7","DelaySeconds":"1"}`},
		},
		{name: "action/TagQueue", given: []string{makeQ}, action: "TagQueue", in: `{"QueueUrl":"q","Tags":{"a":"1","b":"2"}}`, void: true, then: []string{`ListQueueTags {"QueueUrl":"q"} => {"a":"1","b":"2"}`}},
		{
			name: "action/UntagQueue", given: []string{`CreateQueue {"QueueName":"q","tags":{"a":"1","b":"2"}}`}, action: "UntagQueue", in: `{"QueueUrl":"q","TagKeys":["a"]}`, void: true,
			then: []string{`ListQueueTags {"QueueUrl":"q"} => {"b":"2"}`},
		},
	}
}

// messageActionCases has a success of each action on messages.
func messageActionCases() []rawCase {
	return []rawCase{
		{
			name: "action/ChangeMessageVisibility", given: []string{makeQ, sendX, receiveX}, action: "ChangeMessageVisibility", in: `{"QueueUrl":"q","ReceiptHandle":"[handle 1]","VisibilityTimeout":0}`, void: true,
			then: []string{`ReceiveMessage {"QueueUrl":"q"} => "Body":"x"`},
		},
		{
			name: "action/ChangeMessageVisibilityBatch", given: []string{makeQ, sendTwo, receive10}, action: "ChangeMessageVisibilityBatch",
			in:   `{"QueueUrl":"q","Entries":[{"Id":"a","ReceiptHandle":"[handle 1]","VisibilityTimeout":0},{"Id":"b","ReceiptHandle":"garbage","VisibilityTimeout":0}]}`,
			json: `{"Successful":[{"Id":"a"}],"Failed":[{"Id":"b","SenderFault":true,"Code":"ReceiptHandleIsInvalid","Message":"The input receipt handle \"garbage\" is not a valid receipt handle."}]}`,
			xml: "<ChangeMessageVisibilityBatchResultEntry><Id>a</Id></ChangeMessageVisibilityBatchResultEntry><BatchResultErrorEntry><Id>b</Id><SenderFault>true</SenderFault>" +
				"<Code>ReceiptHandleIsInvalid</Code><Message>The input receipt handle &quot;garbage&quot; is not a valid receipt handle.</Message></BatchResultErrorEntry>",
			then: []string{`ReceiveMessage {"QueueUrl":"q"} => "Body":"x"`},
		},
		{
			name: "action/DeleteMessage", given: []string{makeQ, sendX, receiveX}, action: "DeleteMessage", in: `{"QueueUrl":"q","ReceiptHandle":"[handle 1]"}`, void: true,
			then: []string{"advance 31s", `ReceiveMessage {"QueueUrl":"q"} => {}`},
		},
		{
			name: "action/DeleteMessageBatch", given: []string{makeQ, sendTwo, receive10}, action: "DeleteMessageBatch",
			in:   `{"QueueUrl":"q","Entries":[{"Id":"a","ReceiptHandle":"[handle 1]"},{"Id":"b","ReceiptHandle":"[handle 2]"}]}`,
			json: `{"Successful":[{"Id":"a"},{"Id":"b"}]}`,
			xml:  "<DeleteMessageBatchResultEntry><Id>a</Id></DeleteMessageBatchResultEntry><DeleteMessageBatchResultEntry><Id>b</Id></DeleteMessageBatchResultEntry>",
			then: []string{"advance 31s", `ReceiveMessage {"QueueUrl":"q"} => {}`},
		},
		{
			name: "action/ReceiveMessage", action: "ReceiveMessage",
			given: []string{makeQ, `SendMessage {"QueueUrl":"q","MessageBody":"x","MessageAttributes":{"a":{"DataType":"String","StringValue":"v"}}}`},
			in:    `{"QueueUrl":"q","MaxNumberOfMessages":10,"VisibilityTimeout":5,"WaitTimeSeconds":1,"AttributeNames":["SenderId"],"MessageSystemAttributeNames":["ApproximateReceiveCount"],"MessageAttributeNames":["All"]}`,
			json: `{"Messages":[{"MessageId":"[id 1]","ReceiptHandle":"[handle 1]","MD5OfBody":"` + md5X + `","Body":"x","Attributes":{"SenderId":"000000000000","ApproximateReceiveCount":"1"},` +
				`"MD5OfMessageAttributes":"a18cbb58171ebf4ce88d9fb787f9210b","MessageAttributes":{"a":{"StringValue":"v","DataType":"String"}}}]}`,
			xml: "<Message><MessageId>[id 1]</MessageId><ReceiptHandle>[handle 1]</ReceiptHandle><MD5OfBody>" + md5X + "</MD5OfBody><Body>x</Body>" +
				"<Attribute><Name>SenderId</Name><Value>000000000000</Value></Attribute><Attribute><Name>ApproximateReceiveCount</Name><Value>1</Value></Attribute>" +
				"<MD5OfMessageAttributes>a18cbb58171ebf4ce88d9fb787f9210b</MD5OfMessageAttributes><MessageAttribute><Name>a</Name><Value><StringValue>v</StringValue><DataType>String</DataType></Value></MessageAttribute></Message>",
		},
		{name: "action/ReceiveMessage of nothing", given: []string{makeQ}, action: "ReceiveMessage", in: `{"QueueUrl":"q"}`, json: "{}"},
		{
			name: "action/SendMessage", given: []string{makeQ}, action: "SendMessage",
			in: `{"QueueUrl":"q","MessageBody":"x","DelaySeconds":0,"MessageAttributes":{"a":{"DataType":"String","StringValue":"v"}},` +
				`"MessageSystemAttributes":{"AWSTraceHeader":{"DataType":"String","StringValue":"Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=1"}}}`,
			json: `{"MD5OfMessageBody":"` + md5X + `","MD5OfMessageAttributes":"a18cbb58171ebf4ce88d9fb787f9210b","MD5OfMessageSystemAttributes":"5f48eef650c1d0207456969c85af2fdd","MessageId":"[id 1]"}`,
			xml: "<MD5OfMessageBody>" + md5X + "</MD5OfMessageBody><MD5OfMessageAttributes>a18cbb58171ebf4ce88d9fb787f9210b</MD5OfMessageAttributes>" +
				"<MD5OfMessageSystemAttributes>5f48eef650c1d0207456969c85af2fdd</MD5OfMessageSystemAttributes><MessageId>[id 1]</MessageId>",
		},
		{
			name: "action/SendMessage to a FIFO queue", given: []string{makeFIFO}, action: "SendMessage", in: `{"QueueUrl":"q.fifo","MessageBody":"x","MessageGroupId":"g","MessageDeduplicationId":"d"}`,
			json: `{"MD5OfMessageBody":"` + md5X + `","MessageId":"[id 1]","SequenceNumber":"[sequence]"}`,
			xml:  "<MD5OfMessageBody>" + md5X + "</MD5OfMessageBody><MessageId>[id 1]</MessageId><SequenceNumber>[sequence]</SequenceNumber>",
		},
		{
			name: "action/SendMessageBatch", given: []string{makeQ}, action: "SendMessageBatch",
			in: `{"QueueUrl":"q","Entries":[{"Id":"1","MessageBody":"x"},{"Id":"2","MessageBody":"\u0000"},{"Id":"3","MessageBody":"y","DelaySeconds":1}]}`,
			json: `{"Successful":[{"Id":"1","MD5OfMessageBody":"` + md5X + `","MessageId":"[id 1]"},{"Id":"3","MD5OfMessageBody":"` + md5Y + `","MessageId":"[id 2]"}],` +
				`"Failed":[{"Id":"2","SenderFault":true,"Code":"InvalidMessageContents","Message":"` + textCharacters + `"}]}`,
			xml: "<SendMessageBatchResultEntry><Id>1</Id><MD5OfMessageBody>" + md5X + "</MD5OfMessageBody><MessageId>[id 1]</MessageId></SendMessageBatchResultEntry>" +
				"<SendMessageBatchResultEntry><Id>3</Id><MD5OfMessageBody>" + md5Y + "</MD5OfMessageBody><MessageId>[id 2]</MessageId></SendMessageBatchResultEntry>" +
				"<BatchResultErrorEntry><Id>2</Id><SenderFault>true</SenderFault><Code>InvalidMessageContents</Code><Message>" + textCharacters + "</Message></BatchResultErrorEntry>",
		},
	}
}

// textCharacters is what AWS says of characters that a body may not have.
const textCharacters = "Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF"

// deadLettered are steps that leave n messages in a dead-letter queue.
func deadLettered(bodies ...string) []string {
	steps := []string{makeDLQ, makeDQ}
	for _, b := range bodies {
		steps = append(steps, `SendMessage {"QueueUrl":"q","MessageBody":"`+b+`"}`)
	}
	return append(steps, `ReceiveMessage {"QueueUrl":"q","MaxNumberOfMessages":10,"VisibilityTimeout":1}`, "advance 2s",
		`ReceiveMessage {"QueueUrl":"q","MaxNumberOfMessages":10} => {}`, "advance 1s")
}

// moveActionCases has a success of each action on move tasks.
func moveActionCases() []rawCase {
	start := `StartMessageMoveTask {"SourceArn":"` + arnDLQ + `","MaxNumberOfMessagesPerSecond":1} => [task 1]`
	return []rawCase{
		{
			name: "action/StartMessageMoveTask", given: deadLettered("x"), action: "StartMessageMoveTask", in: `{"SourceArn":"` + arnDLQ + `"}`,
			json: `{"TaskHandle":"[task 1]"}`, xml: "<TaskHandle>[task 1]</TaskHandle>",
			then: []string{"advance 1s", `ReceiveMessage {"QueueUrl":"q"} => "Body":"x"`},
		},
		{
			name: "action/StartMessageMoveTask to a destination", given: append(deadLettered("x"), `CreateQueue {"QueueName":"other"}`), action: "StartMessageMoveTask",
			in:   `{"SourceArn":"` + arnDLQ + `","DestinationArn":"arn:aws:sqs:us-east-1:000000000000:other","MaxNumberOfMessagesPerSecond":500}`,
			json: `{"TaskHandle":"[task 1]"}`, xml: "<TaskHandle>[task 1]</TaskHandle>",
			then: []string{"advance 1s", `ReceiveMessage {"QueueUrl":"other"} => "Body":"x"`},
		},
		{
			name: "action/CancelMessageMoveTask", given: append(deadLettered("x", "y"), start, "advance 100ms"), action: "CancelMessageMoveTask", in: `{"TaskHandle":"[task 1]"}`,
			json: `{"ApproximateNumberOfMessagesMoved":1}`, xml: "<ApproximateNumberOfMessagesMoved>1</ApproximateNumberOfMessagesMoved>",
			then: []string{"advance 1s", `ListMessageMoveTasks {"SourceArn":"` + arnDLQ + `"} => "Status":"CANCELLED"`},
		},
		{
			name: "action/ListMessageMoveTasks", given: append(deadLettered("x", "y"), start, "advance 100ms"), action: "ListMessageMoveTasks", in: `{"SourceArn":"` + arnDLQ + `","MaxResults":10}`,
			json: `{"Results":[{"TaskHandle":"[task 1]","Status":"RUNNING","SourceArn":"` + arnDLQ + `","MaxNumberOfMessagesPerSecond":1,"ApproximateNumberOfMessagesMoved":1,"ApproximateNumberOfMessagesToMove":2,"StartedTimestamp":946684803000}]}`,
			xml: "<ListMessageMoveTasksResultEntry><TaskHandle>[task 1]</TaskHandle><Status>RUNNING</Status><SourceArn>" + arnDLQ + "</SourceArn><MaxNumberOfMessagesPerSecond>1</MaxNumberOfMessagesPerSecond>" +
				"<ApproximateNumberOfMessagesMoved>1</ApproximateNumberOfMessagesMoved><ApproximateNumberOfMessagesToMove>2</ApproximateNumberOfMessagesToMove><StartedTimestamp>946684803000</StartedTimestamp></ListMessageMoveTasksResultEntry>",
		},
		{
			name: "action/StartMessageMoveTask in FIFO", action: "StartMessageMoveTask", in: `{"SourceArn":"arn:aws:sqs:us-east-1:000000000000:d.fifo"}`,
			given: []string{
				`CreateQueue {"QueueName":"d.fifo","Attributes":{"FifoQueue":"true"}}`,
				`CreateQueue {"QueueName":"q.fifo","Attributes":{"FifoQueue":"true","VisibilityTimeout":"1","RedrivePolicy":"{\"deadLetterTargetArn\":\"arn:aws:sqs:us-east-1:000000000000:d.fifo\",\"maxReceiveCount\":1}"}}`,
				`SendMessage {"QueueUrl":"q.fifo","MessageBody":"x","MessageGroupId":"g","MessageDeduplicationId":"1"}`,
				`ReceiveMessage {"QueueUrl":"q.fifo"}`, "advance 2s", `ReceiveMessage {"QueueUrl":"q.fifo"} => {}`, "advance 1s",
			},
			json: `{"TaskHandle":"[task 1]"}`, xml: "<TaskHandle>[task 1]</TaskHandle>",
			then: []string{"advance 1s", `ReceiveMessage {"QueueUrl":"q.fifo","AttributeNames":["All"]} => "MessageGroupId":"g"`},
		},
	}
}
