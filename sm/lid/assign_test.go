package lid

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/store"
	"heddle/subnet"
)

// shown is what the port of a host shows at discovery. The first host is the manager's own.
type shown struct {
	guid   ib.GUID
	lid    ib.LID
	active bool // else the link is in Init
}

// oneSwitch returns a subnet of one switch, GUID 1, with hosts at its ports. The switch's table
// holds LIDs below limit.
func oneSwitch(limit uint16, hosts []shown) *topo.Topology {
	f := topo.New(nil)
	add := func(ni smp.NodeInfo) int32 { return f.AddNode(&ni, f.AddPath(nil)) }
	for i, h := range hosts {
		n := add(smp.NodeInfo{NodeType: ib.NodeCA, NodeGUID: h.guid, PortGUID: h.guid, NumPorts: 1, LocalPortNum: 1})
		if i == 0 {
			add(smp.NodeInfo{NodeType: ib.NodeSwitch, NodeGUID: 1, PortGUID: 1, NumPorts: uint8(len(hosts))})
			f.Self = subnet.Ref{Node: 0, Port: 1}
			f.Nodes[1].Switch.LinearFDBCap = limit
			f.Nodes[1].Flags |= topo.NodeSwitchInfo
			f.PortOf(1, 0).Flags |= topo.PortKnown | topo.PortEnd
		}
		p, q := f.PortOf(n, 1), f.PortOf(1, uint8(i+1))
		state := ib.StateInit
		if h.active {
			state = ib.StateActive
		}
		p.Info.LID, p.Info.PortState, q.Info.PortState = h.lid, state, state
		p.Flags |= topo.PortKnown | topo.PortEnd
		q.Flags |= topo.PortKnown
		f.Join(subnet.Ref{Node: n, Port: 1}, subnet.Ref{Node: 1, Port: uint8(i + 1)})
	}
	f.MarkLinks()
	return f
}

// ranges are the ranges of the end ports as text, in the order of nodes.
func ranges(f *topo.Topology) string {
	var s strings.Builder
	for i := range f.Ports {
		p := &f.Ports[i]
		if !p.Has(topo.PortEnd) {
			continue
		}
		fmt.Fprintf(&s, " %d:%d", uint64(p.GUID), uint16(p.LID))
		if p.LMC > 0 {
			fmt.Fprintf(&s, "/%d", p.LMC)
		}
	}
	return "ranges" + s.String() + "\n"
}

// graph lists the LIDs of a subnet as the manager's graph has them.
func graph(f *topo.Topology, limit int) {
	g := &fabric.Graph{LIDOwner: make([]int32, limit)}
	for i := range g.LIDOwner {
		g.LIDOwner[i] = fabric.NoLID
	}
	f.Graph, f.EndPort = g, nil
	for i := range f.Ports {
		if p := &f.Ports[i]; p.LID != 0 {
			for l := int(p.LID); l < int(p.LID)+1<<p.LMC; l++ {
				g.LIDOwner[l] = int32(len(f.EndPort))
			}
			f.EndPort = append(f.EndPort, int32(i))
		}
	}
}

