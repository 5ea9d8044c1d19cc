package lab

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/mad"
	"heddle/partition"
	"heddle/sim"
	"heddle/subnet"
	"heddle/vm"
)

// Keys are the P_Keys that an interface is to hold by the default policy, by its
// own list and by those of partitions: true for a full member.
func (j *VMJudge) Keys(v *vm.View, i *vm.Interface) map[ib.PKey]bool {
	keys := j.keysOf(v, i.GUID)
	for _, k := range i.Keys {
		keys[k.PKey] = keys[k.PKey] || k.Full
	}
	return keys
}

// keysOf are those that a GUID has without an interface.
func (j *VMJudge) keysOf(v *vm.View, g ib.GUID) map[ib.PKey]bool {
	keys := map[ib.PKey]bool{partition.DefaultKey: false}
	for _, p := range v.Partitions {
		if slices.Contains(p.Full, g) {
			keys[p.PKey] = true
		} else if slices.Contains(p.Limited, g) {
			keys[p.PKey] = keys[p.PKey] || false
		}
	}
	return keys
}

// Settled says what differs between what an address manager promised and what
// the adapters hold and the snapshot tells, once everything had its time.
func (j *VMJudge) Settled(m *Manager, reach map[ib.GUID]bool) error {
	v := m.VMs()
	if v.Journal != 0 {
		var list []string
		for i := range v.All() {
			if i.Doing != "" {
				list = append(list, fmt.Sprintf("%s %s %v to %v: %v %s", i.Name, i.Doing, i.Place, i.Dest, i.Placement, i.Reason))
			}
		}
		return fmt.Errorf("lab: %d operations are in the journal: %s", v.Journal, strings.Join(list, "; "))
	}
	held := map[subnet.Place]bool{}
	own := map[ib.LID]string{}
	for i := range v.All() {
		if i.LID != 0 && i.LIDKind != subnet.SharedLID {
			if o, ok := own[i.LID]; ok {
				return fmt.Errorf("lab: interfaces %s and %s both have LID %v", o, i.Name, i.LID)
			}
			own[i.LID] = i.Name
		}
		if i.State == vm.Attached || i.State == vm.Migrating {
			held[i.Place] = true
			if h, ok := j.host[i.Place.Port]; ok && reach[j.c.Fabric.Nodes[j.Hosts[h].At].GUID] {
				if err := j.placed(m, v, i); err != nil {
					return fmt.Errorf("lab: interface %s: %w", i.Name, err)
				}
			}
			continue
		}
		if err := j.nowhere(m, i); err != nil {
			return fmt.Errorf("lab: interface %s, which is %v: %w", i.Name, i.State, err)
		}
	}
	if err := j.told(m.Snap, reach); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(j.Wild)) {
		if err := j.roams(v, name, reach); err != nil {
			return fmt.Errorf("lab: VM %s: %w", name, err)
		}
	}
	return j.nothingElse(m, held, reach)
}

// told compares the functions that a snapshot can reach with those that are
// Active.
func (j *VMJudge) told(s *subnet.Snapshot, reach map[ib.GUID]bool) error {
	known := map[subnet.Place]*subnet.Port{}
	for k := range s.Ports {
		if p := s.Ports[k]; p.Virtual != nil && p.EndPort >= 0 {
			known[subnet.Place{Port: s.Ports[p.Virtual.Port].GUID, Function: p.Virtual.Index}] = p
		}
	}
	for i := range j.Hosts {
		h := &j.Hosts[i]
		if !reach[j.c.Fabric.Nodes[h.At].GUID] || h.Model == sim.SharedPort {
			continue
		}
		for k := 1; k <= h.VFs; k++ {
			at := subnet.Place{Port: h.GUID, Function: uint16(k)}
			f, _ := j.vf(at)
			st, err := j.c.Sim.VPort(f)
			p := known[at]
			switch {
			case err != nil:
				return err
			case (p != nil) != (st.State == ib.StateActive):
				return fmt.Errorf("lab: %v is %v; that the snapshot can reach it is %v", at, st.State, p != nil)
			case p != nil && (p.GUID != st.GUID || p.LID != st.LID || p.Virtual.OwnLID != st.Own):
				return fmt.Errorf("lab: %v has GUID %v and LID %v (own: %v); the snapshot says %v and %v (own: %v)", at, st.GUID, st.LID, st.Own, p.GUID, p.LID, p.Virtual.OwnLID)
			}
		}
	}
	return nil
}

