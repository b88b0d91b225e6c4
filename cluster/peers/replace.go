package peers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// What stands beside a directory while it is being replaced.
const (
	nextSuffix = ".replacement" // what takes its place: decided
	oldSuffix  = ".replaced"    // what was there before
)

// Replace puts the folder with, which Fetch has made, in the place of dir, which
// nobody uses; both are on one file system. Whenever it is interrupted, what is at
// dir is the old state, or the new one, or [FinishReplace] makes it the new one. So
// that is called at each start, before dir is opened. What was at dir is removed.
func Replace(dir, with string) error { return replace(dir, with, func(string) error { return nil }) }

// FinishReplace finishes what an interrupted Replace of dir has begun, if there is
// anything.
func FinishReplace(dir string) error {
	return finishReplace(filepath.Clean(dir), func(string) error { return nil })
}

// replace is Replace; step is called between what it does, and may end it.
func replace(dir, with string, step func(name string) error) error {
	dir, with = filepath.Clean(dir), filepath.Clean(with)
	info, err := os.Stat(with)
	if err == nil && (!info.IsDir() || with == dir || with == dir+nextSuffix || with == dir+oldSuffix) {
		err = errors.New("it is no folder for that")
	}
	if err != nil {
		return fmt.Errorf("replace %s by %s: %w", dir, with, err)
	}
	// What was decided before must not be lost below this one.
	if err := finishReplace(dir, step); err != nil {
		return err
	}
	if err := step("begin"); err != nil {
		return err
	}
	// The mark: from here on it is the new one.
	if err := move(with, dir+nextSuffix); err != nil {
		return fmt.Errorf("replace %s: %w", dir, err)
	}
	if err := step("decided"); err != nil {
		return err
	}
	return finishReplace(dir, step)
}

func finishReplace(dir string, step func(name string) error) error {
	next, err := exists(dir + nextSuffix)
	if err != nil {
		return err
	}
	here, err := exists(dir)
	if err != nil {
		return err
	}
	old, err := exists(dir + oldSuffix)
	switch {
	case err != nil:
		return err
	case !next && !here && old:
		// No crash leaves this: somebody has moved things.
		return fmt.Errorf("%s is not there, and %s is: it was given up when another state took its place; move or remove it",
			dir, dir+oldSuffix)
	case next && here:
		if err := setAside(dir, step); err != nil {
			return err
		}
	}
	if next {
		if err := move(dir+nextSuffix, dir); err != nil {
			return fmt.Errorf("replace %s: %w", dir, err)
		}
		if err := step("in place"); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(dir + oldSuffix); err != nil {
		return fmt.Errorf("remove what was replaced: %w", err)
	}
	return nil
}

// setAside moves away what is to be replaced.
func setAside(dir string, step func(name string) error) error {
	if err := os.RemoveAll(dir + oldSuffix); err != nil {
		return fmt.Errorf("remove what was replaced: %w", err)
	}
	if err := step("cleared"); err != nil {
		return err
	}
	if err := move(dir, dir+oldSuffix); err != nil {
		return fmt.Errorf("replace %s: %w", dir, err)
	}
	return step("aside")
}

// move renames a folder, durably.
func move(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return errors.Join(syncDir(filepath.Dir(to)), syncDir(filepath.Dir(from)))
}

func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
