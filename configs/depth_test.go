package configs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leasemq/broker/configs"
)

// TestDeepFilesAreRefused: the parser would take gigabytes for these.
func TestDeepFilesAreRefused(t *testing.T) {
	const deep = 8000
	for name, text := range map[string]string{
		"lists":       "frontends: " + strings.Repeat("[", deep),
		"closed":      "frontends: " + strings.Repeat("[", deep) + strings.Repeat("]", deep),
		"mappings":    "queues: " + strings.Repeat("{a: ", deep),
		"block lists": "frontends:\n  " + strings.Repeat("- ", deep),
		"block keys":  strings.Repeat("? ", deep),
	} {
		path := filepath.Join(t.TempDir(), "broker.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) { _ = loadSays(t, configs.Sources{File: path}, "nested too deep") })
	}
	keys := "BROKER_SQS_ACCESS_KEYS=" + strings.Repeat("[", deep)
	_ = loadSays(t, configs.Sources{Environ: []string{keys}}, "not a list such as")
}

// TestShallowFilesAreNotTooDeep: many brackets and dashes are no depth.
func TestShallowFilesAreNotTooDeep(t *testing.T) {
	tags := strings.Repeat("# - [] {} ---\n", 200) + "queues:\n  a:\n    tags:\n      x: '" + strings.Repeat("[]{}- ", 30) + "'\n"
	path := filepath.Join(t.TempDir(), "broker.yaml")
	if err := os.WriteFile(path, []byte(tags), 0o600); err != nil {
		t.Fatal(err)
	}
	if l := load(t, configs.Sources{File: path}); len(l.Config.Queues) != 1 {
		t.Errorf("%d queues", len(l.Config.Queues))
	}
}

// TestEndlessFilesAreRefused: a device has no size, and more than memory.
func TestEndlessFilesAreRefused(t *testing.T) {
	const endless = "/dev/zero"
	if _, err := os.Stat(endless); err != nil {
		t.Skip(err)
	}
	_ = loadSays(t, configs.Sources{File: endless}, "larger than")
	_ = loadSays(t, configs.Sources{Import: endless}, "larger than")
	_ = loadSays(t, configs.Sources{Environ: []string{"BROKER_SQS_ACCOUNT_FILE=" + endless}}, "larger than")
}
