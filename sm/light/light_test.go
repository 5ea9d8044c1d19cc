package light

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/route"
	"heddle/sm/env/envtest"
	"heddle/sm/forward"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/work"
	"heddle/subnet"
)

// TestTranscripts drives light sweeps and audits of a subnet of two switches. s1 has the hosts h1,
// which is the manager's own, and h2 at its ports 1 and 2. Its port 3 leads to s2. Commands:
//
//	agent NAME HOW         what the agent of a switch or host says: same (nothing is new), mute
//	                       (no answer), changed (PortStateChange), top (another LinearFDBTop),
//	                       down (its port), overwritten (a block of its forwarding table)
//	silent NAME            the node did not answer the last sweep, and has no place in the subnet.
//	                       unseen NAME: it keeps its place
//	undescribed NAME       the description of a node could not be read
//	suspect NAME BLOCK     a late copy may have overwritten a block
//	pass D                 virtual time passes; what is due is done
//	sweep [region] [moved s2]  a sweep ends. moved: the path to s2 has changed
//	fault                  a sweep found a link between switches down
//	within D               a light sweep is wanted within a time
//	begin, cut             a light sweep begins; a sweep cuts it short before anything is answered
//	next                   when the next light sweep and the next audit are due
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		x := newFixture(t)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			x.t = t
			x.do(t, d)
			return x.Record()
		})
	})
}

type fixture struct {
	*envtest.Board
	t     *testing.T
	light *Sweep
	how   map[string]string
	wants bool // a sweep was asked for
}

func newFixture(t *testing.T) *fixture {
	x := &fixture{Board: envtest.New(3), t: t, how: map[string]string{}}
	f := x.Fabric
	f.Nodes[0].Desc = "s1"
	f.Nodes[3].Flags |= topo.NodeGone
	info := smp.NodeInfo{NodeType: ib.NodeSwitch, NumPorts: 1, NodeGUID: 0x6, PortGUID: 0x6}
	n := f.AddNode(&info, f.AddPath([]byte{1, 3}))
	f.Nodes[n].Desc = "s2"
	p, q := f.PortOf(0, 3), f.PortOf(n, 1)
	p.Peer, q.Peer = subnet.Ref{Node: n, Port: 1}, subnet.Ref{Node: 0, Port: 3}
	for i := range f.Nodes {
		f.Nodes[i].Flags |= topo.NodeDesc
	}
	for _, n := range []int32{0, n} {
		f.SwitchNode = append(f.SwitchNode, n)
		f.Nodes[n].LFT = &forward.Linear{Top: 63}
		f.Nodes[n].LFT.Set(0, &[route.BlockLen]byte{}, nil)
	}
	x.Sweeper, x.Phase = x, notice.PhaseIdle
	x.light = New(&x.Env, Needs{x, x, x, x})
	x.light.AllRead()
	x.light.Arm(false)
	return x
}

// AskSweep implements env.Sweeper.
func (x *fixture) AskSweep(why string) { x.wants = true; x.Board.AskSweep(why) }

// AskFullSweep implements env.Sweeper.
func (x *fixture) AskFullSweep(why string) { x.wants = true; x.Board.AskFullSweep(why) }

// AskRegion implements Discovery.
func (x *fixture) AskRegion(_ int32, why string) {
	x.wants = true
	x.Printf("region sweep asked for: %s\n", why)
}

// SuspectSwitch implements Discovery.
func (x *fixture) SuspectSwitch(g ib.GUID) { x.Printf("the next sweep reads %s\n", x.name(g)) }

// GiveUp implements Discovery.
func (x *fixture) GiveUp(why string) { x.Printf("the sweep reads everything: %s\n", why) }

// Heard implements Absent.
func (x *fixture) Heard(g ib.GUID) { x.Printf("%s answers again\n", x.name(g)) }

// Silent implements Absent.
func (x *fixture) Silent(g ib.GUID) { x.Printf("%s is still silent\n", x.name(g)) }

// Sane implements Discovery.
func (x *fixture) Sane(*smp.NodeInfo, bool) error { return nil }

// Guess implements Keys: there are two keys.
func (x *fixture) Guess(_ subnet.Ref, try uint32) (ib.MKey, bool) { return ib.MKey(try), try < 2 }

// Publish implements Publisher.
func (x *fixture) Publish() { x.Printf("publish\n") }

func (x *fixture) name(g ib.GUID) string {
	n, _ := x.Fabric.Find(g)
	return x.Fabric.Nodes[n].Desc
}

// node is the index of a node.
func (x *fixture) node(t *testing.T, name string) int32 {
	for i := range x.Fabric.Nodes {
		if x.Fabric.Nodes[i].Desc == name {
			return int32(i)
		}
	}
	t.Fatalf("there is no node %s", name)
	return 0
}

