package lab

import (
	"fmt"
	"slices"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sim"
	"heddle/subnet"
)

// VMHost is an adapter port with virtual functions.
type VMHost struct {
	Node string // of the fabric
	At   int    // its index there
	Port uint8
	GUID ib.GUID // port GUID
	sim.Hypervisor
}

// VMJudge looks at virtual functions as the simulated adapters hold them, at
// what snapshots say of them, and at packets between virtual machines. It knows
// nothing of what managers believe but what an address manager promised.
type VMJudge struct {
	Hosts []VMHost
	// Wrong is what no moment may show; the first few.
	Wrong []string
	// Looks and Snapshots count what was judged, Probes the packets that Reach
	// sent, Through those of them that had to arrive.
	Looks, Snapshots, Probes, Through int
	Restarts                          int // of managers, so far
	// Wild are the GUIDs of virtual machines that no address manager knows, by
	// name: their hypervisors bring VPorts up as they like.
	Wild map[string]ib.GUID
	// Reachable are the nodes that the manager can do something about, by node GUID; nil: all.
	Reachable func() map[ib.GUID]bool
	// Late: requests may arrive late, after a repetition of them and the next Set. Nobody
	// can know of an entry of a shared port's table that comes back so, until managers
	// read again what they wrote twice.
	Late bool
	// Present: an address that moves from one usable place to another is never absent
	// from a snapshot. Moved counts the snapshots in which such ones were looked for.
	Present bool
	Moved   int
	// Begun counts the functions whose P_Keys were judged as they became Active.
	Begun int

	c    *Cluster
	host map[ib.GUID]int    // index in Hosts by port GUID
	back []mad.Time         // when packets could pass the link of a host again, by index in Hosts
	wild map[ib.GUID]ib.LID // those that wild VPorts with LIDs of their own had

	entries map[subnet.Place]*entrySeen // of the tables of shared ports

	views      []viewSeen               // of the last keysLag, ascending
	left       map[sim.VF]mad.Time      // when a function last went down
	begins     []sim.VF                 // made Active by the Set under way
	placements map[ib.GUID]subnet.Place // that the address manager asked for last
	moves      map[ib.GUID]moving
	parted     map[sim.VF][]ib.GUID // of moves: at functions that went down at this moment
	faulted    mad.Time             // when something last failed
}

// NewVMJudge makes a judge that looks on whenever a Set was carried out.
func NewVMJudge(c *Cluster, hosts []VMHost) *VMJudge {
	j := &VMJudge{c: c, Hosts: hosts, Wild: map[string]ib.GUID{}, host: map[ib.GUID]int{}, wild: map[ib.GUID]ib.LID{}}
	j.left, j.placements, j.moves, j.parted = map[sim.VF]mad.Time{}, map[ib.GUID]subnet.Place{}, map[ib.GUID]moving{}, map[sim.VF][]ib.GUID{}
	for i := range hosts {
		j.host[hosts[i].GUID] = i
	}
	j.back = make([]mad.Time, len(hosts))
	j.entries = map[subnet.Place]*entrySeen{}
	c.Sim.OnChange = func(ch sim.Change) {
		if i, ok := j.host[c.Fabric.Nodes[ch.Node].Ports[ch.Port].GUID]; ok && ch.Kind == sim.ChangeState && ch.New == ib.StateActive {
			j.back[i] = ch.At
		}
		j.change(&ch)
		if ch.Kind != sim.ChangeSet {
			return
		}
		switch ch.Attr {
		case smp.AttrVPortInfo, smp.AttrVPortGUIDInfo, smp.AttrGUIDInfo, smp.AttrVirtualizationInfo, smp.AttrPortInfo:
			if _, ok := j.host[c.Fabric.Nodes[ch.Node].Ports[ch.Port].GUID]; ok {
				j.Look()
			}
		}
	}
	return j
}

func (j *VMJudge) fail(format string, a ...any) {
	if len(j.Wrong) < 10 {
		j.Wrong = append(j.Wrong, fmt.Sprintf("%v: ", time.Duration(j.c.Sim.Now()))+fmt.Sprintf(format, a...))
	}
}

// vf is the simulator's name of a place; ok is false if no host is there.
func (j *VMJudge) vf(p subnet.Place) (f sim.VF, ok bool) {
	i, ok := j.host[p.Port]
	if !ok {
		return f, false
	}
	return sim.VF{Node: j.Hosts[i].At, Port: j.Hosts[i].Port, Index: p.Function}, true
}

