package sqs

import (
	"encoding/base64"
	"strconv"
	"strings"
)

// namespace is that of every XML answer.
const namespace = "http://queue.amazonaws.com/doc/2012-11-05/"

// The content types of answers.
const (
	contentJSON    = "application/x-amz-json-1.0"
	contentXML     = "text/xml"
	contentWrapped = "application/json"
)

// answer builds the body of an answer in either protocol. Actions describe the
// answer once: a list is an array in JSON and repeated elements in XML, a map is
// an object in JSON and elements of Name and Value in XML.
//
// Query can be answered in JSON too: wrapped in the objects that the XML elements
// would be, with maps as arrays of Name and Value, as old clients of AWS know it.
//
// The methods of one answer are called in the order of its text; values are
// written at once.
type answer struct {
	b       []byte
	xml     bool
	wrapped bool // JSON of the Query protocol
	single  bool // wrapped: lists and maps are called what one element of them is
	start   int  // in XML: where the content of the result begins
}

// open begins the answer to action.
func (a *answer) open(action string) {
	switch {
	case a.wrapped:
		a.openWrapped(action)
		a.key(action, "Result")
		a.b = append(a.b, '{')
		return
	case !a.xml:
		a.b = append(a.b, '{')
		return
	}
	a.openXML(action)
	a.b = append(a.b, '<')
	a.b = append(a.b, action...)
	a.b = append(a.b, "Result>"...)
	a.start = len(a.b)
}

// close ends what open began.
func (a *answer) close(action, requestID string) {
	if !a.xml {
		a.b = append(a.b, '}')
		if a.wrapped {
			a.closeWrapped(requestID)
		}
		return
	}
	if len(a.b) == a.start {
		a.b = append(a.b[:len(a.b)-1], "/>"...)
	} else {
		a.endTag(action, "Result")
	}
	a.closeXML(action, requestID)
}

// void is the answer to an action that has no result.
func (a *answer) void(action, requestID string) {
	switch {
	case a.xml:
		a.openXML(action)
		a.closeXML(action, requestID)
	case a.wrapped:
		a.openWrapped(action)
		a.closeWrapped(requestID)
	}
}

func (a *answer) openWrapped(action string) {
	a.b = append(a.b, '{')
	a.key(action, "Response")
	a.b = append(a.b, '{')
}

func (a *answer) closeWrapped(requestID string) {
	a.key("ResponseMetadata", "")
	a.b = append(a.b, '{')
	a.plainField("RequestId", requestID)
	a.b = append(a.b, "}}}"...)
}

func (a *answer) openXML(action string) {
	a.b = append(a.b, `<?xml version="1.0"?><`...)
	a.b = append(a.b, action...)
	a.b = append(a.b, `Response xmlns="`+namespace+`">`...)
}

func (a *answer) closeXML(action, requestID string) {
	a.b = append(a.b, "<ResponseMetadata><RequestId>"...)
	a.b = append(a.b, requestID...)
	a.b = append(a.b, "</RequestId></ResponseMetadata>"...)
	a.endTag(action, "Response")
}

func (a *answer) tag(name string) {
	a.b = append(a.b, '<')
	a.b = append(a.b, name...)
	a.b = append(a.b, '>')
}

func (a *answer) endTag(name, suffix string) {
	a.b = append(a.b, '<', '/')
	a.b = append(a.b, name...)
	a.b = append(a.b, suffix...)
	a.b = append(a.b, '>')
}

// comma separates JSON values: there is none after an opening bracket.
func (a *answer) comma() {
	if last := a.b[len(a.b)-1]; last != '{' && last != '[' {
		a.b = append(a.b, ',')
	}
}

// key writes a JSON member name, which needs no escape.
func (a *answer) key(name, suffix string) {
	a.comma()
	a.b = append(a.b, '"')
	a.b = append(a.b, name...)
	a.b = append(a.b, suffix...)
	a.b = append(a.b, '"', ':')
}

