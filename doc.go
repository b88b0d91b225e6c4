// Package broker is the front door of LeaseMQ: [Run] assembles and runs one
// node. The command in cmd/broker calls it, and so can any Go program or test:
//
//	node, err := broker.Run(ctx)
//
// starts a whole broker in memory, with the SQS and the admin listener on free
// ports of the loopback interface. [Data] keeps messages in a directory,
// [FromConfig] takes every setting there is. [Node.Client] reaches the queues
// without a network.
//
// # Order
//
// A node opens from the bottom to the top: storage, core, frontends, admin. It
// closes from the top to the bottom: frontends drain, the admin listener goes
// last of them so that it can tell about the drain, then the core commits what
// it accepted, then storage closes.
//
// # Goroutines
//
// Run starts one goroutine for each listener and one that waits for the end:
// of the context, of Close, or of the node's health. Wait returns when all of
// them have ended. A [Node] is safe for concurrent use.
//
// # Failures
//
// A commit that fails stops the node, since what became of it is unknown; Wait
// returns the reason. A disk that is nearly full does not: producers are refused
// until there is room again.
package broker
