// Package installtest drives parts of a subnet manager that have tables written: it has a small
// network whose switches take what an Installer sends them.
package installtest

import (
	"fmt"
	"strings"
	"testing"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/internal/routetest"
	"heddle/mad"
	"heddle/route/transition"
	"heddle/sm/env/envtest"
	"heddle/sm/install"
	"heddle/sm/job"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/work"
	"heddle/subnet"
)

// Network is a network with the Installer of its manager. Switches are named s0, s1 and so on.
type Network struct {
	*envtest.Board
	Net     *routetest.Net
	Install *install.Installer
	Mute    string // the switch that does not answer; "" for none
	// Written is called for each acknowledged block, if not nil.
	Written func(s int32, block int)

	held map[string][]byte // blocks of switches, by switch and block
}

// New returns the network of some lines "switches N", "link A B" and "host SWITCH", as a discovery
// finds it. LIDs are given to the hosts from 1 on, then to the switches. The first host is the
// manager's own.
func New(t *testing.T, lines string) *Network {
	x := &Network{Board: envtest.New(0), Net: &routetest.Net{}, held: map[string][]byte{}}
	for line := range strings.SplitSeq(lines, "\n") {
		var a, b int
		if n, _ := fmt.Sscanf(line, "switches %d", &a); n == 1 {
			x.Net.Switches(a)
		} else if n, _ := fmt.Sscanf(line, "link s%d s%d", &a, &b); n == 2 {
			x.Net.Link(a, b)
		} else if n, _ := fmt.Sscanf(line, "host s%d", &a); n == 1 {
			x.Net.Host(a, 1)
		} else {
			t.Fatalf("%q is no line of a network", line)
		}
	}
	x.Config.DrainTime = 0
	x.Engine = mad.NewEngine(mad.Config{Window: x.Config.Window, Timeout: x.Config.SMPTimeout, FirstTID: 1})
	x.Sweeper = x
	x.Install = install.New(&x.Env, x, x.Config.Flight())
	x.Discover()
	return x
}

// Discover makes the network the subnet as a discovery finds it.
func (x *Network) Discover() {
	g := x.Net.Graph()
	if s := x.Install.Served(); s != nil && len(s.Graph.Channels) == len(g.Channels) {
		g = s.Graph
	}
	f := topo.New(nil)
	f.Graph = g
	for s := range g.Switches {
		sw := &g.Switches[s]
		info := smp.NodeInfo{NodeType: ib.NodeSwitch, NumPorts: sw.NumPorts, NodeGUID: sw.GUID, PortGUID: sw.GUID}
		ni := f.AddNode(&info, f.AddPath([]byte{1, byte(s)}))
		n := &f.Nodes[ni]
		n.Desc, n.GraphSwitch = fmt.Sprintf("s%d", s), int32(s)
		n.Switch.LinearFDBCap = sw.LinearFDBCap
		if old, ok := x.Fabric.Find(sw.GUID); ok && x.Fabric.Nodes[old].LFT != nil {
			n.Switch.LinearFDBTop = x.Fabric.Nodes[old].LFT.Top
		}
		f.SwitchNode = append(f.SwitchNode, ni)
		for i := range f.NodePorts(ni) {
			p := f.PortOf(ni, uint8(i))
			p.Flags, p.Info.PortState = topo.PortKnown, ib.StateDown
		}
	}
	for i := range g.Channels {
		c := &g.Channels[i]
		p := f.PortOf(c.From, c.OutPort)
		p.Flags |= topo.PortLinked
		p.Info.PortState, p.Peer = ib.StateActive, subnet.Ref{Node: c.To, Port: c.InPort}
	}
	for i := range g.EndPorts {
		e := &g.EndPorts[i]
		ni := e.Switch
		if e.Type != ib.NodeSwitch {
			info := smp.NodeInfo{NodeType: e.Type, NumPorts: 1, NodeGUID: e.NodeGUID, PortGUID: e.GUID}
			ni = f.AddNode(&info, f.AddPath([]byte{1, byte(e.Switch), e.Port}))
			f.Nodes[ni].Desc = fmt.Sprintf("h%d", e.LID)
		}
		p := f.PortOf(ni, e.PortNum)
		p.GUID, p.LID, p.Info.LID, p.Flags = e.GUID, e.LID, e.LID, p.Flags|topo.PortKnown|topo.PortEnd
		f.EndPort = append(f.EndPort, f.Nodes[ni].First+int32(e.PortNum))
	}
	f.Self = subnet.Ref{Node: f.Ports[f.EndPort[0]].Node, Port: g.EndPorts[0].PortNum}
	x.Config.PortGUID = g.EndPorts[0].GUID
	x.Fabric, x.SnapshotFabric = f, f
	for _, ni := range f.SwitchNode {
		x.Install.Take(ni, false, false)
	}
}

