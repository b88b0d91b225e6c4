package e2e

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// elasticMQFile is a configuration of ElasticMQ.
func elasticMQFile() string { return filepath.Join("testdata", "elasticmq", "elasticmq.conf") }

// url returns the URL of a queue that is there.
func (s *sdk) url(name string) *string {
	s.t.Helper()
	out, err := s.GetQueueUrl(s.t.Context(), &sqs.GetQueueUrlInput{QueueName: &name})
	if err != nil {
		s.t.Fatalf("URL of %s: %v", name, err)
	}
	return out.QueueUrl
}

// wantImported wants the queues of elasticMQFile with their attributes.
func (s *sdk) wantImported() {
	s.t.Helper()
	for name, want := range map[string]map[string]string{
		"orders": {
			"VisibilityTimeout": "10", "DelaySeconds": "0", "ReceiveMessageWaitTimeSeconds": "2",
			"RedrivePolicy": `{"deadLetterTargetArn":"arn:aws:sqs:elasticmq:000000000000:orders-dead","maxReceiveCount":2}`,
			"QueueArn":      "arn:aws:sqs:elasticmq:000000000000:orders",
		},
		"orders-dead": {"VisibilityTimeout": "30"},
		"audit":       {"VisibilityTimeout": "30"},
		"jobs.fifo":   {"FifoQueue": "true", "ContentBasedDeduplication": "true"},
	} {
		got := s.attributes(s.url(name), types.QueueAttributeNameAll)
		for _, key := range slices.Sorted(maps.Keys(want)) {
			if got[key] != want[key] {
				s.t.Errorf("%s: %s is %q, want %q", name, key, got[key], want[key])
			}
		}
	}
}

// TestElasticMQFileIsServed starts the broker with a file of ElasticMQ, uses its
// queues, and finds them again after a stop and after a kill.
func TestElasticMQFileIsServed(t *testing.T) {
	data := t.TempDir()
	n := startNode(t, "--data", data, "--import", elasticMQFile())
	s := newSDK(t, n)
	s.wantImported()
	orders := s.url("orders")
	if want := n.url() + "/000000000000/orders"; *orders != want {
		t.Errorf("the URL is %s, want %s", *orders, want)
	}
	s.sendText(orders, "one")
	if got := s.takeAll(s.url("audit"), 1); *got[0].Body != "one" {
		t.Errorf("the copy is %q", *got[0].Body)
	}
	for range 2 {
		// Not deleted: received once more than it may be, it is dead.
		m := s.takeAll(orders, 1)[0]
		_, err := s.ChangeMessageVisibility(t.Context(), &sqs.ChangeMessageVisibilityInput{QueueUrl: orders, ReceiptHandle: m.ReceiptHandle})
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := s.take(orders, 1); len(got) > 0 {
		t.Errorf("received %d times what may be received twice", len(got)+2)
	}
	if got := s.takeAll(s.url("orders-dead"), 1)[0]; *got.Body != "one" {
		t.Errorf("the dead letter is %q", *got.Body)
	}
	for range 2 {
		_, err := s.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: s.url("jobs.fifo"), MessageBody: aws.String("two"), MessageGroupId: aws.String("g")})
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := s.attributes(s.url("made-by-use"), types.QueueAttributeNameVisibilityTimeout); got["VisibilityTimeout"] != "45" {
		t.Errorf("a queue made on first use has %v", got)
	}
	_, err := s.SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{QueueUrl: s.url("audit"), Attributes: map[string]string{"DelaySeconds": "7"}})
	if err != nil {
		t.Fatal(err)
	}
	if code := n.stop(); code != 0 {
		t.Fatalf("the broker ends with %d\n%s", code, n.log)
	}

	// With the file, and after a kill without it.
	n = startNode(t, "--data", data, "--import", elasticMQFile())
	s = newSDK(t, n)
	s.wantImported()
	n.kill()
	n = startNode(t, "--data", data, "--sqs-region", "elasticmq")
	s = newSDK(t, n)
	s.wantImported()
	if got := s.attributes(s.url("audit"), types.QueueAttributeNameDelaySeconds); got["DelaySeconds"] != "7" {
		t.Errorf("what was set on a queue was lost: %v", got)
	}
	if got := s.takeAll(s.url("jobs.fifo"), 1); len(got) != 1 || *got[0].Body != "two" {
		t.Errorf("got %d messages, want the one that was sent twice", len(got))
	}
	s.url("made-by-use")
}

// TestElasticMQFileWithBoto3 uses the queues as ElasticMQ's own page shows it.
func TestElasticMQFileWithBoto3(t *testing.T) {
	python := program(t, "LEASEMQ_PYTHON_NEW", filepath.Join("..", ".cache", "venv", "bin", "python"))
	needModule(t, python, "boto3")
	data := t.TempDir()
	script := filepath.Join("testdata", "python", "elasticmq.py")
	for _, step := range []string{"send", "receive"} {
		n := startNode(t, "--data", data, "--import", elasticMQFile())
		runScript(t, n, python, script, step)
		if code := n.stop(); code != 0 {
			t.Fatalf("the broker ends with %d\n%s", code, n.log)
		}
	}
}
