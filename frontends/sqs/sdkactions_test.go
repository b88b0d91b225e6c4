package sqs

import (
	"maps"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/sqs"
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
