package install

import (
	"cmp"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route/transition"
	"heddle/sm/job"
	"heddle/sm/topo"
	"heddle/subnet"
)

// excluded is a switch that was part of the subnet and is no longer, although a link to it is up:
// its agent does not answer, but it still forwards by what it holds.
type excluded struct {
	row    []byte
	cables []transition.FrozenCable
}

// Outside lists what forwards and is not in the graph: excluded switches, and links between
// switches of which an end did not answer.
func (x *Installer) Outside() (frozen []transition.Frozen, left []transition.LeftCable) {
	g := x.Fabric.Graph
	if s := x.served; s != nil && s.Graph != g {
		d := fabric.Diff(s.Graph, g)
		left = x.missed(s, d)
	}
	left = x.drained(left)
	for guid, o := range x.excluded {
		f := transition.Frozen{GUID: guid, Row: o.row}
		if _, back := g.SwitchByGUID(guid); back {
			delete(x.excluded, guid)
			continue
		}
		linked := false
		for _, k := range o.cables {
			at, ok := g.SwitchByGUID(k.Peer)
			if ok && !x.carries(at, k.PeerPort) {
				continue
			}
			linked = linked || ok
			f.Cables = append(f.Cables, k)
		}
		if !linked {
			delete(x.excluded, guid) // it is off, or nothing leads to it
			continue
		}
		frozen = append(frozen, f)
	}
	slices.SortFunc(frozen, func(a, b transition.Frozen) int { return cmp.Compare(a.GUID, b.GUID) })
	return frozen, left
}

// missed keeps the switches of the solution in use that the graph lacks, and lists the links that
// it should have.
func (x *Installer) missed(s *job.Solution, d *fabric.Delta) (left []transition.LeftCable) {
	was := s.Graph
	for i := range was.Switches {
		if d.OldSwitch[i] >= 0 {
			continue
		}
		guid := was.Switches[i].GUID
		o := &excluded{row: s.Tables.Row(int32(i))}
		if l := x.linear[guid]; l != nil && l.Installed() != nil {
			o.row = l.Installed()
			l.Shared = true
		}
		for _, ch := range was.Channels[was.Off[i]:was.Off[i+1]] {
			o.cables = append(o.cables, transition.FrozenCable{
				Port: ch.OutPort, Peer: was.Switches[ch.To].GUID, PeerPort: ch.InPort, VLs: ch.VLs,
			})
		}
		if x.excluded == nil {
			x.excluded = map[ib.GUID]*excluded{}
		}
		x.excluded[guid] = o
	}
	for i, now := range d.OldChannel {
		ch := &was.Channels[i]
		a, b := d.OldSwitch[ch.From], d.OldSwitch[ch.To]
		if now < 0 && a >= 0 && b >= 0 && int(ch.Rev) > i && x.carries(a, ch.OutPort) && x.carries(b, ch.InPort) {
			left = append(left, transition.LeftCable{
				Switch: was.Switches[ch.From].GUID, Port: ch.OutPort,
				Peer: was.Switches[ch.To].GUID, PeerPort: ch.InPort, VLs: ch.VLs,
			})
		}
	}
	return left
}

// drained adds the drained links over which installed entries still lead, although nothing is known of
// a solution that had them: another manager, or an earlier run of this one, made these tables.
func (x *Installer) drained(left []transition.LeftCable) []transition.LeftCable {
	f := x.Fabric
	for _, at := range f.Drained {
		p := f.Port(at)
		if p.Peer.Node < at.Node || f.Nodes[at.Node].GraphSwitch < 0 || f.Nodes[p.Peer.Node].GraphSwitch < 0 || !p.Has(topo.PortDrained) {
			continue // each link once
		}
		c := transition.LeftCable{
			Switch: f.Nodes[at.Node].Info.NodeGUID, Port: at.Port, Peer: f.Nodes[p.Peer.Node].Info.NodeGUID, PeerPort: p.Peer.Port,
			VLs: f.Lanes(p, x.Config.MaxOpVLs),
		}
		if slices.ContainsFunc(left, func(o transition.LeftCable) bool {
			return o.Switch == c.Switch && o.Port == c.Port || o.Peer == c.Switch && o.PeerPort == c.Port
		}) {
			continue
		}
		if x.uses(at) || x.uses(p.Peer) {
			left = append(left, c)
		}
	}
	return left
}

// uses reports whether a switch has entries for a port.
func (x *Installer) uses(at subnet.Ref) bool {
	l := x.Fabric.Nodes[at.Node].LFT
	return l != nil && slices.Contains(l.Installed(), at.Port)
}

// Drains reports whether links, which are not in the graph and may carry data, are drained.
func (x *Installer) Drains(left []transition.LeftCable) bool {
	for _, l := range left {
		if i, ok := x.Fabric.Find(l.Switch); ok && x.Fabric.PortOf(i, l.Port).Has(topo.PortDrained) {
			return true
		}
	}
	return false
}

// carries reports whether data may go over a port of a switch of the graph, as far as is known.
func (x *Installer) carries(s int32, port uint8) bool {
	p := x.Fabric.PortOf(x.Fabric.SwitchNode[s], port)
	return !p.Has(topo.PortKnown) || p.Info.PortState >= ib.StateArmed
}
