package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// sendTo sends to a group of a FIFO queue.
func (s *sdk) sendTo(queue *string, group, dedup, body string) *sqs.SendMessageOutput {
	s.t.Helper()
	in := &sqs.SendMessageInput{QueueUrl: queue, MessageBody: &body, MessageGroupId: &group}
	if dedup != "" {
		in.MessageDeduplicationId = &dedup
	}
	out, err := s.SendMessage(s.t.Context(), in)
	if err != nil {
		s.t.Fatalf("send %s to %s: %v", body, group, err)
	}
	return out
}

func bodiesOf(messages []types.Message) []string {
	var b []string
	for _, m := range messages {
		b = append(b, *m.Body)
	}
	return b
}

func TestGoSDKFIFOKeepsOrderAndLocksGroups(t *testing.T) {
	s := newSDK(t, startNode(t, "--memory"))
	queue := s.create("q.fifo", map[string]string{"FifoQueue": "true", "ContentBasedDeduplication": "true"})
	last := ""
	for i := range 5 {
		out := s.sendTo(queue, "g", "", fmt.Sprintf("g%d", i))
		if len(*out.SequenceNumber) != 20 || *out.SequenceNumber <= last {
			t.Errorf("sequence number %s after %s", *out.SequenceNumber, last)
		}
		last = *out.SequenceNumber
	}
	out, err := s.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{
		QueueUrl: queue, MaxNumberOfMessages: 2, MessageSystemAttributeNames: []types.MessageSystemAttributeName{"All"},
	})
	if err != nil {
		t.Fatal(err)
	}
	first := out.Messages
	if got := bodiesOf(first); !slices.Equal(got, []string{"g0", "g1"}) {
		t.Fatalf("got %v, want g0 and g1", got)
	}
	if a := first[0].Attributes; a["MessageGroupId"] != "g" || a["MessageDeduplicationId"] == "" || a["SequenceNumber"] == "" {
		t.Errorf("attributes %v", a)
	}
	if got := s.take(queue, 0); len(got) > 0 {
		t.Errorf("a locked group gave %v", bodiesOf(got))
	}
	s.sendTo(queue, "h", "", "h0")
	if got := bodiesOf(s.take(queue, 0)); !slices.Equal(got, []string{"h0"}) {
		t.Errorf("the other group gave %v", got)
	}
	s.drop(queue, first[0])
	if got := s.take(queue, 0); len(got) > 0 {
		t.Errorf("a group with one message still in flight gave %v", bodiesOf(got))
	}
	s.drop(queue, first[1])
	if got := bodiesOf(s.take(queue, 2)); !slices.Equal(got, []string{"g2", "g3", "g4"}) {
		t.Errorf("got %v, want g2, g3, g4", got)
	}
}

func TestGoSDKFIFODeduplicates(t *testing.T) {
	s := newSDK(t, startNode(t, "--memory"))
	queue := s.create("q.fifo", map[string]string{"FifoQueue": "true"})
	first := s.sendTo(queue, "g", "d", "one")
	second := s.sendTo(queue, "g", "d", "two")
	if *first.MessageId != *second.MessageId || *first.SequenceNumber != *second.SequenceNumber {
		t.Errorf("a duplicate was answered with %s, %s; want %s, %s", *second.MessageId, *second.SequenceNumber, *first.MessageId, *first.SequenceNumber)
	}
	got := s.take(queue, 2)
	if len(got) != 1 || *got[0].Body != "one" {
		t.Fatalf("got %v", bodiesOf(got))
	}
	s.drop(queue, got[0])
	if third := s.sendTo(queue, "g", "d", "three"); *third.MessageId != *first.MessageId {
		t.Error("the deletion made the broker forget the deduplication id")
	}
	if got := s.take(queue, 0); len(got) > 0 {
		t.Errorf("a duplicate arrived: %v", bodiesOf(got))
	}
	_, err := s.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: queue, MessageBody: aws.String("x"), MessageGroupId: aws.String("g")})
	wantCode(t, "no deduplication id", err, http.StatusBadRequest, "InvalidParameterValue")
	_, err = s.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: queue, MessageBody: aws.String("x"), MessageDeduplicationId: aws.String("e")})
	wantCode(t, "no group", err, http.StatusBadRequest, "MissingParameter")
}

