// Package env has what the parts of one subnet manager share: its configuration, the time, the
// fabric, the work list of the phase, and where to put what is to be told or stored. Each part
// owns its own state beside it.
package env

import (
	"cmp"
	"slices"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/config"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/work"
	"heddle/store"
	"heddle/subnet"
)

// Env is the environment of the parts of one manager. The core writes its fields; discovery writes
// Fabric, Last, Region and the GUID of our port in Config, and mastership writes State. The other parts read them, add to Errs and
// Report, and call the methods.
type Env struct {
	Config config.Config
	Engine *mad.Engine
	Now    mad.Time // of the event in hand

	State subnet.SMState
	Up    bool // the subnet is up in this mastership
	// Inherits: our LID is the one that the last master had, and we know what hosts registered there.
	// Ports that name it as their manager's need not be told of us.
	Inherits     bool
	WaitHandover bool // we are master, and a lower master is to hand over
	Phase        notice.Phase
	ActCount     uint32 // SMPs that we sent, as SMInfo has it
	Errs         int    // failed items of the sweep that another sweep may repair
	Sweeps       uint64 // sweeps that ended
	FullSweeps   uint64

	PhaseStart mad.Time
	Region     bool // the sweep under way, or the last one, explores a region instead of everything
	FirstSweep bool // no sweep of this mastership has configured the subnet yet
	// Report is the report of the sweep under way. Each part counts its own work in it.
	Report notice.SweepReport

	// level is the service level of datagrams to the manager, if it is chosen.
	level struct {
		sl     ib.SL
		chosen bool
	}

	Fabric *topo.Topology // being discovered or the one that is managed
	// Last is the subnet that was managed before the discovery under way began; nil when
	// a sweep has finished. It may be Fabric itself between sweeps.
	Last *topo.Topology
	// Snapshot is what was published last, SnapshotFabric what it was built from, and
	// SnapshotIndex has the indices in it by node of that fabric.
	Snapshot       *subnet.Snapshot
	SnapshotFabric *topo.Topology
	SnapshotIndex  []int32

	Todo    work.Queue // items of the phase that are not requests yet
	Pending int        // items of the phase that are not finished
	Total   int        // items that the phase had

	Unsaved []store.Op // handed to the shell, not known to be durable
	SaveGen uint64     // of the last Save

	Sweeper Sweeper
	Output  Output
	noted   map[string]uint64 // facts told, by the full sweep that last saw them
}

// Output takes what the manager's shell is to do.
type Output interface {
	// Send has a packet sent, of which it keeps a copy.
	Send(p *mad.Packet)
	Notify(n notice.Notice)
	// Store replaces what the shell stores at the end of the step.
	Store(ops []store.Op, gen uint64)
}

// Sweeper is the part that decides what is read and when.
type Sweeper interface {
	// AskSweep asks for a sweep, AskFullSweep for one that reads everything.
	AskSweep(why string)
	AskFullSweep(why string)
	// Problem tells and keeps for the snapshot that something is left out.
	Problem(at topo.Where, n notice.Notice)
	// SetFailed tells that a Set at a port (-1: of a node) did not do what it should,
	// and has the sweep tried again.
	SetFailed(node int32, port int, what string, err error)
	// Scope calls fn with every port that the sweep under way looks at.
	Scope(fn func(p *topo.Port))
}

// Add puts an item of the present phase on the work list.
func (e *Env) Add(it work.Item) {
	e.Pending++
	e.Total++
	e.Todo.Push(it)
}

// Finish ends an item.
func (e *Env) Finish() { e.Pending-- }

// OwnLID is the LID of our port, 0 if it has none.
func (e *Env) OwnLID() ib.LID {
	if e.Fabric == nil || e.Fabric.Self == subnet.NoRef() {
		return 0
	}
	p := e.Fabric.AgentPort(e.Fabric.Self.Node, e.Fabric.Self.Port)
	if p.LID != 0 && p.Info.LID == p.LID {
		return p.LID
	}
	return p.Info.LID
}

// ManagerLevel is the service level of datagrams between hosts and the manager; ok is false as long
// as it is not chosen.
func (e *Env) ManagerLevel() (sl ib.SL, ok bool) {
	if !e.Config.SMSLAuto {
		return e.Config.MasterSMSL, true
	}
	return e.level.sl, e.level.chosen
}

// ChooseLevel sets the ManagerLevel that the manager is to choose.
func (e *Env) ChooseLevel(sl ib.SL) { e.level.sl, e.level.chosen = sl, true }

// ForgetLevel has it chosen anew.
func (e *Env) ForgetLevel() { e.level.sl, e.level.chosen = 0, false }

// Failed counts a failed item that another sweep may repair.
func (e *Env) Failed() { e.Errs++ }

// TakeDescription takes the answer to a Get(NodeDescription).
func (e *Env) TakeDescription(it work.Item, comp *mad.Completion) {
	n := &e.Fabric.Nodes[it.Node()]
	var d smp.NodeDescription
	if err := work.Answer(comp); err == nil && d.Decode(smp.Data(comp.MAD)) == nil {
		n.Desc, n.Said = d.String(), ""
		if name := e.Config.Names[n.Info.NodeGUID]; name != "" && name != n.Desc {
			n.Desc, n.Said = name, n.Desc
		}
		n.Flags |= topo.NodeDesc
	}
}

// Send sends a packet from our port.
func (e *Env) Send(p *mad.Packet) {
	e.ActCount++
	e.Output.Send(p)
}

