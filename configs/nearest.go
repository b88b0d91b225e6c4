package configs

import (
	"fmt"
	"strings"
)

// shortWord is the length up to which two letters make another word.
const shortWord = 4

// Nearest returns the word that s was probably meant to be, or "" if none is
// close: at most a third of its length away, and one more if s is not short. A
// start of one word only is that word.
func Nearest(s string, words []string) string {
	best, bestAt := "", max(1, len(s)/3)
	if len(s) > shortWord {
		bestAt++
	}
	for _, w := range words {
		if d := distance(strings.ToLower(s), strings.ToLower(w)); d <= bestAt && (best == "" || d < bestAt) {
			best, bestAt = w, d
		}
	}
	if best == "" && len(s) > shortWord {
		return completed(s, words)
	}
	return best
}

// completed returns the only word that starts with s, or "".
func completed(s string, words []string) string {
	found := ""
	for _, w := range words {
		switch {
		case !strings.HasPrefix(strings.ToLower(w), strings.ToLower(s)):
		case found != "":
			return ""
		default:
			found = w
		}
	}
	return found
}

// didYouMean returns a suggestion to append to an error, or "".
func didYouMean(s string, words []string) string {
	if w := Nearest(s, words); w != "" {
		return fmt.Sprintf("; did you mean %s?", w)
	}
	return ""
}

// distance counts the insertions, deletions, substitutions and swaps of
// neighbours that turn a into b.
func distance(a, b string) int {
	var before []int
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
