package sm

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/sm/config"
	"heddle/sm/lid"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/store"
)

// show is what an end port shows at discovery. GUID 100 is our own host's;
// 0 as state means Init.
type show struct {
	guid  ib.GUID
	lid   ib.LID
	state ib.PortState
}

// withLMC is the usual configuration with another LMC.
func withLMC(lmc uint8) config.Config {
	c := config.Defaults()
	c.LMC = lmc
	return c
}

// found makes a core that has just discovered one switch (GUID 1) with hosts
// on its ports, as in hosts; the first is our own.
func found(cfg config.Config, fdbcap uint16, hosts ...show) *Core {
	c := New(cfg)
	c.FirstSweep = true
	c.Fabric = topo.New(nil)
	f := c.Fabric
	add := func(ni smp.NodeInfo) int32 { return f.AddNode(&ni, f.AddPath(nil)) }
	for i, h := range hosts {
		n := add(smp.NodeInfo{NodeType: ib.NodeCA, NodeGUID: h.guid, PortGUID: h.guid, NumPorts: 1, LocalPortNum: 1})
		if i == 0 {
			add(smp.NodeInfo{NodeType: ib.NodeSwitch, NodeGUID: 1, PortGUID: 1, NumPorts: uint8(len(hosts))})
			f.Self = ref{Node: 0, Port: 1}
			f.Nodes[1].Switch.LinearFDBCap = fdbcap
			f.Nodes[1].Flags |= topo.NodeSwitchInfo
			f.PortOf(1, 0).Flags |= topo.PortKnown | topo.PortEnd
		}
		state := max(h.state, ib.StateInit)
		p, q := f.PortOf(n, 1), f.PortOf(1, uint8(i+1))
		p.Info.LID, p.Info.PortState, q.Info.PortState = h.lid, state, state
		p.Flags |= topo.PortKnown | topo.PortEnd
		q.Flags |= topo.PortKnown
		p.Peer, q.Peer = ref{Node: 1, Port: uint8(i + 1)}, ref{Node: n, Port: 1}
	}
	c.out = &Output{}
	c.Output = c.out
	c.Fabric.MarkLinks()
	return c
}

// given are the ranges after assignLIDs, as text in GUID order.
func (c *Core) given() string {
	s := ""
	for _, e := range c.endPorts() {
		p := &c.Fabric.Ports[e.idx]
		s += fmt.Sprintf("%d:%d ", uint64(p.GUID), uint16(p.LID))
		if p.LMC > 0 {
			s = s[:len(s)-1] + fmt.Sprintf("/%d ", p.LMC)
		}
	}
	return s
}

func kinds(o *Output) (s string) {
	for i := range o.Notices {
		s += o.Notices[i].Kind.String() + " "
	}
	return s
}

const active = ib.StateActive

