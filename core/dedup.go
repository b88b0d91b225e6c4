package core

import (
	"crypto/sha256"
	"sync"
	"time"
)

// dedupKey is the hash of a deduplication id within its scope.
type dedupKey [16]byte

// pendingDedup is an entry of the overlay: decided, not yet durable.
type pendingDedup struct {
	dedupEntry
	group uint64
}

const (
	minuteMS     = 60_000
	dedupMinutes = int64(dedupWindow/time.Minute) + 1 // buckets that the window can touch
)

// dedupHash hashes m's deduplication id. What the id is unique in is part of it:
// the queue, by its incarnation in the stored key, or queue and group.
func dedupHash(cfg *QueueConfig, m *Message) dedupKey {
	b := make([]byte, 0, len(m.Group)+1+len(m.DedupID))
	if cfg.DedupScope == DedupGroup {
		b = append(b, m.Group...)
	}
	b = append(append(b, 0), m.DedupID...)
	sum := sha256.Sum256(b)
	return dedupKey(sum[:16])
}

// findDuplicates marks the drafts that repeat an earlier send, or one before
// them in the batch. It returns how many are new, their size, and the newest
// group that a duplicate's answer has to wait for.
func (q *queue) findDuplicates(drafts []draft) (fresh int, size int64, pending uint64, err error) {
	var batch map[dedupKey]*draft
	now := q.engine.clock.now() // drafts may be from before: what was sent meanwhile counts
	for i := range drafts {
		d := &drafts[i]
		d.known, d.twin = nil, nil
		if p, ok := q.overlay[d.dedup]; ok && d.at-p.sentAt < dedupWindow.Milliseconds() {
			d.known, pending = &p.dedupEntry, max(pending, p.group)
			continue
		}
		if d.known, err = q.storedDedup(d.dedup, max(d.at, now)); err != nil {
			return 0, 0, 0, err
		}
		if d.known != nil {
			continue
		}
		if len(drafts) > 1 {
			if first := batch[d.dedup]; first != nil {
				d.twin = first
				continue
			}
			if batch == nil {
				batch = make(map[dedupKey]*draft)
			}
			batch[d.dedup] = d
		}
		fresh++
		size += d.counted
	}
	return fresh, size, pending, nil
}

// storedDedup looks an id up in storage. The filter spares nearly all look-ups
// that would find nothing.
func (q *queue) storedDedup(k dedupKey, now int64) (*dedupEntry, error) {
	e := q.engine
	last := now / minuteMS
	for m := last; m > last-dedupMinutes && m > 0; m-- {
		if !e.dedup.maybe(uint32(m), q.qid, k) {
			continue
		}
		b, err := e.store.Dedup(uint32(m), q.qid, k)
		if err != nil {
			return nil, err
		}
		if b == nil {
			continue
		}
		d, err := decodeDedup(b)
		if err != nil {
			return nil, err
		}
		if now-d.sentAt < dedupWindow.Milliseconds() {
			return &d, nil
		}
	}
	return nil, nil
}

// rememberDedup stores the id of a first send with the send itself.
func (q *queue) rememberDedup(g *group, sl *slot, d *draft) {
	entry := dedupEntry{seq: d.seq, id: d.id, sentAt: d.at}
	if q.overlay == nil {
		q.overlay = make(map[dedupKey]pendingDedup)
	}
	q.overlay[d.dedup] = pendingDedup{dedupEntry: entry, group: g.n}
	sl.dedup = append(sl.dedup, d.dedup)
	minute := uint32(d.at / minuteMS)
	q.engine.dedup.add(minute, q.qid, d.dedup)
	key := d.dedup
	g.put(Edit{Kind: EditPutDedup, Ref: Ref{QID: q.qid}, Minute: minute, Key: key[:], Value: entry.append(make([]byte, 0, 33))})
	q.engine.armDedup()
}

// dedupFilter says which minutes may hold an id: a Bloom filter a minute, about
// 1.5 bytes an id. Minutes from before this process are unknown: they always
// may.
type dedupFilter struct {
	mu      sync.Mutex
	from    uint32 // first minute that is known
	minutes map[uint32]*bloom
}

