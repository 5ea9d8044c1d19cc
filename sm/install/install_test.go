package install

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/internal/routetest"
	"heddle/mad"
	"heddle/route"
	"heddle/route/engine/updn"
	"heddle/route/move"
	"heddle/route/transition"
	"heddle/sm/env/envtest"
	"heddle/sm/forward"
	"heddle/sm/job"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/work"
	"heddle/subnet"
)

// TestTranscripts drives an Installer alone: what it writes and how long it waits. Commands:
//
//	net                  a network, by lines "switches N", "link A B", "host SWITCH [times N]"; LIDs are given
//	                     to the hosts from 1, then to the switches
//	unlink A B, link A B change it
//	distribute [mute=S]  route the network and install the tables; switch S does not answer
//	move LID=N to=M [mute=S]  give LID N the entries of LID M
//	stop                 begin a distribution, and break it off when its first stage is sent
//	rehome LID=N to=M    the graph has LID N at the port of LID M, and nothing is written yet
//	told                 the entries of the tables that hosts are told of
//	known                what is known of each switch, and what is to be read back
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		x := &fixture{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			x.do(t, d)
			return x.Record()
		})
	})
}

type fixture struct {
	*envtest.Board
	net  *routetest.Net
	in   *Installer
	mute string
	over bool
}

func (x *fixture) do(t *testing.T, d *datadriven.TestData) {
	arg := func(i int) (n int) {
		if _, err := fmt.Sscanf(d.CmdArgs[i].Key, "s%d", &n); err != nil {
			d.Fatalf(t, "%v", err)
		}
		return n
	}
	x.mute = ""
	d.MaybeScanArgs(t, "mute", &x.mute)
	switch d.Cmd {
	case "net":
		*x = fixture{Board: envtest.New(0), net: &routetest.Net{}}
		for line := range strings.SplitSeq(d.Input, "\n") {
			var a, b int
			if n, _ := fmt.Sscanf(line, "switches %d", &a); n == 1 {
				x.net.Switches(a)
			} else if n, _ := fmt.Sscanf(line, "link s%d s%d", &a, &b); n == 2 {
				x.net.Link(a, b)
			} else if n, _ := fmt.Sscanf(line, "host s%d times %d", &a, &b); n == 2 {
				for range b {
					x.net.Host(a, 1)
				}
			} else if n == 1 {
				x.net.Host(a, 1)
			} else {
				d.Fatalf(t, "%q is no line of a network", line)
			}
		}
		x.Config.DrainTime = 0
		x.in = New(&x.Env, x, x.Config.Flight())
		x.discover()
	case "unlink":
		x.net.Unlink(arg(0), arg(1))
		x.discover()
	case "link":
		x.net.Link(arg(0), arg(1))
		x.discover()
	case "distribute":
		x.in.Begin(x.route(t), x.end)
		x.run()
		x.in.Drop()
	case "stop":
		x.in.Begin(x.route(t), x.end)
		for x.Todo.N == 0 {
			x.in.Continue()
		}
		for x.Todo.N > 0 {
			x.in.Doubt(x.Todo.Pop())
			x.Finish()
		}
		x.Printf("stopped, failing: %v\n", x.in.Stop())
		x.in.WantServed()
	case "move":
		var lid, to int
		d.ScanArgs(t, "LID", &lid)
		d.ScanArgs(t, "to", &to)
		list := []move.Request{{LID: ib.LID(lid), Kind: move.Copy, With: ib.LID(to)}}
		r := (&job.Job{Graph: x.Fabric.Graph, Move: &job.Moves{Tables: x.in.Served().Tables, Requests: list}}).Run(1)
		if r.Err != nil {
			d.Fatalf(t, "%v", r.Err)
		}
		x.Phase = notice.PhaseMove
		x.in.BeginMoves(r.Move, list, func(failed string) {
			if failed == "" {
				x.Fabric.Graph = r.Move.Graph
				x.in.Moved(r.Move)
			}
			x.end(failed)
		})
		x.run()
	case "rehome":
		var lid, to int
		d.ScanArgs(t, "LID", &lid)
		d.ScanArgs(t, "to", &to)
		g := *x.Fabric.Graph
		g.LIDOwner = slices.Clone(g.LIDOwner)
		g.LIDOwner[lid] = g.LIDOwner[to]
		x.Fabric.Graph = &g
	case "told":
		told := x.in.Told()
		for s := range x.Fabric.Graph.Switches {
			x.Printf("s%d:", s)
			for l := ib.LID(1); l <= told.TopLID; l++ {
				if p := told.Entry(int32(s), l); p != route.Drop {
					x.Printf(" %d→%d", l, p)
				}
			}
			x.Printf("\n")
		}
	case "known":
		for s, ni := range x.Fabric.SwitchNode {
			l := x.Fabric.Nodes[ni].LFT
			x.Printf("s%d: top %d, known %v\n", s, l.Top, forward.BitGet(l.Known, 0))
		}
		x.in.Missing(func(ni int32, b int) { x.Printf("to be read: s%d block %d\n", x.Fabric.Nodes[ni].GraphSwitch, b) })
	default:
		d.Fatalf(t, "no such command")
	}
}

