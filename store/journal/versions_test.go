package journal

import "testing"

func TestRange(t *testing.T) {
	for _, c := range []struct {
		a, b Range
		want uint8 // 0: none
	}{
		{Range{1, 1}, Range{1, 1}, 1},
		{Range{1, 1}, Range{1, 2}, 1},
		{Range{1, 3}, Range{2, 5}, 3},
		{Range{2, 2}, Range{1, 1}, 0},
		{Range{1, 255}, Range{255, 255}, 255},
	} {
		for _, x := range [][2]Range{{c.a, c.b}, {c.b, c.a}} {
			if v, ok := x[0].Common(x[1]); ok != (c.want > 0) || ok && v != c.want {
				t.Errorf("%v and %v: %d %v, want %d", x[0], x[1], v, ok, c.want)
			}
		}
	}
	if got := Linked("2-3", Range{1, 1}); got != (Range{2, 3}) || got.String() != "2 to 3" || !got.Has(2) || got.Has(1) || got.Has(4) {
		t.Errorf("linked: %v", got)
	}
	if got := Linked("", Range{1, 1}); got != (Range{1, 1}) || got.String() != "1" {
		t.Errorf("not linked: %v", got)
	}
	for _, bad := range []string{"x", "1", "2-1", "0-1", "1-256"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q is a range", bad)
				}
			}()
			Linked(bad, Range{})
		}()
	}
}
