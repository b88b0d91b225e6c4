package clustertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/leasemq/broker/cluster"
)

// Conform tries out a log that is empty, through several ways to it.
func Conform(t *testing.T, connect func() cluster.Log) {
	c := &conformance{T: t, log: connect(), other: connect()}
	for _, step := range []struct {
		name string
		run  func()
	}{
		{"chain", c.chain},
		{"competition", c.competition},
		{"atomic", c.atomic},
		{"stale pipeline", c.stalePipeline},
		{"tail", c.tail},
		{"trim", c.trim},
	} {
		if !t.Run(step.name, func(t *testing.T) { c.T = t; step.run() }) {
			return
		}
	}
}

// conformance is one run; its steps build on one another.
type conformance struct {
	*testing.T
	log, other cluster.Log
	last       uint64
	all        []string // the records so far
}

const patience = 20 * time.Second

// sent is an append under way.
type sent struct {
	seq uint64
	err error
}

func (c *conformance) context() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), patience)
}

// send appends without waiting.
func send(l cluster.Log, prev uint64, data string) <-chan sent {
	got := make(chan sent, 1)
	var once sync.Once
	l.Append(prev, []byte(data), func(seq uint64, err error) { once.Do(func() { got <- sent{seq, err} }) })
	return got
}

func (c *conformance) stored(got <-chan sent, data string) {
	c.Helper()
	s := <-got
	if s.err != nil || s.seq != c.last+1 {
		c.Fatalf("%s is at %d, %v, want %d", data, s.seq, s.err, c.last+1)
	}
	c.last, c.all = s.seq, append(c.all, data)
}

func (c *conformance) refused(err error) {
	c.Helper()
	var wrong *cluster.WrongLastError
	if !errors.As(err, &wrong) || wrong.Last != c.last {
		c.Fatalf("%v, want that the last sequence is %d", err, c.last)
	}
}

// chain appends several at a time.
func (c *conformance) chain() {
	var under []<-chan sent
	for i := range 8 {
		under = append(under, send(c.log, c.last+uint64(i), fmt.Sprint("chain ", i)))
	}
	for i, got := range under {
		c.stored(got, fmt.Sprint("chain ", i))
	}
	c.refused((<-send(c.log, c.last-1, "behind")).err)
	c.refused((<-send(c.log, c.last+1, "ahead")).err)
}

// competition has two write where one record fits.
func (c *conformance) competition() {
	for i := range 20 {
		data := [2]string{fmt.Sprint("one ", i), fmt.Sprint("two ", i)}
		got := [2]<-chan sent{send(c.log, c.last, data[0]), send(c.other, c.last, data[1])}
		answers := [2]sent{<-got[0], <-got[1]}
		winner := 0
		if answers[0].err != nil {
			winner = 1
		}
		if answers[winner].err != nil || answers[winner].seq != c.last+1 {
			c.Fatalf("round %d: %+v", i, answers)
		}
		c.last, c.all = c.last+1, append(c.all, data[winner])
		c.refused(answers[1-winner].err)
	}
}

// atomic appends all or none.
func (c *conformance) atomic() {
	ctx, cancel := c.context()
	defer cancel()
	records := [][]byte{[]byte("first"), []byte("second"), []byte("third")}
	_, err := c.log.AppendAtomic(ctx, c.last-1, records)
	c.refused(err)
	first, err := c.log.AppendAtomic(ctx, c.last, records)
	if err != nil || first != c.last+1 {
		c.Fatalf("batch is at %d, %v, want %d", first, err, c.last+1)
	}
	c.last += 3
	c.all = append(c.all, "first", "second", "third")
	c.stored(send(c.log, c.last, "behind a batch"), "behind a batch")
}

