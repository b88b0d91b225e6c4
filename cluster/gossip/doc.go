// Package gossip lets nodes find each other: a list of members with what each says
// of itself, kept by memberlist (SWIM) over UDP and TCP.
//
// # Contract
//
// [Start] joins the members that its seeds reach, and tries again for as long as the
// node runs. [Gossip.Members] is what this node believes now; [Gossip.Watch] tells of
// the next change. A member carries a [Node]: at most [NodeBytesMax] bytes, in which
// each node alone has a say about itself.
//
// # Invariants
//
//   - It decides nothing. Who is primary is in the log; who belongs to the log's Raft
//     group is an operator's decision. Two nodes may believe different things at the
//     same time, and the position of a node is old when it comes.
//   - That a member is [Dead] is a hint, wrong where a node was only slow. It may
//     shorten a wait, never below the time after which the primary fences itself.
//   - A member is known by its id, which outlives restarts and changes of address. Two
//     of one id, or of one name, are a conflict that [Gossip.Conflict] tells; nothing
//     is resolved silently.
//   - A node that leaves says so before it goes: [Left] is never a guess, but a node
//     that has left may look dead to one that did not hear it.
//   - Without the key nothing is understood and nothing believed. Without any key only
//     loopback is allowed. Packets of another cluster are dropped by their label.
//
// # Who may call what
//
// Everything may be called from any goroutine. Two goroutines of a Gossip join and
// tell its Node; Leave and Close wait for them. memberlist calls back with its lock
// held: the callbacks take Gossip.mu for moments and never call it.
package gossip
