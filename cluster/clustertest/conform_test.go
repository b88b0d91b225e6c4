package clustertest_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasemq/broker/cluster"
	"github.com/leasemq/broker/cluster/clustertest"
)

func TestLogInMemoryConforms(t *testing.T) {
	server := clustertest.NewServer(rand.New(rand.NewPCG(1, 1)), time.Second)
	clustertest.Conform(t, func() cluster.Log { return server.Connect(&clustertest.Gate{}, clustertest.Faults{}) })
}

func TestLogInMemoryKeepsTheOrderOfRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := clustertest.NewServer(rand.New(rand.NewPCG(2, 1)), time.Second)
		l := server.Connect(&clustertest.Gate{}, clustertest.Faults{TwiceAnswer: 50})
		answers := make(chan error, 200)
		for i := range uint64(100) {
			l.Append(i, []byte("x"), func(seq uint64, err error) {
				if err == nil && seq != i+1 {
					t.Errorf("record %d is at %d", i, seq)
				}
				answers <- err
			})
		}
		time.Sleep(time.Second)
		close(answers)
		for err := range answers {
			if err != nil {
				t.Error(err)
			}
		}
	})
}
