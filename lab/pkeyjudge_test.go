package lab

import (
	"fmt"
	"slices"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/partition"
	"heddle/sim"
	"heddle/sm"
)

// pkeyJudge looks at every write of a simulated P_Key table. It knows which
// policies were in force when, and nothing of what managers believe.
type pkeyJudge struct {
	c      *Cluster
	epochs []*epoch // oldest first; the last one is the newest
	prev   map[[2]int][]ib.PKey
	used   map[[2]int]bool // ports that were Armed since their node was reset
	wrong  []string
	writes int
	told   int
	m      *Manager
	vfs    map[int]int // how many virtual functions port 1 of a node has
	// late: the network may deliver old copies. One may take from a switch port what
	// a virtual port was given that came up a moment ago, until it is read again.
	late  bool
	again bool                // it looks a second time
	fresh map[int]mad.Time    // when a node was reset
	up    map[int]mad.Time    // when port 1 of a host was Armed
	came  map[sim.VF]mad.Time // when the VM came that a function has
	// past are the tables of switch ports that were overwritten, with the times; back is
	// when a late copy put one of them back.
	past map[[2]int][]pastTable
	back map[[2]int]mad.Time
}

type pastTable struct {
	keys  []ib.PKey
	until mad.Time
}

// noteLate notes whether a switch port holds again what was overwritten within lateCopies.
func (j *pkeyJudge) noteLate(at [2]int, was, table []ib.PKey) {
	now := j.c.Sim.Now()
	delete(j.back, at)
	for _, o := range j.past[at] {
		if now < o.until.Add(lateCopies) && slices.Equal(o.keys, table) && !slices.Equal(was, table) {
			j.back[at] = now
		}
	}
	j.past[at] = append(j.past[at], pastTable{was, now})
}

// epoch is the time during which a policy is allowed to show.
type epoch struct {
	tag    uint64
	policy *partition.Policy
	grants *partition.Grants
	end    mad.Time // when its last traces must be gone
}

// lateCopies is how long the network may deliver a MAD late in a drill: the
// longest of its reorderings and delays.
const lateCopies = 100 * time.Millisecond

// readAgain is how long a table may hold what a late copy put back.
const readAgain = 10 * time.Second

func newPKeyJudge(c *Cluster) *pkeyJudge {
	j := &pkeyJudge{c: c, prev: map[[2]int][]ib.PKey{}, used: map[[2]int]bool{}, vfs: map[int]int{}, came: map[sim.VF]mad.Time{}, up: map[int]mad.Time{}, fresh: map[int]mad.Time{}, past: map[[2]int][]pastTable{}, back: map[[2]int]mad.Time{}}
	c.Sim.OnChange = j.onChange
	return j
}

// propose allows a policy that is about to be set.
func (j *pkeyJudge) propose(tag uint64, p *partition.Policy) {
	j.epochs = append(j.epochs, &epoch{tag: tag, policy: p, grants: partition.Resolve(p), end: mad.Never})
}

// read takes what the manager told: refused policies were never in force, and
// when the newest one is applied the others end.
func (j *pkeyJudge) read(m *Manager) {
	if j.m != m {
		j.m, j.told = m, 0
	}
	for ; j.told < len(m.Notices); j.told++ {
		n := &m.Notices[j.told]
		switch n.Kind {
		case sm.KindPartitionsRefused:
			j.epochs = slices.DeleteFunc(j.epochs, func(e *epoch) bool { return n.Tag != 0 && e.tag == n.Tag })
		case sm.KindPartitionsApplied:
			for _, e := range j.epochs[:len(j.epochs)-1] {
				if e.tag < n.Tag || n.Tag == 0 {
					e.end = min(e.end, j.c.Sim.Now().Add(lateCopies))
				}
			}
		}
	}
}

func (j *pkeyJudge) now() *epoch { return j.epochs[len(j.epochs)-1] }

// open are the epochs that may still show.
func (j *pkeyJudge) open() []*epoch {
	return slices.DeleteFunc(slices.Clone(j.epochs), func(e *epoch) bool { return e.end < j.c.Sim.Now() })
}

