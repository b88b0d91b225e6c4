package sqs

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/leasemq/broker/frontends"
)

// tooLargeMark is a header that no peer can send: a name ends at the first colon.
const tooLargeMark = "too:large"

// refuseLarge makes the handler run at once for a body that is too large;
// fasthttp would wait for its first 8 KiB.
func (s *Server) refuseLarge(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
	if h.ContentLength() > s.options.BodyBytesMax {
		h.SetContentLength(0)
		h.SetCanonical([]byte(tooLargeMark), []byte{'1'})
	}
	return fasthttp.RequestConfig{}
}

// lingerMax is how long a peer that still sends has to read its last answer.
const lingerMax = 500 * time.Millisecond

// closeAfter ends the connection after this answer, with the rest of the request
// unread.
func closeAfter(rc *fasthttp.RequestCtx) {
	rc.SetConnectionClose()
	if c, ok := rc.Conn().(*frontends.Conn); ok {
		c.SetLinger(lingerMax)
	}
}

// badHTTP answers what fasthttp could not read as a request. Which protocol was
// meant is unknown as a rule; XML is what AWS answers then.
func (s *Server) badHTTP(rc *fasthttp.RequestCtx, err error) {
	var f *failure
	var small *fasthttp.ErrSmallBuffer
	switch {
	case errors.As(err, &small):
		f = fail(faultHeadersTooLarge, "The request header is larger than %d bytes.", readBufferBytes)
	case isTimeout(err):
		f = fail(faultTimeout, "The request did not come in time.")
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		f = fail(faultTooLarge, "The request body is too large.")
	default:
		f = fail(faultBadHTTP, "The request is not valid HTTP.")
	}
	c := s.calls.Get().(*call)
	c.http = rc
	c.setRequestID()
	c.answer.xml = true
	c.fail(f)
	closeAfter(rc)
	c.finish()
	c.reset()
	s.calls.Put(c)
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &t) && t.Timeout()
}

// refusal is the whole answer to a connection that is one too many.
func refusal() []byte {
	a := answer{xml: true}
	f := fail(faultUnavailable, "The server takes no more connections.")
	a.fail(f, "-")
	return fmt.Appendf(nil, "HTTP/1.1 503 Service Unavailable\r\nContent-Type: %s\r\nContent-Length: %d\r\nRetry-After: %d\r\nConnection: close\r\n\r\n%s",
		contentXML, len(a.b), retrySeconds, a.b)
}
