package lab

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sa"
	"heddle/sim"
	"heddle/store"
	"heddle/subnet"
)

// Spans of a survival.
const (
	survivalGroups = 6
	survivalHosts  = 24                     // at most
	survivalStore  = 2 * time.Millisecond   // at most, of a write
	survivalRepeat = 100 * time.Millisecond // a request without an answer is repeated
	survivalLimit  = 20 * time.Second       // of a takeover, with all that hosts ask then
	survivalRest   = 3 * time.Second        // more than TrialConfig waits for better tables
)

// A survival is a subnet whose hosts join and leave groups while managers with one state take it over
// from each other. It notes what a manager stores and writes without need.
type survival struct {
	t    *testing.T
	seed uint64
	what string
	c    *Cluster
	rng  *rand.Rand
	m    *Manager  // the active one
	on   [2]string // nodes of the managers
	all  []*survivor

	asking  bool                 // hosts join and leave
	changed [survivalGroups]bool // whose members have changed since the switches were at rest
	mlids   map[ib.LID][]int     // groups that have had an MLID
	members map[string]bool      // stored ones, by the keys of their records

	joins, again, sets, takeovers int
}

// A survivor is a host that is a member of groups, or wants to be.
type survivor struct {
	x   *survival
	ep  *sim.Endpoint
	gid ib.GID
	in  [survivalGroups]struct {
		want  bool
		acked bool   // the SA has acknowledged what is wanted
		tid   uint64 // of the request without an answer; 0: none
	}
	tid uint64
}

func newSurvival(t *testing.T, seed uint64) *survival {
	k := RepairFabrics()[int(seed)%len(RepairFabrics())]
	f, err := k.Make(seed)
	must(t, err)
	x := &survival{
		t: t, seed: seed, what: fmt.Sprintf("seed %d, %s", seed, k.Name), rng: rand.New(rand.NewPCG(seed, 0x5a11)),
		mlids: map[ib.LID][]int{}, members: map[string]bool{},
	}
	x.c, err = NewCluster(f, timed(seed))
	must(t, err)
	nodes := cas(f)
	x.rng.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	x.on = [2]string(nodes[:2])
	x.start(x.on[0], nil, nil)
	for _, node := range nodes[2:min(len(nodes), 2+survivalHosts)] {
		ep, err := x.c.Sim.Attach(node)
		must(t, err)
		h := &survivor{x: x, ep: ep, gid: ib.MakeGID(ib.DefaultSubnetPrefix, ep.PortGUID())}
		ep.OnPacket = h.receive
		ep.OnReregister = func() { x.c.Sim.After(time.Duration(x.rng.IntN(int(time.Millisecond))), h.reregister) }
		x.all = append(x.all, h)
	}
	return x
}

// start makes a manager the active one.
func (x *survival) start(node string, st *store.Memory, warm *subnet.Snapshot) {
	m, err := x.c.Attach(node, TrialConfig(), st)
	must(x.t, err)
	m.ServeSA(SAConfig(1), sa.Options{SAKey: 1})
	m.SlowSAStore(func() time.Duration { return time.Duration(x.rng.IntN(int(survivalStore))) })
	m.OnStore, m.OnSend = func(ops []store.Op) { x.stores(m, ops) }, func(p *mad.Packet) { x.sends(m, p) }
	m.SetWarm(warm)
	must(x.t, m.Start())
	x.m = m
}

func (x *survival) failf(format string, a ...any) {
	x.t.Helper()
	x.t.Fatalf("%s, after %d takeovers: %s\n%s", x.what, x.takeovers, fmt.Sprintf(format, a...), tail(x.m))
}

// stores fails if a member is stored that is one, or removed that has not left.
func (x *survival) stores(m *Manager, ops []store.Op) {
	x.c.Sim.After(0, func() { x.note(m.View()) })
	for i := range ops {
		r := &ops[i].Record
		switch key := string(r.Key); {
		case r.Table != store.TableMembers:
		case ops[i].Kind == store.PutRecord:
			if x.members[key] {
				x.failf("the join of a member was written again: %x", key)
			}
			x.members[key] = true
		case ops[i].Kind == store.DeleteRecord:
			for _, h := range x.all {
				for g := range h.in {
					if h.key(g) == key && h.in[g].want {
						x.failf("a member of group %d was removed: %v", g, h.gid)
					}
				}
			}
			delete(x.members, key)
		}
	}
}

