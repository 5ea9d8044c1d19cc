package lab

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"heddle/fabric"
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
	"heddle/sa"
	"heddle/sim"
	"heddle/sm"
)

// JoinTrial is one seeded run in which hosts join and leave multicast groups
// while cables fail and return. It measures what a member feels: the time from
// the acknowledgement of its join until packets pass between it and every other
// member that was acknowledged before it.
type JoinTrial struct {
	Seed   uint64
	Fabric *fabric.Fabric
	Chain  RepairChain
	// For is how long joins and faults go on.
	For time.Duration
	// Every is the time between two cable events, 0: none. Cables are taken out
	// only where every host stays connected.
	Every time.Duration
	// Mute is how many nodes in a hundred do not answer the manager at a time, others
	// every 3 s. Never its own node, nor the switch before it.
	Mute int
	// Config, if set, changes the manager's configuration.
	Config func(*sm.Config)

	c       *Cluster
	m       *Manager
	rng     *rand.Rand
	clients []*joinClient
	out     []fabric.Ref // cables that are out, the oldest first
	open    []*join
	mute    map[int]bool // nodes that do not answer
	ill     map[int]bool // switches that did not at some time
	pairs   *sim.Pairs
	broken  map[repairPair]mad.Time // since when
	res     JoinResult
}

// JoinResult is the outcome of a trial.
type JoinResult struct {
	// Times are from the acknowledgement of each join to the moment at which the
	// switches' tables carried the member's packets, sorted.
	Times []time.Duration
	// Over are those of joins that a switch had to be written for which had not
	// answered before, sorted; they are not among Times.
	Over []time.Duration
	// Unserved counts joins that were not carried at the end.
	Unserved int
	Refused  int // joins that the SA did not acknowledge
	Loops    int // looks at which a packet would have gone round in the tables
	Cables   int // cable events
	// Outage is the longest time for which a switch's packets did not reach a host
	// although a way existed.
	Outage time.Duration
}

// Quantile is the time that so much of the joins did not exceed.
func (r *JoinResult) Quantile(q float64) time.Duration {
	if len(r.Times) == 0 {
		return 0
	}
	return r.Times[min(int(q*float64(len(r.Times))), len(r.Times)-1)]
}

type joinClient struct {
	k    *Client
	node int
	gid  ib.GID
	in   [joinGroups]bool // acknowledged member
	tid  uint32           // of the request under way, 0: none
	what int              // the group that it is about
	add  bool
	due  mad.Time // when it gives up waiting
}

type join struct {
	group  int
	node   int
	others []int // members before it, by node
	at     mad.Time
	over   bool // its tree has, or had meanwhile, a switch that is ill
}

const (
	joinGroups = 4
	joinStep   = time.Millisecond // the resolution of the times
	joinGap    = 60 * time.Millisecond
	muteTime   = 3 * time.Second
)

// Run runs the trial.
func (t *JoinTrial) Run() (*JoinResult, error) {
	t.rng = rand.New(rand.NewPCG(t.Seed, 0x6a6f696e))
	if err := t.start(); err != nil {
		return nil, err
	}
	t.broken = map[repairPair]mad.Time{}
	t.pairs = t.c.Sim.WatchPairs(t.m.ep.NodeIndex())
	t.pairs.OnPair = t.pair
	defer func() { t.c.Sim.OnChange = nil }()
	end := t.c.Sim.Now().Add(t.For)
	cable, next, mute := t.c.Sim.Now().Add(t.Every), t.c.Sim.Now(), t.c.Sim.Now().Add(muteTime/2)
	t.mute, t.ill = map[int]bool{}, map[int]bool{}
	for t.c.Sim.Now() < end {
		t.c.Run(joinStep)
		t.pairs.Settle()
		now := t.c.Sim.Now()
		if t.Every > 0 && now >= cable {
			t.cableEvent()
			cable = now.Add(t.Every)
		}
		if t.Mute > 0 && now >= mute {
			t.muteOthers()
			mute = now.Add(muteTime)
		}
		if now >= next {
			t.request()
			next = now.Add(time.Duration(t.rng.ExpFloat64() * float64(joinGap)))
		}
		t.answers(now)
		t.judge(now)
	}
	for range 1000 { // what is open gets another second
		if len(t.open) == 0 {
			break
		}
		t.c.Run(joinStep)
		t.answers(t.c.Sim.Now())
		t.judge(t.c.Sim.Now())
	}
	t.pairs.Settle()
	for k := range t.broken {
		t.res.Outage = max(t.res.Outage, t.c.Sim.Now().Sub(t.broken[k]))
	}
	for _, j := range t.open {
		if j.over {
			t.res.Over = append(t.res.Over, t.c.Sim.Now().Sub(j.at))
		} else {
			t.res.Unserved++
		}
	}
	slices.Sort(t.res.Times)
	slices.Sort(t.res.Over)
	return &t.res, nil
}

