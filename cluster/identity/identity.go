// Package identity makes what the nodes of a cluster know each other by out of one
// secret that they share: certificates for TLS with both sides verified, the key of
// gossip, and the password of the log's servers.
//
// # Contract
//
// The authority of a cluster is a function of its name and secret, so that each node
// issues its own certificate, with its name, to a key that it makes anew in each
// process. Nothing has to be handed round or renewed, and clocks do not matter.
// Everyone who has the secret can be any node: it is changed on all nodes at once.
//
// An [Identity] is not changed after New; its methods may be called from any
// goroutine.
package identity

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"fmt"
	"math/big"
	"os"
	"time"
)

// Bounds of a secret.
const (
	SecretBytesMin = 16
	SecretBytesMax = 4 << 10
)

// Identity is what one node shows to the others.
type Identity struct {
	authority *x509.CertPool
	own       tls.Certificate
	gossip    []byte
	password  string
}

// ReadSecret reads the secret in a file, without the white space around it.
func ReadSecret(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, SecretBytesMax+1)
	n := 0
	for n < len(b) {
		k, err := f.Read(b[n:])
		n += k
		if err != nil {
			break
		}
	}
	switch secret := bytes.TrimSpace(b[:n]); {
	case n > SecretBytesMax:
		return nil, fmt.Errorf("%s has more than %d bytes", path, SecretBytesMax)
	case len(secret) < SecretBytesMin:
		return nil, fmt.Errorf("%s has %d bytes, want at least %d", path, len(secret), SecretBytesMin)
	default:
		return secret, nil
	}
}

// New makes the identity of a node of a cluster.
func New(secret []byte, cluster, node string) (*Identity, error) {
	if len(secret) < SecretBytesMin {
		return nil, fmt.Errorf("secret has %d bytes, want at least %d", len(secret), SecretBytesMin)
	}
	derive := func(what string, bytes int) ([]byte, error) {
		return hkdf.Key(sha256.New, secret, []byte("leasemq"), cluster+"\x00"+what, bytes)
	}
	seed, err := derive("authority", ed25519.SeedSize)
	if err != nil {
		return nil, err
	}
	id := &Identity{}
	if id.gossip, err = derive("gossip", 32); err != nil {
		return nil, err
	}
	password, err := derive("log", 32)
	if err != nil {
		return nil, err
	}
	id.password = hex.EncodeToString(password)
	if err := id.issue(ed25519.NewKeyFromSeed(seed), cluster, node); err != nil {
		return nil, fmt.Errorf("certificate of node %s: %w", node, err)
	}
	return id, nil
}

// issue makes the authority and a certificate of it.
func (id *Identity) issue(authority crypto.Signer, cluster, node string) error {
	valid := func(c x509.Certificate) *x509.Certificate {
		c.NotBefore = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
		c.NotAfter = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
		return &c
	}
	root := valid(x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "LeaseMQ cluster " + cluster},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	// Ed25519 signs without chance: each node gets the same bytes.
	rootDER, err := x509.CreateCertificate(rand.Reader, root, root, authority.Public(), authority)
	if err != nil {
		return err
	}
	if root, err = x509.ParseCertificate(rootDER); err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return err
	}
	leaf, err := x509.CreateCertificate(rand.Reader, valid(x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: node}, DNSNames: []string{node}, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}), root, key.Public(), authority)
	if err != nil {
		return err
	}
	id.authority = x509.NewCertPool()
	id.authority.AddCert(root)
	id.own = tls.Certificate{Certificate: [][]byte{leaf}, PrivateKey: key}
	return nil
}

// Client is for connections to other nodes, whose name is the ServerName.
func (id *Identity) Client() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: id.authority, Certificates: []tls.Certificate{id.own}}
}

// Server is for connections of other nodes.
func (id *Identity) Server() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, ClientCAs: id.authority, Certificates: []tls.Certificate{id.own},
		ClientAuth: tls.RequireAndVerifyClientCert,
	}
}

// Peers is for connections both ways between servers that know each other by
// address: a certificate of the cluster is enough, whatever name it has.
func (id *Identity) Peers() *tls.Config {
	c := id.Server()
	// The name is not known; the authority is verified all the same.
	c.InsecureSkipVerify = true
	c.VerifyConnection = func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 {
			return fmt.Errorf("peer shows no certificate")
		}
		_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{
			Roots: id.authority, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		})
		return err
	}
	return c
}

// GossipKey is the key of gossip: 32 bytes.
func (id *Identity) GossipKey() []byte { return bytes.Clone(id.gossip) }

// Password is what the log's servers know each other by.
func (id *Identity) Password() string { return id.password }
