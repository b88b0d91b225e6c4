package sigv4

import (
	"crypto/hmac"
	"crypto/sha256"
	"hash"
	"strings"
	"sync"
)

// scopeEnd ends every scope.
const scopeEnd = "aws4_request"

// signer signs with the key of one secret, date, region and service.
type signer struct{ macs sync.Pool } // of hash.Hash

func newSigner(secret string, date, region, service []byte) *signer {
	key := []byte("AWS4" + secret)
	for _, part := range [][]byte{date, region, service, []byte(scopeEnd)} {
		h := hmac.New(sha256.New, key)
		h.Write(part)
		key = h.Sum(nil)
	}
	return &signer{macs: sync.Pool{New: func() any { return hmac.New(sha256.New, key) }}}
}

// sign appends the signature of text to dst.
func (s *signer) sign(dst, text []byte) {
	h := s.macs.Get().(hash.Hash)
	h.Reset()
	h.Write(text)
	h.Sum(dst)
	s.macs.Put(h)
}

// signersMax bounds the cache. A key is used for a day in a region.
const signersMax = 1024

// cache keeps signers.
type cache struct {
	mu sync.RWMutex
	m  map[cacheKey]*signer
}

type cacheKey struct{ id, date, region string }

func (k *cache) get(c *Claim) (*signer, bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	s, ok := k.m[cacheKey{c.key.id, view(c.date), view(c.region)}]
	return s, ok
}

func (k *cache) put(c *Claim, s *signer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.m == nil || len(k.m) >= signersMax {
		// Rare, and cheap to make good: most are of days gone by.
		k.m = make(map[cacheKey]*signer)
	}
	k.m[cacheKey{c.key.id, strings.Clone(view(c.date)), strings.Clone(view(c.region))}] = s
}
