package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/leasemq/broker/configs"
)

func newConfigCommand(std streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check and show a node's settings",
		Args:  onlyCommands,
		RunE:  action(needSubcommand),
	}
	cmd.AddCommand(newConfigCheckCommand(std), newConfigShowCommand(std))
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
		if _, err := settings.loadAndCheck(cmd, std.err); err != nil {
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
		Short: "Show the settings in force, and where each comes from",
		Long:  "Shows the settings in force. The YAML form, which is the default, is a file that broker can read.",
		Args:  cobra.NoArgs,
	}
	settings := addSettingFlags(cmd)
	out := addOutput(cmd, std.out, "yaml")
	cmd.Flags().BoolVar(&origin, "origin", false, "show where each value comes from")
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		loaded, err := settings.loadAndCheck(cmd, std.err)
		if err != nil {
			return err
		}
		var list []setting
		for _, f := range configs.Fields() {
			value := f.Value(loaded.Config)
			if f.Kind == "duration" {
				value = f.Text(loaded.Config)
			}
			list = append(list, setting{f.Key, value, loaded.Origin(f.Key)})
		}
		return showSettings(out, list, origin)
	})
	return cmd
}

func showSettings(out *output, list []setting, origin bool) error {
	if out.form == "yaml" {
		return writeSettingsFile(out.w, list, origin)
	}
	t := table{header: []string{"KEY", "VALUE"}}
	if origin {
		t.header = append(t.header, "ORIGIN")
	}
	var keys []string
	for _, s := range list {
		keys = append(keys, s.Key)
		row := []string{s.Key, fmt.Sprint(s.Value)}
		if origin {
			row = append(row, s.Origin)
		}
		t.add(row...)
	}
	return out.show(list, t, keys...)
}

// writeSettingsFile writes the settings as a file that can be loaded again.
func writeSettingsFile(w io.Writer, list []setting, origin bool) error {
	section := ""
	for _, s := range list {
		name, indent := s.Key, ""
		if at := strings.LastIndexByte(s.Key, '.'); at >= 0 {
			if s.Key[:at] != section {
				section = s.Key[:at]
				fmt.Fprintf(w, "%s:\n", section)
			}
			name, indent = s.Key[at+1:], "  "
		}
		value, err := yaml.MarshalWithOptions(s.Value, yaml.Flow(true))
		if err != nil {
			return err
		}
		line := fmt.Sprintf("%s%s: %s", indent, name, strings.TrimSpace(string(value)))
		if origin {
			line = fmt.Sprintf("%-40s # %s", line, s.Origin)
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}