// sends fails if a block of a multicast table changes the tree of a group whose members are the same
// as before, or changes nothing.
func (x *survival) sends(m *Manager, p *mad.Packet) {
	d := (*ib.MAD)(p.Data)
	if !d.Class().IsSMP() || d.Method() != ib.MethodSet || d.AttrID() != smp.AttrMFT {
		return
	}
	x.sets++
	var want smp.MFT
	must(x.t, want.Decode(smp.Data(d)))
	block, pos := smp.SplitMFTMod(d.AttrMod())
	at := x.target(m, p)
	held := x.c.Sim.MFTBlock(at, block, pos)
	changed := x.changed
	x.c.Sim.After(5*survivalStore, func() { // the MLID of a new group is known when that is stored
		if !m.Dead {
			x.needed(at, block, &want, &held, &changed)
		}
	})
}

// needed is sends of one block, with what the switch had and which groups had changed then.
func (x *survival) needed(at int, block uint16, want, held *smp.MFT, had *[survivalGroups]bool) {
	due := false
	for i := range want {
		groups := x.mlids[ib.LID(0xC000+int(block)*smp.MFTBlockMLIDs+i)]
		changed := slices.ContainsFunc(groups, func(g int) bool { return had[g] })
		if due = due || changed; want[i] != held[i] && !changed {
			x.failf("%s got another entry of groups %d, whose members had not changed: %#x in place of %#x", x.c.Fabric.Nodes[at].ID, groups, want[i], held[i])
		}
	}
	if !due {
		x.failf("a block of %s was written without need", x.c.Fabric.Nodes[at].ID)
	}
}

// note notes the MLIDs of groups.
func (x *survival) note(v *sa.View) {
	for _, g := range v.Groups {
		for k := range survivalGroups {
			if g.MGID == joinMGID(k) && !slices.Contains(x.mlids[g.MLID], k) {
				x.mlids[g.MLID] = append(x.mlids[g.MLID], k)
			}
		}
	}
}

// target is the node that a request of a manager is for.
func (x *survival) target(m *Manager, p *mad.Packet) int {
	d := (*ib.MAD)(p.Data)
	if d.Class() != ib.ClassSubnDR {
		for i := range x.c.Fabric.Nodes {
			if x.c.Fabric.Nodes[i].IsSwitch() && x.c.Sim.PortInfo(i, 0).LID == p.Addr.LID {
				return i
			}
		}
		x.failf("no switch has LID %v", p.Addr.LID)
	}
	at, err := x.c.Sim.Node(m.Node)
	must(x.t, err)
	for _, out := range smp.InitialPath(d)[1 : 1+int(smp.HopCount(d))] {
		r, ok := x.c.Sim.Peer(at, int(out))
		if !ok {
			x.failf("a path leads nowhere")
		}
		at = int(r.Node)
	}
	return at
}

// key is that of the record of a membership.
func (h *survivor) key(g int) string {
	mgid := joinMGID(g)
	return string(mgid[:]) + string(h.gid[:])
}

// ask has hosts change their minds now and then, while that is wanted.
func (x *survival) ask() {
	if !x.asking {
		return
	}
	h, g := x.all[x.rng.IntN(len(x.all))], x.rng.IntN(survivalGroups)
	if in := &h.in[g]; in.tid == 0 && (!in.want || x.rng.IntN(2) == 0) {
		in.want, in.acked, x.changed[g] = !in.want, false, true
		h.send(g)
	}
	x.c.Sim.After(time.Duration(x.rng.IntN(int(4*time.Millisecond))), x.ask)
}

// send asks for what is wanted, until that is answered.
func (h *survivor) send(g int) {
	in := &h.in[g]
	r := wire.MCMemberRecord{MGID: joinMGID(g), PortGID: h.gid, JoinState: wire.JoinFull, PKey: ib.PKeyDefaultFull, QKey: 0x1234}
	const who = wire.MCMemberCompMGID | wire.MCMemberCompPortGID | wire.MCMemberCompJoinState
	var m ib.MAD
	if in.want {
		wire.New(&m, ib.MethodSet, wire.AttrMCMemberRecord, 0, who|
			wire.MCMemberCompQKey|wire.MCMemberCompPKey|wire.MCMemberCompTClass|wire.MCMemberCompSL|wire.MCMemberCompFlowLabel)
	} else {
		wire.New(&m, ib.MethodDelete, wire.AttrMCMemberRecord, 0, who)
	}
	r.Put(wire.Data(&m))
	h.tid++
	in.tid = h.tid
	m.SetTID(in.tid)
	if to := h.ep.PortInfo().MasterSMLID; to.IsUnicast() {
		h.ep.Send(&mad.Packet{Addr: mad.Addr{LID: to, QP: 1, QKey: ib.QKeyGSI}, LocalQP: 1, Data: m[:]})
	}
	tid := in.tid
	h.x.c.Sim.After(survivalRepeat, func() {
		if in.tid == tid {
			h.send(g)
		}
	})
}

