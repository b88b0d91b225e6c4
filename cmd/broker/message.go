package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends/admin"
)

// Bounds of pub and sub.
const (
	pubBatch     = 100
	pubBatchSize = 4 << 20 // bytes of bodies in one request
	subBatch     = 10
	subPoll      = 20 * time.Second // one receive; the API allows no longer wait
	keepMax      = 1000             // messages that sub --keep holds
)

// pubFlags are the properties of the messages that one pub sends.
type pubFlags struct {
	lines      bool
	attributes []string
	message    admin.NewMessage
	priority   int
	delay, ttl time.Duration
}

func newPubCommand(std streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pub QUEUE [BODY|-]",
		Short: "Send a message; without a body, or with -, it is read from standard input",
		Long: "The body is sent as it is: what is read from standard input keeps its newline at the end, unless\n" +
			"--lines makes a message of each line. Prints the ids of the messages.",
		Args: cobra.RangeArgs(1, 2),
	}
	c := addClient(cmd)
	out := addOutput(cmd, std.out, "name")
	addPub(cmd, std, func(ctx context.Context, queue string, batch []admin.NewMessage) error {
		return publish(ctx, c, out, queue, batch)
	})
	return cmd
}

// addPub makes cmd one that sends messages to its first argument, with flags for
// their properties.
func addPub(cmd *cobra.Command, std streams, send func(ctx context.Context, to string, batch []admin.NewMessage) error) {
	var p pubFlags
	f := cmd.Flags()
	f.BoolVar(&p.lines, "lines", false, "send each line of standard input as a message")
	f.StringArrayVar(&p.attributes, "attribute", nil, "`NAME=VALUE` to send along; may be repeated")
	f.StringVar(&p.message.Group, "group", "", "message group")
	f.StringVar(&p.message.DedupID, "dedup-id", "", "deduplication id")
	f.StringVar(&p.message.ContentType, "content-type", "", "type of the body")
	f.IntVar(&p.priority, "priority", 4, "0 to 9, for priority queues")
	addDuration(cmd, &p.delay, "delay", "hide the message so long at first (default: the queue's)")
	addDuration(cmd, &p.ttl, "ttl", "drop the message after so long (default: the queue's retention)")
	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		if err := p.prepare(cmd); err != nil {
			return err
		}
		send := func(batch []admin.NewMessage) error { return send(cmd.Context(), args[0], batch) }
		fromInput := len(args) < 2 || args[1] == "-"
		switch {
		case p.lines && !fromInput:
			return failf(exitUsage, "--lines reads standard input; give no body")
		case p.lines:
			return p.sendLines(std.in, send)
		case fromInput:
			if isTerminal(std.in) {
				fmt.Fprintln(std.err, "reading the body from the terminal; end with Ctrl-D")
			}
			body, err := io.ReadAll(io.LimitReader(std.in, core.BodyBytesMax+1))
			if err != nil {
				return err
			}
			return send([]admin.NewMessage{p.with(body)})
		}
		return send([]admin.NewMessage{p.with([]byte(args[1]))})
	})
}

// prepare fills the message that all bodies are put into.
func (p *pubFlags) prepare(cmd *cobra.Command) error {
	pairs, err := parsePairs("--attribute", p.attributes)
	if err != nil {
		return err
	}
	for _, name := range sortedKeys(pairs) {
		p.message.Attributes = append(p.message.Attributes, admin.Attribute{Name: name, Type: "String", Value: pairs[name]})
	}
	if cmd.Flags().Changed("priority") {
		p.message.Priority = &p.priority
	}
	if cmd.Flags().Changed("delay") {
		delay := admin.Duration(p.delay)
		p.message.Delay = &delay
	}
	p.message.TTL = admin.Duration(p.ttl)
	return nil
}

func (p *pubFlags) with(body []byte) admin.NewMessage {
	m := p.message
	if utf8.Valid(body) {
		m.Body = string(body)
	} else {
		m.BodyBase64 = body
	}
	return m
}

// sendLines sends the lines of r in batches. Those before a failure are sent.
func (p *pubFlags) sendLines(r io.Reader, send func([]admin.NewMessage) error) error {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, core.BodyBytesMax)
	var batch []admin.NewMessage
	size := 0
	for scanner.Scan() {
		line := append([]byte(nil), scanner.Bytes()...)
		if len(batch) > 0 && (len(batch) == pubBatch || size+len(line) > pubBatchSize) {
			if err := send(batch); err != nil {
				return err
			}
			batch, size = nil, 0
		}
		batch, size = append(batch, p.with(line)), size+len(line)
	}
	if err := scanner.Err(); err != nil || len(batch) == 0 {
		return err
	}
	return send(batch)
}

func publish(ctx context.Context, c *client, out *output, queue string, batch []admin.NewMessage) error {
	var res admin.PublishResponse
	if err := c.do(ctx, http.MethodPost, admin.QueuePath(queue, "messages"), admin.PublishRequest{Messages: batch}, &res); err != nil {
		return err
	}
	t := table{header: []string{"ID", "SEQUENCE", "DUPLICATE"}}
	var ids []string
	for _, m := range res.Messages {
		ids = append(ids, m.ID)
		t.add(m.ID, fmt.Sprint(m.Sequence), fmt.Sprint(m.Duplicate))
	}
	return out.show(res.Messages, t, ids...)
}

