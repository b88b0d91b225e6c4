// Package mqtt is the frontend that speaks MQTT 3.1, 3.1.1 and 5.
//
// # A connection
//
// One goroutine reads packets. The writing of packets, and each queue that the
// session is delivered from, have one only while there is something to do: an idle
// connection has none but its reader. A queue with nothing to deliver is watched;
// see core.Watch.
//
// The reader hands what is published to the core and does not wait for the commit:
// the acknowledgements that are owed stand in conn.answers in the order of receipt,
// and each goes out when its commit and all answers before it are there. The window
// of answers is bounded; beyond it the reader waits, and so does the client.
//
// # A session
//
// A session is delivered from at most two queues, each made when it is first
// needed. The firm one takes what is delivered with QoS 1 and 2: for a session
// that outlives its connection it is stored, and a resume finds in it what was
// never acknowledged, in order. The loose one takes what is delivered with QoS 0,
// in memory, and drops the oldest. A delivery is a session lease of the
// connection, and ends with it: an offline session holds nothing in memory.
//
// The packet identifier of a delivery is derived from the sequence of its message
// (see packetID), so that the same message has the same identifier after a crash
// or on another node, without a write.
//
// What else a session has stands in records; see package state. They are put and
// dropped in the Change of the messages that they are about.
//
// # Locks
//
// registry.mu, then conn.mu, the innermost. The core is never called with either
// held. Callbacks of the core, of which those of watches come with its locks held,
// take conn.mu and do nothing that blocks.
//
// # Invariants
//
//   - A PUBACK or PUBREC is written when what was published is durable, in the
//     order of receipt.
//   - A packet identifier of QoS 2 that was received is stored with its message,
//     and its removal is durable before PUBCOMP.
//   - PUBREL is written when it is durable that the message is delivered.
//   - A client identifier has one live connection at most.
//   - No more than the client's receive maximum is unacknowledged.
package mqtt
