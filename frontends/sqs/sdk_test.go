package sqs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends/frontendtest"
)

// newSDK returns AWS's own client of a server on a real core. It checks the
// digests of what it receives by itself.
func newSDK(t *testing.T, o Options) *sdk.Client {
	t.Helper()
	return newSDKOf(t, frontendtest.NewEngine(t), o)
}

func newSDKOf(t *testing.T, e *core.Engine, o Options) *sdk.Client {
	t.Helper()
	address := listen(t, newTestServer(t, e, o))
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return sdk.New(sdk.Options{
		BaseEndpoint: aws.String("http://" + address),
		Region:       "us-east-1",
		Credentials:  credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "secret", ""),
		HTTPClient:   &http.Client{Transport: transport},
		Retryer:      aws.NopRetryer{},
	})
}

// must fails the test on an error.
func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// wantCode checks the code of an answer's error as clients see it.
func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	var api smithy.APIError
	if !errors.As(err, &api) || api.ErrorCode() != code {
		t.Errorf("got %v, want the error %s", err, code)
	}
}

func createSDK(t *testing.T, c *sdk.Client, name string, attributes map[string]string) *string {
	t.Helper()
	return must[*sdk.CreateQueueOutput](t)(c.CreateQueue(t.Context(), &sdk.CreateQueueInput{
		QueueName: &name, Attributes: attributes, Tags: map[string]string{"team": "shop"},
	})).QueueUrl
}

func TestSDKQueues(t *testing.T) {
	ctx := t.Context()
	c := newSDK(t, Options{RelaxedLimits: true})
	var urls []string
	for i := range 5 {
		urls = append(urls, *createSDK(t, c, fmt.Sprint("q", i), map[string]string{"DelaySeconds": "3"}))
	}
	got := must[*sdk.GetQueueUrlOutput](t)(c.GetQueueUrl(ctx, &sdk.GetQueueUrlInput{QueueName: aws.String("q3")}))
	if *got.QueueUrl != urls[3] {
		t.Errorf("GetQueueUrl: %s, want %s", *got.QueueUrl, urls[3])
	}
	var listed []string
	pages := sdk.NewListQueuesPaginator(c, &sdk.ListQueuesInput{QueueNamePrefix: aws.String("q"), MaxResults: aws.Int32(2)})
	for pages.HasMorePages() {
		listed = append(listed, must[*sdk.ListQueuesOutput](t)(pages.NextPage(ctx)).QueueUrls...)
	}
	if !slices.Equal(listed, urls) {
		t.Errorf("ListQueues: %v, want %v", listed, urls)
	}
	must[*sdk.SetQueueAttributesOutput](t)(c.SetQueueAttributes(ctx, &sdk.SetQueueAttributesInput{
		QueueUrl: &urls[0], Attributes: map[string]string{"VisibilityTimeout": "7"},
	}))
	attributes := must[*sdk.GetQueueAttributesOutput](t)(c.GetQueueAttributes(ctx, &sdk.GetQueueAttributesInput{
		QueueUrl: &urls[0], AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
	})).Attributes
	if attributes["VisibilityTimeout"] != "7" || attributes["DelaySeconds"] != "3" || len(attributes) != 12 {
		t.Errorf("attributes: %v", attributes)
	}
	must[*sdk.PurgeQueueOutput](t)(c.PurgeQueue(ctx, &sdk.PurgeQueueInput{QueueUrl: &urls[0]}))
	must[*sdk.DeleteQueueOutput](t)(c.DeleteQueue(ctx, &sdk.DeleteQueueInput{QueueUrl: &urls[0]}))
	_, err := c.GetQueueUrl(ctx, &sdk.GetQueueUrlInput{QueueName: aws.String("q0")})
	var gone *types.QueueDoesNotExist
	if !errors.As(err, &gone) || gone.ErrorCode() != "AWS.SimpleQueueService.NonExistentQueue" {
		t.Errorf("GetQueueUrl after the deletion: %v", err)
	}
}

