package sigv4

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

// Algorithm is the only one that is verified.
const Algorithm = "AWS4-HMAC-SHA256"

// Bounds of time.
const (
	SkewMax        = 15 * time.Minute   // between the clocks of client and server
	ExpiresMax     = 7 * 24 * time.Hour // of a presigned URL
	expiresDefault = 15 * time.Minute   // of a presigned URL that names none
)

// Kind says why a request is not accepted.
type Kind uint8

// The kinds.
const (
	NoCredentials Kind = iota + 1 // the request is not signed
	UnknownKey                    // no such access key, or a session token that is not taken
	Mismatch                      // wrong signature, scope or time
	Incomplete                    // a part is absent or malformed, or the form is not supported
)

// Error is why a request is not accepted. Text is in AWS's own words where AWS
// has some, and may hold parts of the request.
type Error struct {
	Kind Kind
	Text string
}

// Error returns the text.
func (e *Error) Error() string { return e.Text }

func refuse(k Kind, format string, args ...any) error {
	if len(args) > 0 {
		format = fmt.Sprintf(format, args...)
	}
	return &Error{Kind: k, Text: format}
}

const (
	textNoCredentials = "The request is not signed."
	textSignedHeaders = "SignedHeaders must be names of headers in lower case, separated by semicolons."
	textUnknownKey    = "The security token included in the request is invalid."
	textMismatch      = "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key and signing method. Consult the service documentation for details."
)

// Header is the header of a request. fasthttp.RequestHeader is one.
type Header interface {
	// PeekAll returns the values of all fields with a name, in any case of it.
	// The slice is valid until the next call, the values as long as the request.
	PeekAll(name string) [][]byte
}

// Request is what a signature covers, but for the body.
type Request struct {
	Method []byte
	Path   []byte // as sent, still escaped
	Query  []byte // as sent, without the question mark
	Header Header
	// Private says that nobody can alter the request on its way: a body need
	// not be signed then.
	Private bool
}

// Options configures a Verifier.
type Options struct {
	Secrets map[string]string // by the id of their access key
	Service string            // of the scope, such as "sqs"
	Region  string            // of the scope; empty: any
	// Covered names headers, in lower case, that must be signed if they are
	// sent. The host always must.
	Covered []string
	// RefuseTokens turns session tokens away. They are ignored else: the
	// secret of the access key is what counts.
	RefuseTokens bool
}

// Verifier verifies signatures.
type Verifier struct {
	options Options
	keys    map[string]accessKey
	signers cache
}

// accessKey is one of Options.Secrets. Its id lives as long as the Verifier.
type accessKey struct{ id, secret string }

// New returns a Verifier.
func New(o Options) (*Verifier, error) {
	v := &Verifier{options: o, keys: make(map[string]accessKey, len(o.Secrets))}
	if o.Service == "" {
		return nil, errors.New("sigv4: no service")
	}
	for id, secret := range o.Secrets {
		if !validID(id) {
			return nil, fmt.Errorf("sigv4: %q cannot be the id of an access key", id)
		}
		if secret == "" {
			return nil, fmt.Errorf("sigv4: access key %s has no secret", id)
		}
		v.keys[id] = accessKey{id, secret}
	}
	return v, nil
}

// validID tells whether a client can send id.
func validID(id string) bool {
	for i := range len(id) {
		if c := id[i]; c <= ' ' || c >= 0x7F || c == '/' || c == ',' || c == '=' {
			return false
		}
	}
	return id != ""
}

// Open reads the signature of r into c, whose memory it uses again, and checks
// everything but the signature itself. The error is an *Error.
func (v *Verifier) Open(c *Claim, r Request, now time.Time) error {
	c.reset(r)
	if err := c.read(); err != nil {
		return err
	}
	if sent := r.Header.PeekAll(headerHash); len(sent) > 0 && bytes.HasPrefix(sent[0], []byte(streamingPrefix)) {
		return refuse(Incomplete, "Streaming and chunked signatures are not supported: "+headerHash+" is '%s'. Send the hash of the whole body.", sent[0])
	}
	key, ok := v.keys[view(c.id)]
	if !ok || v.options.RefuseTokens && c.token {
		return refuse(UnknownKey, textUnknownKey)
	}
	c.key = key
	if err := v.checkScope(c); err != nil {
		return err
	}
	if err := v.checkSigned(c); err != nil {
		return err
	}
	return c.checkTime(now)
}

