package preview

import (
	"slices"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/partition"
	"heddle/subnet"
)

// ports compares what each end port and virtual port has with what it would have, and the tables of
// the switch ports before them.
func (w *work) ports() {
	s := w.Snap
	trivial := w.next.Trivial()
	touched := map[int32]bool{}
	for _, i := range s.EndPortPort {
		all := w.port(i)
		if s.FirstVPort() < int32(len(s.Ports)) {
			for v := range s.VPortsOf(i) {
				if s.Ports[v].Virtual.Info.VPortState >= ib.StateInit {
					all = slices.Concat(all, w.port(v))
				}
			}
		}
		if at := w.edgeOf(i); at >= 0 && w.edge(at, all, trivial) {
			touched[s.Ports[at].Node] = true
		}
	}
	w.plan.Changes = w.sorted()
	w.plan.SwitchCount = len(touched)
	for n := range touched {
		w.plan.SwitchNodes = append(w.plan.SwitchNodes, n)
	}
	slices.Sort(w.plan.SwitchNodes)
	w.plan.SwitchNodes = w.plan.SwitchNodes[:min(len(w.plan.SwitchNodes), Examples)]
}

// port compares an end port or virtual port, and returns the P_Keys that it would have, ascending by base.
func (w *work) port(i int32) []ib.PKey {
	s := w.Snap
	p := s.Ports[i]
	class, aliases, self := partition.CA, p.Aliases, false
	room := int(s.Nodes[p.Node].Info.PartitionCap)
	if p.Virtual != nil {
		room = int(p.Virtual.Node.PartitionCap)
	} else {
		switch s.Nodes[p.Node].Info.NodeType {
		case ib.NodeSwitch:
			class = partition.Switch
		case ib.NodeRouter:
			class = partition.Router
		}
		aliases, self = w.carried[p.GUID], p.GUID == s.PortGUID
	}
	before, want := w.old.Of(class, p.GUID, aliases, self), w.now.Of(class, p.GUID, aliases, self)
	if !slices.Equal(before, want) {
		w.plan.Ports++
		w.differ(i, before, want)
	}
	if kept := w.kept[p.GUID]; len(kept) > 0 {
		want = withKept(want, kept)
	}
	w.write(&w.plan.Hosts, p, room, want, w.now.Index0(class, p.GUID, aliases, self), func() { w.plan.Overflow.add(i) })
	return want
}

// differ notes what of the memberships of a port changes.
func (w *work) differ(i int32, before, after []ib.PKey) {
	for len(before) > 0 || len(after) > 0 {
		var k ib.PKey
		switch {
		case len(before) == 0:
			k = after[0].Base()
		case len(after) == 0:
			k = before[0].Base()
		default:
			k = min(before[0].Base(), after[0].Base())
		}
		var from, to partition.Membership
		from, before = membership(k, before)
		to, after = membership(k, after)
		if from != to {
			w.change(i, k, from, to)
		}
		if to == 0 {
			w.lost[i] = append(w.lost[i], k)
			w.lostKeys[k] = true
		}
	}
}

// membership is what the first keys of a list say of a base, and the rest of the list.
func membership(base ib.PKey, list []ib.PKey) (as partition.Membership, rest []ib.PKey) {
	for len(list) > 0 && list[0].Base() == base {
		switch {
		case as != 0:
			as = partition.Both
		case list[0].IsFull():
			as = partition.Full
		default:
			as = partition.Limited
		}
		list = list[1:]
	}
	return as, list
}

// withKept adds kept keys to granted ones, as pkeymgr does.
func withKept(want, kept []ib.PKey) []ib.PKey {
	out := slices.Clone(want)
	for _, k := range kept {
		switch i := slices.IndexFunc(out, func(x ib.PKey) bool { return x.Base() == k.Base() }); {
		case slices.Contains(out, k):
		case i >= 0 && k.IsFull():
			out[i] = k
		default:
			out = append(out, k)
		}
	}
	sortKeys(out)
	return out
}

func sortKeys(list []ib.PKey) {
	slices.SortFunc(list, func(a, b ib.PKey) int { return (int(a.Base())<<1 | int(a>>15)) - (int(b.Base())<<1 | int(b>>15)) })
}

