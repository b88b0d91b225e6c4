package e2e

import (
	"crypto/md5"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// sdk is aws-sdk-go-v2 with the one thing changed that users change: the
// endpoint.
type sdk struct {
	*sqs.Client
	t *testing.T
}

func newSDK(t *testing.T, n *node) *sdk {
	t.Helper()
	client := sqs.New(sqs.Options{
		BaseEndpoint: aws.String(n.url()),
		Region:       "us-east-1",
		Credentials:  credentials.NewStaticCredentialsProvider("test", "test", ""),
		Retryer:      aws.NopRetryer{}, // what the first answer says is what is tested
	})
	return &sdk{client, t}
}

// create makes a queue and returns its URL.
func (s *sdk) create(name string, attributes map[string]string) *string {
	s.t.Helper()
	out, err := s.CreateQueue(s.t.Context(), &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
	if err != nil {
		s.t.Fatalf("create %s: %v", name, err)
	}
	return out.QueueUrl
}

// sendText sends a body alone.
func (s *sdk) sendText(queue *string, body string) *sqs.SendMessageOutput {
	s.t.Helper()
	out, err := s.SendMessage(s.t.Context(), &sqs.SendMessageInput{QueueUrl: queue, MessageBody: &body})
	if err != nil {
		s.t.Fatalf("send %.40q: %v", body, err)
	}
	return out
}

// take receives up to ten messages with all that belongs to them.
func (s *sdk) take(queue *string, wait int32) []types.Message {
	s.t.Helper()
	out, err := s.ReceiveMessage(s.t.Context(), &sqs.ReceiveMessageInput{
		QueueUrl: queue, MaxNumberOfMessages: 10, WaitTimeSeconds: wait,
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
		MessageAttributeNames:       []string{"All"},
	})
	if err != nil {
		s.t.Fatalf("receive: %v", err)
	}
	return out.Messages
}

// takeAll receives until it has count messages.
func (s *sdk) takeAll(queue *string, count int) []types.Message {
	s.t.Helper()
	var all []types.Message
	for len(all) < count {
		got := s.take(queue, 2)
		if len(got) == 0 {
			s.t.Fatalf("got %d messages, want %d", len(all), count)
		}
		all = append(all, got...)
	}
	return all
}

func (s *sdk) drop(queue *string, m types.Message) {
	s.t.Helper()
	if _, err := s.DeleteMessage(s.t.Context(), &sqs.DeleteMessageInput{QueueUrl: queue, ReceiptHandle: m.ReceiptHandle}); err != nil {
		s.t.Fatalf("delete: %v", err)
	}
}

func (s *sdk) attributes(queue *string, names ...types.QueueAttributeName) map[string]string {
	s.t.Helper()
	out, err := s.GetQueueAttributes(s.t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: queue, AttributeNames: names})
	if err != nil {
		s.t.Fatalf("attributes: %v", err)
	}
	return out.Attributes
}

// queryPrefix begins many codes of the old protocol. SDKs that speak JSON show
// these codes, out of the x-amzn-query-error header.
const queryPrefix = "AWS.SimpleQueueService."

// wantCode wants err to be an API error with that code and status.
func wantCode(t *testing.T, what string, err error, status int, code string) {
	t.Helper()
	var api smithy.APIError
	var res *smithyhttp.ResponseError
	if !errors.As(err, &api) || !errors.As(err, &res) {
		t.Errorf("%s: got %v, want an error %s", what, err, code)
		return
	}
	if api.ErrorCode() != code || res.HTTPStatusCode() != status {
		t.Errorf("%s: got %s with status %d (%s), want %s with status %d",
			what, api.ErrorCode(), res.HTTPStatusCode(), api.ErrorMessage(), code, status)
	}
}

// md5Of is MD5 in hex.
func md5Of(b []byte) string {
	sum := md5.Sum(b)
	return hex.EncodeToString(sum[:])
}

// md5OfAttributes is computed from the rule, not from the broker's code.
func md5OfAttributes(attributes map[string]types.MessageAttributeValue) string {
	var b []byte
	add := func(v []byte) {
		b = binary.BigEndian.AppendUint32(b, uint32(len(v)))
		b = append(b, v...)
	}
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		a := attributes[name]
		add([]byte(name))
		add([]byte(*a.DataType))
		if strings.HasPrefix(*a.DataType, "Binary") {
			b = append(b, 2)
			add(a.BinaryValue)
		} else {
			b = append(b, 1)
			add([]byte(*a.StringValue))
		}
	}
	return md5Of(b)
}

