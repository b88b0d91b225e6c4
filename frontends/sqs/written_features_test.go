package sqs

import "slices"

const docHead = `# SQS: what is there, and what differs

Written by "go test ./frontends/sqs -run Reference -update" from the results of the tests: the column "ours" says what it
says only if every test in "shown by" passes. What has a slash in its name is a case of one table, a request whose answer
is compared, status, headers and body, in AWS JSON and in Query; a star stands for all cases that begin so. The same test
fails when this page is stale, when an action, an attribute or an error has no row, and when one has no case.

Columns "AWS" and "ElasticMQ" come from documentation, public recordings and what users report; where that is silent they
say "not documented". "Reported by its users" says that users of ElasticMQ have reported that it was otherwise, at some time.
`

// docSections are the tables of the page.
func docSections() []docSection {
	return []docSection{
		{"Actions", "ElasticMQ: 21 of the 23 do work, two answer and do nothing.", docActions()},
		{"Queue attributes", "Every value is a string. AWS: settable unless it says otherwise.", docAttributes()},
		{"Messages", "", docMessages()},
		{"Visibility and receipt handles", "", docVisibility()},
		{"FIFO queues", "", docFIFO()},
		{"Fair queues", "", docFair()},
		{"Dead-letter queues", "", docDeadLetters()},
		{"Message move tasks", "", docMoves()},
		{"Limits", "", slices.Concat(docQueueLimits(), docMessageLimits(), docRelaxed())},
		{"Errors", "The code is what `x-amzn-query-error` and XML have, and what boto3 shows in both protocols.", slices.Concat(docErrors(), docOwnErrors())},
		{"Protocols", "", docProtocols()},
		{"Queue URLs", "", docURLs()},
		{"Signatures", "", docSignatures()},
		{"Operation", "", docOperation()},
		{"Forty pains", "What users of SQS servers asked for or suffered from, told as the behaviour that is right.", docPains()},
	}
}

func docActions() []docRow {
	known := map[string]string{
		"ChangeMessageVisibility": "yes", "ChangeMessageVisibilityBatch": "yes", "TagQueue": "yes", "UntagQueue": "yes", "ListQueueTags": "yes",
		"StartMessageMoveTask": "yes, in memory", "CancelMessageMoveTask": "yes, in memory", "ListMessageMoveTasks": "yes, in memory", "ListQueues": "yes, without pages",
	}
	var rows []docRow
	for _, a := range actions() {
		r := docRow{feature: a.name, aws: "yes", elasticMQ: known[a.name], shownBy: []string{"action/" + a.name}}
		if r.elasticMQ == "" {
			r.elasticMQ = unknown
		}
		rows = append(rows, r)
	}
	return append(
		rows,
		docRow{"ListQueues and ListDeadLetterSourceQueues in pages", "a token only if MaxResults was given", "no", "", []string{"action/ListQueues in pages", "transcript sources"}},
		docRow{"CreateQueue again", "200 if the attributes given are equal, tags are not compared", unknown, "", []string{"wish/created again with equal attributes", "error/name taken"}},
		docRow{"what a purge takes", "visible, delayed and in flight", unknown, "", []string{"feature/purge takes all"}},
	)
}

