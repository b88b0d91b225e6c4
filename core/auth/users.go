package auth

import (
	"bufio"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/bcrypt"
)

// Bounds of users.
const (
	UsersMax      = 100_000
	nameBytesMax  = 128
	lineBytesMax  = 1 << 10
	passwordMax   = 1 << 10
	bcryptMax     = 72 // bytes of a password; bcrypt looks at no more
	bcryptCostMax = 16 // about four seconds
	verifiersMax  = 2  // passwords that are hashed at the same time, at most

	argonMemoryMax  = 256 << 10 // KiB
	argonTimeMax    = 16
	argonThreadsMax = 16
	argonKeyMin     = 16
	argonKeyMax     = 64
)

// Users tells users apart by their passwords. A password that was right once is
// recognised without its hash, which is slow on purpose: clients that all connect
// again cost little.
type Users struct {
	hashes  map[string]hash
	unknown hash          // costs a wrong name as much as a wrong password
	slots   chan struct{} // held while a password is hashed
	key     [32]byte      // of the marks in right

	mu    sync.Mutex
	right map[string][sha256.Size]byte // by name: a mark of the password
}

// hash is the stored form of a password.
type hash interface {
	matches(password string) bool
}

// ParseUsers reads users. Errors tell the line, and never quote it.
func ParseUsers(r io.Reader) (*Users, error) {
	u := &Users{hashes: make(map[string]hash), right: make(map[string][sha256.Size]byte), slots: make(chan struct{}, verifiersMax)}
	if _, err := rand.Read(u.key[:]); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, lineBytesMax)
	n := 1
	for ; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		name, text, ok := strings.Cut(line, ":")
		if !ok || name == "" || len(name) > nameBytesMax {
			return nil, fmt.Errorf("line %d: not a name of up to %d bytes, a colon and a hash", n, nameBytesMax)
		}
		if u.hashes[name] != nil {
			return nil, fmt.Errorf("line %d: user %q is there twice", n, name)
		}
		if len(u.hashes) == UsersMax {
			return nil, fmt.Errorf("line %d: more than %d users", n, UsersMax)
		}
		h, err := parseHash(text)
		if err != nil {
			return nil, fmt.Errorf("line %d: user %q: %w", n, name, err)
		}
		u.hashes[name], u.unknown = h, h
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("line %d: longer than %d bytes", n, lineBytesMax)
	case err != nil:
		return nil, err
	case len(u.hashes) == 0:
		return nil, errors.New("there is no user in it")
	}
	return u, nil
}

// Len returns how many users there are.
func (u *Users) Len() int { return len(u.hashes) }

// Verify tells whether password is that of the user called name. It may take as long
// as the hash is meant to.
func (u *Users) Verify(name, password string) bool {
	if len(password) > passwordMax {
		return false
	}
	mark := u.mark(name, password)
	u.mu.Lock()
	known, ok := u.right[name]
	u.mu.Unlock()
	if ok && subtle.ConstantTimeCompare(mark[:], known[:]) == 1 {
		return true
	}
	h, exists := u.hashes[name]
	if !exists {
		h = u.unknown
	}
	u.slots <- struct{}{}
	matches := h.matches(password)
	<-u.slots
	if !matches || !exists {
		return false
	}
	u.mu.Lock()
	u.right[name] = mark
	u.mu.Unlock()
	return true
}

// mark is a keyed digest of a name and its password. It never leaves the process.
func (u *Users) mark(name, password string) (m [sha256.Size]byte) {
	h := hmac.New(sha256.New, u.key[:])
	_, _ = fmt.Fprintf(h, "%d:%s%s", len(name), name, password)
	h.Sum(m[:0])
	return m
}

func parseHash(s string) (hash, error) {
	switch {
	case strings.HasPrefix(s, "$2"):
		return parseBcrypt(s)
	case strings.HasPrefix(s, "$argon2id$"):
		return parseArgon(s)
	}
	return nil, errors.New("the hash is neither bcrypt nor argon2id")
}

type bcryptHash []byte

func parseBcrypt(s string) (hash, error) {
	cost, err := bcrypt.Cost([]byte(s))
	if err != nil || len(s) != 60 {
		return nil, errors.New("the bcrypt hash is malformed")
	}
	if cost > bcryptCostMax {
		return nil, fmt.Errorf("the bcrypt hash has cost %d, over %d", cost, bcryptCostMax)
	}
	return bcryptHash(s), nil
}

func (h bcryptHash) matches(password string) bool {
	return len(password) <= bcryptMax && bcrypt.CompareHashAndPassword(h, []byte(password)) == nil
}

type argonHash struct {
	memory, time uint32
	threads      uint8
	salt, key    []byte
}

func parseArgon(s string) (hash, error) {
	malformed := errors.New("the argon2id hash is malformed")
	parts := strings.Split(s, "$")
	if len(parts) != 6 || parts[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return nil, malformed
	}
	var h argonHash
	if n, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &h.memory, &h.time, &h.threads); n != 3 || err != nil {
		return nil, malformed
	}
	if h.memory < 8 || h.memory > argonMemoryMax || h.time < 1 || h.time > argonTimeMax || h.threads < 1 || h.threads > argonThreadsMax {
		return nil, fmt.Errorf("the argon2id hash asks for more than %d KiB, %d passes and %d threads, or for none", argonMemoryMax, argonTimeMax, argonThreadsMax)
	}
	var err error
	if h.salt, err = base64.RawStdEncoding.DecodeString(parts[4]); err != nil || len(h.salt) < 8 {
		return nil, malformed
	}
	if h.key, err = base64.RawStdEncoding.DecodeString(parts[5]); err != nil || len(h.key) < argonKeyMin || len(h.key) > argonKeyMax {
		return nil, malformed
	}
	return h, nil
}

func (h argonHash) matches(password string) bool {
	key := argon2.IDKey([]byte(password), h.salt, h.time, h.memory, h.threads, uint32(len(h.key)))
	return subtle.ConstantTimeCompare(key, h.key) == 1
}
