package sqs

import (
	"context"
	"encoding/hex"
	"io"
	"math/rand/v2"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends/sqs/sigv4"
)

// call is one request being served, with all the memory that it needs. It is
// pooled.
type call struct {
	server *Server
	client door
	ctx    context.Context // of the listener: ends when it drains
	http   *fasthttp.RequestCtx
	alive  func() bool      // peerAlive, bound once
	grant  func(int64) bool // grantBytes, bound once

	claim     sigv4.Claim
	requestID [36]byte
	body      []byte
	arena     arena
	params    params
	answer    answer

	attributes  []core.Attribute
	order       []int // of attributes, for digests and encoding
	scratch     []byte
	messages    []core.Message
	published   []core.Published
	deliveries  []core.Delivery
	settlements []core.Settlement
	errs        []error
	results     []result
	parked      bool  // a receive has waited
	granted     int64 // bytes of messages that the answer may take
	held        int64 // counted in server.unread
}

// result is what became of one entry of a batch.
type result struct {
	failure *failure
	sent    int // index in call.published
	digests digests
}

func newCall(s *Server) *call {
	c := &call{server: s}
	c.alive, c.grant = c.peerAlive, c.grantBytes
	return c
}

// reset lets go of the request and keeps the memory, up to a bound.
func (c *call) reset() {
	c.letGo()
	c.ctx, c.http, c.client, c.parked = nil, nil, door{}, false
	if c.server.keys.Load() != nil {
		c.claim.Close()
	}
	c.params.reset()
	c.arena.reset()
	c.answer = answer{}
	if cap(c.body) > bufferKeptBytesMax {
		c.body = nil
	}
	if cap(c.scratch) > bufferKeptBytesMax {
		c.scratch = nil
	}
	const keep = 16 * batchEntriesMax
	c.attributes = emptied(c.attributes, keep)
	c.order = emptied(c.order, keep)
	c.messages = emptied(c.messages, keep)
	c.published = emptied(c.published, keep)
	c.deliveries = emptied(c.deliveries, keep)
	c.settlements = emptied(c.settlements, keep)
	c.errs = emptied(c.errs, keep)
	c.results = emptied(c.results, keep)
}

// handle serves one request.
func (s *Server) handle(ctx context.Context, rc *fasthttp.RequestCtx) {
	c := s.calls.Get().(*call)
	c.server, c.ctx, c.http, c.client = s, ctx, rc, s.client
	c.setRequestID()
	var start time.Time
	if s.options.Observe != nil {
		start = time.Now()
	}
	name, code := c.serve()
	if ctx.Err() != nil {
		rc.SetConnectionClose() // draining
	}
	c.finish()
	if s.options.Observe != nil && name != "" {
		s.options.Observe(name, code, time.Since(start))
	}
	c.reset()
	s.calls.Put(c)
}

// serve runs the request and writes the answer, whatever happens. It returns
// the action, "" if none was named, and the code of the error.
func (c *call) serve() (name, code string) {
	defer func() {
		if r := recover(); r != nil {
			c.server.options.Logger.Error("panic in a request", "frontend", "sqs", "action", name,
				"request_id", c.id(), "panic", r, "stack", string(debug.Stack()))
			code = c.fail(&failure{fault: faultInternal, message: "The request could not be processed because of an internal error."})
		}
	}()
	if c.health() {
		return "", ""
	}
	name, err := c.dispatch()
	if err != nil {
		return name, c.fail(asFailure(err))
	}
	return name, ""
}

// health answers a health check: GET /health, as ElasticMQ and Docker have it,
// and that of LocalStack, which lists services. It tells whether it was one.
func (c *call) health() bool {
	if !c.http.IsGet() && !c.http.IsHead() || len(c.http.URI().QueryString()) > 0 {
		return false
	}
	h := &c.http.Response.Header
	switch string(c.http.Path()) {
	case "/health":
		h.SetContentType("text/plain; charset=utf-8")
		c.answer.b = append(c.answer.b, "OK"...)
	case "/_localstack/health":
		h.SetContentType(contentWrapped)
		c.answer.b = append(c.answer.b, `{"services": {"sqs": "running"}}`...)
	default:
		return false
	}
	return true
}

