package sqs

// checkBatch finds what fails a whole batch of whatever action.
func (c *call) checkBatch(action string) error {
	p := &c.params
	switch {
	case p.entryCount == 0:
		return fail(faultEmptyBatch, "There should be at least one %sRequestEntry in the request.", action)
	case p.entryCount > batchEntriesMax:
		return fail(faultTooManyEntries, "Maximum number of entries per request are %d. You have sent %d.", batchEntriesMax, p.entryCount)
	}
	for i := range p.entries {
		id := p.entries[i].id
		if !validEntryID(id) {
			return fail(faultInvalidEntryID, "A batch entry id can only contain alphanumeric characters, hyphens and underscores. It can be at most 80 letters long.")
		}
		for j := range p.entries[:i] {
			if p.entries[j].id.view() == id.view() {
				return fail(faultIDsNotDistinct, "Id %s repeated.", id)
			}
		}
	}
	return nil
}

func validEntryID(id text) bool {
	if len(id) == 0 || len(id) > 80 {
		return false
	}
	for _, b := range id {
		if !isNameByte(b) {
			return false
		}
	}
	return true
}

// writeBatch writes c.results, one an entry. success adds what a successful
// entry tells besides its id.
func (c *call) writeBatch(action string, success func(r *result)) {
	a := &c.answer
	a.open(action)
	succeeded := 0
	for i := range c.results {
		if c.results[i].failure == nil {
			succeeded++
		}
	}
	// Lists without elements are left out, as AWS does.
	if succeeded > 0 {
		element := action + "ResultEntry"
		a.beginList("Successful")
		for i := range c.results {
			if c.results[i].failure == nil {
				a.beginItem(element)
				a.field("Id", c.params.entries[i].id)
				success(&c.results[i])
				a.endItem(element)
			}
		}
		a.endList()
	}
	if succeeded < len(c.results) {
		a.beginList("Failed")
		for i := range c.results {
			if f := c.results[i].failure; f != nil {
				w := f.fault.wire()
				a.beginItem("BatchResultErrorEntry")
				a.field("Id", c.params.entries[i].id)
				a.boolField("SenderFault", !w.receiver)
				a.plainField("Code", w.code)
				a.field("Message", bytesOf(f.message))
				a.endItem("BatchResultErrorEntry")
			}
		}
		a.endList()
	}
	a.close(action, c.id())
}
