package discover

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/absent"
	"heddle/sm/agenda"
	"heddle/sm/env/envtest"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/vport"
	"heddle/sm/work"
	"heddle/subnet"
)

// TestTranscripts discovers small subnets, one request at a time. Commands:
//
//	subnet          what is plugged together, one link a line: "h1 s1:2" is port 1 of host h1 and
//	                port 2 of switch s1. Switches have 4 ports. The manager is on h1.
//	link A:P STATE  a link is down, init or active; new links are Active
//	agent NODE HOW  a node answers, is mute, claims the GUID of another node (as=NODE), hides its
//	                M_Key (key=N), or answers NodeInfo with GUID 0 (garbage)
//	connect A:P B:Q the cable at A:P goes from now on to B:Q; the link comes up in Init
//	full            a full discovery
//	explore A…      a region discovery of these switches
//	pass D          virtual time passes
//
// A discovery prints the requests and how they end, the outcome, and what the topology has now.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := newStage()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.do(t, d)
			return s.Record()
		})
	})
}

// device is a node of the real subnet, which the discovery has to find.
type device struct {
	name  string
	info  smp.NodeInfo
	ports []plug // by number
	mute  bool
	bad   bool // its NodeInfo has GUID 0
	as    *device
	key   ib.MKey
}

type plug struct {
	to    *device
	port  uint8
	state ib.PortState
}

// stage is a discovery, the real subnet, and the other parts.
type stage struct {
	*envtest.Board
	d       *Discovery
	devices map[string]*device
	began   int // full discoveries that began
}

func newStage() *stage {
	s := &stage{Board: envtest.New(1), devices: map[string]*device{}}
	s.Fabric = nil
	s.Engine = mad.NewEngine(mad.Config{Window: 1, Timeout: time.Second})
	s.Sweeper = s
	s.Config.SweepInterval = 10 * time.Second
	a := absent.New(&s.Env, absent.Needs{Keys: s, VPorts: s})
	s.d = New(&s.Env, Needs{Absent: a, Keys: s, Links: s, Managers: s, PKeys: s, Sweeps: s})
	return s
}

// The configured M_Key is 7; the store knows of 8, too.
const ownKey = 7

func (s *stage) Collect() {}
func (s *stage) Guess(_ subnet.Ref, try uint32) (ib.MKey, bool) {
	return s.NextHidden(try)
}

func (s *stage) NextHidden(try uint32) (ib.MKey, bool) {
	if try > 1 {
		return 0, false
	}
	return ownKey + ib.MKey(try), true
}
func (s *stage) Neighbors() map[topo.PortID]ib.GUID { return nil }
func (s *stage) Unsure([]ib.GUID) []ib.GUID         { return nil }
func (s *stage) All() []*vport.Adapter              { return nil }
func (s *stage) KeptOut(subnet.Ref, bool) bool      { return false }
func (s *stage) LinkFailed(a, b subnet.Ref) {
	s.Printf("failed: the link between %s and %s\n", s.at(a), s.at(b))
}
func (s *stage) Compare()              {}
func (s *stage) Gone(at subnet.Ref)    {}
func (s *stage) Discovered(*topo.Port) {}
func (s *stage) SettleMute()           {}
func (s *stage) BeginFull() {
	if s.began++; s.began > 1 {
		s.Printf("a full discovery begins\n")
	}
	s.Todo.Clear()
	s.Pending = 0
	s.Region = false
}
func (s *stage) Problem(at topo.Where, n notice.Notice) { s.d.Problem(at, n) }

func (s *stage) at(r subnet.Ref) string {
	return fmt.Sprintf("%s:%d", s.nameOf(s.Fabric.Nodes[r.Node].Info.NodeGUID), r.Port)
}

func (s *stage) nameOf(g ib.GUID) string {
	for name, d := range s.devices {
		if d.info.NodeGUID == g {
			return name
		}
	}
	return g.String()
}

func (s *stage) device(name string) *device {
	if d := s.devices[name]; d != nil {
		return d
	}
	var n uint64
	_, _ = fmt.Sscan(name[1:], &n)
	d := &device{name: name, info: smp.NodeInfo{NodeType: ib.NodeCA, NumPorts: 1, NodeGUID: ib.GUID(0x100 + n), PortGUID: ib.GUID(0x100 + n)}}
	if name[0] == 's' {
		d.info = smp.NodeInfo{NodeType: ib.NodeSwitch, NumPorts: 4, NodeGUID: ib.GUID(0x200 + n), PortGUID: ib.GUID(0x200 + n)}
	}
	d.ports = make([]plug, d.info.NumPorts+1)
	s.devices[name] = d
	return d
}

