package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// Of the log of a child that has ended, so much is shown.
const (
	lastLinesMax = 10
	lastBytesMax = 8 << 10
)

// demoChild is a process that was started. A nil one does not run.
type demoChild struct {
	cmd    *exec.Cmd
	log    string
	exited chan struct{}
}

// startDemoChild starts a program whose output goes to the end of a log. The
// process ends no later than the thread of the caller, where the system can see
// to that.
func startDemoChild(program string, args, env []string, log string) (*demoChild, error) {
	f, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer f.Close() // the child has its own
	c := &demoChild{cmd: exec.Command(program, args...), log: log, exited: make(chan struct{})}
	c.cmd.Env, c.cmd.Stdout, c.cmd.Stderr = env, f, f
	c.cmd.SysProcAttr = childAttributes()
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(c.exited)
		_ = c.cmd.Wait() // outcome tells
	}()
	return c, nil
}

func (c *demoChild) pid() int { return c.cmd.Process.Pid }

func (c *demoChild) running() bool {
	if c == nil {
		return false
	}
	select {
	case <-c.exited:
		return false
	default:
		return true
	}
}

// outcome says how the process ended, which it has.
func (c *demoChild) outcome() string { return c.cmd.ProcessState.String() }

// terminate asks for an orderly end.
func (c *demoChild) terminate() {
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		_ = c.cmd.Process.Kill() // there is no such signal here, or no process
	}
}

// await returns when the process has ended, and kills it when ctx does.
func (c *demoChild) await(ctx context.Context) error {
	select {
	case <-c.exited:
	case <-ctx.Done():
		err := c.cmd.Process.Kill()
		<-c.exited
		return errors.Join(errors.New("it did not end when it was asked to, and was killed"), err)
	}
	if !c.cmd.ProcessState.Success() {
		return fmt.Errorf("it ended with %s", c.outcome())
	}
	return nil
}

// lastLines returns the end of a log.
func lastLines(path string) []string {
	f, err := os.Open(path)
	if err != nil {
		return []string{err.Error()}
	}
	defer f.Close()
	size, err := f.Seek(0, 2)
	if err != nil {
		return []string{err.Error()}
	}
	from := max(0, size-lastBytesMax)
	b := make([]byte, size-from)
	n, _ := f.ReadAt(b, from)
	text := strings.Split(string(bytes.TrimSpace(b[:n])), "\n")
	return text[max(0, len(text)-lastLinesMax):]
}

// shellWords writes a command as a shell reads it.
func shellWords(words []string) string {
	var out []string
	for _, w := range words {
		out = append(out, shellWord(w))
	}
	return strings.Join(out, " ")
}

func shellWord(w string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-=:,+@%", r)
	}
	if w != "" && strings.TrimFunc(w, plain) == "" && strings.IndexFunc(w, func(r rune) bool { return !plain(r) }) < 0 {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}
