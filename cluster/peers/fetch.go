package peers

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/leasemq/broker/core"
)

// Bounds of a fetch.
const (
	fetchWindow    = 4 // pieces that are asked for ahead
	fetchTries     = 4 // of one piece
	fetchRetry     = 100 * time.Millisecond
	checkpointWait = 5 * time.Minute // until it is made
	sumWait        = 15 * time.Second
	releaseWait    = 2 * time.Second
	partSuffix     = ".part" // of a folder that is not whole yet
)

// Fetch has node make a checkpoint of its state, copies it into dir, which must not
// exist, and returns its position. dir is whole, and on stable storage, or is not
// there: what was copied before an error is removed, and what a crash has left, in
// dir with ".part" behind it, is removed by the next Fetch. progress, which may be
// nil, is called as bytes come. The error wraps ErrNoNode if node does not answer,
// and ErrBusy if too many fetch from it.
func (p *Peers) Fetch(ctx context.Context, node, dir string, progress func(done, total int64)) (at core.LogPosition, err error) {
	dir = filepath.Clean(dir)
	if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
		return at, errors.Join(err, fmt.Errorf("fetch checkpoint into %s: %w", dir, os.ErrExist))
	}
	part := dir + partSuffix
	if err = os.RemoveAll(part); err == nil {
		err = os.MkdirAll(part, 0o700)
	}
	if err != nil {
		return at, fmt.Errorf("fetch checkpoint: %w", err)
	}
	f := &fetch{peers: p, node: node, dir: part, progress: progress}
	if at, err = f.run(ctx); err == nil {
		err = syncDir(part)
	}
	if err == nil {
		err = move(part, dir)
	}
	if err != nil {
		return core.LogPosition{}, errors.Join(fmt.Errorf("fetch checkpoint of node %s: %w", node, err), os.RemoveAll(part), os.RemoveAll(dir))
	}
	return at, nil
}

// fetch is one checkpoint on its way.
type fetch struct {
	peers    *Peers
	node     string
	dir      string
	progress func(done, total int64)

	id          string
	list        []fileInfo
	done, total int64
}

// piece is a part of a file, or its hash.
type piece struct {
	file   string
	offset int64
	bytes  int // 0: the hash
	got    chan answer
}

type answer struct {
	data []byte
	err  error
}

func (f *fetch) run(ctx context.Context) (at core.LogPosition, err error) {
	if at, err = f.begin(ctx); f.id != "" {
		defer f.end()
	}
	if err != nil {
		return at, err
	}
	// All requests have ended when run returns.
	ctx, cancel := context.WithCancel(ctx)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	pieces := make(chan *piece, fetchWindow)
	asking.Go(func() { f.ask(ctx, &asking, pieces) })
	for i := range f.list {
		if err := f.write(ctx, &f.list[i], pieces); err != nil {
			return at, fmt.Errorf("%s: %w", f.list[i].Name, err)
		}
	}
	return at, nil
}