func TestGoSDKQueues(t *testing.T) {
	n := startNode(t, "--memory")
	s := newSDK(t, n)
	url := s.create("jobs", map[string]string{"DelaySeconds": "0", "VisibilityTimeout": "7"})
	if want := n.url() + "/000000000000/jobs"; *url != want {
		t.Errorf("queue URL %s, want %s", *url, want)
	}
	if again := s.create("jobs", map[string]string{"VisibilityTimeout": "7"}); *again != *url {
		t.Errorf("a repeat of the creation gave %s", *again)
	}
	_, err := s.CreateQueue(t.Context(), &sqs.CreateQueueInput{
		QueueName: aws.String("jobs"), Attributes: map[string]string{"VisibilityTimeout": "8"},
	})
	if exists := (*types.QueueNameExists)(nil); !errors.As(err, &exists) {
		t.Errorf("creation with another attribute: got %v, want QueueNameExists", err)
	}
	got, err := s.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String("jobs")})
	if err != nil || *got.QueueUrl != *url {
		t.Errorf("queue URL: got %v, %v", got, err)
	}
	_, err = s.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String("none")})
	if gone := (*types.QueueDoesNotExist)(nil); !errors.As(err, &gone) {
		t.Errorf("URL of no queue: got %v, want QueueDoesNotExist", err)
	}
	if _, err := s.SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{
		QueueUrl: url, Attributes: map[string]string{"ReceiveMessageWaitTimeSeconds": "3", "MaximumMessageSize": "2048"},
	}); err != nil {
		t.Errorf("set attributes: %v", err)
	}
	a := s.attributes(url, types.QueueAttributeNameAll)
	for name, want := range map[string]string{
		"VisibilityTimeout": "7", "ReceiveMessageWaitTimeSeconds": "3", "MaximumMessageSize": "2048", "DelaySeconds": "0",
		"MessageRetentionPeriod": "345600", "QueueArn": "arn:aws:sqs:us-east-1:000000000000:jobs", "ApproximateNumberOfMessages": "0",
	} {
		if a[name] != want {
			t.Errorf("attribute %s is %q, want %q", name, a[name], want)
		}
	}
	some := s.attributes(url, types.QueueAttributeNameVisibilityTimeout)
	if len(some) != 1 {
		t.Errorf("asked for one attribute, got %v", some)
	}
	if _, err := s.DeleteQueue(t.Context(), &sqs.DeleteQueueInput{QueueUrl: url}); err != nil {
		t.Errorf("delete queue: %v", err)
	}
	_, err = s.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: url, MessageBody: aws.String("x")})
	wantCode(t, "send to a deleted queue", err, 400, queryPrefix+"NonExistentQueue")
	_, err = s.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("jobs")})
	wantCode(t, "creation right after the deletion", err, 400, queryPrefix+"QueueDeletedRecently")
	n.alive()
}

func TestGoSDKListsQueuesInPages(t *testing.T) {
	s := newSDK(t, startNode(t, "--memory"))
	var want []string
	for i := range 25 {
		want = append(want, *s.create(fmt.Sprintf("list-%02d", i), nil))
	}
	s.create("other", nil)
	var got []string
	pages := 0
	for p := sqs.NewListQueuesPaginator(s.Client, &sqs.ListQueuesInput{QueueNamePrefix: aws.String("list-"), MaxResults: aws.Int32(10)}); p.HasMorePages(); pages++ {
		out, err := p.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, out.QueueUrls...)
	}
	slices.Sort(got)
	if pages != 3 || !slices.Equal(got, want) {
		t.Errorf("got %d queues on %d pages, want %d on 3", len(got), pages, len(want))
	}
	all, err := s.ListQueues(t.Context(), &sqs.ListQueuesInput{})
	if err != nil || len(all.QueueUrls) != 26 || all.NextToken != nil {
		t.Errorf("without a limit: %v, %v; want 26 queues and no token", all, err)
	}
}

