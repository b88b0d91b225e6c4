package sigv4

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"
	"unsafe"
)

// Words of a signed request.
const (
	stampForm          = "20060102T150405Z" // of X-Amz-Date
	dateBytes          = len("20060102")
	headerHash         = "x-amz-content-sha256"
	headerToken        = "x-amz-security-token"
	unsignedWord       = "UNSIGNED-PAYLOAD"
	streamingPrefix    = "STREAMING-"
	parameterSignature = "X-Amz-Signature"
	parameterExpires   = "X-Amz-Expires"
)

// Bounds of what a claim keeps.
const (
	regionBytesMax     = 64       // of a region: the cache keeps it
	bufferKeptBytesMax = 64 << 10 // of a buffer, for the next request
)

// Claim is the signature that a request carries. The zero value is ready for
// Verifier.Open.
type Claim struct {
	request   Request
	key       accessKey
	presigned bool
	token     bool // a session token was sent
	at        time.Time
	expires   time.Duration // of a presigned URL

	// Views of the request, or of text.
	id         []byte
	scope      []byte // date/region/service/terminator
	date       []byte
	region     []byte
	service    []byte
	terminator []byte
	signed     []byte // names of headers, between semicolons

	stamp      [len(stampForm)]byte
	signature  [sha256.Size]byte
	wellFormed bool                  // signature is what was sent
	hash       [2 * sha256.Size]byte // of the body, in hexadecimal
	unsigned   bool                  // the body is not signed
	computed   [sha256.Size]byte

	query []pair // sorted
	text  []byte // what pairs are views of
	buf   []byte
}

// view returns b as a string without a copy.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// reset makes c ready for r and keeps its memory, up to a bound.
func (c *Claim) reset(r Request) {
	text, buf, query := c.text[:0], c.buf[:0], c.query
	if cap(text)+cap(buf) > bufferKeptBytesMax {
		text, buf, query = nil, nil, nil
	}
	clear(query)
	*c = Claim{request: r, text: text, buf: buf, query: query[:0]}
}

// Close lets go of the request.
func (c *Claim) Close() { c.reset(Request{}) }

// read finds the signature of the request and takes it apart.
func (c *Claim) read() error {
	if err := c.readQuery(); err != nil {
		return err
	}
	presigned := false
	for _, name := range [...]string{"X-Amz-Algorithm", "X-Amz-Credential", parameterSignature} {
		_, times := c.parameter(name)
		presigned = presigned || times > 0
	}
	header := c.request.Header.PeekAll("authorization")
	switch {
	case len(header) > 1 || len(header) == 1 && presigned:
		return refuse(Incomplete, "The request is signed more than once.")
	case len(header) == 1:
		return c.readHeader(header[0])
	case presigned:
		return c.readPresigned()
	}
	return refuse(NoCredentials, textNoCredentials)
}

// readHeader reads the Authorization header.
func (c *Claim) readHeader(header []byte) error {
	a, err := parseAuthorization(header)
	if err != nil {
		return err
	}
	c.token = len(c.request.Header.PeekAll(headerToken)) > 0
	c.signed = a.signed
	c.setSignature(a.signature)
	if err := c.setCredential(a.credential); err != nil {
		return err
	}
	if date := c.request.Header.PeekAll("x-amz-date"); len(date) > 0 {
		return c.setStamp(date[0])
	}
	if date := c.request.Header.PeekAll("date"); len(date) > 0 {
		return c.setDate(date[0])
	}
	return refuse(Incomplete, "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header.")
}

// readPresigned reads the parameters of a presigned URL.
func (c *Claim) readPresigned() error {
	c.presigned = true
	var values [5][]byte
	for i, name := range [...]string{"X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-SignedHeaders", parameterSignature, "X-Amz-Date"} {
		value, times := c.parameter(name)
		if len(value) == 0 || times > 1 {
			return refuse(Incomplete, "AWS query-string parameters must include '%s' once.", name)
		}
		values[i] = value
	}
	if string(values[0]) != Algorithm {
		return refuse(Incomplete, "X-Amz-Algorithm must be '"+Algorithm+"', not '%s'.", values[0])
	}
	c.signed = values[2]
	if err := checkSignedHeaders(c.signed); err != nil {
		return err
	}
	c.setSignature(values[3])
	if _, times := c.parameter("X-Amz-Security-Token"); times > 0 || len(c.request.Header.PeekAll(headerToken)) > 0 {
		c.token = true
	}
	if err := c.setExpires(); err != nil {
		return err
	}
	if err := c.setCredential(values[1]); err != nil {
		return err
	}
	return c.setStamp(values[4])
}

