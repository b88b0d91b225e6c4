// Command broker runs a LeaseMQ node and talks to running ones.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

// gcPercent is how far the heap may grow between collections, unless GOGC is
// set. Most of it is block cache and memtables, which hold no pointers: walking
// the rest more often costs little and saves some 100 MiB.
const gcPercent = 40

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks for an orderly end; the second one, with the
	// handler gone, ends the process at once.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr}))
}

// streams are where a command reads and writes: data on out, messages on err.
type streams struct {
	in  io.Reader
	out io.Writer
	err io.Writer
}

// run executes one command line and returns the exit code.
func run(ctx context.Context, args []string, std streams) int {
	root := newRootCommand(std)
	root.SetArgs(args)
	root.SetIn(std.in)
	root.SetOut(std.out)
	root.SetErr(std.err)
	cmd, err := root.ExecuteContextC(ctx)
	return report(std.err, cmd, err)
}