func TestGoSDKMessagesComeWhole(t *testing.T) {
	s := newSDK(t, startNode(t, "--memory"))
	queue := s.create("q", nil)
	body := "äöü€😀 <a href=\"x\">&amp;</a> \\ \t\r\n \u2028 end"
	attributes := map[string]types.MessageAttributeValue{
		"text":         {DataType: aws.String("String"), StringValue: aws.String("wört <&>")},
		"text.label":   {DataType: aws.String("String.custom"), StringValue: aws.String("x")},
		"number":       {DataType: aws.String("Number"), StringValue: aws.String("-1.5e10")},
		"number.float": {DataType: aws.String("Number.float"), StringValue: aws.String("3.14")},
		"binary":       {DataType: aws.String("Binary"), BinaryValue: []byte{0, 1, 254, 255}},
		"binary.png":   {DataType: aws.String("Binary.png"), BinaryValue: []byte("x")},
	}
	trace := "Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=1"
	before := time.Now()
	sent, err := s.SendMessage(t.Context(), &sqs.SendMessageInput{
		QueueUrl: queue, MessageBody: &body, MessageAttributes: attributes,
		MessageSystemAttributes: map[string]types.MessageSystemAttributeValue{
			"AWSTraceHeader": {DataType: aws.String("String"), StringValue: &trace},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := *sent.MD5OfMessageBody, md5Of([]byte(body)); got != want {
		t.Errorf("MD5 of the sent body %s, want %s", got, want)
	}
	if got, want := *sent.MD5OfMessageAttributes, md5OfAttributes(attributes); got != want {
		t.Errorf("MD5 of the sent attributes %s, want %s", got, want)
	}
	if sent.MD5OfMessageSystemAttributes == nil || sent.SequenceNumber != nil {
		t.Errorf("system MD5 %v, sequence number %v", sent.MD5OfMessageSystemAttributes, sent.SequenceNumber)
	}
	m := s.takeAll(queue, 1)[0]
	if *m.Body != body || *m.MessageId != *sent.MessageId || *m.MD5OfBody != *sent.MD5OfMessageBody {
		t.Errorf("got %+v", m)
	}
	if got, want := *m.MD5OfMessageAttributes, *sent.MD5OfMessageAttributes; got != want || len(m.MessageAttributes) != len(attributes) {
		t.Errorf("MD5 of the received attributes %s, want %s", got, want)
	}
	for name, want := range attributes {
		got := m.MessageAttributes[name]
		if aws.ToString(got.DataType) != *want.DataType || aws.ToString(got.StringValue) != aws.ToString(want.StringValue) ||
			string(got.BinaryValue) != string(want.BinaryValue) {
			t.Errorf("attribute %s: got %+v", name, got)
		}
	}
	sentAt, err := strconv.ParseInt(m.Attributes["SentTimestamp"], 10, 64)
	if err != nil || sentAt < before.UnixMilli()-1000 || sentAt > time.Now().UnixMilli()+1000 {
		t.Errorf("SentTimestamp %q, %v", m.Attributes["SentTimestamp"], err)
	}
	if m.Attributes["ApproximateReceiveCount"] != "1" || m.Attributes["AWSTraceHeader"] != trace || m.Attributes["SenderId"] == "" {
		t.Errorf("system attributes %v", m.Attributes)
	}
}

func TestGoSDKChoosesAttributes(t *testing.T) {
	s := newSDK(t, startNode(t, "--memory"))
	queue := s.create("q", map[string]string{"VisibilityTimeout": "0"})
	value := func(v string) types.MessageAttributeValue {
		return types.MessageAttributeValue{DataType: aws.String("String"), StringValue: aws.String(v)}
	}
	all := map[string]types.MessageAttributeValue{"a.x": value("1"), "a.y": value("2"), "b": value("3")}
	if _, err := s.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: queue, MessageBody: aws.String("x"), MessageAttributes: all}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ ask, want []string }{
		{nil, nil},
		{[]string{"b"}, []string{"b"}},
		{[]string{"a.*"}, []string{"a.x", "a.y"}},
		{[]string{".*"}, []string{"a.x", "a.y", "b"}},
		{[]string{"none"}, nil},
	} {
		out, err := s.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: queue, MessageAttributeNames: c.ask, WaitTimeSeconds: 2})
		if err != nil || len(out.Messages) != 1 {
			t.Fatalf("asking for %v: %v, %v", c.ask, out, err)
		}
		m := out.Messages[0]
		if got := slices.Sorted(maps.Keys(m.MessageAttributes)); !slices.Equal(got, c.want) {
			t.Errorf("asking for %v gave %v, want %v", c.ask, got, c.want)
		}
		if len(c.want) == 0 {
			if m.MD5OfMessageAttributes != nil {
				t.Errorf("asking for %v gave an MD5 of no attributes", c.ask)
			}
		} else if got, want := aws.ToString(m.MD5OfMessageAttributes), md5OfAttributes(m.MessageAttributes); got != want {
			t.Errorf("asking for %v: MD5 %s, want %s", c.ask, got, want)
		}
	}
}

