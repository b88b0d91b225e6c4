package peers

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

var errEnd = errors.New("the process ended")

// folder makes a folder that says what it is.
func folder(t *testing.T, path, what string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(path, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"what", "sub/what"} {
		if err := os.WriteFile(filepath.Join(path, name), []byte(what), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// whatIs says what is at path, "" if nothing.
func whatIs(t *testing.T, path string) string {
	t.Helper()
	if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		return ""
	}
	a, err := os.ReadFile(filepath.Join(path, "what"))
	b, berr := os.ReadFile(filepath.Join(path, "sub/what"))
	if err = errors.Join(err, berr); err != nil || string(a) != string(b) {
		t.Fatalf("%s is half: %v", path, err)
	}
	return string(a)
}

// TestReplaceEndsAtEachStep ends the process at each step of the replacement, and
// at each step of what the next start does about it.
func TestReplaceEndsAtEachStep(t *testing.T) {
	for _, old := range []bool{true, false} {
		var steps []string
		for first := 0; ; first++ {
			ended := false
			for second := 0; ; second++ {
				parent := t.TempDir()
				dir, with := filepath.Join(parent, "store"), filepath.Join(parent, "fetched")
				if old {
					folder(t, dir, "old")
				}
				folder(t, dir+oldSuffix, "older") // of a replacement before
				folder(t, with, "new")
				if !old {
					if err := os.RemoveAll(dir + oldSuffix); err != nil {
						t.Fatal(err)
					}
				}
				n := 0
				endAt := func(last int) func(string) error {
					n = 0
					return func(name string) error {
						if n++; n > last {
							if !slices.Contains(steps, name) {
								steps = append(steps, name)
							}
							return errEnd
						}
						return nil
					}
				}
				err := replace(dir, with, endAt(first))
				ended = err == nil
				if err != nil && !errors.Is(err, errEnd) {
					t.Fatalf("ended at step %d: %v", first, err)
				}
				decided := whatIs(t, with) == ""
				err = finishReplace(dir, endAt(second))
				if err != nil && !errors.Is(err, errEnd) {
					t.Fatalf("ended at steps %d and %d: %v", first, second, err)
				}
				finished := err == nil
				if err := FinishReplace(dir); err != nil {
					t.Fatalf("ended at steps %d and %d: %v", first, second, err)
				}
				want := "new"
				if !decided {
					want = map[bool]string{true: "old", false: ""}[old]
				}
				if got := whatIs(t, dir); got != want {
					t.Errorf("ended at steps %d and %d: %q is there, want %q", first, second, got, want)
				}
				if !isEmpty(t, dir+nextSuffix) || !isEmpty(t, dir+oldSuffix) {
					t.Errorf("ended at steps %d and %d: something is left", first, second)
				}
				if finished {
					break
				}
			}
			if ended {
				break
			}
		}
		want := []string{"begin", "decided", "cleared", "aside", "in place"}
		if !old {
			want = []string{"begin", "decided", "in place"}
		}
		if !slices.Equal(steps, want) {
			t.Errorf("steps %q, want %q", steps, want)
		}
	}
}

func TestReplaceTakesTheNewest(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "store")
	folder(t, dir, "old")
	folder(t, dir+nextSuffix, "decided before")
	folder(t, dir+oldSuffix, "older")
	folder(t, filepath.Join(parent, "fetched"), "new")
	if err := Replace(dir, filepath.Join(parent, "fetched")); err != nil {
		t.Fatal(err)
	}
	if got := whatIs(t, dir); got != "new" || !isEmpty(t, dir+nextSuffix) || !isEmpty(t, dir+oldSuffix) {
		t.Errorf("%q is there", got)
	}
}

func TestReplaceRefuses(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "store")
	folder(t, dir, "old")
	file := filepath.Join(parent, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, with := range []string{filepath.Join(parent, "nothing"), file, dir, dir + nextSuffix} {
		if err := Replace(dir, with); err == nil || whatIs(t, dir) != "old" {
			t.Errorf("replaced by %s: %v", with, err)
		}
	}
	if err := os.Rename(dir, dir+oldSuffix); err != nil {
		t.Fatal(err)
	}
	if err := FinishReplace(dir); err == nil || whatIs(t, dir+oldSuffix) != "old" {
		t.Errorf("what was moved by somebody: %v", err)
	}
	if err := FinishReplace(filepath.Join(parent, "other")); err != nil {
		t.Errorf("where nothing is: %v", err)
	}
}
