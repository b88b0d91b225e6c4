package sqs

// docPains are numbered as they were gathered, and so is what shows them in
// testdata/wishes.txt. ElasticMQ's column tells what was reported there at some time.
func docPains() []docRow {
	pain := func(feature, elasticMQ string, shownBy ...string) docRow {
		return docRow{feature, "yes", elasticMQ, "", shownBy}
	}
	rows := []docRow{
		pain("1. `__type` names the error, not its side", told, "error/*"),
		pain("2. every error has `x-amzn-query-error`", told, "error/*"),
		pain("3. empty maps and MD5s are left out", told, "wish/empty MessageAttributes leave no digest"),
		pain("4. MD5 of custom types hashes the whole type", told, "wish/digest of a type with a label", "TestDigestsOfAWS"),
		pain("5. MD5OfMessageSystemAttributes is there", told, "action/SendMessage"),
		pain("6. both protocols on one port, by request", unknown, "TestProtocolsShareAConnection"),
		pain("7. old codes stay in the header", unknown, "error/unknown queue"),
		pain("8. MD5OfMessageAttributes is there", unknown, "action/SendMessage", "action/ReceiveMessage"),
		pain("9. an unknown action is 400 InvalidAction", told, "error/unknown action"),
		pain("10. GetQueueUrl of an unknown queue is an error", told, "wish/GetQueueUrl of a queue that is not there"),
		pain("11. NextToken only if MaxResults was given", unknown, "action/ListQueues in pages"),
		pain("12. URLs begin with the Host header, or a fixed base", told, "url/Host header", "url/fixed base"),
		pain("13. the URL given out can be reached, over TLS too", unknown, "url/Host header", "TestQueueURLSaysHTTPSOverTLS"),
		pain("14. any path and host are accepted", unknown, "url/other host", "url/context path"),
		pain("15. two receives at once never get one group", unknown, "TestOneGroupIsGivenToOneReceiverAtATime"),
		pain("16. a send does not unlock a group", unknown, "transcript wishes"),
		pain("17. a group stops at its first invisible message", unknown, "transcript wishes"),
		pain("18. a delayed message does not hold up its group", unknown, "transcript wishes"),
		pain("19. deduplication in each group", unknown, "transcript wishes"),
		pain("20. deduplication outlives the delete", told, "feature/deduplication for 5 min"),
		pain("21. a move to the dead-letter queue unlocks the group", unknown, "transcript wishes"),
		pain("22. a garbage handle is ReceiptHandleIsInvalid", told, "error/malformed handle/*"),
		pain("23. a delete after the timeout succeeds", unknown, "feature/delete after expiry"),
		pain("24. the queue's visibility timeout counts unless the request has one", unknown, "transcript wishes"),
		pain("25. a huge timeout is refused before arithmetic", unknown, "limit/VisibilityTimeout of a receive/*", "transcript wishes"),
		pain("26. expired messages come again by a timer", unknown, "wish/expired message wakes a poll", "transcript longpoll"),
		pain("27. dead letters move on the next receive", unknown, "transcript deadletter", "transcript wishes"),
		pain("28. a move without DestinationArn goes back to each source", unknown, "action/StartMessageMoveTask"),
		pain("29. a bad RedrivePolicy is refused", unknown, "wish/unreadable RedrivePolicy", "limit/maxReceiveCount/*"),
		pain("30. deleted dead letters stay deleted over a restart", told, "TestRestartForgetsAndRevivesNothing"),
		pain("31. a long poll holds nobody up", unknown, "TestParkedPollsHoldNobodyUp"),
		pain("32. idle long polls cost no CPU (measured in `e2e`)", unknown, "TestParkedPollsHoldNobodyUp"),
		pain("33. a delayed message wakes a long poll when due", told, "wish/delayed message wakes a poll", "transcript longpoll"),
		pain("34. a receive returns at the first message", unknown, "transcript wishes"),
		pain("35. retention counts from the send", unknown, "feature/retention"),
		pain("36. CreateQueue is idempotent, Terraform settles", told, "wish/created again with equal attributes", "TestProvisioningSettlesAfterOneApply"),
		pain("37. 1 MiB messages and fair queues", told, "limit/body/*", "transcript wishes"),
		pain("38. queues and messages are kept, deletes too", told, "TestRestartForgetsAndRevivesNothing"),
		pain("39. deep FIFO queues and many consumers, queues deleted under them", told, "TestDeepGroupIsReadInSteps", "TestQueuesComeAndGoUnderTheirUsers"),
		{"40. HTTPS, peek, access keys, deduplication cleared at purge", "HTTPS and keys, no peek", told, "yes", []string{"TestQueueURLSaysHTTPSOverTLS", "transcript peek", "TestSignaturesOnTheWire", "feature/purge clears deduplication"}},
	}
	rows[11].aws, rows[12].aws, rows[13].aws = "its own hosts", "its own hosts", "its own hosts"
	rows[17].aws, rows[31].aws, rows[38].aws = "sources disagree", unknown, unknown
	return rows
}

