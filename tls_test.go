package broker

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leasemq/broker/configs"
)

// authority signs certificates for a test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert: cert, key: key}
}

// issue returns a certificate and its key in PEM, good for either side.
func (a *authority) issue(t *testing.T, serial int64) (cert, key []byte) {
	t.Helper()
	return a.issueTo(t, "", serial)
}

// issueTo is issue for somebody with a name.
func (a *authority) issueTo(t *testing.T, name string, serial int64) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &private.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// client trusts a, and shows certs.
func (a *authority) client(certs ...tls.Certificate) *http.Client {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: pool, Certificates: certs},
		DisableKeepAlives: true, // each request shakes hands
	}}
}

// tlsFiles writes a server's files and returns where they are.
func tlsFiles(t *testing.T, a *authority, serial int64) configs.TLS {
	t.Helper()
	dir := t.TempDir()
	c := configs.TLS{CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
	writeTLS(t, c, a, serial)
	return c
}

func writeTLS(t *testing.T, c configs.TLS, a *authority, serial int64) {
	t.Helper()
	cert, key := a.issue(t, serial)
	for name, b := range map[string][]byte{c.CertFile: cert, c.KeyFile: key} {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func withListeners(c configs.TLS, host string) Option {
	return Edit(func(e *configs.Config) { e.TLS, e.SQS.TLSListen, e.Admin.TLSListen = c, host+":0", host+":0" })
}

// createQueue creates a queue over SQS and returns the answer and the serial of
// the server's certificate.
func createQueue(t *testing.T, client *http.Client, address string) (answer string, serial int64, err error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+address, strings.NewReader(`{"QueueName": "q"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-amz-json-1.0")
	req.Header.Set("X-Amz-Target", "AmazonSQS.CreateQueue")
	res, err := client.Do(req)
	if err != nil {
		return "", 0, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return string(b), res.TLS.PeerCertificates[0].SerialNumber.Int64(), err
}

func TestListenersSpeakTLS(t *testing.T) {
	a := newAuthority(t, "ours")
	files := tlsFiles(t, a, 7)
	n, err := Run(t.Context(), withListeners(files, "127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	answer, serial, err := createQueue(t, a.client(), n.Addr("sqs_tls"))
	if want := `{"QueueUrl":"https://` + n.Addr("sqs_tls") + `/000000000000/q"}`; answer != want || serial != 7 || err != nil {
		t.Errorf("certificate %d, %v: %s, want %s", serial, err, answer, want)
	}
	res, err := a.client().Get("https://" + n.Addr("admin_tls") + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("ready: %s", res.Status)
	}
	// What is not TLS gets no further than the handshake.
	if res, err := http.Get("http://" + n.Addr("sqs_tls") + "/health"); err == nil {
		defer res.Body.Close()
		if res.StatusCode == http.StatusOK {
			t.Error("a plain request was answered")
		}
	}

	writeTLS(t, files, a, 8)
	if err := n.Reload(n.settings.config); err != nil {
		t.Fatal(err)
	}
	if _, serial, err := createQueue(t, a.client(), n.Addr("sqs_tls")); serial != 8 || err != nil {
		t.Errorf("after a reload certificate %d, %v", serial, err)
	}
	if err := os.WriteFile(files.KeyFile, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := n.Reload(n.settings.config); err == nil || !strings.Contains(err.Error(), files.KeyFile) {
		t.Errorf("reload of a broken key: %v", err)
	}
	if _, serial, err := createQueue(t, a.client(), n.Addr("sqs_tls")); serial != 8 || err != nil {
		t.Errorf("after a failed reload certificate %d, %v", serial, err)
	}
}

func TestClientsNeedACertificateOfTheirAuthority(t *testing.T) {
	a, clients, others := newAuthority(t, "ours"), newAuthority(t, "clients"), newAuthority(t, "others")
	files := tlsFiles(t, a, 1)
	files.ClientCAFile = filepath.Join(filepath.Dir(files.CertFile), "clients.pem")
	if err := os.WriteFile(files.ClientCAFile, clients.pem(), 0o600); err != nil {
		t.Fatal(err)
	}
	// Such listeners may be reached from other machines.
	n, err := Run(t.Context(), withListeners(files, "0.0.0.0"))
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	_, port, err := net.SplitHostPort(n.Addr("sqs_tls"))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		from *authority
		want bool
	}{"none": {nil, false}, "of another authority": {others, false}, "of theirs": {clients, true}} {
		var certs []tls.Certificate
		if c.from != nil {
			pair, err := tls.X509KeyPair(c.from.issue(t, 2))
			if err != nil {
				t.Fatal(err)
			}
			certs = append(certs, pair)
		}
		answer, _, err := createQueue(t, a.client(certs...), "127.0.0.1:"+port)
		if got := err == nil && strings.Contains(answer, "QueueUrl"); got != c.want {
			t.Errorf("certificate %s: answered %t, %v", name, got, err)
		}
	}
}

// TestChangedCertificatesAreSeen: without a signal, and a broken file changes
// nothing.
func TestChangedCertificatesAreSeen(t *testing.T) {
	a := newAuthority(t, "ours")
	files := tlsFiles(t, a, 1)
	var log bytes.Buffer
	cs, err := openCertificates(files, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	first := cs.current()
	if cs.every = 0; cs.current() != first {
		t.Error("the same files gave another configuration, which ends the resumption of sessions")
	}
	newer := time.Now()
	change := func() {
		newer = newer.Add(time.Second) // however coarse the file system's clock
		if err := os.Chtimes(files.CertFile, newer, newer); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(files.CertFile, []byte("half a cert"), 0o600); err != nil {
		t.Fatal(err)
	}
	change()
	for range 3 {
		if cs.current() != first {
			t.Error("a broken certificate is used")
		}
	}
	if n := strings.Count(log.String(), "could not be read again"); n != 1 {
		t.Errorf("told %d times: %s", n, log.String())
	}
	if err := os.Remove(files.KeyFile); err != nil {
		t.Fatal(err)
	}
	if cs.current() != first {
		t.Error("without a key the certificate has changed")
	}
	writeTLS(t, files, a, 2)
	change()
	if cs.current() == first {
		t.Error("a new certificate is not seen")
	}
}

func TestTLSIsCheckedBeforeTheStart(t *testing.T) {
	a := newAuthority(t, "ours")
	good := tlsFiles(t, a, 1)
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		files configs.TLS
		host  string
		want  string
	}{
		"no certificate":         {configs.TLS{}, "127.0.0.1", "sqs.tls_listen: there is no certificate"},
		"no key":                 {configs.TLS{CertFile: good.CertFile}, "127.0.0.1", "tls.cert_file: there is no tls.key_file"},
		"no file":                {configs.TLS{CertFile: good.CertFile + "x", KeyFile: good.KeyFile}, "127.0.0.1", "cert.pemx: no such file"},
		"key of another":         {configs.TLS{CertFile: good.CertFile, KeyFile: tlsFiles(t, a, 2).KeyFile}, "127.0.0.1", "private key does not match"},
		"no authority":           {configs.TLS{CertFile: good.CertFile, KeyFile: good.KeyFile, ClientCAFile: empty}, "127.0.0.1", "there is no certificate in it"},
		"open to other machines": {good, "0.0.0.0", "sqs.access_keys or tls.client_ca_file"},
	} {
		n, err := Run(t.Context(), withListeners(c.files, c.host))
		if err == nil {
			_ = n.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