// of lists what an epoch gives an end port.
func (j *pkeyJudge) of(e *epoch, node, port int) []ib.PKey {
	n := &j.c.Fabric.Nodes[node]
	class := partition.CA
	if n.IsSwitch() {
		class = partition.Switch
	}
	guid := n.Ports[port].GUID
	return e.grants.Of(class, guid, nil, j.m != nil && guid == j.m.ep.PortGUID())
}

func (j *pkeyJudge) fail(format string, a ...any) {
	if len(j.wrong) < 10 {
		j.wrong = append(j.wrong, fmt.Sprintf("%v: ", time.Duration(j.c.Sim.Now()))+fmt.Sprintf(format, a...))
	}
}

func (j *pkeyJudge) onChange(c sim.Change) {
	switch {
	case c.Kind == sim.ChangeReset:
		j.fresh[c.Node] = j.c.Sim.Now()
		for p := range j.c.Fabric.Nodes[c.Node].Ports {
			delete(j.prev, [2]int{c.Node, p})
			delete(j.used, [2]int{c.Node, p})
		}
	case c.Kind == sim.ChangeState && c.New >= ib.StateArmed:
		j.used[[2]int{c.Node, int(c.Port)}] = true
		if c.Old < ib.StateArmed {
			j.up[c.Node] = j.c.Sim.Now()
			j.eachVPort(c.Node, j.vportUp)
		}
	case c.Kind == sim.ChangeVPort && c.Old == ib.StateDown:
		j.came[sim.VF{Node: c.Node, Port: c.Port, Index: c.VPort}] = j.c.Sim.Now()
	case c.Kind == sim.ChangeVPort && c.New >= ib.StateArmed && c.Old < ib.StateArmed:
		j.vportUp(j.vport(c.Node, c.VPort))
	case c.Kind == sim.ChangeSet && c.Attr == smp.AttrVPortPartitionTable:
		index, _ := smp.SplitVPortTableMod(c.AttrMod)
		j.writes++
		if v := j.vport(c.Node, index); v.st.State >= ib.StateArmed {
			j.vportHolds(v)
		}
	case c.Kind == sim.ChangeSet && c.Attr == smp.AttrPKeyTable:
		j.written(c)
	case c.Kind == sim.ChangeSet && c.Attr == smp.AttrPortInfo && j.c.Fabric.Nodes[c.Node].IsSwitch() && c.AttrMod&0xFF != 0:
		j.passes(c.Node, int(c.AttrMod&0xFF))
	}
}

// passes judges that a switch port that enforces partitions lets the packets
// of its end port through, in all partitions that this has and that every
// policy gives it.
func (j *pkeyJudge) passes(node, port int) {
	pi := j.c.Sim.PortInfo(node, port)
	r, ok := j.c.Sim.Peer(node, port)
	if !ok || pi.PortState != ib.StateActive || !pi.PartitionEnforcementInbound && !pi.PartitionEnforcementOutbound || j.c.Fabric.Nodes[r.Node].IsSwitch() {
		return
	}
	if at, ok := j.fresh[node]; ok && j.c.Sim.Now() < at.Add(j.unaware()) {
		return // reset in the middle of a sweep that goes on with what it read
	}
	if at, ok := j.back[[2]int{node, port}]; ok && j.late && j.c.Sim.Now() < at.Add(readAgain) {
		return // a late copy of an older Set; the table is read again when none can come any more
	}
	table := j.c.Sim.PKeys(node, port, nil)
	for i, h := range j.holders(int(r.Node), int(r.Port)) {
		if i > 0 && (j.late || j.c.Sim.Now() < j.up[h.node].Add(j.unaware())) {
			break // or a new manager does not know who is behind a link that came back
		}
		for _, k := range h.keys {
			stays, full := !k.IsEmpty(), k.IsFull() // as a full member
			for _, e := range j.open() {
				stays = stays && slices.ContainsFunc(h.of(e), func(x ib.PKey) bool { return x.Base() == k.Base() })
				full = full && slices.Contains(h.of(e), k)
			}
			if stays && !slices.Contains(table, k|0x8000) && (full || !slices.Contains(table, k.Base())) {
				j.fail("%s[%d] drops the packets of %s with %v: it has %v", j.c.Fabric.Nodes[node].ID, port, h.name, k, partition.Trim(table))
			}
		}
	}
}

