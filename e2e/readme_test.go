package e2e

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestWalkThroughOfTheReadme runs the commands that the README gives, with the
// clients that it names, at the ports of a broker of the test.
func TestWalkThroughOfTheReadme(t *testing.T) {
	aws := program(t, "LEASEMQ_AWS", filepath.Join("..", ".cache", "venv", "bin", "aws"))
	python := program(t, "LEASEMQ_PYTHON_STOMP", "/usr/bin/python3")
	needModule(t, python, "stomp")
	program(t, "LEASEMQ_MOSQUITTO_SUB", "mosquitto_sub")
	readme, err := os.ReadFile(filepath.Join("..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	var commands []string
	for _, part := range strings.Split(string(readme), "```sh\n")[1:] {
		block, _, _ := strings.Cut(part, "```")
		if strings.Contains(block, "sqs receive-message") {
			commands = append(commands, block)
		}
	}
	if len(commands) != 2 || !strings.Contains(commands[1], "mosquitto_pub") {
		t.Fatalf("the README has other commands: %q", commands)
	}
	n := startNode(t, "--memory")
	_, stompPort, _ := net.SplitHostPort(n.stomp)
	_, mqttPort, _ := net.SplitHostPort(n.mqtt)
	script := strings.NewReplacer(
		"127.0.0.1:9324", n.sqs, "bin/broker", os.Getenv(brokerVariable), "python3 -m stomp", python+" -m stomp -P "+stompPort,
	).Replace("set -e\nshopt -s expand_aliases\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n" + strings.Join(commands, "\n"))
	// Mosquitto's clients read their port from a file.
	home := t.TempDir()
	for _, name := range []string{"mosquitto_pub", "mosquitto_sub"} {
		if err := os.WriteFile(filepath.Join(home, name), []byte("-p "+mqttPort+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Second
	cmd.Env = append(clientEnv(n), "XDG_CONFIG_HOME="+home, "BROKER_ADMIN=http://"+n.admin,
		"PATH="+filepath.Dir(aws)+string(os.PathListSeparator)+os.Getenv("PATH"))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s\nbroker: %s", err, out.Bytes(), n.log)
	}
	for _, want := range []string{`"Body": "hello"`, `"Body": "21.5"`, `"devices/7/up"`, "\nopen\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, out.Bytes())
		}
	}
	n.alive()
}
