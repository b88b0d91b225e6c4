package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"runtime"
	"runtime/pprof"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/leasemq/broker/cmd/broker/bench"
)

// newBenchCommand returns the commands that measure.
func newBenchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure the core, this broker, or any SQS, STOMP or MQTT server",
		Long: "Each run checks that every message came through once, whole, and for FIFO in order.\n" +
			"It ends with exit code 1 if one did not.",
		Args: onlyCommands,
		RunE: action(needSubcommand),
	}
	cmd.AddCommand(newBenchCoreCommand(), newBenchSQSCommand(), newBenchSTOMPCommand(), newBenchMQTTCommand(), newBenchCannedCommand())
	return cmd
}

// benchFlags are the flags that all measurements share.
type benchFlags struct {
	output     string
	file       string
	cpuProfile string
	memProfile string
	seed       uint64
}

func (f *benchFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&f.output, "output", "o", "table", "`FORMAT` on standard output: table or json")
	flags.StringVar(&f.file, "out", "", "write the result as JSON to `FILE` too")
	flags.StringVar(&f.cpuProfile, "cpuprofile", "", "write a CPU profile of this process to `FILE`")
	flags.StringVar(&f.memProfile, "memprofile", "", "write a profile of this process's allocations to `FILE`")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of the message bodies")
}

// measure runs f and shows what it has found.
func (f *benchFlags) measure(cmd *cobra.Command, run func(ctx context.Context) (*bench.Result, error)) error {
	if f.output != "table" && f.output != "json" {
		return failf(exitUsage, "--output is %q, not one of table, json", f.output)
	}
	stopProfile, err := f.startProfile()
	if err != nil {
		return err
	}
	res, err := run(cmd.Context())
	if err := errors.Join(err, stopProfile()); err != nil {
		return fail(benchExit(err), err)
	}
	if err := f.show(cmd.OutOrStdout(), res); err != nil {
		return err
	}
	if !res.Clean() {
		return failf(exitError, "the run was not clean: %s", res.Trouble())
	}
	return nil
}

// benchExit returns the exit code for the error of a run.
func benchExit(err error) int {
	known, dial := (*failure)(nil), (*net.OpError)(nil)
	switch {
	case errors.As(err, &known):
		return known.code
	case errors.Is(err, bench.ErrOptions):
		return exitUsage
	case errors.As(err, &dial) && dial.Op == "dial":
		return exitCannotConnect
	}
	return exitError
}

func (f *benchFlags) show(w io.Writer, res *bench.Result) error {
	text, err := json.MarshalIndent(res, "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if f.file != "" {
		if err := os.WriteFile(f.file, text, 0o644); err != nil {
			return err
		}
	}
	if f.output == "json" {
		_, err = w.Write(text)
		return err
	}
	return res.WriteTable(w)
}

// startProfile starts the CPU profile; stop ends it and writes the other one.
func (f *benchFlags) startProfile() (stop func() error, err error) {
	var cpu *os.File
	if f.cpuProfile != "" {
		if cpu, err = os.Create(f.cpuProfile); err != nil {
			return nil, err
		}
		if err := pprof.StartCPUProfile(cpu); err != nil {
			return nil, errors.Join(err, cpu.Close())
		}
	}
	if f.memProfile != "" {
		runtime.MemProfileRate = 16 << 10
	}
	return func() error {
		var errs []error
		if cpu != nil {
			pprof.StopCPUProfile()
			errs = append(errs, cpu.Close())
		}
		if f.memProfile != "" {
			mem, err := os.Create(f.memProfile)
			if err != nil {
				return errors.Join(append(errs, err)...)
			}
			errs = append(errs, pprof.Lookup("allocs").WriteTo(mem, 0), mem.Close())
		}
		return errors.Join(errs...)
	}, nil
}

// showProgress returns a Progress that draws a bar on w if that is a terminal,
// else nil, and what to call at the end.
func showProgress(w io.Writer, what string) (bench.Progress, func()) {
	f, ok := w.(*os.File)
	if !ok {
		return nil, func() {}
	}
	if info, err := f.Stat(); err != nil || info.Mode()&fs.ModeCharDevice == 0 {
		return nil, func() {}
	}
	bar := progressbar.NewOptions64(-1,
		progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("msg"),
		progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
	// A bar that cannot be drawn is not worth the run.
	progress := func(done, all int64) {
		if all > 0 && bar.GetMax64() != all {
			bar.ChangeMax64(all)
		}
		if all > 0 {
			done = min(done, all)
		}
		_ = bar.Set64(done)
	}
	return progress, func() { _ = bar.Finish() }
}

// benchDir returns dir or, if that is empty, a new directory that remove
// removes.
func benchDir(dir string) (path string, remove func() error, err error) {
	if dir != "" {
		return dir, func() error { return nil }, nil
	}
	path, err = os.MkdirTemp("", "broker-bench-")
	if err != nil {
		return "", nil, err
	}
	return path, func() error { return os.RemoveAll(path) }, nil
}

// newRunPrefix names the queues of a run apart from those of others.
func newRunPrefix() string { return fmt.Sprintf("bench-%x", time.Now().UnixMilli()) }
