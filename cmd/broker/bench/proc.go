package bench

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// clockTick is the unit of CPU times in /proc/PID/stat: USER_HZ is 100 on every
// Linux that Go runs on.
const clockTick = 10 * time.Millisecond

// Memory is what a process holds resident, in bytes.
type Memory struct {
	RSS  int64 `json:"rss_bytes"`
	Peak int64 `json:"peak_rss_bytes"`
}

// ProcessMemory returns what process pid holds, from /proc.
func ProcessMemory(pid int) (Memory, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Memory{}, err
	}
	return Memory{RSS: statusBytes(b, "VmRSS:"), Peak: statusBytes(b, "VmHWM:")}, nil
}

// statusBytes returns the value of one "Name:  123 kB" line.
func statusBytes(status []byte, name string) int64 {
	for line := range bytes.Lines(status) {
		rest, ok := bytes.CutPrefix(line, []byte(name))
		if !ok {
			continue
		}
		fields := bytes.Fields(rest)
		if len(fields) == 0 {
			return 0
		}
		kib, err := strconv.ParseInt(string(fields[0]), 10, 64)
		if err != nil {
			return 0
		}
		return kib << 10
	}
	return 0
}

// ProcessCPU returns the CPU time that process pid has used, user and system,
// from /proc, in steps of 10 ms.
func ProcessCPU(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return statCPU(b)
}

// statCPU reads fields 14 and 15 of a stat line. Field 2 is the name in
// brackets and may itself hold spaces and brackets.
func statCPU(stat []byte) (time.Duration, error) {
	i := bytes.LastIndexByte(stat, ')')
	fields := bytes.Fields(stat[i+1:])
	if i < 0 || len(fields) < 13 {
		return 0, fmt.Errorf("stat line %q has too few fields", stat)
	}
	user, err1 := strconv.ParseInt(string(fields[11]), 10, 64)
	system, err2 := strconv.ParseInt(string(fields[12]), 10, 64)
	if err1 != nil || err2 != nil {
		return 0, fmt.Errorf("stat line %q has no CPU times", stat)
	}
	return time.Duration(user+system) * clockTick, nil
}

// SelfMemory returns what this process holds. Where there is no /proc it is what
// the Go runtime has taken from the system.
func SelfMemory() Memory {
	if m, err := ProcessMemory(os.Getpid()); err == nil {
		return m
	}
	n := runtimeBytes()
	return Memory{RSS: n, Peak: n}
}

// resetPeak makes the peak of this process start anew. Where the system cannot,
// the peak stays that of the whole life of the process.
func resetPeak() {
	f, err := os.OpenFile("/proc/self/clear_refs", os.O_WRONLY, 0)
	if err != nil {
		return
	}
	defer f.Close()
	_, _ = f.WriteString("5")
}
