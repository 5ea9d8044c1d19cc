package sim

import (
	"errors"
	"slices"
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
)

// TestTrace follows the tables as packets do.
func TestTrace(t *testing.T) {
	b := newTestbed(t, chain(), Config{}, "H1")
	b.configure()
	hops, err := b.s.Trace(nH1, 1, 4, 0)
	want := []Hop{{nH1, 0, 1}, {nS1, 1, 2}, {nS2, 1, 2}, {nH2, 1, 0}}
	if err != nil || !slices.Equal(hops, want) {
		t.Errorf("%v %v", hops, err)
	}
	if hops, err = b.s.Trace(nH2, 1, 2, 0); err != nil || len(hops) != 3 {
		t.Errorf("to a switch: %v %v", hops, err)
	}
	if hops, err = b.s.Trace(nS1, 0, 1, 0); err != nil || len(hops) != 2 {
		t.Errorf("from a switch: %v %v", hops, err)
	}
	for _, lid := range []ib.LID{5, 0xC000} {
		if _, err = b.s.Trace(nH1, 1, lid, 0); !errors.Is(err, ErrTrace) {
			t.Errorf("to LID %v: %v", lid, err)
		}
	}
	b.s.SetLFT(nS2, 4, 1)
	if _, err = b.s.Trace(nH1, 1, 4, 0); !errors.Is(err, ErrTrace) {
		t.Errorf("in a loop: %v", err)
	}
	b.s.SetLFT(nS2, 4, 2)
	b.set(toS2, smp.AttrSLtoVL, smp.SLtoVLMod(1, 2), &smp.SLtoVL{3: 15})
	if _, err = b.s.Trace(nH1, 1, 4, 0); err != nil {
		t.Error(err)
	}
	if _, err = b.s.Trace(nH1, 1, 4, 3); !errors.Is(err, ErrTrace) {
		t.Errorf("on an SL that is mapped to VL15: %v", err)
	}
}

// TestGraph is the fabric as it is now.
func TestGraph(t *testing.T) {
	b := newTestbed(t, chain(), Config{}, "H1")
	b.configure()
	g, lft := b.s.Graph()
	if len(g.Switches) != 2 || len(g.Channels) != 2 || len(g.EndPorts) != 5 || g.TopLID != 4 {
		t.Fatalf("%+v", g)
	}
	if c := g.Channels[0]; c.To != 1 || c.OutPort != 2 || c.InPort != 1 || c.Rev != 1 || c.Gbps < 99 {
		t.Errorf("%+v", c)
	}
	for lid, guid := range map[ib.LID]ib.GUID{1: 0x101, 2: 0x200, 3: 0x201, 4: 0x111} {
		e := g.EndPorts[g.LIDOwner[lid]]
		if e.GUID != guid || e.LID != lid {
			t.Errorf("LID %v: %+v", lid, e)
		}
		if e.Type == ib.NodeSwitch && g.Switches[e.Switch].EndPort != g.LIDOwner[lid] {
			t.Errorf("switch %d does not know its end port", e.Switch)
		}
	}
	if g.LIDOwner[0] != fabric.NoLID {
		t.Error("somebody owns LID 0")
	}
	if !slices.Equal(lft[1], []byte{255, 1, 1, 0, 2}) {
		t.Errorf("rows %v", lft)
	}
	if got := b.s.LFT(nS2, nil); !slices.Equal(got, lft[1]) {
		t.Errorf("LFT %v", got)
	}
	if err := b.s.NodeDown("S2"); err != nil {
		t.Fatal(err)
	}
	g, lft = b.s.Graph()
	if len(g.Switches) != 1 || len(g.Channels) != 0 || len(lft) != 1 || g.PortChannel[0][2] != -1 {
		t.Errorf("without S2: %+v", g)
	}
	for _, e := range g.EndPorts {
		if e.NodeGUID == 0x110 && e.Switch != -1 {
			t.Errorf("H2 hangs on %d", e.Switch)
		}
	}
	if l := b.s.LIDs(); len(l) != 3 || l[0].LID != 1 || l[2].LID != 4 {
		t.Errorf("%+v", l)
	}
}

// TestOnChange sees Sets and transitions, and nothing when nothing changes.
func TestOnChange(t *testing.T) {
	b := newTestbed(t, chain(), Config{}, "H1")
	var l []Change
	b.s.OnChange = func(c Change) { l = append(l, c) }
	b.mustChange(toS1, 2, func(p *smp.PortInfo) { p.PortState = ib.StateArmed })
	if len(l) != 2 || l[0].Kind != ChangeState || l[0].New != ib.StateArmed || l[0].Port != 2 || l[1].Attr != smp.AttrPortInfo || l[1].Node != nS1 {
		t.Errorf("%+v", l)
	}
	l = nil
	before := b.s.Stats()
	b.get(toS1, smp.AttrLFT, 0)
	if after := b.s.Stats(); len(l) != 0 || after.LFTSets != before.LFTSets || after.PortTransitions != before.PortTransitions {
		t.Errorf("a Get changed something: %+v", l)
	}
}

// TestMulticast: a group's packet is sent once to every port of its mask except the
// ingress port, and to every endpoint there that accepts it.
func TestMulticast(t *testing.T) {
	b := newTestbed(t, chain(), Config{}, "H1")
	b.configure()
	count := map[string]int{}
	for _, n := range []string{"H2", "H2", "S2", "S1", "H1"} {
		e := b.attach(n)
		e.Accepts = func(*mad.Packet) bool { return true }
		e.OnPacket = func(p *mad.Packet) { count[n]++ }
	}
	b.set(toS1, smp.AttrMFT, 0, &smp.MFT{0: 1<<1 | 1<<2})
	b.set(toS2, smp.AttrMFT, 0, &smp.MFT{0: 1<<1 | 1<<2 | 1<<0})
	var m ib.MAD
	m.SetHeader(ib.ClassSA, 2, ib.MethodSend, 1, 0)
	send := func(l ib.LID) {
		clear(count)
		b.e.Send(&mad.Packet{Addr: mad.Addr{LID: l, QP: 1}, LocalQP: 1, Data: m[:]})
	}
	send(0xC000)
	if count["H2"] != 2 || count["S2"] != 1 || count["S1"] != 0 || count["H1"] != 0 {
		t.Errorf("%v", count)
	}
	if p := b.s.MFT(nS2, 0xC000); !slices.Equal(p, []uint8{0, 1, 2}) {
		t.Errorf("%v", p)
	}
	send(0xC001)
	if len(count) != 0 {
		t.Errorf("a group without a table entry reached %v", count)
	}
	b.switchInfo(toS1, func(si *smp.SwitchInfo) { si.DefaultMulticastPrimaryPort = 2 })
	b.switchInfo(toS2, func(si *smp.SwitchInfo) { si.DefaultMulticastPrimaryPort = 2 })
	send(0xC001)
	if count["H2"] != 2 {
		t.Errorf("default ports: %v", count)
	}
	b.switchInfo(toS2, func(si *smp.SwitchInfo) { si.MulticastFDBTop, si.DefaultMulticastPrimaryPort = 0xBFFF, 255 })
	send(0xC000)
	if len(count) != 0 {
		t.Errorf("above MulticastFDBTop: %v", count)
	}
}
