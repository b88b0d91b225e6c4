package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasemq/broker/cmd/broker/bench"
	"github.com/leasemq/broker/configs"
)

// benchRoundPause lets a server settle between two rounds.
const benchRoundPause = 500 * time.Millisecond

// benchSQSFlags are the flags of "bench sqs".
type benchSQSFlags struct {
	benchFlags
	options bench.SQSOptions
	server  benchServerFlags
	noop    bool
	rounds  int
	pid     int
	keys    bench.Keys
}

func newBenchSQSCommand() *cobra.Command {
	var f benchSQSFlags
	cmd := &cobra.Command{
		Use:   "sqs",
		Short: "Measure an SQS server: this broker, or any other",
		Long: "Without --target, a broker is started for the run: in this process, or with --spawn as\n" +
			"a process of its own. Senders and receivers each hold one connection.\n\n" +
			"With an access key every request is signed (SigV4), and a broker that is started verifies it. For a\n" +
			"--target the key may come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. What signing costs counts\n" +
			"as the client's time.",
		Args: cobra.NoArgs,
	}
	f.add(cmd)
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		f.options.Seed = f.seed
		if f.rounds < 1 {
			return failf(exitUsage, "--rounds is %d, not at least 1", f.rounds)
		}
		if f.noop && (f.options.Protocol != bench.ProtocolJSON || f.options.Batch != 1 && f.options.Batch != 10) {
			return failf(exitUsage, "--noop has canned answers for --protocol json with --batch 1 or 10 only")
		}
		if err := f.takeKeys(); err != nil {
			return err
		}
		return f.measure(cmd, func(ctx context.Context) (*bench.Result, error) {
			progress, done := showProgress(cmd.ErrOrStderr(), "sqs")
			defer done()
			f.options.Progress = progress
			return f.run(ctx)
		})
	})
	return cmd
}

func (f *benchSQSFlags) add(cmd *cobra.Command) {
	f.benchFlags.add(cmd)
	flags, o := cmd.Flags(), &f.options
	flags.StringVar(&o.Target, "target", "", "`URL` of a running SQS server, such as http://127.0.0.1:9324")
	flags.IntVar(&f.pid, "pid", 0, "with --target: process whose CPU time and memory are the server's")
	flags.BoolVar(&f.noop, "noop", false, "measure canned answers of the same HTTP library too, and the ratio to them")
	flags.IntVar(&f.rounds, "rounds", 1, "repeat, and show the median")
	flags.StringVar((*string)(&o.Protocol), "protocol", string(bench.ProtocolJSON), "json or query")
	flags.IntVar(&o.Senders, "senders", 16, "concurrent senders")
	flags.IntVar(&o.Receivers, "receivers", 16, "concurrent receivers; 0: only send")
	flags.IntVar(&o.Queues, "queues", 8, "queues")
	flags.IntVar(&o.Batch, "batch", 1, "messages of a request, 1 to 10")
	flags.IntVar(&o.Size, "size", 200, "bytes of a body")
	flags.Float64Var(&o.Rate, "rate", 0, "messages a second over all senders, sent when they are due; 0: as fast as answers come")
	flags.DurationVar(&o.Warmup, "warmup", time.Second, "time before the measurement")
	flags.DurationVar(&o.Duration, "duration", 10*time.Second, "time of the measurement")
	flags.Int64Var(&o.Count, "count", 0, "messages over all senders; 0: as many as --duration takes")
	flags.IntVar(&o.Ahead, "ahead", 250, "messages a queue that senders may run ahead; 0: no bound")
	flags.BoolVar(&o.Backlog, "backlog", false, "send all of --count first, then measure receives and deletes alone")
	flags.Int64Var(&o.Hold, "hold", 0, "with --backlog: messages that stay in flight until nothing else comes")
	flags.BoolVar(&o.FIFO, "fifo", false, "FIFO queues")
	flags.IntVar(&o.Groups, "groups", 16, "with --fifo: message groups a sender")
	flags.IntVar(&o.Wait, "wait", 1, "seconds of a long poll")
	flags.StringVar(&o.Prefix, "prefix", newRunPrefix(), "`NAME` that the queues begin with")
	flags.BoolVar(&o.Keep, "keep", false, "leave the queues there")
	flags.DurationVar(&o.Drain, "drain", time.Minute, "how long to wait at the end for messages that have not arrived")
	flags.StringVar(&f.keys.ID, "access-key", "", "`ID` of the access key to sign requests with (environment with --target: AWS_ACCESS_KEY_ID)")
	flags.StringVar(&f.keys.Secret, "secret-key", "", "its `SECRET`; other users can see command lines (environment with --target: AWS_SECRET_ACCESS_KEY)")
	flags.StringVar(&f.keys.Region, "region", "us-east-1", "region to sign for")
	f.server.add(cmd)
	for _, name := range []string{"spawn", "data", "memory", "sync"} {
		cmd.MarkFlagsMutuallyExclusive("target", name)
	}
}

