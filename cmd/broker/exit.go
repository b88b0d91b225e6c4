package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// The exit codes. They are part of the interface: scripts decide on them.
const (
	exitOK            = 0
	exitError         = 1
	exitUsage         = 2 // command line or configuration
	exitNotFound      = 3
	exitCannotConnect = 4
	exitUnauthorized  = 5
	exitConflict      = 6
	exitTimeout       = 7
	exitNotPrimary    = 8
)

// failure is an error that knows its exit code.
type failure struct {
	code int
	err  error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// fail gives err an exit code; nil stays nil.
func fail(code int, err error) error {
	if err == nil {
		return nil
	}
	return &failure{code: code, err: err}
}

func failf(code int, format string, args ...any) error {
	return fail(code, fmt.Errorf(format, args...))
}

// action makes f the work of a command. What f returns without a code is a plain
// error; what cobra itself returns, before f runs, is a mistake of usage.
func action(f func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		err := f(cmd, args)
		if known := (*failure)(nil); err == nil || errors.As(err, &known) {
			return err
		}
		return fail(exitError, err)
	}
}

// report tells what went wrong and returns the exit code.
func report(w io.Writer, cmd *cobra.Command, err error) int {
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(w, "%s: %v\n", cmd.CommandPath(), err)
	if known := (*failure)(nil); errors.As(err, &known) {
		return known.code
	}
	fmt.Fprintf(w, "Usage: %s\nTry '%s --help'.\n", cmd.UseLine(), cmd.CommandPath())
	return exitUsage
}