func (x *fixture) do(t *testing.T, d *datadriven.TestData) {
	arg := func(i int) string {
		if i < len(d.CmdArgs) {
			return d.CmdArgs[i].Key
		}
		return ""
	}
	duration := func() time.Duration {
		w, err := time.ParseDuration(arg(0))
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	f := x.Fabric
	switch d.Cmd {
	case "agent":
		x.how[arg(0)] = arg(1)
	case "silent", "unseen":
		n := x.node(t, arg(0))
		q := f.Port(f.PortOf(n, 1).Peer)
		q.Flags |= topo.PortSilent
		if d.Cmd == "unseen" {
			f.Nodes[n].Flags |= topo.NodeUnseen
			break
		}
		f.Nodes[n].Flags |= topo.NodeGone | topo.NodeOut
		q.Peer = subnet.NoRef()
	case "undescribed":
		f.Nodes[x.node(t, arg(0))].Flags &^= topo.NodeDesc
	case "suspect":
		b, err := strconv.Atoi(arg(1))
		if err != nil {
			t.Fatal(err)
		}
		forward.BitSet(&f.Nodes[x.node(t, arg(0))].LFT.Suspect, b)
		x.light.AuditAt(x.Now.Add(mad.LateCopy))
	case "pass":
		x.Pass(duration())
		x.due()
	case "sweep":
		x.wants = false
		x.light.SweepBegins()
		region := false
		for _, a := range d.CmdArgs {
			region = region || a.Key == "region"
			if a.Key == "s2" {
				f.Nodes[x.node(t, "s2")].Path = f.AddPath([]byte{1, 2, 3})
			}
		}
		if region {
			x.light.SettleMute()
		} else {
			x.light.Forget()
			x.light.AllRead()
		}
		x.light.Arm(false)
	case "fault":
		x.light.Watch()
		x.light.Arm(false)
	case "within":
		x.light.Within(duration())
	case "cut":
		for x.Todo.N > 0 {
			x.light.Canceled(x.Todo.Pop())
		}
		x.light.CutShort()
		x.Phase, x.Pending, x.wants = notice.PhaseIdle, 0, true
	case "next":
		x.Printf("light sweep %s, audit %s, %d ended\n", x.in(x.light.Next()), x.in(x.light.NextAudit()), x.light.Count())
	case "begin":
		if !x.light.Ready() {
			t.Fatal("no subnet")
		}
		x.Phase = notice.PhaseLight
		x.light.Start()
		x.Printf("%d requests wait\n", x.Todo.N)
	default:
		t.Fatalf("unknown command %s", d.Cmd)
	}
}

// in says how far off a time is.
func (x *fixture) in(at mad.Time) string {
	if at == mad.Never {
		return "never"
	}
	return "in " + at.Sub(x.Now).String()
}

// due does what is due.
func (x *fixture) due() {
	switch {
	case x.light.NextAudit() <= x.Now && x.light.AuditReady():
		x.Phase = notice.PhaseLight
		x.light.StartAudit()
	case x.light.Next() <= x.Now && x.light.Ready():
		x.Phase = notice.PhaseLight
		x.light.Start()
	default:
		return
	}
	x.Run(part{x.light}, x.agent)
	x.Phase = notice.PhaseIdle
	x.light.Done(x.wants)
}

// part builds also what others build for a Sweep.
type part struct{ *Sweep }

func (p part) Build(it work.Item, get func(ib.AttrID, uint32), set func(ib.AttrID, uint32) []byte) bool {
	switch it.Op() {
	case work.OpLightProbe:
		get(smp.AttrNodeInfo, it.Extra())
		return true
	case work.OpGetLFT:
		get(smp.AttrLFT, it.Extra())
		return true
	}
	return p.Sweep.Build(it, get, set)
}

// agent plays the agents.
func (x *fixture) agent(s *envtest.SMP) (ib.Status, error) {
	n := &x.Fabric.Nodes[s.Port.Node]
	name := n.Desc
	if s.Attr == smp.AttrNodeInfo { // of whoever is behind the port
		switch s.Port.Num {
		case 2:
			name = "h2"
		case 3:
			name = "s2"
		}
		x.Printf("Get(NodeInfo) of %s with key %d\n", name, s.Mod)
	} else {
		x.Printf("Get(%s) of %s\n", ib.AttrName(ib.ClassSubnDR, s.Attr), name)
	}
	how := x.how[name]
	if how == "mute" {
		return 0, mad.ErrTimeout
	}
	switch s.Attr {
	case smp.AttrSwitchInfo:
		sw := smp.SwitchInfo{LinearFDBTop: 63, PortStateChange: how == "changed"}
		if how == "top" {
			sw.LinearFDBTop = 5
		}
		sw.Put(s.Data)
	case smp.AttrNodeInfo:
		ni := x.Fabric.Nodes[x.node(x.t, name)].Info
		ni.Put(s.Data)
	case smp.AttrPortInfo:
		pi := s.Port.Info
		if how == "down" {
			pi.PortState = ib.StateDown
		}
		pi.Put(s.Data)
	case smp.AttrNodeDescription:
		copy(s.Data, fmt.Sprintf("%-64s", name))
	case smp.AttrLFT:
		clear(s.Data)
		if how == "overwritten" {
			s.Data[7] = 9
		}
	}
	return 0, nil
}
