// Package peers is what the nodes of a cluster say to each other besides the log:
// how they are, a copy of the state for one that starts anew, and what is needed to
// compare states, to trim the log and to hand over. They speak over the connections
// that they have to the servers of the log.
//
// # Contract
//
// A [Server] answers for a node at two subjects, lease.peer.CLUSTER.all and
// lease.peer.CLUSTER.node.NODE, with = for dots in the name. A request is one JSON
// object. The answer is JSON or bytes of a file, or has the header Lease-Error, with
// the kind of the error and a text. Who may publish at these subjects may read the
// whole state: servers that others use too must keep them from it.
//
// [KeepDurable] and [KeepTrimmed] run beside the member, on every node and on the
// primary, so that the log does not grow for ever.
//
// [Peers] asks. What it returns is of a moment ago, and what a node says of itself
// is not proved by anything: nothing here decides who is the primary.
//
// # Invariants
//
//   - What comes from a peer is bounded before it is taken, and checked before it
//     is used. A handler that panics answers with an error.
//   - A fetched copy is whole, by length and hash of each file and on stable
//     storage, or is not there.
//   - Of a directory that is replaced there is always the old one or the new one to
//     start from: see [Replace].
//   - A position at which a copy was given out holds the log: the node that starts
//     from it needs all that follows. Nodes say so in their [Status].
//
// # Who may call what
//
// Everything may be called from any goroutine, but that a directory takes one
// caller at a time. The functions of [Options] are called from several goroutines.
// Each request has one; [Server.Close] waits for them.
//
// # Lock order
//
// Server.mu and shelf.mu are never held together, nor over IO or calls of functions
// of Options.
package peers
