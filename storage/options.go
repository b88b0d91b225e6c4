package storage

import (
	"cmp"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// SyncPolicy says when a Change counts as committed.
type SyncPolicy uint8

// The policies.
const (
	// SyncCommit reports a Change when it is fsynced. Nothing reported is lost.
	SyncCommit SyncPolicy = iota
	// SyncInterval reports a Change when it is applied and fsyncs within
	// Options.SyncInterval. A crash of the process or the machine loses what
	// came since.
	SyncInterval
	// SyncNever reports a Change when it is applied. A crash of the process
	// loses up to the last 32 KiB of log, a crash of the machine more.
	SyncNever
)

// Defaults of Options.
const (
	SyncIntervalDefault    = 10 * time.Millisecond
	SyncIntervalReplicated = time.Second
	FreeBytesMinDefault    = 5 << 30
	FreeFractionMinDefault = 0.05
)

// What is set on Pebble.
const (
	// The format is raised only when each member of a cluster runs the binary:
	// there is no way back.
	formatMajorVersion     = pebble.FormatValueSeparation
	blockBytes             = 32 << 10
	bloomBitsPerKey        = 10
	baseLevelBytesMax      = 256 << 20
	compactionsMax         = 4
	compactionL0StopWrites = 36
	// Level 0 is compacted at eight layers (Pebble counts twice what it has). Each
	// compaction writes again what lives just then, and drops what has died since
	// the one before: with four layers total write amplification of messages that
	// live five seconds is 3.7 instead of 3.2.
	compactionL0Threshold = 16
	// Messages at rest stay in level 0, where a busy queue's tables are stacked
	// higher. Their number must not start compactions, which would be those of
	// the busy queue, one after each flush: with Pebble's 500 tables of 2 MiB,
	// level 5 is written 3.4 times beside 5 million messages, else 1.3 times.
	compactionL0Tables = 4000
	tableBytesL0       = 8 << 20
	tableBytesLBase    = 4 << 20
	// A table of a busy queue always has deletes among its messages: only one
	// that holds little else is worth a compaction of its own. With Pebble's
	// defaults each flush is, and total write amplification beside 2 million
	// messages at rest 4.9 instead of 3.1.
	tombstoneTablesMin     = 0.5
	tombstonesPerBlock     = 1000
	rangeDeleteFlushDelay  = 10 * time.Second
	deletionBytesPerSecond = 128 << 20
	backgroundSyncBytes    = 1 << 20
	openFilesMax           = 4096
)

// Bounds of the commit pipeline.
const (
	pipelineDepth        = 4       // Changes submitted and not yet answered
	batchBytesKept       = 5 << 20 // of a batch in the pool; the core's groups have 4 MiB
	batchOverhead        = 64      // estimates of a batch's size
	batchOverheadPerEdit = 48
)

// Bounds of what is done about a disk that fills up, and of a close.
const (
	memTableBytesMin        = 1 << 20
	memTablesPerDisk        = 64       // a memtable is at most this fraction of the disk
	watchBytesMin           = 64 << 10 // written between two looks at the disk
	watchBytesMax           = 16 << 20
	watchDelay              = time.Second // between two looks while there are writes
	fullCheckDelay          = 500 * time.Millisecond
	fullClearFactor         = 1.25            // free space must exceed the watermark by this to end "full"
	lackMemory              = 2 * time.Second // a write without space counts as a full disk for so long
	smallDiskReserve        = 64 << 20        // of the watermark, at least, with two memtables, but at most a quarter
	sparedDiskShare         = 4               // no compaction when less than this fraction of the watermark is free
	sparedTryDelay          = 5 * time.Second // but for one
	fullLiveLogBytesMin     = 1 << 20
	liveLogDiskShareMax     = 4 // while full the live log is flushed at this fraction of what is free
	spaceRetryDelay         = 100 * time.Millisecond
	compactionRetryDelay    = time.Second
	backgroundErrorLogDelay = time.Second
	closeDrainWait          = 3 * time.Second
	flushOnCloseBytesMin    = 1 << 20         // less than this is replayed faster than it is flushed
	flushOnCloseWait        = 3 * time.Second // then the rest is left to the replay
)

// Profile sizes the engine.
type Profile struct {
	MemTableBytes   int // of one memtable; they grow up to it from 256 KiB
	MemTablesMax    int // writes stall at this many full ones
	CacheBytes      int // block cache; memtables are charged to it
	LiveLogBytesMax int // a flush is forced beyond this, so that a replay takes about a second at most
}

// ProfileDefault keeps a process that sets GOMEMLIMIT to 250 MiB under 300 MiB
// (the cache is Go heap: a larger one leaves the collector no room), and a
// replay at about a second.
func ProfileDefault() Profile {
	return Profile{MemTableBytes: 40 << 20, MemTablesMax: 3, CacheBytes: 128 << 20, LiveLogBytesMax: 64 << 20}
}

// ProfileLarge trades memory and restart time for less write amplification.
func ProfileLarge() Profile {
	return Profile{MemTableBytes: 64 << 20, MemTablesMax: 3, CacheBytes: 384 << 20, LiveLogBytesMax: 128 << 20}
}

// Options configures Open. The zero value of each field is its default.
type Options struct {
	Dir    string // created with mode 0700 if absent
	FS     vfs.FS // nil: the operating system's, or with Memory a new memory file system
	Memory bool   // no log: a Change is committed when applied, and gone when the process ends

	Sync         SyncPolicy
	SyncInterval time.Duration // SyncInterval only; 0: SyncIntervalDefault

	Profile Profile // zero fields: ProfileDefault's

	// Replicated makes the database one that is fed from the replicated log, by
	// Apply: Submit refuses, and the log of Pebble is fsynced in the background,
	// each SyncInterval (0: SyncIntervalReplicated). A database is one or the
	// other for good. Sync is not looked at.
	Replicated bool

	Logger *slog.Logger // nil: slog.Default

	// OnDisk is called when free space falls below the watermark (full) and when
	// it is back above it. Calls come one at a time from a goroutine of the DB,
	// the first one possibly before Open returns. It must not call Close.
	OnDisk func(full bool, freeBytes uint64)
	// The watermark is the smaller of the two. 0: FreeBytesMinDefault and
	// FreeFractionMinDefault, but on a disk of less than 2 GiB or so what flushes
	// and compactions need.
	FreeBytesMin    uint64
	FreeFractionMin float64

	// OnSync is called after each fsync of the log with what it took, by the
	// goroutine that waited for it: it must be quick.
	OnSync func(time.Duration)
}

func (o Options) withDefaults() Options {
	if o.FS == nil {
		o.FS = vfs.Default
		if o.Memory {
			o.FS = vfs.NewMem()
		}
	}
	if o.Dir == "" && o.Memory {
		o.Dir = "memory"
	}
	if o.Replicated {
		o.Sync, o.SyncInterval = SyncInterval, cmp.Or(o.SyncInterval, SyncIntervalReplicated)
	}
	o.SyncInterval = cmp.Or(o.SyncInterval, SyncIntervalDefault)
	p, d := &o.Profile, ProfileDefault()
	p.MemTableBytes = cmp.Or(p.MemTableBytes, d.MemTableBytes)
	p.MemTablesMax = cmp.Or(p.MemTablesMax, d.MemTablesMax)
	p.CacheBytes = cmp.Or(p.CacheBytes, d.CacheBytes)
	p.LiveLogBytesMax = cmp.Or(p.LiveLogBytesMax, d.LiveLogBytesMax)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	o.FreeBytesMin = cmp.Or(o.FreeBytesMin, FreeBytesMinDefault)
	o.FreeFractionMin = cmp.Or(o.FreeFractionMin, FreeFractionMinDefault)
	return o
}

func (o *Options) check() error {
	switch {
	case o.Dir == "":
		return fmt.Errorf("open storage: no directory given")
	case o.Sync > SyncNever:
		return fmt.Errorf("open storage: sync policy %d is unknown", o.Sync)
	case o.SyncInterval < 0, o.Profile.MemTableBytes < 0, o.Profile.MemTablesMax < 2,
		o.Profile.CacheBytes < 0, o.Profile.LiveLogBytesMax < 0, o.FreeFractionMin < 0, o.FreeFractionMin >= 1:
		return fmt.Errorf("open storage: option out of range: %+v", o.Profile)
	}
	return nil
}

// fitDisk shrinks the memtables, and with them the log files, on a small disk:
// flushes and compactions need room beside what they replace.
func (p *Profile) fitDisk(total uint64) {
	if most := total / memTablesPerDisk; uint64(p.MemTableBytes) > most {
		p.MemTableBytes = int(max(most, min(memTableBytesMin, uint64(p.MemTableBytes))))
	}
}

// pebbleOptions are the options but for file system, lock and listeners.
func (o *Options) pebbleOptions() *pebble.Options {
	p := &pebble.Options{
		FormatMajorVersion:          formatMajorVersion,
		MemTableSize:                uint64(o.Profile.MemTableBytes),
		MemTableStopWritesThreshold: o.Profile.MemTablesMax,
		CacheSize:                   int64(o.Profile.CacheBytes),
		DisableWAL:                  o.Memory,
		L0CompactionThreshold:       compactionL0Threshold,
		L0StopWritesThreshold:       compactionL0StopWrites,
		L0CompactionFileThreshold:   compactionL0Tables,
		TargetFileSizes:             [7]int64{tableBytesL0, tableBytesLBase},
		LBaseMaxBytes:               baseLevelBytesMax,
		MaxOpenFiles:                openFilesMax,
		BytesPerSync:                backgroundSyncBytes,
		FlushDelayDeleteRange:       rangeDeleteFlushDelay,
		TargetByteDeletionRate:      deletionBytesPerSecond,
		CompactionConcurrencyRange: func() (int, int) {
			return 1, min(max(1, runtime.GOMAXPROCS(0)/2), compactionsMax)
		},
	}
	if o.Sync != SyncCommit {
		p.WALBytesPerSync = backgroundSyncBytes
	}
	for i := range p.Levels {
		p.Levels[i].BlockSize = blockBytes
		p.Levels[i].FilterPolicy = bloom.FilterPolicy(bloomBitsPerKey)
	}
	p.Experimental.TombstoneDenseCompactionThreshold = tombstoneTablesMin
	p.Experimental.NumDeletionsThreshold = tombstonesPerBlock
	p.Experimental.ReadSamplingMultiplier = -1 // most is read once: no compaction for readers' sake
	p.Experimental.EnableColumnarBlocks = func() bool { return true }
	return p
}