func TestGoSDKBatches(t *testing.T) {
	s := newSDK(t, startNode(t, "--memory"))
	queue := s.create("q", nil)
	var entries []types.SendMessageBatchRequestEntry
	for i := range 10 {
		entries = append(entries, types.SendMessageBatchRequestEntry{Id: aws.String(fmt.Sprintf("e_%d", i)), MessageBody: aws.String(fmt.Sprint(i))})
	}
	entries[3].MessageBody = aws.String("not \x01 allowed")
	sent, err := s.SendMessageBatch(t.Context(), &sqs.SendMessageBatchInput{QueueUrl: queue, Entries: entries})
	if err != nil {
		t.Fatal(err)
	}
	if len(sent.Successful) != 9 || len(sent.Failed) != 1 || *sent.Failed[0].Id != "e_3" || *sent.Failed[0].Code != "InvalidMessageContents" || !sent.Failed[0].SenderFault {
		t.Errorf("got %d sent, failed %+v", len(sent.Successful), sent.Failed)
	}
	got := s.takeAll(queue, 9)
	var change []types.ChangeMessageVisibilityBatchRequestEntry
	var remove []types.DeleteMessageBatchRequestEntry
	for i, m := range got {
		id := aws.String(fmt.Sprint(i))
		change = append(change, types.ChangeMessageVisibilityBatchRequestEntry{Id: id, ReceiptHandle: m.ReceiptHandle, VisibilityTimeout: 100})
		remove = append(remove, types.DeleteMessageBatchRequestEntry{Id: id, ReceiptHandle: m.ReceiptHandle})
	}
	change[0].VisibilityTimeout = 0
	change = append(change, types.ChangeMessageVisibilityBatchRequestEntry{Id: aws.String("bad"), ReceiptHandle: aws.String("garbage"), VisibilityTimeout: 1})
	changed, err := s.ChangeMessageVisibilityBatch(t.Context(), &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: queue, Entries: change})
	if err != nil || len(changed.Successful) != 9 || len(changed.Failed) != 1 || *changed.Failed[0].Code != "ReceiptHandleIsInvalid" {
		t.Fatalf("change visibility: %+v, %v", changed, err)
	}
	again := s.takeAll(queue, 1)
	if *again[0].MessageId != *got[0].MessageId || again[0].Attributes["ApproximateReceiveCount"] != "2" {
		t.Errorf("the message set to 0 came back as %+v", again[0])
	}
	remove[0].ReceiptHandle = again[0].ReceiptHandle
	removed, err := s.DeleteMessageBatch(t.Context(), &sqs.DeleteMessageBatchInput{QueueUrl: queue, Entries: remove})
	if err != nil || len(removed.Successful) != 9 || len(removed.Failed) != 0 {
		t.Errorf("delete: %+v, %v", removed, err)
	}
	a := s.attributes(queue, types.QueueAttributeNameAll)
	if a["ApproximateNumberOfMessages"] != "0" || a["ApproximateNumberOfMessagesNotVisible"] != "0" {
		t.Errorf("after all deletes: %v", a)
	}
}

