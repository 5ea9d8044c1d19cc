package lab

import (
	"maps"
	"slices"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sim"
	"heddle/subnet"
	"heddle/vm"
)

// What must hold at the moment in which a function begins to be used, and while an
// address moves.

// keysLag is how long a manager may take from an operation until its P_Keys are at a
// function that it makes Active then.
const keysLag = 2 * time.Second

// swapLag is how long a Set that was meant for the virtual machine before may be on
// its way: it makes the one Active that has come to the function meanwhile, and no
// manager can prevent that.
const swapLag = 100 * time.Millisecond

// viewSeen is what an address manager published, and when that was replaced.
type viewSeen struct {
	v     *vm.View
	until mad.Time // mad.Never: it is in force
}

// Told notes what the address manager publishes.
func (j *VMJudge) Told(v *vm.View) {
	now := j.c.Sim.Now()
	if n := len(j.views); n > 0 {
		j.views[n-1].until = now
	}
	j.views = append(slices.DeleteFunc(j.views, func(s viewSeen) bool { return s.until.Add(keysLag) < now }), viewSeen{v, mad.Never})
}

// allowed are the P_Keys of a GUID by a view.
func (j *VMJudge) allowed(v *vm.View, g ib.GUID) map[ib.PKey]bool {
	for i := range v.All() {
		if i.GUID == g {
			return j.Keys(v, i)
		}
	}
	return j.keysOf(v, g)
}

// change notes what becomes of functions: who left one, and which was made Active by
// the Set that is reported next.
func (j *VMJudge) change(ch *sim.Change) {
	f := sim.VF{Node: ch.Node, Port: ch.Port, Index: ch.VPort}
	switch {
	case ch.Kind == sim.ChangeVPort && ch.New == ib.StateActive:
		j.begins = append(j.begins, f)
	case ch.Kind == sim.ChangeVPort && ch.New == ib.StateDown:
		j.left[f] = ch.At
		j.downed(f)
	case ch.Kind == sim.ChangeReset, ch.Kind == sim.ChangeState && ch.Old == ib.StateActive:
		j.fault()
	case ch.Kind == sim.ChangeSet && ch.Attr == smp.AttrVPortInfo:
		for _, f := range j.begins {
			j.begun(f)
		}
		j.begins = j.begins[:0]
		j.setDown(sim.VF{Node: ch.Node, Port: ch.Port, Index: uint16(ch.AttrMod)})
	}
}

