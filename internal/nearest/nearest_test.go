package nearest

import "testing"

func TestHint(t *testing.T) {
	known := []string{"node_new", "node_gone", "link_up", "state"}
	for got, want := range map[string]string{
		"node_gon": `; did you mean "node_gone"?`,
		"node":     `; did you mean "node_gone"?`,
		"stat":     `; did you mean "state"?`,
		"zzzzzz":   `; the nearest is "state"`,
	} {
		if hint := Hint(got, known); hint != want {
			t.Errorf("%s%s, want %s", got, hint, want)
		}
	}
	if hint := Hint("a", nil); hint != "" {
		t.Errorf("%q of nothing", hint)
	}
}
