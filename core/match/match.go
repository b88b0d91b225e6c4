// Package match finds the filters that match the name of a topic.
//
// A topic is levels joined by '/', of which each may be empty. In a filter a
// level '+' stands for any one level, and '#' as the last level for any number
// of them, none included: "a/#" matches "a", "a/b" and "a/b/c". A filter that
// begins with a wildcard does not match topics that begin with '$', which are
// the broker's own. These are the rules of MQTT; the wildcards of STOMP, '*' and
// '>', are the same under other names, which its frontend translates.
//
// A [Tree] is made for many matches and few changes: a match takes a lock that
// it shares with others, walks what can match and nothing else, and allocates
// nothing.
package match

import (
	"errors"
	"strings"
	"sync"
	"unicode/utf8"
)

// Bounds of a topic and of a filter.
const (
	BytesMax  = 65535 // bytes of UTF-8
	LevelsMax = 128
)

// What CheckTopic and CheckFilter say.
var (
	ErrTopic  = errors.New("topic is not valid")
	ErrFilter = errors.New("topic filter is not valid")
)

// CheckTopic tells whether a message can be published to topic.
func CheckTopic(topic string) error {
	if !sound(topic) || strings.ContainsAny(topic, "+#") {
		return ErrTopic
	}
	return nil
}

// CheckFilter tells whether filter can be matched. A topic is a filter too.
func CheckFilter(filter string) error {
	if !sound(filter) {
		return ErrFilter
	}
	for rest, more := filter, true; more; {
		var level string
		level, rest, more = strings.Cut(rest, "/")
		switch {
		case level == "#" && more, len(level) > 1 && strings.ContainsAny(level, "+#"):
			return ErrFilter
		}
	}
	return nil
}

func sound(name string) bool {
	return name != "" && len(name) <= BytesMax && strings.Count(name, "/") < LevelsMax &&
		utf8.ValidString(name) && strings.IndexByte(name, 0) < 0
}

// Matches tells whether a filter matches a topic, both valid.
func Matches(filter, topic string) bool {
	if strings.HasPrefix(topic, "$") && (strings.HasPrefix(filter, "+") || strings.HasPrefix(filter, "#")) {
		return false
	}
	for {
		want, filterRest, filterMore := strings.Cut(filter, "/")
		if want == "#" {
			return true
		}
		have, topicRest, topicMore := strings.Cut(topic, "/")
		switch {
		case want != "+" && want != have:
			return false
		case !topicMore:
			return !filterMore || filterRest == "#"
		case !filterMore:
			return false
		}
		filter, topic = filterRest, topicRest
	}
}

// Tree holds values under filters. It is safe for concurrent use. The zero value
// is empty.
type Tree[V comparable] struct {
	mu    sync.RWMutex
	root  node[V]
	pairs int
}

// Insert adds v under filter, which must be valid, and tells whether it was not
// there yet.
func (t *Tree[V]) Insert(filter string, v V) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := &t.root
	at := &n.here
	for rest, more := filter, true; more; {
		var level string
		level, rest, more = strings.Cut(rest, "/")
		if level == "#" {
			at = &n.below
			break
		}
		n = n.make(level)
		at = &n.here
	}
	if !at.add(v) {
		return false
	}
	t.pairs++
	return true
}

// Remove takes v away from under filter, and tells whether it was there.
func (t *Tree[V]) Remove(filter string, v V) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.root.remove(filter, true, v) {
		return false
	}
	t.pairs--
	return true
}

// Len returns how many pairs of a filter and a value there are.
func (t *Tree[V]) Len() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.pairs
}

// Append appends to dst the values of all filters that match topic, which must
// be valid. A value that is there under several filters is appended for each.
func (t *Tree[V]) Append(dst []V, topic string) []V {
	t.mu.RLock()
	defer t.mu.RUnlock()
	n := &t.root
	if !strings.HasPrefix(topic, "$") {
		return n.match(dst, topic, true)
	}
	level, rest, more := strings.Cut(topic, "/")
	if n = n.child(level); n != nil {
		dst = n.match(dst, rest, more)
	}
	return dst
}
