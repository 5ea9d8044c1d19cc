package lab

import (
	"fmt"
	"slices"
	"time"

	"heddle/ib"
	"heddle/mad"
	"heddle/partition"
	"heddle/sim"
)

// pkeyHolder is who can use P_Keys: an end port, or a virtual port that is up.
type pkeyHolder struct {
	node int
	name string
	keys []ib.PKey
	of   func(e *epoch) []ib.PKey // that an epoch gives it
}

// vportSeen is a virtual port as it is at this moment.
type vportSeen struct {
	pkeyHolder
	at sim.VF
	st sim.VPortStatus
}

func (j *pkeyJudge) vport(node int, index uint16) (v vportSeen) {
	v.at = sim.VF{Node: node, Port: 1, Index: index}
	var err error
	if v.st, err = j.c.Sim.VPort(v.at); err != nil {
		panic(err)
	}
	v.node, v.name = node, fmt.Sprintf("%s VPort %d", j.c.Fabric.Nodes[node].ID, index)
	v.keys, _ = j.c.Sim.VPortPKeys(v.at, nil)
	guid := v.st.GUID
	v.of = func(e *epoch) []ib.PKey { return e.grants.Of(partition.CA, guid, nil, false) }
	return v
}

func (j *pkeyJudge) vports(node int) (list []vportSeen) {
	for i := 1; i <= j.vfs[node]; i++ {
		list = append(list, j.vport(node, uint16(i)))
	}
	return list
}

func (j *pkeyJudge) eachVPort(node int, f func(v vportSeen)) {
	for _, v := range j.vports(node) {
		if v.st.State >= ib.StateArmed {
			f(v)
		}
	}
}

// holders are an end port and the virtual ports there that are up.
func (j *pkeyJudge) holders(node, port int) []pkeyHolder {
	list := []pkeyHolder{{
		node: node, name: j.c.Fabric.Nodes[node].ID, keys: j.c.Sim.PKeys(node, port, nil),
		of: func(e *epoch) []ib.PKey { return j.of(e, node, port) },
	}}
	j.eachVPort(node, func(v vportSeen) { list = append(list, v.pkeyHolder) })
	return list
}

// vmMay reports whether a virtual machine, wherever it is now, is given a key:
// switch ports may be told of one that has just left or is about to come.
func (j *pkeyJudge) vmMay(e *epoch, k ib.PKey) bool {
	if len(j.vfs) == 0 {
		return false
	}
	q := e.policy.Find(k)
	return q != nil && slices.ContainsFunc(q.Members, func(m partition.Member) bool {
		return m.Kind == partition.AllCAs || m.Kind == partition.All || m.GUID >= vmGUID(0)
	})
}

// vportUp judges a virtual port that begins to be used: what is in its table, and
// in that of the switch port before it, counts from now on.
func (j *pkeyJudge) vportUp(v vportSeen) {
	j.vportHolds(v)
	if r, ok := j.c.Sim.Peer(v.node, 1); ok {
		j.passes(int(r.Node), int(r.Port))
	}
}

// vportHolds judges the table of a virtual port that is up. A key that no policy
// gives it is harmless as long as its packets do not leave the adapter: where its
// link carries no data, or the switch stops them.
func (j *pkeyJudge) vportHolds(v vportSeen) {
	if j.m != nil {
		j.read(j.m)
	}
	if j.c.Sim.PortInfo(v.node, 1).PortState < ib.StateArmed {
		return
	}
	var edge []ib.PKey
	r, linked := j.c.Sim.Peer(v.node, 1)
	if pi := j.c.Sim.PortInfo(int(r.Node), int(r.Port)); linked && pi.PartitionEnforcementInbound && pi.PartitionEnforcementOutbound {
		edge = j.c.Sim.PKeys(int(r.Node), int(r.Port), nil)
	}
	// A Set that makes the VM Active that was there a moment ago may meet the next
	// one, and no manager can prevent it. It must not stay so.
	came := j.came[v.at]
	if wait := came.Add(j.unaware()); !j.again && j.c.Sim.Now() < wait {
		j.c.Sim.At(wait, func() {
			if now := j.vport(v.node, v.at.Index); now.st.State >= ib.StateArmed && j.came[v.at] == came {
				j.again = true
				j.vportHolds(now)
				j.again = false
			}
		})
		return
	}
	for _, k := range v.keys {
		if k.IsEmpty() || slices.ContainsFunc(j.open(), func(e *epoch) bool { return slices.Contains(v.of(e), k) }) {
			continue
		}
		if edge != nil && !slices.Contains(edge, k|0x8000) && !slices.Contains(edge, k.Base()) {
			continue
		}
		j.fail("%s, GUID %v, holds %v, which no policy gives it: %v", v.name, v.st.GUID, k, partition.Trim(v.keys))
	}
	for _, k := range v.keys {
		if !k.IsEmpty() {
			j.freed(k.Base())
		}
	}
}

