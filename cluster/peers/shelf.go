package peers

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/leasemq/broker/core"
)

// Bounds of a checkpoint that is sent.
const (
	chunkBytesMax = 512 << 10
	filesMax      = 1 << 17
	filesPageMax  = 1000
	nameBytesMax  = 255
	sumSliceBytes = 1 << 20
	holdsMax      = 64
)

// shelf has the checkpoints that other nodes read.
type shelf struct {
	o *Options

	mu      sync.Mutex
	closed  bool
	making  map[*uint64]struct{}  // positions below which checkpoints that are being made cannot be
	kept    map[string]*keptFiles // by id
	holding []hold
}

// hold keeps a position in Status.Held after its checkpoint was released: who has
// fetched it does not follow the log yet.
type hold struct {
	seq   uint64
	until time.Time
}

// keptFiles is one checkpoint. Nothing of it changes.
type keptFiles struct {
	dir   string
	at    core.LogPosition
	list  []fileInfo
	sizes map[string]int64
	bytes int64
	idle  *time.Timer
}

// fileInfo is a file of a checkpoint.
type fileInfo struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// checkpointAnswer says what is there to fetch.
type checkpointAnswer struct {
	ID    string   `json:"id"`
	At    position `json:"at"`
	Files int      `json:"files"`
	Bytes int64    `json:"bytes"`
}

func newShelf(o *Options) *shelf {
	return &shelf{o: o, making: map[*uint64]struct{}{}, kept: map[string]*keptFiles{}}
}

// close removes all.
func (s *shelf) close() error {
	s.mu.Lock()
	s.closed = true
	kept := s.kept
	s.kept = map[string]*keptFiles{}
	s.mu.Unlock()
	var errs []error
	for _, k := range kept {
		k.idle.Stop()
		errs = append(errs, os.RemoveAll(k.dir))
	}
	return errors.Join(errs...)
}

// held is the lowest position that somebody may start from, nil if there is none.
func (s *shelf) held() *uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lowest *uint64
	take := func(seq uint64) {
		if lowest == nil || seq < *lowest {
			lowest = &seq
		}
	}
	for seq := range s.making {
		take(*seq)
	}
	for _, k := range s.kept {
		take(k.at.Seq)
	}
	now := time.Now()
	for _, h := range s.holding {
		if now.Before(h.until) {
			take(h.seq)
		}
	}
	return lowest
}

// make makes a checkpoint and keeps it.
func (s *shelf) make() ([]byte, error) {
	if s.o.Checkpoint == nil {
		return nil, fmt.Errorf("checkpoint: %w", errors.ErrUnsupported)
	}
	// What is being made is at or above what is applied now.
	st := s.o.Status()
	if err := s.reserve(&st.Applied); err != nil {
		return nil, err
	}
	id := rand.Text()
	kept := false
	defer func() {
		s.mu.Lock()
		delete(s.making, &st.Applied)
		s.mu.Unlock()
		if !kept {
			_ = os.RemoveAll(filepath.Join(s.o.Dir, id)) // else the next start does
		}
	}()
	k, err := s.fill(filepath.Join(s.o.Dir, id))
	if err == nil {
		err = s.keep(id, k)
	}
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	kept = true
	return json.Marshal(checkpointAnswer{ID: id, At: newPosition(k.at), Files: len(k.list), Bytes: k.bytes})
}

func (s *shelf) keep(id string, k *keptFiles) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return core.ErrStopped
	}
	s.kept[id] = k
	k.idle = time.AfterFunc(s.o.IdleMax, func() {
		if s.release(id) == nil {
			s.o.Logger.Warn("peers: checkpoint was not fetched to its end", "idle", s.o.IdleMax)
		}
	})
	return nil
}

// reserve makes room for one more.
func (s *shelf) reserve(floor *uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return core.ErrStopped
	}
	if len(s.kept)+len(s.making) >= checkpointsMax { // one may count twice for a moment
		return fmt.Errorf("checkpoint: %w: %d are being fetched", ErrBusy, checkpointsMax)
	}
	s.making[floor] = struct{}{}
	return nil
}