func TestGoSDKFIFOBatchKeepsOrder(t *testing.T) {
	s := newSDK(t, startNode(t, "--memory"))
	queue := s.create("q.fifo", map[string]string{"FifoQueue": "true"})
	var want []string
	for b := range 3 {
		var entries []types.SendMessageBatchRequestEntry
		for i := range 10 {
			id := fmt.Sprintf("%d-%d", b, i)
			want = append(want, id)
			entries = append(entries, types.SendMessageBatchRequestEntry{
				Id: &id, MessageBody: &id, MessageGroupId: aws.String("g"), MessageDeduplicationId: &id,
			})
		}
		out, err := s.SendMessageBatch(t.Context(), &sqs.SendMessageBatchInput{QueueUrl: queue, Entries: entries})
		if err != nil || len(out.Successful) != 10 {
			t.Fatalf("send: %+v, %v", out, err)
		}
	}
	var got []string
	for len(got) < len(want) {
		messages := s.take(queue, 2)
		if len(messages) == 0 {
			t.Fatalf("got only %v", got)
		}
		got = append(got, bodiesOf(messages)...)
		for _, m := range messages {
			s.drop(queue, m)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestGoSDKDeadLetters(t *testing.T) {
	for _, suffix := range []string{"", ".fifo"} {
		t.Run("q"+suffix, func(t *testing.T) {
			s := newSDK(t, startNode(t, "--memory"))
			attributes := map[string]string{}
			if suffix != "" {
				attributes["FifoQueue"] = "true"
			}
			dead := s.create("dead"+suffix, attributes)
			arn := s.attributes(dead, types.QueueAttributeNameQueueArn)["QueueArn"]
			attributes["VisibilityTimeout"] = "0"
			attributes["RedrivePolicy"] = fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":"2"}`, arn)
			queue := s.create("q"+suffix, attributes)
			policy := s.attributes(queue, types.QueueAttributeNameRedrivePolicy)["RedrivePolicy"]
			if want := fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":2}`, arn); policy != want {
				t.Errorf("the policy reads %s, want %s", policy, want)
			}
			in := &sqs.SendMessageInput{QueueUrl: queue, MessageBody: aws.String("poison")}
			if suffix != "" {
				in.MessageGroupId, in.MessageDeduplicationId = aws.String("g"), aws.String("d")
			}
			sent, err := s.SendMessage(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			for want := 1; want <= 2; want++ {
				got := s.take(queue, 2)
				if len(got) != 1 || got[0].Attributes["ApproximateReceiveCount"] != fmt.Sprint(want) {
					t.Fatalf("receive %d: %+v", want, got)
				}
			}
			if got := s.take(dead, 0); len(got) > 0 {
				t.Errorf("moved before the receive that exceeds the count: %v", bodiesOf(got))
			}
			if got := s.take(queue, 0); len(got) > 0 {
				t.Fatalf("the third receive gave %v", bodiesOf(got))
			}
			got := s.take(dead, 2)
			if len(got) != 1 || *got[0].Body != "poison" || *got[0].MessageId != *sent.MessageId {
				t.Fatalf("the dead-letter queue gave %+v", got)
			}
			a := got[0].Attributes
			if a["ApproximateReceiveCount"] != "3" || a["DeadLetterQueueSourceArn"] != "arn:aws:sqs:us-east-1:000000000000:q"+suffix {
				t.Errorf("attributes of the dead letter: %v", a)
			}
		})
	}
}

func TestGoSDKErrorsAreExact(t *testing.T) {
	s := newSDK(t, startNode(t, "--memory"))
	queue, fifo := s.create("q", nil), s.create("q.fifo", map[string]string{"FifoQueue": "true"})
	entry := func(id string) types.SendMessageBatchRequestEntry {
		return types.SendMessageBatchRequestEntry{Id: &id, MessageBody: aws.String("x")}
	}
	batch := func(entries ...types.SendMessageBatchRequestEntry) error {
		_, err := s.SendMessageBatch(t.Context(), &sqs.SendMessageBatchInput{QueueUrl: queue, Entries: entries})
		return err
	}
	var many []types.SendMessageBatchRequestEntry
	for i := range 11 {
		many = append(many, entry(fmt.Sprint(i)))
	}
	large := entry("large")
	large.MessageBody = aws.String(randomText(newRand(t), 600_000))
	other := large
	other.Id = aws.String("other")
	send := func(in sqs.SendMessageInput) error {
		_, err := s.SendMessage(t.Context(), &in)
		return err
	}
	receive := func(in sqs.ReceiveMessageInput) error {
		in.QueueUrl = queue
		_, err := s.ReceiveMessage(t.Context(), &in)
		return err
	}
	create := func(name string, attributes map[string]string) error {
		_, err := s.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
		return err
	}
	for _, c := range []struct {
		what string
		err  error
		code string
	}{
		{"no entries", batch([]types.SendMessageBatchRequestEntry{}...), queryPrefix + "EmptyBatchRequest"},
		{"11 entries", batch(many...), queryPrefix + "TooManyEntriesInBatchRequest"},
		{"equal ids", batch(entry("a"), entry("a")), queryPrefix + "BatchEntryIdsNotDistinct"},
		{"a bad id", batch(entry("a b")), queryPrefix + "InvalidBatchEntryId"},
		{"too long together", batch(large, other), queryPrefix + "BatchRequestTooLong"},
		{"an empty body", send(sqs.SendMessageInput{QueueUrl: queue, MessageBody: aws.String("")}), "MissingParameter"},
		{"bad characters", send(sqs.SendMessageInput{QueueUrl: queue, MessageBody: aws.String("\x00")}), "InvalidMessageContents"},
		{"a long delay", send(sqs.SendMessageInput{QueueUrl: queue, MessageBody: aws.String("x"), DelaySeconds: 901}), "InvalidParameterValue"},
		{"a delay on FIFO", send(sqs.SendMessageInput{
			QueueUrl: fifo, MessageBody: aws.String("x"), DelaySeconds: 2, MessageGroupId: aws.String("g"), MessageDeduplicationId: aws.String("d"),
		}), "InvalidParameterValue"},
		{"11 messages", receive(sqs.ReceiveMessageInput{MaxNumberOfMessages: 11}), "InvalidParameterValue"},
		{"21 seconds", receive(sqs.ReceiveMessageInput{WaitTimeSeconds: 21}), "InvalidParameterValue"},
		{"a bad name", create("a/b", nil), "InvalidParameterValue"},
		{"FIFO without its suffix", create("x", map[string]string{"FifoQueue": "true"}), "InvalidParameterValue"},
		{"a bad attribute", create("x", map[string]string{"Nonsense": "1"}), "InvalidAttributeName"},
		{"a bad value", create("x", map[string]string{"VisibilityTimeout": "43201"}), "InvalidAttributeValue"},
		{"no such queue", send(sqs.SendMessageInput{QueueUrl: aws.String(*queue + "x"), MessageBody: aws.String("x")}), queryPrefix + "NonExistentQueue"},
	} {
		wantCode(t, c.what, c.err, http.StatusBadRequest, c.code)
	}
}