// TestAssign: the order of claims on a LID, as the comment of assignLIDs has
// it.
func TestAssign(t *testing.T) {
	st := func(l ...lid.Range) map[ib.GUID]lid.Range { // by GUID 100, 101, …
		m := map[ib.GUID]lid.Range{}
		for i, r := range l {
			if r.Base != 0 {
				m[100+ib.GUID(i)] = r
			}
		}
		return m
	}
	for _, x := range []struct {
		name   string
		lmc    uint8
		cap    uint16
		hosts  []show
		stored map[ib.GUID]lid.Range
		before map[ib.GUID]lid.Range // of this mastership
		later  bool                  // not the first sweep of it
		want   string
		told   string
	}{
		{name: "from nothing: in GUID order, lowest first", hosts: []show{{guid: 102}, {guid: 100}, {guid: 101}}, want: "1:1 100:2 101:3 102:4 "},
		{
			name: "an Active port's LID wins over the store", hosts: []show{{100, 7, active}, {101, 9, active}},
			stored: st(lid.Range{Base: 5}, lid.Range{Base: 6}), want: "1:1 100:7 101:9 ",
		},
		{
			name: "the store wins over a port in Init", hosts: []show{{100, 7, 0}, {101, 9, 0}},
			stored: st(lid.Range{Base: 5}, lid.Range{Base: 6}), want: "1:1 100:5 101:6 ",
		},
		{name: "a port in Init keeps what nobody else wants", hosts: []show{{100, 7, 0}, {101, 0, 0}}, want: "1:1 100:7 101:2 "},
		{
			name: "but not what the store reserves for an absent one", hosts: []show{{100, 7, 0}},
			stored: map[ib.GUID]lid.Range{200: {Base: 7}}, want: "1:1 100:2 ",
		},
		{
			name: "two Active ports with one LID: the stored one keeps it", hosts: []show{{100, 7, active}, {101, 7, active}},
			stored: st(lid.Range{}, lid.Range{Base: 7}), want: "1:1 100:2 101:7 ", told: "lid_conflict ",
		},
		{name: "neither stored: the lower GUID keeps it", hosts: []show{{101, 7, active}, {100, 7, active}}, want: "1:1 100:7 101:2 ", told: "lid_conflict "},
		{
			name: "what this mastership gave wins over what a port shows", later: true, hosts: []show{{100, 7, active}, {101, 9, active}},
			before: st(lid.Range{Base: 3}, lid.Range{Base: 4}), want: "1:1 100:3 101:4 ",
		},
		{
			name: "a newcomer with a LID in use is moved", later: true, hosts: []show{{100, 3, active}, {101, 3, active}},
			before: st(lid.Range{Base: 3}), want: "1:1 100:3 101:2 ", told: "lid_conflict ",
		},
		{name: "multicast and permissive LIDs are none", hosts: []show{{100, 0xC000, active}, {101, 0xFFFF, active}}, want: "1:1 100:2 101:3 "},
		{name: "a LID beyond the table is moved", cap: 16, hosts: []show{{100, 15, active}, {101, 16, active}}, want: "1:1 100:15 101:2 ", told: "lid_conflict "},
		{name: "a stored LID beyond the table is moved", cap: 16, hosts: []show{{guid: 100}}, stored: st(lid.Range{Base: 16}), want: "1:1 100:2 ", told: "lid_conflict "},
		{name: "LMC aligns", lmc: 2, hosts: []show{{guid: 100}, {guid: 101}}, want: "1:1 100:4/2 101:8/2 "},
		{
			name: "an Active LID that LMC does not allow is moved", lmc: 1, hosts: []show{{100, 6, active}, {101, 9, active}},
			want: "1:1 100:6/1 101:2/1 ", told: "lid_conflict ",
		},
		{
			name: "a changed LMC keeps what is still aligned", lmc: 1, hosts: []show{{guid: 100}, {guid: 101}},
			stored: st(lid.Range{Base: 4}, lid.Range{Base: 8, LMC: 3}), want: "1:1 100:4/1 101:8/1 ",
		},
		{
			name: "ranges may not overlap", lmc: 2, hosts: []show{{100, 8, active}, {101, 10, active}},
			want: "1:1 100:8/2 101:4/2 ", told: "lid_conflict ",
		},
		{
			name: "none left: the absent give theirs up, the lowest GUID first", cap: 4, hosts: []show{{guid: 100}, {guid: 101}},
			stored: map[ib.GUID]lid.Range{200: {Base: 1}, 201: {Base: 2}, 202: {Base: 3}}, want: "1:1 100:2 101:3 ",
		},
		{name: "none left at all: our own port and switches first", cap: 3, hosts: []show{{guid: 100}, {guid: 101}}, want: "1:2 100:1 101:0 ", told: "no_lid "},
	} {
		t.Run(x.name, func(t *testing.T) {
			fdb := x.cap
			if fdb == 0 {
				fdb = 0xC000
			}
			c := found(withLMC(x.lmc), fdb, x.hosts...)
			c.FirstSweep = !x.later
			storedLIDs(c, x.stored)
			for g, r := range x.before {
				c.lids.Assign(g, r)
			}
			ops := c.assignLIDs()
			if got := c.given(); got != x.want {
				t.Errorf("given %s, want %s", got, x.want)
			}
			if got := kinds(c.out); got != x.told {
				t.Errorf("told %q, want %q", got, x.told)
			}
			c.fits(t, fdb)
			// What is to be stored is exactly what changed.
			m := store.NewMemory()
			for g, r := range x.stored {
				if err := m.Apply([]store.Op{{Kind: store.PutLID, GUID: g, LID: r.Base, LMC: r.LMC}}); err != nil {
					t.Fatal(err)
				}
			}
			for g, r := range x.before {
				if err := m.Apply([]store.Op{{Kind: store.PutLID, GUID: g, LID: r.Base, LMC: r.LMC}}); err != nil {
					t.Fatal(err)
				}
			}
			if err := m.Apply(ops); err != nil {
				t.Fatal(err)
			}
			state, err := m.Load()
			if err != nil {
				t.Fatal(err)
			}
			inStore := map[ib.GUID]lid.Range{}
			for _, e := range state.LIDs {
				inStore[e.GUID] = lid.Range{Base: e.LID, LMC: e.LMC}
			}
			for _, g := range c.lids.StoredGUIDs() {
				if r, _ := c.lids.Stored(g); inStore[g] != r {
					t.Errorf("port %v: stored %v, believed stored %v", g, inStore[g], r)
				}
			}
			if n := len(c.lids.StoredGUIDs()); len(inStore) != n {
				t.Errorf("%d entries stored, %d believed", len(inStore), n)
			}
			// Once more: nothing moves, nothing is stored.
			before := c.given()
			for i := range c.Fabric.Ports {
				p := &c.Fabric.Ports[i]
				p.Info.LID, p.LID = p.LID, 0
			}
			c.FirstSweep = false
			if ops := c.assignLIDs(); len(ops) != 0 || c.given() != before {
				t.Errorf("a second time: %d operations, given %s", len(ops), c.given())
			}
		})
	}
}

