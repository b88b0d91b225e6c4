// Package cluster makes one state out of several nodes: a replicated log of
// Changes, which every node applies in the same way, and a lease, kept in that
// log, which says who writes it.
//
// # Contract
//
// A [Log] gives each record a sequence. It is no part of this package: jetstream
// has the real one, clustertest one in memory with faults. A [Store] is the state
// of a node; storage.DB is one. A [Member] stands between them:
//
//   - As a standby it applies what the log says, and runs no core.
//   - When the log is silent for a lease it takes over: it applies what is left,
//     and appends the record of a new epoch, only where the log still ends. The
//     answer "wrong last sequence" is the one read of the log's end that is sure
//     to be true.
//   - As the primary it runs the core by way of [Options].Lead. The [Lease] that
//     Lead is given is the core's Committer for one epoch.
//
// Records are defined by [Record], what they mean by [Chain], a pure state
// machine that all nodes use, for their own records too.
//
// # Invariants
//
//   - Nothing enters a store that is not in the log. Each batch is stored with its
//     position, so that it is applied exactly once.
//   - A Change is reported as committed when its record, and all before it, are
//     acknowledged at the sequences that were asked for, and applied. At the first
//     that is not, the lease is lost: the fate of what is under way is unknown.
//   - Expected sequences alone are no fence when records are pipelined: of a
//     deposed primary the second record may get its number where the first did
//     not. So an epoch record is followed, as one atomic append, by as many pads as
//     a primary may have under way; and a record of a lower epoch is skipped.
//   - An answer is covered by the lease only until 0.8 of it after the newest
//     acknowledged record was sent, by the primary's own clock. A standby waits a
//     whole lease from when that record came, by its own. Clocks must run equally
//     fast, to a fifth; what they show does not matter.
//   - A record that fits neither state nor epoch says that the log has lost what it
//     had acknowledged, or that this node has other state than it should. The
//     member stops with [ErrDiverged].
//   - The log is trimmed only below what all nodes have on stable storage.
//   - A log that is given up is followed by one of the next generation, which goes on
//     from a state ([Reseed]). Who has no state, or another, does not follow it.
//
// # Who may call what
//
// [Member.Run] is one goroutine: it follows, takes over and leads, and owns the
// chain and all writes to the store. The tail of the log calls back on it. Lead
// runs in a goroutine of its own; the store is its to read until it returns. A
// Lease takes Submit from one goroutine at a time, and calls back on that of Run.
// [Lease.Covers] and [Member.LeaseCovers] may be asked from anywhere; they are
// asked right before each answer is written.
//
// # Lock order
//
// Lease.sending, then Lease.mu. Neither is held over callbacks; sending is held
// over Log.Append, which does not wait for the log.
package cluster
