package absent

import (
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/sm/env/envtest"
	"heddle/sm/lid"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/vport"
	"heddle/sm/work"
	"heddle/subnet"
)

// TestTranscripts plays one switch with four hosts, h1 to h4; h1 is the manager's own. Commands:
//
//	discover        a full sweep. Lines name the hosts that do not answer, and how their switch ports
//	                are: "h2 active", "h2 init" (the link came up anew) or "h2 down"
//	heard HOST      a host answers a probe of a light sweep
//	owe             the switch does not answer, and needs a block of its forwarding table
//	claim HOST MTU  a PortInfo says that a host's port has this MTU capability (4: 2048, 5: 4096)
//	pass D          virtual time passes
//	master HOST…    a new master begins, which has the links of these hosts in its store
//	show            what a snapshot shows of ports that were not found
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &stage{Board: envtest.New(4)}
		s.a = New(&s.Env, Needs{Keys: s, LIDs: s, VPorts: s})
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.do(t, d)
			return s.Record()
		})
	})
}

type stage struct {
	*envtest.Board
	a         *Nodes
	neighbors map[topo.PortID]ib.GUID
	anew      bool             // a new master begins
	unmet     map[ib.GUID]bool // hosts that this master has not seen
}

func (s *stage) Neighbors() map[topo.PortID]ib.GUID { return s.neighbors }
func (s *stage) Unsure([]ib.GUID) []ib.GUID         { return nil }
func (s *stage) All() []*vport.Adapter              { return nil }
func (s *stage) Assigned(port ib.GUID) (lid.Range, bool) {
	return lid.Range{}, !s.unmet[port]
}

func (s *stage) do(t *testing.T, d *datadriven.TestData) {
	arg := func(i int) string { return d.CmdArgs[i].Key }
	switch d.Cmd {
	case "discover":
		s.discover(t, d.Input)
	case "heard":
		s.a.Heard(s.Host(t, arg(0)).GUID)
	case "owe":
		s.Fabric.Nodes[0].Flags |= topo.NodeUnseen
		it := work.Make(work.OpSetLFT, 0, 0, 1)
		s.Printf("sent: %v\n", !s.a.Skips(it))
		s.a.Skipped(it)
		s.Printf("to be excluded: %v\n", s.a.Overdue(envtest.SwitchGUID))
	case "claim":
		p := s.Host(t, arg(0))
		info := p.Info
		info.MTUCap = ib.MTU(arg(1)[0] - '0')
		if err := s.a.Plausible(p, &info); err != nil {
			s.Printf("not believed: %v\n", err)
		} else {
			s.Printf("believed\n")
			p.Info = info
		}
	case "pass":
		dur, err := time.ParseDuration(arg(0))
		if err != nil {
			t.Fatal(err)
		}
		s.Pass(dur)
	case "master":
		s.a.Veil()
		s.anew, s.neighbors, s.unmet = true, map[topo.PortID]ib.GUID{}, map[ib.GUID]bool{}
		for _, pi := range s.Fabric.EndPort {
			s.unmet[s.Fabric.Ports[pi].GUID] = true
		}
		for i := range d.CmdArgs {
			p := s.Host(t, arg(i))
			s.neighbors[topo.PortID{Node: envtest.SwitchGUID, Port: p.Peer.Port}] = p.GUID
		}
		s.Last = nil
	case "show":
		var snap subnet.Snapshot
		s.a.Show(&snap)
		s.Printf("all seen: %v\nunsure:%s\ngone:%s\n", !snap.Veiled, s.names(snap.Unsure), s.names(snap.Gone))
	default:
		t.Fatalf("no such command: %s", d.Cmd)
	}
}

func (s *stage) names(list []ib.GUID) string {
	if len(list) == 0 {
		return " none"
	}
	var b strings.Builder
	for _, g := range list {
		b.WriteString(" " + s.NameOf(g))
	}
	return b.String()
}

// discover has the subnet discovered again. What the package says about a silent host is what a
// discovery makes of it.
func (s *stage) discover(t *testing.T, silent string) {
	if !s.anew {
		s.Last = s.Fabric
	}
	s.anew = false
	f := envtest.New(4).Fabric
	s.Fabric, s.SnapshotFabric, s.Phase = f, f, notice.PhaseDiscover
	for line := range strings.Lines(silent) {
		words := strings.Fields(line)
		n, _ := f.Find(s.Host(t, words[0]).GUID)
		p := f.PortOf(n, 1)
		at := p.Peer
		q := f.Port(at)
		q.Info.PortState = map[string]ib.PortState{"active": ib.StateActive, "init": ib.StateInit, "down": ib.StateDown}[words[1]]
		nd := &f.Nodes[n]
		if !q.LinkUp() {
			s.Printf("%s left\n", words[0])
			nd.Flags |= topo.NodeGone | topo.NodeOut
			continue
		}
		again := s.a.AskedBefore(at)
		s.a.SilentBehind(at)
		if was, ok := s.a.WasBehind(at); ok && s.Last.Nodes[was.Node].Info.NodeGUID == nd.Info.NodeGUID {
			s.Printf("%s is absent", words[0])
			if again {
				s.Printf(", and need not be asked")
			}
			s.Printf("\n")
			s.a.Keep(nd.Info.NodeGUID)
			nd.Flags |= topo.NodeUnseen
			continue
		}
		s.Printf("nothing is known of the node behind switch port %d\n", at.Port)
		nd.Flags |= topo.NodeGone | topo.NodeOut
		q.Peer = subnet.NoRef()
	}
	s.a.Settle()
	for i := range f.Nodes {
		if f.Nodes[i].Flags&(topo.NodeGone|topo.NodeUnseen) == 0 {
			delete(s.unmet, f.Nodes[i].Info.PortGUID)
		}
	}
	if n, _ := s.a.Count(); n > 0 {
		s.Printf("absent nodes: %d\n", n)
	}
}

// TestStrangers: the node behind a link that stayed up is the one that was there, unless it
// says three times that it is another.
func TestStrangers(t *testing.T) {
	b := envtest.New(3)
	a := New(&b.Env, Needs{})
	b.Last, b.Fabric = b.Fabric, envtest.New(3).Fabric
	at := b.Host(t, "h3").Peer
	own := smp.NodeInfo{NodeType: ib.NodeCA, NumPorts: 1, NodeGUID: 0xa3, PortGUID: 0xa3, LocalPortNum: 1}
	other := own
	other.NodeGUID = 0xa2
	if a.PlausibleNode(at, &own) != nil {
		t.Error("the node that was there is not believed")
	}
	for try := range 3 {
		if err := a.PlausibleNode(at, &other); (err == nil) != (try == 2) {
			t.Errorf("try %d: %v", try, err)
		}
	}
	b.Fabric.Port(at).Info.PortState = ib.StateInit // the link came up anew
	if err := a.PlausibleNode(at, &other); err != nil {
		t.Errorf("after the link came up anew: %v", err)
	}
}
