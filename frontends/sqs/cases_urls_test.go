package sqs

// urlCases has each form of a queue URL that is taken, and what is not.
func urlCases() []rawCase {
	const in, arn = `{"QueueUrl":"$","AttributeNames":["QueueArn"]}`, "arn:aws:sqs:us-east-1:000000000000:q"
	var cases []rawCase
	add := func(kind, u string, found bool) {
		rc := rawCase{name: "url/" + kind, given: []string{makeQ}, action: "GetQueueAttributes", in: replace(in, u), json: `{"Attributes":{"QueueArn":"` + arn + `"}}`, xml: "<Attribute><Name>QueueArn</Name><Value>" + arn + "</Value></Attribute>"}
		if !found {
			rc.json, rc.xml, rc.code, rc.text = "", "", codeNoQueue, textNoQueue
		}
		cases = append(cases, rc)
	}
	for _, u := range []struct{ kind, url string }{
		{"canonical", urlQ},
		{"other host", "https://sqs.eu-west-1.amazonaws.com/000000000000/q"},
		{"host and port", "http://10.0.0.1:1234/000000000000/q"},
		{"bare name", "q"},
		{"name after a slash", "/q"},
		{"path alone", "/000000000000/q"},
		{"host and name", "http://localhost:9324/q"},
		{"queue path", "http://localhost:9324/queue/q"},
		{"queue path with region", "http://localhost:9324/queue/us-east-1/000000000000/q"},
		{"slash at the end", urlQ + "/"},
		{"region before queue", "https://us-east-1.queue.amazonaws.com/000000000000/q"},
		{"path without a slash", "000000000000/q"},
		{"queue path without a slash", "queue/q/"},
		{"context path", "http://localhost:9324/context/path/000000000000/q"},
	} {
		add(u.kind, u.url, true)
	}
	for _, u := range []struct{ kind, url string }{
		{"other account", "http://localhost:9324/111122223333/q"},
		{"other account without host", "/111122223333/q"},
		{"empty", ""},
		{"host alone", "http://localhost:9324"},
		{"slash alone", "/"},
		{"account alone", "http://localhost:9324/000000000000/"},
		{"with a question mark", "q?x=y"},
		{"with a space", "http://localhost:9324/000000000000/q q"},
	} {
		add(u.kind, u.url, false)
	}
	return cases
}

// urlPathCases has the paths that Query takes a queue from, and where the URLs
// that are given out begin.
func urlPathCases() []rawCase {
	const arn = "<Attribute><Name>QueueArn</Name><Value>arn:aws:sqs:us-east-1:000000000000:q</Value></Attribute>"
	cases := []rawCase{
		{name: "url/Host header", given: []string{makeQ}, only: awsJSON, action: "GetQueueUrl", raw: map[protocol]string{
			awsJSON: "POST / HTTP/1.1\r\nHost: queues.example:8080\r\nX-Amz-Target: AmazonSQS.GetQueueUrl\r\nContent-Length: 17\r\n\r\n{\"QueueName\":\"q\"}",
		}, json: `{"QueueUrl":"http://queues.example:8080/000000000000/q"}`},
		{
			name: "url/fixed base", options: Options{URLBase: "https://sqs.example.org/base/"}, given: []string{makeQ}, action: "GetQueueUrl", in: `{"QueueName":"q"}`,
			json: `{"QueueUrl":"https://sqs.example.org/base/000000000000/q"}`, xml: "<QueueUrl>https://sqs.example.org/base/000000000000/q</QueueUrl>",
			then: []string{`SendMessage {"QueueUrl":"https://sqs.example.org/base/000000000000/q","MessageBody":"x"}`},
		},
		{name: "url/path of another account", only: query, given: []string{makeQ}, path: "/111122223333/q", action: "GetQueueAttributes", in: `{"AttributeNames":["QueueArn"]}`, code: codeNoQueue, text: textNoQueue},
		{name: "url/QueueUrl beats the path", only: query, given: []string{makeQ, makeDLQ}, path: "/000000000000/dlq", action: "GetQueueAttributes", in: `{"QueueUrl":"q","AttributeNames":["QueueArn"]}`, xml: arn},
		{name: "url/as a GET", only: query, given: []string{makeQ}, action: "GetQueueAttributes", raw: map[protocol]string{query: "GET /000000000000/q?Action=GetQueueAttributes&AttributeName=QueueArn HTTP/1.1\r\nHost: h\r\n\r\n"}, xml: arn},
	}
	for _, path := range []string{"/000000000000/q", "/000000000000/q/", "/q", "/queue/q", "/queue/us-east-1/000000000000/q", "/context/path/000000000000/q"} {
		cases = append(cases, rawCase{name: "url/path" + path, only: query, given: []string{makeQ}, path: path, action: "GetQueueAttributes", in: `{"AttributeNames":["QueueArn"]}`, xml: arn})
	}
	return cases
}
