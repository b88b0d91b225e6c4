package main

import (
	"bufio"
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasemq/broker/configs"
	"github.com/leasemq/broker/frontends/admin"
)

func newQueueCommand(std streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "queue",
		Short: "List, make, change and empty queues",
		Args:  onlyCommands,
		RunE:  action(needSubcommand),
	}
	c := addClient(cmd)
	cmd.AddCommand(
		newQueueListCommand(std, c),
		newQueueCreateCommand(std, c),
		newQueueShowCommand(std, c),
		newQueueSetCommand(std, c),
		newQueueRemoveCommand(std, c),
		newQueuePurgeCommand(std, c),
		newQueuePeekCommand(std, c),
		newQueueRedriveCommand(std, c),
		newQueueMoveCommand(std, c),
		newQueueMovesCommand(std, c),
		newQueueCancelMoveCommand(std, c),
	)
	return cmd
}

func newQueueListCommand(std streams, c *client) *cobra.Command {
	cmd := &cobra.Command{Use: "ls [PREFIX]", Short: "List queues with their counts", Args: cobra.MaximumNArgs(1)}
	out := addOutput(cmd, std.out, "table")
	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		query := url.Values{"limit": {"500"}}
		if len(args) == 1 {
			query.Set("prefix", args[0])
		}
		all := []admin.Queue{}
		for {
			var page admin.QueueList
			if err := c.do(cmd.Context(), http.MethodGet, "/api/v1/queues?"+query.Encode(), nil, &page); err != nil {
				return err
			}
			all = append(all, page.Queues...)
			if page.Next == "" {
				break
			}
			query.Set("after", page.Next)
		}
		t := table{header: []string{"NAME", "KIND", "MESSAGES", "READY", "IN-FLIGHT", "DELAYED", "BYTES", "OLDEST"}}
		var names []string
		for _, q := range all {
			names = append(names, q.Name)
			t.add(q.Name, q.Settings.Kind, count(q.Stats.Messages), count(q.Stats.Ready), count(q.Stats.InFlight),
				count(q.Stats.Delayed), bytesText(q.Stats.Bytes), age(q.Stats.Oldest))
		}
		return out.show(all, t, names...)
	})
	return cmd
}

func count(n int64) string { return strconv.FormatInt(n, 10) }

// age tells how long ago t was, "-" if there is none.
func age(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return max(0, time.Since(t)).Truncate(time.Second).String()
}

// showQueue writes one queue.
func showQueue(out *output, q admin.Queue) error {
	s := q.Settings
	t := table{}
	t.add("name", q.Name)
	t.add("kind", s.Kind)
	t.add("created", q.CreatedAt.Format(time.RFC3339))
	t.add("messages", fmt.Sprintf("%d (%d ready, %d in flight, %d delayed)", q.Stats.Messages, q.Stats.Ready, q.Stats.InFlight, q.Stats.Delayed))
	t.add("bytes", bytesText(q.Stats.Bytes))
	t.add("oldest", age(q.Stats.Oldest))
	t.add("visibility timeout", durationText(s.VisibilityTimeout))
	t.add("delay", durationText(s.Delay))
	t.add("receive wait", durationText(s.ReceiveWait))
	t.add("retention", forEver(s.Retention))
	if s.Kind == "fifo" {
		t.add("content dedup", fmt.Sprint(s.ContentDedup))
		t.add("dedup scope", s.DedupScope)
	}
	if s.Marks == "sync" && s.Kind != "fifo" {
		t.add("marks", s.Marks)
	}
	if d := s.Redelivery; d.DeadLetterQueue != "" {
		t.add("dead-letter queue", fmt.Sprintf("%s after %d receives%s", d.DeadLetterQueue, d.MaxReceives, orExpired(s)))
	}
	if d := s.Redelivery; d.InitialDelay > 0 {
		t.add("redelivery delay", redeliveryText(d))
	}
	if len(s.CopyTo) > 0 {
		t.add("copies to", strings.Join(s.CopyTo, ", "))
	}
	if to := cmp.Or(s.MoveTo, s.PublishTopic); to != "" {
		t.add("moves to", to)
	}
	if s.MaxMessageBytes > 0 {
		t.add("largest message", bytesText(s.MaxMessageBytes))
	}
	if s.MaxMessages > 0 {
		t.add("most messages", fmt.Sprintf("%d, then %s", s.MaxMessages, s.Overflow))
	}
	if s.MaxBytes > 0 {
		t.add("most bytes", fmt.Sprintf("%s, then %s", bytesText(s.MaxBytes), s.Overflow))
	}
	for _, name := range sortedKeys(s.Attributes) {
		t.add("SQS "+name, s.Attributes[name])
	}
	for _, name := range sortedKeys(s.Tags) {
		t.add("tag", name+"="+s.Tags[name])
	}
	return out.show(q, t, q.Name)
}