// edgeOf is the index in Ports of the switch port that faces an end port, -1 if there is none.
func (w *work) edgeOf(i int32) int32 {
	s := w.Snap
	p := s.Ports[i]
	at := s.PortIndex(p.Peer)
	if at < 0 || s.Nodes[p.Node].Info.NodeType == ib.NodeSwitch || s.Nodes[p.Peer.Node].Info.NodeType != ib.NodeSwitch || p.Peer.Port == 0 {
		return -1
	}
	return at
}

// edge compares the table and the enforcement of a switch port with what it needs for the P_Keys of all
// ports behind it. It reports whether there is a change.
func (w *work) edge(at int32, all []ib.PKey, trivial bool) bool {
	s := w.Snap
	p := s.Ports[at]
	sw := &s.Nodes[p.Node].Switch
	on := p.Info.PartitionEnforcementInbound || p.Info.PartitionEnforcementOutbound
	to := !trivial && (w.EnforceIn && sw.InboundEnforcementCap || w.EnforceOut && sw.OutboundEnforcementCap)
	var want []ib.PKey
	if to {
		all = slices.Clone(all)
		sortKeys(all)
		if want = partition.EdgeKeys(all); len(want) > int(sw.PartitionEnforcementCap) {
			w.plan.Crowded++
			to = false
		}
	}
	wrote := to && w.write(&w.plan.Switches, p, int(sw.PartitionEnforcementCap), want, 0, func() {})
	switch {
	case to && !on:
		w.plan.EnforceOn++
	case !to && on:
		w.plan.EnforceOff++
	}
	return wrote || to != on
}

// write counts what is written into a table until it has the keys of want, as pkeymgr does it: what is
// removed first, then what is granted, P_Keys that wait last. It reports whether anything is.
func (w *work) write(t *Tables, p *subnet.Port, room int, want []ib.PKey, index0 ib.PKey, overflow func()) bool {
	if room == 0 {
		return false
	}
	have := p.PKeys
	if have == nil {
		have = unread
	}
	place := func(table, want []ib.PKey) []ib.PKey {
		out, err := partition.Place(partition.Placing{Table: table, Cap: room, Want: want, Index0: index0})
		if err != nil {
			overflow()
			overflow = func() {} // once for a port
		}
		return out
	}
	at := have
	writes := 0
	to := func(next []ib.PKey) {
		writes += differing(at, next)
		at = next
	}
	if first := w.withoutWaiting(have, want); len(first) < len(want) || !slices.Equal(first, want) {
		to(partition.Only(at, first))
		to(place(at, first))
	} else {
		to(partition.Only(at, want))
	}
	to(place(at, want))
	if writes == 0 {
		return false
	}
	t.Tables++
	t.Writes += writes
	t.Blocks += differing(have, at)
	if p.PKeys == nil {
		t.Unread++
	}
	return true
}

// unread is the table of a port that was not read (IBA §10.9.1).
var unread = []ib.PKey{ib.PKeyDefaultFull}

// withoutWaiting are the keys that a port may have before those that wait are free: it keeps what it
// has of them, and gets no more.
func (w *work) withoutWaiting(have, want []ib.PKey) []ib.PKey {
	if len(w.waiting) == 0 {
		return want
	}
	out := make([]ib.PKey, 0, len(want))
	for _, k := range want {
		switch {
		case !w.waiting[k.Base()], slices.Contains(have, k):
			out = append(out, k)
		case k.IsFull() && slices.Contains(have, k.Base()) && !slices.Contains(want, k.Base()):
			out = append(out, k.Base())
		case !k.IsFull() && slices.Contains(have, k|0x8000) && !slices.Contains(want, k|0x8000):
			out = append(out, k)
		}
	}
	return out
}

// differing counts the blocks in which two tables differ.
func differing(a, b []ib.PKey) (n int) {
	at := func(list []ib.PKey, i int) ib.PKey {
		if i < len(list) {
			return list[i]
		}
		return 0
	}
	for from := 0; from < max(len(a), len(b)); from += smp.PKeyBlockLen {
		for i := from; i < from+smp.PKeyBlockLen; i++ {
			if at(a, i) != at(b, i) {
				n++
				break
			}
		}
	}
	return n
}
