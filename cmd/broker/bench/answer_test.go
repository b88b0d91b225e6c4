package bench

import (
	"errors"
	"maps"
	"strings"
	"testing"
)

func TestMessagesAreFound(t *testing.T) {
	tests := map[string]struct {
		protocol Protocol
		answer   string
		want     []string // handle=body
	}{
		"json, none":       {ProtocolJSON, `{}`, nil},
		"json, empty list": {ProtocolJSON, `{"Messages":[]}`, nil},
		"json": {ProtocolJSON, `{"Messages":[{"MessageId":"i","ReceiptHandle":"h1","MD5OfBody":"m","Body":"b1"},` +
			`{"MessageId":"i","Body":"b2","ReceiptHandle":"h2","Attributes":{"SenderId":"x"}}]}`, []string{"h1=b1", "h2=b2"}},
		"json, blanks":         {ProtocolJSON, "{ \"Messages\" : [ { \"ReceiptHandle\" :\n \"h\" , \"Body\" : \"b\" } ] }", []string{"h=b"}},
		"json, escaped handle": {ProtocolJSON, `{"Messages":[{"ReceiptHandle":"a\/b\\\"c=","Body":"b"}]}`, []string{`a\/b\\\"c==b`}},
		"json, key as a value": {ProtocolJSON, `{"Messages":[{"x":"Body","ReceiptHandle":"h","Body":"b"}]}`, []string{"h=b"}},
		"xml, none":            {ProtocolQuery, `<ReceiveMessageResponse><ReceiveMessageResult/></ReceiveMessageResponse>`, nil},
		"xml":                  {ProtocolQuery, `<R><Message><MessageId>i</MessageId><ReceiptHandle>h1</ReceiptHandle><Body>b1</Body></Message><Message><Body>b2</Body><ReceiptHandle>h2</ReceiptHandle></Message></R>`, []string{"h1=b1", "h2=b2"}},
		"xml, escaped handle":  {ProtocolQuery, `<Message><ReceiptHandle>a&#43;b&amp;c</ReceiptHandle><Body>b</Body></Message>`, []string{"a+b&c=b"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := Reader{Protocol: tt.protocol}
			got, err := r.Messages([]byte(tt.answer))
			if err != nil {
				t.Fatal(err)
			}
			var text []string
			for _, m := range got {
				text = append(text, string(m.Handle)+"="+string(m.Body))
			}
			if strings.Join(text, ",") != strings.Join(tt.want, ",") {
				t.Errorf("got %q, want %q", text, tt.want)
			}
		})
	}
}

func TestMessagesWithoutPartsAreErrors(t *testing.T) {
	for protocol, answers := range map[Protocol][]string{
		ProtocolJSON:  {`{"Messages":[{"Body":"b"}]}`, `{"Messages":[{"ReceiptHandle":"h"}]}`, `{"Messages":[{"ReceiptHandle":"h","Body":"b`},
		ProtocolQuery: {`<Message><Body>b</Body></Message>`, `<Message><Body>b</Body>`},
	} {
		for _, answer := range answers {
			r := Reader{Protocol: protocol}
			if got, err := r.Messages([]byte(answer)); !errors.Is(err, ErrBadAnswer) {
				t.Errorf("%s: got %q, %v; want %v", answer, got, err, ErrBadAnswer)
			}
		}
	}
}

func TestFailedEntriesAreTold(t *testing.T) {
	tests := map[string]struct {
		protocol Protocol
		answer   string
		want     map[int]string
	}{
		"json, all well":    {ProtocolJSON, `{"Successful":[{"Id":"0"},{"Id":"1"}]}`, map[int]string{}},
		"json, none failed": {ProtocolJSON, `{"Successful":[{"Id":"0"},{"Id":"1"}],"Failed":[]}`, map[int]string{}},
		"json": {
			ProtocolJSON, `{"Successful":[{"Id":"0"}],"Failed":[{"Id":"1","Code":"OverLimit","SenderFault":true}]}`,
			map[int]string{1: "OverLimit"},
		},
		"xml": {
			ProtocolQuery, `<DeleteMessageBatchResponse xmlns="http://queue.amazonaws.com/doc/2012-11-05/"><DeleteMessageBatchResult>` +
				`<DeleteMessageBatchResultEntry><Id>1</Id></DeleteMessageBatchResultEntry>` +
				`<BatchResultErrorEntry><Id>0</Id><Code>ReceiptHandleIsInvalid</Code></BatchResultErrorEntry>` +
				`</DeleteMessageBatchResult></DeleteMessageBatchResponse>`,
			map[int]string{0: "ReceiptHandleIsInvalid"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r, got := Reader{Protocol: tt.protocol}, map[int]string{}
			if err := r.Succeeded([]byte(tt.answer), 2, func(i int, code string) { got[i] = code }); err != nil {
				t.Fatal(err)
			}
			if !maps.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestFailedEntryThatWasNotSentIsAnError(t *testing.T) {
	r := Reader{Protocol: ProtocolJSON}
	err := r.Succeeded([]byte(`{"Failed":[{"Id":"7","Code":"X"}]}`), 2, func(int, string) {})
	if !errors.Is(err, ErrBadAnswer) {
		t.Errorf("got %v, want %v", err, ErrBadAnswer)
	}
}

func TestRefusalNamesTheCode(t *testing.T) {
	for name, a := range map[string]Answer{
		"header": {Status: 503, Head: []byte("HTTP/1.1 503 x\r\nx-amzn-query-error: Full;Receiver")},
		"json":   {Status: 503, Body: []byte(`{"__type":"Full"}`)},
		"xml":    {Status: 503, Body: []byte(`<Error><Code>Full</Code></Error>`)},
	} {
		var r Reader
		err := r.Check(a)
		if !errors.Is(err, ErrNotOK) || !strings.Contains(err.Error(), "status 503 Full") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte(`{"Messages":[{"ReceiptHandle":"h","Body":"b"}]}`))
	f.Add([]byte(`<Message><ReceiptHandle>h&amp;</ReceiptHandle><Body>b</Body></Message>`))
	f.Fuzz(func(_ *testing.T, answer []byte) {
		for _, p := range []Protocol{ProtocolJSON, ProtocolQuery} {
			r := Reader{Protocol: p}
			_, _ = r.Messages(answer)
			_ = r.Succeeded(answer, 10, func(int, string) {})
			_, _ = r.QueueURL(answer)
			_ = r.Sent(answer)
		}
	})
}

func BenchmarkReaderMessages(b *testing.B) {
	one := `{"MessageId":"0f0a7f6e-8e49-4b5c-9d1f-0c6b0a3b8f11","ReceiptHandle":"` + strings.Repeat("h", 67) +
		`","MD5OfBody":"d41d8cd98f00b204e9800998ecf8427e","Body":"` + strings.Repeat("b", 200) + `"}`
	answer := []byte(`{"Messages":[` + strings.Repeat(one+",", 9) + one + `]}`)
	r := Reader{Protocol: ProtocolJSON}
	b.ReportAllocs()
	for b.Loop() {
		if got, err := r.Messages(answer); err != nil || len(got) != 10 {
			b.Fatal(len(got), err)
		}
	}
}
