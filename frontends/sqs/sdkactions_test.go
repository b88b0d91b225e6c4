package sqs

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

func TestSDKTags(t *testing.T) {
	ctx := t.Context()
	c := newSDK(t, Options{})
	url := createSDK(t, c, "q", nil)
	must[*sdk.TagQueueOutput](t)(c.TagQueue(ctx, &sdk.TagQueueInput{QueueUrl: url, Tags: map[string]string{"stage": "test", "owner": "x@example.org"}}))
	must[*sdk.UntagQueueOutput](t)(c.UntagQueue(ctx, &sdk.UntagQueueInput{QueueUrl: url, TagKeys: []string{"stage", "absent"}}))
	got := must[*sdk.ListQueueTagsOutput](t)(c.ListQueueTags(ctx, &sdk.ListQueueTagsInput{QueueUrl: url})).Tags
	if want := map[string]string{"team": "shop", "owner": "x@example.org"}; !maps.Equal(got, want) {
		t.Errorf("tags: %v, want %v", got, want)
	}
	_, err := c.TagQueue(ctx, &sdk.TagQueueInput{QueueUrl: url, Tags: map[string]string{"aws:x": "y"}})
	wantCode(t, err, "InvalidParameterValue")
	_, err = c.ListQueueTags(ctx, &sdk.ListQueueTagsInput{QueueUrl: aws.String("nope")})
	wantCode(t, err, "AWS.SimpleQueueService.NonExistentQueue")
}

func TestSDKPermissions(t *testing.T) {
	ctx := t.Context()
	c := newSDK(t, Options{})
	url := createSDK(t, c, "q", nil)
	policyNow := func() string {
		return must[*sdk.GetQueueAttributesOutput](t)(c.GetQueueAttributes(ctx, &sdk.GetQueueAttributesInput{
			QueueUrl: url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNamePolicy},
		})).Attributes["Policy"]
	}
	add := &sdk.AddPermissionInput{QueueUrl: url, Label: aws.String("l"), AWSAccountIds: []string{"111122223333"}, Actions: []string{"SendMessage"}}
	must[*sdk.AddPermissionOutput](t)(c.AddPermission(ctx, add))
	var p struct {
		Version, ID string
		Statement   []struct {
			Sid, Effect, Action, Resource string
			Principal                     struct{ AWS string }
		}
	}
	if err := json.Unmarshal([]byte(policyNow()), &p); err != nil || len(p.Statement) != 1 || p.Version == "" || p.ID == "" {
		t.Fatalf("policy %s: %v", policyNow(), err)
	}
	if s := p.Statement[0]; s.Sid != "l" || s.Effect != "Allow" || s.Action != "SQS:SendMessage" ||
		s.Resource != "arn:aws:sqs:us-east-1:000000000000:q" || s.Principal.AWS != "arn:aws:iam::111122223333:root" {
		t.Errorf("statement: %+v", s)
	}
	_, err := c.AddPermission(ctx, add)
	wantCode(t, err, "InvalidParameterValue")
	add.Label, add.Actions = aws.String("many"), slices.Repeat([]string{"SendMessage"}, 8)
	_, err = c.AddPermission(ctx, add)
	wantCode(t, err, "OverLimit")
	remove := &sdk.RemovePermissionInput{QueueUrl: url, Label: aws.String("l")}
	must[*sdk.RemovePermissionOutput](t)(c.RemovePermission(ctx, remove))
	if now := policyNow(); now != "" {
		t.Errorf("the policy is %s, want none", now)
	}
	_, err = c.RemovePermission(ctx, remove)
	wantCode(t, err, "InvalidParameterValue")
}

// A policy grows up to its bound, and no further.
func TestPermissionsAreBounded(t *testing.T) {
	ctx := t.Context()
	c := newSDK(t, Options{})
	url := createSDK(t, c, "q", nil)
	add := &sdk.AddPermissionInput{QueueUrl: url, AWSAccountIds: []string{"111122223333"}, Actions: []string{"SendMessage"}}
	for i := range policyStatementsMax {
		add.Label = aws.String(fmt.Sprint("l", i))
		must[*sdk.AddPermissionOutput](t)(c.AddPermission(ctx, add))
	}
	add.Label = aws.String("more")
	_, err := c.AddPermission(ctx, add)
	wantCode(t, err, "OverLimit")
	must[*sdk.RemovePermissionOutput](t)(c.RemovePermission(ctx, &sdk.RemovePermissionInput{QueueUrl: url, Label: aws.String("l3")}))
	add.AWSAccountIds = nil
	for i := range 500 {
		add.AWSAccountIds = append(add.AWSAccountIds, fmt.Sprintf("%012d", i))
	}
	_, err = c.AddPermission(ctx, add)
	wantCode(t, err, "OverLimit")
}

func TestSDKDeadLetterSources(t *testing.T) {
	ctx := t.Context()
	c := newSDK(t, Options{})
	dlq := createSDK(t, c, "dlq", nil)
	var urls []string
	for i := range 5 {
		urls = append(urls, *createSDK(t, c, fmt.Sprint("q", i), map[string]string{
			"RedrivePolicy": `{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:dlq","maxReceiveCount":5}`,
		}))
	}
	var listed []string
	pages := sdk.NewListDeadLetterSourceQueuesPaginator(c, &sdk.ListDeadLetterSourceQueuesInput{QueueUrl: dlq, MaxResults: aws.Int32(2)})
	for pages.HasMorePages() {
		listed = append(listed, must[*sdk.ListDeadLetterSourceQueuesOutput](t)(pages.NextPage(ctx)).QueueUrls...)
	}
	if !slices.Equal(listed, urls) {
		t.Errorf("sources: %v, want %v", listed, urls)
	}
	_, err := c.ListDeadLetterSourceQueues(ctx, &sdk.ListDeadLetterSourceQueuesInput{QueueUrl: aws.String("nope")})
	wantCode(t, err, "AWS.SimpleQueueService.NonExistentQueue")
}

// A client that puts LocalStack's path into its endpoint looks without receiving.
func TestSDKPeeks(t *testing.T) {
	ctx := t.Context()
	c := newSDK(t, Options{})
	url := createSDK(t, c, "q", nil)
	sent := must[*sdk.SendMessageOutput](t)(c.SendMessage(ctx, &sdk.SendMessageInput{QueueUrl: url, MessageBody: aws.String("x")}))
	peeking := func(o *sdk.Options) { o.BaseEndpoint = aws.String(*o.BaseEndpoint + "/_aws/sqs/messages") }
	for range 2 {
		got := must[*sdk.ReceiveMessageOutput](t)(c.ReceiveMessage(ctx, &sdk.ReceiveMessageInput{QueueUrl: url}, peeking)).Messages
		if len(got) != 1 || *got[0].MessageId != *sent.MessageId || got[0].Attributes["ApproximateReceiveCount"] != "0" {
			t.Fatalf("peeked %+v", got)
		}
	}
	_, err := c.PurgeQueue(ctx, &sdk.PurgeQueueInput{QueueUrl: url}, peeking)
	wantCode(t, err, "InvalidAction")
}
