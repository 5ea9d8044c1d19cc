package hotspot

import (
	"testing"

	"heddle/ib"
)

// behindBed has hosts 3 and 5 hot, with hot spots 1 and 2, each fed by those that feeds names. The
// flows of moved ones are on the slow lane.
func behindBed(t *testing.T, moved map[uint64]bool, feeds map[string]string) (b *bed, x func() *counts) {
	b = newBed(t, nil)
	b.c.holds = func(src, dst ib.LID) (may, known bool) {
		for hot, from := range feeds {
			for _, n := range from {
				may = may || dst == b.lid(hot) && src == b.lid("host-"+string(n))
			}
		}
		return may, true
	}
	x = func() *counts {
		y := b.congested()
		at := b.port("leaf-B", 1)
		y.wait[at], y.use[at], y.wait[b.port("root", 2)] = 0.18, 0.82, 0.3
		y.wait[b.port("leaf-C", 3)] = 0.3
		y.wait[b.port("host-6", 1)], y.use[b.port("host-6", 1)] = 0.7, 0.25
		return y
	}
	b.round(x())
	b.want("+host-3 +host-5 ")
	b.c.Moved(moved)
	return b, x
}

// TestBehind: hosts 3 and 5 are hot, and flows to both are on the slow lane. There those to host 3
// wait behind those to host 5: the port before it sends little and waits for nothing. It stays a hot
// spot until it is sent nothing, its contributors do not always have packets that wait, or host 5's
// ends.
func TestBehind(t *testing.T) {
	shared := map[string]string{"host-3": "12", "host-5": "14"}
	const little = 0.03
	both := map[uint64]bool{1: true, 2: true}
	for _, c := range []struct {
		name  string
		moved map[uint64]bool
		feeds map[string]string
		use   float64 // of the port before host 3
		busy  float64 // its contributors, of which 0.25 is use
		want  string
	}{
		{"behind", both, shared, little, 0.95, ""},
		{"on the fast lane", nil, shared, little, 0.95, "-host-3 ended "},
		{"one on the fast lane", map[uint64]bool{2: true}, shared, little, 0.95, "-host-3 ended "},
		{"the other on the fast lane", map[uint64]bool{1: true}, shared, little, 0.95, "-host-3 ended "},
		{"sent nothing", both, shared, 0.001, 0.95, "-host-3 ended "},
		{"nobody waits", both, shared, little, 0.25, "-host-3 ended "},
		{"they have packets for a part of the time", both, shared, little, 0.85, "-host-3 ended "},
		// No host and no link is common to 2's path to 3 and 6's to 5.
		{"elsewhere", both, map[string]string{"host-3": "2", "host-5": "6"}, little, 0.95, "-host-3 ended "},
		// Host 4 is, though host 3 is at its switch.
		{"a host", both, map[string]string{"host-3": "4", "host-5": "4"}, little, 0.95, ""},
		// The link from leaf A is, though nobody feeds both.
		{"a link", both, map[string]string{"host-3": "2", "host-5": "1"}, little, 0.95, ""},
	} {
		b, congested := behindBed(t, c.moved, c.feeds)
		stays := func() *counts {
			x := congested()
			at := b.port("leaf-B", 1)
			x.wait[at], x.use[at] = 0, c.use
			if c.busy < 0.95 {
				x.wait[b.port("host-1", 1)], x.wait[b.port("host-2", 1)] = c.busy-0.25, c.busy-0.25
			}
			return x
		}
		b.round(stays())
		if b.log != c.want {
			t.Errorf("%s: %q, want %q", c.name, b.log, c.want)
		}
		b.log = ""
		if c.want != "" {
			continue
		}
		for range 20 {
			b.c.Moved(both)
			b.round(stays())
		}
		b.want("")
		if x := b.last.Report.Open; len(x) != 2 || !x[0].Behind || x[1].Behind || x[0].Sign != Waiting {
			t.Fatalf("%s: %+v", c.name, x)
		}
		// They take turns: for one round no port shows it.
		x := stays()
		hot := b.port("leaf-C", 1)
		x.wait[hot], x.use[hot] = 0, little
		b.round(x)
		b.want("")
		x = stays()
		x.wait[hot], x.use[hot] = 0, little
		at := b.port("leaf-B", 1)
		x.wait[at], x.use[at] = 0.18, 0.82
		b.round(x)
		b.want("")
		if x := b.last.Report.Open; x[0].Behind || !x[1].Behind {
			t.Errorf("%s, their turns: %+v", c.name, x)
		}
		// Neither receives much now, though their contributors wait, and other hosts send to them.
		x = stays()
		x.wait[hot], x.use[hot] = 0, 0.3
		x.use[at] = 0.3
		b.round(x)
		b.want("")
		b.round(x)
		b.want("-host-3 ended -host-5 ended ")
	}
}

// TestBehindInARow: flows to host 3 meet only those to host 4, which wait behind those to host 5.
func TestBehindInARow(t *testing.T) {
	b, congested := behindBed(t, map[uint64]bool{1: true, 2: true}, map[string]string{"host-3": "2", "host-5": "6", "host-4": "26"})
	also := func() *counts {
		x := congested()
		at := b.port("leaf-B", 2)
		x.wait[at], x.use[at] = 0.18, 0.82
		return x
	}
	b.round(also())
	b.want("+host-4 ")
	ids := map[uint64]bool{1: true, 2: true, 3: true}
	b.c.Moved(ids)
	stays := func() *counts {
		x := also()
		for _, num := range []uint8{1, 2} {
			x.wait[b.port("leaf-B", num)], x.use[b.port("leaf-B", num)] = 0, 0.05
		}
		return x
	}
	for range 5 {
		b.round(stays())
		b.c.Moved(ids)
	}
	b.want("")
	// The end of the one in the middle leaves nothing that host 3's could wait behind.
	x := stays()
	x.use[b.port("leaf-B", 2)] = 0
	b.round(x)
	b.want("-host-3 ended -host-4 ended ")
}
