package broker

import "github.com/leasemq/broker/storage"

// WithStore edits the options of storage.
func WithStore(edit func(*storage.Options)) Option {
	return func(s *settings) { s.store = edit }
}