// begin has the checkpoint made, and learns what it consists of.
func (f *fetch) begin(ctx context.Context) (at core.LogPosition, err error) {
	data, err := f.peers.ask(ctx, f.node, &request{Op: opCheckpoint}, checkpointWait)
	if err != nil {
		return at, err
	}
	var a checkpointAnswer
	if err := json.Unmarshal(data, &a); err != nil {
		return at, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if isWord(a.ID, nameBytesMax) {
		f.id = a.ID
	}
	if f.id == "" || a.Files < 1 || a.Files > filesMax || a.Bytes < 0 {
		return at, fmt.Errorf("%w: checkpoint %.50q of %d files and %d bytes", ErrMalformed, a.ID, a.Files, a.Bytes)
	}
	f.total = a.Bytes
	if at, err = a.At.decode(); err != nil {
		return at, err
	}
	names := map[string]bool{}
	left := a.Bytes
	for len(f.list) < a.Files {
		page, err := f.page(ctx)
		if err != nil {
			return at, err
		}
		for _, file := range page {
			if !isFile(file.Name) || names[file.Name] || file.Bytes < 0 || file.Bytes > left {
				return at, fmt.Errorf("%w: file %.100q of %d bytes", ErrMalformed, file.Name, file.Bytes)
			}
			names[file.Name] = true
			left -= file.Bytes
		}
		f.list = append(f.list, page...)
	}
	if len(f.list) > a.Files || left != 0 {
		return at, fmt.Errorf("%w: %d files, %d bytes less than was said", ErrMalformed, len(f.list), left)
	}
	return at, nil
}

// page asks for the names that come next.
func (f *fetch) page(ctx context.Context) ([]fileInfo, error) {
	data, err := f.retry(ctx, &request{Op: opFiles, From: len(f.list)}, f.peers.o.Wait)
	if err != nil {
		return nil, err
	}
	var page []fileInfo
	if err := json.Unmarshal(data, &page); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if len(page) == 0 || len(page) > filesPageMax {
		return nil, fmt.Errorf("%w: page of %d files", ErrMalformed, len(page))
	}
	return page, nil
}

// end tells the node that nobody needs the checkpoint any more, whatever became of
// the caller's context. If that is lost it finds out by itself.
func (f *fetch) end() {
	ctx, cancel := context.WithTimeout(context.Background(), releaseWait)
	defer cancel()
	if _, err := f.retry(ctx, &request{Op: opRelease}, releaseWait); err != nil && !errors.Is(err, ErrGone) {
		return // it is idle for a while
	}
}

// retry asks again what may have been lost on the way.
func (f *fetch) retry(ctx context.Context, r *request, wait time.Duration) ([]byte, error) {
	r.Checkpoint = f.id
	for n := 1; ; n++ {
		ask := *r
		data, err := f.peers.ask(ctx, f.node, &ask, wait)
		if err == nil || n == fetchTries || !errors.Is(err, ErrNoNode) && !errors.Is(err, ErrBusy) {
			return data, err
		}
		if err := pause(ctx, fetchRetry<<n); err != nil {
			return nil, err
		}
	}
}

// ask asks for all pieces in order, a few ahead of who writes them.
func (f *fetch) ask(ctx context.Context, asking *sync.WaitGroup, pieces chan<- *piece) {
	one := func(p *piece, r *request, wait time.Duration) bool {
		select {
		case pieces <- p:
		case <-ctx.Done():
			return false
		}
		asking.Go(func() {
			data, err := f.retry(ctx, r, wait)
			p.got <- answer{data, err}
		})
		return true
	}
	for i := range f.list {
		file := &f.list[i]
		for offset := int64(0); offset < file.Bytes; offset += chunkBytesMax {
			n := int(min(chunkBytesMax, file.Bytes-offset))
			p := &piece{file: file.Name, offset: offset, bytes: n, got: make(chan answer, 1)}
			if !one(p, &request{Op: opChunk, File: file.Name, Offset: offset, Bytes: n}, f.peers.o.Wait) {
				return
			}
		}
		p := &piece{file: file.Name, offset: file.Bytes, got: make(chan answer, 1)}
		if !one(p, &request{Op: opSum, File: file.Name}, sumWait) {
			return
		}
	}
}

// write writes one file as its pieces come, and checks its hash.
func (f *fetch) write(ctx context.Context, file *fileInfo, pieces <-chan *piece) (err error) {
	w, err := os.OpenFile(filepath.Join(f.dir, file.Name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	h := sha256.New()
	for {
		var p *piece
		select {
		case p = <-pieces:
		case <-ctx.Done():
			return ctx.Err()
		}
		var a answer
		select {
		case a = <-p.got:
		case <-ctx.Done():
			return ctx.Err()
		}
		if a.err != nil {
			return a.err
		}
		if p.bytes == 0 {
			if err := checkSum(a.data, h.Sum(nil)); err != nil {
				return err
			}
			return w.Sync()
		}
		if len(a.data) != p.bytes {
			return fmt.Errorf("%w: %d bytes at %d, want %d", ErrMalformed, len(a.data), p.offset, p.bytes)
		}
		if _, err := w.Write(a.data); err != nil {
			return err
		}
		h.Write(a.data)
		f.done += int64(p.bytes)
		if f.progress != nil {
			f.progress(f.done, f.total)
		}
	}
}

// checkSum holds what was written against what the node has.
func checkSum(data, written []byte) error {
	var a sumAnswer
	if err := json.Unmarshal(data, &a); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	sum, err := decodeSum(a.SHA256)
	if err != nil {
		return err
	}
	if !bytes.Equal(sum[:], written) {
		return fmt.Errorf("copy differs from the file: %w", core.ErrCorrupt)
	}
	return nil
}

// syncDir makes what was created, renamed or removed in dir durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// pause waits unless ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
