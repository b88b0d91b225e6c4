package sqs

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

func TestJSONGrammar(t *testing.T) {
	good := []string{
		`{}`, ` { } `, "\t\r\n{\"a\" : [ ] }", `{"a":[1,-0,0.5,1e5,1E-5,-12.5e+3],"b":{"c":null},"d":true,"e":false,"":""}`,
		`{"a":"\"\\\/\b\f\n\r\t\u0041\ud83d\ude00"}`, `{"a":"é😀"}`, `{"a":1,"a":2}`,
	}
	for _, s := range good {
		if err := decodeJSON([]byte(s), new(arena), new(params)); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
	bad := []string{
		``, ` `, `null`, `"x"`, `5`, `[]`, `{`, `}`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `{a:1}`, `{'a':1}`, `{"a":1}}`, `{"a":1} x`,
		`{"a":01}`, `{"a":1.}`, `{"a":.5}`, `{"a":+1}`, `{"a":-}`, `{"a":1e}`, `{"a":NaN}`, `{"a":tru}`, `{"a":nul}`, `{"a":[1 2]}`, `{"a":[1,]}`, `{"a":[}`,
		"{\"a\":\"\n\"}", `{"a":"\x"}`, `{"a":"\u12"}`, `{"a":"\u12g4"}`, `{"a":"\ud800"}`, `{"a":"\ude00"}`, `{"a":"\ud800\u0041"}`, `{"a":"\ud800\ud800"}`,
		`{"a":"`, `{"a":"\`, `{"a":"x`, "{\"a\":\"\xff\"}", "{\"\xc0\x80\":1}", "\ufeff{}",
		`{"a":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`,
		strings.Repeat(`{"a":`, 10_000),
	}
	for _, s := range bad {
		if err := decodeJSON([]byte(s), new(arena), new(params)); !errors.Is(err, errSyntax) {
			t.Errorf("%.40q: got %v, want a syntax error", s, err)
		}
	}
}

func TestJSONParameters(t *testing.T) {
	const body = `{
		"QueueUrl": "http://h/000000000000/q", "Ignored": {"x": [1, {"y": "\u00e9"}]},
		"MessageBody": "a\tb\u00e9", "DelaySeconds": 5, "MessageGroupId": null,
		"MessageAttributes": {"n": {"DataType": "Number", "StringValue": "1", "StringListValues": [], "Other": 1}, "b": {"BinaryValue": "AA==", "DataType": "Binary"}},
		"AttributeNames": ["All"], "MessageSystemAttributeNames": ["SenderId"], "MessageAttributeNames": ["x", "y"],
		"Attributes": {"DelaySeconds": "1"}, "tags": {"k": "v"},
		"Entries": [{"Id": "1", "ReceiptHandle": "h", "VisibilityTimeout": -9223372036854775809}]
	}`
	var p params
	if err := decodeJSON([]byte(body), new(arena), &p); err != nil {
		t.Fatal(err)
	}
	e := &p.one
	check := func(what string, got, want any) {
		t.Helper()
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
	}
	check("url", string(p.queueURL), "http://h/000000000000/q")
	check("body", string(e.body), "a\tbé")
	check("delay", e.delay.n, 5)
	check("null is absent", e.group == nil, true)
	check("attributes", e.attributeCount, 2)
	check("first attribute", string(e.attributes[0].name)+string(e.attributes[0].dataType)+string(e.attributes[0].str), "nNumber1")
	check("an empty list is none", e.attributes[0].isList, false)
	check("second attribute", string(e.attributes[1].binary), "AA==")
	check("names", len(p.names), 2)
	check("message names", len(p.messageNames), 2)
	check("queue attribute", string(p.attributes[0].name)+string(p.attributes[0].value), "DelaySeconds1")
	check("tag", string(p.tags[0].name)+string(p.tags[0].value), "kv")
	check("entries", p.entryCount, 1)
	check("huge number", p.entries[0].visibility.n, int64(math.MinInt64))
	check("huge number as sent", string(p.entries[0].visibility.sent), "-9223372036854775809")
}

// What a peer may make the decoder keep is bounded, whatever it sends.
func TestJSONKeepsNoMoreThanItNeeds(t *testing.T) {
	var p params
	many := func(item string) string { return strings.TrimSuffix(strings.Repeat(item+",", 100_000), ",") }
	body := `{"Entries":[` + many(`{}`) + `],"MessageAttributes":{` + many(`"a":{}`) + `},"tags":{` + many(`"a":""`) + `}}`
	if err := decodeJSON([]byte(body), new(arena), &p); err != nil {
		t.Fatal(err)
	}
	if len(p.entries) != batchEntriesMax || p.entryCount != 100_000 {
		t.Errorf("%d entries kept, %d counted", len(p.entries), p.entryCount)
	}
	if len(p.one.attributes) != messageAttributesMax+1 || p.one.attributeCount != 100_000 {
		t.Errorf("%d attributes kept, %d counted", len(p.one.attributes), p.one.attributeCount)
	}
	if len(p.tags) != pairsMax || p.tagCount != 100_000 {
		t.Errorf("%d tags kept, %d counted", len(p.tags), p.tagCount)
	}
	for _, list := range []string{`"AttributeNames":[` + many(`""`) + `]`, `"Attributes":{` + many(`"a":""`) + `}`} {
		if err := decodeJSON([]byte("{"+list+"}"), new(arena), &p); !errors.Is(err, errSyntax) {
			t.Errorf("%.30s...: got %v", list, err)
		}
	}
}

func TestQueryParameters(t *testing.T) {
	form := "Action=SendMessage&QueueUrl=http%3A%2F%2Fh%2F000000000000%2Fq&MessageBody=a+b%2Bc%26&&Empty&DelaySeconds=x" +
		"&MessageAttribute.10.Name=ten&MessageAttribute.2.Name=two&MessageAttribute.2.Value.DataType=String&MessageAttribute.2.Value.StringValue=v" +
		"&AttributeName=All&AttributeName.1=SenderId&MessageSystemAttributeName.1=SentTimestamp&Attribute.2.Name=b&Attribute.2.Value=2&Attribute.1.Name=a&Attribute.1.Value=1" +
		"&Tag.1.Key=k&Tag.1.Value=v&DeleteMessageBatchRequestEntry.2.Id=second&DeleteMessageBatchRequestEntry.1.Id=first&DeleteMessageBatchRequestEntry.x.Id=none" +
		"&MessageAttribute.99999999999999999999.Name=none&MessageAttribute.3.Value.StringListValue.1=x&MessageBody=last"
	var p params
	action, err := decodeQuery([]byte(form), new(arena), &p, nil)
	if err != nil {
		t.Fatal(err)
	}
	p.sortQuery()
	check := func(what string, got, want any) {
		t.Helper()
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
	}
	check("action", string(action), "SendMessage")
	check("url", string(p.queueURL), "http://h/000000000000/q")
	check("the last of two wins", string(p.one.body), "last")
	check("no number", p.one.delay.n, int64(math.MinInt64))
	check("attributes", p.one.attributeCount, 3)
	check("order", string(p.one.attributes[0].name)+string(p.one.attributes[2].name), "twoten")
	check("list value", p.one.attributes[1].isList, true)
	check("names", len(p.names), 3)
	check("queue attributes", string(p.attributes[0].name)+string(p.attributes[1].value), "a2")
	check("tags", p.tagCount, 1)
	check("entries", p.entryCount, 2)
	check("entry order", string(p.entries[0].id)+string(p.entries[1].id), "firstsecond")
}

func TestQueryRefusesTooMuch(t *testing.T) {
	for _, form := range []string{strings.Repeat("a=b&", queryPairsMax+1), strings.Repeat("AttributeName.1=x&", namesMax+1)} {
		if _, err := decodeQuery([]byte(form), new(arena), new(params), nil); !errors.Is(err, errQueryPairs) {
			t.Errorf("%.20s...: got %v", form, err)
		}
	}
	for _, form := range []string{"a=%", "a=%1", "a=%zz", "%g1=x"} {
		if _, err := decodeQuery([]byte(form), new(arena), new(params), nil); !errors.Is(err, errQuerySyntax) {
			t.Errorf("%s: got %v", form, err)
		}
	}
}

func TestValidText(t *testing.T) {
	for r := rune(0); r <= utf8.MaxRune; r++ {
		if 0xD800 <= r && r <= 0xDFFF {
			continue
		}
		if 0x10000 < r && r < utf8.MaxRune {
			r += 0x100 // beyond the first plane all are alike
		}
		want := r == 9 || r == 0xA || r == 0xD || 0x20 <= r && r <= 0xD7FF || 0xE000 <= r && r <= 0xFFFD || 0x10000 <= r
		if got := validText([]byte("12345678" + string(r) + "é")); got != want {
			t.Fatalf("%U: got %v, want %v", r, got, want)
		}
		if got := validText([]byte(string(r))); got != want {
			t.Fatalf("%U alone: got %v, want %v", r, got, want)
		}
	}
	for _, s := range []string{"\xff", "12345678\xc0\x80", "\xed\xa0\x80", "é\xe2\x82"} {
		if validText([]byte(s)) {
			t.Errorf("%q is not UTF-8", s)
		}
	}
}

func TestValidNumber(t *testing.T) {
	good := []string{"0", "-0", "1", "+1", "1.5", ".5", "5.", "-12.5e3", "1e126", "9.9e126", "1e-128", "0e999", "000000000000000000000000000000000000000000000001", strings.Repeat("9", 38), "0." + strings.Repeat("1", 38)}
	for _, s := range good {
		if !validNumber([]byte(s)) {
			t.Errorf("%s is a number", s)
		}
	}
	bad := []string{"", "-", ".", "e1", "1e", "1e1.5", "1x", "0x1", "1 ", " 1", "1..2", "1e127", "10e126", "1e-129", "0.1e-128", strings.Repeat("9", 39), "NaN", "Inf", "1e99999999999999999999", "--1"}
	for _, s := range bad {
		if validNumber([]byte(s)) {
			t.Errorf("%s is no number", s)
		}
	}
}

func TestDigestsOfAWS(t *testing.T) {
	defer ranCases.note(t)
	// Recorded from AWS, and computed by its SDKs.
	c := newCall(&Server{})
	c.params.one.attributes = []attribute{
		{name: text("test_attribute_name_2"), dataType: text("String"), str: text("test_attribute_value_2")},
		{name: text("test_attribute_name_1"), dataType: text("String"), str: text("test_attribute_value_1")},
	}
	c.params.one.attributeCount = 2
	d, err := c.addAttributes(&c.params.one)
	if want := "d53f3b558fe951154770f25cb63dbba9"; err != nil || string(d[:]) != want {
		t.Errorf("two attributes: got %s %v, want %s", d[:], err, want)
	}
}

// FuzzDecodeJSON compares the scanner with another decoder: it takes the same
// texts, and finds the same strings in them.
func FuzzDecodeJSON(f *testing.F) {
	for _, s := range []string{
		`{"QueueUrl":"q","MessageBody":"x"}`, `{"MessageBody":"\u00e9\ud83d\ude00\"\\\/\b\f\n\r\t"}`, `{"DelaySeconds":-1e5,"Entries":[{"Id":"a","MessageAttributes":{"k":{"DataType":"String","StringValue":"v"}}},null]}`,
		`{"VisibilityTimeout":99999999999999999999999999999999}`, `{"a":[[[[[[{}]]]]]]}`, `{"a":"\ud800"}`, "{\"a\":\"\xff\"}", `[]`, ``, `{"Attributes":{"a":"b"},"tags":{"c":"d"},"AttributeNames":["e"]}`,
		strings.Repeat("[", 100), `{"a":1,"a":2}`, `{"MessageBody":"12345678é\n"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		sent := bytes.Clone(body)
		var p params
		a := new(arena)
		err := decodeJSON(body, a, &p)
		if !bytes.Equal(sent, body) {
			t.Fatal("the decoder wrote to the body")
		}
		v := jsontext.Value(body)
		valid := v.IsValid(jsontext.AllowDuplicateNames(true)) && v.Kind() == '{'
		if err == nil && !valid {
			t.Fatalf("took what is no JSON object: %q", body)
		}
		if err != nil {
			if !errors.Is(err, errSyntax) {
				t.Fatalf("error %v", err)
			}
			return
		}
		var other struct {
			MessageBody *string
			QueueURL    *string `json:"QueueUrl"`
		}
		if err := jsonv2.Unmarshal(body, &other, jsontext.AllowDuplicateNames(true)); err != nil {
			t.Fatalf("took %q: %v", body, err)
		}
		same(t, "MessageBody", p.one.body, other.MessageBody)
		same(t, "QueueUrl", p.queueURL, other.QueueURL)
		if len(p.entries) > batchEntriesMax || len(p.one.attributes) > messageAttributesMax+1 {
			t.Fatal("kept too much")
		}
		p.reset()
	})
}

func same(t *testing.T, what string, got text, want *string) {
	t.Helper()
	if (got == nil) != (want == nil) || want != nil && string(got) != *want {
		t.Fatalf("%s: got %q, want %v", what, got, want)
	}
}

// FuzzDecodeQuery compares the decoder with net/url, and looks that it never
// panics or keeps too much.
func FuzzDecodeQuery(f *testing.F) {
	for _, s := range []string{
		"Action=SendMessage&QueueUrl=q&MessageBody=a+b%20c", "MessageAttribute.1.Name=a&MessageAttribute.1.Value.StringValue=b", "SendMessageBatchRequestEntry.1.MessageAttribute.2.Value.DataType=String",
		"Attribute.99999999999.Name=x", "Attribute..Name=x", "Attribute.1=x", "=&=&&", "%", "%4", "MessageBody=%00%ff", "AttributeName=All&AttributeName.2=x", "DefaultVisibilityTimeout=5", ".=.", "Tag.1.Key.Key=x",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, form []byte) {
		var p params
		action, err := decodeQuery(form, new(arena), &p, nil)
		if err != nil {
			if !errors.Is(err, errQueryPairs) && !errors.Is(err, errQuerySyntax) {
				t.Fatalf("error %v", err)
			}
			return
		}
		p.sortQuery()
		if bytes.IndexByte(form, ';') < 0 { // which net/url refuses
			values, err := url.ParseQuery(string(form))
			if err != nil {
				t.Fatalf("took %q: %v", form, err)
			}
			if v := values["Action"]; len(v) > 0 && v[len(v)-1] != string(action) {
				t.Fatalf("action %q, want %q", action, v[len(v)-1])
			}
			if v := values["MessageBody"]; len(v) > 0 && v[len(v)-1] != string(p.one.body) {
				t.Fatalf("body %q, want %q", p.one.body, v[len(v)-1])
			}
		}
		if len(p.entries) > queryPairsMax || len(p.names) > namesMax {
			t.Fatal("kept too much")
		}
		p.reset()
	})
}

// FuzzAnswer writes any text into answers of both protocols, and of Query in
// JSON: parsers find it there again.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{"", "x", "<&>\"'", "a\tb\nc\rd", "é😀", "\x00\x1f\x7f", "\xff\xfe", "\xef\xbf\xbe\xef\xbf\xbf", "12345678\"", "12345678<", "]]>", "&#xD;", "\\u0000"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		j := answer{}
		j.open("Test")
		j.field("Body", value)
		j.close("Test", "id")
		var fromJSON struct{ Body string }
		if err := json.Unmarshal(j.b, &fromJSON); err != nil {
			t.Fatalf("%s: %v", j.b, err)
		}
		if want := string([]rune(string(value))); fromJSON.Body != want {
			t.Fatalf("JSON: got %q, want %q", fromJSON.Body, want)
		}
		q := answer{wrapped: true}
		q.open("Test")
		start := q.beginMap("Things")
		q.beginEntry("Thing", string(value))
		q.field("Body", value)
		q.endEntry("Thing")
		q.endMap(start)
		q.close("Test", "id")
		var wrapped struct {
			TestResponse struct {
				TestResult struct {
					Things []struct {
						Name  string
						Value struct{ Body string }
					}
				}
			}
		}
		if err := json.Unmarshal(q.b, &wrapped); err != nil || len(wrapped.TestResponse.TestResult.Things) != 1 {
			t.Fatalf("%s: %v", q.b, err)
		}
		if thing := wrapped.TestResponse.TestResult.Things[0]; thing.Name != fromJSON.Body || thing.Value.Body != fromJSON.Body {
			t.Fatalf("Query in JSON: got %q, want %q", thing, fromJSON.Body)
		}
		x := answer{xml: true}
		x.open("Test")
		x.field("Body", value)
		x.close("Test", "id")
		var fromXML struct {
			Result struct{ Body string } `xml:"TestResult"`
		}
		if err := xml.Unmarshal(x.b, &fromXML); err != nil {
			t.Fatalf("%s: %v", x.b, err)
		}
		if validText(value) && fromXML.Result.Body != string(value) {
			t.Fatalf("XML: got %q, want %q", fromXML.Result.Body, value)
		}
	})
}