func (c *Claim) setExpires() error {
	c.expires = expiresDefault
	value, times := c.parameter(parameterExpires)
	if times == 0 {
		return nil
	}
	const most = int(ExpiresMax / time.Second)
	seconds, err := strconv.Atoi(string(value))
	if err != nil || seconds < 1 || seconds > most || times > 1 {
		return refuse(Incomplete, parameterExpires+" must be a number of seconds from 1 to %d.", most)
	}
	c.expires = time.Duration(seconds) * time.Second
	return nil
}

// setCredential reads ID/DATE/REGION/SERVICE/aws4_request.
func (c *Claim) setCredential(credential []byte) error {
	slash := []byte{'/'}
	if bytes.Count(credential, slash) == 4 {
		c.id, c.scope, _ = bytes.Cut(credential, slash)
		rest := c.scope
		c.date, rest, _ = bytes.Cut(rest, slash)
		c.region, rest, _ = bytes.Cut(rest, slash)
		c.service, c.terminator, _ = bytes.Cut(rest, slash)
	}
	if len(c.id) == 0 || len(c.date) != dateBytes || len(c.region) == 0 || len(c.region) > regionBytesMax {
		return refuse(Incomplete, "Credential must have exactly 5 slash-delimited elements, e.g. keyid/date/region/service/term, got '%s'", credential)
	}
	return nil
}

// setStamp reads a time such as 20150830T123600Z.
func (c *Claim) setStamp(b []byte) error {
	b = bytes.TrimSpace(b)
	at, err := time.Parse(stampForm, view(b))
	if err != nil || len(b) != len(c.stamp) {
		return refuse(Incomplete, "Date must be in ISO-8601 'basic format'. Got '%s'. See http://en.wikipedia.org/wiki/ISO_8601", b)
	}
	c.at = at
	copy(c.stamp[:], b)
	return nil
}

// setDate reads a Date header, in the form of HTTP or as setStamp does.
func (c *Claim) setDate(b []byte) error {
	at, err := time.Parse(time.RFC1123, string(bytes.TrimSpace(b)))
	if err != nil || at.Year() < 1 {
		return c.setStamp(b)
	}
	c.at = at.UTC()
	c.at.AppendFormat(c.stamp[:0], stampForm)
	return nil
}

// setSignature takes the hexadecimal signature. One that is not of the right
// form fits nothing.
func (c *Claim) setSignature(b []byte) {
	if len(b) == hex.EncodedLen(len(c.signature)) {
		_, err := hex.Decode(c.signature[:], b)
		c.wellFormed = err == nil
	}
}

// signs tells whether a header, named in lower case, is signed.
func (c *Claim) signs(name string) bool {
	for rest := c.signed; len(rest) > 0; {
		var one []byte
		if one, rest, _ = bytes.Cut(rest, []byte{';'}); string(one) == name {
			return true
		}
	}
	return false
}

// hashBody finds what is signed for the body, or why that is not what was sent.
func (c *Claim) hashBody(body []byte) error {
	sent := c.request.Header.PeekAll(headerHash)
	c.unsigned = false
	if len(sent) == 1 && string(sent[0]) == unsignedWord {
		if len(body) > 0 && !c.request.Private {
			return refuse(Mismatch, "A body must be signed on a connection that is not encrypted; "+headerHash+" is "+unsignedWord+".")
		}
		c.unsigned = true
		return nil
	}
	sum := sha256.Sum256(body)
	hex.Encode(c.hash[:], sum[:])
	if len(sent) > 1 || len(sent) == 1 && !bytes.EqualFold(sent[0], c.hash[:]) {
		return refuse(Mismatch, "The hash of the body is not the one in "+headerHash+".")
	}
	return nil
}
