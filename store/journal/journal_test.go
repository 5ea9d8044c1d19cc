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
