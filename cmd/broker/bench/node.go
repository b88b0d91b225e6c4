package bench

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/storage"
)

// Opener returns what opens storage and core with the sync policy commit,
// interval or never. In memory the directory is ignored.
func Opener(sync string, memory bool) (func(dir string) (*Node, error), error) {
	o := storage.Options{Memory: memory, Logger: slog.New(slog.DiscardHandler)}
	switch sync {
	case "commit":
		o.Sync = storage.SyncCommit
	case "interval":
		o.Sync = storage.SyncInterval
	case "never":
		o.Sync = storage.SyncNever
	default:
		return nil, fmt.Errorf("sync %q: must be commit, interval or never", sync)
	}
	return func(dir string) (*Node, error) {
		if !memory {
			o.Dir = dir
		}
		return openNode(o)
	}, nil
}

func openNode(o storage.Options) (*Node, error) {
	db, boot, err := storage.Open(o)
	if err != nil {
		return nil, err
	}
	engine, err := core.Open(core.Options{Store: db, Committer: db, Boot: boot})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &Node{
		Engine:  engine,
		Written: func() Written { return written(db) },
		Close:   func() error { return errors.Join(engine.Close(), db.Close()) },
	}, nil
}

// written takes out of storage's figures what a run reports.
func written(db *storage.DB) Written {
	m := db.Metrics()
	return Written{
		WAL:    int64(m.LogBytesWritten),
		Tables: int64(m.FlushBytesWritten + m.CompactionBytesWritten),
		Disk:   int64(m.DiskBytes),
		Syncs:  int64(m.Syncs),
	}
}
