// Package core is the domain of LeaseMQ: queues, messages, leases and the
// Change that records what was decided. It knows no wire, no disk format and
// no peer.
//
// # Who may call what
//
// Frontends reach the core through [Client] only, from any goroutine. The core
// reaches storage through [Store] (reads) and [Committer] (writes), both
// declared here. Each operation decides in memory, under the lock of the queues
// that it touches, appends its edits to the open [Change] of the sequencer, and
// answers when that Change is durable.
//
// # Topics
//
// A publish to a topic finds the queues whose bindings match, in a tree in
// memory (package match), and puts a copy of each message into each of them, in
// one Change: after a crash all have their copies or none has. A large body that
// goes into many queues is stored once, see body.go. Bindings and
// retained values are node-wide records; the bindings are read in the background
// after the open. Queues of KindMemory are never stored: their messages lie in a
// window without bounds of its own, their edits are left out of Changes, and a
// Change that would be empty is not committed at all.
//
// # Lock order
//
// Engine.loading, then queue.mu (several queues: by rising [QID]), then one of
// Engine.tableMu, Owner.mu and sequencer.mu, none of which is held while another
// lock is taken, but for moveTable.mu, topicTable.mu and Consumer.mu, which are the last
// of all. The callbacks of a commit run without the sequencer's lock. No
// lock is held over IO, but for the rare point reads that a decision depends on
// (deduplication, proof of life on delete, the first load of a queue).
//
// # Invariants
//
//   - Acknowledge and show to receivers only what is durable. Storage shows a
//     batch to its readers before the fsync; the durable tail kept here decides
//     what a receive may see.
//   - The stored cursor of a lane never passes a message that has neither a
//     state record in this or an earlier Change nor a durable delete.
//   - An entry leaves memory only in the durable callback of its delete.
//   - A state record is deleted by SINGLEDEL only if this process made its one
//     and only SET and none existed before.
//   - The count of an epoch of shared bodies is, in each Change, the number of
//     stored records that refer to it, those of removed queues too. An epoch is
//     removed only after its count is durably 0 and it takes no more bodies.
//   - A receive never scans: ready, due and group order are indexed, and a selector
//     judges each message once, however many receives have it.
//   - A failed commit is never rolled back: the engine stops.
package core