// Ask sends a Get to the agent of the item's node that no phase waits for. If the engine's queue is
// full nothing is sent: the requests in it tell as much.
func (e *Env) Ask(it work.Item, attr ib.AttrID, mod uint32, priority mad.Priority) {
	f, n, p := e.Fabric, it.Node(), it.Port()
	if !f.Nodes[n].Path.Set || !f.Nodes[n].OK() {
		return
	}
	r := mad.Request{Token: uint64(it), Addr: mad.Addr{LID: ib.LIDPermissive}, Priority: priority}
	smp.NewDR(&r.MAD, ib.MethodGet, attr, mod, f.AgentPort(n, p).MKey, f.AgentPath(n, p))
	_ = e.Engine.Submit(&r)
}

// IsManager reports whether another manager is at a port that is to be asked for SMInfo. A partner is
// not: it does not count, and one that was stopped would keep the sweep waiting.
func (e *Env) IsManager(p *topo.Port) bool {
	partner := e.Config.Partner != 0 && p.GUID == e.Config.Partner
	return p.Info.CapabilityMask.Has(ib.CapIsSM) && !partner && (subnet.Ref{Node: p.Node, Port: p.Num}) != e.Fabric.Self
}

// Notify tells a fact.
func (e *Env) Notify(n notice.Notice) { e.Output.Notify(n) }

// NoteOnce reports whether the fact named by key is new: no sweep saw it before.
func (e *Env) NoteOnce(key string) bool {
	if e.noted == nil {
		e.noted = map[string]uint64{}
	}
	_, told := e.noted[key]
	e.noted[key] = e.FullSweeps
	return !told
}

// Prune forgets the facts that the last full sweep did not confirm.
func (e *Env) Prune() {
	for k, s := range e.noted {
		if s+1 < e.FullSweeps {
			delete(e.noted, k)
		}
	}
}

// Save hands ops to the shell, with those that are not known to be durable.
func (e *Env) Save(ops []store.Op) {
	e.Unsaved = append(e.Unsaved, ops...)
	e.SaveGen++
	e.Output.Store(e.Unsaved, e.SaveGen)
}

// Unsave takes ops back that are not known to be durable.
func (e *Env) Unsave(drop func(o *store.Op) bool) {
	e.Unsaved = slices.DeleteFunc(e.Unsaved, func(o store.Op) bool { return drop(&o) })
}

// BetweenSweeps reports whether a sweep could begin now.
func (e *Env) BetweenSweeps() bool {
	switch e.Phase {
	case notice.PhaseIdle, notice.PhaseLight, notice.PhaseUpkeep, notice.PhaseMove:
		return true
	}
	return false
}

// Running reports whether the subnet is one in which faults matter more than the end of a
// sweep: it is ours, it is up, and it was configured once.
func (e *Env) Running() bool {
	return e.State == subnet.Master && e.Up && !e.FirstSweep && !e.WaitHandover && !e.Config.PlanOnly && e.Fabric != nil && e.Fabric.Self != subnet.NoRef()
}

// MayUpkeep reports whether the fabric is ours to write to between sweeps.
func (e *Env) MayUpkeep() bool {
	return e.State == subnet.Master && e.Up && !e.WaitHandover && !e.Config.PlanOnly &&
		e.Fabric != nil && e.Fabric.Graph != nil && e.SnapshotFabric == e.Fabric
}

// EndPortIndex is the index in the graph of the end port with a GUID, or -1.
func (e *Env) EndPortIndex(g ib.GUID) int32 {
	f := e.Fabric
	if f == nil || f.Graph == nil {
		return -1
	}
	i, ok := slices.BinarySearchFunc(f.EndPort, g, func(pi int32, g ib.GUID) int { return cmp.Compare(f.Ports[pi].GUID, g) })
	if !ok || i >= len(f.Graph.EndPorts) {
		return -1
	}
	return int32(i)
}

// EndPort is the end port of a port GUID, nil if the fabric has none or is being read.
func (e *Env) EndPort(g ib.GUID) *topo.Port {
	f := e.Fabric
	if f == nil || f.Graph == nil {
		return nil
	}
	i, ok := slices.BinarySearchFunc(f.EndPort, g, func(pi int32, g ib.GUID) int { return cmp.Compare(f.Ports[pi].GUID, g) })
	if !ok {
		return nil
	}
	return &f.Ports[f.EndPort[i]]
}

// DescOf is the description of a node that is or was there; "" if it is not known.
func (e *Env) DescOf(node ib.GUID) string {
	if i, ok := e.Fabric.ByGUID[node]; ok && e.Fabric.Nodes[i].Desc != "" {
		return e.Fabric.Nodes[i].Desc
	}
	if e.Snapshot != nil {
		if i := e.Snapshot.NodeByGUID(node); i >= 0 {
			return e.Snapshot.Nodes[i].Desc
		}
	}
	return ""
}

// WherePort is where the end port of a port GUID is, the zero Where if the fabric has none.
func (e *Env) WherePort(g ib.GUID) topo.Where {
	if p := e.EndPort(g); p != nil {
		return e.Fabric.Where(p.Node, int(p.Num))
	}
	return topo.Where{}
}

// Lanes is how many data VLs the link at a port has or will have, 1 to 15.
func (e *Env) Lanes(p *topo.Port) uint8 { return e.Fabric.Lanes(p, e.Config.MaxOpVLs) }
