package admin

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"github.com/leasemq/broker/core"
)

// relayedHeader marks a request that another node has relayed. It is not relayed
// again: two nodes that take each other for the primary would pass it on for ever.
const relayedHeader = "Leasemq-Relayed"

// Bounds of a relayed request.
const (
	relayDialWait   = 3 * time.Second
	relayAnswerWait = readWait // until the answer begins; a receive waits less
	relayIdleMax    = 32       // connections kept to the primary
)

// primaryKey is the key of the primary's URL in the context of a request.
type primaryKey struct{}

// relay has the primary answer a request, as it comes and without keeping it.
func (s *Server) relay(w http.ResponseWriter, r *http.Request) {
	to, err := s.primary(r)
	if err != nil {
		s.answer(w, r, 0, nil, err)
		return
	}
	s.proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), primaryKey{}, to)))
}

// primary returns where to relay r.
func (s *Server) primary(r *http.Request) (*url.URL, error) {
	if r.Header.Get(relayedHeader) != "" {
		return nil, fmt.Errorf("%w, though another node took it for that", core.ErrNotPrimary)
	}
	if s.options.Primary == nil {
		return nil, core.ErrNotPrimary
	}
	to, ok := s.options.Primary()
	if !ok {
		return nil, fmt.Errorf("%w, and none is known", core.ErrNotPrimary)
	}
	u, err := url.Parse(to)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("%w, and where the one that is can be asked has no URL but %q", core.ErrNotPrimary, to)
	}
	return u, nil
}

func (s *Server) newProxy() http.Handler {
	transport := s.options.PrimaryTransport
	if transport == nil {
		transport = &http.Transport{
			DialContext:           (&net.Dialer{Timeout: relayDialWait}).DialContext,
			TLSHandshakeTimeout:   relayDialWait,
			ResponseHeaderTimeout: relayAnswerWait,
			IdleConnTimeout:       idleWait,
			MaxIdleConnsPerHost:   relayIdleMax,
			DisableCompression:    true, // the answer passes as it is
		}
	}
	return &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(p.In.Context().Value(primaryKey{}).(*url.URL))
			p.SetXForwarded()
			p.Out.Header.Set(relayedHeader, "1")
			// What a browser says of its page was judged here, where it holds.
			p.Out.Header.Del("Origin")
			p.Out.Header.Del("Sec-Fetch-Site")
		},
		Transport:     transport,
		FlushInterval: -1,
		ErrorLog:      slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			s.answer(w, r, 0, nil, fmt.Errorf("%w, and the one that is does not answer: %w", core.ErrNotPrimary, err))
		},
	}
}
