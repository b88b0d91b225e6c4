package core_test

import (
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasemq/broker/core"
)

// watchedStore tells of each record that is read from a lane of q.
type watchedStore struct {
	core.Store
	records atomic.Int64
	reading atomic.Pointer[func()] // called once for each walk of a lane
}

// Messages implements core.Store.
func (s *watchedStore) Messages(q core.QID, lane core.Place, from, to core.Seq, visit func(core.Seq, []byte) bool) error {
	if reading := s.reading.Load(); reading != nil {
		(*reading)()
	}
	return s.Store.Messages(q, lane, from, to, func(seq core.Seq, rec []byte) bool {
		s.records.Add(1)
		return visit(seq, rec)
	})
}

// TestCountOfADelayHoldsNobodyUp: what a delay holds of an old backlog is counted
// without the lock of the queue and without reading the backlog, and is exact,
// whatever comes and goes meanwhile.
func TestCountOfADelayHoldsNobodyUp(t *testing.T) {
	const lanes, old, young = 3, 1000, 7
	store := new(watchedStore)
	n := &node{tune: func(o *core.Options) {
		store.Store = o.Store
		o.Store = store
	}}
	onNode(t, n, func(t *testing.T, n *node) {
		cfg := core.DefaultQueueConfig(core.KindFIFO)
		cfg.Delay, cfg.ContentDedup = time.Minute, true
		cfg.MaxMessages, cfg.Overflow = lanes*(old+young)-1, core.OverflowDropOldest
		if _, _, err := n.client.Declare(t.Context(), "d", cfg); err != nil {
			t.Fatal(err)
		}
		for i := range old {
			for l := range lanes {
				sendDelayed(t, n, l, i)
			}
		}
		time.Sleep(time.Hour)
		for i := range young {
			for l := range lanes {
				sendDelayed(t, n, l, old+i)
			}
		}
		n.close()
		n.open()
		store.records.Store(0)
		var sent atomic.Int64
		reading := func() { // also by the trimming that a send starts
			if i := sent.Add(1); i <= young { // beside the count, which would wait for ever
				sendDelayed(t, n, 0, 2*old+int(i))
			}
		}
		store.reading.Store(&reading)
		st, err := n.client.Stats(t.Context(), "d")
		store.reading.Store(nil)
		if want := int64(lanes*young + young); err != nil || st.Delayed != want || sent.Load() < young {
			t.Errorf("%d are delayed, %v; want %d, %d of them sent meanwhile", st.Delayed, err, want, young)
		}
		if most := int64(lanes * 300); store.records.Load() > most {
			t.Errorf("%d records were read, over %d", store.records.Load(), most)
		}
	})
}

func sendDelayed(t *testing.T, n *node, lane, number int) {
	t.Helper()
	m := core.Message{Body: []byte(strconv.Itoa(lane) + "/" + strconv.Itoa(number)), Group: strconv.Itoa(lane), Delay: -1}
	if _, err := n.client.Publish(t.Context(), "d", []core.Message{m}, nil); err != nil {
		t.Fatal(err)
	}
}
