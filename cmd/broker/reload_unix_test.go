//go:build unix

package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestHangupReadsTheSettingsAgain: what is good is taken over, what is not is
// told, and the node goes on either way.
func TestHangupReadsTheSettingsAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "broker.yaml")
	write := func(keys string, more ...string) {
		t.Helper()
		if err := os.WriteFile(file, []byte("sqs: { listen: ':0', access_keys: ["+keys+"]"+strings.Join(more, "")+" }\nadmin: { listen: ':0' }\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("{id: a, secret: x}")
	ctx, stop := context.WithCancel(t.Context())
	r, w := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		code := run(ctx, []string{"serve", "--memory", "--config", file}, streams{strings.NewReader(""), io.Discard, w})
		_ = w.Close()
		ended <- code
	}()
	lines := bufio.NewScanner(r)
	next := func(word string) string {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), word) {
				return lines.Text()
			}
		}
		t.Fatalf("the log ends without %q", word)
		return ""
	}
	hangup := func() {
		t.Helper()
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	next("msg=ready")
	write("{id: a, secret: y}, {id: b, secret: z}")
	hangup()
	if got := next("settings"); !strings.Contains(got, "settings read again") || !strings.Contains(got, "access_keys=2") {
		t.Errorf("after a change the log says %s", got)
	}
	write("{id: a, secret: y}", ", region: eu-west-1")
	hangup()
	next("settings")
	if got := next("settings"); !strings.Contains(got, "need a restart") || !strings.Contains(got, "keys=sqs.region") {
		t.Errorf("after a change that is not taken over the log says %s", got)
	}
	write("{id: a}")
	hangup()
	if got := next("settings"); !strings.Contains(got, "not taken over") || !strings.Contains(got, "secret or secret_file") {
		t.Errorf("after a mistake the log says %s", got)
	}
	// Settings that nobody writes are never read to an end: the stop is not held up.
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(file, 0o600); err != nil {
		t.Fatal(err)
	}
	hangup()
	opened, err := os.OpenFile(file, os.O_WRONLY, 0) // once the node reads
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = opened.Close() }()
	stop()
	go func() { _, _ = io.Copy(io.Discard, r) }()
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d", code)
	}
}
