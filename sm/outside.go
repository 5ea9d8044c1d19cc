package sm

import (
	"cmp"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route/transition"
	"heddle/sm/job"
	"heddle/sm/topo"
)

// outsider is a switch that was part of the subnet and is not any more,
// although a link to it is up: its agent does not answer, but it still
// forwards by what it holds.
type outsider struct {
	row    []byte
	cables []transition.FrozenCable
}

// outside tells a planner what forwards beside the graph: switches that were
// left out, and cables between switches of which an end did not answer.
func (c *Core) outside() (frozen []transition.Frozen, left []transition.LeftCable) {
	g := c.Fabric.Graph
	if s := c.served; s != nil && s.Graph != g {
		d := fabric.Diff(s.Graph, g)
		left = c.missed(s, d)
	}
	for guid, o := range c.outsiders {
		f := transition.Frozen{GUID: guid, Row: o.row}
		if _, back := g.SwitchByGUID(guid); back {
			delete(c.outsiders, guid)
			continue
		}
		linked := false
		for _, k := range o.cables {
			at, ok := g.SwitchByGUID(k.Peer)
			if ok && !c.carries(at, k.PeerPort) {
				continue
			}
			linked = linked || ok
			f.Cables = append(f.Cables, k)
		}
		if !linked {
			delete(c.outsiders, guid) // it is off, or nothing leads to it
			continue
		}
		frozen = append(frozen, f)
	}
	slices.SortFunc(frozen, func(a, b transition.Frozen) int { return cmp.Compare(a.GUID, b.GUID) })
	return frozen, left
}

// missed notes the switches of the solution in use that the graph has not, and
// lists the cables that it should have.
func (c *Core) missed(s *job.Solution, d *fabric.Delta) (left []transition.LeftCable) {
	was := s.Graph
	for i := range was.Switches {
		if d.OldSwitch[i] >= 0 {
			continue
		}
		guid := was.Switches[i].GUID
		o := &outsider{row: s.Tables.LFT[i]}
		if l := c.lfts[guid]; l != nil && l.Installed() != nil {
			o.row = l.Installed()
			l.Shared = true
		}
		for _, ch := range was.Channels[was.Off[i]:was.Off[i+1]] {
			o.cables = append(o.cables, transition.FrozenCable{Port: ch.OutPort, Peer: was.Switches[ch.To].GUID, PeerPort: ch.InPort, VLs: ch.VLs})
		}
		if c.outsiders == nil {
			c.outsiders = map[ib.GUID]*outsider{}
		}
		c.outsiders[guid] = o
	}
	for i, now := range d.OldChannel {
		ch := &was.Channels[i]
		a, b := d.OldSwitch[ch.From], d.OldSwitch[ch.To]
		if now < 0 && a >= 0 && b >= 0 && int(ch.Rev) > i && c.carries(a, ch.OutPort) && c.carries(b, ch.InPort) {
			left = append(left, transition.LeftCable{
				Switch: was.Switches[ch.From].GUID, Port: ch.OutPort, Peer: was.Switches[ch.To].GUID, PeerPort: ch.InPort, VLs: ch.VLs,
			})
		}
	}
	return left
}

// carries reports whether data may go over a port of a switch of the graph, as
// far as is known.
func (c *Core) carries(s int32, port uint8) bool {
	p := c.Fabric.PortOf(c.Fabric.SwitchNode[s], port)
	return !p.Has(topo.PortKnown) || p.Info.PortState >= ib.StateArmed
}
