package broker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// What a node of a cluster keeps in its data directory.
const (
	clusterStateFile = "cluster.json"
	clusterStoreDir  = "store" // the state, of a broker
	clusterLogDir    = "log"   // of the log's server, unless it is elsewhere
)

// clusterStateVersion is that of the file; a newer one is refused.
const clusterStateVersion = 1

// clusterState says who this node is. It outlives the process.
type clusterState struct {
	Version    int         `json:"version"`
	Cluster    string      `json:"cluster"`
	Node       string      `json:"node"`
	ID         string      `json:"id"` // of the data
	Generation uint32      `json:"generation"`
	Log        []logMember `json:"log,omitempty"` // who keeps the log, once it was known
}

// logMember is a node that keeps the log.
type logMember struct {
	Node    string `json:"node"`
	Route   string `json:"route"` // where the others reached it last
	Witness bool   `json:"witness,omitempty"`
}

var errForeignData = errors.New("data directory belongs to something else")

// loadClusterState reads what is in dir, nil if there is nothing.
func loadClusterState(dir string) (*clusterState, error) {
	b, err := os.ReadFile(filepath.Join(dir, clusterStateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var s clusterState
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, clusterStateFile), err)
	}
	if s.Version > clusterStateVersion {
		return nil, fmt.Errorf("%s is of version %d; this binary knows up to %d", filepath.Join(dir, clusterStateFile), s.Version, clusterStateVersion)
	}
	return &s, nil
}

// save writes the state whole, durably.
func (s *clusterState) save(dir string) error {
	b, err := json.Marshal(s, jsontext.WithIndent("  "))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	path := filepath.Join(dir, clusterStateFile)
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// checkAlone refuses the data of a node of a cluster: a node that stands alone would
// begin with nothing beside it.
func checkAlone(dir string) error {
	s, err := loadClusterState(dir)
	if err == nil && s != nil {
		err = fmt.Errorf("%w: %s is the data of node %s of cluster %s; set cluster.node (--node)", errForeignData, dir, s.Node, s.Cluster)
	}
	return err
}

// openClusterState reads or makes the state of this node.
func openClusterState(dir, cluster, node string, newID func() string) (*clusterState, error) {
	s, err := loadClusterState(dir)
	switch {
	case err != nil:
		return nil, err
	case s == nil:
		if found, err := filepath.Glob(filepath.Join(dir, "MANIFEST-*")); err != nil || len(found) > 0 {
			return nil, errors.Join(err, fmt.Errorf("%w: %s has the messages of a node that stands alone, which no cluster can take over; name another directory", errForeignData, dir))
		}
		s = &clusterState{Version: clusterStateVersion, Cluster: cluster, Node: node, ID: newID(), Generation: 1}
		return s, s.save(dir)
	case s.Cluster != cluster || s.Node != node:
		return nil, fmt.Errorf("%w: %s is the data of node %s of cluster %s, not of %s of %s", errForeignData, dir, s.Node, s.Cluster, node, cluster)
	}
	return s, nil
}
