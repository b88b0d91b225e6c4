package relay

import (
	"crypto/tls"
	"errors"
	"fmt"
)

// protocol is what both sides must agree on (ALPN): a relay speaks to nothing else.
const protocol = "leasemq-relay/1"

// clientTLS is o as a Forwarder uses it.
func clientTLS(c *tls.Config) (*tls.Config, error) {
	switch {
	case c == nil:
		return nil, errors.New("relay needs TLS")
	case c.InsecureSkipVerify:
		return nil, errors.New("relay verifies the certificate of the primary")
	case c.RootCAs == nil:
		return nil, errors.New("relay needs the authority of the cluster (RootCAs)")
	case len(c.Certificates) == 0 && c.GetClientCertificate == nil:
		return nil, errors.New("relay needs a certificate")
	}
	c = c.Clone()
	c.MinVersion, c.NextProtos = tls.VersionTLS13, []string{protocol}
	return c, nil
}

// serverTLS is c as a Receiver uses it.
func serverTLS(c *tls.Config) (*tls.Config, error) {
	switch {
	case c == nil:
		return nil, errors.New("relay needs TLS")
	case c.ClientCAs == nil:
		return nil, errors.New("relay needs the authority of the cluster (ClientCAs)")
	case len(c.Certificates) == 0 && c.GetCertificate == nil:
		return nil, errors.New("relay needs a certificate")
	case c.GetConfigForClient != nil:
		return nil, errors.New("relay takes no other configuration for a client (GetConfigForClient)")
	}
	c = c.Clone()
	c.MinVersion, c.NextProtos = tls.VersionTLS13, []string{protocol}
	c.ClientAuth = tls.RequireAndVerifyClientCert
	// No connection resumes another one. A ticket would also lie unread at a
	// standby until the primary answers.
	c.SessionTicketsDisabled = true
	return c, nil
}

// agreed refuses a peer that has not asked for the protocol: Go lets one pass that
// names none.
func agreed(c *tls.Conn) error {
	if p := c.ConnectionState().NegotiatedProtocol; p != protocol {
		return fmt.Errorf("peer speaks %q, want %q", p, protocol)
	}
	return nil
}
