package transition

import (
	"heddle/ib"
	"heddle/route"
)

// Discarded is an entry by which a switch discards packets because of a plan.
type Discarded struct {
	Switch int32
	LID    ib.LID
	// From is the stage that writes it, Until the one that writes another: len(Plan.Stages) if none
	// does.
	From, Until int
	// Back: it sends packets to the switch that they come from by an installed entry, and no switch
	// does that (IBA §16.1.3.5). So those are lost that are on the link when it is written.
	Back bool
}

// Discards calls fn with every entry that loses packets because of the plan: those that are
// withheld (Drop) although the switch forwarded before, and those that lead back. What else is lost
// while it is carried out is lost with a link or a switch, or at a turn that a guard discards
// (Tables.Lanes). Rows that are not known are not among them: all of them are cleared.
func (p *Plan) Discards(fn func(d Discarded)) {
	held := map[cell]int{} // the stage since which an entry is withheld
	rows := map[route.BlockDiff]*[route.BlockLen]byte{}
	for k := range p.Stages {
		for _, b := range p.Stages[k].LFT {
			was := rows[b]
			if was == nil {
				was = &[route.BlockLen]byte{}
				p.was(b, was)
				rows[b] = was
			}
			var now [route.BlockLen]byte
			p.Block(k, b, &now)
			for i := range now {
				c := cell{ib.LID(int(b.Block)*route.BlockLen + i), b.Switch}
				from, open := held[c]
				switch {
				case was[i] == now[i]:
				case now[i] == route.Drop:
					held[c] = k
				case open:
					delete(held, c)
					fn(Discarded{Switch: c.s, LID: c.lid, From: from, Until: k})
					fallthrough
				default:
					if p.leadsBack(c, now[i]) {
						fn(Discarded{Switch: c.s, LID: c.lid, From: k, Until: len(p.Stages), Back: true})
					}
				}
			}
			*was = now
		}
	}
	for s := range int32(len(p.g.Switches)) {
		if len(held) == 0 {
			return
		}
		for l := ib.LID(1); l <= max(p.installed.TopLID, p.wanted.TopLID); l++ {
			c := cell{l, s}
			if from, ok := held[c]; ok {
				delete(held, c)
				fn(Discarded{Switch: s, LID: l, From: from, Until: len(p.Stages)})
			}
		}
	}
}

// leadsBack reports whether an entry sends packets to a neighbor whose installed entry sends them
// here.
func (p *Plan) leadsBack(c cell, e byte) bool {
	out := p.g.PortChannel[c.s]
	if int(e) >= len(out) || out[e] < 0 {
		return false
	}
	k := &p.g.Channels[out[e]]
	return effective(p.installed, k.To, int(c.lid)) == k.InPort
}

// Switch is the node GUID of a switch of a plan, by its index.
func (p *Plan) Switch(s int32) ib.GUID { return p.g.Switches[s].GUID }
