// Package jetstream is the replicated log on NATS JetStream: one stream of three
// replicas on files, whose writes are fsynced before they are acknowledged. The
// servers run in the brokers' processes ([StartServer]) or are anybody's: the log
// is the same.
//
// # What it relies on
//
//   - The stream's leader compares the expected last sequence of each record with
//     the end of the log; "wrong last sequence: N" tells that end. Reads are not
//     linearizable: they may come from a replica that lags, or from a leader that
//     was deposed, and are repeated until they have what must be there.
//   - Records are published raw, with an inbox of this package's own and without
//     retries: a client that sends again by itself would change their order. They
//     have no message id: a duplicate would be acknowledged without having been
//     appended.
//   - An answer that says that a record was a duplicate, or is late, or has any
//     error that does not say that nothing was stored, leaves open whether it was.
//   - The tail is what the leader republishes, with gaps filled by direct gets. No
//     consumer is needed, which after the loss of a server may take many seconds
//     to go on.
//
// [Open] refuses servers and streams on which that does not hold.
//
// # Who may call what
//
// A Log may be used from any goroutine. Callbacks of Append run one at a time, on
// a goroutine of the connection.
package jetstream