// stalePipeline shows the hole that expected sequences leave, and that pads close
// it: one writer takes over, and then what the other has sent arrives.
func (c *conformance) stalePipeline() {
	under := func() (errs []error) {
		var got []<-chan sent
		for i := range 4 {
			got = append(got, send(c.other, c.last+uint64(i), fmt.Sprint("stale ", i)))
		}
		for _, g := range got {
			errs = append(errs, (<-g).err)
		}
		return errs
	}
	took := <-send(c.log, c.last, "epoch")
	if took.err != nil {
		c.Fatal(took.err)
	}
	if errs := under(); errs[0] == nil || errs[1] != nil {
		c.Fatalf("without pads: %v, want the first refused and the second stored", errs)
	}
	c.last += 4
	c.all = append(c.all, "epoch", "stale 1", "stale 2", "stale 3")

	ctx, cancel := c.context()
	defer cancel()
	pads := [][]byte{[]byte("epoch"), []byte("pad"), []byte("pad"), []byte("pad"), []byte("pad")}
	if _, err := c.log.AppendAtomic(ctx, c.last, pads); err != nil {
		c.Fatal(err)
	}
	for i, err := range under() {
		if err == nil {
			c.Fatalf("with pads: stale record %d was stored", i)
		}
	}
	c.last += 5
	c.all = append(c.all, "epoch", "pad", "pad", "pad", "pad")
	c.stored(send(c.log, c.last, "go on"), "go on")
}

// same tells whether e is what was appended.
func (c *conformance) same(e cluster.Entry) error {
	if want := c.all[e.Seq-1]; string(e.Data) != want {
		return fmt.Errorf("record %d is %q, want %q", e.Seq, e.Data, want)
	}
	return nil
}

// tail follows from the middle, past what is appended meanwhile.
func (c *conformance) tail() {
	ctx, cancel := c.context()
	defer cancel()
	next := uint64(1)
	err := c.log.Read(ctx, 1, c.last, func(e cluster.Entry) error {
		if e.Seq != next {
			return fmt.Errorf("record %d follows %d", e.Seq, next-1)
		}
		next++
		return c.same(e)
	})
	if err != nil || next != c.last+1 {
		c.Fatalf("read to %d: %v", next-1, err)
	}
	from, more := c.last/2, 50
	c.all = append(c.all, make([]string, more)...)
	for i := range more {
		c.all[int(c.last)+i] = fmt.Sprint("tail ", i)
	}
	done := errors.New("done")
	end := c.last + uint64(more)
	tailing := make(chan error, 1)
	go func() {
		next := from
		tailing <- c.other.Tail(ctx, from, func(e cluster.Entry) error {
			if e.Seq != next {
				return fmt.Errorf("record %d follows %d", e.Seq, next-1)
			}
			if err := c.same(e); err != nil {
				return err
			}
			if next++; e.Seq == end {
				return done
			}
			return nil
		})
	}()
	for i := range more {
		s := <-send(c.log, c.last, fmt.Sprint("tail ", i))
		if s.err != nil {
			c.Fatal(s.err)
		}
		c.last = s.seq
	}
	if err := <-tailing; !errors.Is(err, done) {
		c.Fatalf("tail ended with %v", err)
	}
}

// trim removes the older half.
func (c *conformance) trim() {
	ctx, cancel := c.context()
	defer cancel()
	if err := c.log.Trim(ctx, 10); err != nil {
		c.Fatal(err)
	}
	visit := func(cluster.Entry) error { return nil }
	for name, err := range map[string]error{
		"read": c.log.Read(ctx, 10, 12, visit),
		"tail": c.log.Tail(ctx, 10, visit),
	} {
		if !errors.Is(err, cluster.ErrTrimmed) {
			c.Errorf("%s of what is gone: %v", name, err)
		}
	}
	if err := c.log.Read(ctx, 11, c.last, c.same); err != nil {
		c.Error(err)
	}
	info, err := c.log.Info(ctx)
	if err != nil || info.First != 11 || info.Last != c.last {
		c.Errorf("info %+v, %v, want 11 to %d", info, err, c.last)
	}
	c.stored(send(c.log, c.last, "behind a trim"), "behind a trim")
}