// takeKeys finds out what requests are signed with, if anything.
func (f *benchSQSFlags) takeKeys() error {
	k := &f.keys
	if f.options.Target != "" && k.ID == "" && k.Secret == "" {
		k.ID, k.Secret = os.Getenv("AWS_ACCESS_KEY_ID"), os.Getenv("AWS_SECRET_ACCESS_KEY")
	}
	switch {
	case k.ID == "" && k.Secret == "":
		return nil
	case k.ID == "" || k.Secret == "":
		return failf(exitUsage, "an access key has an id and a secret: give both --access-key and --secret-key")
	case strings.Trim(k.ID, keyLetters) != "" || strings.Trim(k.Region, keyLetters) != "" || k.Region == "":
		return failf(exitUsage, "--access-key and --region have letters, digits, dots, dashes and underscores only")
	}
	f.options.Keys = k
	if f.options.Target == "" {
		f.server.key = configs.AccessKey{ID: k.ID, Secret: configs.Secret(k.Secret)}
	}
	return nil
}

// keyLetters is what ids of access keys and names of regions are made of.
const keyLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

// run does all rounds and picks the median one: by the ratio to the canned
// answers if there is one, else by the rate.
func (f *benchSQSFlags) run(ctx context.Context) (*bench.Result, error) {
	var results []*bench.Result
	for i := range f.rounds {
		if i > 0 {
			select {
			case <-time.After(benchRoundPause):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		res, err := f.round(ctx)
		if err != nil {
			return nil, err
		}
		results = append(results, res)
		if !res.Clean() {
			return res, nil
		}
	}
	var rates []float64
	for _, r := range results {
		rates = append(rates, r.PerSecond)
	}
	slices.SortStableFunc(results, func(a, b *bench.Result) int {
		if f.noop {
			return cmp.Compare(a.Ratio, b.Ratio)
		}
		return cmp.Compare(a.PerSecond, b.PerSecond)
	})
	median := results[len(results)/2]
	median.Rounds = rates
	return median, nil
}

// round measures once, with canned answers first if they are asked for.
func (f *benchSQSFlags) round(ctx context.Context) (*bench.Result, error) {
	var canned *bench.Result
	if f.noop {
		server, err := startCanned(ctx, f.server.spawn)
		if err != nil {
			return nil, err
		}
		if canned, err = f.against(ctx, server, true); err != nil {
			return nil, err
		}
	}
	server := &benchServer{pid: f.pid, stop: func() error { return nil }}
	if f.options.Target == "" {
		var err error
		if server, err = f.server.start(ctx); err != nil {
			return nil, err
		}
	}
	res, err := f.against(ctx, server, false)
	if err != nil {
		return nil, err
	}
	res.Start = server.start
	if canned != nil {
		res.Compare(canned)
	}
	return res, nil
}

// against runs the load against a server and stops it.
func (f *benchSQSFlags) against(ctx context.Context, server *benchServer, canned bool) (*bench.Result, error) {
	o := f.options
	o.ServerPID, o.Canned = server.pid, canned
	if server.address != "" {
		o.Target = "http://" + server.address
	}
	if canned {
		o.Keep, o.Rate = true, 0 // there is no queue to delete
	}
	res, err := bench.RunSQS(ctx, o)
	if err := errors.Join(err, server.stop()); err != nil {
		return nil, err
	}
	return res, nil
}