// subscriber receives for one sub command.
type subscriber struct {
	c     *client
	out   *output
	queue string
	count int           // 0: no end
	wait  time.Duration // 0: no end
	keep  bool
	held  []admin.Settlement
}

func newSubCommand(std streams) *cobra.Command {
	s := &subscriber{}
	cmd := &cobra.Command{
		Use:   "sub QUEUE",
		Short: "Receive messages, print their bodies and delete them",
		Long: "Each body is on a line of its own; -o json and yaml show all of a message. It goes on until it is\n" +
			"interrupted, or as --count and --wait say; with both it exits with 7 if fewer messages came.",
		Args: cobra.ExactArgs(1),
	}
	s.c = addClient(cmd)
	s.out = addOutput(cmd, std.out, "table")
	f := cmd.Flags()
	f.IntVar(&s.count, "count", 0, "end after so many messages")
	addDuration(cmd, &s.wait, "wait", "end when no message has come for so long")
	f.BoolVar(&s.keep, "keep", false, "do not delete: give the messages back at the end; their receive counts grow")
	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		if s.count < 0 || s.wait < 0 {
			return failf(exitUsage, "--count and --wait are not negative")
		}
		if s.keep && s.count > keepMax {
			return failf(exitUsage, "--keep holds at most %d messages", keepMax)
		}
		s.queue = args[0]
		return s.run(cmd.Context())
	})
	return cmd
}

func (s *subscriber) run(ctx context.Context) (err error) {
	defer func() {
		// The messages go back also if the command was interrupted.
		err = errors.Join(err, s.giveBack(context.WithoutCancel(ctx)))
	}()
	got := 0
	last := time.Now()
	for {
		most := subBatch
		switch {
		case s.count > 0:
			most = min(most, s.count-got)
		case s.keep:
			most = min(most, keepMax-got)
		}
		if most <= 0 {
			return nil
		}
		wait := subPoll
		if s.wait > 0 {
			wait = min(wait, max(0, s.wait-time.Since(last)))
		}
		messages, err := s.receive(ctx, most, wait)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		case len(messages) > 0:
			last = time.Now()
		case s.wait > 0 && time.Since(last) >= s.wait:
			if s.count > got {
				return failf(exitTimeout, "%d of %d messages came", got, s.count)
			}
			return nil
		}
		if err := s.deliver(context.WithoutCancel(ctx), messages); err != nil {
			return err
		}
		got += len(messages)
	}
}

func (s *subscriber) receive(ctx context.Context, most int, wait time.Duration) ([]admin.Message, error) {
	var list admin.MessageList
	req := admin.ReceiveRequest{Max: most, Wait: admin.Duration(wait)}
	err := s.c.do(ctx, http.MethodPost, admin.QueuePath(s.queue, "receive"), req, &list)
	return list.Messages, err
}

// deliver prints messages and then deletes them: what was not printed comes
// again.
func (s *subscriber) deliver(ctx context.Context, messages []admin.Message) error {
	var done []admin.Settlement
	for i, m := range messages {
		if err := s.print(m); err != nil {
			for _, rest := range messages[i:] {
				s.held = append(s.held, admin.Settlement{Receipt: rest.Receipt, Action: "release"})
			}
			return errors.Join(err, s.settle(ctx, done))
		}
		if s.keep {
			s.held = append(s.held, admin.Settlement{Receipt: m.Receipt, Action: "release"})
			continue
		}
		done = append(done, admin.Settlement{Receipt: m.Receipt, Action: "delete"})
	}
	return s.settle(ctx, done)
}

func (s *subscriber) print(m admin.Message) error {
	switch s.out.form {
	case "json":
		return s.out.json(m)
	case "table":
		body := m.BodyBase64
		if body == nil {
			body = []byte(m.Body)
		}
		_, err := s.out.w.Write(append(body, '\n'))
		return err
	}
	if s.out.form == "yaml" {
		// Each message is a document of its own.
		if _, err := io.WriteString(s.out.w, "---\n"); err != nil {
			return err
		}
	}
	return s.out.show(m, table{}, m.ID)
}

// settle settles, and fails with the first failure among them.
func (s *subscriber) settle(ctx context.Context, list []admin.Settlement) error {
	if len(list) == 0 {
		return nil
	}
	var res admin.SettleResponse
	err := s.c.do(ctx, http.MethodPost, admin.QueuePath(s.queue, "settle"), admin.SettleRequest{Settlements: list}, &res)
	if err != nil {
		return err
	}
	for _, r := range res.Results {
		if r.Error != nil {
			return fmt.Errorf("%s a message: %s", list[0].Action, r.Error.Message)
		}
	}
	return nil
}

// giveBack releases the messages that are held, from the newest, so that they
// are received again in their order.
func (s *subscriber) giveBack(ctx context.Context) error {
	var errs []error
	for len(s.held) > 0 {
		n := min(len(s.held), pubBatch)
		batch := s.held[len(s.held)-n:]
		errs = append(errs, s.settle(ctx, batch))
		s.held = s.held[:len(s.held)-n]
	}
	return errors.Join(errs...)
}