// fill writes the checkpoint, and looks what is in it.
func (s *shelf) fill(dir string) (*keptFiles, error) {
	at, err := s.o.Checkpoint(dir)
	if err != nil {
		return nil, err
	}
	k := &keptFiles{dir: dir, at: at, sizes: map[string]int64{}}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return nil, err
		}
		if !info.Mode().IsRegular() || !isFile(e.Name()) {
			return nil, fmt.Errorf("%q is not a file that can be sent", e.Name())
		}
		k.list = append(k.list, fileInfo{e.Name(), info.Size()})
		k.sizes[e.Name()] = info.Size()
		k.bytes += info.Size()
	}
	if len(k.list) < 1 || len(k.list) > filesMax {
		return nil, fmt.Errorf("%d files are not 1 to %d", len(k.list), filesMax)
	}
	return k, nil
}

// isFile tells whether name is that of a file, and of nothing else on any system:
// letters, digits, -, _ and dots that are not in front.
func isFile(name string) bool {
	if name == "" || len(name) > nameBytesMax || name[0] == '.' {
		return false
	}
	for i := range len(name) {
		if name[i] != '.' && !isWordByte(name[i]) {
			return false
		}
	}
	return filepath.IsLocal(name)
}

// find returns a checkpoint, which is not idle then.
func (s *shelf) find(id string) (*keptFiles, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.kept[id]
	if k == nil {
		return nil, ErrGone
	}
	k.idle.Reset(s.o.IdleMax)
	return k, nil
}

// release removes a checkpoint. Its position is held for a while.
func (s *shelf) release(id string) error {
	s.mu.Lock()
	k := s.kept[id]
	if k == nil {
		s.mu.Unlock()
		return ErrGone
	}
	k.idle.Stop()
	delete(s.kept, id)
	now := time.Now()
	holding := s.holding[:0]
	for _, h := range s.holding {
		if now.Before(h.until) {
			holding = append(holding, h)
		}
	}
	s.holding = append(holding, hold{k.at.Seq, now.Add(holdAfterwards)})
	if len(s.holding) > holdsMax {
		s.holding = s.holding[1:] // the oldest has had time
	}
	s.mu.Unlock()
	return os.RemoveAll(k.dir)
}

// files answers with a page of the list.
func (s *shelf) files(r *request) ([]byte, error) {
	k, err := s.find(r.Checkpoint)
	if err != nil {
		return nil, err
	}
	if r.From < 0 || r.From >= len(k.list) {
		return nil, fmt.Errorf("%w: file %d of %d", errRequest, r.From, len(k.list))
	}
	return json.Marshal(k.list[r.From:min(r.From+filesPageMax, len(k.list))])
}

// open opens a file of a checkpoint, whose name is one of the list.
func (s *shelf) open(r *request) (*os.File, int64, error) {
	k, err := s.find(r.Checkpoint)
	if err != nil {
		return nil, 0, err
	}
	size, ok := k.sizes[r.File]
	if !ok {
		return nil, 0, fmt.Errorf("%w: file %.100q is not in the checkpoint", errRequest, r.File)
	}
	f, err := os.Open(filepath.Join(k.dir, r.File))
	if errors.Is(err, os.ErrNotExist) {
		err = ErrGone
	}
	return f, size, err
}

// chunk answers with a piece of a file.
func (s *shelf) chunk(r *request) ([]byte, error) {
	f, size, err := s.open(r)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if r.Bytes < 1 || r.Bytes > chunkBytesMax || r.Offset < 0 || r.Offset > size-int64(r.Bytes) {
		return nil, fmt.Errorf("%w: %d bytes at %d of a file of %d", errRequest, r.Bytes, r.Offset, size)
	}
	b := make([]byte, r.Bytes)
	if _, err := f.ReadAt(b, r.Offset); err != nil {
		return nil, fmt.Errorf("read checkpoint: %w", err)
	}
	return b, nil
}

// sumAnswer is the hash of a file.
type sumAnswer struct {
	SHA256 string `json:"sha256"`
}

// sum answers with the hash of a file.
func (s *shelf) sum(ctx context.Context, r *request) ([]byte, error) {
	f, size, err := s.open(r)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h := sha256.New()
	if err := hashFile(ctx, f, size, h); err != nil {
		return nil, fmt.Errorf("read checkpoint: %w", err)
	}
	return json.Marshal(sumAnswer{hex.EncodeToString(h.Sum(nil))})
}

// hashFile hashes a file whose length is known, until ctx ends.
func hashFile(ctx context.Context, f io.Reader, size int64, h hash.Hash) error {
	for size > 0 {
		n := min(size, sumSliceBytes)
		if _, err := io.CopyN(h, f, n); err != nil {
			return err
		}
		if size -= n; ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}
