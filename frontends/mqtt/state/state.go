// Package state is what is stored of MQTT sessions: its names and its bytes. It
// knows neither wire nor core.
package state

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrCorrupt marks what cannot be read.
var ErrCorrupt = errors.New("stored state of an MQTT session is unreadable")

const (
	version      = 1
	nameBytesMax = 200 // of a client identifier in a name, after encoding
)

// Prefix begins the names of the records of sessions.
const Prefix = "mqtt/session/"

// Key is how a client identifier stands in names: its letters, digits and -_.
// verbatim, other bytes as %XX, and a digest in its place if that is long.
func Key(clientID string) string {
	plain := true
	for i := range len(clientID) {
		plain = plain && verbatim(clientID[i])
	}
	if plain && len(clientID) <= nameBytesMax {
		return clientID
	}
	var b strings.Builder
	for i := range len(clientID) {
		if c := clientID[i]; verbatim(c) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	if b.Len() <= nameBytesMax {
		return b.String()
	}
	sum := sha256.Sum256([]byte(clientID))
	return "%" + hex.EncodeToString(sum[:])
}

func verbatim(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.'
}

// Queue is the name of the queue of a session.
func Queue(key string) string { return "mqtt/" + key }

// Name is the name of the record of a session.
func Name(key string) string { return Prefix + key }

// In is the prefix of the packet identifiers of QoS 2 that were received and not
// released yet.
func In(key string) string { return "mqtt/in/" + key + "/" }

// Out is the prefix of the packet identifiers of QoS 2 that await PUBCOMP.
func Out(key string) string { return "mqtt/out/" + key + "/" }

// WithID returns the name of a packet identifier below In or Out.
func WithID(prefix string, id uint16) string {
	const digits = "0123456789abcdef"
	return prefix + string([]byte{digits[id>>12], digits[id>>8&15], digits[id>>4&15], digits[id&15]})
}

// ID returns the packet identifier that a name ends with.
func ID(name string) (uint16, bool) {
	if len(name) < 4 {
		return 0, false
	}
	n, err := strconv.ParseUint(name[len(name)-4:], 16, 16)
	return uint16(n), err == nil
}

// Session is the record of a session.
type Session struct {
	ClientID  string
	Principal string
	Expiry    uint32 // seconds that it outlives its connection
	Connected bool
	Deadline  int64 // when it ends, milliseconds since the epoch; 0 while connected
	WillAt    int64 // when the will is due; the same
	Will      *Will
	Subs      []Sub // those that no binding of a stored queue stands for
}

// Will is the message that a client leaves.
type Will struct {
	Topic         string
	Payload       []byte
	QoS           byte
	Retain        bool
	Format        bool
	Delay         uint32 // seconds
	Expiry        uint32 // seconds; 0: none
	ContentType   string
	ResponseTopic string
	Correlation   []byte
	Users         [][2]string
}

// Sub is a subscription.
type Sub struct {
	Filter          string
	QoS             byte
	NoLocal         bool
	RetainPublished bool
	ID              uint32
}

// The flags of a Session, a Will and a Sub.
const (
	flagConnected = 1 << iota
	flagWill
)

const (
	flagRetain = 1 << iota
	flagFormat
	flagCorrelation
)

const (
	flagNoLocal = 1 << iota
	flagRetainPublished
)

// Append appends the binary form of s.
func (s *Session) Append(b []byte) []byte {
	b = append(b, version, flags(s.Connected, s.Will != nil))
	b = appendString(b, s.ClientID)
	b = appendString(b, s.Principal)
	b = binary.AppendUvarint(b, uint64(s.Expiry))
	b = binary.AppendUvarint(b, uint64(s.Deadline))
	b = binary.AppendUvarint(b, uint64(s.WillAt))
	if s.Will != nil {
		b = s.Will.append(b)
	}
	b = binary.AppendUvarint(b, uint64(len(s.Subs)))
	for i := range s.Subs {
		b = appendString(b, s.Subs[i].Filter)
		b = s.Subs[i].Append(b)
	}
	return b
}

func (w *Will) append(b []byte) []byte {
	b = append(b, w.QoS, flags(w.Retain, w.Format, w.Correlation != nil))
	b = appendString(b, w.Topic)
	b = appendString(b, string(w.Payload))
	b = binary.AppendUvarint(b, uint64(w.Delay))
	b = binary.AppendUvarint(b, uint64(w.Expiry))
	b = appendString(b, w.ContentType)
	b = appendString(b, w.ResponseTopic)
	b = appendString(b, string(w.Correlation))
	b = binary.AppendUvarint(b, uint64(len(w.Users)))
	for _, u := range w.Users {
		b = appendString(appendString(b, u[0]), u[1])
	}
	return b
}

// Append appends what is kept with the binding of s: all but its filter.
func (s *Sub) Append(b []byte) []byte {
	b = append(b, version, s.QoS, flags(s.NoLocal, s.RetainPublished))
	return binary.AppendUvarint(b, uint64(s.ID))
}

// Decode reads a record.
func Decode(b []byte) (*Session, error) {
	r := reader{b: b}
	if r.byte() != version {
		return nil, ErrCorrupt
	}
	f := r.byte()
	s := &Session{Connected: f&flagConnected != 0}
	s.ClientID, s.Principal = r.string(), r.string()
	s.Expiry, s.Deadline, s.WillAt = uint32(r.uvarint()), int64(r.uvarint()), int64(r.uvarint())
	if f&flagWill != 0 {
		s.Will = r.will()
	}
	for n := r.count(); n > 0; n-- {
		filter := r.string()
		sub := r.sub()
		sub.Filter = filter
		s.Subs = append(s.Subs, sub)
	}
	if r.bad || len(r.b) > 0 {
		return nil, ErrCorrupt
	}
	return s, nil
}

// DecodeSub reads what is kept with the binding of a filter.
func DecodeSub(filter string, b []byte) (Sub, error) {
	r := reader{b: b}
	s := r.sub()
	s.Filter = filter
	if r.bad || len(r.b) > 0 {
		return s, ErrCorrupt
	}
	return s, nil
}

// reader takes values out of bytes. What it returns is its own.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) will() *Will {
	w := &Will{QoS: r.byte()}
	f := r.byte()
	w.Retain, w.Format = f&flagRetain != 0, f&flagFormat != 0
	w.Topic, w.Payload = r.string(), []byte(r.string())
	w.Delay, w.Expiry = uint32(r.uvarint()), uint32(r.uvarint())
	w.ContentType, w.ResponseTopic = r.string(), r.string()
	if c := r.string(); f&flagCorrelation != 0 {
		w.Correlation = []byte(c)
	}
	for n := r.count(); n > 0; n-- {
		w.Users = append(w.Users, [2]string{r.string(), r.string()})
	}
	if w.QoS > 2 {
		r.bad = true
	}
	return w
}

func (r *reader) sub() Sub {
	if r.byte() != version {
		r.bad = true
	}
	s := Sub{QoS: r.byte()}
	f := r.byte()
	s.NoLocal, s.RetainPublished = f&flagNoLocal != 0, f&flagRetainPublished != 0
	s.ID = uint32(r.uvarint())
	if s.QoS > 2 {
		r.bad = true
	}
	return s
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.bad = true
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

func (r *reader) uvarint() uint64 {
	n, size := binary.Uvarint(r.b)
	if size <= 0 {
		r.bad = true
		return 0
	}
	r.b = r.b[size:]
	return n
}

// count reads how many of something follow: no more than there are bytes.
func (r *reader) count() uint64 {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.bad = true
		return 0
	}
	return n
}

func (r *reader) string() string {
	n := r.count()
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func flags(bits ...bool) (b byte) {
	for i, on := range bits {
		if on {
			b |= 1 << i
		}
	}
	return b
}
