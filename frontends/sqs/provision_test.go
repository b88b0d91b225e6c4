package sqs

import (
	"encoding/json"
	"maps"
	"reflect"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

const (
	provisionedARN    = "arn:aws:sqs:us-east-1:000000000000:"
	provisionedPolicy = `{"Statement":[{"Action":"sqs:SendMessage","Effect":"Allow","Principal":{"Service":"sns.amazonaws.com"},"Resource":"*"}],"Version":"2012-10-17"}`
)

// provisioned are queues as Terraform's aws_sqs_queue sends them: each attribute
// that has a default or a value, JSON with its keys sorted, numbers as text.
// change is what a later apply changes.
func provisioned() map[string]struct{ create, change map[string]string } {
	standard := map[string]string{
		"DelaySeconds": "0", "MaximumMessageSize": "262144", "MessageRetentionPeriod": "345600",
		"ReceiveMessageWaitTimeSeconds": "0", "VisibilityTimeout": "30",
	}
	fifo := with(standard, map[string]string{"FifoQueue": "true", "ContentBasedDeduplication": "false"})
	return map[string]struct{ create, change map[string]string }{
		"plain":      {create: standard, change: map[string]string{"DelaySeconds": "5", "VisibilityTimeout": "0", "ReceiveMessageWaitTimeSeconds": "20"}},
		"largest":    {create: with(standard, map[string]string{"MaximumMessageSize": "1048576"}), change: map[string]string{"MaximumMessageSize": "1024"}},
		"plain.fifo": {create: fifo, change: map[string]string{"ContentBasedDeduplication": "true"}},
		"fast.fifo": {
			create: with(fifo, map[string]string{"DeduplicationScope": "messageGroup", "FifoThroughputLimit": "perMessageGroupId"}),
			change: map[string]string{"DeduplicationScope": "queue", "FifoThroughputLimit": "perQueue"},
		},
		"kms": {
			create: with(standard, map[string]string{"KmsMasterKeyId": "alias/aws/sqs", "KmsDataKeyReusePeriodSeconds": "600"}),
			change: map[string]string{"KmsMasterKeyId": ""},
		},
		"kms-only":  {create: with(standard, map[string]string{"KmsMasterKeyId": "alias/x"}), change: map[string]string{"KmsMasterKeyId": "", "SqsManagedSseEnabled": "true"}},
		"reuse":     {create: with(standard, map[string]string{"KmsDataKeyReusePeriodSeconds": "300"}), change: map[string]string{"KmsDataKeyReusePeriodSeconds": "86400"}},
		"managed":   {create: with(standard, map[string]string{"SqsManagedSseEnabled": "true"}), change: map[string]string{"SqsManagedSseEnabled": "false"}},
		"unmanaged": {create: with(standard, map[string]string{"SqsManagedSseEnabled": "false"}), change: map[string]string{"KmsMasterKeyId": "alias/x"}},
		"policy":    {create: with(standard, map[string]string{"Policy": provisionedPolicy}), change: map[string]string{"Policy": ""}},
		"source": {
			create: with(standard, map[string]string{"RedrivePolicy": `{"deadLetterTargetArn":"` + provisionedARN + `dlq","maxReceiveCount":4}`}),
			change: map[string]string{"RedrivePolicy": ""},
		},
		"guarded": {
			create: with(standard, map[string]string{"RedriveAllowPolicy": `{"redrivePermission":"byQueue","sourceQueueArns":["` + provisionedARN + `source"]}`}),
			change: map[string]string{"RedriveAllowPolicy": `{"redrivePermission":"denyAll"}`},
		},
	}
}

func with(a, b map[string]string) map[string]string {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

// What a tool that provisions queues has set reads back as it was sent, so that a
// second apply finds nothing to do.
func TestProvisioningSettlesAfterOneApply(t *testing.T) {
	defer ranCases.note(t)
	c := newSDK(t, Options{})
	createSDK(t, c, "dlq", nil)
	for name, tc := range provisioned() {
		t.Run(name, func(t *testing.T) {
			tags := map[string]string{"Name": name, "managed-by": "terraform"}
			create := &sdk.CreateQueueInput{QueueName: aws.String(name), Attributes: tc.create, Tags: tags}
			url := must[*sdk.CreateQueueOutput](t)(c.CreateQueue(t.Context(), create)).QueueUrl
			first := readQueue(t, c, url)
			wantEchoed(t, first, tc.create)
			if got := must[*sdk.ListQueueTagsOutput](t)(c.ListQueueTags(t.Context(), &sdk.ListQueueTagsInput{QueueUrl: url})).Tags; !maps.Equal(got, tags) {
				t.Errorf("tags: %v, want %v", got, tags)
			}
			// Again, whole: whether by creating it, or by setting what it has.
			must[*sdk.CreateQueueOutput](t)(c.CreateQueue(t.Context(), create))
			set := maps.Clone(tc.create)
			delete(set, "FifoQueue")
			must[*sdk.SetQueueAttributesOutput](t)(c.SetQueueAttributes(t.Context(), &sdk.SetQueueAttributesInput{QueueUrl: url, Attributes: set}))
			if second := readQueue(t, c, url); !maps.Equal(first, second) {
				t.Errorf("attributes were %v, are %v", first, second)
			}
			must[*sdk.SetQueueAttributesOutput](t)(c.SetQueueAttributes(t.Context(), &sdk.SetQueueAttributesInput{QueueUrl: url, Attributes: tc.change}))
			wantEchoed(t, readQueue(t, c, url), tc.change)
		})
	}
}

// readQueue returns all attributes but the time of the last change.
func readQueue(t *testing.T, c *sdk.Client, url *string) map[string]string {
	t.Helper()
	got := must[*sdk.GetQueueAttributesOutput](t)(c.GetQueueAttributes(t.Context(), &sdk.GetQueueAttributesInput{
		QueueUrl: url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
	})).Attributes
	delete(got, "LastModifiedTimestamp")
	return got
}

// wantEchoed checks that each attribute in sent is in got: the same text, an
// equal document, or absent if it was sent empty.
func wantEchoed(t *testing.T, got, sent map[string]string) {
	t.Helper()
	for name, want := range sent {
		is, ok := got[name]
		var a, b any
		switch {
		case is == want && (ok || want == ""):
		case json.Unmarshal([]byte(is), &a) == nil && json.Unmarshal([]byte(want), &b) == nil && reflect.DeepEqual(a, b):
		default:
			t.Errorf("%s is %q (present: %v), want %q", name, is, ok, want)
		}
	}
}