func (v *Verifier) checkScope(c *Claim) error {
	if string(c.service) != v.options.Service {
		return refuse(Mismatch, "Credential should be scoped to correct service: '%s'.", v.options.Service)
	}
	if v.options.Region != "" && string(c.region) != v.options.Region {
		return refuse(Mismatch, "Credential should be scoped to a valid region, not '%s'.", c.region)
	}
	if string(c.terminator) != scopeEnd {
		return refuse(Mismatch, "Credential should be scoped with a valid terminator: '"+scopeEnd+"', not '%s'.", c.terminator)
	}
	if string(c.date) != string(c.stamp[:len(c.date)]) {
		return refuse(Mismatch, "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: '%s' != '%s', from '%s'.",
			c.date, c.stamp[:dateBytes], c.stamp)
	}
	return nil
}

// checkSigned looks whether all is signed that must be.
func (v *Verifier) checkSigned(c *Claim) error {
	if !c.signs("host") {
		return refuse(Mismatch, "'Host' or ':authority' must be a 'SignedHeader' in the AWS Authorization.")
	}
	for _, name := range v.options.Covered {
		if len(c.request.Header.PeekAll(name)) > 0 && !c.signs(name) {
			return refuse(Mismatch, "'%s' must be a 'SignedHeader' in the AWS Authorization.", name)
		}
	}
	return nil
}

// checkTime looks whether the signature is of this time.
func (c *Claim) checkTime(now time.Time) error {
	const form = stampForm
	if early := c.at.Add(-SkewMax); now.Before(early) {
		return refuse(Mismatch, "Signature not yet current: %s is still later than %s (%s + 15 min.)",
			c.stamp, now.Add(SkewMax).UTC().Format(form), now.UTC().Format(form))
	}
	if !c.presigned {
		if late := c.at.Add(SkewMax); now.After(late) {
			return refuse(Mismatch, "Signature expired: %s is now earlier than %s (%s - 15 min.)",
				c.stamp, now.Add(-SkewMax).UTC().Format(form), now.UTC().Format(form))
		}
		return nil
	}
	if late := c.at.Add(c.expires); now.After(late) {
		return refuse(Mismatch, "Signature expired: %s is now earlier than %s", late.UTC().Format(form), now.UTC().Format(form))
	}
	return nil
}

// Verify checks the signature of a request that Open has accepted and that has
// this body. It returns the id of the access key. The error is an *Error.
func (v *Verifier) Verify(c *Claim, body []byte) (id string, err error) {
	if err := c.hashBody(body); err != nil {
		return "", err
	}
	s, cached := v.signers.get(c)
	if !cached {
		s = newSigner(c.key.secret, c.date, c.region, c.service)
	}
	ok := c.matches(s, false)
	if !ok && hasDots(c.request.Path) {
		// SDKs do not agree on whether a path is signed normalized.
		ok = c.matches(s, true)
	}
	if !ok {
		return "", refuse(Mismatch, textMismatch)
	}
	if !cached {
		v.signers.put(c, s)
	}
	return c.key.id, nil
}

// matches computes the signature and compares it.
func (c *Claim) matches(s *signer, normalize bool) bool {
	c.buf = c.appendCanonical(c.buf[:0], normalize)
	sum := sha256.Sum256(c.buf)
	b := append(c.buf[:0], Algorithm+"\n"...)
	b = append(b, c.stamp[:]...)
	b = append(b, '\n')
	b = append(b, c.scope...)
	b = append(b, '\n')
	c.buf = hex.AppendEncode(b, sum[:])
	s.sign(c.computed[:0], c.buf)
	return c.wellFormed && hmac.Equal(c.computed[:], c.signature[:])
}
