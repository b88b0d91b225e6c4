package stomp

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends/stomp/frame"
)

// fault is what an ERROR frame tells. Every fault ends its connection.
type fault struct {
	message string // the header
	detail  string // the body
	version bool   // the versions are told too
	http    bool   // it is told as an answer of HTTP
}

// Error returns the message and the detail.
func (f *fault) Error() string { return f.message + ": " + f.detail }

func fail(message, format string, args ...any) *fault {
	return &fault{message: message, detail: fmt.Sprintf(format, args...)}
}

func missingHeader(command, name string) *fault {
	return fail("Missing header", "%s must have the header '%s'.", command, name)
}

func invalidHeader(name, value, wants string) *fault {
	return fail("Invalid header", "'%s' is '%.100s', and must be %s.", name, value, wants)
}

// coreFault tells an error of the core about destination.
func coreFault(err error, destination string) *fault {
	message, detail := "Server error", "The request could not be carried out."
	switch {
	case errors.Is(err, core.ErrNoQueue):
		message, detail = "not_found", "there is no queue for the destination"
	case errors.Is(err, core.ErrQueueFull):
		message, detail = "Queue is full", "no more messages are taken by the destination"
	case errors.Is(err, core.ErrDiskFull):
		message, detail = "Disk is nearly full", "no messages are taken until there is room"
	case errors.Is(err, core.ErrTooLarge):
		message, detail = "Message is too large", "the message is larger than what the broker takes"
	case errors.Is(err, core.ErrMissingGroup):
		message, detail = "Missing header", "a FIFO queue needs 'JMSXGroupID' on every message"
	case errors.Is(err, core.ErrMissingDedupID):
		message, detail = "Missing header", "the queue needs '_AMQ_DUPL_ID' on every message"
	case errors.Is(err, core.ErrInvalidName):
		message, detail = "Invalid destination", "it is not the name of a queue"
	case errors.Is(err, core.ErrInvalidTopic):
		message, detail = "Invalid destination", "it is not a topic"
	case errors.Is(err, core.ErrRoute):
		message, detail = "Missing header", "the queue publishes to a topic, and a header that names it or says how is absent or not valid"
	case errors.Is(err, core.ErrTooManyBindings):
		message, detail = "Too many subscriptions", "the queue is bound to too many filters"
	case errors.Is(err, core.ErrOverLimit):
		message, detail = "Too many selectors", "the queue has consumers with too many selectors that differ"
	case errors.Is(err, core.ErrInvalidArgument):
		message, detail = "Invalid header", "a header has a value that is out of bounds"
	case errors.Is(err, core.ErrReceiptExpired), errors.Is(err, core.ErrNoMessage), errors.Is(err, core.ErrNotInFlight), errors.Is(err, core.ErrBadReceipt):
		message, detail = "Message not found", "a message that was to be settled is not held by this connection any more"
	case errors.Is(err, core.ErrDraining), errors.Is(err, core.ErrStopped):
		return shuttingDown()
	case errors.Is(err, core.ErrNotPrimary):
		message, detail = "Not primary", "another node serves clients"
	}
	if destination == "" {
		return &fault{message: message, detail: detail}
	}
	return fail(message, "%s (%s)", detail, destination)
}

func shuttingDown() *fault {
	return fail("Server is shutting down", "Connect again.")
}

// readFault tells why reading ended; nil if there is nobody to tell it to.
func readFault(err error) *fault {
	var f *fault
	switch {
	case errors.As(err, &f):
		return f
	case errors.Is(err, frame.ErrTooLarge):
		return fail("Frame too large", "%s.", reason(err))
	case errors.Is(err, frame.ErrMalformed):
		return fail("Malformed frame", "%s.", reason(err))
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fail("Heart-beat missed", "Nothing was heard of the client for too long.")
	case err == io.EOF, errors.Is(err, io.ErrUnexpectedEOF):
	}
	return nil
}

// reason returns what stands behind the kind of an error of package frame.
func reason(err error) string {
	_, text, _ := strings.Cut(err.Error(), ": ")
	return text
}