func docAttributes() []docRow {
	aws := map[string]string{
		attrPolicy: "JSON, enforced", attrVisibility: "0 to 43,200 (30)", attrMaxMessageSize: "1,024 to 1,048,576 (1,048,576)", attrRetention: "60 to 1,209,600 (345,600)",
		attrMessages: "read only, approximate", attrNotVisible: "read only, approximate", attrDelayed: "read only, approximate",
		attrCreated: "read only, epoch seconds", attrModified: "read only, epoch seconds", attrARN: "read only", attrDelay: "0 to 900 (0)", attrWait: "0 to 20 (0)",
		attrRedrive: "canonical JSON, count a number", attrFIFOQueue: "at creation, FIFO only", attrContentDedup: "FIFO only", attrKMSKey: "a KMS key",
		attrKMSReuse: "60 to 86,400", attrDedupScope: "`queue` or `messageGroup`, FIFO only", attrThroughput: "`perQueue` or `perMessageGroupId`, FIFO only",
		attrRedriveAllow: "allowAll, denyAll, byQueue", attrManagedEncryption: "true, or false with a KMS key",
		attrPublishTopic: "no",
	}
	elasticMQ := map[string]string{attrDedupScope: "refused", attrThroughput: "refused", attrRedriveAllow: "not enforced", attrRetention: "nothing expires", attrDelay: "yes", attrPublishTopic: "no"}
	ours := map[string]string{
		attrPolicy: "kept and shown, **not enforced**", attrKMSKey: "kept and shown, **encrypts nothing**", attrKMSReuse: "kept and shown", attrManagedEncryption: "kept and shown, **encrypts nothing**",
		attrMessages: "yes, exact", attrNotVisible: "yes, exact", attrDelayed: "yes, exact", attrThroughput: "kept and shown: there is no limit of rates",
		attrPublishTopic: "**not of AWS**: a topic that sends go to, [with `{attribute}`](configuration.md#routes)",
	}
	more := map[string][]string{attrPolicy: {"feature/policy is not enforced", "TestPoliciesAreBounded"}, attrKMSKey: {"feature/encryption is echoed"}, attrRedriveAllow: {"feature/RedriveAllowPolicy is enforced"}, attrRetention: {"feature/retention"}, attrDelay: {"feature/delay of the queue"}, attrPublishTopic: {"transcript routes"}}
	var rows []docRow
	for _, name := range attributeList() {
		r := docRow{feature: name, aws: aws[name], elasticMQ: elasticMQ[name], ours: ours[name], shownBy: append([]string{"setting/" + name}, more[name]...)}
		if r.elasticMQ == "" {
			r.elasticMQ = unknown
		}
		rows = append(rows, r)
	}
	return append(
		rows,
		docRow{"All of a fresh queue", "12 entries, FIFO 16", unknown, "", []string{"setting/All", "setting/All of FIFO"}},
		docRow{"none asked for, or not set", "no Attributes", unknown, "", []string{"action/GetQueueAttributes without names", "setting/unset"}},
		docRow{"the empty value", "removes Policy, RedrivePolicy, KmsMasterKeyId", unknown, "yes, and RedriveAllowPolicy", []string{"setting/removed"}},
		docRow{"KMS key and managed encryption", "one of the two", unknown, "", []string{"error/two kinds of encryption", "setting/KMS key reads managed as false"}},
		docRow{"attributes of FIFO on standard", "InvalidAttributeName", unknown, "", []string{"error/FifoQueue on standard", "error/ContentBasedDeduplication on standard", "error/DeduplicationScope on standard"}},
		docRow{"FifoQueue changed", "InvalidAttributeValue", unknown, "", []string{"error/FifoQueue set to false"}},
		docRow{"what Terraform sets reads back", "yes", unknown, "", []string{"TestProvisioningSettlesAfterOneApply"}},
	)
}

func docMessages() []docRow {
	return []docRow{
		{"MD5 of body, attributes, system attributes", "yes", "partly: wrong for custom types in JSON", "", []string{"action/SendMessage", "action/ReceiveMessage", "TestDigestsOfAWS", "wish/digest of a type with a label"}},
		{"message attributes: String, Number, Binary with labels", "yes", "partly: MD5 of custom types in JSON is wrong", "", []string{"feature/types with labels", "transcript attributes", "limit/attribute type/*"}},
		{"StringListValues, BinaryListValues", "UnsupportedOperation", unknown, "", []string{"error/StringListValues", "error/BinaryListValues"}},
		{"MessageAttributeNames: All, `.*`, a name, `prefix.*`", "the prefix is plain text", unknown, "", []string{"feature/names: a prefix is plain text", "transcript attributes"}},
		{"system attributes of a receive", "All and nine names, unknown ones ignored", "yes", "", []string{"feature/unknown system names are ignored", "transcript standard"}},
		{"system attributes of a send", "AWSTraceHeader alone", unknown, "", []string{"error/other system attribute"}},
		{"AWSTraceHeader", "attribute, or header X-Amzn-Trace-Id", "yes", "", []string{"feature/trace header", "transcript standard"}},
		{"empty maps and lists", "left out", unknown, "", []string{"wish/empty MessageAttributes leave no digest", "action/ReceiveMessage of nothing"}},
		{"delay of a message", "yes", "yes", "", []string{"feature/delay of a message"}},
		{"delay of a queue", "yes", "yes", "", []string{"feature/delay of the queue"}},
		{"changed DelaySeconds (standard)", "leaves messages that wait", unknown, "", []string{"feature/changed DelaySeconds leaves sent messages on standard"}},
		{"retention", "from the enqueue time", "no", "", []string{"feature/retention"}},
		{"long poll", "returns at the first message; a request's 0 beats the queue's", "yes", "", []string{"transcript longpoll"}},
		{"long poll of a client that has gone", "takes no message", unknown, "", []string{"TestVanishedLongPollTakesNoLease"}},
		{"batches: some entries fail", "200, with Successful and Failed", unknown, "", []string{"action/SendMessageBatch", "action/ChangeMessageVisibilityBatch", "transcript batch"}},
		{"size counts bytes of UTF-8 and of attributes", "system attributes are free", "no", "", []string{"limit/body with attributes/*", "limit/body with system attributes/*", "limit/body/1 MiB and 1 of UTF-8"}},
		{"messages of other protocols", "none there", "none there", "what is no text comes in base64, with an attribute that says so; the `content-type` of STOMP is an attribute, and so is what MQTT tells: [mqtt.md](mqtt.md#sqs)", []string{"TestMessagesOfOtherWires", "transcript mqtt"}},
	}
}