// begun judges the P_Keys of a function that was just made Active: it holds none
// that its GUID was not given lately, and all that it had all the time.
func (j *VMJudge) begun(f sim.VF) {
	st, err := j.c.Sim.VPort(f)
	if err != nil || st.State != ib.StateActive || len(j.views) == 0 {
		return
	}
	if at, ok := j.left[f]; ok && j.c.Sim.Now().Sub(at) < swapLag {
		return
	}
	list, err := j.c.Sim.VPortPKeys(f, nil)
	if err != nil {
		j.fail("%v: %v", j.place(f), err)
		return
	}
	j.Begun++
	got := map[ib.PKey]bool{}
	for _, k := range list {
		if !k.IsEmpty() {
			got[k.Base()] = got[k.Base()] || k.IsFull()
		}
	}
	may := map[ib.PKey]bool{}
	var must map[ib.PKey]bool
	for _, s := range j.views {
		a := j.allowed(s.v, st.GUID)
		for k, full := range a {
			may[k] = may[k] || full
		}
		if must == nil {
			must = maps.Clone(a)
		}
		maps.DeleteFunc(must, func(k ib.PKey, _ bool) bool { _, ok := a[k]; return !ok })
	}
	for _, k := range slices.Sorted(maps.Keys(got)) {
		if full, ok := may[k]; !ok || got[k] && !full {
			j.fail("%v with GUID %v is made Active with P_Key %v (full: %v), which it was not given: %v", j.place(f), st.GUID, k, got[k], got)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(must)) {
		if _, ok := got[k]; !ok {
			j.fail("%v with GUID %v is made Active without P_Key %v: %v", j.place(f), st.GUID, k, got)
		}
	}
}

// moving is an address that was moved from one place to another by the address
// manager, both of which are up.
type moving struct{ from, to subnet.Place }

// Placed notes what the address manager asks for; shown is the snapshot in force.
func (j *VMJudge) Placed(put []subnet.Placement, drop []ib.GUID, all bool, shown *subnet.Snapshot) {
	if all { // it starts
		clear(j.moves)
		clear(j.placements)
	}
	for _, g := range drop {
		delete(j.moves, g)
		delete(j.placements, g)
	}
	for i := range put {
		l := &put[i]
		from := j.placements[l.GUID]
		j.placements[l.GUID] = l.Place
		if from == l.Place {
			continue
		}
		delete(j.moves, l.GUID)
		none := subnet.Place{}
		if from == none || l.Place == none || j.c.Sim.Now().Sub(j.faulted) < keysLag || !shows(shown, l.GUID) || !j.usable(from) || !j.usable(l.Place) {
			continue
		}
		if l.LIDKind == subnet.FloatingLID && j.Hosts[j.host[from.Port]].Model != j.Hosts[j.host[l.Place.Port]].Model {
			continue // not yet: where a LID begins to float, or ends to, its GUID is absent for a moment
		}
		j.moves[l.GUID] = moving{from, l.Place}
	}
}

// usable reports whether a place can hold an address: its host is in the subnet, and
// its function up.
func (j *VMJudge) usable(p subnet.Place) bool {
	f, ok := j.vf(p)
	if !ok {
		return false
	}
	h := &j.Hosts[j.host[p.Port]]
	if !j.active(h) || int(p.Function) > h.VFs {
		return false
	}
	st, err := j.c.Sim.VPort(f)
	return err == nil && (h.Model == sim.SharedPort || st.Up && st.State != ib.StateDown)
}

// shows reports whether an address can be found in a snapshot.
func shows(s *subnet.Snapshot, g ib.GUID) bool {
	if s == nil {
		return false
	}
	x := s.PortByGUID(g)
	return x >= 0 && s.Ports[x].EndPort >= 0
}

// downed: a function went down. Unless it is said next that a Set did it, its host did.
func (j *VMJudge) downed(f sim.VF) {
	p := j.place(f)
	for g, m := range j.moves {
		if m.from == p || m.to == p {
			j.parted[f] = append(j.parted[f], g)
		}
	}
}

// setDown: what a function did at this moment was by a Set. What it did before was not,
// though a Set may follow before the next snapshot.
func (j *VMJudge) setDown(f sim.VF) {
	if j.left[f] == j.c.Sim.Now() {
		delete(j.parted, f)
	}
}

// fault: something happened that may cut hosts off.
func (j *VMJudge) fault() {
	j.faulted = j.c.Sim.Now()
	clear(j.moves)
	clear(j.parted)
}

// present judges that addresses which move are somewhere in a snapshot.
func (j *VMJudge) present(s *subnet.Snapshot) {
	for _, list := range j.parted { // by their hosts: the Set would have been reported
		for _, g := range list {
			delete(j.moves, g)
		}
	}
	clear(j.parted)
	for _, g := range slices.Sorted(maps.Keys(j.moves)) {
		m := j.moves[g]
		if j.Moved++; !shows(s, g) {
			j.fail("a snapshot does not have GUID %v, which moves from %v to %v", g, m.from, m.to)
		}
		if at, ok := placeIn(s, g); ok && at == m.to {
			delete(j.moves, g)
		}
	}
}

// placeIn is where a snapshot has an address.
func placeIn(s *subnet.Snapshot, g ib.GUID) (at subnet.Place, ok bool) {
	x := s.PortByGUID(g)
	if x < 0 {
		return at, false
	}
	p := s.Ports[x]
	if p.Virtual != nil {
		return subnet.Place{Port: s.Ports[p.Virtual.Port].GUID, Function: p.Virtual.Index}, true
	}
	return subnet.Place{Port: p.GUID, Function: uint16(max(slices.Index(p.Aliases, g), 0))}, true
}
