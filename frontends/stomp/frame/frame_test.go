package frame

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

func testLimits() Limits {
	return Limits{CommandBytes: 32, HeaderBytes: 1 << 10, Headers: 8, BodyBytes: 2 << 10}
}

// show writes a frame down in one line.
func show(f *Frame) string {
	s := f.Command
	for _, h := range f.Headers {
		s += fmt.Sprintf(" %q=%q", h.Name, h.Value)
	}
	return s + fmt.Sprintf(" %q", f.Body)
}

// readAll reads frames to the end and writes them down.
func readAll(r *Reader) (out []string, err error) {
	for {
		f, err := r.Read()
		if err != nil {
			return out, err
		}
		for _, h := range f.Headers {
			if string(h.Bytes) != h.Value {
				return out, fmt.Errorf("the bytes %q of a value %q", h.Bytes, h.Value)
			}
		}
		out = append(out, show(f))
	}
}

func TestRead(t *testing.T) {
	for name, c := range map[string]struct {
		version Version
		in      string
		want    []string
		fails   error // io.EOF if nil
		says    string
	}{
		"a frame":                       {V12, "SEND\na:b\n\nbody\x00", []string{`SEND "a"="b" "body"`}, nil, ""},
		"carriage returns":              {V12, "SEND\r\na:b\r\n\r\nbody\r\n\x00\r\n", []string{`SEND "a"="b" "body\r\n"`}, nil, ""},
		"carriage returns in 1.0":       {V10, "SEND\r\na:b\r\n\r\nbody\x00", []string{`SEND "a"="b" "body"`}, nil, ""},
		"a lone carriage return":        {V12, "SEND\na:b\rc\n\n\x00", nil, ErrMalformed, "carriage return"},
		"a lone carriage return in 1.1": {V11, "SEND\na:b\rc\n\n\x00", []string{`SEND "a"="b\rc" ""`}, nil, ""},
		"heart-beats":                   {V12, "\n\n\r\nSEND\n\n\x00\n\n\nACK\n\n\x00\n", []string{`SEND ""`, `ACK ""`}, nil, ""},
		"stray NULs":                    {V12, "\x00SEND\n\n\x00\x00\x00ACK\n\n\x00", []string{`SEND ""`, `ACK ""`}, nil, ""},
		"escapes":                       {V12, "SEND\na\\cb:\\r\\n\\c\\\\\n\n\x00", []string{`SEND "a:b"="\r\n:\\" ""`}, nil, ""},
		"escapes in 1.1":                {V11, "SEND\na\\cb:\\n\\c\\\\\n\n\x00", []string{`SEND "a:b"="\n:\\" ""`}, nil, ""},
		"an escape of 1.2 in 1.1":       {V11, "SEND\na:\\r\n\n\x00", nil, ErrMalformed, "escape"},
		"an escape that is none":        {V12, "SEND\na:\\t\n\n\x00", nil, ErrMalformed, "escape"},
		"half an escape":                {V12, "SEND\na:b\\\n\n\x00", nil, ErrMalformed, "escape"},
		"no escapes in 1.0":             {V10, "SEND\na:\\n\\t\\\n\n\x00", []string{`SEND "a"="\\n\\t\\" ""`}, nil, ""},
		"no escapes in CONNECT":         {V12, "CONNECT\npasscode:p:q\\z\\c\n\n\x00", []string{`CONNECT "passcode"="p:q\\z\\c" ""`}, nil, ""},
		"no escapes in STOMP":           {V12, "STOMP\npasscode:\\c\n\n\x00", []string{`STOMP "passcode"="\\c" ""`}, nil, ""},
		"the first colon":               {V12, "SEND\na:b:c\n\n\x00", []string{`SEND "a"="b:c" ""`}, nil, ""},
		"spaces in 1.0":                 {V10, "SEND\n a : b c \n\n\x00", []string{`SEND "a"="b c" ""`}, nil, ""},
		"spaces":                        {V11, "SEND\n a : b c \n\n\x00", []string{`SEND " a "=" b c " ""`}, nil, ""},
		"repeated headers":              {V12, "SEND\na:1\na:2\n\n\x00", []string{`SEND "a"="1" "a"="2" ""`}, nil, ""},
		"an empty value":                {V12, "SEND\na:\n\n\x00", []string{`SEND "a"="" ""`}, nil, ""},
		"no name":                       {V12, "SEND\n:a\n\n\x00", nil, ErrMalformed, "name"},
		"no colon":                      {V12, "SEND\nabc\n\n\x00", nil, ErrMalformed, "colon"},
		"content-length":                {V12, "SEND\ncontent-length:3\n\na\x00b\x00ACK\n\n\x00", []string{`SEND "content-length"="3" "a\x00b"`, `ACK ""`}, nil, ""},
		"content-length with spaces":    {V12, "SEND\ncontent-length: 3 \n\na\x00b\x00", []string{`SEND "content-length"=" 3 " "a\x00b"`}, nil, ""},
		"the first content-length":      {V12, "SEND\ncontent-length:1\ncontent-length:2\n\na\x00", []string{`SEND "content-length"="1" "content-length"="2" "a"`}, nil, ""},
		"content-length 0":              {V12, "SEND\ncontent-length:0\n\n\x00", []string{`SEND "content-length"="0" ""`}, nil, ""},
		"content-length too small":      {V12, "SEND\ncontent-length:1\n\nab\x00", nil, ErrMalformed, "NUL"},
		"content-length negative":       {V12, "SEND\ncontent-length:-1\n\nab\x00", nil, ErrMalformed, "not a number"},
		"content-length empty":          {V12, "SEND\ncontent-length:\n\nab\x00", nil, ErrMalformed, "not a number"},
		"content-length in letters":     {V12, "SEND\ncontent-length:1e3\n\nab\x00", nil, ErrMalformed, "not a number"},
		"content-length too large":      {V12, "SEND\ncontent-length:2049\n\n", nil, ErrTooLarge, "2048"},
		"content-length out of numbers": {V12, "SEND\ncontent-length:99999999999999999999999\n\n", nil, ErrTooLarge, "2048"},
		"content-length on others":      {V12, "ACK\ncontent-length:2\n\n\n\n\x00ACK\n\n\x00", []string{`ACK "content-length"="2" "\n\n"`, `ACK ""`}, nil, ""},
		"a long body":                   {V12, "SEND\n\n" + strings.Repeat("x", 2049), nil, ErrTooLarge, "2048"},
		"a long body with its end":      {V12, "SEND\n\n" + strings.Repeat("x", 2049) + "\x00", nil, ErrTooLarge, "2048"},
		"the longest body":              {V12, "SEND\n\n" + strings.Repeat("x", 2048) + "\x00", []string{`SEND "` + strings.Repeat("x", 2048) + `"`}, nil, ""},
		"a long command":                {V12, strings.Repeat("A", 33), nil, ErrTooLarge, "command"},
		"a long command with its end":   {V12, strings.Repeat("A", 33) + "\n\n\x00", nil, ErrTooLarge, "command"},
		"the longest command":           {V12, strings.Repeat("A", 32) + "\n\n\x00", []string{strings.Repeat("A", 32) + ` ""`}, nil, ""},
		"a long header":                 {V12, "SEND\na:" + strings.Repeat("x", 1100), nil, ErrTooLarge, "1024"},
		"long headers":                  {V12, "SEND\n" + strings.Repeat("a:"+strings.Repeat("x", 200)+"\n", 6) + "\n\x00", nil, ErrTooLarge, "1024"},
		"many headers":                  {V12, "SEND\n" + strings.Repeat("a:b\n", 9) + "\n\x00", nil, ErrTooLarge, "more than 8"},
		"most headers":                  {V12, "SEND\n" + strings.Repeat("a:b\n", 8) + "\n\x00", []string{"SEND" + strings.Repeat(` "a"="b"`, 8) + ` ""`}, nil, ""},
		"a NUL in a header":             {V12, "SEND\na:b\x00\n\n\x00", nil, ErrMalformed, "NUL"},
		"a NUL in a command":            {V12, "SE\x00ND\na:b\n\n\x00", nil, ErrMalformed, "NUL"},
		"the end within a command":      {V12, "SEN", nil, io.ErrUnexpectedEOF, ""},
		"the end within headers":        {V12, "SEND\n", nil, io.ErrUnexpectedEOF, ""},
		"the end within a body":         {V12, "SEND\n\nabc", nil, io.ErrUnexpectedEOF, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for how, source := range map[string]io.Reader{
				"whole": strings.NewReader(c.in), "by bytes": iotest.OneByteReader(strings.NewReader(c.in)), "with EOF": iotest.DataErrReader(strings.NewReader(c.in)),
			} {
				r := NewReader(source, testLimits())
				r.SetVersion(c.version)
				got, err := readAll(r)
				want := c.fails
				if want == nil {
					want = io.EOF
				}
				if !slices.Equal(got, c.want) || !errors.Is(err, want) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%s: got %q and %v, want %q and %v about %q", how, got, err, c.want, want, c.says)
				}
			}
		})
	}
}

