package lane

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/route"
	"heddle/sm/config"
	"heddle/sm/env/envtest"
	"heddle/sm/topo"
	"heddle/sm/work"
	"heddle/subnet"
)

// TestTranscripts plays one switch with two hosts, h1 at port 1 and h2 at port 2. Links have four
// VLs, arbitration tables 8 entries. All tables are zero at first. Commands:
//
//	wanted vls=N        forwarding tables that use N VLs are to be installed
//	qos CLASS LANES     the configuration gives the class of ports (ca, sw0, swe) lanes, one digit a
//	                    level, and a low table with one entry for each; cap N is the room of
//	                    low tables, port0 makes the switch's port 0 an enhanced one
//	unmap               forwarding tables are about to be written
//	start, first        set the tables up: of links that come up, or of all before the first
//	                    forwarding tables that use VLs
//	stage IN OUT …      a stage of a transition sets these tables of the switch
//	break IN OUT …      the same, but its requests are sent and then canceled
//	init HOST, active HOST  both ends of the host's link are in that state
//	one                 the switch can program an output port for all input ports
//	read [NODE]         the tables of a node, or of all, are asked for
//	upkeep              what the manager reads until it has nothing more to do now
//	agent NODE HOW      how an agent behaves: answer, mute (no answer), refuse
//	reset               the switch is discovered again after a reset
//	pass D              virtual time passes
//	show                what a snapshot has
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		x := newFixture()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			x.do(t, d)
			return x.Record()
		})
	})
}

// fixture is the tables, the other parts and the agents.
type fixture struct {
	*envtest.Board
	l       *Tables
	wanted  *route.Tables
	inStage bool
	have    map[string][]byte // tables of agents, by SMP without its data
	how     map[string]string
}

func newFixture() *fixture {
	x := &fixture{
		Board: envtest.New(2), wanted: &route.Tables{NumVLs: 1}, have: map[string][]byte{}, how: map[string]string{},
	}
	f := x.Fabric
	f.Nodes[0].Desc, f.SwitchNode = "switch", []int32{0}
	f.PortOf(0, 0).LID, f.PortOf(0, 0).Info.LID = 3, 3
	for i := range f.Ports {
		p := &f.Ports[i]
		p.Info.CapabilityMask = ib.CapIsSLMappingSupported
		p.Info.VLCap, p.Info.OperationalVLs = 3, 3
		p.Info.VLArbitrationLowCap, p.Info.VLArbitrationHighCap = 8, 8
	}
	x.l = New(&x.Env, x, x, x)
	return x
}

func (x *fixture) do(t *testing.T, d *datadriven.TestData) {
	switch d.Cmd {
	case "wanted":
		n := 0
		d.ScanArgs(t, "vls", &n)
		x.wanted = &route.Tables{NumVLs: n}
	case "qos":
		x.Config.QoS = true
		for class := range config.NumPortClasses {
			if class.String() != d.CmdArgs[0].Key {
				continue
			}
			lanes := &x.Config.Lanes[class]
			*lanes = config.Lanes{SLtoVL: &smp.SLtoVL{}}
			for sl, c := range d.CmdArgs[1].Key {
				lanes.SLtoVL[sl] = ib.VL(c - '0')
				lanes.Low = append(lanes.Low, smp.VLArbEntry{VL: ib.VL(c - '0'), Weight: uint8(sl + 1)})
			}
		}
	case "cap":
		for i := range x.Fabric.Ports {
			x.Fabric.Ports[i].Info.VLArbitrationLowCap = uint8(x.number(t, d, 0))
		}
	case "port0":
		x.Fabric.Nodes[0].Switch.EnhancedPort0 = true
	case "unmap":
		x.l.Unmap()
		x.Printf("set up: %v\n", x.l.SetUp())
	case "start":
		x.l.Start()
		x.Run(x.l, x.agent)
		x.l.Done(true)
		x.Printf("set up: %v\n", x.l.SetUp())
	case "first":
		x.l.StartFirst()
		x.Run(x.l, x.agent)
		x.l.FirstDone()
		x.Printf("set up: %v\n", x.l.SetUp())
	case "stage", "break":
		x.inStage = true
		for i := 0; i < len(d.CmdArgs); i += 2 {
			x.Add(work.Make(work.OpSetSL, 0, uint8(x.number(t, d, i+1)), uint32(x.number(t, d, i))))
		}
		for d.Cmd == "break" && x.Todo.N > 0 {
			x.l.Doubt(x.Todo.Pop())
			x.Finish()
		}
		x.Run(x.l, x.agent)
		x.inStage = false
	case "init", "active":
		s := map[string]ib.PortState{"init": ib.StateInit, "active": ib.StateActive}[d.Cmd]
		p := x.Host(t, d.CmdArgs[0].Key)
		p.Info.PortState, x.Switch(p).Info.PortState = s, s
	case "one":
		x.Fabric.Nodes[0].Switch.OptimizedSLtoVLMappingProgramming = 1
	case "read":
		var nodes []ib.GUID
		for _, a := range d.CmdArgs {
			g := envtest.SwitchGUID
			if a.Key != "switch" {
				g = x.Host(t, a.Key).GUID
			}
			nodes = append(nodes, g)
		}
		x.l.Read(nodes)
	case "upkeep":
		for x.l.Next() <= x.Now {
			x.l.Upkeep(8)
			x.Printf("%d requests\n", x.Todo.N)
			x.Run(x.l, x.agent)
		}
		if at := x.l.Next(); at != mad.Never {
			x.Printf("again in %v\n", at.Sub(x.Now))
		}
	case "agent":
		x.how[d.CmdArgs[0].Key] = d.CmdArgs[1].Key
	case "reset":
		x.Fabric.Nodes[0].Flags |= topo.NodeReset
		x.l.Discovered(true)
		x.Fabric.Nodes[0].Flags &^= topo.NodeReset
	case "pass":
		dur, err := time.ParseDuration(d.CmdArgs[0].Key)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		x.Pass(dur)
	case "show":
		x.show()
	default:
		d.Fatalf(t, "there is no command %q", d.Cmd)
	}
}

