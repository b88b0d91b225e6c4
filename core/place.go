package core

import "fmt"

// Seq orders messages within a node: a 24-bit term above a 40-bit counter. It
// orders keys and deliveries and is never reused: the term rises at each open.
type Seq uint64

// seqCounterBits is the width of the counter below the term.
const seqCounterBits = 40

// SeqMax is above every sequence that a message can have.
const SeqMax = Seq(1<<64 - 1)

// MakeSeq returns the first sequence of term. Terms run from 1 to 1<<24-1.
func MakeSeq(term uint32) Seq { return Seq(uint64(term) << seqCounterBits) }

// Term returns the term in which s was given out.
func (s Seq) Term() uint32 { return uint32(s >> seqCounterBits) }

// QID names one incarnation of a queue. A queue that is deleted and created
// again, or purged, gets a new QID; a QID is never reused.
type QID uint64

// PlaceKind says in which key space of a queue a message lies.
type PlaceKind uint8

// The kinds of place. The numbers are stored.
const (
	PlaceTail     PlaceKind = 0 // the one lane of a plain queue; N is 0
	PlacePriority PlaceKind = 1 // N = 9 - priority, so that lane order is delivery order
	PlaceGroup    PlaceKind = 2 // N = 64-bit hash of the message group
	PlaceDelayed  PlaceKind = 3 // N = due time, milliseconds since the epoch, below 1<<48
)

// Place is where in its queue a message lies, from its send to its deletion: a
// lane, or a due time. It never changes: a released message is found at its old
// place.
type Place struct {
	Kind PlaceKind
	N    uint64
}

// Ref names one stored message.
type Ref struct {
	QID   QID
	Place Place
	Seq   Seq
}

// String returns the reference in a form made for logs and test transcripts.
func (r Ref) String() string {
	return fmt.Sprintf("q%d/%d.%x/%d.%d", r.QID, r.Place.Kind, r.Place.N, r.Seq.Term(), uint64(r.Seq)&(1<<seqCounterBits-1))
}