// reregister joins all groups again, as a host does that is asked to register.
func (h *survivor) reregister() {
	for g := range h.in {
		if h.in[g].want || h.in[g].tid != 0 {
			if h.in[g].acked {
				h.x.again++
			}
			h.send(g)
		}
	}
}

func (h *survivor) receive(p *mad.Packet) {
	x, m := h.x, (*ib.MAD)(p.Data)
	if !m.Method().IsResponse() || m.AttrID() != wire.AttrMCMemberRecord || m.Status() == ib.StatusBusy || x.rng.IntN(20) == 0 {
		return // or the answer is lost; the request is repeated
	}
	for g := range h.in {
		in := &h.in[g]
		if in.tid == 0 || in.tid != m.TID()&0xFFFF_FFFF {
			continue
		}
		if in.tid = 0; !in.want { // if it is refused, an answer was lost
			in.acked = true
			return
		}
		if m.Status() != ib.StatusOK {
			x.failf("the join of group %d was refused: %v", g, m.Status())
		}
		in.acked = true
		x.joins++
	}
}

// answered reports whether no host waits for an answer.
func (x *survival) answered() bool {
	for _, h := range x.all {
		for g := range h.in {
			if h.in[g].tid != 0 {
				return false
			}
		}
	}
	return true
}

// rest has hosts ask nothing new, and waits until nothing more is written.
func (x *survival) rest() {
	x.asking = false
	if err := x.c.RunUntil(survivalLimit, func() bool { return x.m.Up() && x.m.Idle() && x.answered() }); err != nil {
		x.failf("%v", err)
	}
	x.c.Run(survivalRest)
	if err := x.c.Check(x.m); err != nil {
		x.failf("%v", err)
	}
	clear(x.changed[:])
}

// kept fails unless the store has every acknowledged join, and nothing that was left.
func (x *survival) kept() {
	for _, h := range x.all {
		for g := range h.in {
			if in := &h.in[g]; in.acked && x.members[h.key(g)] != in.want {
				x.failf("%v wants to be a member of group %d: %v, which was acknowledged; stored: %v", h.gid, g, in.want, !in.want)
			}
		}
	}
}

// takeOver ends the active manager in some way at some moment, and starts the other one.
func (x *survival) takeOver() {
	x.asking = x.rng.IntN(3) > 0
	x.ask()
	x.c.Run(time.Duration(x.rng.IntN(int(60 * time.Millisecond))))
	was := x.m
	var warm *subnet.Snapshot
	switch x.rng.IntN(3) {
	case 0: // killed: what it was storing is not stored, and it is missed after a while
		was.Kill()
		if x.rng.IntN(2) == 0 {
			warm = mirrorOf(x.t, was.Snap)
		}
		x.c.Run(time.Duration(x.rng.IntN(int(400 * time.Millisecond))))
	case 1: // handover: it ends its work, and the other one begins immediately
		x.stop(was)
		warm = mirrorOf(x.t, was.Snap)
	case 2: // planned end: hosts do not ask while the other one begins
		x.asking = false
		x.stop(was)
		warm = mirrorOf(x.t, was.Snap)
	}
	x.takeovers++
	x.kept()
	x.start(x.on[x.takeovers%2], was.Store.Reopen(), warm)
	x.c.Run(time.Duration(x.rng.IntN(int(60 * time.Millisecond))))
	x.rest()
	x.kept()
}

func (x *survival) stop(m *Manager) {
	m.Stop()
	if err := x.c.RunUntil(survivalLimit, func() bool { return m.Stopped }); err != nil {
		x.failf("%v", err)
	}
}

// TestJoinsSurvive: managers take the subnet over from each other at any moment, also while hosts join
// and leave. Every acknowledged join is stored before and after, no join of a member is written again,
// and no entry of a multicast table is written of a group whose members are the same. TestWarmRejoin has
// the moments at which all this comes, TestTreesSurvive other engines and failing links.
func TestJoinsSurvive(t *testing.T) {
	first, n := seeds(24, 2000)
	takeovers, joins, again, sets := 0, 0, 0, 0
	for seed := first; seed < first+n; seed++ {
		x := newSurvival(t, seed)
		x.asking = true
		x.ask()
		mustUp(t, x.c, x.m)
		x.c.Run(100 * time.Millisecond)
		x.rest()
		for range 3 {
			x.takeOver()
		}
		takeovers, joins, again, sets = takeovers+x.takeovers, joins+x.joins, again+x.again, sets+x.sets
	}
	t.Logf("%d takeovers, %d joins, %d of members again, %d multicast blocks", takeovers, joins, again, sets)
}
