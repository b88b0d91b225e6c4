package sqs

// Bounds on what a decoder keeps of a request. What is beyond them is counted
// where the count is part of an error, and else refused.
const (
	batchEntriesMax      = 10
	messageAttributesMax = 10
	namesMax             = 1000 // of attributes, in one list of a request
	pairsMax             = 64   // queue attributes or tags of a request: more than there are to set
)

// integer is a number of a request. The zero value means absent.
type integer struct {
	n    int64 // at the ends of its range for what is beyond them
	sent text  // as it was sent, for error texts
}

func (i integer) isSet() bool { return i.sent != nil }

// pair is a name and a value: a queue attribute or a tag.
type pair struct {
	name, value text
	index       int // in Query: what the list is ordered by
}

// attribute is a message attribute as it was sent.
type attribute struct {
	name     text
	dataType text
	str      text
	binary   text // base64
	isList   bool // StringListValues or BinaryListValues were sent
	index    int
}

// entry is one message to send, delete or change: of a batch, or the only one.
type entry struct {
	id         text
	body       text
	group      text
	dedupID    text
	handle     text
	delay      integer
	visibility integer

	attributes     []attribute // at most messageAttributesMax+1
	attributeCount int
	system         []attribute
	systemCount    int
	index          int
}

// params are the parameters of every action, as either protocol sent them.
// Actions look at those that they have.
type params struct {
	queueURL   text
	queueName  text
	owner      text // QueueOwnerAWSAccountId
	prefix     text // QueueNamePrefix
	nextToken  text
	attemptID  text // ReceiveRequestAttemptId
	maxResults integer
	max        integer // MaxNumberOfMessages
	wait       integer // WaitTimeSeconds
	move       moveParams

	attributes     []pair
	attributesSent bool
	tags           []pair
	tagCount       int
	tagKeys        []text // nil: absent; so are the two below
	accounts       []text // AWSAccountIds
	grants         []text // Actions, of AddPermission
	label          text
	showInvisible  bool // of a peek
	showDelayed    bool
	names          []text // AttributeNames and MessageSystemAttributeNames
	messageNames   []text // MessageAttributeNames

	one        entry // of the actions that are no batch
	entries    []entry
	entryCount int
}

// reset empties p for the next request and keeps its slices. It zeroes what they
// hold, so that a pooled call does not hold on to the buffers of a request.
func (p *params) reset() {
	one, entries := p.one, p.entries
	one.reset()
	for i := range entries {
		entries[i].reset()
	}
	if cap(entries) > 2*batchEntriesMax {
		entries = nil // Query keeps all entries until they are counted
	}
	*p = params{
		attributes:   emptied(p.attributes, pairsMax),
		tags:         emptied(p.tags, pairsMax),
		names:        emptied(p.names, pairsMax),
		messageNames: emptied(p.messageNames, pairsMax),
		one:          one,
		entries:      entries[:0],
	}
}

func (e *entry) reset() {
	*e = entry{
		attributes: emptied(e.attributes, 2*messageAttributesMax),
		system:     emptied(e.system, 2*messageAttributesMax),
	}
}

// emptied returns s without elements, dropped if it has grown beyond keep.
func emptied[T any](s []T, keep int) []T {
	if cap(s) > keep {
		return nil
	}
	clear(s)
	return s[:0]
}

// addEntry returns a fresh entry at the end of p.entries.
func (p *params) addEntry() *entry {
	if n := len(p.entries); n < cap(p.entries) {
		p.entries = p.entries[:n+1]
	} else {
		p.entries = append(p.entries, entry{})
	}
	return &p.entries[len(p.entries)-1]
}