// A version that is settled by a frame holds for what was sent right behind it.
func TestVersionChangesBetweenFrames(t *testing.T) {
	r := NewReader(strings.NewReader("CONNECT\na:\\c\n\n\x00SEND\na:\\c\n\n\x00"), testLimits())
	f, err := r.Read()
	if err != nil || show(f) != `CONNECT "a"="\\c" ""` {
		t.Fatalf("first: %v, %v", f, err)
	}
	r.SetVersion(V12)
	if f, err = r.Read(); err != nil || show(f) != `SEND "a"=":" ""` {
		t.Errorf("second: %v, %v", show(f), err)
	}
}

// What is announced and not sent costs nothing.
func TestBufferGrowsWithWhatIsSent(t *testing.T) {
	limits := Limits{CommandBytes: 32, HeaderBytes: 64 << 10, Headers: 128, BodyBytes: 1 << 30}
	sent := "SEND\ncontent-length:1000000000\n\n" + strings.Repeat("x", 100_000)
	r := NewReader(strings.NewReader(sent), limits)
	if _, err := r.Read(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("got %v", err)
	}
	if len(r.buf) > 3*len(sent) {
		t.Errorf("%d bytes were sent, the buffer has %d", len(sent), len(r.buf))
	}
}

// After a large frame an idle connection costs little again.
func TestBufferShrinks(t *testing.T) {
	limits := Limits{CommandBytes: 32, HeaderBytes: 64 << 10, Headers: 128, BodyBytes: 1 << 30}
	large := "SEND\n\n" + strings.Repeat("x", 1<<20) + "\x00"
	sources := []io.Reader{strings.NewReader(large)}
	for range 3 * smallReads {
		sources = append(sources, strings.NewReader("\n"))
	}
	r := NewReader(io.MultiReader(sources...), limits)
	if _, err := r.Read(); err != nil {
		t.Fatal(err)
	}
	if len(r.buf) < len(large) {
		t.Fatalf("the buffer has %d bytes, the frame %d", len(r.buf), len(large))
	}
	if _, err := r.Read(); err != io.EOF {
		t.Fatal(err)
	}
	if len(r.buf) > bufferMin {
		t.Errorf("the buffer has %d bytes", len(r.buf))
	}
}