func docVisibility() []docRow {
	return []docRow{
		{"delete with the newest handle", "200, gone", unknown, "", []string{"action/DeleteMessage"}},
		{"delete after the timeout, not received again (standard)", "200, gone", unknown, "", []string{"feature/delete after expiry"}},
		{"delete with an older handle (standard)", "200, may leave the message", unknown, "200, leaves it", []string{"feature/delete by an older handle"}},
		{"delete again", "200", unknown, "", []string{"feature/delete again*"}},
		{"delete after the timeout (FIFO)", "InvalidParameterValue", unknown, "", []string{"error/expired handle on FIFO"}},
		{"delete with an older handle (FIFO)", unknown, unknown, "InvalidParameterValue", []string{"feature/delete by an older handle on FIFO"}},
		{"change of visibility after the timeout (FIFO)", unknown, unknown, "InvalidParameterValue", []string{"feature/change after expiry on FIFO"}},
		{"change of visibility after the timeout (standard)", "200 and hidden again; some texts say MessageNotInflight", unknown, "200 and hidden again", []string{"feature/change after expiry hides again"}},
		{"change of visibility of a deleted message", "InvalidParameterValue", unknown, "", []string{"error/change of a deleted message"}},
		{"a change holds for one receive", "yes", unknown, "", []string{"feature/changed visibility holds for one receive"}},
		{"change to 0", "visible at once", "yes", "", []string{"action/ChangeMessageVisibility"}},
		{"invisible for 12 hours in all", "more is refused", unknown, "", []string{"limit/12 hours in all/*"}},
		{"handle of another queue", unknown, unknown, "ReceiptHandleIsInvalid", []string{"error/handle of another queue"}},
		{"handle of a queue deleted and created again", unknown, unknown, "ReceiptHandleIsInvalid", []string{"feature/handle of an earlier queue"}},
		{"handle after a restart", unknown, unknown, "valid", []string{"TestHandlesOutliveARestart"}},
	}
}

func docFIFO() []docRow {
	return []docRow{
		{"order in a group, one lock a group", "yes", "yes", "", []string{"transcript fifo", "TestOneGroupIsGivenToOneReceiverAtATime"}},
		{"groups take turns", "yes", unknown, "", []string{"feature/groups take turns"}},
		{"first message of a group set to 0", "comes again alone", unknown, "", []string{"feature/first message of a group comes again alone"}},
		{"changed DelaySeconds", "counts at once for messages that wait", unknown, "", []string{"feature/changed DelaySeconds counts at once on FIFO"}},
		{"SequenceNumber", "20 digits, growing", unknown, "", []string{"action/SendMessage to a FIFO queue", "transcript fifo"}},
		{"deduplication for 5 minutes", "yes", "yes", "", []string{"feature/deduplication for 5 min"}},
		{"deduplication survives the delete", "yes", "yes", "", []string{"feature/deduplication for 5 min"}},
		{"content-based deduplication", "SHA-256 of the body; an explicit id wins", unknown, "", []string{"transcript fifo", "feature/explicit deduplication id beats content"}},
		{"deduplication in each group", "yes", "no", "", []string{"transcript wishes", "setting/DeduplicationScope"}},
		{"deduplication in the whole queue", "yes", unknown, "", []string{"feature/deduplication in the whole queue"}},
		{"a purge clears deduplication", "sources disagree", unknown, "yes", []string{"feature/purge clears deduplication"}},
		{"ReceiveRequestAttemptId", "the same messages for 5 minutes", unknown, "", []string{"transcript fifo"}},
		{"delay of a message", "refused, but for 0", unknown, "", []string{"error/DelaySeconds on FIFO", "feature/DelaySeconds 0 on FIFO"}},
		{"a delayed message in a group", "sources disagree", unknown, "does not hold up those that are visible", []string{"transcript wishes"}},
		{"high throughput attributes", "yes", "refused", "kept; there is no limit of rates to lift", []string{"setting/FifoThroughputLimit", "transcript settings"}},
		{"group or deduplication id missing", "one send and a batch differ", unknown, "", []string{"error/MessageGroupId missing", "error/SendMessageBatch/group missing", "error/MessageDeduplicationId missing"}},
		{"move of a dead letter frees the group", "yes", unknown, "", []string{"transcript wishes"}},
	}
}

