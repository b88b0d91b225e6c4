package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version and revision are set by the linker in releases.
var (
	version  = ""
	revision = ""
)

// build describes the binary.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"` // the work tree had changes
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// thisBuild returns what the linker was told, or else what the Go tool noted.
func thisBuild() build {
	b := build{Version: version, Revision: revision, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b.named()
	}
	if b.Version == "" && info.Main.Version != "(devel)" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && b.Revision == "":
			b.Revision = s.Value
		case s.Key == "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b.named()
}

// named gives a build without a version the name of what it is.
func (b build) named() build {
	if b.Version == "" {
		b.Version = "devel"
	}
	return b
}

func newVersionCommand(std streams) *cobra.Command {
	cmd := &cobra.Command{Use: "version", Short: "Tell which build this is", Args: cobra.NoArgs}
	out := addOutput(cmd, std.out, "table")
	cmd.RunE = action(func(*cobra.Command, []string) error {
		b := thisBuild()
		t := table{}
		t.add("broker", b.Version, b.Go, b.Platform)
		return out.show(b, t, b.Version)
	})
	return cmd
}
