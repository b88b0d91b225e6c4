package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leasemq/broker"
	"github.com/leasemq/broker/cmd/broker/bench"
	"github.com/leasemq/broker/configs"
	"github.com/leasemq/broker/frontends/sqs"
)

// runBench runs "broker bench ARGS -o json" in this process.
func runBench(t *testing.T, args ...string) (code int, res bench.Result, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), append([]string{"bench"}, append(args, "-o", "json")...), streams{strings.NewReader(""), &out, &errs})
	if out.Len() > 0 {
		if err := json.Unmarshal(out.Bytes(), &res); err != nil {
			t.Fatalf("result %s: %v", out.Bytes(), err)
		}
	}
	return code, res, errs.String()
}

func TestBenchCoreCountsEveryMessage(t *testing.T) {
	for _, args := range [][]string{
		{"--batch", "10"},
		{"--batch", "1", "--memory"},
		{"--batch", "7", "--fifo", "--queues", "2"},
		{"--sync-marks", "--sync", "interval"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			args := append([]string{"core", "--count", "999", "--producers", "4", "--consumers", "4", "--queues", "4"}, args...)
			code, res, stderr := runBench(t, args...)
			if code != exitOK {
				t.Fatalf("exit code %d: %s", code, stderr)
			}
			if res.Messages != 999 || res.Check == nil || res.Check.Sent != 999 || res.Check.Received != 999 || !res.Clean() {
				t.Errorf("got %d messages, %+v", res.Messages, res.Check)
			}
			if len(res.Steps) != 3 || res.Steps[0].Latency.Count == 0 || res.Cost.Process <= 0 {
				t.Errorf("steps %+v, cost %+v", res.Steps, res.Cost)
			}
		})
	}
}

func TestBenchCoreModesReport(t *testing.T) {
	small := []string{"core", "--producers", "2", "--consumers", "2", "--queues", "2"}
	t.Run("pipelined", func(t *testing.T) {
		code, res, stderr := runBench(t, append(small, "--mode", "pipelined", "--count", "5000")...)
		if code != exitOK || res.Messages != 5000 || res.Storage == nil || res.Storage.WAL == 0 {
			t.Errorf("exit code %d, %d messages, %+v: %s", code, res.Messages, res.Storage, stderr)
		}
	})
	t.Run("steady", func(t *testing.T) {
		// On a machine that does something else, nothing may come to its end within
		// the measured time: then it is too short.
		for _, duration := range []string{"300ms", "3s", "30s"} {
			code, res, stderr := runBench(t, append(small, "--mode", "steady", "--rate", "2000", "--live", "50ms", "--warmup", "10ms", "--duration", duration)...)
			if code != exitOK || !res.Clean() {
				t.Fatalf("exit code %d, %d messages, %+v: %s", code, res.Messages, res.Check, stderr)
			}
			if res.Messages > 0 {
				return
			}
		}
		t.Error("no message is counted, however long the time")
	})
}

func TestBenchTellsWhyItDoesNotRun(t *testing.T) {
	for _, tt := range []struct {
		code int
		word string
		args []string
	}{
		{exitUsage, "sideways", []string{"core", "--mode", "sideways"}},
		{exitUsage, "0 producers", []string{"core", "--producers", "0"}},
		{exitUsage, "body size 1", []string{"core", "--size", "1"}},
		{exitUsage, "often", []string{"core", "--sync", "often"}},
		{exitUsage, "batch of 11", []string{"sqs", "--batch", "11", "--memory"}},
		{exitUsage, "body size 1", []string{"sqs", "--size", "1", "--memory"}},
		{exitUsage, "must be http://host:port", []string{"sqs", "--target", "127.0.0.1"}},
		{exitCannotConnect, "connect", []string{"sqs", "--target", "http://127.0.0.1:1"}},
	} {
		if code, _, stderr := runBench(t, tt.args...); code != tt.code || !strings.Contains(stderr, tt.word) {
			t.Errorf("%v: exit code %d, want %d: %s", tt.args, code, tt.code, stderr)
		}
	}
}

func TestBenchSQSCountsEveryMessage(t *testing.T) {
	for _, args := range [][]string{
		{"--batch", "1"},
		{"--batch", "10"},
		{"--batch", "1", "--protocol", "query"},
		{"--batch", "10", "--protocol", "query", "--fifo"},
		{"--batch", "3", "--fifo", "--groups", "2"},
		{"--rate", "5000"},
		{"--access-key", "AKIDEXAMPLE", "--secret-key", "wJalr/+", "--region", "eu-west-1"},
		{"--access-key", "AKIDEXAMPLE", "--secret-key", "wJalr/+", "--protocol", "query", "--batch", "10"},
		{"--batch", "10", "--backlog"},
		{"--batch", "10", "--backlog", "--fifo", "--groups", "40", "--hold", "300", "--wait", "0"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			args := append([]string{"sqs", "--memory", "--count", "555", "--senders", "4", "--receivers", "4", "--queues", "2"}, args...)
			code, res, stderr := runBench(t, args...)
			if code != exitOK {
				t.Fatalf("exit code %d: %s", code, stderr)
			}
			if res.Messages != 555 || res.Check == nil || res.Check.Received != 555 || !res.Clean() {
				t.Errorf("got %d messages, %+v", res.Messages, res.Check)
			}
		})
	}
}

