package broker

import (
	"log/slog"
	"slices"

	"github.com/leasemq/broker/configs"
	"github.com/leasemq/broker/storage"
)

// Option changes how Run starts a node. Options apply in their order.
type Option func(*settings)

// settings are what the options make.
type settings struct {
	config   configs.Config
	kinds    []Kind
	log      *slog.Logger
	version  string
	revision string
	store    func(*storage.Options) // for tests: a file system that fails
}

// newSettings returns the settings of a node that is embedded: in memory, on
// free ports of the loopback interface.
func newSettings(options []Option) *settings {
	s := &settings{config: configs.Default(), kinds: []Kind{SQS(), STOMP(), MQTT()}, log: slog.Default(), version: "embedded"}
	s.config.Node.Memory = true
	s.config.SQS.Listen = ":0"
	s.config.STOMP.Listen, s.config.STOMP.WSListen = ":0", ":0"
	s.config.MQTT.Listen, s.config.MQTT.WSListen = ":0", ":0"
	s.config.Admin.Listen = ":0"
	for _, option := range options {
		option(s)
	}
	return s
}

// kindNames lists the frontends that the node could run.
func (s *settings) kindNames() []string {
	var names []string
	for _, k := range s.kinds {
		names = append(names, k.Name)
	}
	return names
}

// kind returns the kind of that name, which there is.
func (s *settings) kind(name string) Kind {
	return s.kinds[slices.IndexFunc(s.kinds, func(k Kind) bool { return k.Name == name })]
}

// Memory keeps everything in memory. It is the default.
func Memory() Option {
	return func(s *settings) { s.config.Node.Memory = true }
}

// Data keeps the node's state in dir, which is created if absent.
func Data(dir string) Option {
	return func(s *settings) { s.config.Node.Data, s.config.Node.Memory = dir, false }
}

// WithFrontends serves these protocols instead of all that there are.
func WithFrontends(names ...string) Option {
	return func(s *settings) { s.config.Frontends = names }
}

// FromConfig takes all settings from c. It overrides the options before it,
// free ports included.
func FromConfig(c configs.Config) Option {
	return func(s *settings) { s.config = c }
}

// Edit changes settings in place, for those that have no option of their own.
func Edit(edit func(*configs.Config)) Option {
	return func(s *settings) { edit(&s.config) }
}

// WithKinds replaces the kinds of frontend that the node can run.
func WithKinds(kinds ...Kind) Option {
	return func(s *settings) { s.kinds = kinds }
}

// WithLogger sends the node's log to log instead of slog.Default.
func WithLogger(log *slog.Logger) Option {
	return func(s *settings) { s.log = log }
}

// WithBuild names the build in the metric broker_build_info.
func WithBuild(version, revision string) Option {
	return func(s *settings) { s.version, s.revision = version, revision }
}
