package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/leasemq/broker/frontends/admin"
)

// adminDefault is where a broker with default settings is administered.
const adminDefault = "http://127.0.0.1:9325"

// answerBytesMax bounds what is read of an answer.
const answerBytesMax = 64 << 20

// client talks to the admin listener of a running broker.
type client struct{ base string }

// addClient gives cmd and the commands below it the flag --admin.
func addClient(cmd *cobra.Command) *client {
	c := &client{}
	base := os.Getenv("BROKER_ADMIN")
	if base == "" {
		base = adminDefault
	}
	cmd.PersistentFlags().StringVar(&c.base, "admin", base, "`URL` of the broker's admin listener (environment: BROKER_ADMIN)")
	return c
}

// do sends in, if it is not nil, and decodes the answer into out, if it is not
// nil. The error knows the exit code.
func (c *client) do(ctx context.Context, method, path string, in, out any) error {
	base := c.base
	if !strings.Contains(base, "://") {
		base = "http://" + base
	}
	if u, err := url.Parse(base); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return failf(exitUsage, "--admin %q is not a URL such as %s", c.base, adminDefault)
	}
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return failf(exitUsage, "the request has no JSON form: %w", err)
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(base, "/")+path, body)
	if err != nil {
		return fail(exitUsage, err)
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return c.unreachable(ctx, err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, answerBytesMax))
	if err != nil {
		return c.unreachable(ctx, err)
	}
	if res.StatusCode >= 400 {
		return c.refused(res, b)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(b, out); err != nil {
		return failf(exitCannotConnect, "no admin listener of a broker at %s: %w", c.base, err)
	}
	return nil
}

func (c *client) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if inner := (*url.Error)(nil); errors.As(err, &inner) {
		err = inner.Err
	}
	return failf(exitCannotConnect, "no broker at %s: %w", c.base, err)
}

// refused turns an answer into an error. One that is not in the form of the API
// came from something else, such as the SQS listener.
func (c *client) refused(res *http.Response, body []byte) error {
	var e admin.ErrorResponse
	if err := json.Unmarshal(body, &e); err != nil || e.Error.Message == "" {
		code := exitCannotConnect
		if res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden {
			code = exitUnauthorized // a proxy may ask for more than the broker does
		}
		return failf(code, "no admin listener of a broker at %s: it answers %s", c.base, res.Status)
	}
	return failf(exitCodeOf(res.StatusCode, e.Error.Code), "%s", e.Error.Message)
}

// exitCodeOf maps an answer of the API to an exit code.
func exitCodeOf(status int, code string) int {
	switch {
	case code == "not_primary":
		return exitNotPrimary
	case code == "timed_out":
		return exitTimeout
	}
	switch status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge:
		return exitUsage
	case http.StatusNotFound:
		return exitNotFound
	case http.StatusUnauthorized, http.StatusForbidden:
		return exitUnauthorized
	case http.StatusConflict:
		return exitConflict
	}
	return exitError
}