func TestSDKMessages(t *testing.T) {
	ctx := t.Context()
	c := newSDK(t, Options{})
	url := createSDK(t, c, "q", nil)
	sent := must[*sdk.SendMessageOutput](t)(c.SendMessage(ctx, &sdk.SendMessageInput{
		QueueUrl: url, MessageBody: aws.String("hällo <&> \"x\" \\ 😀\r\n"),
		MessageAttributes: map[string]types.MessageAttributeValue{
			"s": {DataType: aws.String("String"), StringValue: aws.String("v")},
			"n": {DataType: aws.String("Number.int"), StringValue: aws.String("42")},
			"b": {DataType: aws.String("Binary"), BinaryValue: []byte{0, 1, 255}},
		},
		MessageSystemAttributes: map[string]types.MessageSystemAttributeValue{
			"AWSTraceHeader": {DataType: aws.String("String"), StringValue: aws.String("Root=1-5759e988-bd862e3fe1be46a994272793")},
		},
	}))
	m := must[*sdk.ReceiveMessageOutput](t)(c.ReceiveMessage(ctx, &sdk.ReceiveMessageInput{
		QueueUrl: url, WaitTimeSeconds: 20, MessageAttributeNames: []string{"All"},
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
	})).Messages[0]
	if *m.MessageId != *sent.MessageId || *m.MD5OfMessageAttributes != *sent.MD5OfMessageAttributes || *m.MD5OfBody != *sent.MD5OfMessageBody {
		t.Errorf("received %+v, sent %+v", m, sent)
	}
	if *m.Body != "hällo <&> \"x\" \\ 😀\r\n" || string(m.MessageAttributes["b"].BinaryValue) != "\x00\x01\xff" || *m.MessageAttributes["n"].DataType != "Number.int" {
		t.Errorf("received %q %v", *m.Body, m.MessageAttributes)
	}
	if m.Attributes["ApproximateReceiveCount"] != "1" || m.Attributes["AWSTraceHeader"] == "" {
		t.Errorf("system attributes: %v", m.Attributes)
	}
	must[*sdk.ChangeMessageVisibilityOutput](t)(c.ChangeMessageVisibility(ctx, &sdk.ChangeMessageVisibilityInput{QueueUrl: url, ReceiptHandle: m.ReceiptHandle, VisibilityTimeout: 0}))
	m = must[*sdk.ReceiveMessageOutput](t)(c.ReceiveMessage(ctx, &sdk.ReceiveMessageInput{QueueUrl: url, WaitTimeSeconds: 20})).Messages[0]
	must[*sdk.DeleteMessageOutput](t)(c.DeleteMessage(ctx, &sdk.DeleteMessageInput{QueueUrl: url, ReceiptHandle: m.ReceiptHandle}))
	_, err := c.DeleteMessage(ctx, &sdk.DeleteMessageInput{QueueUrl: url, ReceiptHandle: aws.String("garbage")})
	var invalid *types.ReceiptHandleIsInvalid
	if !errors.As(err, &invalid) {
		t.Errorf("deleting by garbage: %v", err)
	}
	_, err = c.SendMessage(ctx, &sdk.SendMessageInput{QueueUrl: url, MessageBody: aws.String(strings.Repeat("x", defaultMessageBytesMax+1))})
	var api smithy.APIError
	if !errors.As(err, &api) || api.ErrorCode() != "InvalidParameterValue" {
		t.Errorf("sending too much: %v", err)
	}
}

