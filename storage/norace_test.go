//go:build !race

package storage

const slowdown = 1