func docFair() []docRow {
	return []docRow{
		{"MessageGroupId on standard queues", "yes", "no", "", []string{"feature/group on standard", "limit/MessageGroupId on standard/*"}},
		{"a quiet tenant does not wait for a noisy one", "tenants above 10 % of what is in flight are noisy", "no", "groups are served in turn", []string{"transcript wishes"}},
	}
}

func docDeadLetters() []docRow {
	return []docRow{
		{"moved on the receive that is one too many", "yes", "yes", "", []string{"transcript deadletter", "transcript wishes"}},
		{"id, body, attributes, SentTimestamp kept; count goes on", "yes", unknown, "", []string{"feature/dead letter keeps id and count"}},
		{"retention goes on from the enqueue time (standard)", "yes", "no retention", "", []string{"feature/dead letter keeps its retention"}},
		{"FIFO: group kept, its id is the deduplication id, retention anew", "yes", unknown, "", []string{"feature/dead letter on FIFO"}},
		{"DeadLetterQueueSourceArn", "yes", unknown, "", []string{"feature/dead letter keeps id and count"}},
		{"RedrivePolicy is checked: target, kind, count", "yes", unknown, "", []string{"wish/unreadable RedrivePolicy", "limit/maxReceiveCount/*", "transcript deadletter"}},
		{"a dead-letter queue is of the same account and region", "yes", unknown, "", []string{"feature/dead-letter queue of another *"}},
		{"a queue as its own dead-letter queue", "accepted", unknown, "", []string{"feature/own dead-letter queue"}},
		{"RedriveAllowPolicy enforced", "when a source sets its policy", "no", "", []string{"feature/RedriveAllowPolicy is enforced", "transcript settings"}},
		{"ListDeadLetterSourceQueues", "yes", unknown, "", []string{"transcript sources"}},
		{"deletes from it are durable", "yes", told, "", []string{"TestRestartForgetsAndRevivesNothing"}},
	}
}

func docMoves() []docRow {
	return []docRow{
		{"back to where each came from", "yes", unknown, "", []string{"action/StartMessageMoveTask"}},
		{"to a destination, at a rate", "1 to 500 a second", unknown, "", []string{"action/StartMessageMoveTask to a destination", "limit/rate of a move/*"}},
		{"FIFO", "sources disagree", unknown, "yes", []string{"action/StartMessageMoveTask in FIFO"}},
		{"source must be a dead-letter queue", "yes", unknown, "", []string{"error/move from a queue that is no DLQ"}},
		{"one active task a source", "InvalidParameterValue", unknown, "", []string{"error/second move of a source"}},
		{"active tasks of an account", "100", unknown, "", []string{"limit/active moves/*"}},
		{"longest task", "36 hours", unknown, "36 hours, then FAILED with RequestTimeout", []string{"TestEveryMoveFailureHasACode"}},
		{"moved messages count as new", "new id, enqueue time, retention", unknown, "", []string{"transcript move"}},
		{"states and FailureReason", "yes", unknown, "", []string{"transcript move", "action/CancelMessageMoveTask"}},
		{"unknown source, destination, task", "404", unknown, "", []string{"error/source of a move", "error/destination of a move", "error/move task"}},
	}
}

