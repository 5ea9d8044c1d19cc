package journal_test

import (
	"testing"

	"heddle/store/journal"
)

// TestTermString: an import has no port, and an empty journal no term.
func TestTermString(t *testing.T) {
	for term, want := range map[journal.Term]string{
		{}:                          "term 0 of nobody",
		{Number: 7}:                 "term 7 of import",
		{Number: 7, Owner: 0x2c903}: "term 7 of 0x000000000002c903",
	} {
		if got := term.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestMarkString: the mark before the first entry says that there is none.
func TestMarkString(t *testing.T) {
	for mark, want := range map[journal.Mark]string{
		{}: "no journal entry",
		{Term: journal.Term{Number: 7}, Number: 3}: "entry 3, term 7 of import",
	} {
		if got := mark.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