func (x *fixture) number(t *testing.T, d *datadriven.TestData, i int) (n int) {
	if _, err := fmt.Sscan(d.CmdArgs[i].Key, &n); err != nil {
		d.Fatalf(t, "%v", err)
	}
	return n
}

// agent plays the agents: it has the tables that were set, zeros before.
func (x *fixture) agent(s *envtest.SMP) (ib.Status, error) {
	node := x.Fabric.Nodes[s.Port.Node].Desc
	name := node + " " + table(s)
	how := x.how[node]
	if !s.Set {
		clear(s.Data)
		copy(s.Data, x.have[name])
		if how != "" && how != "answer" {
			x.Printf("Get %s: %s\n", name, how)
		}
	} else {
		x.Printf("Set %s: %s\n", name, content(s.Attr, s.Data))
	}
	switch how {
	case "mute":
		return 0, mad.ErrTimeout
	case "refuse":
		return ib.StatusBadMethodAttr, nil
	}
	if s.Set {
		x.have[name] = append([]byte(nil), s.Data...)
	}
	return 0, nil
}

// table names the table of an SMP.
func table(s *envtest.SMP) string {
	if s.Attr == smp.AttrVLArb {
		part, port := smp.SplitVLArbMod(s.Mod)
		return fmt.Sprintf("VLArb port %d block %d", port, part)
	}
	in, out, all, _ := smp.SplitSLtoVLMod(s.Mod)
	if all {
		return fmt.Sprintf("SLtoVL any to %d", out)
	}
	return fmt.Sprintf("SLtoVL %d to %d", in, out)
}

// content is a table as text: VLs by SL, or the entries with a weight.
func content(attr ib.AttrID, data []byte) string {
	if attr == smp.AttrSLtoVL {
		var t smp.SLtoVL
		_ = t.Decode(data)
		return strings.Trim(fmt.Sprint(t), "[]")
	}
	var t smp.VLArb
	_ = t.Decode(data)
	var list []string
	for _, e := range t {
		if e.Weight > 0 {
			list = append(list, fmt.Sprintf("VL%d×%d", e.VL, e.Weight))
		}
	}
	return strings.Join(list, " ")
}

// show prints how many tables of each node a snapshot has.
func (x *fixture) show() {
	s := &subnet.Snapshot{Nodes: make([]subnet.Node, len(x.Fabric.Nodes))}
	for i := range x.Fabric.Nodes {
		s.Nodes[i].Info = x.Fabric.Nodes[i].Info
	}
	x.l.Show(s)
	if x.l.ToShow() {
		x.l.Shown()
		x.Printf("all tables of a node were read\n")
	}
	for i, l := range s.Lanes {
		if l == nil {
			continue
		}
		count := func(list []uint16) (known, refused int) {
			for _, k := range list {
				switch k {
				case 0:
				case unreadable:
					refused++
				default:
					known++
				}
			}
			return known, refused
		}
		sl, noSL := count(l.SL)
		arb, noArb := count(l.Arb)
		x.Printf("%s: SLtoVL %d known, %d refused; VLArb %d known, %d refused; complete %v\n",
			x.Fabric.Nodes[i].Desc, sl, noSL, arb, noArb, l.Complete)
	}
}

func (x *fixture) Wanted() *route.Tables { return x.wanted }
func (x *fixture) InStage() bool         { return x.inStage }

func (x *fixture) LaneWritten(it work.Item, _ smp.SLtoVL) {
	x.Printf("the stage has port %d to %d\n", it.Extra(), it.Port())
}

func (x *fixture) LaneDoubted(it work.Item) {
	x.Printf("in doubt: port %d to %d\n", it.Extra(), it.Port())
}

func (x *fixture) LaneUnread() {}

func (x *fixture) ScopeNodes(fn func(ni int32, n *topo.Node)) {
	for i := range x.Fabric.Nodes {
		fn(int32(i), &x.Fabric.Nodes[i])
	}
}

func (x *fixture) Moves(*topo.Port) bool { return true }

// TestOtherPorts: a node that was discovered with other ports has no tables that are known.
func TestOtherPorts(t *testing.T) {
	x := newFixture()
	n := &x.Fabric.Nodes[0]
	for _, ports := range []uint8{n.Info.NumPorts, 40, 2} {
		n.Info.NumPorts = ports
		x.l.Discovered(true)
		x.l.putSL(0, ports, ports, 1)
		x.l.putArb(0, ports, 4, 1)
		if l := x.l.of(0); len(l.arb) != 4*(int(ports)+1) {
			t.Errorf("%d ports: %d rows", ports, len(l.arb))
		}
	}
}
