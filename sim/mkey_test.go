package sim

import (
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
)

const key ib.MKey = 0x1122334455667788

func (b *testbed) protect(path []byte, port uint32, bits uint8, lease uint16) {
	b.Helper()
	b.mustChange(path, port, func(p *smp.PortInfo) {
		p.MKey, p.MKeyProtectBits, p.MKeyLeasePeriod = key, bits, lease
	})
}

// TestMKey is the table of IBA §14.2.4: requests that each protect level permits.
func TestMKey(t *testing.T) {
	for _, c := range []struct {
		bits        uint8
		get, reads  bool // Get passes; M_Key is shown
		setPasses   bool
		getWithZero bool
	}{
		{0, true, true, false, true},
		{1, true, false, false, true},
		{2, false, false, false, false},
		{3, false, false, false, false},
	} {
		b := newTestbed(t, chain(), Config{}, "H1")
		b.configure()
		b.protect(toH2, 1, c.bits, 0)
		for _, wrong := range []ib.MKey{0, 42} {
			b.key = wrong
			r, st := b.get(toH2, smp.AttrPortInfo, 1)
			if (st == ib.StatusOK) != c.get {
				t.Errorf("protect %d, Get with key %d: %v", c.bits, wrong, st)
			}
			if r != nil {
				var pi smp.PortInfo
				if err := pi.Decode(smp.Data(r)); err != nil || (pi.MKey == key) != c.reads {
					t.Errorf("protect %d: M_Key reads %#x", c.bits, pi.MKey)
				}
			}
			if _, st := b.set(toH2, smp.AttrLedInfo, 0, raw64{}); st != noAnswer {
				t.Errorf("protect %d, Set with key %d: %v", c.bits, wrong, st)
			}
		}
		b.key = key
		pi, st := b.change(toH2, 1, func(p *smp.PortInfo) {})
		if st != ib.StatusOK || pi.MKey != key {
			t.Errorf("protect %d, right key: %v, M_Key shown as %#x", c.bits, st, pi.MKey)
		}
		if want := map[bool]uint16{true: 2, false: 4}[c.get]; pi.MKeyViolations != want {
			t.Errorf("protect %d: %d violations, want %d", c.bits, pi.MKeyViolations, want)
		}
	}
}

// TestMKeyOfSwitch: the key of port 0 protects all ports; protect bits without a key
// protect nothing.
func TestMKeyOfSwitch(t *testing.T) {
	b := newTestbed(t, chain(), Config{}, "H1")
	b.configure()
	b.mustChange(toS1, 0, func(p *smp.PortInfo) { p.MKeyProtectBits = 3 })
	if _, st := b.get(toS1, smp.AttrPortInfo, 2); st != ib.StatusOK {
		t.Errorf("protect bits 3 with key 0: %v", st)
	}
	b.protect(toS1, 0, 2, 0)
	for _, port := range []uint32{0, 2} {
		if _, st := b.get(toS1, smp.AttrPortInfo, port); st != noAnswer {
			t.Errorf("port %d of a protected switch answers %v", port, st)
		}
	}
	if _, st := b.get(toS2, smp.AttrNodeInfo, 0); st != ib.StatusOK {
		t.Errorf("a protected switch does not forward: %v", st)
	}
}

// TestMKeyOfBothPorts: a Get through one port of a CA about another must have
// the key of both.
func TestMKeyOfBothPorts(t *testing.T) {
	b := newTestbed(t, chain(), Config{}, "H1")
	b.configure()
	b.s.infos[b.s.devs[nH1].first+2].MKey = 99
	b.s.infos[b.s.devs[nH1].first+2].MKeyProtectBits = 2
	if _, st := b.get(toH1, smp.AttrPortInfo, 2); st != noAnswer {
		t.Errorf("other port's key was not asked for: %v", st)
	}
	if _, st := b.get(toH1, smp.AttrPortInfo, 1); st != ib.StatusOK {
		t.Error(st)
	}
}