// TestAssignTranscripts plays sweeps of one switch, GUID 1, with hosts. Commands:
//
//	store           what the store has, one a line: GUID LID[/LMC]
//	sweep           a full sweep, of the hosts that the lines name: GUID, then the LID that the port
//	                shows, then "active" if its link is. Options: table=N, how many LIDs the switch's
//	                table holds (LID 0 included); lmc=N; first, if it is the first of a mastership
//	region          a sweep of a region finds the hosts that the lines name, as for sweep
//	restart         a manager begins with what is stored
//
// A sweep prints the range of each port, what is stored, and what people are told.
func TestAssignTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		x := New()
		var f *topo.Topology
		var b strings.Builder
		option := func(d *datadriven.TestData, key string, n int) int {
			if d.HasArg(key) {
				d.ScanArgs(t, key, &n)
			}
			return n
		}
		tell := func(r Report) {
			kind := "told"
			if r.Problem {
				kind = "problem"
			}
			fmt.Fprintf(&b, "%s: %s at %d: %s\n", kind, r.Kind, uint64(r.Where.Node), r.Text)
		}
		stored := func(ops []store.Op) {
			for _, o := range ops {
				if o.Kind == store.DeleteLID {
					fmt.Fprintf(&b, "store without %d\n", uint64(o.GUID))
				} else {
					fmt.Fprintf(&b, "store %d:%d/%d\n", uint64(o.GUID), uint16(o.LID), o.LMC)
				}
			}
		}
		hosts := func(d *datadriven.TestData) (list []shown) {
			for line := range strings.Lines(d.Input) {
				var h shown
				words := strings.Fields(line)
				number(t, d, words[0], &h.guid)
				if len(words) > 1 {
					number(t, d, words[1], &h.lid)
				}
				h.active = len(words) > 2
				list = append(list, h)
			}
			return list
		}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			b.Reset()
			switch d.Cmd {
			case "store":
				x = New()
				for line := range strings.Lines(d.Input) {
					var e store.LIDEntry
					words := strings.Fields(line)
					number(t, d, words[0], &e.GUID)
					base, lmc, _ := strings.Cut(words[1], "/")
					number(t, d, base, &e.LID)
					if lmc != "" {
						number(t, d, lmc, &e.LMC)
					}
					x.Load([]store.LIDEntry{e})
				}
				return ""
			case "restart":
				y := New()
				for _, g := range x.StoredGUIDs() {
					r, _ := x.Stored(g)
					y.Load([]store.LIDEntry{{GUID: g, LID: r.Base, LMC: r.LMC}})
				}
				x = y
				return ""
			case "sweep":
				limit := option(d, "table", 0xC000)
				f = oneSwitch(uint16(limit), hosts(d))
				rules := Rules{LMC: uint8(option(d, "lmc", 0)), FirstSweep: d.HasArg("first")}
				stored(x.AssignPorts(f, rules, func(*Space) []store.Op { return nil }, tell))
				b.WriteString(ranges(f))
				checkRanges(t, f, x.Limit())
				graph(f, x.Limit())
			case "region":
				var nodes []int32
				for _, h := range hosts(d) {
					n := f.AddNode(&smp.NodeInfo{NodeType: ib.NodeCA, NodeGUID: h.guid, PortGUID: h.guid, NumPorts: 1, LocalPortNum: 1}, f.AddPath(nil))
					p := f.PortOf(n, 1)
					p.Info.LID = h.lid
					p.Flags |= topo.PortKnown | topo.PortEnd | topo.PortLinked
					nodes = append(nodes, n)
				}
				_, ops, outcome := x.AssignRegion(f, nodes, Rules{LMC: uint8(option(d, "lmc", 0))})
				stored(ops)
				if outcome != Assigned {
					b.WriteString("the LIDs of the whole subnet are to be assigned\n")
				} else {
					b.WriteString(ranges(f))
				}
			default:
				d.Fatalf(t, "no such command: %s", d.Cmd)
			}
			return b.String()
		})
	})
}

func number[T ~uint8 | ~uint16 | ~uint64](t *testing.T, d *datadriven.TestData, s string, to *T) {
	var v uint64
	if _, err := fmt.Sscan(s, &v); err != nil {
		d.Fatalf(t, "%q: %v", s, err)
	}
	*to = T(v)
}