// fits judges the ranges given: aligned, unicast, within the table, apart.
func (c *Core) fits(t *testing.T, fdb uint16) {
	t.Helper()
	owner := map[int]ib.GUID{}
	for i := range c.Fabric.Ports {
		p := &c.Fabric.Ports[i]
		if p.LID == 0 {
			continue
		}
		n := 1 << p.LMC
		if int(p.LID)%n != 0 || int(p.LID)+n > min(int(fdb), int(ib.LIDMaxUnicast)+1) {
			t.Errorf("port %v has LID %d LMC %d in tables of %d", p.GUID, p.LID, p.LMC, fdb)
		}
		for l := int(p.LID); l < int(p.LID)+n; l++ {
			if g, ok := owner[l]; ok {
				t.Errorf("LID %d belongs to %v and %v", l, g, p.GUID)
			}
			owner[l] = p.GUID
		}
	}
}

// TestAssignRandom: whatever ports show and the store says, ranges are sound,
// a LID in use is not moved without being told, and a restart changes nothing.
func TestAssignRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for round := range 400 {
		cfg := withLMC(uint8(rng.IntN(3)))
		fdb := uint16(8 + rng.IntN(60))
		var hosts []show
		for i := range 1 + rng.IntN(10) {
			h := show{guid: 100 + ib.GUID(i), lid: ib.LID(rng.IntN(24))}
			if h.lid != 0 && rng.IntN(2) == 0 {
				h.state = active
			}
			hosts = append(hosts, h)
		}
		c := found(cfg, fdb, hosts...)
		for range rng.IntN(8) {
			lmc := rng.IntN(3)
			g := 100 + ib.GUID(rng.IntN(14))
			c.lids.Load([]store.LIDEntry{{GUID: g, LID: ib.LID(1+rng.IntN(20)) << lmc, LMC: uint8(lmc)}})
		}
		shown := map[ib.GUID]ib.LID{}
		for _, h := range hosts {
			if h.state == active {
				shown[h.guid] = h.lid
			}
		}
		c.assignLIDs()
		c.fits(t, fdb)
		moved := 0
		for i := range c.Fabric.Ports {
			if p := &c.Fabric.Ports[i]; p.LID != 0 && shown[p.GUID] != 0 && p.Has(topo.PortEnd) && p.LID != shown[p.GUID] {
				moved++
			}
		}
		told := 0
		for i := range c.out.Notices {
			if n := &c.out.Notices[i]; n.Kind == notice.KindLIDConflict {
				told++
			}
		}
		if told < moved {
			t.Errorf("round %d: %d Active ports were moved, %d told", round, moved, told)
		}
		// The manager restarts on what it left, all links Active.
		var again []show
		for _, h := range hosts {
			n := c.Fabric.ByGUID[h.guid]
			if p := c.Fabric.PortOf(n, 1); p.LID != 0 {
				again = append(again, show{h.guid, p.LID, active})
			}
		}
		if len(again) == 0 || again[0].guid != hosts[0].guid || c.Fabric.PortOf(1, 0).LID == 0 || len(again) != len(hosts) {
			continue
		}
		d := found(cfg, fdb, again...)
		for _, g := range c.lids.StoredGUIDs() {
			r, _ := c.lids.Stored(g)
			storedLIDs(d, map[ib.GUID]lid.Range{g: r})
		}
		d.assignLIDs()
		if c.given() != d.given() {
			t.Fatalf("round %d: a restart changed %s to %s", round, c.given(), d.given())
		}
	}
}

// storedLIDs has a core begin with LIDs from the store.
func storedLIDs(c *Core, list map[ib.GUID]lid.Range) {
	for g, r := range list {
		c.lids.Load([]store.LIDEntry{{GUID: g, LID: r.Base, LMC: r.LMC}})
	}
}
