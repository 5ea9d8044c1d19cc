package vm

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/route"
	"heddle/store"
	"heddle/subnet"
)

// rig drives a core as its shell does, with a store and a subnet manager that carries out all
// placements.
type rig struct {
	t     testing.TB
	c     *Core
	store *store.Memory
	now   mad.Time
	tag   uint64

	view       *View
	placements map[ib.GUID]subnet.Placement
	replies    map[uint64]Reply
	notices    []Notice
	parts      int // times that memberships were told
	out        Output

	// where is the hardware: who holds what.
	where map[ib.GUID]subnet.Place
	// obey: placements are reported as placed immediately.
	obey   bool
	refuse map[subnet.Place]string // and these as refused
	cause  subnet.Cause            // of refusals
	lid    ib.LID
}

func newRig(t testing.TB) *rig {
	r := &rig{t: t, store: store.NewMemory(), where: map[ib.GUID]subnet.Place{}, obey: true, refuse: map[subnet.Place]string{}, cause: subnet.CauseNotTaken, lid: 100}
	r.start()
	return r
}

// start begins a core's life with what is stored.
func (r *rig) start() {
	r.t.Helper()
	st, err := r.store.Load()
	if err != nil {
		r.t.Fatal(err)
	}
	r.c, r.placements, r.replies, r.view = New(Config{}), map[ib.GUID]subnet.Placement{}, map[uint64]Reply{}, nil
	r.step(Start{Records: st.Records})
}

// step passes an event to the core, and carries out its output.
func (r *rig) step(ev Event) {
	for events := []Event{ev}; len(events) > 0; events = events[1:] {
		r.out.Reset()
		r.c.Step(r.now, events[0], &r.out)
		if r.out.PersistGen != 0 {
			events = append(events, Persisted{r.out.PersistGen, r.store.Apply(r.out.Persist)})
		}
		if list := r.effects(&r.out); len(list) > 0 {
			events = append(events, Reports{list})
		}
	}
}

// effects records the output of the core, and returns the reports of the subnet manager.
func (r *rig) effects(out *Output) []subnet.PlacementReport {
	if out.Publish != nil {
		r.view = out.Publish
	}
	if out.PartitionsChanged {
		r.parts++
	}
	for _, a := range out.Replies {
		if _, twice := r.replies[a.Tag]; twice || a.Tag == 0 {
			r.t.Fatalf("a second reply for %d: %+v", a.Tag, a)
		}
		r.replies[a.Tag] = a
	}
	r.notices = append(r.notices, out.Notices...)
	if !out.PlacementsChanged {
		return nil
	}
	if out.All {
		clear(r.placements)
	}
	for _, g := range out.Drop {
		delete(r.placements, g)
	}
	var list []subnet.PlacementReport
	for _, l := range out.Put {
		r.placements[l.GUID] = l
		rep := subnet.PlacementReport{GUID: l.GUID, Place: l.Place, Held: r.where[l.GUID], State: subnet.PlacementPlaced}
		if why := r.refuse[l.Place]; why != "" {
			rep.State, rep.Cause, rep.Reason = subnet.PlacementRefused, r.cause, why
		} else if l.LIDKind != subnet.SharedLID {
			if rep.LID = l.LID; rep.LID == 0 {
				r.lid++
				rep.LID = r.lid
			}
		}
		if r.obey && rep.State == subnet.PlacementPlaced {
			r.where[l.GUID], rep.Held = l.Place, l.Place
		}
		list = append(list, rep)
	}
	if !r.obey {
		return nil
	}
	return list
}

// ask asks for operations in one event and returns their tags.
func (r *rig) ask(ops ...Op) []uint64 {
	var ev Requests
	var tags []uint64
	for _, op := range ops {
		r.tag++
		tags = append(tags, r.tag)
		ev.List = append(ev.List, Request{r.tag, op})
	}
	r.step(ev)
	return tags
}