func TestSDKBatches(t *testing.T) {
	ctx := t.Context()
	c := newSDK(t, Options{})
	url := createSDK(t, c, "q.fifo", map[string]string{"FifoQueue": "true", "ContentBasedDeduplication": "true"})
	var entries []types.SendMessageBatchRequestEntry
	for i := range 10 {
		entries = append(entries, types.SendMessageBatchRequestEntry{Id: aws.String(fmt.Sprint(i)), MessageBody: aws.String(fmt.Sprint("m", i)), MessageGroupId: aws.String("g")})
	}
	sent := must[*sdk.SendMessageBatchOutput](t)(c.SendMessageBatch(ctx, &sdk.SendMessageBatchInput{QueueUrl: url, Entries: entries}))
	if len(sent.Successful) != 10 || len(sent.Failed) != 0 || sent.Successful[0].SequenceNumber == nil || *sent.Successful[0].SequenceNumber >= *sent.Successful[9].SequenceNumber {
		t.Errorf("sent: %+v", sent)
	}
	messages := must[*sdk.ReceiveMessageOutput](t)(c.ReceiveMessage(ctx, &sdk.ReceiveMessageInput{QueueUrl: url, MaxNumberOfMessages: 10, WaitTimeSeconds: 20})).Messages
	var extend []types.ChangeMessageVisibilityBatchRequestEntry
	var remove []types.DeleteMessageBatchRequestEntry
	for i, m := range messages {
		if *m.Body != fmt.Sprint("m", i) {
			t.Errorf("message %d is %s", i, *m.Body)
		}
		extend = append(extend, types.ChangeMessageVisibilityBatchRequestEntry{Id: aws.String(fmt.Sprint(i)), ReceiptHandle: m.ReceiptHandle, VisibilityTimeout: 60})
		remove = append(remove, types.DeleteMessageBatchRequestEntry{Id: aws.String(fmt.Sprint(i)), ReceiptHandle: m.ReceiptHandle})
	}
	if len(messages) != 10 {
		t.Fatalf("received %d messages", len(messages))
	}
	extended := must[*sdk.ChangeMessageVisibilityBatchOutput](t)(c.ChangeMessageVisibilityBatch(ctx, &sdk.ChangeMessageVisibilityBatchInput{QueueUrl: url, Entries: extend}))
	if len(extended.Successful) != 10 || len(extended.Failed) != 0 {
		t.Errorf("extended: %+v", extended)
	}
	remove[9].ReceiptHandle = aws.String("garbage")
	removed := must[*sdk.DeleteMessageBatchOutput](t)(c.DeleteMessageBatch(ctx, &sdk.DeleteMessageBatchInput{QueueUrl: url, Entries: remove}))
	if len(removed.Successful) != 9 || len(removed.Failed) != 1 || *removed.Failed[0].Code != "ReceiptHandleIsInvalid" || !removed.Failed[0].SenderFault {
		t.Errorf("removed: %+v", removed)
	}
}

func TestSDKTypedErrors(t *testing.T) {
	ctx := t.Context()
	c := newSDK(t, Options{})
	url := createSDK(t, c, "q", nil)
	_, err := c.SendMessageBatch(ctx, &sdk.SendMessageBatchInput{QueueUrl: url, Entries: []types.SendMessageBatchRequestEntry{}})
	var empty *types.EmptyBatchRequest
	if !errors.As(err, &empty) {
		t.Errorf("an empty batch: %v", err)
	}
	_, err = c.CreateQueue(ctx, &sdk.CreateQueueInput{QueueName: aws.String("q"), Attributes: map[string]string{"DelaySeconds": "9"}})
	var exists *types.QueueNameExists
	if !errors.As(err, &exists) {
		t.Errorf("a queue that exists: %v", err)
	}
	_, err = c.SetQueueAttributes(ctx, &sdk.SetQueueAttributesInput{QueueUrl: url, Attributes: map[string]string{"Nope": "1"}})
	var name *types.InvalidAttributeName
	if !errors.As(err, &name) {
		t.Errorf("an unknown attribute: %v", err)
	}
	must[*sdk.PurgeQueueOutput](t)(c.PurgeQueue(ctx, &sdk.PurgeQueueInput{QueueUrl: url}))
	_, err = c.PurgeQueue(ctx, &sdk.PurgeQueueInput{QueueUrl: url})
	var purging *types.PurgeQueueInProgress
	if !errors.As(err, &purging) {
		t.Errorf("a second purge: %v", err)
	}
}

// A client that cancels its long poll loses no message to it.
func TestSDKCancelledPollLosesNothing(t *testing.T) {
	c := newSDK(t, Options{})
	url := createSDK(t, c, "q", nil)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := c.ReceiveMessage(ctx, &sdk.ReceiveMessageInput{QueueUrl: url, WaitTimeSeconds: 20}); err == nil {
		t.Fatal("the poll was not cancelled")
	}
	must[*sdk.SendMessageOutput](t)(c.SendMessage(t.Context(), &sdk.SendMessageInput{QueueUrl: url, MessageBody: aws.String("x")}))
	got := must[*sdk.ReceiveMessageOutput](t)(c.ReceiveMessage(t.Context(), &sdk.ReceiveMessageInput{
		QueueUrl: url, WaitTimeSeconds: 20, MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameApproximateReceiveCount},
	}))
	if len(got.Messages) != 1 || got.Messages[0].Attributes["ApproximateReceiveCount"] != "1" {
		t.Errorf("received %+v, want the message for the first time", got.Messages)
	}
}
