package broker

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/leasemq/broker/configs"
)

// certificateCheckEvery is how long a changed certificate may go unseen.
const certificateCheckEvery = 5 * time.Second

// certificates are what the TLS listeners of a node show, and by what they know
// their clients. They are read again when a file has changed: a connection that
// begins later sees the new ones. Nothing looks while nobody connects.
type certificates struct {
	files configs.TLS
	log   *slog.Logger
	every time.Duration

	loading sync.Mutex // held while files are read, which others do not wait for

	mu      sync.Mutex
	config  *tls.Config
	seen    []fileState // of what config was made from, or could not be
	checked time.Time
}

// fileState tells apart the versions of a file.
type fileState struct {
	name    string
	size    int64
	changed time.Time
}

// openCertificates reads the files that c names.
func openCertificates(c configs.TLS, log *slog.Logger) (*certificates, error) {
	cs := &certificates{files: c, log: log, every: certificateCheckEvery}
	if err := cs.reload(); err != nil {
		return nil, err
	}
	return cs, nil
}

// server returns the configuration of a listener.
func (cs *certificates) server() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return cs.current(), nil },
	}
}

// current returns what the next connection gets.
func (cs *certificates) current() *tls.Config {
	cs.mu.Lock()
	now := time.Now()
	look, seen := now.Sub(cs.checked) >= cs.every, cs.seen
	if look {
		cs.checked = now
	}
	cs.mu.Unlock()
	if look {
		if states, err := cs.states(); err != nil || !slices.Equal(states, seen) {
			cs.renew(states)
		}
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.config
}

// renew keeps what there was if the new files are of no use, which may be half a
// change: they are read again when they change once more.
func (cs *certificates) renew(states []fileState) {
	if err := cs.reload(); err != nil {
		cs.log.Error("certificates could not be read again; the old ones stay", "error", err)
		cs.mu.Lock()
		cs.seen = states
		cs.mu.Unlock()
		return
	}
	cs.log.Info("certificates were read again", "certificate", cs.files.CertFile)
}

// reload reads the files now. After an error nothing has changed.
func (cs *certificates) reload() error {
	cs.loading.Lock()
	defer cs.loading.Unlock()
	states, err := cs.states()
	if err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(cs.files.CertFile, cs.files.KeyFile)
	if err != nil {
		return fmt.Errorf("certificate %s with key %s: %w", cs.files.CertFile, cs.files.KeyFile, withoutPath(err))
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	if name := cs.files.ClientCAFile; name != "" {
		pem, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("client authorities: %w", err)
		}
		config.ClientCAs = x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("client authorities %s: there is no certificate in it", name)
		}
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.config, cs.seen, cs.checked = config, states, time.Now()
	return nil
}

// states looks at the files.
func (cs *certificates) states() ([]fileState, error) {
	var states []fileState
	for _, name := range []string{cs.files.CertFile, cs.files.KeyFile, cs.files.ClientCAFile} {
		if name == "" {
			continue
		}
		info, err := os.Stat(name)
		if err != nil {
			return states, fmt.Errorf("certificates: %w", err)
		}
		states = append(states, fileState{name: name, size: info.Size(), changed: info.ModTime()})
	}
	return states, nil
}

// withoutPath drops the operation and the path of a file error, which are said
// already.
func withoutPath(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
