package admin

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/leasemq/broker/core"
)

// Check is one condition of readiness.
type Check struct {
	Name string
	// Run returns an error if clients cannot be served, and otherwise a remark
	// for the verbose form. It answers at once.
	Run func() (remark string, err error)
}

// engineCheck tells whether commits still succeed. A node without an engine lacks
// nothing here, and one that is losing it to the next primary neither: whether
// clients are served all the same is for another check to say.
func (s *Server) engineCheck() Check {
	return Check{Name: "engine", Run: func() (string, error) {
		a := s.access.Load()
		if a == nil {
			return "none, since this node is not primary", nil
		}
		err := a.engine.Err()
		if errors.Is(err, core.ErrNotPrimary) {
			return "ends, since this node is not primary any more", nil
		}
		return "commits succeed", err
	}}
}

// livez tells whether the process is of use: restarting it would help if not.
func (s *Server) livez(w http.ResponseWriter, r *http.Request) {
	answerChecks(w, r, []Check{s.engineCheck()})
}

// readyz tells whether clients can be served here.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	answerChecks(w, r, append([]Check{s.engineCheck()}, s.options.Checks...))
}

// answerChecks writes one line for each check that failed, or for every check
// if the query has "verbose", and a last line with the outcome.
func answerChecks(w http.ResponseWriter, r *http.Request, checks []Check) {
	verbose := r.URL.Query().Has("verbose")
	status, outcome := http.StatusOK, "ok"
	var b strings.Builder
	for _, c := range checks {
		remark, err := c.Run()
		switch {
		case err != nil:
			status, outcome = http.StatusServiceUnavailable, "failed"
			fmt.Fprintf(&b, "[-] %s: %v\n", c.Name, err)
		case verbose:
			fmt.Fprintf(&b, "[+] %s: %s\n", c.Name, remark)
		}
	}
	b.WriteString(outcome + "\n")
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(b.String()))
}