// docDifferences are where this broker chooses to be unlike SQS, and why.
func docDifferences() []docRow {
	differs := func(feature, why string, shownBy ...string) docRow {
		return docRow{feature: feature, ours: why, shownBy: shownBy}
	}
	return []docRow{
		differs("Counters are exact", "Approximate… attributes tell the numbers as they are: one node holds the queue, so tests need not wait for them to settle.",
			"setting/ApproximateNumberOfMessages", "setting/ApproximateNumberOfMessagesNotVisible", "setting/ApproximateNumberOfMessagesDelayed"),
		differs("Queues change at once", "A deleted or purged queue is gone with the answer; AWS takes up to 60 seconds for a deletion. The 60 seconds between two purges, and until a name is free, are kept in memory only, and not with `sqs.limits: relaxed`.",
			"action/DeleteQueue", "feature/purge takes all", "limit/relaxed/*"),
		differs("A purge clears deduplication", "What was purged can be sent again, which is what purging between tests is for. Sources disagree on what AWS does.", "feature/purge clears deduplication"),
		differs("Policies are not enforced", "Policy, and what AddPermission adds to it, are checked for form, kept and shown, so that Terraform settles. They grant and refuse nothing: a request with a known access key may do everything, and without keys everyone may.", "feature/policy is not enforced"),
		differs("Encryption is echoed", "KmsMasterKeyId and SqsManagedSseEnabled are kept and shown, SqsManagedSseEnabled even reads true by default as on AWS. Nothing is encrypted at rest: encrypt the disk.", "feature/encryption is echoed", "setting/SqsManagedSseEnabled"),
		differs("UNSIGNED-PAYLOAD is taken over TLS", "The connection already keeps the body whole; without TLS a body must be signed, and streaming signatures are refused.", "TestUnsignedBodyIsTakenOverTLS", "TestSignaturesOnTheWire"),
		differs("Session tokens are ignored", "A client that has one beside its access key works; nobody here could check it. `sqs.session_tokens: refuse` turns it away.", "TestOptionsOfSignatures"),
		differs("Any region is signed for", "Clients are often set to some region; `sqs.signing_region` demands one.", "TestOptionsOfSignatures"),
		differs("Any queue URL that ends in the name works", "Clients reach a broker through proxies and port mappings, so host, scheme and leading path are not compared. Only another account before the name is refused.", "url/other host", "url/context path", "url/other account"),
		differs("Fair queues serve groups in turn", "AWS finds out who is noisy by shares of what is in flight; here every group waits for one receive of each other group at most, which needs no measuring and no thresholds.", "transcript wishes"),
		differs("An older handle deletes nothing", "AWS says that a delete with an older handle may or may not delete. Here it never does on standard queues, so that whoever holds the message decides.", "feature/delete by an older handle"),
		differs("A handle is of one queue", "A handle of another queue, or of one that was deleted and created again, is not valid. It outlives restarts.", "error/handle of another queue", "feature/handle of an earlier queue", "TestHandlesOutliveARestart"),
		differs("Visibility may be changed after it ended", "As recorded from AWS, the message is hidden again; its documentation would answer MessageNotInflight.", "feature/change after expiry hides again"),
		differs("A second move task is InvalidParameterValue", "As recorded from AWS; its documentation says UnsupportedOperation. A 101st is OverLimit.", "error/second move of a source", "limit/active moves/101"),
		differs("Rates are not limited", "AWS limits FIFO queues to 300 calls a second for each action. FifoThroughputLimit is kept and shown, and limits nothing.", "setting/FifoThroughputLimit"),
		differs("Pages of other sites are refused", "A request that a browser sends for a page of another site is refused unless it is signed: without access keys any page could purge a queue.", "TestPagesOfOtherSitesAreRefused"),
		differs("503 with a hint", "A nearly full disk, a full queue and a node that stops refuse with ServiceUnavailable and Retry-After, which SDKs repeat; consumers go on where they can.", "error/disk full", "error/queue full", "error/node drains"),
	}
}

const docTail = `
## Not there

- IAM, and enforcement of policies; KMS and encryption at rest; CloudWatch (there are Prometheus metrics on the admin port).
- Replication: one node, one disk.
- SNS, EventBridge, S3 notifications, Lambda triggers: whatever feeds or drains queues on AWS.
- More than one account and region in one broker: a foreign account has no queues here.
- An option to keep deduplication over a purge.

What is promised of messages, and what weakens it, is in [guarantees.md](guarantees.md).
`
