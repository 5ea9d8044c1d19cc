package trap

import (
	"testing"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
)

func TestCount(t *testing.T) {
	var tab Table
	s := Source{LID: 7, Trap: smp.TrapPortStateChange, Port: 3}
	now := mad.Time(0)
	for want := uint32(1); want < 2*Noisy; want++ {
		now = now.Add(Window) // not longer than Window: it goes on
		if k := tab.Count(now, s); k != want {
			t.Fatalf("arrival %d counts as %d", want, k)
		}
	}
	if k := tab.Count(now, Source{LID: 8, Trap: s.Trap, Port: 3}); k != 1 {
		t.Errorf("another source counts as %d", k)
	}
	if k := tab.Count(now.Add(Window+1), s); k != 1 {
		t.Errorf("after a pause it counts as %d", k)
	}
}

// TestFull: a sender that makes up LIDs fills the table; who is in it is counted on, new
// ones are ignored until there is room again.
func TestFull(t *testing.T) {
	var tab Table
	for i := range maxSources {
		tab.Count(mad.Time(i), Source{LID: ib.LID(i), Port: uint8(i >> 16)})
	}
	now := mad.Time(maxSources)
	if k := tab.Count(now, Source{LID: 1, Port: 99}); k <= Noisy {
		t.Errorf("a new source counts as %d although the table is full", k)
	}
	if k := tab.Count(now, Source{LID: 1}); k != 2 {
		t.Errorf("one that is known counts as %d", k)
	}
	if k := tab.Count(now.Add(2*Window), Source{LID: 1, Port: 99}); k != 1 || len(tab.src) != 1 {
		t.Errorf("later it counts as %d, %d are remembered", k, len(tab.src))
	}
}

func TestClaims(t *testing.T) {
	port := smp.NewTrap(smp.TrapLocalPhyErrors, smp.ProducerSwitch, 4, smp.DetailPort{LID: 5, PortNum: 6})
	image := smp.NewTrap(smp.TrapSystemImageGUID, smp.ProducerCA, 9, smp.DetailImage{LID: 9})
	vendor := port
	vendor.IsGeneric = false
	odd := port
	odd.TrapNumber = 77
	for _, c := range []struct {
		name string
		n    smp.Notice
		kind uint16
		lids [2]ib.LID
		port uint8
	}{
		{"errors on a port", port, smp.TrapLocalPhyErrors, [2]ib.LID{4, 5}, 6},
		{"another image GUID", image, smp.TrapSystemImageGUID, [2]ib.LID{9, 9}, 0},
		{"a vendor's", vendor, Vendor, [2]ib.LID{4}, 0},
		{"an unknown number", odd, Unknown, [2]ib.LID{4}, 0},
	} {
		if k := Kind(&c.n); k != c.kind {
			t.Errorf("%s: kind %d, want %d", c.name, k, c.kind)
		}
		if l, p := Claims(&c.n); l != c.lids || p != c.port {
			t.Errorf("%s: LIDs %v port %d, want %v and %d", c.name, l, p, c.lids, c.port)
		}
	}
}
