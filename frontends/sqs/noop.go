package sqs

import (
	"bytes"
	"context"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"
)

// NewNoop returns a Server that has the HTTP settings of New's, and answers the
// hot actions of AWS JSON with canned valid answers, without looking at the
// body: what the HTTP library leaves to a broker. It keeps no message.
func NewNoop(o Options) (*Server, error) {
	s, err := newServer(sameDoor(door{}), func() int64 { return 0 }, o)
	if err != nil {
		return nil, err
	}
	canned := cannedAnswers()
	s.handler = func(_ context.Context, rc *fasthttp.RequestCtx) {
		target := rc.Request.Header.Peek("X-Amz-Target")
		name := string(bytes.TrimPrefix(target, []byte(targetPrefix)))
		c := s.calls.Get().(*call)
		c.http = rc
		c.setRequestID()
		// The body is read, as every server has to: it is not decoded.
		if err := c.readBody(); err != nil {
			c.fail(asFailure(err))
		} else if body, ok := canned[cannedName(name, c.body)]; ok {
			c.answer.b = append(c.answer.b, body...)
		} else if name == "CreateQueue" || name == "GetQueueUrl" {
			_ = c.answerQueueURL(name, "noop")
		} else {
			c.fail(fail(faultUnknownAction, "The action %s is not supported by this server.", name))
		}
		c.finish()
		c.reset()
		s.calls.Put(c)
	}
	return s, nil
}

// cannedName tells the receive of a batch from that of one message.
func cannedName(action string, body []byte) string {
	if action == "ReceiveMessage" && bytes.Contains(body, []byte(`"MaxNumberOfMessages":10`)) {
		return "ReceiveMessage10"
	}
	return action
}

// cannedAnswers has an answer of each hot action, of realistic size.
func cannedAnswers() map[string]string {
	const (
		id     = "5fea7756-0ea4-451a-a703-a558b933e274"
		handle = "AQAAAAAAAAABAAAAAAAAAAEAAAAAAAAAAAAAAAABAAAAAAABAAAAAUmWAtLQx3h0ZXN0"
	)
	body := strings.Repeat("x", cannedBodyBytes)
	var sum digest
	sum.set([]byte(body))
	md5 := string(sum[:])
	message := `{"MessageId":"` + id + `","ReceiptHandle":"` + handle + `","MD5OfBody":"` + md5 + `","Body":"` + body + `"}`
	var messages, sent, settled []string
	for i := range batchEntriesMax {
		n := strconv.Itoa(i)
		messages = append(messages, message)
		sent = append(sent, `{"Id":"`+n+`","MD5OfMessageBody":"`+md5+`","MessageId":"`+id+`"}`)
		settled = append(settled, `{"Id":"`+n+`"}`)
	}
	return map[string]string{
		"SendMessage":        `{"MD5OfMessageBody":"` + md5 + `","MessageId":"` + id + `"}`,
		"ReceiveMessage":     `{"Messages":[` + message + `]}`,
		"DeleteMessage":      "",
		"SendMessageBatch":   `{"Successful":[` + strings.Join(sent, ",") + `]}`,
		"ReceiveMessage10":   `{"Messages":[` + strings.Join(messages, ",") + `]}`,
		"DeleteMessageBatch": `{"Successful":[` + strings.Join(settled, ",") + `]}`,
	}
}

// cannedBodyBytes is the size of the message of a canned receive.
const cannedBodyBytes = 200