func durationText(d admin.Duration) string { return configs.DurationText(time.Duration(d)) }

func forEver(d admin.Duration) string {
	if d == 0 {
		return "for ever"
	}
	return durationText(d)
}

func redeliveryText(r admin.Redelivery) string {
	text := durationText(r.InitialDelay)
	if r.Multiplier > 1 {
		text += fmt.Sprintf(", each time %v times as long", r.Multiplier)
		if r.MaxDelay > 0 {
			text += ", up to " + durationText(r.MaxDelay)
		}
	}
	return text
}

// orExpired adds what else goes to the dead-letter queue.
func orExpired(s admin.Settings) string {
	if s.ExpiredToDLQ {
		return ", or when expired"
	}
	return ""
}

func sortedKeys(m map[string]string) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func newQueueCreateCommand(std streams, c *client) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Make a queue; one that is there with the same settings is left as it is",
		Args:  cobra.ExactArgs(1),
	}
	out := addOutput(cmd, std.out, "name")
	edit := addQueueFlags(cmd)
	var kind string
	cmd.Flags().StringVar(&kind, "kind", "", "`KIND` of queue: standard, fifo or priority (default standard, or fifo if the name ends with .fifo)")
	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		settings, err := edit(cmd)
		if err != nil {
			return err
		}
		if f := cmd.Flags(); f.Changed("dead-letter-queue") != f.Changed("max-receives") {
			return failf(exitUsage, "--dead-letter-queue and --max-receives do nothing without each other: give both")
		}
		if kind != "" {
			settings["kind"] = kind
		}
		var q admin.Queue
		in := map[string]any{"name": args[0], "settings": settings}
		if err := c.do(cmd.Context(), http.MethodPost, "/api/v1/queues", in, &q); err != nil {
			return err
		}
		return showQueue(out, q)
	})
	return cmd
}

func newQueueShowCommand(std streams, c *client) *cobra.Command {
	cmd := &cobra.Command{Use: "show NAME", Short: "Show one queue", Args: cobra.ExactArgs(1)}
	out := addOutput(cmd, std.out, "table")
	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		var q admin.Queue
		if err := c.do(cmd.Context(), http.MethodGet, admin.QueuePath(args[0]), nil, &q); err != nil {
			return err
		}
		return showQueue(out, q)
	})
	return cmd
}

func newQueueSetCommand(std streams, c *client) *cobra.Command {
	cmd := &cobra.Command{Use: "set NAME", Short: "Change settings of a queue", Args: cobra.ExactArgs(1)}
	out := addOutput(cmd, std.out, "table")
	edit := addQueueFlags(cmd)
	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		settings, err := edit(cmd)
		if err != nil {
			return err
		}
		if len(settings) == 0 {
			return failf(exitUsage, "nothing to set; see --help")
		}
		var q admin.Queue
		if f := cmd.Flags(); f.Changed("max-receives") && !f.Changed("dead-letter-queue") {
			if err := c.do(cmd.Context(), http.MethodGet, admin.QueuePath(args[0]), nil, &q); err != nil {
				return err
			}
			if q.Settings.Redelivery.DeadLetterQueue == "" {
				return failf(exitConflict, "%s has no dead-letter queue, and --max-receives does nothing without one: give --dead-letter-queue too", args[0])
			}
		}
		if err := c.do(cmd.Context(), http.MethodPatch, admin.QueuePath(args[0]), settings, &q); err != nil {
			return err
		}
		return showQueue(out, q)
	})
	return cmd
}