func TestAppendHeader(t *testing.T) {
	for _, c := range []struct {
		version           Version
		name, value, want string
	}{
		{V12, "a:b", "c\r\n\\:d", "a\\cb:c\\r\\n\\\\\\cd\n"},
		{V11, "a:b", "c\r\n\\:d", "a\\cb:c\r\\n\\\\\\cd\n"},
		{V10, "a", "c\r\n\\:d", "a:c  \\:d\n"},
		{V10, "a:b", "c", ""},
		{V12, "a", "b\x00c", "a:b c\n"},
		{V12, "ä", "ö\t~", "ä:ö\t~\n"},
	} {
		if got := string(AppendHeader(nil, c.version, c.name, c.value)); got != c.want {
			t.Errorf("%s: %q:%q is %q, want %q", c.version, c.name, c.value, got, c.want)
		}
		if got := string(AppendHeader(nil, c.version, c.name, []byte(c.value))); got != c.want {
			t.Errorf("%s, bytes: %q:%q is %q, want %q", c.version, c.name, c.value, got, c.want)
		}
	}
}

func TestAllocations(t *testing.T) {
	sent := benchFrame()
	source := &repeat{b: sent}
	r := NewReader(source, testLimits())
	r.SetVersion(V12)
	var f *Frame
	if n := testing.AllocsPerRun(1000, func() { f, _ = r.Read() }); n > 2 {
		t.Errorf("%v allocations to read a frame", n)
	}
	var out []byte
	if n := testing.AllocsPerRun(1000, func() { out = Append(out[:0], V12, f) }); n > 0 {
		t.Errorf("%v allocations to write a frame", n)
	}
	if !bytes.Equal(out, sent) {
		t.Errorf("wrote %q, want %q", out, sent)
	}
}
