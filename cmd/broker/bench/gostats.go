package bench

import "runtime"

// runtimeBytes returns what the Go runtime holds from the system.
func runtimeBytes() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.Sys - m.HeapReleased)
}

// mallocs returns how many heap objects were made since the process began.
func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}