// addQueueFlags gives cmd a flag for each setting of a queue. The function
// returns those that were given, as the API names them.
func addQueueFlags(cmd *cobra.Command) func(*cobra.Command) (map[string]any, error) {
	f := cmd.Flags()
	addDuration(cmd, new(time.Duration), "visibility-timeout", "how long a received message is hidden")
	addDuration(cmd, new(time.Duration), "delay", "how long a new message is hidden")
	addDuration(cmd, new(time.Duration), "retention", "how long a message is kept, such as 14d; 0s: for ever")
	addDuration(cmd, new(time.Duration), "receive-wait", "how long a receive waits if it does not say")
	addSize(cmd, "max-message-bytes", "largest message, such as 64KiB; 0: the protocol's limit")
	f.Int64("max-messages", 0, "most messages; 0: no limit")
	addSize(cmd, "max-bytes", "most bytes of all messages together; 0: no limit")
	f.String("overflow", "", "what a send beyond that does: reject or drop-oldest")
	f.String("marks", "", "whether a receive waits until its mark is on disk: async or sync")
	f.Bool("content-dedup", false, "fifo: the body's hash is the deduplication id")
	f.String("dedup-scope", "", "fifo: queue or group")
	f.Bool("expired-to-dlq", false, "dead-letter expired messages")
	f.String("dead-letter-queue", "", "`QUEUE` for messages that were received too often; empty: none")
	f.Int("max-receives", 0, "receives before a message is dead-lettered")
	f.StringSlice("copy-to", nil, "`QUEUE` that gets a copy of each message; may be repeated, or a list with commas; empty: none")
	f.String("move-to", "", "`QUEUE` that gets the messages in the place of this one; empty: none")
	f.String("publish-topic", "", "`TOPIC` that the messages go to and are not kept, such as devices/{device}/cmd; empty: none")
	f.StringArray("sqs-attribute", nil, "`NAME=VALUE` of an attribute that only SQS has, such as Policy or FifoThroughputLimit; replaces all of them; may be repeated")
	f.StringArray("tag", nil, "`NAME=VALUE` to label the queue with; replaces all tags; may be repeated")
	return func(cmd *cobra.Command) (map[string]any, error) {
		out, redelivery := map[string]any{}, map[string]any{}
		for _, name := range []string{
			"visibility-timeout", "delay", "retention", "receive-wait", "max-message-bytes", "max-messages", "max-bytes",
			"overflow", "marks", "content-dedup", "dedup-scope", "expired-to-dlq", "dead-letter-queue", "max-receives",
			"move-to", "publish-topic",
		} {
			flag := cmd.Flags().Lookup(name)
			if !flag.Changed {
				continue
			}
			into := out
			if name == "dead-letter-queue" || name == "max-receives" {
				into = redelivery
			}
			into[strings.ReplaceAll(name, "-", "_")] = flagValue(flag.Value.Type(), flag.Value.String())
		}
		if len(redelivery) > 0 {
			out["redelivery"] = redelivery
		}
		if f := cmd.Flags(); f.Changed("copy-to") {
			to, err := f.GetStringSlice("copy-to")
			if err != nil {
				return nil, err
			}
			out["copy_to"] = append([]string{}, to...)
		}
		for flag, key := range map[string]string{"tag": "tags", "sqs-attribute": "attributes"} {
			given, err := cmd.Flags().GetStringArray(flag)
			if err != nil {
				return nil, err
			}
			if len(given) == 0 {
				continue
			}
			if out[key], err = parsePairs("--"+flag, given); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
}

// flagValue returns the value of a flag as JSON has it.
func flagValue(kind, text string) any {
	switch kind {
	case "bool":
		return text == "true"
	case "int", "int64", "size":
		n, _ := strconv.ParseInt(text, 10, 64) // pflag has parsed it before
		return n
	}
	return text
}

// parsePairs reads NAME=VALUE arguments.
func parsePairs(flag string, list []string) (map[string]string, error) {
	out := map[string]string{}
	for _, kv := range list {
		name, value, ok := strings.Cut(kv, "=")
		if !ok || name == "" {
			return nil, failf(exitUsage, "%s %q is not of the form NAME=VALUE", flag, kv)
		}
		out[name] = value
	}
	return out, nil
}

func newQueueRemoveCommand(std streams, c *client) *cobra.Command {
	return newDestructiveCommand(std, "rm NAME...", "Delete queues and their messages", "delete", func(cmd *cobra.Command, name string) error {
		return c.do(cmd.Context(), http.MethodDelete, admin.QueuePath(name), nil, nil)
	})
}

func newQueuePurgeCommand(std streams, c *client) *cobra.Command {
	return newDestructiveCommand(std, "purge NAME...", "Delete all messages of queues", "empty", func(cmd *cobra.Command, name string) error {
		return c.do(cmd.Context(), http.MethodPost, admin.QueuePath(name, "purge"), nil, nil)
	})
}

// newDestructiveCommand returns a command that asks first: on a terminal the
// person, elsewhere for --yes.
func newDestructiveCommand(std streams, use, short, verb string, do func(*cobra.Command, string) error) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.MinimumNArgs(1)}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		if !yes {
			if err := confirm(std, fmt.Sprintf("%s %s", verb, strings.Join(args, ", "))); err != nil {
				return err
			}
		}
		for _, name := range args {
			if err := do(cmd, name); err != nil {
				return err
			}
		}
		return nil
	})
	return cmd
}