// discover gives the Installer the network as a discovery finds it.
func (x *fixture) discover() {
	g := x.net.Graph()
	if s := x.in.Served(); s != nil && len(s.Graph.Channels) == len(g.Channels) {
		g = s.Graph
	}
	f := topo.New(nil)
	f.Graph = g
	for s := range g.Switches {
		sw := &g.Switches[s]
		info := smp.NodeInfo{NodeType: ib.NodeSwitch, NumPorts: sw.NumPorts, NodeGUID: sw.GUID, PortGUID: sw.GUID}
		ni := f.AddNode(&info, f.AddPath([]byte{1, byte(s)}))
		n := &f.Nodes[ni]
		n.GraphSwitch = int32(s)
		n.Switch.LinearFDBCap = sw.LinearFDBCap
		if old, ok := x.Fabric.Find(sw.GUID); ok && x.Fabric.Nodes[old].LFT != nil {
			n.Switch.LinearFDBTop = x.Fabric.Nodes[old].LFT.Top
		}
		f.SwitchNode = append(f.SwitchNode, ni)
	}
	for i := range g.Channels {
		c := &g.Channels[i]
		p := f.PortOf(c.From, c.OutPort)
		p.Flags |= topo.PortKnown | topo.PortLinked
		p.Info.PortState, p.Peer = ib.StateActive, subnet.Ref{Node: c.To, Port: c.InPort}
	}
	x.Fabric, x.SnapshotFabric = f, f
	for ni := range f.Nodes {
		if _, foreign := x.in.Take(int32(ni), false, false); foreign {
			x.Printf("s%d has another LinearFDBTop than was written\n", ni)
		}
	}
}

// route plans the tables that an engine finds.
func (x *fixture) route(t *testing.T) *job.Result {
	j := &job.Job{
		Graph: x.Fabric.Graph, Mode: job.Full, Engines: []route.Engine{updn.Engine{}}, Installed: x.in.Rows(), Served: x.in.Served(),
		Transition: transition.Options{SwitchLifetime: time.Second, HOQLife: time.Second, RepathTime: time.Second},
	}
	r := j.Run(1)
	if r.Tables == nil {
		t.Fatal(r.Err)
	}
	x.Printf("%v: %s\n", r.Plan.Mode, r.Plan.Reason)
	x.in.Want(r.Tables)
	return r
}

// run takes a change to its end.
func (x *fixture) run() {
	for x.over = false; !x.over; {
		for x.Todo.N > 0 {
			x.one(x.Todo.Pop())
		}
		if at := x.in.Next(); at != mad.Never {
			x.Printf("wait %v\n", at.Sub(x.Now))
			x.Now = at
			x.in.Due()
		}
		x.in.Continue()
	}
}

// one carries out an item.
func (x *fixture) one(it work.Item) {
	n := &x.Fabric.Nodes[it.Node()]
	name := fmt.Sprintf("s%d", n.GraphSwitch)
	if it.Op() == work.OpSetSwitch {
		x.Finish()
		sw := n.Switch
		sw.LinearFDBTop = x.in.Top()
		x.Printf("  %s LinearFDBTop %d\n", name, sw.LinearFDBTop)
		n.Switch = sw
		x.in.TopSet(n, &sw)
		return
	}
	x.Do(x.in, it, func(s *envtest.SMP) (ib.Status, error) {
		x.Printf("  %s block %d:", name, s.Mod)
		for l, p := range s.Data[:min(int(x.in.Top())+1, route.BlockLen)] {
			if s.Mod > 0 {
				break // of the others it is enough that they are sent
			}
			if p != route.Drop {
				x.Printf(" %d→%d", l, p)
			}
		}
		x.Printf("\n")
		if name == x.mute {
			x.Errs++
			return 0, mad.ErrTimeout
		}
		return 0, nil
	})
}

func (x *fixture) end(failed string) {
	x.over = true
	if failed != "" {
		x.Printf("broken off: %s\n", failed)
		return
	}
	x.Printf("installed, every switch acknowledged: %v\n", x.in.Sure())
}

func (x *fixture) Enter(p notice.Phase) {
	x.Phase = p
	x.Printf("%v\n", p)
}

func (x *fixture) ScopeNodes(fn func(ni int32, n *topo.Node)) {
	for i := range x.Fabric.Nodes {
		fn(int32(i), &x.Fabric.Nodes[i])
	}
}

func (x *fixture) TakeDown()                         {}
func (x *fixture) TookDown() int                     { return 0 }
func (x *fixture) AddLanes(_ []transition.LaneTable) {}
func (x *fixture) PublishTold()                      { x.Printf("hosts learn of the new service levels\n") }

func (x *fixture) AuditAt(at mad.Time)     { x.Printf("  read again in %v\n", at.Sub(x.Now)) }
func (x *fixture) BlockWritten(int32, int) {}
func (x *fixture) GroupsChanged(uint16)    {}
