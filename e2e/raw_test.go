package e2e

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/leasemq/broker/cmd/broker/bench"
)

// rawTimeout bounds one raw request, over the longest long poll.
const rawTimeout = 40 * time.Second

// raw is an SQS client on one connection that never repeats a request: what was
// answered and what was not stays exact. It belongs to one goroutine.
type raw struct {
	conn   *bench.Conn
	writer bench.Writer
}

// dialRaw connects to n.
func dialRaw(t *testing.T, n *node) *raw {
	t.Helper()
	r, err := tryRaw(t, n.sqs)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	return r
}

func tryRaw(t *testing.T, addr string) (*raw, error) {
	conn, err := bench.Dial(t.Context(), addr, rawTimeout)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &raw{conn: conn, writer: bench.Writer{Host: addr, Protocol: bench.ProtocolJSON}}, nil
}

// refusedError is an answer other than 200.
type refusedError struct {
	status int
	body   string
}

func (e *refusedError) Error() string { return fmt.Sprintf("status %d: %s", e.status, e.body) }

// call makes one request. An answer other than 200 is a *refusedError; any
// other error means that there was no answer.
func (r *raw) call(action string, in, out any) error {
	payload, err := json.Marshal(in)
	if err != nil {
		return err
	}
	a, err := r.conn.Do(r.writer.Request(action, payload))
	if err != nil {
		return err
	}
	if a.Status != 200 {
		return &refusedError{a.Status, string(a.Body)}
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(a.Body, out); err != nil {
		return fmt.Errorf("answer %q to %s: %w", a.Body, action, err)
	}
	return nil
}

// rawAttribute is a message attribute on the wire.
type rawAttribute struct {
	DataType    string
	StringValue string `json:",omitempty"`
	BinaryValue []byte `json:",omitempty"`
}

// rawSend is SendMessage, and an entry of its batch form.
type rawSend struct {
	QueueUrl               string `json:",omitempty"`
	Id                     string `json:",omitempty"`
	MessageBody            string
	DelaySeconds           int                     `json:",omitempty"`
	MessageAttributes      map[string]rawAttribute `json:",omitempty"`
	MessageGroupId         string                  `json:",omitempty"`
	MessageDeduplicationId string                  `json:",omitempty"`
}

// rawSent is the answer to SendMessage.
type rawSent struct {
	MessageId        string
	MD5OfMessageBody string
	SequenceNumber   string
}

// rawMessage is one received message.
type rawMessage struct {
	MessageId         string
	ReceiptHandle     string
	Body              string
	Attributes        map[string]string
	MessageAttributes map[string]rawAttribute
}

// createQueue makes a queue and returns its URL.
func (r *raw) createQueue(t *testing.T, name string, attributes map[string]string) string {
	t.Helper()
	var out struct{ QueueUrl string }
	in := map[string]any{"QueueName": name}
	if attributes != nil {
		in["Attributes"] = attributes
	}
	if err := r.call("CreateQueue", in, &out); err != nil {
		t.Fatalf("create queue %s: %v", name, err)
	}
	return out.QueueUrl
}

func (r *raw) send(in rawSend) (rawSent, error) {
	var out rawSent
	err := r.call("SendMessage", in, &out)
	return out, err
}

// receive asks for up to most messages with all that belongs to them.
func (r *raw) receive(queue string, most, wait int) ([]rawMessage, error) {
	var out struct{ Messages []rawMessage }
	err := r.call("ReceiveMessage", receiveInput(queue, most, wait), &out)
	return out.Messages, err
}

func receiveInput(queue string, most, wait int) map[string]any {
	return map[string]any{
		"QueueUrl": queue, "MaxNumberOfMessages": most, "WaitTimeSeconds": wait,
		"MessageSystemAttributeNames": []string{"All"}, "MessageAttributeNames": []string{"All"},
	}
}

func (r *raw) delete(queue, handle string) error {
	return r.call("DeleteMessage", map[string]any{"QueueUrl": queue, "ReceiptHandle": handle}, nil)
}

func (r *raw) setVisibility(queue, handle string, seconds int) error {
	return r.call("ChangeMessageVisibility",
		map[string]any{"QueueUrl": queue, "ReceiptHandle": handle, "VisibilityTimeout": seconds}, nil)
}

// attributes returns the queue's attributes.
func (r *raw) attributes(t *testing.T, queue string) map[string]string {
	t.Helper()
	var out struct{ Attributes map[string]string }
	if err := r.call("GetQueueAttributes", map[string]any{"QueueUrl": queue, "AttributeNames": []string{"All"}}, &out); err != nil {
		t.Fatalf("attributes of %s: %v", queue, err)
	}
	return out.Attributes
}

// post sends a request and does not wait for the answer, which conn.Read reads.
func (r *raw) post(t *testing.T, action string, in any) {
	t.Helper()
	payload, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.conn.Write(r.writer.Request(action, payload)); err != nil {
		t.Fatalf("%s: %v", action, err)
	}
}
