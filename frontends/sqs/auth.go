package sqs

import (
	"errors"
	"time"

	"github.com/leasemq/broker/frontends"
	"github.com/leasemq/broker/frontends/sqs/sigv4"
)

// strangerBytesMax bounds the body that is read of a request whose sender is
// not known, so that its connection lives on.
const strangerBytesMax = 64 << 10

// unauthenticated stands for the action of a request whose sender is not known.
const unauthenticated = "Unauthenticated"

// keyring is what a Server knows of its access keys. It is replaced whole.
type keyring struct {
	signed  *sigv4.Verifier
	clients map[string]door // by id
}

// SetAccessKeys replaces the access keys. Requests that have been let in are
// served. It fails, and changes nothing, if a key cannot be used, or if none is
// left where there were some: that would let anybody in.
func (s *Server) SetAccessKeys(keys []AccessKey) error {
	if len(keys) == 0 {
		if s.keys.Load() != nil {
			return errors.New("without access keys everybody would be let in")
		}
		return nil
	}
	ring := &keyring{clients: make(map[string]door, len(keys))}
	secrets := make(map[string]string, len(keys))
	for _, k := range keys {
		if _, twice := secrets[k.ID]; twice {
			return errors.New("access key " + k.ID + " is there twice")
		}
		secrets[k.ID] = k.Secret
		ring.clients[k.ID] = s.doorOf(k.ID)
	}
	var err error
	ring.signed, err = sigv4.New(sigv4.Options{
		Secrets:      secrets,
		Service:      "sqs",
		Region:       s.options.SigningRegion,
		Covered:      []string{"x-amz-target"},
		RefuseTokens: s.options.RefuseSessionTokens,
	})
	if err == nil {
		s.keys.Store(ring)
	}
	return err
}

// authenticate reads the body, whose hash a signature covers, finds out who is
// asking, and sets c.client to the core as seen by them. With an error comes what
// stands for the action in statistics, if anything.
func (c *call) authenticate() (action string, err error) {
	keys := c.server.keys.Load()
	if keys == nil {
		if err := c.readBody(); err != nil {
			return "", err
		}
		return "", c.sameSite()
	}
	uri, h := c.http.URI(), &c.http.Request.Header
	request := sigv4.Request{
		Method:  c.http.Method(),
		Path:    uri.PathOriginal(),
		Query:   uri.QueryString(),
		Header:  h,
		Private: frontends.IsTLS(c.http.Conn()),
	}
	// Not the core's clock: clients set theirs right by the Date of our answers.
	if err := keys.signed.Open(&c.claim, request, time.Now()); err != nil {
		c.skipBody()
		return unauthenticated, c.notAuthentic(err)
	}
	if err := c.readBody(); err != nil {
		return "", err
	}
	id, err := keys.signed.Verify(&c.claim, c.body)
	if err != nil {
		return unauthenticated, c.notAuthentic(err)
	}
	c.client = keys.clients[id]
	return "", nil
}

// sameSite refuses what a browser sends for a page of another site. A request
// without a signature is all that such a page needs to purge a queue of whoever
// reads it.
func (c *call) sameSite() error {
	switch string(c.http.Request.Header.Peek("Sec-Fetch-Site")) {
	case "cross-site", "same-site":
		return fail(faultAccessDenied, "Requests of web pages of other sites are refused unless they are signed.")
	}
	return nil
}

// skipBody gets a short body out of the way of the next request. After a longer
// one the connection ends.
func (c *call) skipBody() {
	length := c.http.Request.Header.ContentLength() // -1: chunked
	long := c.http.RequestBodyStream() != nil && (length < 0 || length > strangerBytesMax)
	if long || c.readBody() != nil {
		closeAfter(c.http)
	}
}

// notAuthentic returns how an error of sigv4 is told.
func (c *call) notAuthentic(err error) error {
	var e *sigv4.Error
	if !errors.As(err, &e) {
		return err
	}
	switch e.Kind {
	case sigv4.NoCredentials:
		return fail(faultAccessDenied, "Access to the resource %s is denied.", c.urlBase()+string(c.http.URI().PathOriginal()))
	case sigv4.UnknownKey:
		return fail(faultUnknownKey, "%s", e.Text)
	case sigv4.Incomplete:
		return fail(faultBrokenSignature, "%s", e.Text)
	}
	return fail(faultSignature, "%s", e.Text)
}
