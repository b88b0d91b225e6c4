package core

import "errors"

// What callers decide on. Frontends map each of these once, in errors.go.
var (
	ErrNoQueue         = errors.New("queue does not exist")
	ErrQueueExists     = errors.New("queue exists with other attributes")
	ErrNoMessage       = errors.New("message does not exist")
	ErrBadReceipt      = errors.New("receipt is not valid")               // malformed, forged, or of another queue
	ErrReceiptExpired  = errors.New("receipt has expired")                // FIFO: the lease ended or is superseded
	ErrNotInFlight     = errors.New("message is not in flight")           // visibility change on one that is not leased
	ErrOverLimit       = errors.New("too many messages in flight")        // standard queues, short poll
	ErrQueueFull       = errors.New("queue is full")                      // overflow policy reject
	ErrMissingGroup    = errors.New("message group is required")          // FIFO
	ErrMissingDedupID  = errors.New("deduplication id is required")       // FIFO without content-based deduplication
	ErrDiskFull        = errors.New("disk is nearly full")                // producers are refused, consumers go on
	ErrStopped         = errors.New("node has stopped")                   // a commit failed, or the node was closed
	ErrDraining        = errors.New("node is draining")                   // no new work
	ErrNotPrimary      = errors.New("node is not primary")                //
	ErrCorrupt         = errors.New("stored data is unreadable")          //
	ErrTooLarge        = errors.New("message is too large")               //
	ErrInvalidName     = errors.New("queue name is not valid")            // empty, over 256 bytes, or not UTF-8
	ErrInvalidConfig   = errors.New("queue configuration is not valid")   //
	ErrInvalidArgument = errors.New("argument is not valid")              //
	ErrMoveActive      = errors.New("a move task of the queue is active") //
	ErrTooManyMoves    = errors.New("too many move tasks are active")     //
	ErrNoMove          = errors.New("no such move task is running")       //
	ErrMoveTarget      = errors.New("destination does not exist")         // of a move task
	ErrInvalidTopic    = errors.New("topic or filter is not valid")       //
	ErrNoBinding       = errors.New("binding does not exist")             //
	ErrTooManyBindings = errors.New("queue has too many bindings")        //
	ErrRoute           = errors.New("message cannot be routed")           // it lacks an attribute that the topic needs
	ErrDeadLetterQueue = errors.New("dead-letter queue is not valid")     // absent, of another kind, or it refuses its source
)
