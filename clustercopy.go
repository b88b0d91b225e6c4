package broker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/leasemq/broker/cluster/peers"
)

// How a node gets a copy of another one's state.
const (
	copySuffix   = ".new" // of the folder, beside that of the store
	copyRetryMin = time.Second
	copyRetryMax = 30 * time.Second
	copyTell     = 5 * time.Second // between two lines of progress in the log
)

// copyState puts a copy of another node's state in the place of this one's. It
// tries until ctx ends: without it the node can do nothing but relay.
func (m *clusterNode) copyState(ctx context.Context) error {
	m.setMember(nil)
	if db := m.node.db.Swap(nil); db != nil {
		if err := db.Close(); err != nil {
			return fmt.Errorf("close the state that is replaced: %w", err)
		}
	}
	defer m.setCopying("")
	for wait := copyRetryMin; ; wait = min(2*wait, copyRetryMax) {
		m.setCopying("copies the state of another node")
		err := m.tryCopy(ctx)
		if err == nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		m.log.Warn("the state is not copied yet: trying on", "error", err, "retry_in", wait)
		m.setCopying("cannot copy the state of another node: " + err.Error())
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// tryCopy copies the state of whoever is furthest, which is the primary if there is
// one.
func (m *clusterNode) tryCopy(ctx context.Context) error {
	all, err := m.peers.All(ctx)
	if err != nil && len(all) == 0 {
		return err
	}
	var from peers.Status
	for _, s := range all {
		if s.Node == m.config.Node || s.Role != peers.RolePrimary && s.Role != peers.RoleStandby {
			continue
		}
		if from.Node == "" || s.Role == peers.RolePrimary || from.Role != peers.RolePrimary && s.Applied > from.Applied {
			from = s
		}
	}
	if from.Node == "" {
		return errors.New("no node with a state answers")
	}
	with := m.storeDir() + copySuffix
	if err := os.RemoveAll(with); err != nil {
		return err
	}
	began, told := time.Now(), time.Now()
	at, err := m.peers.Fetch(ctx, from.Node, with, func(done, total int64) {
		text := fmt.Sprintf("copies the state of %s: %d of %d MiB", from.Node, done>>20, total>>20)
		m.setCopying(text)
		if time.Since(told) >= copyTell {
			told = time.Now()
			m.log.Info(text)
		}
	})
	if err != nil {
		return err
	}
	if err := peers.Replace(m.storeDir(), with); err != nil {
		return err
	}
	m.log.Info("state is copied", "from", from.Node, "sequence", at.Seq, "took", time.Since(began).Round(time.Millisecond))
	return nil
}

func (m *clusterNode) setCopying(text string) {
	m.mu.Lock()
	m.copying = text
	m.mu.Unlock()
}