// TestBenchSQSSignsForATarget: a server that verifies is measured with the key of
// the environment, and not without.
func TestBenchSQSSignsForATarget(t *testing.T) {
	node, err := broker.Run(t.Context(), broker.WithLogger(slog.New(slog.DiscardHandler)),
		broker.Edit(func(c *configs.Config) { c.SQS.AccessKeys = []configs.AccessKey{{ID: "a", Secret: "b"}} }))
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	args := []string{"sqs", "--target", "http://" + node.Addr("sqs"), "--count", "50", "--senders", "1", "--receivers", "1", "--queues", "1"}
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	if code, _, stderr := runBench(t, args...); code != exitError || !strings.Contains(stderr, "create queue") {
		t.Errorf("without a key: exit code %d, %s", code, stderr)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "a")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "b")
	if code, res, stderr := runBench(t, args...); code != exitOK || res.Messages != 50 || !res.Clean() {
		t.Errorf("with the key: exit code %d, %d messages, %s", code, res.Messages, stderr)
	}
}

func TestBenchSQSComparesWithCannedAnswers(t *testing.T) {
	for _, batch := range []string{"1", "10"} {
		code, res, stderr := runBench(t, "sqs", "--noop", "--memory", "--batch", batch, "--warmup", "50ms", "--duration", "300ms", "--rounds", "2")
		if code != exitOK {
			t.Fatalf("batch %s: exit code %d: %s", batch, code, stderr)
		}
		if res.Canned == nil || res.Canned.Messages == 0 || res.Ratio <= 0 || res.CPURatio <= 0 || len(res.Rounds) != 2 {
			t.Errorf("batch %s: canned %+v, ratio %v, rounds %v", batch, res.Canned, res.Ratio, res.Rounds)
		}
	}
	if code, _, _ := runBench(t, "sqs", "--noop", "--batch", "3"); code != exitUsage {
		t.Errorf("a batch without canned answers: exit code %d, want %d", code, exitUsage)
	}
}

// TestBenchFailsWhenMessagesAreNotTheirs drives a server that answers every
// receive with the same foreign message: no message of the run arrives.
func TestBenchFailsWhenMessagesAreNotTheirs(t *testing.T) {
	f, err := sqs.NewNoop(sqs.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- f.Serve(ctx, ln) }()
	file := filepath.Join(t.TempDir(), "result.json")
	code, res, stderr := runBench(t, "sqs", "--target", "http://"+ln.Addr().String(), "--keep", "--drain", "100ms",
		"--senders", "2", "--receivers", "2", "--queues", "1", "--warmup", "10ms", "--duration", "100ms", "--out", file)
	cancel()
	if err := <-served; err != nil {
		t.Errorf("serve: %v", err)
	}
	if code != exitError || res.Check == nil || res.Check.Foreign == 0 || res.Check.Gaps == 0 {
		t.Errorf("exit code %d, want %d; %+v", code, exitError, res.Check)
	}
	if !strings.Contains(stderr, "lost") || !strings.Contains(stderr, "foreign") {
		t.Errorf("the message does not say what was wrong: %s", stderr)
	}
	written, err := os.ReadFile(file)
	if err != nil || !json.Valid(written) {
		t.Errorf("--out wrote %q, %v", written, err)
	}
}

func TestBenchTellsWhatIsWrongWithItsFlags(t *testing.T) {
	for _, args := range [][]string{
		{"sqs", "--target", "ftp://x"},
		{"sqs", "--batch", "11"},
		{"sqs", "--senders", "1", "--queues", "2"},
		{"sqs", "--protocol", "soap"},
		{"sqs", "--size", "3"},
		{"sqs", "--duration", "0"},
		{"sqs", "--access-key", "a"},
		{"sqs", "--secret-key", "a"},
		{"sqs", "--access-key", "a/b", "--secret-key", "a"},
		{"sqs", "--backlog"},
		{"sqs", "--hold", "1", "--count", "1"},
		{"stomp", "--target", "127.0.0.1"},
		{"stomp", "--window", "0"},
		{"mqtt", "--target", "127.0.0.1"},
		{"mqtt", "--qos", "3"},
		{"core", "--sync", "sometimes"},
		{"core", "--mode", "backlog", "--memory"},
		{"core", "--queues", "0"},
	} {
		if code, _, stderr := runBench(t, args...); code != exitError && code != exitUsage || stderr == "" {
			t.Errorf("%v: exit code %d, %q", args, code, stderr)
		}
	}
}

func TestBenchTableIsForReaders(t *testing.T) {
	var out bytes.Buffer
	code := run(t.Context(), []string{"bench", "core", "--memory", "--count", "100", "--producers", "1", "--consumers", "1", "--queues", "1"},
		streams{strings.NewReader(""), &out, io.Discard})
	if code != exitOK {
		t.Fatalf("exit code %d", code)
	}
	for _, want := range []string{"MESSAGES/S", "P99.9", "delete", "CPU a message", "100 sent, 100 received, 0 lost"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
}
