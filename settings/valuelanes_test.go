package settings

import (
	"strings"
	"testing"
)

// TestLanes: what lanes by class of port may be, and how they are shown.
func TestLanes(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{ // want: as it is shown, or part of the error
		{"qos-sl2vl", "0,1,2", "0,1,2,0,0,0,0,0,0,0,0,0,0,0,0,0"},
		{"qos-sl2vl", "0,1; swe=1, 15", "ca=0,1,0,0,0,0,0,0,0,0,0,0,0,0,0,0; sw0=0,1,0,0,0,0,0,0,0,0,0,0,0,0,0,0; swe=1,15,0,0,0,0,0,0,0,0,0,0,0,0,0,0; rtr=0,1,0,0,0,0,0,0,0,0,0,0,0,0,0,0"},
		{"qos-sl2vl", "ca=1", "ca=1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0"},
		{"qos-sl2vl", "none", "none"},
		{"qos-sl2vl", "16", "0 to 15 each"},
		{"qos-sl2vl", "0" + strings.Repeat(",0", 16), "17 values, 16 are allowed"},
		{"qos-sl2vl", "hca=1", `no class of ports "hca"`},
		{"qos-sl2vl", "1;2", "want CLASS=VALUE behind the first"},
		{"qos-vlarb-low", "0:4, 14:255; ca=none", "sw0=0:4,14:255; swe=0:4,14:255; rtr=0:4,14:255"},
		{"qos-vlarb-low", "15:1", "0 to 14"},
		{"qos-vlarb-high", "1", "VL:WEIGHT"},
		{"qos-vlarb-high", "1:256", "VL:WEIGHT"},
		{"qos-high-limit", "3; rtr=255", "ca=3; sw0=3; swe=3; rtr=255"},
		{"qos-high-limit", "256", "0 to 255"},
	} {
		v := New()
		before := v.Text(c.name)
		err := v.Set(c.name, c.text, "test")
		got := v.Text(c.name)
		if err != nil {
			if got != before {
				t.Errorf("%s %q: an error leaves %q", c.name, c.text, got)
			}
			got = err.Error()
		} else if again := New(); again.Set(c.name, got, "test") != nil || again.Text(c.name) != got {
			t.Errorf("%s %q: %q is read as %q", c.name, c.text, got, again.Text(c.name))
		}
		if got != c.want && (err == nil || !strings.Contains(got, c.want)) {
			t.Errorf("%s %q: %q, want %q", c.name, c.text, got, c.want)
		}
	}
}
