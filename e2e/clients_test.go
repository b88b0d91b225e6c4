package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestOldBoto3 drives the broker with a boto3 that speaks Query and XML.
func TestOldBoto3(t *testing.T) {
	python := program(t, "LEASEMQ_PYTHON_OLD", "/usr/bin/python3")
	needModule(t, python, "boto3")
	runScript(t, startNode(t, "--memory"), python, filepath.Join("testdata", "python", "client.py"), "query")
}

// TestNewBoto3 drives the broker with a boto3 that speaks JSON.
func TestNewBoto3(t *testing.T) {
	python := program(t, "LEASEMQ_PYTHON_NEW", filepath.Join("..", ".cache", "venv", "bin", "python"))
	needModule(t, python, "boto3")
	runScript(t, startNode(t, "--memory"), python, filepath.Join("testdata", "python", "client.py"), "json")
}

// TestOldCelery runs a Celery that receives over Query and XML, with pycurl, and
// creates its queue.
func TestOldCelery(t *testing.T) {
	t.Parallel() // they wait most of the time
	runCelery(t, startNode(t, "--memory"), oldCelery(t), "auto")
}

// TestNewCelery runs one that receives over JSON.
func TestNewCelery(t *testing.T) {
	t.Parallel()
	runCelery(t, startNode(t, "--memory"), newCelery(t), "auto")
}

func oldCelery(t *testing.T) string {
	t.Helper()
	return needCelery(t, program(t, "LEASEMQ_PYTHON_OLD", "/usr/bin/python3"))
}

func newCelery(t *testing.T) string {
	t.Helper()
	return needCelery(t, program(t, "LEASEMQ_PYTHON_NEW", filepath.Join("..", ".cache", "venv", "bin", "python")))
}

// needCelery wants an interpreter to have Celery and what it needs for SQS.
func needCelery(t *testing.T, python string) string {
	t.Helper()
	needModule(t, python, "celery.app, kombu.transport.SQS, pycurl")
	return python
}

// runCelery runs Celery's worker with kombu's SQS transport, unmodified.
func runCelery(t *testing.T, n *node, python, queue string) {
	t.Helper()
	runScript(t, n, python, filepath.Join("testdata", "python", "celery_client.py"), queue)
}

// needModule wants an interpreter to have a module.
func needModule(t *testing.T, python, module string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), python, "-c", "import "+module).CombinedOutput(); err != nil {
		missing(t, "%s has no %s: %v\n%s", python, module, err, out)
	}
}

// TestJavaScriptSDK drives the broker with @aws-sdk/client-sqs.
func TestJavaScriptSDK(t *testing.T) {
	node := program(t, "LEASEMQ_NODE", "node")
	needPackage(t, "@aws-sdk/client-sqs")
	runScript(t, startNode(t, "--memory"), node, filepath.Join("testdata", "js", "client_sqs.mjs"))
}

// TestSQSConsumer runs sqs-consumer.
func TestSQSConsumer(t *testing.T) {
	node := program(t, "LEASEMQ_NODE", "node")
	needPackage(t, "@aws-sdk/client-sqs")
	needPackage(t, "sqs-consumer")
	runScript(t, startNode(t, "--memory"), node, filepath.Join("testdata", "js", "sqs_consumer.mjs"))
}

// needPackage wants an npm package to be installed at the module's root.
func needPackage(t *testing.T, name string) {
	t.Helper()
	file := filepath.Join("..", "node_modules", filepath.FromSlash(name), "package.json")
	if _, err := os.Stat(file); err != nil {
		missing(t, "npm package %s is not there: %v", name, err)
	}
}

// awsCLI is the AWS command line interface at a broker.
type awsCLI struct {
	t      *testing.T
	n      *node
	binary string
}

// run makes one call and decodes what it prints.
func (c *awsCLI) run(out any, args ...string) {
	c.t.Helper()
	stdout, stderr, err := c.try(args...)
	if err != nil {
		c.t.Fatalf("aws sqs %s: %v\n%s", strings.Join(args, " "), err, stderr)
	}
	if out == nil {
		return
	}
	if err := json.Unmarshal(stdout, out); err != nil {
		c.t.Fatalf("aws sqs %s printed %q: %v", strings.Join(args, " "), stdout, err)
	}
}

func (c *awsCLI) try(args ...string) (stdout, stderr []byte, err error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	args = append([]string{"--endpoint-url", c.n.url(), "--output", "json", "sqs"}, args...)
	cmd := exec.CommandContext(ctx, c.binary, args...)
	cmd.Env = clientEnv(c.n)
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	err = cmd.Run()
	return o.Bytes(), e.Bytes(), err
}

// TestAWSCommandLine drives the broker with the AWS CLI.
func TestAWSCommandLine(t *testing.T) {
	c := &awsCLI{t: t, binary: program(t, "LEASEMQ_AWS", filepath.Join("..", ".cache", "venv", "bin", "aws")), n: startNode(t, "--memory")}
	var queue struct{ QueueUrl string }
	c.run(&queue, "create-queue", "--queue-name", "orders", "--attributes", "VisibilityTimeout=60,DelaySeconds=0")
	if want := c.n.url() + "/000000000000/orders"; queue.QueueUrl != want {
		t.Fatalf("queue URL %s, want %s", queue.QueueUrl, want)
	}
	var listed struct{ QueueUrls []string }
	c.run(&listed, "list-queues")
	if len(listed.QueueUrls) != 1 || listed.QueueUrls[0] != queue.QueueUrl {
		t.Errorf("listed %v", listed.QueueUrls)
	}
	var sent struct{ MessageId, MD5OfMessageBody, MD5OfMessageAttributes string }
	c.run(&sent, "send-message", "--queue-url", queue.QueueUrl, "--message-body", "hello", "--message-attributes",
		`{"city":{"DataType":"String","StringValue":"Zürich"}}`)
	if sent.MD5OfMessageBody != md5Of([]byte("hello")) || sent.MD5OfMessageAttributes == "" {
		t.Errorf("sent %+v", sent)
	}
	var got struct{ Messages []rawMessage }
	c.run(&got, "receive-message", "--queue-url", queue.QueueUrl, "--attribute-names", "All", "--message-attribute-names", "All", "--wait-time-seconds", "2")
	if len(got.Messages) != 1 || got.Messages[0].Body != "hello" || got.Messages[0].MessageAttributes["city"].StringValue != "Zürich" {
		t.Fatalf("received %+v", got.Messages)
	}
	m := got.Messages[0]
	c.run(nil, "change-message-visibility", "--queue-url", queue.QueueUrl, "--receipt-handle", m.ReceiptHandle, "--visibility-timeout", "120")
	c.run(nil, "delete-message", "--queue-url", queue.QueueUrl, "--receipt-handle", m.ReceiptHandle)
	var a struct{ Attributes map[string]string }
	c.run(&a, "get-queue-attributes", "--queue-url", queue.QueueUrl, "--attribute-names", "All")
	if a.Attributes["ApproximateNumberOfMessages"] != "0" || a.Attributes["ApproximateNumberOfMessagesNotVisible"] != "0" || a.Attributes["VisibilityTimeout"] != "60" {
		t.Errorf("attributes %v", a.Attributes)
	}
	if _, stderr, err := c.try("get-queue-url", "--queue-name", "none"); err == nil || !strings.Contains(string(stderr), "NonExistentQueue") {
		t.Errorf("URL of no queue: %v, %s", err, stderr)
	}
	c.run(nil, "purge-queue", "--queue-url", queue.QueueUrl)
	c.run(nil, "delete-queue", "--queue-url", queue.QueueUrl)
	c.n.alive()
}