// place is the inverse.
func (j *VMJudge) place(f sim.VF) subnet.Place {
	if f.Node < 0 {
		return subnet.Place{}
	}
	return subnet.Place{Port: j.c.Fabric.Nodes[f.Node].Ports[f.Port].GUID, Function: f.Index}
}

// active reports whether packets pass the link of a host.
func (j *VMJudge) active(h *VMHost) bool {
	return j.c.Sim.Up(h.At) && j.c.Sim.PortInfo(h.At, int(h.Port)).PortState == ib.StateActive
}

// stale is how long a host that was cut off may have what went elsewhere in the
// meantime.
const stale = 500 * time.Millisecond

// Away notes which hosts the manager cannot reach at this moment: like those whose link
// is down they may have, for a while, what went elsewhere meanwhile.
func (j *VMJudge) Away() {
	if j.Reachable == nil {
		return
	}
	reach := j.Reachable()
	for i := range j.Hosts {
		if !reach[j.c.Fabric.Nodes[j.Hosts[i].At].GUID] {
			j.back[i] = j.c.Sim.Now()
		}
	}
}

// Look notes GUIDs and LIDs that two ports or functions have at this moment,
// both with a link that carries data, and has for a while, and where the manager can
// do something about it. A function of a shared
// port has its GUID from the moment in which it is in the port's table, others while
// they are Active.
func (j *VMJudge) Look() {
	j.Looks++
	guids, lids := map[ib.GUID]subnet.Place{}, map[ib.LID]subnet.Place{}
	var reach map[ib.GUID]bool
	cut := func(at subnet.Place) bool {
		if j.Reachable == nil {
			return false
		}
		if reach == nil {
			reach = j.Reachable()
		}
		i := j.host[at.Port]
		if !reach[j.c.Fabric.Nodes[j.Hosts[i].At].GUID] {
			j.back[i] = j.c.Sim.Now()
			return true
		}
		return false
	}
	has := func(g ib.GUID, at subnet.Place) {
		if o, ok := guids[g]; g != 0 && ok && !cut(o) && !cut(at) {
			j.fail("GUID %v is at %v and %v", g, o, at)
		}
		guids[g] = at
	}
	owns := func(l ib.LID, at subnet.Place) {
		if o, ok := lids[l]; l != 0 && ok && !cut(o) && !cut(at) {
			j.fail("LID %v is at %v and %v", l, o, at)
		}
		lids[l] = at
	}
	for i := range j.Hosts {
		h := &j.Hosts[i]
		if !j.active(h) || j.back[i] > 0 && j.c.Sim.Now().Sub(j.back[i]) < stale {
			continue
		}
		has(h.GUID, subnet.Place{Port: h.GUID})
		owns(j.c.Sim.PortInfo(h.At, int(h.Port)).LID, subnet.Place{Port: h.GUID})
		if h.Model == sim.SharedPort {
			for k, g := range j.c.Sim.GUIDs(h.At, int(h.Port))[1:] {
				at := subnet.Place{Port: h.GUID, Function: uint16(k + 1)}
				if !j.cameLate(at, g) {
					has(g, at)
				}
			}
			continue
		}
		for k := range h.VFs {
			at := subnet.Place{Port: h.GUID, Function: uint16(k + 1)}
			f, _ := j.vf(at)
			if st, err := j.c.Sim.VPort(f); err == nil && st.State == ib.StateActive {
				has(st.GUID, at)
				if st.Own {
					owns(st.LID, at)
				}
			}
		}
	}
}

// entrySeen is what an entry of a shared port's table holds, and what it held before.
type entrySeen struct {
	holds, held ib.GUID
	lost, back  mad.Time // when it lost held, and when it had it again
}

// cameLate reports whether an entry holds g because of a copy of a Set that came late:
// it lost the GUID, has it again, and managers have not had the time to read it.
func (j *VMJudge) cameLate(at subnet.Place, g ib.GUID) bool {
	now := j.c.Sim.Now()
	e := j.entries[at]
	if e == nil {
		e = &entrySeen{}
		j.entries[at] = e
	}
	if g != e.holds {
		e.back = 0
		if g != 0 && g == e.held && now.Sub(e.lost) < mad.LateCopy {
			e.back = now
		}
		e.holds, e.held, e.lost = g, e.holds, now
	}
	return j.Late && e.back != 0 && now.Sub(e.back) < late
}