// unaware is how long a manager may not know who came to a function.
func (j *pkeyJudge) unaware() time.Duration {
	if j.late {
		return 3 * time.Second // traps and answers are lost
	}
	return time.Second // traps that come too often are not sent
}

// vportsSettled says what of the virtual ports of a node differs from an epoch.
func (j *pkeyJudge) vportsSettled(node int, e *epoch) string {
	for _, v := range j.vports(node) {
		if !v.st.Up {
			continue
		}
		got := slices.DeleteFunc(slices.Clone(v.keys), ib.PKey.IsEmpty)
		want := slices.Clone(v.of(e))
		slices.Sort(got)
		slices.Sort(want)
		if v.st.State != ib.StateActive || !slices.Equal(got, want) {
			return fmt.Sprintf("%s is %v and holds %v, want %v", v.name, v.st.State, got, want)
		}
	}
	return ""
}

// pkeyProbe is a packet of a virtual machine to another one.
type pkeyProbe struct {
	p          *sim.Probe
	from, to   string
	guid, peer ib.GUID
	key        ib.PKey
	epochs     []*epoch // that were open when it was sent
}

// probe sends one, if both are somewhere.
func (j *pkeyJudge) probe(from, to string, key ib.PKey) *pkeyProbe {
	a, ok := j.c.Sim.VM(from)
	b, ok2 := j.c.Sim.VM(to)
	if !ok || !ok2 || a.At.Node < 0 || b.At.Node < 0 || a.State != ib.StateActive || b.LID == 0 {
		return nil
	}
	p, err := j.c.Sim.Probe(a.At, mad.Addr{LID: b.LID, HasGRH: true, GRH: mad.GRH{GID: b.GID, HopLimit: 1}}, key)
	if err != nil {
		return nil
	}
	for _, at := range [2]sim.VF{a.At, b.At} {
		if j.c.Sim.Now() < j.came[at].Add(j.unaware()) {
			return nil // see vportHolds
		}
	}
	return &pkeyProbe{p: p, from: from, to: to, guid: a.GID.GUID(), peer: b.GID.GUID(), key: key, epochs: j.open()}
}

// judge says that a packet must not have arrived: the two were never members of one
// tenant's partition with this key, under what was, or may still have been, in
// force meanwhile.
func (j *pkeyJudge) judge(x *pkeyProbe) {
	if !x.p.Arrived {
		return
	}
	names := func(guid ib.GUID) (list []string) {
		for _, e := range append(slices.Clone(x.epochs), j.open()...) {
			if slices.ContainsFunc(e.grants.Of(partition.CA, guid, nil, false), func(k ib.PKey) bool { return k.Base() == x.key.Base() }) {
				list = append(list, e.policy.Find(x.key).Name)
			}
		}
		return list
	}
	mine, theirs := names(x.guid), names(x.peer)
	if !slices.ContainsFunc(mine, func(n string) bool { return slices.Contains(theirs, n) }) {
		j.fail("a packet of %s with %v is taken by %s, which is of %q, not %q", x.from, x.key, x.to, theirs, mine)
	}
}
