package lane

import (
	"slices"

	"heddle/ib"
	"heddle/mad"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/work"
	"heddle/subnet"
)

// A subnet that does not need VLs reads none but those of left.go by itself, because a switch of 36
// ports has 1,369 SL-to-VL tables. The tables are read between sweeps when a client asks for them, and in small
// subnets (Config.ReadLanes) once they are up.

// read is a node whose tables are being read.
type read struct {
	guid  ib.GUID
	at    int      // the next table: SL-to-VL tables first, then blocks of arbitration tables
	after mad.Time // not before
}

// readTries is how often the tables of a node are asked for.
const readTries = 4

// Read has the tables of nodes read, those of all if nodes is nil.
func (t *Tables) Read(nodes []ib.GUID) {
	if t.Fabric == nil || t.Fabric.Graph == nil || t.State != subnet.Master {
		return
	}
	if nodes == nil {
		for i := range t.Fabric.Nodes {
			t.want(int32(i))
		}
	}
	for _, g := range nodes {
		if ni, ok := t.Fabric.Find(g); ok {
			if l := t.byNode[g]; l != nil {
				l.tries = 0
			}
			t.want(ni)
		}
	}
}

// want has the tables of a node read that are not known.
func (t *Tables) want(ni int32) {
	n := &t.Fabric.Nodes[ni]
	g := n.Info.NodeGUID
	if l := t.byNode[g]; !n.OK() || n.Flags&topo.NodeGone != 0 || l != nil && (l.complete || l.tries >= readTries) {
		return
	}
	if !t.reading[g] {
		t.reading[g] = true
		t.reads = append(t.reads, read{guid: g})
	}
}

// ReadSmall has the tables of a small subnet read that the sweep covered.
func (t *Tables) ReadSmall() {
	if t.Config.ReadLanes > 0 && t.Up && t.Fabric.Graph != nil && len(t.Fabric.SwitchNode) <= t.Config.ReadLanes {
		t.sweep.ScopeNodes(func(ni int32, _ *topo.Node) { t.want(ni) })
	}
}

// Next is when tables are to be read.
func (t *Tables) Next() mad.Time {
	at := mad.Never
	if len(t.left.nodes) > 0 {
		return t.Now
	}
	for i := range t.reads {
		if at = min(at, t.reads[i].after); at <= t.Now {
			break
		}
	}
	return at
}

// Upkeep adds items for the next tables until the phase has most of them.
func (t *Tables) Upkeep(most int) {
	t.search(most)
	// Nodes that wait are at the end, in no order of time.
	for len(t.reads) > 0 && t.Pending < most {
		r := &t.reads[0]
		if r.after > t.Now {
			k := slices.IndexFunc(t.reads, func(r read) bool { return r.after <= t.Now })
			if k < 0 {
				return
			}
			t.reads[0], t.reads[k] = t.reads[k], t.reads[0]
		}
		ni, ok := t.Fabric.Find(r.guid)
		if ok && t.readNext(ni, r, most) {
			return
		}
		if ok {
			l := t.of(ni)
			l.complete = true
			t.list(ni, l)
			t.readDone = true
		}
		delete(t.reading, r.guid)
		t.reads = t.reads[1:]
	}
}

// readNext adds items for the tables of a node that are not known, from r.at. It reports whether
// tables are left.
func (t *Tables) readNext(ni int32, r *read, most int) bool {
	n := &t.Fabric.Nodes[ni]
	if !n.OK() {
		return false
	}
	l := t.of(ni)
	ports := int(n.Info.NumPorts) + 1
	for ; r.at < len(l.sl)+len(l.arb); r.at++ {
		if t.Pending >= most {
			return true
		}
		if i := r.at; i < len(l.sl) {
			in, out := i/ports, uint8(i%ports)
			caps := t.Fabric.AgentPort(ni, out).Info.CapabilityMask
			if l.sl[i] == 0 && t.readable(n, ni, out) && caps.Has(ib.CapIsSLMappingSupported) {
				t.Add(work.Make(work.OpReadSL, ni, out, uint32(in)))
			}
			continue
		}
		i := r.at - len(l.sl)
		num, block := uint8(i/4), uint8(i%4+1)
		if l.arb[i] == 0 && t.readable(n, ni, num) && subnet.HasVLArb(&t.Fabric.PortOf(ni, num).Info, block) {
			t.Add(work.Make(work.OpReadArb, ni, num, uint32(block)))
		}
	}
	return false
}

// readable reports whether a port can be asked for its tables: of a CA only those with a link.
func (t *Tables) readable(n *topo.Node, ni int32, num uint8) bool {
	return n.IsSwitch() || num != 0 && t.Fabric.PortOf(ni, num).Has(topo.PortKnown)
}

// wasRead takes the answer to an item of Upkeep. A node that does not answer is asked again later,
// up to readTries times, and then only when a client asks.
func (t *Tables) wasRead(it work.Item, comp *mad.Completion) {
	if !mad.Unanswered(comp.Err) {
		return
	}
	g := t.Fabric.Nodes[it.Node()].Info.NodeGUID
	l := t.of(it.Node())
	l.complete = false
	i := slices.IndexFunc(t.reads, func(r read) bool { return r.guid == g })
	if i < 0 && l.tries >= readTries {
		return // given up, and reported, with another item of the portion
	}
	if i < 0 { // the last item of the node failed
		i = len(t.reads)
		t.reads = append(t.reads, read{guid: g})
		t.reading[g] = true
	}
	r := &t.reads[i]
	if r.after > t.Now {
		return // another item of the portion failed before
	}
	r.at = 0
	r.after = t.Now.Add(t.Config.RetryInterval << l.tries)
	if l.tries++; l.tries < readTries {
		return
	}
	delete(t.reading, g)
	t.reads = slices.Delete(t.reads, i, i+1)
	t.Notify(notice.Notice{
		Kind: notice.KindNodeSilent, Level: notice.Info, Where: t.Fabric.Where(it.Node(), int(it.Port())), Err: comp.Err,
		Text: "does not answer requests for its SL-to-VL and VL arbitration tables; " +
			"they are read when a client asks for them again",
	})
}

// Canceled is called for each item of Upkeep that is canceled: the tables of its node are read
// that are not known then.
func (t *Tables) Canceled(it work.Item) {
	g := t.Fabric.Nodes[it.Node()].Info.NodeGUID
	if l := t.byNode[g]; l != nil {
		l.complete = false
	}
	for i := range t.reads {
		if t.reads[i].guid == g {
			t.reads[i].at = 0
			return
		}
	}
	t.reads = append(t.reads, read{guid: g})
	t.reading[g] = true
}