// TestMKeyLease: a refusal starts the lease, a right key stops it, its end
// clears the protect bits and keeps the key.
func TestMKeyLease(t *testing.T) {
	b := newTestbed(t, chain(), Config{}, "H1")
	b.configure()
	b.protect(toH2, 1, 2, 10)
	wrong := func() ib.Status { b.key = 1; _, st := b.get(toH2, smp.AttrPortInfo, 1); return st }
	right := func() ib.Status { b.key = key; _, st := b.get(toH2, smp.AttrPortInfo, 1); return st }
	wrong()
	b.s.RunUntil(b.s.Now().Add(9 * time.Second))
	if right() != ib.StatusOK {
		t.Fatal("right key refused")
	}
	b.s.RunUntil(b.s.Now().Add(20 * time.Second))
	if wrong() != noAnswer {
		t.Error("the lease went on although the right key was seen")
	}
	b.s.RunUntil(b.s.Now().Add(5 * time.Second))
	wrong() // does not start it again
	b.s.RunUntil(b.s.Now().Add(5 * time.Second))
	if wrong() != ib.StatusOK {
		t.Error("the lease did not expire")
	}
	if pi := b.s.PortInfo(nH2, 1); pi.MKey != key || pi.MKeyProtectBits != 0 {
		t.Errorf("after the lease: key %#x bits %d", pi.MKey, pi.MKeyProtectBits)
	}
	b.key = key
	b.protect(toH2, 1, 0, 0)
	for range 3 {
		b.key = 1
		b.set(toH2, smp.AttrLedInfo, 0, raw64{})
	}
	b.s.infos[b.s.devs[nH2].first+1].MKeyViolations = 0xFFFF
	b.set(toH2, smp.AttrLedInfo, 0, raw64{})
	if v := b.s.PortInfo(nH2, 1).MKeyViolations; v != 0xFFFF {
		t.Errorf("violations wrapped to %d", v)
	}
	b.key = key
	b.mustChange(toH2, 1, func(p *smp.PortInfo) { p.MKeyViolations = 7 })
	if v := b.s.PortInfo(nH2, 1).MKeyViolations; v != 0xFFFF {
		t.Errorf("writing 7 changed the violations to %d", v)
	}
	b.mustChange(toH2, 1, func(p *smp.PortInfo) { p.MKeyViolations = 0 })
	if v := b.s.PortInfo(nH2, 1).MKeyViolations; v != 0 {
		t.Errorf("writing 0 left %d violations", v)
	}
}

// TestTrap256 carries the details of the refused SMP.
func TestTrap256(t *testing.T) {
	b := newTestbed(t, chain(), Config{}, "H1")
	b.configure()
	b.protect(toH2, 1, 2, 0)
	b.e.Accepts = func(*mad.Packet) bool { return true }
	b.key = 0xBAD
	b.get(toH2, smp.AttrPortInfo, 0x80000001)
	n := b.notice()
	d := n.DataDetails
	if n.TrapNumber != 256 || n.Type != smp.NoticeSecurity || n.IssuerLID != 4 || n.Producer != smp.ProducerCA {
		t.Fatalf("%+v", n)
	}
	want := [30]byte{}
	copy(want[:], []byte{1, 1, 1})
	if d[3] != 4 || d[4] != 0xFF || d[6] != byte(ib.MethodGet) || d[9] != byte(smp.AttrPortInfo) || d[10] != 0x80 || d[13] != 1 ||
		d[20] != 0x0B || d[21] != 0xAD || d[23] != 0x83 || [30]byte(d[24:]) != want {
		t.Errorf("details % x", d)
	}
}

// notice is the last trap that came in.
func (b *testbed) notice() (n smp.Notice) {
	b.Helper()
	for i := range b.got {
		m := ib.MAD(b.got[i].Data)
		if m.Method() == ib.MethodTrap {
			if err := n.Decode(smp.Data(&m)); err != nil {
				b.Fatal(err)
			}
		}
	}
	return n
}