// plug is the device and port that a word names: "s1:2", "h1".
func (s *stage) plug(word string) (*device, uint8) {
	name, num, _ := strings.Cut(word, ":")
	port := uint8(1)
	if num != "" {
		port = num[0] - '0'
	}
	return s.device(name), port
}

func (s *stage) connect(a, b string) {
	x, p := s.plug(a)
	y, q := s.plug(b)
	if old := x.ports[p]; old.to != nil {
		old.to.ports[old.port] = plug{}
	}
	x.ports[p], y.ports[q] = plug{y, q, ib.StateInit}, plug{x, p, ib.StateInit}
}

func (s *stage) do(t *testing.T, d *datadriven.TestData) {
	arg := func(i int) string { return d.CmdArgs[i].Key }
	state := map[string]ib.PortState{"down": ib.StateDown, "init": ib.StateInit, "active": ib.StateActive}
	switch d.Cmd {
	case "subnet":
		for line := range strings.Lines(d.Input) {
			words := strings.Fields(line)
			s.connect(words[0], words[1])
			x, p := s.plug(words[0])
			x.ports[p].state = ib.StateActive
			x.ports[p].to.ports[x.ports[p].port].state = ib.StateActive
		}
	case "link":
		x, p := s.plug(arg(0))
		x.ports[p].state = state[arg(1)]
		x.ports[p].to.ports[x.ports[p].port].state = state[arg(1)]
	case "agent":
		x := s.device(arg(0))
		x.mute, x.bad = d.HasArg("mute"), d.HasArg("garbage")
		x.as = nil
		if d.HasArg("as") {
			var name string
			d.ScanArgs(t, "as", &name)
			x.as = s.device(name)
		}
		if d.HasArg("key") {
			var key uint64
			d.ScanArgs(t, "key", &key)
			x.key = ib.MKey(key)
		}
	case "connect":
		s.connect(arg(0), arg(1))
	case "pass":
		dur, err := time.ParseDuration(arg(0))
		if err != nil {
			t.Fatal(err)
		}
		s.Pass(dur)
	case "full":
		s.began = 0
		s.d.EndRegion()
		s.Phase = notice.PhaseDiscover
		s.d.Full()
		s.run()
	case "explore":
		s.began = 1
		s.d.EndRegion()
		var list []agenda.Suspect
		for i := range d.CmdArgs {
			list = append(list, agenda.Suspect{GUID: s.device(arg(i)).info.NodeGUID, Port: agenda.WholeSwitch})
		}
		if !s.d.Explorable(list) {
			s.Printf("a region cannot be read\n")
			return
		}
		s.Phase = notice.PhaseDiscover
		s.d.Explore(list, Carry{})
		s.run()
	default:
		t.Fatalf("no such command: %s", d.Cmd)
	}
}

// run has a discovery answered to its end.
func (s *stage) run() {
	outcome := More
	for outcome == More {
		for s.Todo.N > 0 {
			it := s.Todo.Pop()
			var r mad.Request
			if n := it.Node(); it.Op() == work.OpNodeInfo {
				s.d.BuildNodeInfo(it, &r)
			} else {
				s.d.Build(it, func(attr ib.AttrID, mod uint32) {
					smp.NewDR(&r.MAD, ib.MethodGet, attr, mod, s.Fabric.AgentPort(n, it.Port()).MKey, s.Fabric.AgentPath(n, it.Port()))
				})
			}
			s.Finish()
			s.d.Answered(it, s.answer(&r))
			if s.d.CutFound() {
				s.d.Resend()
			}
		}
		outcome = s.d.Done()
	}
	s.Phase = notice.PhaseIdle
	s.Printf("%s\n", [...]string{Read: "read", Failed: "failed", NoLink: "our port has no link", OwnMute: "our port could not be read"}[outcome])
	if outcome == Read {
		s.show()
	}
}

