package peek

import (
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/env/envtest"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/work"
	"heddle/subnet"
)

// TestTranscripts plays three switches in a row, s1 to s3, and the manager's host, h1, on s1. Each
// switch is linked to the next one by its ports 2 and 1. Commands:
//
//	phase NAME      the sweep enters a phase: distribute, discover, or idle
//	trap SWITCH     a switch has sent trap 128
//	all             a light-sweep interval has passed
//	agent SWITCH [mute] [changed] [down=PORT]
//	                how a switch answers: not at all, with PortStateChange, with a port down
//	wait SWITCH     the phase waits for an answer of a switch
//	pass D          virtual time passes
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := newStage()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.do(t, d)
			return s.Record()
		})
	})
}

type agent struct {
	mute, changed bool
	down          uint8
}

type stage struct {
	*envtest.Board
	p      *Peeks
	agents map[int32]*agent
}

func newStage() *stage {
	s := &stage{Board: envtest.New(1), agents: map[int32]*agent{}}
	s.Output = s
	s.Config.SMPTimeout = 200 * time.Millisecond
	s.Engine = mad.NewEngine(mad.Config{Window: 64, Timeout: s.Config.SMPTimeout})
	f := topo.New(nil)
	s.Fabric, s.SnapshotFabric = f, f
	add := func(ty ib.NodeType, ports uint8, desc string, path ...byte) {
		g := ib.GUID(0x100 + len(f.Nodes))
		n := f.AddNode(&smp.NodeInfo{NodeType: ty, NumPorts: ports, NodeGUID: g, PortGUID: g}, f.AddPath(path))
		f.Nodes[n].Desc = desc
		for i := range f.NodePorts(n) {
			p := f.PortOf(n, uint8(i))
			p.Flags |= topo.PortKnown
			p.Info.PortState = ib.StateActive
		}
	}
	add(ib.NodeCA, 1, "h1")
	add(ib.NodeSwitch, 2, "s1", 1)
	add(ib.NodeSwitch, 2, "s2", 1, 2)
	add(ib.NodeSwitch, 2, "s3", 1, 2, 2)
	f.Self = ref{Node: 0, Port: 1}
	f.Join(f.Self, ref{Node: 1, Port: 1})
	f.Nodes[1].Via = f.Self
	for n := int32(1); n < 3; n++ {
		f.Join(ref{Node: n, Port: 2}, ref{Node: n + 1, Port: 1})
		f.Nodes[n+1].Via = ref{Node: n, Port: 2}
	}
	f.MarkLinks()
	f.Graph, f.SwitchNode = &fabric.Graph{}, []int32{1, 2, 3}
	for n := range f.Nodes {
		s.agents[int32(n)] = &agent{}
	}
	s.p = New(&s.Env, Needs{Sweeps: s, Discovery: s})
	return s
}

// Send implements env.Output: nothing listens, answers come from the requests under way.
func (s *stage) Send(*mad.Packet) {}

func (s *stage) PortChanged(_ int32, why string) { s.Printf("region asked for: %s\n", why) }
func (s *stage) LinkDown(_ int32, why string)    { s.Printf("sweep broken off: %s\n", why) }
func (s *stage) LookAt(at subnet.Ref, asked bool) bool {
	if s.Phase == notice.PhaseDiscover && s.Region && !asked {
		s.Printf("discovery reads %s port %d\n", s.Fabric.Nodes[at.Node].Desc, at.Port)
	}
	return s.Phase == notice.PhaseDiscover && s.Region
}

func (s *stage) do(t *testing.T, d *datadriven.TestData) {
	arg := func(i int) string { return d.CmdArgs[i].Key }
	node := func(i int) int32 {
		for n := range s.Fabric.Nodes {
			if s.Fabric.Nodes[n].Desc == arg(i) {
				return int32(n)
			}
		}
		t.Fatalf("no node %q", arg(i))
		return -1
	}
	switch d.Cmd {
	case "phase":
		s.Phase = map[string]notice.Phase{"distribute": notice.PhaseDistribute, "discover": notice.PhaseDiscover, "idle": notice.PhaseIdle}[arg(0)]
		s.Region = s.Phase == notice.PhaseDiscover
		s.PhaseStart = s.Now
	case "trap":
		s.p.At(s.Fabric.Nodes[node(0)].Info.NodeGUID)
		s.p.Send()
	case "all":
		if !s.p.Useful() {
			s.Printf("of no use in this phase\n")
			break
		}
		s.p.All()
	case "agent":
		a := s.agents[node(0)]
		*a = agent{mute: d.HasArg("mute"), changed: d.HasArg("changed")}
		if d.HasArg("down") {
			var n int
			d.ScanArgs(t, "down", &n)
			a.down = uint8(n)
		}
	case "wait":
		s.Pending++
		s.Ask(work.Make(work.OpSwitchInfo, node(0), 0, 0), smp.AttrSwitchInfo, 0, mad.Normal)
		s.Engine.Poll(s.Now, s.Send)
		return
	case "pass":
		dur, err := time.ParseDuration(arg(0))
		if err != nil {
			t.Fatal(err)
		}
		for end := s.Now.Add(dur); s.p.Next() <= end; {
			s.Now = s.p.Next()
			s.Printf("after %v without an answer:\n", s.Now.Sub(s.PhaseStart))
			s.p.Stalled()
			s.answer()
		}
		s.Pass(dur)
	default:
		t.Fatalf("no such command: %s", d.Cmd)
	}
	s.answer()
}

// answer has the peeks answered, until there are none.
func (s *stage) answer() {
	for {
		s.Engine.Poll(s.Now, s.Send)
		var list []work.Item
		s.Engine.Pending(func(token uint64, _ bool) {
			if it := work.Item(token); it.OutOfPhase() {
				list = append(list, it)
			}
		})
		if len(list) == 0 {
			return
		}
		slices.Sort(list)
		for _, it := range list {
			s.Engine.Cancel(uint64(it), uint64(it))
			s.reply(it)
		}
	}
}

func (s *stage) reply(it work.Item) {
	a := s.agents[it.Node()]
	var m ib.MAD
	smp.NewDR(&m, ib.MethodGetResp, smp.AttrSwitchInfo, 0, 0, nil)
	comp := &mad.Completion{MAD: &m}
	name := s.Fabric.Nodes[it.Node()].Desc
	switch {
	case it.Op() == work.OpPeekPort:
		pi := smp.PortInfo{PortState: ib.StateActive}
		if a.down == it.Port() {
			pi.PortState = ib.StateDown
		}
		pi.Put(smp.Data(&m))
		name += " port " + string('0'+rune(it.Port()))
		s.Printf("ask %s", name)
		if !a.mute {
			s.Printf(": %v", pi.PortState)
		}
	default:
		sw := smp.SwitchInfo{PortStateChange: a.changed}
		sw.Put(smp.Data(&m))
		s.Printf("ask %s", name)
		if !a.mute {
			s.Printf(": port state change %v", a.changed)
		}
	}
	if a.mute {
		s.Printf(": no answer")
		comp.MAD, comp.Err = nil, mad.ErrTimeout
	}
	s.Printf("\n")
	s.p.Answered(it, comp)
}