// plural writes the name of a list or map.
func (a *answer) plural(name string) {
	switch {
	case a.wrapped && a.single:
		name = strings.TrimSuffix(name, "s")
	case a.wrapped && name == "Messages": // AWS's own names here
		name = "messages"
	case a.wrapped && name == "QueueUrls":
		name = "queueUrls"
	}
	a.key(name, "")
}

// field writes a string. What is not UTF-8, and in XML what XML cannot say,
// becomes U+FFFD.
func (a *answer) field(name string, value []byte) {
	if a.xml {
		a.tag(name)
		a.b = appendXML(a.b, value)
		a.endTag(name, "")
		return
	}
	a.key(name, "")
	a.b = appendQuoted(a.b, value)
}

// plainField writes a string that no protocol has to escape.
func (a *answer) plainField(name, value string) {
	a.beginPlain(name)
	a.b = append(a.b, value...)
	a.endPlain(name)
}

// beginPlain begins a string that the caller appends to a.b, without anything
// that has to be escaped, and ends with endPlain.
func (a *answer) beginPlain(name string) {
	if a.xml {
		a.tag(name)
		return
	}
	a.key(name, "")
	a.b = append(a.b, '"')
}

func (a *answer) endPlain(name string) {
	if a.xml {
		a.endTag(name, "")
		return
	}
	a.b = append(a.b, '"')
}

func (a *answer) boolField(name string, value bool) {
	if a.xml {
		a.tag(name)
		a.b = strconv.AppendBool(a.b, value)
		a.endTag(name, "")
		return
	}
	a.key(name, "")
	a.b = strconv.AppendBool(a.b, value)
}

// binaryField writes base64.
func (a *answer) binaryField(name string, value []byte) {
	a.beginPlain(name)
	a.b = base64.StdEncoding.AppendEncode(a.b, value)
	a.endPlain(name)
}

// beginList begins a list; its elements are items or elements.
func (a *answer) beginList(name string) {
	if !a.xml {
		a.plural(name)
		a.b = append(a.b, '[')
	}
}

// emptyList writes a list without elements, which only wrapped answers show.
func (a *answer) emptyList(name string) {
	if a.wrapped {
		a.plural(name)
		a.b = append(a.b, "null"...)
	}
}

func (a *answer) endList() {
	if !a.xml {
		a.b = append(a.b, ']')
	}
}

// beginItem begins a list element with fields; element is its name in XML.
func (a *answer) beginItem(element string) {
	if a.xml {
		a.tag(element)
		return
	}
	a.comma()
	a.b = append(a.b, '{')
}

func (a *answer) endItem(element string) {
	if a.xml {
		a.endTag(element, "")
		return
	}
	a.b = append(a.b, '}')
}

// element writes a list element that is a string.
func (a *answer) element(element string, value []byte) {
	if a.xml {
		a.tag(element)
		a.b = appendXML(a.b, value)
		a.endTag(element, "")
		return
	}
	a.comma()
	a.b = appendQuoted(a.b, value)
}

// beginMap begins a map; its members are members or entries. It returns what
// endMap needs to leave the map out if it has none.
func (a *answer) beginMap(name string) (start int) {
	start = len(a.b)
	switch {
	case a.wrapped:
		a.plural(name)
		a.b = append(a.b, '[')
	case !a.xml:
		a.key(name, "")
		a.b = append(a.b, '{')
	}
	return start
}

// endMap ends a map. Clients stumble over empty ones: such is left out.
func (a *answer) endMap(start int) {
	switch {
	case a.xml:
	case a.b[len(a.b)-1] == '{' || a.b[len(a.b)-1] == '[':
		a.b = a.b[:start]
	case a.wrapped:
		a.b = append(a.b, ']')
	default:
		a.b = append(a.b, '}')
	}
}

// member writes a member of a map of strings; name needs no escape.
func (a *answer) member(element, name string, value []byte) {
	a.beginMember(element, name)
	if a.xml {
		a.b = appendXML(a.b, value)
	} else {
		a.b = appendJSON(a.b, value)
	}
	a.endMember(element)
}