func (j *pkeyJudge) written(c sim.Change) {
	if j.m != nil {
		j.read(j.m)
	}
	j.writes++
	n := &j.c.Fabric.Nodes[c.Node]
	num, block := smp.SplitPKeyMod(c.AttrMod)
	port := int(num)
	if !n.IsSwitch() {
		port = int(c.Port)
	}
	at := [2]int{c.Node, port}
	table := j.c.Sim.PKeys(c.Node, port, nil)
	was := j.prev[at]
	if was == nil {
		was = []ib.PKey{ib.PKeyDefaultFull}
	}
	j.prev[at] = table
	if n.IsSwitch() {
		j.noteLate(at, was, table)
	}
	lo := int(block) * smp.PKeyBlockLen
	hi := min(lo+smp.PKeyBlockLen, len(table))
	if n.IsSwitch() && port != 0 {
		j.edge(c.Node, port, table[lo:hi])
		j.passes(c.Node, port)
		return
	}
	epochs := j.open()
	for i := lo; i < hi; i++ {
		k := table[i]
		if k.IsEmpty() {
			continue
		}
		if !slices.ContainsFunc(epochs, func(e *epoch) bool { return slices.Contains(j.of(e, c.Node, port), k) }) {
			j.fail("%s port %d holds %v at %d, which no policy gives it: %v", n.ID, port, k, i, partition.Trim(table))
		}
		if x := at0(was, i); x.Base() != k.Base() && j.used[at] && slices.ContainsFunc(was, func(x ib.PKey) bool { return x == k }) {
			if old := slices.Index(was, k); at0(table, old) != k && !j.revived(c.Node, port, k) {
				j.fail("%s port %d: %v moved from %d to %d", n.ID, port, k, old, i)
			}
		}
		if !slices.ContainsFunc(was, func(x ib.PKey) bool { return x.Base() == k.Base() }) {
			j.freed(k.Base())
		}
	}
	// What every policy gives stays where it is.
	for i, k := range was {
		if k.IsEmpty() || i < lo || i >= hi || at0(table, i).Base() == k.Base() {
			continue
		}
		stays := j.used[at]
		for _, e := range epochs {
			entries := 0
			for _, x := range j.of(e, c.Node, port) {
				if x.Base() == k.Base() {
					entries++
				}
			}
			stays = stays && entries == 1 // of the two of "both" either may be the one that stays
		}
		if stays {
			j.fail("%s port %d: %v at %d, which all policies give it, is gone: %v", n.ID, port, k, i, partition.Trim(table))
		}
	}
}

func at0(t []ib.PKey, i int) ib.PKey {
	if i < len(t) {
		return t[i]
	}
	return 0
}

// revived reports whether an end port may have a key only because an old copy of a
// Set came late: a policy that may still show does not give it that key. The manager
// had it taken away, and when a newer policy gives it again it is placed anew.
func (j *pkeyJudge) revived(node, port int, k ib.PKey) bool {
	return j.late && slices.ContainsFunc(j.open(), func(e *epoch) bool { return !slices.Contains(j.of(e, node, port), k) })
}

// edge judges what a switch port that faces an end port was told.
func (j *pkeyJudge) edge(node, port int, table []ib.PKey) {
	r, ok := j.c.Sim.Peer(node, port)
	if !ok {
		return
	}
	for _, k := range table {
		if k.IsEmpty() {
			continue
		}
		if !slices.ContainsFunc(j.open(), func(e *epoch) bool {
			return slices.ContainsFunc(j.of(e, int(r.Node), int(r.Port)), func(x ib.PKey) bool { return x == k || x == k|0x8000 }) || j.vmMay(e, k)
		}) {
			j.fail("%s[%d], which faces %s, holds %v, which no policy gives that", j.c.Fabric.Nodes[node].ID, port, j.c.Fabric.Nodes[r.Node].ID, k)
		}
	}
}