// do asks for an operation and returns the reply, which must be there.
func (r *rig) do(op Op) Reply {
	r.t.Helper()
	a, ok := r.replies[r.ask(op)[0]]
	if !ok {
		r.t.Fatalf("%T %+v: no reply", op, op)
	}
	return a
}

// ok is do for an operation that must succeed.
func (r *rig) ok(op Op) Interface {
	r.t.Helper()
	a := r.do(op)
	if a.Err != nil {
		r.t.Fatalf("%T %+v: %v", op, op, a.Err)
	}
	return a.Interface
}

// fails is do for an operation that must fail with the error want and a text that contains
// words.
func (r *rig) fails(op Op, want error, words string) {
	r.t.Helper()
	if a := r.do(op); !errors.Is(a.Err, want) || !strings.Contains(a.Err.Error(), words) {
		r.t.Fatalf("%T %+v: %v, want %v with %q", op, op, a.Err, want, words)
	}
}

// is checks the state and place of an interface.
func (r *rig) is(name string, st State, at subnet.Place) {
	r.t.Helper()
	i := r.view.Interface(name)
	if i == nil || i.State != st || i.Place != at || i.Doing != "" {
		r.t.Fatalf("%+v, want %v at %v", i, st, at)
	}
	if l, has := r.placements[i.GUID]; has && l.Place != at || !has && at != (subnet.Place{}) {
		r.t.Fatalf("%+v has the placement %+v", i, l)
	}
}

func at(port ib.GUID, f uint16) subnet.Place { return subnet.Place{Port: port, Function: f} }

// The hypervisors of the test subnet: port GUIDs.
const (
	hyperA   ib.GUID = 0xA01 // VSwitch
	hyperB   ib.GUID = 0xB01
	hyperC   ib.GUID = 0xC01
	sharedA  ib.GUID = 0x5A1 // SharedPort
	sharedB  ib.GUID = 0x5B1
	sharedSM ib.GUID = 0x5C1 // and the manager's own
	vportA   ib.GUID = 0x9A1 // VPorts
	vportB   ib.GUID = 0x9B1
	plain    ib.GUID = 0xF01 // cannot hold any
	unread   ib.GUID = 0xF11 // not asked yet
	absent   ib.GUID = 0xDEAD
)

// seen is a VPort of a snapshot.
type seenVPort struct {
	port  ib.GUID
	index uint16
	guid  ib.GUID
	state ib.PortState
}