// beginMember begins a member whose value the caller appends to a.b, without
// anything that has to be escaped, and ends with endMember.
func (a *answer) beginMember(element, name string) {
	if a.xml {
		a.tag(element)
		a.tag("Name")
		a.b = append(a.b, name...)
		a.b = append(a.b, "</Name><Value>"...)
		return
	}
	if a.wrapped {
		a.beginPair(name)
	} else {
		a.key(name, "")
	}
	a.b = append(a.b, '"')
}

// beginPair begins a member of a map that is an array.
func (a *answer) beginPair(name string) {
	a.comma()
	a.b = append(a.b, '{')
	a.field("Name", bytesOf(name))
	a.key("Value", "")
}

func (a *answer) endMember(element string) {
	if a.xml {
		a.b = append(a.b, "</Value>"...)
		a.endTag(element, "")
		return
	}
	a.b = append(a.b, '"')
	if a.wrapped {
		a.b = append(a.b, '}')
	}
}

// tagMember writes a member of the map of tags, which in Query is of Key and Value.
func (a *answer) tagMember(key, value string) {
	if a.query() {
		a.beginItem("Tag")
		a.field("Key", bytesOf(key))
		a.field("Value", bytesOf(value))
		a.endItem("Tag")
		return
	}
	a.comma()
	a.b = appendQuoted(a.b, bytesOf(key))
	a.b = append(a.b, ':')
	a.b = appendQuoted(a.b, bytesOf(value))
}

// beginEntry begins a member of a map whose values have fields.
func (a *answer) beginEntry(element, name string) {
	if a.xml {
		a.tag(element)
		a.tag("Name")
		a.b = appendXML(a.b, bytesOf(name))
		a.b = append(a.b, "</Name><Value>"...)
		return
	}
	if a.wrapped {
		a.beginPair(name)
	} else {
		a.comma()
		a.b = appendQuoted(a.b, bytesOf(name))
		a.b = append(a.b, ':')
	}
	a.b = append(a.b, '{')
}

func (a *answer) endEntry(element string) {
	if a.xml {
		a.b = append(a.b, "</Value>"...)
		a.endTag(element, "")
		return
	}
	a.b = append(a.b, '}')
	if a.wrapped {
		a.b = append(a.b, '}')
	}
}

// query tells whether this is an answer of the Query protocol.
func (a *answer) query() bool { return a.xml || a.wrapped }

// fail replaces the answer by an error.
func (a *answer) fail(f *failure, requestID string) {
	a.b = a.b[:0]
	w := f.fault.wire()
	message := f.message
	if a.query() && f.fault == faultNoQueue {
		message = noQueueXML
	}
	if a.wrapped {
		a.b = append(a.b, `{"Error":{`...)
		a.plainField("Code", w.code)
		a.field("Message", bytesOf(message))
		a.plainField("Type", w.side())
		a.b = append(a.b, '}')
		a.plainField("RequestId", requestID)
		a.b = append(a.b, '}')
		return
	}
	if !a.xml {
		namespace := sqsShapes
		if w.general {
			namespace = generalShapes
		}
		a.b = append(a.b, `{"__type":"`...)
		a.b = append(a.b, namespace...)
		a.b = append(a.b, w.shape...)
		a.b = append(a.b, '"')
		a.field("message", bytesOf(message))
		a.b = append(a.b, '}')
		return
	}
	if f.fault == faultUnknownPath {
		a.b = append(a.b, "<UnknownOperationException/>"...)
		return
	}
	a.b = append(a.b, `<?xml version="1.0"?><ErrorResponse xmlns="`+namespace+`"><Error>`...)
	a.plainField("Type", w.side())
	a.plainField("Code", w.code)
	a.field("Message", bytesOf(message))
	a.b = append(a.b, "<Detail/></Error>"...)
	a.plainField("RequestId", requestID)
	a.b = append(a.b, "</ErrorResponse>"...)
}

// side tells whose fault w is.
func (w wire) side() string {
	if w.receiver {
		return "Receiver"
	}
	return "Sender"
}