func TestGoSDKDelaysAndLongPolls(t *testing.T) {
	s := newSDK(t, startNode(t, "--memory"))
	queue := s.create("q", nil)
	began := time.Now()
	if _, err := s.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: queue, MessageBody: aws.String("late"), DelaySeconds: 1}); err != nil {
		t.Fatal(err)
	}
	if got := s.take(queue, 0); len(got) > 0 && time.Since(began) < time.Second {
		t.Errorf("a delayed message came at once: %+v", got)
	}
	if a := s.attributes(queue, types.QueueAttributeNameApproximateNumberOfMessagesDelayed); a["ApproximateNumberOfMessagesDelayed"] != "1" && time.Since(began) < time.Second {
		t.Errorf("delayed messages: %v", a)
	}
	got := s.take(queue, 20) // woken when it is due
	if len(got) != 1 || *got[0].Body != "late" || time.Since(began) < time.Second {
		t.Fatalf("after %v: %+v", time.Since(began), got)
	}
	s.drop(queue, got[0])

	woken := make(chan []types.Message, 1)
	go func() {
		out, err := s.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: queue, WaitTimeSeconds: 20})
		if err != nil {
			t.Errorf("long poll: %v", err)
			out = &sqs.ReceiveMessageOutput{}
		}
		woken <- out.Messages
	}()
	s.sendText(queue, "wake")
	if got := <-woken; len(got) != 1 || *got[0].Body != "wake" {
		t.Errorf("the long poll got %+v", got)
	}
}

func TestGoSDKVisibility(t *testing.T) {
	s := newSDK(t, startNode(t, "--memory"))
	queue := s.create("q", map[string]string{"VisibilityTimeout": "1"})
	s.sendText(queue, "x")
	first := s.takeAll(queue, 1)[0]
	second := s.takeAll(queue, 1)[0] // after its visibility timeout
	if *first.MessageId != *second.MessageId || *first.ReceiptHandle == *second.ReceiptHandle || second.Attributes["ApproximateReceiveCount"] != "2" {
		t.Errorf("first %+v, second %+v", first, second)
	}
	if second.Attributes["ApproximateFirstReceiveTimestamp"] != first.Attributes["ApproximateFirstReceiveTimestamp"] {
		t.Error("the time of the first receive has changed")
	}
	if _, err := s.ChangeMessageVisibility(t.Context(), &sqs.ChangeMessageVisibilityInput{
		QueueUrl: queue, ReceiptHandle: second.ReceiptHandle, VisibilityTimeout: 43200,
	}); err != nil {
		t.Errorf("change visibility: %v", err)
	}
	if got := s.take(queue, 2); len(got) > 0 {
		t.Errorf("a message that is hidden for 12 hours came: %+v", got)
	}
	s.drop(queue, second)
	s.drop(queue, second) // again: success
	_, err := s.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: queue, ReceiptHandle: aws.String("garbage")})
	wantCode(t, "delete by garbage", err, http.StatusNotFound, "ReceiptHandleIsInvalid")
	_, err = s.ChangeMessageVisibility(t.Context(), &sqs.ChangeMessageVisibilityInput{QueueUrl: queue, ReceiptHandle: second.ReceiptHandle, VisibilityTimeout: 43201})
	wantCode(t, "13 hours", err, http.StatusBadRequest, "InvalidParameterValue")
}

func TestGoSDKPurges(t *testing.T) {
	s := newSDK(t, startNode(t, "--memory"))
	queue := s.create("q", nil)
	for range 5 {
		s.sendText(queue, "x")
	}
	s.take(queue, 0)
	if _, err := s.PurgeQueue(t.Context(), &sqs.PurgeQueueInput{QueueUrl: queue}); err != nil {
		t.Fatal(err)
	}
	a := s.attributes(queue, types.QueueAttributeNameAll)
	if a["ApproximateNumberOfMessages"] != "0" || a["ApproximateNumberOfMessagesNotVisible"] != "0" {
		t.Errorf("after the purge: %v", a)
	}
	_, err := s.PurgeQueue(t.Context(), &sqs.PurgeQueueInput{QueueUrl: queue})
	if busy := (*types.PurgeQueueInProgress)(nil); !errors.As(err, &busy) {
		t.Errorf("second purge: got %v, want PurgeQueueInProgress", err)
	}
	s.sendText(queue, "after")
	if got := s.takeAll(queue, 1); *got[0].Body != "after" {
		t.Errorf("got %q", *got[0].Body)
	}
}
