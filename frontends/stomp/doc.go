// Package stomp is the frontend that speaks STOMP 1.0, 1.1 and 1.2 as clients of
// ActiveMQ and RabbitMQ expect it.
//
// # A connection
//
// One goroutine reads frames, one writes, and each subscription has one that
// receives from the core. The reader decides each frame in turn and does not wait
// for its commit: what is to be answered stands in conn.answers in the order of
// frames, and the RECEIPT goes out when the commit of that frame and the answers
// of all frames before it are there. The window of answers is bounded; beyond it
// the reader waits.
//
// A delivery is a session lease: it is owned by the connection and ends with it.
// A subscription receives only what the client has credit for, while there is
// room in what is to be written, so that nothing is leased to a socket that is
// stuck.
//
// # Locks
//
// conn.mu guards a connection: the core is never called with it held. Callbacks of
// the core take it and do nothing that blocks. Server.mu is taken before it, and
// lines.mu after it, the innermost of all.
//
// # Topics
//
// A subscription to topics is a queue with a binding: a memory queue that the
// connection owns, or, if it is durable, one that stays. Names of topics are
// translated to those of the core and back without loss; see topicFilter.
//
// # Invariants
//
//   - A RECEIPT is written when what its frame asked for is durable, and when all
//     frames before it are answered.
//   - An ERROR is the last frame of a connection.
//   - No MESSAGE of a subscription is written before the RECEIPT of its SUBSCRIBE,
//     nor after that of its UNSUBSCRIBE.
//   - A message in auto mode is deleted after it was written, never before.
package stomp