// answer plays the agent at the end of a directed route.
func (s *stage) answer(r *mad.Request) *mad.Completion {
	m := &r.MAD
	comp := &mad.Completion{Request: m, Tries: 1}
	path := smp.Path(m)
	at, in := s.device("h1"), uint8(1)
	for _, out := range path {
		p := at.ports[out]
		if p.to == nil || p.state == ib.StateDown {
			at = nil
			break
		}
		at, in = p.to, p.port
	}
	what := ib.AttrName(ib.ClassSubnDR, m.AttrID())
	if m.AttrID() == smp.AttrPortInfo {
		what += fmt.Sprintf(" %d", m.AttrMod()&0xFF)
	}
	if at == nil || at.mute || at.key != 0 && at.key != smp.MKey(m) && m.AttrID() != smp.AttrPortInfo {
		s.Printf("%s %s: no answer\n", what, topo.PathString(path))
		comp.Err = mad.ErrTimeout
		return comp
	}
	reply := *m
	reply.SetMethod(ib.MethodGetResp)
	b := smp.Data(&reply)
	clear(b)
	switch m.AttrID() {
	case smp.AttrNodeInfo:
		info := at.info
		if at.as != nil {
			info.NodeGUID, info.PortGUID = at.as.info.NodeGUID, at.as.info.PortGUID
		}
		if at.bad {
			info.NodeGUID = 0
		}
		info.LocalPortNum = in
		info.Put(b)
		s.Printf("%s %s: %s\n", what, topo.PathString(path), at.name)
	case smp.AttrPortInfo:
		num := uint8(m.AttrMod())
		pi := smp.PortInfo{PortState: ib.StateDown, PortPhysicalState: ib.PhysPolling}
		if num == 0 && at.info.NodeType == ib.NodeSwitch {
			pi.PortState = ib.StateActive
		} else if p := at.ports[num]; p.to != nil {
			pi.PortState = p.state
		}
		if at.key != 0 {
			pi.MKeyProtectBits = 1
			if at.key == smp.MKey(m) {
				pi.MKey = at.key
			}
		}
		pi.Put(b)
		if s.Region {
			s.Printf("%s %s: %v\n", what, topo.PathString(path), pi.PortState)
		}
	case smp.AttrSwitchInfo:
		sw := smp.SwitchInfo{LinearFDBCap: 1024}
		sw.Put(b)
	case smp.AttrNodeDescription:
		copy(b, at.name)
	}
	comp.MAD = &reply
	return comp
}

// show prints the topology, and has it managed: a graph, and a snapshot of nodes and links.
func (s *stage) show() {
	f := s.Fabric
	snap := &subnet.Snapshot{Up: true, Self: subnet.NoRef()}
	order := make([]int32, 0, len(f.Nodes))
	for i := range f.Nodes {
		if f.Nodes[i].Flags&topo.NodeGone == 0 {
			order = append(order, int32(i))
		}
	}
	slices.SortFunc(order, func(a, b int32) int { return int(f.Nodes[a].Info.NodeGUID) - int(f.Nodes[b].Info.NodeGUID) })
	index := map[int32]int32{}
	for i, n := range order {
		index[n] = int32(i)
	}
	for _, n := range order {
		nd := &f.Nodes[n]
		s.Printf("  %s path %s", s.nameOf(nd.Info.NodeGUID), topo.PathString(f.Path(nd.Path)))
		snap.Nodes = append(snap.Nodes, subnet.Node{Info: nd.Info, First: int32(len(snap.Ports)), OK: nd.OK()})
		for k := range f.NodePorts(n) {
			p := f.PortOf(n, uint8(k))
			q := subnet.Port{GUID: p.GUID, Node: index[n], Num: p.Num, Peer: subnet.NoRef()}
			if p.Has(topo.PortLinked) {
				q.Peer = subnet.Ref{Node: index[p.Peer.Node], Port: p.Peer.Port}
				s.Printf(" %d-%s", k, s.at(p.Peer))
			}
			snap.Ports = append(snap.Ports, &q)
		}
		if nd.Flags&topo.NodeUnseen != 0 {
			s.Printf(", absent")
		}
		if !nd.OK() {
			s.Printf(", excluded: %s", nd.Reason)
		}
		s.Printf("\n")
	}
	f.Graph = &fabric.Graph{}
	snap.Finish()
	s.Snapshot = snap
	for i := range f.Nodes {
		f.Nodes[i].Flags &^= topo.NodeNew | topo.NodeAgain
	}
}
