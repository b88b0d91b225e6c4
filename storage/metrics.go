package storage

// Metrics is a view of the engine. Counts begin with the open.
type Metrics struct {
	Failed bool // see DB.Err

	Commits        uint64 // Changes applied
	CommittedBytes uint64 // of their batches
	Syncs          uint64 // fsyncs of the log

	// Bytes written to each kind of file. Their sum over CommittedBytes is the
	// total write amplification.
	LogBytesWritten        uint64
	FlushBytesWritten      uint64
	CompactionBytesWritten uint64

	DiskBytes     uint64 // used by the database, with log files kept for use again
	LiveLogBytes  uint64 // what a restart would replay
	MemTableBytes uint64
	CacheBytes    uint64
	CacheHits     int64
	CacheMisses   int64

	Flushes             int64
	Compactions         int64
	CompactionDebtBytes uint64
	ReadAmplification   int // tables that a read may have to look at
	Tables              int64
	TombstoneCount      uint64 // an estimate

	DiskFreeBytes  uint64 // 0 if the file system does not tell
	DiskTotalBytes uint64
	DiskFull       bool // free space is below the watermark

	SpaceWaits       uint64 // writes that found no space
	WriteStalls      uint64
	BackgroundErrors uint64 // flushes and compactions that failed and were tried again
	Corruptions      uint64 // unreadable blocks or records that were met
	MisusedDeletes   uint64 // SINGLEDELs that Pebble found suspicious; should stay 0
}

// Metrics returns the figures of now. After a failure those of the engine may be
// missing.
func (d *DB) Metrics() Metrics {
	m := Metrics{
		Commits:          d.commits.Load(),
		CommittedBytes:   d.committedBytes.Load(),
		Syncs:            d.guard.logSyncs.Load(),
		DiskFreeBytes:    d.watch.free.Load(),
		DiskTotalBytes:   d.watch.total.Load(),
		DiskFull:         d.watch.full.Load(),
		SpaceWaits:       d.guard.waits.Load(),
		WriteStalls:      d.events.stalls.Load(),
		BackgroundErrors: d.events.backgroundErrors.Load(),
		Corruptions:      d.events.corruptions.Load(),
		MisusedDeletes:   d.events.misusedDeletes.Load(),
	}
	if m.Failed = d.Err() != nil; m.Failed || !d.enter() {
		return m
	}
	defer d.leave()
	p := d.pebble.Metrics()
	total := p.Total()
	m.LogBytesWritten = p.WAL.BytesWritten
	for i := range p.Levels { // the total counts the log as flushed
		l := &p.Levels[i]
		m.FlushBytesWritten += l.TableBytesFlushed + l.BlobBytesFlushed
		m.CompactionBytesWritten += l.TableBytesCompacted + l.BlobBytesCompacted
	}
	m.DiskBytes = p.DiskSpaceUsage()
	m.LiveLogBytes = p.WAL.Size
	m.MemTableBytes = p.MemTable.Size
	m.CacheBytes = uint64(p.BlockCache.Size)
	m.CacheHits, m.CacheMisses = p.BlockCache.Hits, p.BlockCache.Misses
	m.Flushes, m.Compactions = p.Flush.Count, p.Compact.Count
	m.CompactionDebtBytes = p.Compact.EstimatedDebt
	m.ReadAmplification = p.ReadAmp()
	m.Tables = total.TablesCount
	m.TombstoneCount = p.Keys.TombstoneCount
	return m
}
