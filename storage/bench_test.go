package storage

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/leasemq/broker/core"
)

// benchBody is incompressible.
func benchBody(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b)
	return b
}

// BenchmarkEncode is what Submit costs its caller.
func BenchmarkEncode(b *testing.B) {
	d := openForTest(b, Options{Memory: true})
	c := tenMessages(1, benchBody(200))
	b.ReportAllocs()
	for b.Loop() {
		batch, _, err := d.encode(c)
		if err != nil {
			b.Fatal(err)
		}
		if err := batch.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// tenMessages is a Change of ten messages and their queue's state.
func tenMessages(from core.Seq, body []byte) *core.Change {
	c := change()
	for i := range core.Seq(10) {
		c.Edits = append(c.Edits, put(ref(1, from+i), body))
	}
	c.Edits = append(c.Edits, core.Edit{Kind: core.EditPutQueueState, Ref: core.Ref{QID: 1}, Value: body[:40]})
	return c
}

// BenchmarkSubmit commits Changes of ten messages of 200 bytes, as many at a
// time as the pipeline takes.
func BenchmarkSubmit(b *testing.B) {
	for name, o := range map[string]Options{
		"commit": {Sync: SyncCommit},
		"never":  {Sync: SyncNever},
		"memory": {Memory: true},
	} {
		b.Run(name, func(b *testing.B) {
			if !o.Memory {
				o.Dir = b.TempDir()
			}
			d := openForTest(b, o)
			body := benchBody(200)
			c := tenMessages(1, body)
			var all sync.WaitGroup
			done := func(_ core.Pos, err error) {
				if err != nil {
					b.Error(err)
				}
				all.Done()
			}
			next := core.Seq(1)
			b.ReportAllocs()
			for b.Loop() {
				for i := range core.Seq(10) {
					c.Edits[i].Seq = next + i
				}
				next += 10
				all.Add(1)
				d.Submit(c, done)
			}
			all.Wait()
			m := d.Metrics()
			b.ReportMetric(float64(m.Syncs)/float64(b.N), "syncs/op")
		})
	}
}

// BenchmarkSubmitAlone waits for each Change of one message.
func BenchmarkSubmitAlone(b *testing.B) {
	for name, o := range map[string]Options{
		"commit": {Sync: SyncCommit},
		"never":  {Sync: SyncNever},
		"memory": {Memory: true},
	} {
		b.Run(name, func(b *testing.B) {
			if !o.Memory {
				o.Dir = b.TempDir()
			}
			d := openForTest(b, o)
			c := change(put(ref(1, 0), benchBody(200)))
			answered := make(chan error)
			b.ReportAllocs()
			for b.Loop() {
				c.Edits[0].Seq++
				d.Submit(c, func(_ core.Pos, err error) { answered <- err })
				if err := <-answered; err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// filled returns a database with n messages in tables.
func filled(b *testing.B, n core.Seq) *DB {
	b.Helper()
	d := openForTest(b, Options{Dir: b.TempDir(), Sync: SyncNever})
	body := benchBody(200)
	for i := core.Seq(0); i < n; i += 10 {
		if _, err := commit(d, tenMessages(i, body)); err != nil {
			b.Fatal(err)
		}
	}
	flush(b, d)
	compactAll(b, d)
	return d
}

func BenchmarkReads(b *testing.B) {
	const n = 200_000
	d := filled(b, n)
	rng := rand.New(rand.NewPCG(1, 1))
	b.Run("message", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			v, err := d.Message(ref(1, core.Seq(rng.IntN(n))))
			if len(v) != 200 || err != nil {
				b.Fatal(len(v), err)
			}
		}
	})
	b.Run("absent state", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, ok, err := d.State(ref(1, core.Seq(rng.IntN(n)))); ok || err != nil {
				b.Fatal(ok, err)
			}
		}
	})
	b.Run("absent dedup", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if v, err := d.Dedup(rng.Uint32(), 1, [16]byte{}); v != nil || err != nil {
				b.Fatal(v, err)
			}
		}
	})
	b.Run("page of 512", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			from := core.Seq(rng.IntN(n - 512))
			count := 0
			err := d.Messages(1, core.Place{}, from, n, func(core.Seq, []byte) bool {
				count++
				return count < 512
			})
			if count != 512 || err != nil {
				b.Fatal(count, err)
			}
		}
	})
}
