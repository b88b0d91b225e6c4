package configs

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

// ParseDuration reads what time.ParseDuration does, and days before it: 4d,
// 1d12h.
func ParseDuration(s string) (time.Duration, error) {
	count, rest, ok := strings.Cut(s, "d")
	if !ok {
		return time.ParseDuration(s)
	}
	days, err := strconv.ParseUint(count, 10, 16)
	if err != nil || rest == "" {
		return time.Duration(days) * day, err
	}
	d, err := time.ParseDuration(rest)
	if err == nil && (d < 0 || d >= day) {
		err = fmt.Errorf("%s: not the rest of a day", rest)
	}
	return time.Duration(days)*day + d, err
}

// DurationText writes d as short as ParseDuration reads it.
func DurationText(d time.Duration) string {
	if d >= day && d%day == 0 && d/day < 1<<16 {
		return fmt.Sprintf("%dd", d/day)
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// sizeUnits lists the units of a size, those that end in others first.
func sizeUnits() []struct {
	name  string
	bytes int64
} {
	return []struct {
		name  string
		bytes int64
	}{
		{"KiB", 1 << 10},
		{"MiB", 1 << 20},
		{"GiB", 1 << 30},
		{"kB", 1e3},
		{"MB", 1e6},
		{"GB", 1e9},
		{"B", 1},
	}
}

// ParseSize reads bytes, such as 65536, 256KiB or 1 MiB.
func ParseSize(s string) (int64, error) {
	number, of := s, int64(1)
	for _, u := range sizeUnits() {
		if before, ok := strings.CutSuffix(s, u.name); ok {
			number, of = strings.TrimRight(before, " "), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err == nil && n > (1<<63-1)/of {
		err = strconv.ErrRange
	}
	return n * of, err
}
