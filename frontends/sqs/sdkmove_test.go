package sqs

import (
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

const testARN = "arn:aws:sqs:us-east-1:000000000000:"

// newestTask waits until the newest move task of source is in one of the states.
func newestTask(t *testing.T, c *sdk.Client, source string, states ...string) types.ListMessageMoveTasksResultEntry {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		out := must[*sdk.ListMessageMoveTasksOutput](t)(c.ListMessageMoveTasks(t.Context(), &sdk.ListMessageMoveTasksInput{SourceArn: &source}))
		if len(out.Results) != 1 {
			t.Fatalf("%d tasks, want the newest", len(out.Results))
		}
		for _, s := range states {
			if aws.ToString(out.Results[0].Status) == s {
				return out.Results[0]
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("the task is %s", *out.Results[0].Status)
		}
	}
}

// TestSDKMoveTasks: AWS's own client reads every answer and error of the three
// actions as what it is.
func TestSDKMoveTasks(t *testing.T) {
	ctx := t.Context()
	c := newSDK(t, Options{})
	dlq := createSDK(t, c, "dlq", nil)
	q := createSDK(t, c, "q", map[string]string{
		"VisibilityTimeout": "0",
		"RedrivePolicy":     `{"deadLetterTargetArn":"` + testARN + `dlq","maxReceiveCount":1}`,
	})
	for _, body := range []string{"a", "b", "c"} {
		must[*sdk.SendMessageOutput](t)(c.SendMessage(ctx, &sdk.SendMessageInput{QueueUrl: q, MessageBody: &body}))
	}
	for range 2 { // the second receive finds none: it moves them
		must[*sdk.ReceiveMessageOutput](t)(c.ReceiveMessage(ctx, &sdk.ReceiveMessageInput{QueueUrl: q, MaxNumberOfMessages: 10}))
	}
	source := testARN + "dlq"
	slow := &sdk.StartMessageMoveTaskInput{SourceArn: &source, DestinationArn: aws.String(testARN + "q"), MaxNumberOfMessagesPerSecond: aws.Int32(1)}
	started := must[*sdk.StartMessageMoveTaskOutput](t)(c.StartMessageMoveTask(ctx, slow))
	running := newestTask(t, c, source, "RUNNING")
	if *running.TaskHandle != *started.TaskHandle || *running.DestinationArn != testARN+"q" || *running.MaxNumberOfMessagesPerSecond != 1 ||
		*running.ApproximateNumberOfMessagesToMove != 3 || time.Since(time.UnixMilli(running.StartedTimestamp)).Abs() > time.Minute {
		t.Errorf("running: %+v", running)
	}
	if _, err := c.StartMessageMoveTask(ctx, slow); err == nil {
		t.Error("a second task of the source may start")
	}
	must[*sdk.CancelMessageMoveTaskOutput](t)(c.CancelMessageMoveTask(ctx, &sdk.CancelMessageMoveTaskInput{TaskHandle: started.TaskHandle}))
	cancelled := newestTask(t, c, source, "CANCELLED")
	if cancelled.TaskHandle != nil || cancelled.ApproximateNumberOfMessagesMoved > 2 {
		t.Errorf("cancelled: %+v", cancelled)
	}
	_, err := c.CancelMessageMoveTask(ctx, &sdk.CancelMessageMoveTaskInput{TaskHandle: started.TaskHandle})
	var none *types.ResourceNotFoundException
	if !errors.As(err, &none) || none.ErrorMessage() != "Task does not exist." {
		t.Errorf("cancelled again: %v", err)
	}
	must[*sdk.StartMessageMoveTaskOutput](t)(c.StartMessageMoveTask(ctx, &sdk.StartMessageMoveTaskInput{SourceArn: &source}))
	done := newestTask(t, c, source, "COMPLETED", "FAILED")
	if *done.Status != "COMPLETED" || done.DestinationArn != nil || cancelled.ApproximateNumberOfMessagesMoved+done.ApproximateNumberOfMessagesMoved != 3 {
		t.Errorf("completed: %+v after %d", done, cancelled.ApproximateNumberOfMessagesMoved)
	}
	for url, want := range map[*string]string{q: "3", dlq: "0"} {
		got := must[*sdk.GetQueueAttributesOutput](t)(c.GetQueueAttributes(ctx, &sdk.GetQueueAttributesInput{
			QueueUrl: url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameApproximateNumberOfMessages},
		})).Attributes["ApproximateNumberOfMessages"]
		if got != want {
			t.Errorf("%s holds %s messages, want %s", *url, got, want)
		}
	}
}