// freed judges a key that appears at a port: of a value that changed hands
// nobody may have it who is not given it now, if data can pass between that
// port and one that had not been given it before.
func (j *pkeyJudge) freed(base ib.PKey) {
	if base == partition.DefaultKey {
		return
	}
	now := j.now()
	name := ""
	if p := now.policy.Find(base); p != nil {
		name = p.Name
	}
	changed := false
	for _, e := range j.epochs {
		p := e.policy.Find(base)
		changed = changed || p != nil && p.Name != name
	}
	if !changed {
		return
	}
	has := func(e *epoch, h pkeyHolder) bool {
		return slices.ContainsFunc(h.of(e), func(x ib.PKey) bool { return x.Base() == base })
	}
	var old, fresh []pkeyHolder
	for i := range j.c.Fabric.Nodes {
		n := &j.c.Fabric.Nodes[i]
		if n.IsSwitch() || !j.c.Sim.Up(i) {
			continue
		}
		for p := 1; p <= n.NumPorts; p++ {
			for _, h := range j.holders(i, p) {
				if !slices.ContainsFunc(h.keys, func(x ib.PKey) bool { return x.Base() == base }) {
					continue
				}
				before, mine := false, false // under another name, under this one
				for _, e := range j.open() {
					q := e.policy.Find(base)
					before = before || q != nil && q.Name != name && has(e, h)
					mine = mine || q != nil && q.Name == name && has(e, h)
				}
				switch {
				case !mine:
					old = append(old, h)
				case !before && has(now, h):
					fresh = append(fresh, h)
				}
			}
		}
	}
	for _, a := range fresh {
		reach := j.dataReach(a.node)
		for _, b := range old {
			if reach[b.node] {
				j.fail("%s has %v of %q while %s still has it from before", a.name, base, name, b.name)
			}
		}
	}
}

// dataReach are the nodes that data packets from a node could reach: over
// links whose two ends are Armed or Active.
func (j *pkeyJudge) dataReach(from int) map[int]bool {
	s := j.c.Sim
	seen := map[int]bool{from: true}
	for queue := []int{from}; len(queue) > 0; queue = queue[1:] {
		n := &j.c.Fabric.Nodes[queue[0]]
		if !n.IsSwitch() && queue[0] != from {
			continue
		}
		for p := 1; p <= n.NumPorts; p++ {
			r, ok := s.Peer(queue[0], p)
			if ok && !seen[int(r.Node)] && s.Up(int(r.Node)) && s.PortInfo(queue[0], p).PortState >= ib.StateArmed && s.PortInfo(int(r.Node), int(r.Port)).PortState >= ib.StateArmed {
				seen[int(r.Node)] = true
				queue = append(queue, int(r.Node))
			}
		}
	}
	return seen
}

// settled says what differs from the newest policy, "" if nothing does.
func (j *pkeyJudge) settled() string {
	e := j.now()
	for i := range j.c.Fabric.Nodes {
		n := &j.c.Fabric.Nodes[i]
		for p := range n.Ports {
			if n.IsSwitch() != (p == 0) || p > 0 && j.c.Sim.PortInfo(i, p).PortState != ib.StateActive {
				continue
			}
			got := slices.DeleteFunc(j.c.Sim.PKeys(i, p, nil), ib.PKey.IsEmpty)
			want := slices.Clone(j.of(e, i, p))
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				return fmt.Sprintf("%s port %d holds %v, want %v", n.ID, p, got, want)
			}
			if what := j.vportsSettled(i, e); what != "" {
				return what
			}
			r, ok := j.c.Sim.Peer(i, p)
			if p == 0 || !ok || !j.c.Fabric.Nodes[r.Node].IsSwitch() {
				continue
			}
			pi := j.c.Sim.PortInfo(int(r.Node), int(r.Port))
			if !pi.PartitionEnforcementInbound || !pi.PartitionEnforcementOutbound {
				if len(e.policy.Partitions) > 1 {
					return fmt.Sprintf("%s[%d] does not enforce partitions", j.c.Fabric.Nodes[r.Node].ID, r.Port)
				}
				continue
			}
			edge := slices.DeleteFunc(j.c.Sim.PKeys(int(r.Node), int(r.Port), nil), ib.PKey.IsEmpty)
			slices.Sort(edge)
			for _, v := range j.vports(i) {
				if v.st.Up {
					want = append(want, v.of(e)...)
				}
			}
			slices.Sort(want)
			all := slices.Compact(want)
			want = slices.DeleteFunc(slices.Clone(all), func(k ib.PKey) bool { return !k.IsFull() && slices.Contains(all, k|0x8000) })
			if !slices.Equal(edge, want) {
				return fmt.Sprintf("%s[%d], which faces %s, holds %v, want %v", j.c.Fabric.Nodes[r.Node].ID, r.Port, n.ID, edge, want)
			}
		}
	}
	return ""
}
