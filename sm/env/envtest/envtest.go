// Package envtest drives one part of a subnet manager alone, in virtual time: it has a small
// subnet as a discovery would leave it, passes the part's requests to agents that a test plays,
// and writes down what the part does, as text for transcripts.
package envtest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/config"
	"heddle/sm/env"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/work"
	"heddle/store"
	"heddle/subnet"
)

// Board is the environment of a part, and the record of what the part does.
type Board struct {
	env.Env
	b     strings.Builder
	hosts map[string]*topo.Port
	names map[ib.GUID]string
	// Debug has notices of every level written down.
	Debug bool
}

// SwitchGUID is the GUID of the only switch, whose ports are numbered from 1 in the order of Host.
const SwitchGUID ib.GUID = 0x5

// New returns a board for a master whose subnet is up: one switch with a host at each of its ports,
// which are named h1, h2 and so on. Their port GUIDs are 0xa1, 0xa2 and so on, their LIDs
// 1, 2 and so on. Host h1 is the manager's own.
func New(hosts int) *Board {
	b := &Board{hosts: map[string]*topo.Port{}, names: map[ib.GUID]string{}}
	b.Config = config.Defaults()
	b.State, b.Up, b.Phase = subnet.Master, true, notice.PhaseUpkeep
	b.Now = mad.Time(time.Minute)
	b.Sweeper, b.Output = b, b
	f := topo.New(nil)
	info := smp.NodeInfo{NodeType: ib.NodeSwitch, NumPorts: uint8(hosts), NodeGUID: SwitchGUID, PortGUID: SwitchGUID, PartitionCap: 32}
	f.AddNode(&info, f.AddPath([]byte{1}))
	f.Graph = &fabric.Graph{}
	for i := 1; i <= hosts; i++ {
		g := ib.GUID(0xa0 + i)
		info := smp.NodeInfo{NodeType: ib.NodeCA, NumPorts: 1, NodeGUID: g, PortGUID: g, PartitionCap: 32}
		n := f.AddNode(&info, f.AddPath([]byte{1, byte(i)}))
		f.Nodes[n].Desc = fmt.Sprintf("h%d", i)
	}
	for i := 1; i <= hosts; i++ {
		n := int32(i)
		p, q := f.PortOf(n, 1), f.PortOf(0, uint8(i))
		p.LID, p.Info.LID, p.Path = ib.LID(i), ib.LID(i), f.Nodes[n].Path
		p.Flags |= topo.PortKnown | topo.PortLinked | topo.PortEnd
		q.Flags |= topo.PortKnown | topo.PortLinked
		p.Peer, q.Peer = subnet.Ref{Node: 0, Port: uint8(i)}, subnet.Ref{Node: n, Port: 1}
		p.Info.PortState, q.Info.PortState = ib.StateActive, ib.StateActive
		b.hosts[f.Nodes[n].Desc], b.names[p.GUID] = p, f.Nodes[n].Desc
		f.EndPort = append(f.EndPort, f.Nodes[n].First+1)
	}
	f.Self = subnet.Ref{Node: 1, Port: 1}
	slices.SortFunc(f.EndPort, func(x, y int32) int { return cmp.Compare(f.Ports[x].GUID, f.Ports[y].GUID) })
	b.Fabric, b.SnapshotFabric = f, f
	return b
}

// Host is the port of a host by its name.
func (b *Board) Host(t *testing.T, name string) *topo.Port {
	t.Helper()
	p := b.hosts[name]
	if p == nil {
		t.Fatalf("there is no host %q", name)
	}
	return p
}

// Switch is the port of the switch that leads to a host.
func (b *Board) Switch(p *topo.Port) *topo.Port { return b.Fabric.Port(p.Peer) }

// Name is the name of a port: of a host, or "switch port 2".
func (b *Board) Name(p *topo.Port) string {
	if n := &b.Fabric.Nodes[p.Node]; n.IsSwitch() {
		return fmt.Sprintf("switch port %d", p.Num)
	}
	return b.Fabric.Nodes[p.Node].Desc
}

// NameOf is the name of the host with a port GUID, or the GUID.
func (b *Board) NameOf(g ib.GUID) string {
	if s := b.names[g]; s != "" {
		return s
	}
	return g.String()
}

// Printf adds to the record.
func (b *Board) Printf(format string, args ...any) { fmt.Fprintf(&b.b, format, args...) }

// Record is what was written down since the last Record.
func (b *Board) Record() string {
	s := b.b.String()
	b.b.Reset()
	if s == "" {
		return "nothing\n"
	}
	return s
}

// Notify implements env.Output.
func (b *Board) Notify(n notice.Notice) {
	if n.Level < notice.Info && !b.Debug {
		return
	}
	mark := [...]string{notice.Debug: ". ", notice.Info: "", notice.Warn: "! ", notice.Error: "!! "}[n.Level]
	b.Printf("%s%s", mark, n.Kind)
	if n.Where.IsSet() {
		b.Printf(" at %s", n.Where.Desc)
		if n.Where.Port > 0 {
			b.Printf(" port %d", n.Where.Port)
		}
	}
	b.Printf(": %s", n.Text)
	if n.Err != nil {
		b.Printf(" (%v)", n.Err)
	}
	b.Printf("\n")
}

