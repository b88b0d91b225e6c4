package broker_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"

	"github.com/leasemq/broker"
	"github.com/leasemq/broker/configs"
)

// withKeys gives a node two access keys.
func withKeys(c *configs.Config) {
	c.SQS.AccessKeys = []configs.AccessKey{{ID: "orders-api", Secret: "a-secret"}, {ID: "billing", Secret: "b-secret"}}
}

// codeOf returns the code of an error of SQS, "" for none, or else its text.
func codeOf(err error) string {
	var api smithy.APIError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &api):
		return api.ErrorCode()
	}
	return err.Error()
}

func TestAccessKeysAreAskedFor(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	node, err := broker.Run(t.Context(), broker.Edit(withKeys), broker.WithLogger(logger))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ id, secret, token, want string }{
		{"orders-api", "a-secret", "", ""},
		{"billing", "b-secret", "", ""},
		{"billing", "b-secret", "token", ""},
		{"billing", "a-secret", "", "SignatureDoesNotMatch"},
		{"x", "x", "", "InvalidClientTokenId"},
	} {
		_, err := signingClient(node, "us-east-1", c.id, c.secret, c.token).CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("q")})
		if got := codeOf(err); got != c.want {
			t.Errorf("%s with %s: %v, want %q", c.id, c.secret, err, c.want)
		}
	}
	if err := node.Close(); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(log.String(), "-secret") {
		t.Errorf("the log shows a secret:\n%s", log.String())
	}
}

func TestSettingsOfSignaturesReachTheFrontend(t *testing.T) {
	node := run(t, broker.Edit(withKeys), broker.Edit(func(c *configs.Config) {
		c.SQS.SessionTokens, c.SQS.SigningRegion = "refuse", "eu-west-3"
	}))
	for _, c := range []struct{ region, token, want string }{
		{"eu-west-3", "", ""},
		{"us-east-1", "", "SignatureDoesNotMatch"},
		{"eu-west-3", "token", "InvalidClientTokenId"},
	} {
		_, err := signingClient(node, c.region, "orders-api", "a-secret", c.token).ListQueues(t.Context(), &sqs.ListQueuesInput{})
		if got := codeOf(err); got != c.want {
			t.Errorf("%s, token %q: %v, want %q", c.region, c.token, err, c.want)
		}
	}
}

// With access keys other machines may reach the SQS listener, and no other.
func TestAccessKeysOpenTheSQSListener(t *testing.T) {
	node := run(t, broker.Edit(withKeys), broker.Edit(func(c *configs.Config) { c.SQS.Listen = "0.0.0.0:0" }))
	if host, _, err := net.SplitHostPort(node.Addr("sqs")); err != nil || !net.ParseIP(host).IsUnspecified() {
		t.Errorf("listens on %s", node.Addr("sqs"))
	}
	_ = refused(t, broker.Edit(withKeys), broker.Edit(func(c *configs.Config) { c.Admin.Listen = "0.0.0.0:0" }))
}

// TestAccessKeysAreReloaded: what a node takes over counts for the next request,
// also on connections that are open; what it cannot use changes nothing.
func TestAccessKeysAreReloaded(t *testing.T) {
	var settings configs.Config
	node := run(t, broker.Edit(withKeys), broker.Edit(func(c *configs.Config) { settings = *c }))
	client := func(id, secret string) *sqs.Client { return signingClient(node, "us-east-1", id, secret, "") }
	old, rotated, added := client("orders-api", "a-secret"), client("orders-api", "new"), client("added", "c-secret")
	want := func(when string, codes ...string) {
		t.Helper()
		for i, c := range []*sqs.Client{old, rotated, added} {
			_, err := c.ListQueues(t.Context(), &sqs.ListQueuesInput{})
			if got := codeOf(err); got != codes[i] {
				t.Errorf("%s, client %d: %q, want %q", when, i, got, codes[i])
			}
		}
	}
	const mismatch, unknown = "SignatureDoesNotMatch", "InvalidClientTokenId"
	want("at the start", "", mismatch, unknown)
	for name, keys := range map[string][]configs.AccessKey{
		"no secret": {{ID: "orders-api"}},
		"twice":     {{ID: "added", Secret: "c-secret"}, {ID: "added", Secret: "c-secret"}},
		"none":      nil,
	} {
		settings.SQS.AccessKeys = keys
		if err := node.Reload(settings); err == nil {
			t.Errorf("%s: taken over", name)
		}
	}
	want("after bad ones", "", mismatch, unknown)
	settings.SQS.AccessKeys = []configs.AccessKey{{ID: "orders-api", Secret: "new"}, {ID: "added", Secret: "c-secret"}}
	if err := node.Reload(settings); err != nil {
		t.Fatal(err)
	}
	want("after the reload", mismatch, "", "")
}

// TestAccessKeysCanBeginAtAReload: a node without keys may get some.
func TestAccessKeysCanBeginAtAReload(t *testing.T) {
	var settings configs.Config
	node := run(t, broker.Edit(func(c *configs.Config) { settings = *c }))
	if err := node.Reload(settings); err != nil {
		t.Errorf("nothing new: %v", err)
	}
	withKeys(&settings)
	if err := node.Reload(settings); err != nil {
		t.Fatal(err)
	}
	_, err := sqsClient(node).ListQueues(t.Context(), &sqs.ListQueuesInput{})
	if got := codeOf(err); got != "InvalidClientTokenId" {
		t.Errorf("a stranger gets %q", got)
	}
}
