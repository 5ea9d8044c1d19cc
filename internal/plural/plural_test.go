package plural

import "testing"

func TestOf(t *testing.T) {
	for n, want := range map[uint8]string{0: "0 paths are", 1: "1 path is", 2: "2 paths are", 11: "11 paths are"} {
		if got := Of(n, "path") + " " + Verb(n, "is", "are"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestOfCh(t *testing.T) {
	if got := Of(1, "switch") + ", " + Of(2, "switch"); got != "1 switch, 2 switches" {
		t.Error(got)
	}
	if got := Of(1, "entry") + ", " + Of(2, "entry"); got != "1 entry, 2 entries" {
		t.Error(got)
	}
}