// snapshot is a switch and hypervisors around it, without those in gone.
func snapshot(gone []ib.GUID, vports ...seenVPort) *subnet.Snapshot {
	s := &subnet.Snapshot{Up: true, State: subnet.Master, Prefix: ib.DefaultSubnetPrefix, PortGUID: sharedSM, Graph: &fabric.Graph{}, Tables: &route.Tables{}}
	add := func(kind ib.NodeType, desc string, ports ...subnet.Port) int {
		n := subnet.Node{Desc: desc, First: int32(len(s.Ports)), OK: true, SwitchIndex: -1}
		n.Info.NodeType, n.Info.NodeGUID = kind, ports[len(ports)-1].GUID+0x1000
		n.Info.NumPorts = uint8(len(ports) - 1)
		if kind == ib.NodeSwitch {
			n.SwitchIndex, n.Switch.LinearFDBCap = 0, 1024
		}
		for i := range ports {
			ports[i].Node, ports[i].Num, ports[i].Peer = int32(len(s.Nodes)), uint8(i), subnet.NoRef()
			if ports[i].GUID == 0 {
				ports[i].EndPort = -1
			}
			s.Ports = append(s.Ports, &ports[i])
		}
		s.Nodes = append(s.Nodes, n)
		return len(s.Ports) - 1
	}
	lid := ib.LID(1)
	port := func(g ib.GUID, a *subnet.Adapter) subnet.Port {
		lid++
		return subnet.Port{GUID: g, LID: lid, Known: true, Info: smp.PortInfo{PortState: ib.StateActive}, Adapter: a}
	}
	index := map[ib.GUID]int{}
	add(ib.NodeSwitch, "S1", subnet.Port{GUID: 0x51, LID: 1, Known: true})
	for _, h := range []struct {
		g     ib.GUID
		model subnet.Model
		n     int
	}{
		{sharedA, subnet.SharedPort, 126},
		{sharedB, subnet.SharedPort, 126},
		{sharedSM, subnet.SharedPort, 126},
		{vportA, subnet.VPorts, 4},
		{vportB, subnet.VPorts, 4},
		{hyperA, subnet.VSwitch, 4},
		{hyperB, subnet.VSwitch, 4},
		{hyperC, subnet.VSwitch, 2},
		{plain, subnet.NoFunctions, 0},
		{unread, subnet.NoFunctions, 0},
	} {
		if slices.Contains(gone, h.g) {
			continue
		}
		p := port(h.g, &subnet.Adapter{Model: h.model, Functions: h.n})
		if h.n == 0 {
			p.Adapter = nil
		}
		if h.g == unread {
			p.Info.CapabilityMask, p.Info.CapabilityMask2 = ib.CapIsCapabilityMask2Supported, ib.Cap2IsVirtualizationSupported
		}
		index[h.g] = add(ib.NodeCA, fmt.Sprintf("H-%v", h.g), subnet.Port{}, p)
	}
	slices.SortFunc(vports, func(a, b seenVPort) int { return index[a.port] - index[b.port] })
	for _, v := range vports {
		i := index[v.port]
		p := *s.Ports[i]
		p.GUID, p.Adapter, p.Info.PortState = v.guid, nil, v.state
		p.Virtual = &subnet.Virtual{Port: int32(i), Index: v.index}
		if v.state < ib.StateArmed {
			p.EndPort = -1
		}
		s.Ports = append(s.Ports, &p)
	}
	s.Graph.LIDOwner = make([]int32, lid+1)
	s.Finish()
	return s
}

// up shows the subnet to the core.
func (r *rig) up(gone ...ib.GUID) { r.step(Published{snapshot(gone)}) }

// TestLife: an interface from its creation to its end.
func TestLife(t *testing.T) {
	r := newRig(t)
	r.up()
	i := r.ok(Create{Interface{Name: "web", LIDKind: subnet.OwnLID, Keys: []Membership{{0x10, true}}}})
	if i.GUID != defaultFirst || i.GUIDKind != PoolGUID {
		t.Fatalf("%+v", i)
	}
	i = r.ok(Attach{"web", at(hyperA, 0)})
	if i.Place != at(hyperA, 1) || i.LID == 0 {
		t.Fatalf("%+v", i)
	}
	lid := i.LID
	r.is("web", Attached, at(hyperA, 1))
	i = r.ok(Migrate{"web", at(hyperB, 3)})
	if i.State != Migrating || r.placements[i.GUID].Place != at(hyperA, 1) {
		t.Fatalf("%+v, placement %+v", i, r.placements[i.GUID])
	}
	r.lid = lid - 1 // the subnet manager keeps it
	i = r.ok(Finish{"web"})
	r.is("web", Attached, at(hyperB, 3))
	if i.LID != lid {
		t.Fatalf("LID %d became %d", lid, i.LID)
	}
	r.lid = lid - 1
	r.ok(Migrate{"web", at(hyperA, 0)})
	r.ok(RollBack{"web"})
	r.is("web", Attached, at(hyperB, 3))
	r.fails(Delete{Name: "web"}, ErrConflict, "detach it first")
	r.ok(Detach{"web"})
	r.is("web", Detached, subnet.Place{})
	if r.view.Journal != 0 {
		t.Fatal(r.view.Journal)
	}
	r.ok(Delete{Name: "web"})
	if st, _ := r.store.Load(); len(st.Records) != 0 || r.view.Len() != 0 || len(r.placements) != 0 {
		t.Fatalf("left: %+v, %d interfaces, placements %v", st.Records, r.view.Len(), r.placements)
	}
}