func docProtocols() []docRow {
	return []docRow{
		{"AWS JSON 1.0", "yes", "yes", "", []string{"action/*"}},
		{"Query, answered in XML, by POST and GET", "yes", "yes", "", []string{"action/*", "url/as a GET"}},
		{"Query answered in JSON (`Accept: application/json`)", "yes", unknown, "", []string{"transcript wrapped"}},
		{"`x-amzn-query-error`", "yes", "partly: wrong value", "", []string{"error/*"}},
		{"both on one port and connection", "yes", unknown, "", []string{"TestProtocolsShareAConnection"}},
		{"unnumbered AttributeName (boto2)", "yes", unknown, "", []string{"feature/unnumbered AttributeName"}},
		{"DefaultVisibilityTimeout (kombu)", unknown, unknown, "yes", []string{"feature/DefaultVisibilityTimeout"}},
		{"pipelined requests", unknown, unknown, "an answer does not wait for a long poll behind it", []string{"TestPipelinedAnswerDoesNotWaitForALongPoll"}},
		{"what is no HTTP, or none of SQS", unknown, unknown, "an error in the protocol that was meant, XML if unknown", []string{"error/http/*"}},
	}
}

func docURLs() []docRow {
	return []docRow{
		{"canonical: `http://host:port/account/name`", "yes", "yes", "", []string{"url/canonical"}},
		{"any host, port and scheme", "its own hosts", unknown, "yes", []string{"url/other host", "url/host and port"}},
		{"bare name", "yes", unknown, "", []string{"url/bare name", "url/name after a slash"}},
		{"`/queue/name`, `/queue/region/account/name`", unknown, unknown, "yes", []string{"url/queue path*"}},
		{"slash at the end, path of a proxy before it", unknown, unknown, "yes", []string{"url/slash at the end", "url/context path"}},
		{"path of a Query request", "yes", unknown, "", []string{"url/path/*", "url/QueueUrl beats the path"}},
		{"another account's", "NonExistentQueue", unknown, "", []string{"url/other account*", "url/path of another account"}},
		{"what names no queue", "NonExistentQueue", unknown, "", []string{"url/empty", "url/host alone", "url/slash alone", "url/account alone", "url/with a *"}},
		{"given out: as the client asked, or a fixed base", "its own host", "`node-address`", "the Host header, or `sqs.url_base`", []string{"url/Host header", "url/fixed base"}},
		{"given out over TLS", "https", "no TLS", "https", []string{"TestQueueURLSaysHTTPSOverTLS"}},
		{"ListQueues, CreateQueue at a queue's path", "InvalidAction", unknown, "", []string{"error/ListQueues at a queue", "error/CreateQueue at a queue"}},
	}
}

func docSignatures() []docRow {
	return []docRow{
		{"SigV4 in the Authorization header", "checked", "no", "checked once there are access keys", []string{"TestSignaturesOnTheWire", "TestSDKSigns"}},
		{"presigned URLs", "checked", "no", "checked once there are access keys", []string{"TestPresignedGET"}},
		{"host, path, query, body and action are covered", "yes", "no", "", []string{"TestSignaturesOnTheWire", "TestUnsignedActionIsRefused"}},
		{"clock: 15 minutes", "yes", "no", "", []string{"TestSignaturesOnTheWire"}},
		{"session tokens", unknown, "no", "taken and ignored, or refused by `sqs.session_tokens`", []string{"TestOptionsOfSignatures"}},
		{"region of the signature", "part of what is signed", "no", "any, or `sqs.signing_region`", []string{"TestOptionsOfSignatures"}},
		{"UNSIGNED-PAYLOAD", unknown, "no", "over TLS alone", []string{"TestUnsignedBodyIsTakenOverTLS", "TestSignaturesOnTheWire"}},
		{"permissions of IAM and of Policy", "enforced", "no", "**not enforced**: a key may do everything", []string{"feature/policy is not enforced"}},
		{"pages of other sites in a browser", unknown, unknown, "refused unless signed", []string{"TestPagesOfOtherSitesAreRefused", "error/page of another site"}},
	}
}

func docOperation() []docRow {
	return []docRow{
		{"GET /health", "none", "yes", "", []string{"TestHealthNeedsNoSignature", "transcript errors"}},
		{"`/_localstack/health`", "none", unknown, "yes", []string{"transcript peek"}},
		{"peek without receiving", "none", "no", "`/_aws/sqs/messages`, REST API, `broker queue peek`", []string{"transcript peek"}},
		{"queues created on first use", unknown, "with `auto-create-queues`", "with `sqs.auto_create`", []string{"feature/created on first use"}},
		{"survives kill -9", "yes", "partly", "", []string{"TestRestartForgetsAndRevivesNothing", "TestHandlesOutliveARestart"}},
	}
}
