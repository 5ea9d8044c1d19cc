package group

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/internal/routetest"
	"heddle/sm/env/envtest"
	"heddle/sm/forward"
	"heddle/sm/job"
	"heddle/sm/topo"
	"heddle/subnet"
)

// TestTranscripts drives the groups of a ring of three switches with a host each, h0 to h2, at
// port 1. Commands:
//
//	set                  the groups, by lines "MLID MEMBER…"; v1 and so on are virtual ports
//	at MEMBER HOST       a virtual port came to a host ("nowhere": it left)
//	route                the groups as a routing job gets them
//	read S PORT…         the first block of switch S forwards MLID 0xC000 to these ports
//	missing              blocks to be read back
//	installed            the trees that switches hold
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		x := newFixture()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			x.do(t, d)
			return x.Record()
		})
	})
}

type fixture struct {
	*envtest.Board
	groups *Groups
	at     map[ib.GUID]ib.GUID
}

func newFixture() *fixture {
	x := &fixture{Board: envtest.New(0), at: map[ib.GUID]ib.GUID{}}
	net := &routetest.Net{}
	net.Switches(3)
	for s := range 3 {
		net.Host(s, 1)
	}
	for s := range 3 {
		net.Link(s, (s+1)%3)
	}
	f := topo.New(nil)
	f.Graph = net.Graph()
	for s := range f.Graph.Switches {
		sw := &f.Graph.Switches[s]
		ni := f.AddNode(&smp.NodeInfo{NodeType: ib.NodeSwitch, NumPorts: sw.NumPorts, NodeGUID: sw.GUID}, f.AddPath([]byte{1}))
		n := &f.Nodes[ni]
		n.GraphSwitch, n.MFT = int32(s), &forward.Multicast{}
		n.Switch.MulticastFDBCap = 64
		f.SwitchNode = append(f.SwitchNode, ni)
	}
	for i := range f.Graph.EndPorts {
		e := &f.Graph.EndPorts[i]
		if e.Type == ib.NodeSwitch {
			ni, _ := f.Find(e.NodeGUID)
			p := f.PortOf(ni, 0)
			p.GUID = e.GUID
			f.EndPort = append(f.EndPort, f.Nodes[ni].First)
			continue
		}
		ni := f.AddNode(&smp.NodeInfo{NodeType: ib.NodeCA, NumPorts: 1, NodeGUID: e.NodeGUID}, f.AddPath([]byte{1}))
		f.PortOf(ni, 1).GUID = e.GUID
		f.EndPort = append(f.EndPort, f.Nodes[ni].First+1)
	}
	x.Fabric = f
	x.groups = New(&x.Env, x, x)
	return x
}

// PortOf implements Locator.
func (x *fixture) PortOf(member ib.GUID) ib.GUID { return x.at[member] }

// Served implements Tables.
func (x *fixture) Served() *job.Solution { return nil }

// guid is that of a host's port (h0) or of a virtual port (v1).
func (x *fixture) guid(name string) ib.GUID {
	n, err := strconv.Atoi(name[1:])
	switch {
	case err != nil:
		return 0
	case name[0] == 'h':
		return x.Fabric.Graph.EndPorts[n].GUID
	}
	return ib.GUID(0xF0 + n)
}

func (x *fixture) do(t *testing.T, d *datadriven.TestData) {
	switch d.Cmd {
	case "set":
		var list []subnet.Group
		for line := range strings.SplitSeq(d.Input, "\n") {
			words := strings.Fields(line)
			mlid, err := strconv.ParseUint(words[0], 0, 16)
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			g := subnet.Group{MLID: ib.LID(mlid)}
			for _, w := range words[1:] {
				g.Members = append(g.Members, x.guid(w))
			}
			list = append(list, g)
		}
		x.groups.Set(list)
	case "at":
		g := x.guid(d.CmdArgs[0].Key)
		x.at[g] = 0
		if to := d.CmdArgs[1].Key; to != "nowhere" {
			x.at[g] = x.guid(to)
		}
		x.groups.MemberMoved(g)
		x.Printf("to be routed anew: %v\n", x.groups.Moved())
	case "route":
		for _, g := range x.groups.Route() {
			x.Printf("%v:", g.MLID)
			for _, e := range g.Members {
				x.Printf(" h%d", e)
			}
			x.Printf("\n")
		}
	case "read":
		var s int
		if _, err := fmt.Sscanf(d.CmdArgs[0].Key, "s%d", &s); err != nil {
			d.Fatalf(t, "%v", err)
		}
		var b smp.MFT
		for _, a := range d.CmdArgs[1:] {
			p, err := strconv.Atoi(a.Key)
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			b[0] |= 1 << p
		}
		x.Fabric.Nodes[x.Fabric.SwitchNode[s]].MFT.Set(0, 0, &b)
		x.groups.BlockChanged(0)
	case "missing":
		x.groups.missing(func(ni int32, block uint16, position uint8) {
			x.Printf("s%d block %d position %d\n", x.Fabric.Nodes[ni].GraphSwitch, block, position)
		})
	case "installed":
		m := x.groups.Installed()
		if m == nil {
			return
		}
		for _, tree := range m.Trees {
			x.Printf("%v:", tree.MLID)
			for i, s := range tree.Switches {
				x.Printf(" s%d to", s)
				for p := range 16 {
					if tree.Ports[i][0]>>p&1 != 0 {
						x.Printf(" %d", p)
					}
				}
				x.Printf(";")
			}
			x.Printf("\n")
		}
	default:
		d.Fatalf(t, "no such command")
	}
}
