package admin

import (
	"net"
	"net/http"
	"strings"
)

// loopbackHostsOnly refuses requests whose Host is not a name of this machine:
// a page of another site can point a name of its own at 127.0.0.1 and would
// then be of the same origin.
func loopbackHostsOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		if !isLoopbackName(host) {
			writeError(w, http.StatusForbidden, Error{
				Code:    "foreign_host",
				Message: "this listener answers to loopback names only, not to " + r.Host,
			})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// sameOriginOnly refuses requests that change something and that a browser sends
// from a page of another site.
func sameOriginOnly(next http.Handler) http.Handler {
	p := http.NewCrossOriginProtection()
	p.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeError(w, http.StatusForbidden, Error{
			Code:    "foreign_origin",
			Message: "requests from pages of other sites are refused",
		})
	}))
	return p.Handler(next)
}

// isLoopbackName tells whether host, as a client wrote it, can only stand for
// this machine or for an address.
func isLoopbackName(host string) bool {
	host = strings.ToLower(strings.Trim(host, "[]"))
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || net.ParseIP(host) != nil
}
