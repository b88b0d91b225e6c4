package sqs

import (
	"bytes"
	"errors"
)

// targetPrefix begins X-Amz-Target of a JSON request.
const targetPrefix = "AmazonSQS."

// action is one of the API's actions.
type action struct {
	name string
	// run validates the parameters, does the work and writes the answer.
	run func(c *call) error
	// service says that the action names no queue, so that Query does not take
	// it at the path of one.
	service bool
}

// actions lists the API, in the order of the API reference.
func actions() []action {
	return []action{
		{name: "AddPermission", run: addPermission},
		{name: "CancelMessageMoveTask", run: cancelMessageMoveTask, service: true},
		{name: "ChangeMessageVisibility", run: changeMessageVisibility},
		{name: "ChangeMessageVisibilityBatch", run: changeMessageVisibilityBatch},
		{name: "CreateQueue", run: createQueue, service: true},
		{name: "DeleteMessage", run: deleteMessage},
		{name: "DeleteMessageBatch", run: deleteMessageBatch},
		{name: "DeleteQueue", run: deleteQueue},
		{name: "GetQueueAttributes", run: getQueueAttributes},
		{name: "GetQueueUrl", run: getQueueURL}, // AWS takes it at the path of any queue
		{name: "ListDeadLetterSourceQueues", run: listDeadLetterSourceQueues},
		{name: "ListMessageMoveTasks", run: listMessageMoveTasks, service: true},
		{name: "ListQueueTags", run: listQueueTags},
		{name: "ListQueues", run: listQueues, service: true},
		{name: "PurgeQueue", run: purgeQueue},
		{name: "ReceiveMessage", run: receiveMessage},
		{name: "RemovePermission", run: removePermission},
		{name: "SendMessage", run: sendMessage},
		{name: "SendMessageBatch", run: sendMessageBatch},
		{name: "SetQueueAttributes", run: setQueueAttributes},
		{name: "StartMessageMoveTask", run: startMessageMoveTask, service: true},
		{name: "TagQueue", run: tagQueue},
		{name: "UntagQueue", run: untagQueue},
	}
}

// dispatch reads the request and runs its action, whose name it returns if the
// API has it.
func (c *call) dispatch() (name string, err error) {
	target := c.http.Request.Header.Peek("X-Amz-Target")
	json := target != nil || bytes.HasPrefix(c.http.Request.Header.ContentType(), []byte("application/x-amz-json"))
	c.answer.wrapped = !json && prefersJSON(c.http.Request.Header.Peek("Accept"))
	c.answer.xml = !json && !c.answer.wrapped
	if name, err := c.authenticate(); err != nil {
		return name, err
	}
	if json {
		return c.dispatchJSON(target)
	}
	return c.dispatchQuery()
}

func (c *call) dispatchJSON(target []byte) (string, error) {
	name, ok := bytes.CutPrefix(target, []byte(targetPrefix))
	a, known := c.server.actions[string(name)]
	if !ok || !known || !c.http.IsPost() {
		return "", notValidHere(string(name))
	}
	if isPeekPath(c.http.Path()) {
		a = peekAction(a)
	}
	if err := decodeJSON(c.body, &c.arena, &c.params); err != nil {
		return a.name, err
	}
	return a.name, a.run(c)
}

func (c *call) dispatchQuery() (string, error) {
	name, err := c.decodeQuery()
	if err != nil {
		return "", err
	}
	path := c.http.Path()
	if name == nil && isPeekPath(path) {
		name = text(peekedAction)
	}
	if name == nil {
		return "", c.noAction()
	}
	a, known := c.server.actions[string(name)]
	if !known {
		return "", notValidHere(string(name))
	}
	if isPeekPath(path) {
		a = peekAction(a)
		path = path[len(peekPath):]
	}
	if a.service && isQueuePath(path) {
		return a.name, notValidHere(a.name)
	}
	if c.params.queueURL == nil && len(path) > 1 {
		c.params.queueURL = text(path)
	}
	return a.name, a.run(c)
}

// prefersJSON tells whether an Accept header has JSON before anything that XML is.
func prefersJSON(accept []byte) bool {
	for kind := range bytes.SplitSeq(accept, []byte{','}) {
		kind, _, _ = bytes.Cut(kind, []byte{';'})
		switch string(bytes.ToLower(bytes.TrimSpace(kind))) {
		case contentWrapped:
			return true
		case contentXML, "application/xml", "text/*", "application/*", "*/*":
			return false
		}
	}
	return false
}

// decodeQuery reads the parameters in the URL and those in the body.
func (c *call) decodeQuery() (text, error) {
	name, err := decodeQuery(c.http.URI().QueryString(), &c.arena, &c.params, nil)
	if err == nil {
		name, err = decodeQuery(c.body, &c.arena, &c.params, name)
	}
	switch {
	case errors.Is(err, errQuerySyntax):
		return nil, fail(faultMalformedQuery, "The request is malformed: %v.", err)
	case err != nil:
		return nil, fail(faultMalformed, "The request is malformed: %v.", err)
	}
	c.params.sortQuery()
	return name, nil
}

// noAction is the answer to a request that names no action. To a GET, such as
// of a queue URL in a browser, AWS answers a bare element with 404.
func (c *call) noAction() error {
	if c.http.IsPost() {
		return fail(faultMissingAction, "The request is missing an action or a required parameter.")
	}
	return &failure{fault: faultUnknownPath, message: "The request names no action."}
}

func notValidHere(action string) error {
	return fail(faultUnknownAction, "The action %s is not valid for this endpoint.", action)
}
