package sqs

import (
	"maps"
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/leasemq/broker/core"
)

// Bounds of tags, in characters.
const (
	tagsMax     = 50
	tagKeyMax   = 128
	tagValueMax = 256
)

// reservedTag begins the keys that are AWS's own, in any case.
const reservedTag = "aws:"

func tagQueue(c *call) error {
	q, err := c.queue()
	if err != nil {
		return err
	}
	if c.params.tagCount == 0 {
		return missing("Tags")
	}
	_, err = c.client.Configure(contextOfWork(), q.Name, func(cfg *core.QueueConfig) error {
		return c.addTags(cfg, q.Name)
	})
	if err != nil {
		return err
	}
	c.answer.void("TagQueue", c.id())
	return nil
}

func untagQueue(c *call) error {
	q, err := c.queue()
	if err != nil {
		return err
	}
	switch {
	case c.params.tagKeys == nil:
		return missing("TagKeys")
	case len(c.params.tagKeys) == 0:
		return errTagKeyLength()
	}
	for _, key := range c.params.tagKeys {
		if err := checkTagKey(key); err != nil {
			return err
		}
	}
	_, err = c.client.Configure(contextOfWork(), q.Name, func(cfg *core.QueueConfig) error {
		for _, key := range c.params.tagKeys {
			delete(cfg.Tags, key.view())
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.answer.void("UntagQueue", c.id())
	return nil
}

func listQueueTags(c *call) error {
	q, err := c.queue()
	if err != nil {
		return err
	}
	a := &c.answer
	a.open("ListQueueTags")
	start := a.beginMap("Tags")
	for _, key := range slices.Sorted(maps.Keys(q.Config.Tags)) {
		a.tagMember(key, q.Config.Tags[key])
	}
	a.endMap(start)
	a.close("ListQueueTags", c.id())
	return nil
}

// addTags checks the tags of the request and adds them to those in cfg, of the
// queue called name. One that is there gets the new value.
func (c *call) addTags(cfg *core.QueueConfig, name string) error {
	tooMany := c.params.tagCount > tagsMax
	for _, t := range c.params.tags {
		if err := checkTag(t); err != nil {
			return err
		}
		if cfg.Tags == nil {
			cfg.Tags = make(map[string]string, len(c.params.tags))
		}
		cfg.Tags[string(t.name)] = string(t.value)
	}
	if tooMany || len(cfg.Tags) > tagsMax {
		return fail(faultInvalidParameter, "Too many tags added for queue %s.", name)
	}
	return nil
}

func checkTag(t pair) error {
	if err := checkTagKey(t.name); err != nil {
		return err
	}
	switch {
	case utf8.RuneCount(t.value) > tagValueMax:
		return fail(faultInvalidParameter, "Tag values must be between 0 and 256 characters in length.")
	case !validTagText(t.value):
		return fail(faultInvalidParameter, "Tag values can only include letters, digits, white space, and the characters _ . : / = + - @.")
	}
	return nil
}

func checkTagKey(key text) error {
	switch n := utf8.RuneCount(key); {
	case n == 0 || n > tagKeyMax:
		return errTagKeyLength()
	case !validTagText(key):
		return fail(faultInvalidParameter, "Tag keys can only include letters, digits, white space, and the characters _ . : / = + - @.")
	case hasPrefixFold(key, reservedTag):
		return fail(faultInvalidParameter, "Tag keys must not start with aws:, which is reserved.")
	}
	return nil
}

func errTagKeyLength() error {
	return fail(faultInvalidParameter, "Tag keys must be between 1 and 128 characters in length.")
}

// validTagText tells whether t is of the characters that AWS has in tags.
func validTagText(t text) bool {
	if !validText(t) {
		return false
	}
	for _, r := range t.view() {
		switch {
		case unicode.IsLetter(r), unicode.IsMark(r), unicode.IsNumber(r), unicode.IsSpace(r):
		case r == '_', r == '.', r == ':', r == '/', r == '=', r == '+', r == '-', r == '@':
		default:
			return false
		}
	}
	return true
}