// placed judges an interface at its place.
func (j *VMJudge) placed(m *Manager, v *vm.View, i *vm.Interface) error {
	st, ok := j.c.Sim.VM(i.Name)
	at := j.place(st.At)
	h := &j.Hosts[j.host[i.Place.Port]]
	port := j.c.Sim.PortInfo(h.At, int(h.Port))
	if h.Model == sim.SharedPort && int(i.Place.Function) > h.VFs {
		return nil // a shared port does not tell how many functions it has
	}
	switch {
	case !ok || at != i.Place:
		return fmt.Errorf("it is to be at %v, its VM is at %v", i.Place, at)
	case i.Placement != subnet.PlacementPlaced || i.Doing != "":
		return fmt.Errorf("its placement at %v is %v (%s), %q is under way", at, i.Placement, i.Reason, i.Doing)
	case st.State != ib.StateActive:
		return fmt.Errorf("%v is %v", at, st.State)
	case st.GID.GUID() != i.GUID:
		return fmt.Errorf("%v has GID %v, want GUID %v", at, st.GID, i.GUID)
	case st.LID == 0 || i.LIDKind != subnet.SharedLID && st.LID != i.LID:
		return fmt.Errorf("%v has LID %v, want %v", at, st.LID, i.LID)
	case i.LIDKind == subnet.SharedLID && h.Model == sim.VPorts && !h.OwnLIDs && st.LID != port.LID:
		return fmt.Errorf("%v has LID %v, its port %v", at, st.LID, port.LID)
	}
	if err := j.holds(st, j.Keys(v, i), h.Model == sim.SharedPort); err != nil {
		return err
	}
	return j.shown(m.Snap, i, st.LID)
}

// shown judges what the snapshot says of a placed interface.
func (j *VMJudge) shown(s *subnet.Snapshot, i *vm.Interface, lid ib.LID) error {
	at, ok := placeIn(s, i.GUID)
	if !ok {
		return fmt.Errorf("GUID %v is not in the snapshot", i.GUID)
	}
	p := s.Ports[s.PortByGUID(i.GUID)]
	if at != i.Place || p.LID != lid {
		return fmt.Errorf("the snapshot has GUID %v at %v with LID %v, want %v and %v", i.GUID, at, p.LID, i.Place, lid)
	}
	return nil
}

// nowhere judges an interface that has no place: nobody has its addresses.
func (j *VMJudge) nowhere(m *Manager, i *vm.Interface) error {
	if x := m.Snap.PortByGUID(i.GUID); x >= 0 {
		return fmt.Errorf("the snapshot has its GUID %v at port %v", i.GUID, m.Snap.Ports[x].GUID)
	}
	if i.LIDKind == subnet.SharedLID || i.LID == 0 {
		return nil
	}
	for _, l := range j.c.Sim.LIDs() {
		if i.LID < l.LID || int(i.LID) >= int(l.LID)+l.Num {
			continue
		}
		// A function that always has a LID keeps that of the interface that left it.
		if st, err := j.c.Sim.VPort(sim.VF{Node: l.Node, Port: l.Port, Index: l.VPort}); err == nil && j.Hosts[j.host[l.GUID]].Model == sim.VSwitch && st.State != ib.StateActive {
			continue
		}
		return fmt.Errorf("its LID %v is at %v VPort %d", i.LID, l.GUID, l.VPort)
	}
	return nil
}