// checkRanges verifies that the assigned ranges are aligned, unicast, within the table, and apart.
func checkRanges(t *testing.T, f *topo.Topology, limit int) {
	t.Helper()
	owner := map[int]ib.GUID{}
	for i := range f.Ports {
		p := &f.Ports[i]
		if p.LID == 0 {
			continue
		}
		n := 1 << p.LMC
		if int(p.LID)%n != 0 || int(p.LID)+n > min(limit, int(ib.LIDMaxUnicast)+1) {
			t.Errorf("port %v has LID %d LMC %d in tables of %d", p.GUID, p.LID, p.LMC, limit)
		}
		for l := int(p.LID); l < int(p.LID)+n; l++ {
			if g, ok := owner[l]; ok {
				t.Errorf("LID %d belongs to %v and %v", l, g, p.GUID)
			}
			owner[l] = p.GUID
		}
	}
}

// TestAssignRandom: whatever ports show and the store has, ranges are sound, a LID in use does not
// change without a report, what is returned for the store is what changed, and neither a second
// sweep nor a restart changes anything.
func TestAssignRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	none := func(*Space) []store.Op { return nil }
	for round := range 400 {
		rules := Rules{LMC: uint8(rng.IntN(3)), FirstSweep: true}
		limit := 8 + rng.IntN(60)
		var hosts []shown
		before := map[ib.GUID]ib.LID{}
		for i := range 1 + rng.IntN(10) {
			h := shown{guid: 100 + ib.GUID(i), lid: ib.LID(rng.IntN(24))}
			if h.active = h.lid != 0 && rng.IntN(2) == 0; h.active {
				before[h.guid] = h.lid
			}
			hosts = append(hosts, h)
		}
		x, saved := New(), map[ib.GUID]Range{}
		for range rng.IntN(8) {
			lmc := rng.IntN(3)
			g := 100 + ib.GUID(rng.IntN(14))
			saved[g] = Range{ib.LID(1+rng.IntN(20)) << lmc, uint8(lmc)}
			x.Load([]store.LIDEntry{{GUID: g, LID: saved[g].Base, LMC: saved[g].LMC}})
		}
		f := oneSwitch(uint16(limit), hosts)
		told, moved := 0, 0
		for _, o := range x.AssignPorts(f, rules, none, func(r Report) {
			if r.Kind == notice.KindLIDConflict {
				told++
			}
		}) {
			if delete(saved, o.GUID); o.Kind == store.PutLID {
				saved[o.GUID] = Range{o.LID, o.LMC}
			}
		}
		checkRanges(t, f, limit)
		for i := range f.Ports {
			if p := &f.Ports[i]; p.LID != 0 && before[p.GUID] != 0 && p.Has(topo.PortEnd) && p.LID != before[p.GUID] {
				moved++
			}
		}
		if told < moved {
			t.Errorf("round %d: the LIDs of %d Active ports changed, %d reported", round, moved, told)
		}
		if len(saved) != len(x.StoredGUIDs()) {
			t.Errorf("round %d: %d ranges are stored, the table has %d", round, len(saved), len(x.StoredGUIDs()))
		}
		for g, r := range saved {
			if s, _ := x.Stored(g); s != r {
				t.Errorf("round %d: port %v is stored with %v, the table has %v", round, g, r, s)
			}
		}
		if f.PortOf(1, 0).LID == 0 {
			continue
		}
		again := make([]shown, 0, len(hosts))
		for _, h := range hosts {
			if p := f.PortOf(f.ByGUID[h.guid], 1); p.LID != 0 {
				again = append(again, shown{guid: h.guid, lid: p.LID, active: true})
			}
		}
		if len(again) != len(hosts) {
			continue
		}
		e := oneSwitch(uint16(limit), again)
		if ops := x.AssignPorts(e, Rules{LMC: rules.LMC}, none, func(Report) {}); len(ops) > 0 || ranges(e) != ranges(f) {
			t.Fatalf("round %d: a second sweep changed %s to %s", round, ranges(f), ranges(e))
		}
		x.NewMastership()
		e = oneSwitch(uint16(limit), again)
		if x.AssignPorts(e, rules, none, func(Report) {}); ranges(e) != ranges(f) {
			t.Fatalf("round %d: a restart changed %s to %s", round, ranges(f), ranges(e))
		}
	}
}
