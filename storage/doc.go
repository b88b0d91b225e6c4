// Package storage keeps the core's state in Pebble: a Change is stored whole or
// not at all, and durable before it is reported. In memory it is the same
// engine on a memory file system without a log. FORMAT.md describes each key
// and value.
//
// # Invariants
//
//   - [Encode] is a pure function of the Change: no read, no clock, no random.
//     Two databases that took the same Changes are equal key for key.
//   - A message key is SET once and removed once, by SINGLEDEL. A Change is
//     therefore applied exactly once: each batch carries its position.
//   - Callbacks of Submit run in the order of Submit, one at a time. Under
//     SyncCommit none reports success before the batch is fsynced.
//   - After the first failure nothing is reported as committed, and nothing more
//     reaches the log: the log stays as it was when it failed.
//   - A replicated database takes Changes from the log alone ([DB.Apply]), each
//     batch with its position there. It waits for no fsync: what a crash takes is
//     in the log. What is left is a prefix.
//   - A read has a lower and an upper bound, so that it never walks through the
//     tombstones of what lies before or behind.
//   - Nothing runs while nothing is written, but for Pebble's own scheduler.
//
// # Goroutines
//
// Submit encodes on the caller's goroutine and hands the batch to the applier,
// which writes it to Pebble's log and memtable; the syncer waits for the fsync
// and calls back. Under the other policies the applier calls back itself. The
// applier is a goroutine of its own so that a log that cannot be written never
// holds the caller of Submit for good. After a failure, or after Close, the
// refuser answers what was not answered yet; it lives only as long as there is
// something to answer. The watcher looks at the disk and at the size of the
// live log when writes or Pebble's events ask it to, and twice a second while
// the disk is full, which it also is for a while after a write found no space.
//
// # Failures
//
// Pebble panics, or exits, when its log or its manifest cannot be written. The
// guard between Pebble and the file system lets no such error through: it marks
// the database failed and stops the goroutine that saw the error for good, so
// that the files stay as they are and the process can end in order. Lack of
// space (or of file descriptors) is not a failure: log and manifest writes wait
// for it, flushes are retried by Pebble ten times a second and compactions once.
// Compactions leave the last of the space to log and flushes, so that deletes
// can still be taken.
// A database that stopped in this way keeps its directory locked until the
// process ends.
//
// # Lock order
//
// DB.writing is held over each write to Pebble's log, so that a checkpoint can
// keep writers out; nothing else is taken under it but what Pebble takes.
// pipeline.answering, then pipeline.mu. Neither is held over a call into
// Pebble. Callbacks run under answering alone. Pebble's event listeners and the
// guard may take pipeline.mu, never answering.
package storage
