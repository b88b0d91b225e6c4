package core_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/leasemq/broker/core"
)

// TestTranscripts plays the files in testdata/transcripts. Each block "run" is a
// scenario of its own: a fresh node on an empty file system, in fake time. A line
// is a command; what it came to, if that is worth a word, stands below the dashes
// behind an arrow. Commands stand in transcript_commands_test.go.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "run" {
				d.Fatalf(t, "unknown directive %q", d.Cmd)
			}
			var out string
			synctest.Test(t, func(t *testing.T) { out = play(t, d.Input) })
			return out
		})
	})
}

// script is a scenario being played.
type script struct {
	t       *testing.T
	n       *node
	out     []string
	start   time.Time
	jobs    []*job
	flooded int // messages sent by flood
	owners  map[string]*core.Owner
	txs     map[string]*core.Tx

	mu       sync.Mutex
	print    *printer
	given    map[string][]given // receipts by message, oldest first
	lastPeek map[string]core.PeekPos
	news     []string // memory queues that have ended
}

// given is a receipt that a receive gave.
type given struct {
	receipt core.Receipt
	handle  string
}

// job is a command that runs beside the others.
type job struct {
	name   string
	ended  time.Duration // since the scenario's start
	result chan string
	cancel context.CancelFunc
}

// play runs the commands of one scenario.
func play(t *testing.T, input string) string {
	s := &script{
		t: t, start: time.Now(), print: newPrinter(),
		owners: make(map[string]*core.Owner), txs: make(map[string]*core.Tx),
		given: make(map[string][]given), lastPeek: make(map[string]core.PeekPos),
	}
	s.n = &node{t: t, fs: vfs.NewCrashableMem(), gate: newGate()}
	s.n.gate.seen = s.print.change
	s.n.open()
	synctest.Wait()
	s.print.take()
	for line := range strings.Lines(input) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if res := s.run(t.Context(), line); res != "" {
			s.say(line, res)
		}
		synctest.Wait()
		s.reap()
	}
	s.finish()
	if len(s.out) == 0 {
		return "" // nothing is shown: nothing is tested
	}
	return strings.Join(s.out, "\n") + "\n"
}

func (s *script) say(what, res string) {
	if strings.Contains(res, "\n") {
		res = "\n  " + strings.ReplaceAll(res, "\n", "\n  ")
	} else {
		res = " " + res
	}
	s.out = append(s.out, what+" ->"+res)
}

// finish ends what is still waiting, and the node.
func (s *script) finish() {
	s.n.gate.release()
	for _, j := range s.jobs {
		j.cancel()
	}
	s.n.close()
	synctest.Wait()
	for _, j := range s.jobs {
		select {
		case <-j.result:
		default:
			s.t.Errorf("job %s never ends", j.name)
		}
	}
}

// reap reports the jobs that have ended.
func (s *script) reap() {
	s.mu.Lock()
	for _, name := range s.news {
		s.say(name, "is closed")
	}
	s.news = nil
	s.mu.Unlock()
	kept := s.jobs[:0]
	for _, j := range s.jobs {
		select {
		case res := <-j.result:
			name := j.name
			if j.ended != 0 {
				name += fmt.Sprintf(" after %v", j.ended)
			}
			s.say(name, res)
		default:
			kept = append(kept, j)
		}
	}
	s.jobs = kept
}

// spawn runs a command beside the others: it is reported when it ends.
func (s *script) spawn(name, line string) {
	ctx, cancel := context.WithCancel(s.t.Context())
	j := &job{name: name, result: make(chan string, 1), cancel: cancel}
	s.jobs = append(s.jobs, j)
	go func() {
		res := s.run(ctx, line)
		if res == "" {
			res = "ok"
		}
		j.ended = time.Since(s.start)
		j.result <- res
	}()
}

// call is a command with its arguments: words, and settings "key=value".
type call struct {
	ctx  context.Context
	s    *script
	name string
	args []string
	set  map[string]string
}

func (s *script) run(ctx context.Context, line string) (res string) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case misuse:
			res = "script: " + string(v)
		default:
			panic(v)
		}
	}()
	c := &call{ctx: ctx, s: s, set: make(map[string]string)}
	words := strings.Fields(line)
	c.name = words[0]
	f := commands()[c.name]
	if f == nil {
		c.misuse("unknown command")
	}
	if c.name == "bg" || c.name == "tx" {
		c.args = words[1:]
		return f(c)
	}
	for _, w := range words[1:] {
		if key, value, ok := strings.Cut(w, "="); ok {
			c.set[key] = value
		} else {
			c.args = append(c.args, w)
		}
	}
	res = f(c)
	for key := range c.set {
		c.misuse("unknown setting %q", key)
	}
	return res
}

// misuse is a mistake in the script itself. It shows in the transcript.
type misuse string

func (c *call) misuse(format string, args ...any) { panic(misuse(fmt.Sprintf(format, args...))) }

// arg returns argument i.
func (c *call) arg(i int) string {
	if i >= len(c.args) {
		c.misuse("argument %d is missing", i+1)
	}
	return c.args[i]
}

// take returns a setting, which then counts as known.
func (c *call) take(key string) (string, bool) {
	v, ok := c.set[key]
	delete(c.set, key)
	return v, ok
}

func (c *call) flag(key string) bool {
	for i, a := range c.args {
		if a == key {
			c.args = append(c.args[:i:i], c.args[i+1:]...)
			return true
		}
	}
	return false
}

func (c *call) duration(key string, otherwise time.Duration) time.Duration {
	v, ok := c.take(key)
	if !ok {
		return otherwise
	}
	d, err := time.ParseDuration(v)
	if err != nil {
		c.misuse("%v", err)
	}
	return d
}

func (c *call) number(key string, otherwise int) int {
	v, ok := c.take(key)
	if !ok {
		return otherwise
	}
	var n int
	if _, err := fmt.Sscan(v, &n); err != nil {
		c.misuse("%s=%s: %v", key, v, err)
	}
	return n
}

func fault(err error) string {
	if err == nil {
		return ""
	}
	return "error: " + err.Error()
}