// bloom is a chain of filters of bloomKeys each.
type bloom struct {
	blocks []*[bloomWords]uint64
	n      int // keys in the last block
}

const (
	bloomKeys  = 1 << 16
	bloomBits  = 12 * bloomKeys
	bloomWords = bloomBits / 64
	bloomHashs = 6
)

// bits calls visit with the positions of a key until it returns false.
func (k dedupKey) bits(q QID, visit func(word, bit uint32) bool) bool {
	h1, h2 := uint32(q), uint32(q>>32)
	for i := 0; i < 16; i += 8 {
		h1 = (h1 ^ (uint32(k[i]) | uint32(k[i+1])<<8 | uint32(k[i+2])<<16 | uint32(k[i+3])<<24)) * 0x9e3779b1
		h2 = (h2 ^ (uint32(k[i+4]) | uint32(k[i+5])<<8 | uint32(k[i+6])<<16 | uint32(k[i+7])<<24)) * 0x85ebca6b
	}
	h2 |= 1
	for range bloomHashs {
		p := h1 % bloomBits
		if !visit(p/64, p%64) {
			return false
		}
		h1 += h2
	}
	return true
}

func (f *dedupFilter) add(minute uint32, q QID, k dedupKey) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.minutes[minute]
	if b == nil {
		b = &bloom{}
		f.minutes[minute] = b
	}
	if len(b.blocks) == 0 || b.n == bloomKeys {
		b.blocks, b.n = append(b.blocks, new([bloomWords]uint64)), 0
	}
	block := b.blocks[len(b.blocks)-1]
	b.n++
	k.bits(q, func(word, bit uint32) bool { block[word] |= 1 << bit; return true })
}

func (f *dedupFilter) maybe(minute uint32, q QID, k dedupKey) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if minute < f.from {
		return true
	}
	b := f.minutes[minute]
	if b == nil {
		return false
	}
	for _, block := range b.blocks {
		if k.bits(q, func(word, bit uint32) bool { return block[word]&(1<<bit) != 0 }) {
			return true
		}
	}
	return false
}

// startDedup finds out which minutes storage knows.
func (e *Engine) startDedup() error {
	// The minute that is running may have entries of the process before.
	e.dedup.from = uint32(e.clock.now()/minuteMS) + 1
	e.dedup.minutes = make(map[uint32]*bloom)
	e.dedupTimer = time.AfterFunc(time.Hour, e.dropDedup)
	e.dedupTimer.Stop()
	_, ok, err := e.store.DedupFrom()
	if err != nil {
		return err
	}
	if ok {
		e.dedupArmed.Store(true)
		e.dedupTimer.Reset(time.Minute)
	} else {
		e.dedup.from = 0
	}
	return nil
}

// armDedup makes sure that the ids of a send are dropped some time.
func (e *Engine) armDedup() {
	if e.dedupArmed.CompareAndSwap(false, true) {
		e.dedupTimer.Reset(dedupWindow + time.Minute)
	}
}

// dropDedup removes the minutes that are over, with one range deletion.
func (e *Engine) dropDedup() {
	if e.stopped() {
		return
	}
	below := uint32(e.clock.now()/minuteMS - dedupMinutes + 1)
	e.dedup.mu.Lock()
	for m := range e.dedup.minutes {
		if m < below {
			delete(e.dedup.minutes, m)
		}
	}
	live := len(e.dedup.minutes) > 0
	e.dedup.mu.Unlock()
	from, ok, err := e.store.DedupFrom()
	if err != nil {
		e.complain("deduplication ids", err)
	}
	if ok && from < below {
		if g, err := e.seq.begin(); err == nil {
			g.put(Edit{Kind: EditDropDedup, Minute: below})
			e.seq.end()
		}
	}
	e.dedupArmed.Store(live || ok)
	if live || ok {
		e.dedupTimer.Reset(time.Minute)
	}
}
