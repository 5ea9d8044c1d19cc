package subnet

import "testing"

// TestCauseNames: every cause has a name of its own.
func TestCauseNames(t *testing.T) {
	seen := map[string]Cause{}
	for c := range NumCauses {
		name := c.String()
		if o, twice := seen[name]; name == "" || twice {
			t.Errorf("cause %d is called %q, as cause %d is", c, name, o)
		}
		seen[name] = c
	}
	if got := NumCauses.String(); got != "cause(23)" {
		t.Errorf("a value that is no cause is called %q", got)
	}
}
