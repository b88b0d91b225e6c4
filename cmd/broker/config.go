package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/leasemq/broker"
	"github.com/leasemq/broker/configs"
)

func newConfigCommand(std streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check and show a node's settings",
		Args:  onlyCommands,
		RunE:  action(needSubcommand),
	}
	cmd.AddCommand(newConfigCheckCommand(std), newConfigShowCommand(std), newConfigConvertCommand(std))
	return cmd
}

func newConfigCheckCommand(std streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Tell everything that is wrong with the settings",
		Args:  cobra.MaximumNArgs(1),
	}
	settings := addSettingFlags(cmd)
	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			settings.file = args[0]
		}
		if _, err := settings.loadAndCheck(cmd, std.err, tellWarnings); err != nil {
			return err
		}
		fmt.Fprintln(std.err, "the settings are good")
		return nil
	})
	return cmd
}

// setting is one line of "config show".
type setting struct {
	Key    string `json:"key"`
	Value  any    `json:"value"`
	Origin string `json:"origin"`
}

func newConfigShowCommand(std streams) *cobra.Command {
	var origin bool
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show the settings in force",
		Long:  "The YAML form, which is the default, is a file that broker can read.",
		Args:  cobra.NoArgs,
	}
	settings := addSettingFlags(cmd)
	out := addOutput(cmd, std.out, "yaml")
	cmd.Flags().BoolVar(&origin, "origin", false, "show where each value comes from")
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		loaded, err := settings.loadAndCheck(cmd, std.err, tellWarnings)
		if err != nil {
			return err
		}
		return showSettings(out, loaded, origin)
	})
	return cmd
}

func showSettings(out *output, loaded *configs.Loaded, origin bool) error {
	if out.form == "yaml" {
		note := func(f configs.Field) string { return loaded.Origin(f.Key) }
		if !origin {
			note = nil
		}
		return configs.Write(out.w, loaded.Config, func(configs.Field) bool { return true }, note)
	}
	t := table{header: []string{"KEY", "VALUE"}}
	if origin {
		t.header = append(t.header, "ORIGIN")
	}
	var list []setting
	var keys []string
	for _, f := range configs.Fields() {
		list = append(list, setting{f.Key, plain(f.Value(loaded.Config)), loaded.Origin(f.Key)})
		keys = append(keys, f.Key)
		row := []string{f.Key, f.Text(loaded.Config)}
		if origin {
			row = append(row, loaded.Origin(f.Key))
		}
		t.add(row...)
	}
	return out.show(list, t, keys...)
}

// plain turns ordered maps, which JSON does not know, into maps.
func plain(v any) any {
	switch v := v.(type) {
	case []yaml.MapSlice:
		out := make([]any, len(v))
		for i, m := range v {
			out[i] = plain(m)
		}
		return out
	case yaml.MapSlice:
		out := map[string]any{}
		for _, item := range v {
			out[fmt.Sprint(item.Key)] = plain(item.Value)
		}
		return out
	}
	return v
}

func newConfigConvertCommand(std streams) *cobra.Command {
	var from string
	cmd := &cobra.Command{
		Use:   "convert FILE",
		Short: "Turn the settings of another server into a file for this one",
		Long: "Prints a file with the settings and queues of FILE. What this broker cannot do, or does otherwise,\n" +
			"is told on standard error, with its place. 'broker --import FILE' starts with FILE as it is.",
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&from, "from", "elasticmq", "`SERVER` whose settings they are: elasticmq")
	cmd.RunE = action(func(_ *cobra.Command, args []string) error {
		if from != "elasticmq" {
			return failf(exitUsage, "--from is %q, not elasticmq", from)
		}
		// The file may name variables; those that set keys are of this machine.
		environ := slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, configs.EnvPrefix) })
		loaded, err := configs.Load(configs.Sources{Import: args[0], Environ: environ})
		tellWarnings(std.err, loaded)
		if err != nil {
			return fail(exitUsage, err)
		}
		if err := errors.Join(loaded.Config.Check(kindNames()), broker.CheckQueues(loaded.Config)); err != nil {
			fmt.Fprintf(std.err, "warning: as they are, a broker does not start with these settings:\n%v\n", err)
		}
		standard := configs.Default()
		differs := func(f configs.Field) bool { return f.Text(loaded.Config) != f.Text(standard) }
		return configs.Write(std.out, loaded.Config, differs, nil)
	})
	return cmd
}