// nothingElse judges that functions which the address manager writes hold
// nothing where no interface is.
func (j *VMJudge) nothingElse(m *Manager, held map[subnet.Place]bool, reach map[ib.GUID]bool) error {
	for i := range j.Hosts {
		h := &j.Hosts[i]
		if !reach[j.c.Fabric.Nodes[h.At].GUID] || h.Model == sim.VPorts {
			continue
		}
		var table []ib.GUID
		if h.Model == sim.SharedPort {
			table = j.c.Sim.GUIDs(h.At, int(h.Port))
		}
		for k := 1; k <= h.VFs; k++ {
			at := subnet.Place{Port: h.GUID, Function: uint16(k)}
			if held[at] {
				continue
			}
			f, _ := j.vf(at)
			st, err := j.c.Sim.VPort(f)
			switch {
			case err != nil:
				return err
			case table != nil && table[k] != 0 && j.Restarts > 0 && j.back[i] > 0 && m.view(table[k]) == nil:
				// Of one that was deleted while the port was cut off, and a manager that
				// started since does not know that there was one. It goes when somebody
				// gets the GUID.
			case table != nil && table[k] != 0:
				return fmt.Errorf("lab: %v has GUID %v, which no interface has there", at, table[k])
			case table == nil && m.view(st.GUID) != nil:
				return fmt.Errorf("lab: %v has GUID %v of interface %s", at, st.GUID, m.view(st.GUID).Name)
			}
		}
	}
	return nil
}

// view is the interface with a GUID, nil if there is none.
func (m *Manager) view(g ib.GUID) *vm.Interface {
	for i := range m.VMs().All() {
		if i.GUID == g {
			return i
		}
	}
	return nil
}

// roams judges a virtual machine that no address manager knows.
func (j *VMJudge) roams(v *vm.View, name string, reach map[ib.GUID]bool) error {
	st, ok := j.c.Sim.VM(name)
	if !ok || st.At.Node < 0 || !reach[j.c.Fabric.Nodes[st.At.Node].GUID] {
		return nil
	}
	f, err := j.c.Sim.VPort(st.At)
	switch {
	case err != nil:
		return err
	case st.State != ib.StateActive:
		return fmt.Errorf("%v is %v", j.place(st.At), st.State)
	case f.Own && j.wild[f.GUID] != 0 && j.wild[f.GUID] != f.LID:
		return fmt.Errorf("%v has LID %v, had %v", j.place(st.At), f.LID, j.wild[f.GUID])
	case f.Own:
		j.wild[f.GUID] = f.LID
	}
	return j.holds(st, j.keysOf(v, f.GUID), false)
}

// holds compares the P_Keys of a virtual machine with those that it is to have. In
// the table of a shared port another function may be a full member.
func (j *VMJudge) holds(st sim.VMState, want map[ib.PKey]bool, shared bool) error {
	got := map[ib.PKey]bool{}
	for _, k := range st.PKeys {
		got[k.Base()] = got[k.Base()] || k&0x8000 != 0
	}
	if shared {
		for k := range got {
			got[k] = got[k] && want[k]
		}
	}
	if !maps.Equal(want, got) {
		return fmt.Errorf("%v has P_Keys %v, want %v", j.place(st.At), got, want)
	}
	return nil
}

// party is who sends and receives packets.
type party struct {
	name   string
	st     sim.VMState
	keys   map[ib.PKey]bool
	shared bool // on a shared port
}