// fail turns the answer into an error and returns its code.
func (c *call) fail(f *failure) string {
	w := f.fault.wire()
	if w.status == fasthttp.StatusInternalServerError && f.cause != nil {
		c.server.options.Logger.Error("request failed", "frontend", "sqs", "request_id", c.id(), "error", f.cause)
	}
	c.answer.fail(f, c.id())
	c.http.SetStatusCode(w.status)
	if !c.answer.query() {
		c.http.Response.Header.Set("x-amzn-query-error", w.code+";"+w.side())
	}
	if f.retryAfter > 0 {
		c.http.Response.Header.Set("Retry-After", strconv.Itoa(f.retryAfter))
	}
	if w.status == fasthttp.StatusRequestEntityTooLarge || w.status == fasthttp.StatusRequestTimeout {
		closeAfter(c.http)
	}
	return w.code
}

// finish hands the answer to fasthttp.
func (c *call) finish() {
	h := &c.http.Response.Header
	if len(h.ContentType()) == 0 {
		switch {
		case c.answer.xml:
			h.SetContentType(contentXML)
		case c.answer.wrapped:
			h.SetContentType(contentWrapped)
		default:
			h.SetContentType(contentJSON)
		}
	}
	// A big answer must not stay with the connection: only what fasthttp does
	// not own is let go of once it is written.
	if cap(c.answer.b) > bufferKeptBytesMax {
		c.http.Response.SetBodyStream(c.largeBody(), len(c.answer.b))
	} else {
		c.http.Response.SwapBody(c.answer.b)
	}
	// A deadline set by the handler makes fasthttp flush each answer. It would
	// else keep the answer to one pipelined request until the next is
	// answered, which may be a long poll.
	_ = c.http.SetWriteDeadline(time.Now().Add(c.server.options.WriteTimeout))
}

// setRequestID makes a random id, shows it in a header, and takes the answer's
// buffer from the connection.
func (c *call) setRequestID() {
	var b [16]byte
	high, low := rand.Uint64(), rand.Uint64()
	for i := range 8 {
		b[i], b[8+i] = byte(high>>(8*i)), byte(low>>(8*i))
	}
	b[6] = b[6]&0x0F | 0x40 // version 4
	b[8] = b[8]&0x3F | 0x80 // variant of RFC 9562
	id := c.requestID[:]
	hex.Encode(id[0:8], b[0:4])
	hex.Encode(id[9:13], b[4:6])
	hex.Encode(id[14:18], b[6:8])
	hex.Encode(id[19:23], b[8:10])
	hex.Encode(id[24:36], b[10:16])
	id[8], id[13], id[18], id[23] = '-', '-', '-', '-'
	h := &c.http.Response.Header
	h.DisableNormalizing()
	h.SetBytesV("x-amzn-RequestId", id)
	c.answer.b = c.http.Response.SwapBody(nil)[:0]
}

// id returns the request id. It dies with the request.
func (c *call) id() string { return text(c.requestID[:]).view() }

// readBody reads the body of the request, no more than it may have.
func (c *call) readBody() error {
	c.body = c.body[:0]
	stream := c.http.RequestBodyStream()
	length := c.http.Request.Header.ContentLength() // -1: chunked
	limit := c.server.options.BodyBytesMax
	if stream == nil || length == 0 {
		if c.http.Request.Header.Peek(tooLargeMark) != nil {
			return c.tooLarge()
		}
		return nil
	}
	if length < 0 || length > readBufferBytes {
		_ = c.http.SetReadDeadline(time.Now().Add(c.server.options.BodyTimeout))
	}
	for {
		if len(c.body) == cap(c.body) {
			c.growBody(length)
		}
		n, err := stream.Read(c.body[len(c.body):cap(c.body)])
		c.body = c.body[:len(c.body)+n]
		switch {
		case len(c.body) > limit:
			return c.tooLarge()
		case err == io.EOF && length >= 0 && len(c.body) < length:
			return fail(faultBadHTTP, "The body ended before its Content-Length.")
		case err == io.EOF:
			return nil
		case isTimeout(err):
			return fail(faultTimeout, "The body did not come in time.")
		case err != nil:
			return fail(faultBadHTTP, "The body could not be read.")
		}
	}
}

// growBody doubles the buffer: it is never more than twice what has come.
func (c *call) growBody(length int) {
	size := max(2*cap(c.body), arenaChunkBytes)
	if length >= 0 {
		// One more than there is to read, so that the end shows without
		// another growth.
		size = min(size, length+1)
	}
	c.body = append(make([]byte, 0, size), c.body...)
}

func (c *call) tooLarge() error {
	return fail(faultTooLarge, "The request body is larger than %d bytes.", c.server.options.BodyBytesMax)
}
