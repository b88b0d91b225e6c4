package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets the scripts run this binary as broker.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"broker": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			// Under -race a process sleeps for a second before it ends.
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			env.Setenv("BROKER_STOMP_LISTEN", ":0") // scripts run side by side
			env.Setenv("BROKER_STOMP_WS_LISTEN", ":0")
			env.Setenv("BROKER_MQTT_LISTEN", ":0")
			env.Setenv("BROKER_MQTT_WS_LISTEN", ":0")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"cluster": cluster,
			"exits":   exits,
			"ports":   ports,
		},
	})
}

// exits CODE COMMAND... runs a command that must end with that exit code. What
// it wrote is there for stdout and stderr.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARG...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit := (*exec.ExitError)(nil)
		if !errors.As(err, &exit) {
			ts.Fatalf("%s: %v", strings.Join(args[1:], " "), err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("%s exits with %d, want %d", strings.Join(args[1:], " "), got, want)
	}
}

// portsPoll is how often ports looks for the file.
const portsPoll = 5 * time.Millisecond

// ports FILE waits for a broker to be up and sets BROKER_ADMIN and SQS to the
// addresses of its listeners.
func ports(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: ports FILE")
	}
	file := ts.MkAbs(args[0])
	ticker := time.NewTicker(portsPoll)
	defer ticker.Stop()
	give := time.After(time.Minute)
	var content []byte
	for {
		var err error
		content, err = os.ReadFile(file)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			ts.Fatalf("%v", err)
		}
		select {
		case <-ticker.C:
		case <-give:
			ts.Fatalf("no broker came up")
		}
	}
	// Written whole: what can be read is complete.
	var addrs map[string]string
	ts.Check(json.Unmarshal(content, &addrs))
	ts.Setenv("BROKER_ADMIN", "http://"+addrs["admin"])
	ts.Setenv("SQS", "http://"+addrs["sqs"])
}
