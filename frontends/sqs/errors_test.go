package sqs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leasemq/broker/core"
)

// coreSentinels reads the names and texts of the core's errors from its source,
// so that a new one cannot be forgotten here.
func coreSentinels(t *testing.T) map[string]string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "../../core/errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Names) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Err") {
			return true
		}
		call, ok := spec.Values[0].(*ast.CallExpr)
		if !ok || len(call.Args) != 1 {
			t.Fatalf("%s is not made by errors.New", spec.Names[0].Name)
		}
		text, err := strconv.Unquote(call.Args[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		found[spec.Names[0].Name] = text
		return true
	})
	if len(found) < 10 {
		t.Fatalf("found only %d errors in core/errors.go", len(found))
	}
	return found
}

func TestEveryErrorOfTheCoreIsMapped(t *testing.T) {
	mapped := map[string]bool{}
	for _, c := range coreFaults() {
		if mapped[c.err.Error()] {
			t.Errorf("%q is mapped twice", c.err)
		}
		mapped[c.err.Error()] = true
	}
	for name, text := range coreSentinels(t) {
		if !mapped[text] {
			t.Errorf("core.%s (%q) is not mapped", name, text)
		}
	}
}

func TestCoreErrorsAsClientsSeeThem(t *testing.T) {
	cases := []struct {
		err        error
		status     int
		queryError string
		shape      string
	}{
		{core.ErrNoQueue, 400, "AWS.SimpleQueueService.NonExistentQueue;Sender", "com.amazonaws.sqs#QueueDoesNotExist"},
		{core.ErrQueueExists, 400, "QueueAlreadyExists;Sender", "com.amazonaws.sqs#QueueNameExists"},
		{core.ErrOverLimit, 403, "OverLimit;Sender", "com.amazonaws.sqs#OverLimit"},
		{core.ErrDiskFull, 503, "ServiceUnavailable;Receiver", "com.amazon.coral.service#ServiceUnavailableException"},
		{core.ErrQueueFull, 503, "ServiceUnavailable;Receiver", "com.amazon.coral.service#ServiceUnavailableException"},
		{core.ErrStopped, 503, "ServiceUnavailable;Receiver", "com.amazon.coral.service#ServiceUnavailableException"},
		{core.ErrDraining, 503, "ServiceUnavailable;Receiver", "com.amazon.coral.service#ServiceUnavailableException"},
		{core.ErrNotPrimary, 503, "ServiceUnavailable;Receiver", "com.amazon.coral.service#ServiceUnavailableException"},
		{core.ErrTooLarge, 400, "InvalidParameterValue;Sender", "com.amazon.coral.service#InvalidParameterValueException"},
		{core.ErrMissingGroup, 400, "MissingParameter;Sender", "com.amazon.coral.service#MissingRequiredParameterException"},
		{core.ErrCorrupt, 500, "InternalFailure;Receiver", "com.amazon.coral.service#InternalFailure"},
		{fmt.Errorf("queue 7: %w", core.ErrDiskFull), 503, "ServiceUnavailable;Receiver", "com.amazon.coral.service#ServiceUnavailableException"},
		{context.Canceled, 503, "ServiceUnavailable;Receiver", "com.amazon.coral.service#ServiceUnavailableException"},
		{errors.New("unheard of"), 500, "InternalFailure;Receiver", "com.amazon.coral.service#InternalFailure"},
	}
	for _, tc := range cases {
		t.Run(tc.err.Error(), func(t *testing.T) {
			canned := &cannedCore{err: tc.err}
			s, err := newServer(door{messages: canned, queues: &cannedCore{}}, time.Now().UnixMilli, Options{Logger: quiet()})
			if err != nil {
				t.Fatal(err)
			}
			conn, err := net.Dial("tcp", listen(t, s))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, jsonRequest("SendMessage", `{"QueueUrl":"q","MessageBody":"x"}`)); err != nil {
				t.Fatal(err)
			}
			a, body := readAnswer(t, bufio.NewReader(conn))
			if a.StatusCode != tc.status || a.Header.Get("x-amzn-query-error") != tc.queryError || !strings.Contains(body, `"__type":"`+tc.shape+`"`) {
				t.Errorf("got %d %q %s\nwant %d %q %s", a.StatusCode, a.Header.Get("x-amzn-query-error"), body, tc.status, tc.queryError, tc.shape)
			}
			if wantHint, hint := tc.status == 503, a.Header.Get("Retry-After"); (hint != "") != wantHint {
				t.Errorf("Retry-After is %q with status %d", hint, tc.status)
			}
			if strings.Contains(body, "unheard of") || strings.Contains(body, "queue 7") {
				t.Errorf("the inner error is shown to the client: %s", body)
			}
		})
	}
}

func TestEveryFaultHasItsWire(t *testing.T) {
	internal := faultInternal.wire()
	for f := faultUnavailable; f < faultEnd; f++ {
		w := f.wire()
		if w == internal {
			t.Errorf("fault %d has no wire of its own", f)
		}
		if w.code == "" || w.shape == "" || w.status < 400 {
			t.Errorf("fault %d is told as %+v", f, w)
		}
	}
}
