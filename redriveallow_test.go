package broker_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/leasemq/broker"
	"github.com/leasemq/broker/configs"
	"github.com/leasemq/broker/core"
)

// allowing is a queue that lets the named queues alone use it for dead letters.
func allowing(name string, sources ...string) configs.Queue {
	policy := `{"redrivePermission":"denyAll"}`
	if len(sources) > 0 {
		policy = `{"redrivePermission":"byQueue","sourceQueueArns":["arn:aws:sqs:us-east-1:000000000000:` + strings.Join(sources, `","arn:aws:sqs:us-east-1:000000000000:`) + `"]}`
	}
	return configs.Queue{Name: name, SQSAttributes: map[string]string{"RedriveAllowPolicy": policy}}
}

func deadLettersTo(name string) core.QueueConfig {
	cfg := core.DefaultQueueConfig(core.KindStandard)
	cfg.Redelivery = core.Redelivery{DeadLetterQueue: name, MaxReceives: 3}
	return cfg
}

func source(name, deadLetter string) configs.Queue {
	return configs.Queue{Name: name, DeadLetter: configs.DeadLetter{Queue: deadLetter, MaxReceives: new(3)}}
}

// TestRedriveAllowPolicyHoldsForEveryWay: a dead-letter queue decides who uses it,
// whoever sets up the source.
func TestRedriveAllowPolicyHoldsForEveryWay(t *testing.T) {
	node := run(t, broker.Edit(func(c *configs.Config) {
		c.SQS.AutoCreate = true
		c.Queues = []configs.Queue{allowing("none"), allowing("some", "in"), {Name: "plain"}}
		c.AutoCreateQueue = &configs.Queue{DeadLetter: configs.DeadLetter{Queue: "some", MaxReceives: new(2)}}
	}))
	rest := func(method, path, body string, want int) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+node.Addr("admin")+"/api/v1/queues"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if answer.StatusCode != want || want == http.StatusBadRequest && !strings.Contains(string(text), "invalid_dead_letter_queue") {
			t.Errorf("%s %s %s: %d %s, want %d", method, path, body, answer.StatusCode, text, want)
		}
	}
	rest("POST", "", `{"name":"out","settings":{"redelivery":{"dead_letter_queue":"some","max_receives":2}}}`, http.StatusBadRequest)
	rest("POST", "", `{"name":"in","settings":{"redelivery":{"dead_letter_queue":"some","max_receives":2}}}`, http.StatusCreated)
	rest("PATCH", "/plain", `{"redelivery":{"dead_letter_queue":"none","max_receives":2}}`, http.StatusBadRequest)
	rest("PATCH", "/in", `{"redelivery":{"dead_letter_queue":"none","max_receives":2}}`, http.StatusBadRequest)
	rest("PATCH", "/in", `{"delay":"1s"}`, http.StatusOK)

	c := node.Client()
	if _, _, err := c.Declare(t.Context(), "x", deadLettersTo("none")); !errors.Is(err, core.ErrDeadLetterQueue) {
		t.Errorf("declared: %v", err)
	}
	toNone := func(cfg *core.QueueConfig) error { *cfg = deadLettersTo("none"); return nil }
	if _, err := c.Configure(t.Context(), "plain", toNone); !errors.Is(err, core.ErrDeadLetterQueue) {
		t.Errorf("configured: %v", err)
	}
	if got := config(t, node, "plain").Redelivery.DeadLetterQueue; got != "" {
		t.Errorf("plain got the dead-letter queue %q", got)
	}
	_, err := sqsClient(node).GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: new("fresh")})
	if got := codeOf(err); got != "InvalidParameterValue" {
		t.Errorf("created on first use: %v", err)
	}
	// What was there before the policy stays, and can be set up otherwise.
	if _, err := c.Configure(t.Context(), "some", func(cfg *core.QueueConfig) error {
		cfg.Attributes = config(t, node, "none").Attributes
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	rest("PATCH", "/in", `{"delay":"2s"}`, http.StatusOK)
}

// TestRedriveAllowPolicyOfTheConfiguration: queues of the configuration that
// refuse each other are a mistake; a policy that a client set is not, and keeps
// its queue from being used, not the node from starting.
func TestRedriveAllowPolicyOfTheConfiguration(t *testing.T) {
	err := refused(t, broker.Edit(func(c *configs.Config) {
		c.Queues = []configs.Queue{source("a", "dead"), allowing("dead", "b"), source("b", "dead")}
	}))
	if text := err.Error(); !strings.Contains(text, "queues.a.dead_letter.queue: ") || strings.Contains(text, "queues.b.") {
		t.Errorf("it says %q", text)
	}

	dir := t.TempDir()
	var log logs
	node, err := broker.Run(t.Context(), withQueues(dir, &log, allowing("dead"))...)
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Close(); err != nil {
		t.Fatal(err)
	}
	node = run(t, withQueues(dir, &log, source("a", "dead"), configs.Queue{Name: "dead"}, configs.Queue{Name: "c"})...)
	if _, err := node.Client().Queue(t.Context(), "a"); !errors.Is(err, core.ErrNoQueue) {
		t.Errorf("a is there: %v", err)
	}
	config(t, node, "c")
	if told := log.lines("queue=a "); len(told) != 1 || !strings.Contains(told[0], "level=ERROR") {
		t.Errorf("the log says %q", told)
	}
}