// ReadBack reads the blocks that are not known.
func (x *Network) ReadBack() {
	x.Install.Missing(func(ni int32, block int) { x.Add(work.Make(work.OpGetLFT, ni, 0, uint32(block))) })
	x.Work()
}

// Distribute writes tables by their plan. It reports what was written, and whether all of it was
// acknowledged.
func (x *Network) Distribute(r *job.Result) {
	over := false
	x.Install.Begin(r, func(failed string) {
		over = true
		if failed != "" {
			x.Printf("broken off: %s\n", failed)
		}
	})
	for !over {
		x.Work()
		x.Install.Continue()
	}
	n := x.Install.Counts()
	x.Printf("%d blocks written, all acknowledged: %v\n", n.LFT, x.Install.Sure())
}

// Work carries out the items on the work list, and lets a wait pass.
func (x *Network) Work() {
	for x.Todo.N > 0 {
		it := x.Todo.Pop()
		n := &x.Fabric.Nodes[it.Node()]
		switch it.Op() {
		case work.OpSetSwitch:
			x.Finish()
			sw := n.Switch
			sw.LinearFDBTop = x.Install.Top()
			n.Switch = sw
			x.Install.TopSet(n, &sw)
		case work.OpSetPort:
			x.Finish()
			p := x.Fabric.PortOf(it.Node(), it.Port())
			x.Printf("Set %s: LID %d\n", n.Desc, p.LID)
			if n.Desc == x.Mute {
				x.SetFailed(it.Node(), int(it.Port()), "Set(PortInfo)", mad.ErrTimeout)
				break
			}
			p.Info.LID = p.LID
		default:
			x.Do(x.Install, it, func(s *envtest.SMP) (ib.Status, error) {
				key := fmt.Sprint(n.Desc, " ", s.Mod)
				switch {
				case n.Desc == x.Mute:
					return 0, mad.ErrTimeout
				case s.Set:
					x.held[key] = append([]byte(nil), s.Data...)
				default:
					copy(s.Data, x.held[key])
				}
				return 0, nil
			})
		}
	}
	if at := x.Install.Next(); at != mad.Never {
		x.Printf("wait %v\n", at.Sub(x.Now))
		x.Now = at
		x.Install.Due()
	}
}

// SetFailed implements env.Sweeper.
func (x *Network) SetFailed(node int32, _ int, what string, err error) {
	x.Errs++
	x.Printf("%s at %s failed (%v): the sweep is repeated\n", what, x.Fabric.Nodes[node].Desc, err)
}

// Enter implements install.Sweep.
func (x *Network) Enter(p notice.Phase) { x.Phase, x.Pending, x.Total = p, 0, 0 }

// ScopeNodes implements install.Sweep.
func (x *Network) ScopeNodes(fn func(ni int32, n *topo.Node)) {
	for i := range x.Fabric.Nodes {
		fn(int32(i), &x.Fabric.Nodes[i])
	}
}

// BlockWritten implements install.Sweep.
func (x *Network) BlockWritten(s int32, block int) {
	if x.Written != nil {
		x.Written(s, block)
	}
}

// PublishTold implements install.Sweep.
func (x *Network) PublishTold() { x.Printf("hosts learn of the new service levels\n") }

// TakeDown implements install.Sweep.
func (x *Network) TakeDown() {}

// TookDown implements install.Sweep.
func (x *Network) TookDown() int { return 0 }

// AddLanes implements install.Sweep.
func (x *Network) AddLanes([]transition.LaneTable) {}

// AuditAt implements install.Sweep.
func (x *Network) AuditAt(mad.Time) {}

// GroupsChanged implements install.Sweep.
func (x *Network) GroupsChanged(uint16) {}
