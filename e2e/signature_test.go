package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// startGuarded starts a node that knows the access key of clientEnv, and takes
// no other.
func startGuarded(t *testing.T) *node {
	t.Helper()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("test\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return startNode(t, "--memory", "--set", "sqs.access_keys=[{id: test, secret_file: "+secret+"}]")
}

// TestSignedOldBoto3 has signatures of Query requests checked.
func TestSignedOldBoto3(t *testing.T) {
	python := program(t, "LEASEMQ_PYTHON_OLD", "/usr/bin/python3")
	needModule(t, python, "boto3")
	runScript(t, startGuarded(t), python, filepath.Join("testdata", "python", "signed.py"))
}

// TestSignedNewBoto3 has signatures of JSON requests checked.
func TestSignedNewBoto3(t *testing.T) {
	python := program(t, "LEASEMQ_PYTHON_NEW", filepath.Join("..", ".cache", "venv", "bin", "python"))
	needModule(t, python, "boto3")
	runScript(t, startGuarded(t), python, filepath.Join("testdata", "python", "signed.py"))
}

// TestSignedOldCelery has the signatures of Celery checked: those of boto3, and
// those that kombu makes itself.
func TestSignedOldCelery(t *testing.T) {
	t.Parallel()
	runCelery(t, startGuarded(t), oldCelery(t), "predefined")
}

// TestSignedNewCelery does so for one that speaks JSON.
func TestSignedNewCelery(t *testing.T) {
	t.Parallel()
	runCelery(t, startGuarded(t), newCelery(t), "predefined")
}

// TestSignedJavaScriptSDK has the signatures of @aws-sdk/client-sqs checked.
func TestSignedJavaScriptSDK(t *testing.T) {
	javascript := program(t, "LEASEMQ_NODE", "node")
	needPackage(t, "@aws-sdk/client-sqs")
	runScript(t, startGuarded(t), javascript, filepath.Join("testdata", "js", "client_sqs.mjs"))
}

// TestSignedCommandLine has the signatures of the AWS CLI checked.
func TestSignedCommandLine(t *testing.T) {
	binary := program(t, "LEASEMQ_AWS", filepath.Join("..", ".cache", "venv", "bin", "aws"))
	c := &awsCLI{t: t, binary: binary, n: startGuarded(t)}
	c.run(nil, "create-queue", "--queue-name", "orders")
	c.run(nil, "list-queues", "--region", "eu-west-3")
	if _, stderr, err := c.try("list-queues", "--no-sign-request"); err == nil || !strings.Contains(string(stderr), "AccessDenied") {
		t.Errorf("without a signature: %v, %s", err, stderr)
	}
}