func (t *JoinTrial) start() (err error) {
	if t.c, err = NewCluster(t.Fabric, repairSim(t.Seed)); err != nil {
		return err
	}
	cfg := ProductionConfig(t.Chain)
	if t.Config != nil {
		t.Config(&cfg)
	}
	if t.m, err = t.c.Attach(firstCA(t.Fabric), cfg, nil); err != nil {
		return err
	}
	t.m.JobTime = repairJobTime
	t.m.ServeSA(SAConfig(0), sa.Options{})
	if err := t.m.Start(); err != nil {
		return err
	}
	if err := t.c.RunUntil(time.Minute, func() bool { return t.m.Up() && t.m.Idle() }); err != nil {
		return err
	}
	if t.Chain.Want != "" && t.m.Snap.Engine != t.Chain.Want {
		return ErrNotInForce
	}
	for i := range t.Fabric.Nodes {
		nd := &t.Fabric.Nodes[i]
		if nd.IsSwitch() || i == t.m.ep.NodeIndex() {
			continue
		}
		k, err := t.c.Client(nd.ID)
		if err != nil {
			return err
		}
		t.clients = append(t.clients, &joinClient{k: k, node: i, gid: ib.MakeGID(t.m.Snap.Prefix, nd.Ports[1].GUID)})
	}
	return nil
}

// cableEvent takes a cable out, or puts the one back that is out for longest.
func (t *JoinTrial) cableEvent() {
	t.res.Cables++
	w := &RepairTrial{Fabric: t.Fabric, c: t.c, m: t.m}
	if len(t.out) < 2 {
		links := w.links()
		t.rng.Shuffle(len(links), func(i, j int) { links[i], links[j] = links[j], links[i] })
		for _, r := range links {
			if w.partWithout(r, -1) == w.switchesUp() {
				_ = t.c.Sim.LinkDown(t.Fabric.Nodes[r.Node].ID, int(r.Port))
				t.out = append(t.out, r)
				return
			}
		}
	}
	if len(t.out) > 0 {
		_ = t.c.Sim.LinkUp(t.Fabric.Nodes[t.out[0].Node].ID, int(t.out[0].Port))
		t.out = t.out[1:]
	}
}

// muteOthers has other nodes not answer.
func (t *JoinTrial) muteOthers() {
	f := t.Fabric
	for n := range t.mute {
		_ = t.c.Sim.MuteSMA(f.Nodes[n].ID, false)
	}
	clear(t.mute)
	own := t.m.ep.NodeIndex()
	for len(t.mute) < max(len(f.Nodes)*t.Mute/100, 1) {
		n := t.rng.IntN(len(f.Nodes))
		if n == own || n == int(f.Nodes[own].Ports[1].Peer.Node) || t.mute[n] {
			continue
		}
		t.mute[n] = true
		if f.Nodes[n].IsSwitch() {
			t.ill[n] = true
		}
		_ = t.c.Sim.MuteSMA(f.Nodes[n].ID, true)
	}
	if t.rng.IntN(2) == 0 { // a full sweep meets them
		t.m.Sweep(false)
	}
}

// overIll reports whether the tree that the manager wants for a group, or holds, has a
// switch that is ill.
func (t *JoinTrial) overIll(group int) bool {
	s := t.m.Snap
	view := t.m.View()
	at := slices.IndexFunc(view.Groups, func(g *sa.Group) bool { return g.MGID == joinMGID(group) })
	if len(t.ill) == 0 || at < 0 || s.Tables == nil || s.Tables.Multicast == nil {
		return false
	}
	for i := range s.Tables.Multicast.Trees {
		tree := &s.Tables.Multicast.Trees[i]
		if tree.MLID != view.Groups[at].MLID {
			continue
		}
		for _, sw := range tree.Switches {
			g := s.Nodes[s.SwitchNode[sw]].Info.NodeGUID
			for n := range t.ill {
				if t.Fabric.Nodes[n].GUID == g {
					return true
				}
			}
		}
	}
	return false
}

// pair accounts for a switch whose packets to a LID arrive again, or do so no more.
func (t *JoinTrial) pair(at mad.Time, node int, lid ib.LID, _, now sim.PairState) {
	k := repairPair{node, lid}
	if since, ok := t.broken[k]; ok {
		t.res.Outage = max(t.res.Outage, at.Sub(since))
		delete(t.broken, k)
	}
	if now == sim.PairBroken {
		t.broken[k] = at
	}
}