// Published judges a snapshot by itself: what it says about GUIDs, LIDs, places
// and tables must fit together.
func (j *VMJudge) Published(s *subnet.Snapshot) {
	if !s.Up || s.Graph == nil {
		return
	}
	j.Snapshots++
	if j.Present {
		j.present(s)
	}
	guids := map[ib.GUID]int{}
	for i := range s.Ports {
		p := s.Ports[i]
		if p.EndPort < 0 {
			continue
		}
		for _, g := range append([]ib.GUID{p.GUID}, p.Aliases...) {
			if o, ok := guids[g]; g != 0 && ok && o != i {
				j.fail("a snapshot has GUID %v at ports %d and %d", g, o, i)
			}
			guids[g] = i
		}
		if x := s.PortByGUID(p.GUID); int(x) != i {
			j.fail("a snapshot has GUID %v at port %d and finds it at %d", p.GUID, i, x)
		}
		if p.Virtual == nil {
			if own := s.Graph.EndPorts[p.EndPort]; own.GUID != p.GUID || int(p.LID) >= len(s.Graph.LIDOwner) || s.Graph.LIDOwner[p.LID] != p.EndPort {
				j.fail("a snapshot has port %v with LID %v at end port %d, which in its graph is %v with LID %v", p.GUID, p.LID, p.EndPort, own.GUID, own.LID)
			}
			continue
		}
		j.virtual(s, i)
	}
}

// virtual judges entry i of a snapshot, a VPort that can be reached.
func (j *VMJudge) virtual(s *subnet.Snapshot, i int) {
	p := s.Ports[i]
	phys := s.Ports[p.Virtual.Port]
	at := subnet.Place{Port: phys.GUID, Function: p.Virtual.Index}
	switch {
	case p.Node != phys.Node || p.Num != phys.Num || p.EndPort != phys.EndPort || p.LMC != 0:
		j.fail("a snapshot has %v at node %d port %d end port %d, its port at %d, %d, %d", at, p.Node, p.Num, p.EndPort, phys.Node, phys.Num, phys.EndPort)
	case p.LID == 0 || p.State() != ib.StateActive && p.State() != ib.StateArmed:
		j.fail("a snapshot can reach %v, which is %v with LID %v", at, p.State(), p.LID)
	case !p.Virtual.OwnLID:
		if o := s.PortByLID(p.LID); o < 0 || s.Ports[o].EndPort != p.EndPort || int(o) == i {
			j.fail("a snapshot has %v at LID %v, which is not of its port", at, p.LID)
		}
	case s.PortByLID(p.LID) != int32(i):
		j.fail("a snapshot has LID %v at %v and finds port %d by it", p.LID, at, s.PortByLID(p.LID))
	case int(p.LID) >= len(s.Graph.LIDOwner) || s.Graph.LIDOwner[p.LID] != p.EndPort:
		owner := int32(fabric.NoLID)
		if int(p.LID) < len(s.Graph.LIDOwner) {
			owner = s.Graph.LIDOwner[p.LID]
		}
		j.fail("a snapshot has LID %v at %v, end port %d, and its graph at end port %d", p.LID, at, p.EndPort, owner)
	default:
		j.follow(s, p.LID, p.EndPort, at)
	}
}

// follow walks a snapshot's tables to a LID: they may lead nowhere, as links
// come and go, but not elsewhere.
func (j *VMJudge) follow(s *subnet.Snapshot, lid ib.LID, end int32, at subnet.Place) {
	if s.Tables == nil {
		return // none were installed for these switches yet
	}
	g, e := s.Graph, &s.Graph.EndPorts[end]
	for from := range g.Switches {
		u := int32(from)
		for hops := 0; ; hops++ {
			p := s.Tables.Entry(u, lid)
			if int(p) >= len(g.PortChannel[u]) {
				break
			}
			if g.PortChannel[u][p] < 0 {
				// Where nobody is there is a link that is down.
				somebody := func(o fabric.EndPort) bool { return o.Switch == u && o.Port == p }
				if (u != e.Switch || p != e.Port) && slices.ContainsFunc(g.EndPorts, somebody) {
					j.fail("a snapshot's tables send LID %v of %v from switch %v to port %d of switch %v", lid, at, g.Switches[from].GUID, p, g.Switches[u].GUID)
				}
				break
			}
			if u = g.Channels[g.PortChannel[u][p]].To; hops > len(g.Switches) {
				j.fail("a snapshot's tables send LID %v of %v round and round", lid, at)
				break
			}
		}
	}
}
