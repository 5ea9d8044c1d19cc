// Package journal numbers the changes of a store, so that managers can copy them from each
// other and agree on whose changes count.
//
// One entry is what one store.Apply wrote. It has a number, one higher than the entry before
// it, and the term of the manager that wrote it. A manager takes a new term when it becomes
// master of the subnet; the terms of a journal never fall. Two journals whose entries of one
// number have the same term are equal up to that number, because only the owner of a term
// writes entries of it, each number once.
//
// Entries are kept and sent in one encoding (docs/format/journal.md).
package journal

import (
	"cmp"
	"errors"
	"fmt"

	"heddle/ib"
	"heddle/store"
)

// Term is the reign of one manager. Terms are ordered by Number, then by Owner, so two
// managers that take a term at the same time have different ones.
type Term struct {
	Number uint64
	Owner  ib.GUID // port GUID of the manager that took it; 0: an import of a backup
}

// Compare returns -1, 0 or 1, as t is before, equal to or after u.
func (t Term) Compare(u Term) int {
	return cmp.Or(cmp.Compare(t.Number, u.Number), cmp.Compare(t.Owner, u.Owner))
}

// Next is the term that owner takes after t.
func (t Term) Next(owner ib.GUID) Term { return Term{t.Number + 1, owner} }

// String implements fmt.Stringer.
func (t Term) String() string { return fmt.Sprintf("term %d of %s", t.Number, t.Writer()) }

// Writer names the owner for people: its port GUID, "import", or "nobody" for the zero Term.
func (t Term) Writer() string {
	switch {
	case t == Term{}:
		return "nobody"
	case t.Owner == 0:
		return "import"
	}
	return t.Owner.String()
}

// Mark names an entry. The zero Mark is the beginning of a journal, before its first entry.
type Mark struct {
	Term   Term
	Number uint64 // 1 for the first entry
}

// Compare returns -1, 0 or 1, as a journal that ends with m is older than, equal to or newer
// than one that ends with n: the term counts first, then the number.
func (m Mark) Compare(n Mark) int {
	return cmp.Or(m.Term.Compare(n.Term), cmp.Compare(m.Number, n.Number))
}

// String implements fmt.Stringer.
func (m Mark) String() string {
	if m == (Mark{}) {
		return "no journal entry"
	}
	return fmt.Sprintf("entry %d, %v", m.Number, m.Term)
}

// Entry is what one Apply wrote.
type Entry struct {
	Mark
	// Wall is the writer's clock in nanoseconds since 1970. Records with an end in wall time
	// (leases of services) are in the writer's clock; the reader's may differ.
	Wall int64
	// Begin is set in the first entry of a term.
	Begin *Begin
	Ops   []store.Op
}

// Begin says how a term began.
type Begin struct {
	// Had is the last entry that the owner had before.
	Had Mark
	// Reason is for people; at most MaxReason bytes.
	Reason string
}

// MaxReason is the longest Begin.Reason, in bytes.
const MaxReason = 512

// Errors of stores with a journal.
var (
	// ErrTrimmed: the entries that were asked for are no longer kept.
	ErrTrimmed = errors.New("journal: these entries are no longer kept")
	// ErrGap: an entry does not follow the last one of the journal.
	ErrGap = errors.New("journal: the entry does not follow the last one")
	// ErrOldTerm: an entry has an older term than the last one of the journal.
	ErrOldTerm = errors.New("journal: the entry belongs to an older term")
)

// Store is a store.Store that keeps a journal. Apply writes an entry of the term of the last
// one.
type Store interface {
	store.Store
	// Contents is Load and Last in one: what the store holds as of that entry.
	Contents() (*store.State, Mark, error)
	// Last is the last entry's mark.
	Last() (Mark, error)
	// Append writes e and carries out its operations, atomically, and durably when it
	// returns. Its number must be that after Last (else ErrGap), and its term not before that
	// of Last (else ErrOldTerm).
	Append(e *Entry) error
	// Entries returns entries in order, beginning with number from: at least one if from is
	// not after the last, and further ones as long as the encodings of all stay within size
	// bytes. ErrTrimmed: from is not kept any more.
	Entries(from uint64, size int) ([]Entry, error)
	// Replace drops everything and makes the store hold what s has; the journal then begins
	// after at, with no entry.
	Replace(s *store.State, at Mark) error
	// Note returns what SetNote stored, or nil.
	Note() ([]byte, error)
	// SetNote stores a few bytes beside the state, durably: how the manager stands to its peer.
	SetNote(b []byte) error
}

// Grouper is a Store that can write many entries at the cost of one.
type Grouper interface {
	// AppendAll does what Append does for each entry of list in order, but all or none of them.
	AppendAll(list []Entry) error
}

// Follows returns nil if an entry with mark next may follow last.
func Follows(last, next Mark) error {
	switch {
	case next.Number != last.Number+1:
		return fmt.Errorf("%w: %v after %v", ErrGap, next, last)
	case next.Term.Compare(last.Term) < 0:
		return fmt.Errorf("%w: %v after %v", ErrOldTerm, next, last)
	}
	return nil
}

// After is a term that owner takes after t without a peer that would know of another one: at the
// start of a manager that is no pair, or by an import. wall is the clock, in nanoseconds since
// 1970. The number of the term is at least its seconds, so two machines, or two times, that go on
// from copies of one journal have different terms, if they do so in different seconds or with
// different owners.
func (t Term) After(owner ib.GUID, wall int64) Term {
	return Term{max(t.Number+1, uint64(max(wall, 0))/1e9), owner}
}

// StartTerm appends the first entry of the term After the last one of s. reason is for people; at
// most MaxReason bytes.
func StartTerm(s Store, owner ib.GUID, wall int64, reason string) error {
	last, err := s.Last()
	if err != nil {
		return err
	}
	return s.Append(&Entry{
		Mark:  Mark{Term: last.Term.After(owner, wall), Number: last.Number + 1},
		Wall:  wall,
		Begin: &Begin{Had: last, Reason: reason},
	})
}
