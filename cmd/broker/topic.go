package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/leasemq/broker/frontends/admin"
)

// Paths of topics in the API.
const (
	bindingsPath  = "/api/v1/topics/bindings"
	topicMessages = "/api/v1/topics/messages"
	retainedPath  = "/api/v1/topics/retained"
)

func newTopicCommand(std streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "topic",
		Short: "Bind queues to topics, publish, and show retained values",
		Long: "A topic is levels joined by /, such as orders/eu/new. In a filter + stands for one level, and # at its\n" +
			"end for all that follow. A queue that is bound to a filter gets a copy of each message that is\n" +
			"published to a topic that the filter matches.",
		Args: onlyCommands,
		RunE: action(needSubcommand),
	}
	c := addClient(cmd)
	cmd.AddCommand(
		newTopicListCommand(std, c),
		newTopicBindCommand(c),
		newTopicUnbindCommand(c),
		newTopicPubCommand(std, c),
		newTopicRetainedCommand(std, c),
	)
	return cmd
}

func newTopicListCommand(std streams, c *client) *cobra.Command {
	cmd := &cobra.Command{Use: "ls [QUEUE]", Short: "List bindings, of all queues or of one", Args: cobra.MaximumNArgs(1)}
	out := addOutput(cmd, std.out, "table")
	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		query := url.Values{"limit": {"1000"}}
		if len(args) == 1 {
			query.Set("queue", args[0])
		}
		all := []admin.Binding{}
		for {
			var page admin.BindingList
			if err := c.do(cmd.Context(), http.MethodGet, bindingsPath+"?"+query.Encode(), nil, &page); err != nil {
				return err
			}
			all = append(all, page.Bindings...)
			if page.Next == "" {
				break
			}
			query.Set("after", page.Next)
		}
		t := table{header: []string{"FILTER", "QUEUE", "ORIGIN"}}
		var filters []string
		for _, b := range all {
			filters = append(filters, b.Filter)
			t.add(b.Filter, b.Queue, b.Origin)
		}
		return out.show(all, t, filters...)
	})
	return cmd
}

func newTopicBindCommand(c *client) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bind FILTER QUEUE",
		Short: "Give a queue copies of what is published to the topics that a filter matches",
		Args:  cobra.ExactArgs(2),
	}
	var selector string
	cmd.Flags().StringVar(&selector, "selector", "", "only messages that it selects, such as \"color = 'red'\"")
	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		req := admin.BindRequest{Filter: args[0], Queue: args[1], Selector: selector}
		return c.do(cmd.Context(), http.MethodPost, bindingsPath, req, nil)
	})
	return cmd
}

func newTopicUnbindCommand(c *client) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "unbind FILTER QUEUE",
		Short: "Remove a binding; what the queue has got by it stays",
		Args:  cobra.ExactArgs(2),
	}
	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		query := url.Values{"filter": {args[0]}, "queue": {args[1]}}
		return c.do(cmd.Context(), http.MethodDelete, bindingsPath+"?"+query.Encode(), nil, nil)
	})
	return cmd
}

func newTopicPubCommand(std streams, c *client) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pub TOPIC [BODY|-]",
		Short: "Publish a message; without a body, or with -, it is read from standard input",
		Long: "The body is sent as broker pub does. All bound queues get the message, or none does if the publish\n" +
			"fails. Prints the ids of the messages; -o table has how many queues each has reached.",
		Args: cobra.RangeArgs(1, 2),
	}
	out := addOutput(cmd, std.out, "name")
	var retain bool
	cmd.Flags().BoolVar(&retain, "retain", false, "keep the message as the value of the topic; an empty body removes the value")
	addPub(cmd, std, func(ctx context.Context, topic string, batch []admin.NewMessage) error {
		var res admin.TopicResponse
		req := admin.TopicRequest{Topic: topic, Messages: batch, Retain: retain}
		if err := c.do(ctx, http.MethodPost, topicMessages, req, &res); err != nil {
			return err
		}
		t := table{header: []string{"ID", "QUEUES", "REFUSED"}}
		var ids []string
		for _, m := range res.Messages {
			ids = append(ids, m.ID)
			t.add(m.ID, strconv.Itoa(m.Queues), strconv.Itoa(m.Full+m.TooLarge))
		}
		if !retain && res.Messages[0].Queues+res.Messages[0].Full+res.Messages[0].TooLarge == 0 {
			fmt.Fprintf(std.err, "no queue is bound to %s\n", topic)
		}
		return out.show(res.Messages, t, ids...)
	})
	return cmd
}

func newTopicRetainedCommand(std streams, c *client) *cobra.Command {
	var limit int
	var after string
	cmd := &cobra.Command{
		Use:   "retained [FILTER]",
		Short: "Show the retained values of the topics that a filter matches",
		Long:  "Without a filter all are shown, but for topics that begin with $.",
		Args:  cobra.MaximumNArgs(1),
	}
	out := addOutput(cmd, std.out, "table")
	cmd.Flags().IntVar(&limit, "count", 10, "most values to show, up to 100")
	cmd.Flags().StringVar(&after, "after", "", "go on behind this `TOPIC`")
	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		query := url.Values{"limit": {strconv.Itoa(limit)}, "after": {after}}
		if len(args) == 1 {
			query.Set("filter", args[0])
		}
		var page admin.RetainedList
		if err := c.do(cmd.Context(), http.MethodGet, retainedPath+"?"+query.Encode(), nil, &page); err != nil {
			return err
		}
		t := table{header: []string{"TOPIC", "ID", "AGE", "BODY"}}
		var topics []string
		for _, v := range page.Retained {
			topics = append(topics, v.Topic)
			t.add(v.Topic, v.Message.ID, age(v.Message.EnqueuedAt), oneLine(v.Message))
		}
		if page.Next != "" {
			fmt.Fprintf(std.err, "there are more: --after %s\n", page.Next)
		}
		return out.show(page, t, topics...)
	})
	return cmd
}
