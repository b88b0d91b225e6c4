package frame

import "errors"

// Version is a version of the protocol.
type Version uint8

// The versions.
const (
	V10 Version = iota
	V11
	V12
)

// String returns the number of the version, such as "1.2".
func (v Version) String() string {
	switch v {
	case V11:
		return "1.1"
	case V12:
		return "1.2"
	}
	return "1.0"
}

// The commands.
const (
	Connect     = "CONNECT"
	Stomp       = "STOMP"
	Connected   = "CONNECTED"
	Send        = "SEND"
	Subscribe   = "SUBSCRIBE"
	Unsubscribe = "UNSUBSCRIBE"
	Ack         = "ACK"
	Nack        = "NACK"
	Begin       = "BEGIN"
	Commit      = "COMMIT"
	Abort       = "ABORT"
	Disconnect  = "DISCONNECT"
	Message     = "MESSAGE"
	Receipt     = "RECEIPT"
	Error       = "ERROR"
)

// ContentLength is the header that tells the size of the body.
const ContentLength = "content-length"

// What is wrong with a stream. After either the stream cannot go on.
var (
	ErrMalformed = errors.New("malformed frame")
	ErrTooLarge  = errors.New("frame too large")
)

// Header is one header of a frame, unescaped.
type Header struct {
	Name  string
	Value string
	Bytes []byte // Value as a view into the Reader's buffer
}

// Frame is one frame. Headers, the bytes in them and Body belong to the Reader
// and end with its next Read; strings may be kept.
type Frame struct {
	Command string
	Headers []Header
	Body    []byte
}

// Lookup returns the value of the first header of that name, and whether there
// is one.
func (f *Frame) Lookup(name string) (string, bool) {
	for i := range f.Headers {
		if f.Headers[i].Name == name {
			return f.Headers[i].Value, true
		}
	}
	return "", false
}

// Get is Lookup for those who take an absent header for an empty one.
func (f *Frame) Get(name string) string {
	v, _ := f.Lookup(name)
	return v
}

// command returns b as a string, without an allocation for those that there are.
func command(b []byte) string {
	switch string(b) {
	case Send:
		return Send
	case Ack:
		return Ack
	case Message:
		return Message
	case Receipt:
		return Receipt
	case Nack:
		return Nack
	case Begin:
		return Begin
	case Commit:
		return Commit
	case Abort:
		return Abort
	case Subscribe:
		return Subscribe
	case Unsubscribe:
		return Unsubscribe
	case Connect:
		return Connect
	case Stomp:
		return Stomp
	case Connected:
		return Connected
	case Disconnect:
		return Disconnect
	case Error:
		return Error
	}
	return string(b)
}

// escaped tells whether the headers of a command are escaped in v.
func escaped(v Version, command string) bool {
	return v != V10 && command != Connect && command != Stomp && command != Connected
}