func confirm(std streams, what string) error {
	if !isTerminal(std.in) {
		return failf(exitUsage, "this would %s; say --yes", what)
	}
	fmt.Fprintf(std.err, "Really %s? [y/N] ", what)
	answer, _ := bufio.NewReader(std.in).ReadString('\n')
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return failf(exitError, "nothing done")
	}
	return nil
}

func newQueuePeekCommand(std streams, c *client) *cobra.Command {
	var limit int
	var after string
	cmd := &cobra.Command{Use: "peek NAME", Short: "Show messages without receiving them", Args: cobra.ExactArgs(1)}
	out := addOutput(cmd, std.out, "table")
	cmd.Flags().IntVar(&limit, "count", 10, "most messages to show, up to 100")
	cmd.Flags().StringVar(&after, "after", "", "go on where an earlier peek ended")
	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		query := url.Values{"limit": {strconv.Itoa(limit)}}
		if after != "" {
			query.Set("after", after)
		}
		var page admin.MessageList
		if err := c.do(cmd.Context(), http.MethodGet, admin.QueuePath(args[0], "messages")+"?"+query.Encode(), nil, &page); err != nil {
			return err
		}
		t := table{header: []string{"ID", "STATE", "RECEIVES", "AGE", "BODY"}}
		var ids []string
		for _, m := range page.Messages {
			ids = append(ids, m.ID)
			t.add(m.ID, m.State, strconv.Itoa(int(m.Receives)), age(m.EnqueuedAt), oneLine(m))
		}
		if page.Next != "" {
			fmt.Fprintf(std.err, "there are more: --after %s\n", page.Next)
		}
		return out.show(page, t, ids...)
	})
	return cmd
}

// lineWidth is how much of a body a table shows.
const lineWidth = 60

// oneLine returns the start of the body, made safe for a terminal.
func oneLine(m admin.Message) string {
	if m.BodyBase64 != nil {
		return fmt.Sprintf("(%d bytes)", len(m.BodyBase64))
	}
	runes := []rune(m.Body)
	dots := ""
	if len(runes) > lineWidth {
		runes, dots = runes[:lineWidth], "..."
	}
	quoted := strconv.Quote(string(runes))
	return quoted[1:len(quoted)-1] + dots
}
