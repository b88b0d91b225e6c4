package auth

import (
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/bcrypt"
)

// bcryptLine returns a line of a users file, and argonLine one of the other form.
func bcryptLine(t testing.TB, name, password string) string {
	t.Helper()
	h, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return name + ":" + string(h)
}

func argonLine(name, password string) string {
	salt := []byte("salt of eight or more")
	key := argon2.IDKey([]byte(password), salt, 1, 64, 1, 32)
	b64 := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("%s:$argon2id$v=19$m=64,t=1,p=1$%s$%s", name, b64(salt), b64(key))
}

func TestUsersAreToldApart(t *testing.T) {
	u, err := ParseUsers(strings.NewReader("# who may\n\n" + bcryptLine(t, "worker", "w-secret") + "\r\n" + argonLine("déjà vu", "päss:word") + "\n"))
	if err != nil || u.Len() != 2 {
		t.Fatalf("%v, %v", u, err)
	}
	for range 2 { // the second time from memory
		for _, c := range []struct {
			name, password string
			want           bool
		}{
			{"worker", "w-secret", true},
			{"déjà vu", "päss:word", true},
			{"worker", "päss:word", false},
			{"worker", "w-secret ", false},
			{"worker", "", false},
			{"Worker", "w-secret", false},
			{"", "", false},
			{"nobody", "w-secret", false},
			{"worker", strings.Repeat("x", passwordMax+1), false},
			{"worke", "rw-secret", false},
		} {
			if got := u.Verify(c.name, c.password); got != c.want {
				t.Errorf("%q with %q: %t", c.name, c.password, got)
			}
		}
	}
	if len(u.right) != 2 {
		t.Errorf("%d passwords are remembered, want those of the two users", len(u.right))
	}
}

// TestARightPasswordIsHashedOnce: what it costs is paid by the first connection.
func TestARightPasswordIsHashedOnce(t *testing.T) {
	u, err := ParseUsers(strings.NewReader(bcryptLine(t, "worker", "secret")))
	if err != nil {
		t.Fatal(err)
	}
	hashed := &counted{hash: u.hashes["worker"]}
	u.hashes["worker"] = hashed
	for range 10 {
		if !u.Verify("worker", "secret") {
			t.Fatal("refused")
		}
	}
	if hashed.n != 1 {
		t.Errorf("hashed %d times", hashed.n)
	}
	for range 3 {
		u.Verify("worker", "wrong")
	}
	if hashed.n != 4 {
		t.Errorf("a wrong password was hashed %d times, want each time", hashed.n-1)
	}
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if !u.Verify("worker", "secret") {
				t.Error("refused")
			}
		})
	}
	all.Wait()
}

type counted struct {
	hash
	n int
}

func (c *counted) matches(password string) bool {
	c.n++
	return c.hash.matches(password)
}

func TestMalformedUsersAreRefused(t *testing.T) {
	good := bcryptLine(t, "a", "x")
	for text, want := range map[string]string{
		"":                     "there is no user",
		"# nobody\n":           "there is no user",
		"name":                 "line 1: not a name",
		":$2y$10$x":            "line 1: not a name",
		good + "\nb:plaintext": `line 2: user "b": the hash is neither`,
		good + "\n" + good:     `line 2: user "a" is there twice`,
		"a:$2y$10$short":       "bcrypt hash is malformed",
		"a:" + strings.Replace(strings.TrimPrefix(good, "a:"), "$04$", "$31$", 1):  "cost 31, over 16",
		"a:$argon2id$v=19$m=64,t=1$c2FsdHNhbHQ$a2V5":                               "argon2id hash is malformed",
		"a:$argon2id$v=18$m=64,t=1,p=1$c2FsdHNhbHQ$a2V5a2V5a2V5a2V5a2V5a2V5":       "argon2id hash is malformed",
		"a:$argon2id$v=19$m=99999999,t=1,p=1$c2FsdHNhbHQ$a2V5a2V5a2V5a2V5a2V5a2V5": "asks for more than",
		"a:$argon2id$v=19$m=64,t=1,p=0$c2FsdHNhbHQ$a2V5a2V5a2V5a2V5a2V5a2V5":       "or for none",
		"a:" + strings.Repeat("x", 2*lineBytesMax):                                 "line 1: longer than",
		strings.Repeat("n", nameBytesMax+1) + ":x":                                 "line 1: not a name",
	} {
		_, err := ParseUsers(strings.NewReader(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
		if err != nil && (strings.Contains(err.Error(), "$2") || strings.Contains(err.Error(), "plaintext")) {
			t.Errorf("the error shows what stands in the file: %v", err)
		}
	}
}

func FuzzParseUsers(f *testing.F) {
	f.Add("a:$2y$10$abcdefghijklmnopqrstuuJ3Q0vWl0s0b1b1b1b1b1b1b1b1b1b1b1")
	f.Add(argonLine("a", "b"))
	f.Fuzz(func(t *testing.T, s string) {
		if u, err := ParseUsers(strings.NewReader(s)); err == nil && u.Len() == 0 {
			t.Error("no user and no error")
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	u, err := ParseUsers(strings.NewReader(argonLine("worker", "secret")))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if !u.Verify("worker", "secret") {
			b.Fatal("refused")
		}
	}
}