// Store implements env.Output.
func (b *Board) Store(ops []store.Op, gen uint64) {
	for i := range ops {
		o := &ops[i]
		switch o.Kind {
		case store.PutRecord:
			v := string(o.Record.Value)
			if len(v) > 100 {
				v = fmt.Sprintf("%s… (%d bytes)", v[:60], len(v))
			}
			b.Printf("store %s = %s\n", o.Record.Key, v)
		case store.DeleteRecord:
			b.Printf("store without %s\n", o.Record.Key)
		default:
			b.Printf("store %+v\n", *o)
		}
	}
}

// AskSweep implements env.Sweeper.
func (b *Board) AskSweep(why string) { b.Printf("sweep asked for: %s\n", why) }

// AskFullSweep implements env.Sweeper.
func (b *Board) AskFullSweep(why string) { b.Printf("full sweep asked for: %s\n", why) }

// Problem implements env.Sweeper.
func (b *Board) Problem(_ topo.Where, n notice.Notice) { b.Notify(n) }

// SetFailed implements env.Sweeper.
func (b *Board) SetFailed(node int32, port int, what string, err error) {
	p := b.Fabric.PortOf(node, uint8(max(port, 0)))
	b.Printf("%s at %s failed (%v): the sweep is repeated\n", what, b.Name(p), err)
}

// Scope implements env.Sweeper: every port.
func (b *Board) Scope(fn func(p *topo.Port)) {
	for i := range b.Fabric.Ports {
		fn(&b.Fabric.Ports[i])
	}
}

// Part is what Run drives.
type Part interface {
	Build(it work.Item, get func(ib.AttrID, uint32), set func(ib.AttrID, uint32) []byte) bool
	Answered(it work.Item, comp *mad.Completion)
}

// SMP is a request as an agent receives it.
type SMP struct {
	Port *topo.Port
	Set  bool
	Attr ib.AttrID
	Mod  uint32
	Data []byte // 64 bytes, which the agent turns into those of its answer
}

// Agent plays the agents of the subnet. It writes down the request and returns the status of its
// answer; or an error, mad.ErrTimeout, if none arrives.
type Agent func(s *SMP) (ib.Status, error)

// Run builds the items on the work list one after the other and has them answered, until there are
// none.
func (b *Board) Run(part Part, agent Agent) {
	for b.Todo.N > 0 {
		b.Do(part, b.Todo.Pop(), agent)
	}
}

// Do builds one item and has it answered.
func (b *Board) Do(part Part, it work.Item, agent Agent) {
	p := b.Fabric.PortOf(it.Node(), it.Port())
	var req ib.MAD
	header := func(m ib.Method, a ib.AttrID, mod uint32) {
		smp.NewDR(&req, m, a, mod, 0, b.Fabric.AgentPath(p.Node, p.Num))
	}
	ok := part.Build(it,
		func(a ib.AttrID, mod uint32) { header(ib.MethodGet, a, mod) },
		func(a ib.AttrID, mod uint32) []byte { header(ib.MethodSet, a, mod); return smp.Data(&req) })
	b.Finish()
	if !ok {
		return
	}
	reply := req
	s := SMP{p, req.Method() == ib.MethodSet, req.AttrID(), req.AttrMod(), smp.Data(&reply)}
	st, err := agent(&s)
	comp := mad.Completion{
		Token: uint64(it), Err: err, Request: &req, Attr: s.Attr, AttrMod: s.Mod, Method: req.Method(), Tries: 1,
	}
	if err == nil {
		reply.SetMethod(ib.MethodGetResp)
		reply.SetStatus(st)
		comp.MAD = &reply
	}
	part.Answered(it, &comp)
}

// Pass lets virtual time pass.
func (b *Board) Pass(d time.Duration) { b.Now = b.Now.Add(d) }

// Leave takes a host out of the subnet; Return brings it back.
func (b *Board) Leave(p *topo.Port) {
	f := b.Fabric
	f.EndPort = slices.DeleteFunc(f.EndPort, func(i int32) bool { return &f.Ports[i] == p })
	p.LID = 0
	f.Nodes[p.Node].Flags |= topo.NodeGone
}

// Return undoes Leave.
func (b *Board) Return(p *topo.Port) {
	f := b.Fabric
	f.EndPort = append(f.EndPort, f.Nodes[p.Node].First+1)
	slices.SortFunc(f.EndPort, func(x, y int32) int { return cmp.Compare(f.Ports[x].GUID, f.Ports[y].GUID) })
	p.LID = p.Info.LID
	f.Nodes[p.Node].Flags = f.Nodes[p.Node].Flags&^topo.NodeGone | topo.NodeNew
}