func joinMGID(g int) ib.GID {
	return ib.GID{0xFF, 0x12, 0xA0, 0x1C, 15: byte(1 + g)}
}

// request has a host that waits for nothing join or leave a group.
func (t *JoinTrial) request() {
	k := t.clients[t.rng.IntN(len(t.clients))]
	if k.tid != 0 {
		return
	}
	k.what = t.rng.IntN(joinGroups)
	k.add = !k.in[k.what]
	t.send(k)
}

func (t *JoinTrial) send(k *joinClient) {
	var m ib.MAD
	r := wire.MCMemberRecord{MGID: joinMGID(k.what), PortGID: k.gid, JoinState: wire.JoinFull, PKey: ib.PKeyDefaultFull, QKey: 0x1234}
	const who = wire.MCMemberCompMGID | wire.MCMemberCompPortGID | wire.MCMemberCompJoinState
	if k.add {
		wire.New(&m, ib.MethodSet, wire.AttrMCMemberRecord, 0, who|
			wire.MCMemberCompQKey|wire.MCMemberCompPKey|wire.MCMemberCompTClass|wire.MCMemberCompSL|wire.MCMemberCompFlowLabel)
	} else {
		wire.New(&m, ib.MethodDelete, wire.AttrMCMemberRecord, 0, who)
		k.in[k.what] = false
		t.open = slices.DeleteFunc(t.open, func(j *join) bool {
			j.others = slices.DeleteFunc(j.others, func(n int) bool { return j.group == k.what && n == k.node })
			return j.group == k.what && j.node == k.node
		})
	}
	r.Put(wire.Data(&m))
	k.tid = k.k.Send(&m)
	k.due = t.c.Sim.Now().Add(200 * time.Millisecond)
}

// answers takes what the SA said. What got no answer is asked again, as a host does.
func (t *JoinTrial) answers(now mad.Time) {
	for _, k := range t.clients {
		if k.tid == 0 {
			continue
		}
		b, ok := k.k.Got(k.tid)
		switch {
		case !ok && now >= k.due:
			t.send(k)
			continue
		case !ok:
			continue
		}
		k.tid = 0
		if !k.add {
			continue
		}
		if binary.BigEndian.Uint16(b[4:]) != 0 {
			t.res.Refused++
			continue
		}
		j := &join{group: k.what, node: k.node, at: now}
		for _, o := range t.clients {
			if o.in[k.what] {
				j.others = append(j.others, o.node)
			}
		}
		k.in[k.what] = true
		t.open = append(t.open, j)
	}
}

// judge looks which joins the tables serve now.
func (t *JoinTrial) judge(now mad.Time) {
	t.open = slices.DeleteFunc(t.open, func(j *join) bool {
		j.over = j.over || t.overIll(j.group)
		for _, o := range j.others {
			if !t.carried(j.group, j.node, o) || !t.carried(j.group, o, j.node) {
				return false
			}
		}
		if j.over {
			t.res.Over = append(t.res.Over, now.Sub(j.at))
		} else {
			t.res.Times = append(t.res.Times, now.Sub(j.at))
		}
		return true
	})
}

// carried reports whether a packet of the group from one host reaches another.
func (t *JoinTrial) carried(group, src, dst int) bool {
	view := t.m.View()
	at := slices.IndexFunc(view.Groups, func(g *sa.Group) bool { return g.MGID == joinMGID(group) })
	if at < 0 {
		return false
	}
	mlid := view.Groups[at].MLID
	f := t.Fabric
	p := f.Nodes[src].Ports[1].Peer
	type hop struct{ sw, in int }
	queue := []hop{{int(p.Node), int(p.Port)}}
	been := map[hop]bool{}
	for len(queue) > 0 {
		h := queue[0]
		if been[h] {
			t.res.Loops++
			return false
		}
		been[h] = true
		queue = queue[1:]
		for _, out := range t.c.Sim.MFT(h.sw, mlid) {
			if out == 0 || int(out) == h.in || !linkActive(t.c, h.sw, int(out)) {
				continue
			}
			q := f.Nodes[h.sw].Ports[out].Peer
			if int(q.Node) == dst {
				return true
			}
			if f.Nodes[q.Node].IsSwitch() {
				queue = append(queue, hop{int(q.Node), int(q.Port)})
			}
		}
	}
	return false
}

// String is the result in one line.
func (r *JoinResult) String() string {
	return fmt.Sprintf("%d joins, %d cable events: median %v, p99 %v, worst %v; %d refused, %d never carried, %d loops; longest outage of a pair %v",
		len(r.Times), r.Cables, r.Quantile(0.5), r.Quantile(0.99), r.Quantile(1), r.Refused, r.Unserved, r.Loops, r.Outage)
}
