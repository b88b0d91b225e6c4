package sqs

import (
	"bytes"
	"strings"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends"
)

// fifoSuffix ends the name of every FIFO queue, and of no other.
const fifoSuffix = ".fifo"

// queueNameMax is the length of a queue name, with its suffix.
const queueNameMax = 80

// validQueueName tells whether SQS can spell name.
func validQueueName(name string) bool {
	base := strings.TrimSuffix(name, fifoSuffix)
	if base == "" || len(name) > queueNameMax {
		return false
	}
	for i := range len(base) {
		if !isNameByte(base[i]) {
			return false
		}
	}
	return true
}

// isNameByte tells whether c may be in the name of a queue or the id of a batch
// entry.
func isNameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}

// queueName returns the queue that QueueUrl names. Any host and any path are
// taken, and a bare name: clients reach us through proxies and by other names.
// Only an account that stands before the name must be ours.
func (c *call) queueName() (string, error) {
	name, account := splitQueueURL(c.params.queueURL)
	if !validQueueName(name.view()) || account != nil && account.view() != c.server.options.Account {
		return "", core.ErrNoQueue
	}
	// The core may keep the name, so it is copied.
	return string(name), nil
}

// splitQueueURL returns the last part of a queue URL and the account before it,
// nil if there is none.
func splitQueueURL(u text) (name, account text) {
	if i := bytes.Index(u, []byte("://")); i >= 0 {
		u = u[i+3:]
		if i = bytes.IndexByte(u, '/'); i < 0 {
			return nil, nil // a host without a path
		}
		u = u[i:]
	}
	u = bytes.TrimRight(u, "/")
	i := bytes.LastIndexByte(u, '/')
	name = u[i+1:]
	if i <= 0 {
		return name, nil
	}
	u = u[:i]
	before := u[bytes.LastIndexByte(u, '/')+1:]
	if isAccount(before.view()) {
		account = before
	}
	return name, account
}

// isQueuePath tells whether path is that of a queue URL: an account and a name
// at its end. Other paths are the context of a proxy.
func isQueuePath(path []byte) bool {
	_, account := splitQueueURL(text(path))
	return account != nil
}

// queueURL returns the URL of a queue as this client can reach it.
func (c *call) queueURL(name string) string {
	return c.urlBase() + "/" + c.server.options.Account + "/" + name
}

func (c *call) urlBase() string {
	if base := c.server.options.URLBase; base != "" {
		return base
	}
	scheme := "http://"
	if frontends.IsTLS(c.http.Conn()) {
		scheme = "https://"
	}
	host := string(c.http.Host())
	if host == "" { // HTTP/1.0
		host = c.http.LocalAddr().String()
	}
	return scheme + host
}

// arn returns the ARN of a queue.
func (s *Server) arn(name string) string { return s.options.arn(name) }

func (o *Options) arn(name string) string {
	return "arn:aws:sqs:" + o.Region + ":" + o.Account + ":" + name
}

// queueOfARN returns the queue that an ARN of ours names.
func (s *Server) queueOfARN(arn string) (name string, ok bool) {
	parts := strings.Split(arn, ":")
	return parts[len(parts)-1], isQueueARN(arn) && parts[3] == s.options.Region && parts[4] == s.options.Account
}