// Reach sends packets between virtual machines, at most that many: who shares a
// partition with another one as a full member must be answered from the right
// function, who shares none must not arrive.
func (j *VMJudge) Reach(m *Manager, reach map[ib.GUID]bool, most int, rng *rand.Rand) error {
	v := m.VMs()
	var list []party
	add := func(name string, keys map[ib.PKey]bool) {
		if st, ok := j.c.Sim.VM(name); ok && st.At.Node >= 0 && reach[j.c.Fabric.Nodes[st.At.Node].GUID] {
			list = append(list, party{name, st, keys, j.Hosts[j.host[j.place(st.At).Port]].Model == sim.SharedPort})
		}
	}
	for i := range v.All() {
		if i.State == vm.Attached || i.State == vm.Migrating {
			add(i.Name, j.Keys(v, i))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(j.Wild)) {
		add(name, j.keysOf(v, j.Wild[name]))
	}
	type try struct {
		from, to party
		key      ib.PKey
		through  bool
		p        *sim.Probe
	}
	var tries []try
	for x, a := range list {
		for y, b := range list {
			shared := false
			for _, k := range slices.Sorted(maps.Keys(a.keys)) {
				full, ok := b.keys[k]
				if ok = ok && (full || a.keys[k]); x != y && ok {
					tries = append(tries, try{from: a, to: b, key: k, through: true})
				}
				shared = shared || ok
			}
			for _, k := range slices.Sorted(maps.Keys(a.keys)) {
				// On a shared port a limited member has a full one's entry, if another
				// function there is one.
				if _, both := b.keys[k]; x != y && !shared && (!both || !a.shared && !b.shared) {
					tries = append(tries, try{from: a, to: b, key: k})
				}
			}
		}
	}
	rng.Shuffle(len(tries), func(x, y int) { tries[x], tries[y] = tries[y], tries[x] })
	tries = tries[:min(len(tries), most)]
	for k := range tries {
		t := &tries[k]
		to := mad.Addr{LID: t.to.st.LID, SL: j.sl(m.Snap, t.from.st.GID.GUID(), t.to.st.LID), HasGRH: true, GRH: mad.GRH{GID: t.to.st.GID}}
		var err error
		if t.through {
			if to, err = j.path(m, t.from, t.to, t.key); err != nil {
				return err
			}
		}
		if t.p, err = j.c.Sim.Probe(t.from.st.At, to, t.key); err != nil {
			return err
		}
	}
	j.c.Run(20 * time.Millisecond)
	for _, t := range tries {
		j.Probes++
		switch {
		case t.through && t.p.Arrived && !t.p.Answered && t.p.At == t.to.st.At && t.p.Lost == sim.DropSL && j.guarded(m, t.from, t.to, t.key):
			j.Through++
		case t.through && (!t.p.Answered || t.p.At != t.to.st.At):
			return fmt.Errorf("lab: %s at %v does not reach %s at %v with P_Key %v: %v", t.from.name, j.place(t.from.st.At), t.to.name, j.place(t.to.st.At), t.key, t.p)
		case !t.through && t.p.Arrived:
			return fmt.Errorf("lab: %s at %v reaches %s at %v with P_Key %v, which they do not share: %v", t.from.name, j.place(t.from.st.At), t.to.name, j.place(t.to.st.At), t.key, t.p)
		case t.through:
			j.Through++
		}
	}
	return nil
}

// guarded reports whether guards stand (docs/routing.md) and the SA has another service level for the way
// back than for the way there. An echo takes the level of the way there, which a guard may discard until
// hosts have learned; packets on the levels that the SA tells pass.
func (j *VMJudge) guarded(m *Manager, a, b party, key ib.PKey) bool {
	if l := m.Snap.Tables.Lanes; l == nil || !l.Guards {
		return false
	}
	there, err := j.path(m, a, b, key)
	back, err2 := j.path(m, b, a, key)
	return err == nil && err2 == nil && there.SL != back.SL
}

// path is the address that the SA gives one virtual machine for another; it must be
// what the adapters hold. A GRH is used if the SA wants one, and on shared ports,
// where probes have no other way to say which function they are for.
func (j *VMJudge) path(m *Manager, a, b party, key ib.PKey) (to mad.Addr, err error) {
	r, err := m.Path(mad.Addr{LID: a.st.LID, QP: 1, HasGRH: true, GRH: mad.GRH{GID: a.st.GID}}, a.st.GID, b.st.GID, key|0x8000)
	if err != nil {
		return to, fmt.Errorf("%w (%s at %v to %s at %v)", err, a.name, j.place(a.st.At), b.name, j.place(b.st.At))
	}
	if r.SLID != a.st.LID || r.DLID != b.st.LID {
		return to, fmt.Errorf("lab: the SA has the path from %s to %s from LID %v to %v, they are at %v and %v", a.name, b.name, r.SLID, r.DLID, a.st.LID, b.st.LID)
	}
	return mad.Addr{LID: r.DLID, SL: r.SL, HasGRH: r.HopLimit > 1 || a.shared || b.shared, GRH: mad.GRH{GID: r.DGID, HopLimit: r.HopLimit}}, nil
}

// sl is the service level that the manager tells for packets to a LID.
func (j *VMJudge) sl(s *subnet.Snapshot, from ib.GUID, to ib.LID) ib.SL {
	x := s.PortByGUID(from)
	if x < 0 || s.Tables == nil || s.Ports[x].EndPort < 0 {
		return 0
	}
	e := &s.Graph.EndPorts[s.Ports[x].EndPort]
	if e.Switch == fabric.NoLID {
		return 0
	}
	return s.Tables.PathSL(e.Switch, to)
}
