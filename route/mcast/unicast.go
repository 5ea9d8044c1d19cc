package mcast

import (
	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
)

// unicast collects the dependencies of unicast paths; each worker has one.
type unicast struct {
	d       *Deps
	t       *route.Tables
	bits    []uint64
	hasCA   []bool
	hosts   [][]uint8 // by switch: ports by which packets are injected
	seen    []uint16  // by node (channel and lane): service levels that came this way
	touched []int32
}

func newUnicast(d *Deps, t *route.Tables) *unicast {
	g := d.g
	u := &unicast{
		d: d, t: t, bits: make([]uint64, len(d.bits)),
		hasCA: make([]bool, len(g.Switches)), hosts: make([][]uint8, len(g.Switches)), seen: make([]uint16, len(d.mark)),
	}
	for i := range g.EndPorts {
		e := &g.EndPorts[i]
		if e.Switch < 0 {
			continue
		}
		if e.Type != ib.NodeSwitch {
			u.hasCA[e.Switch] = true
		}
		// Without tables of their own all ports are alike.
		if t.Lanes != nil || len(u.hosts[e.Switch]) == 0 {
			u.hosts[e.Switch] = append(u.hosts[e.Switch], e.Port)
		}
	}
	return u
}

// out is the channel by which switch s sends packets for l; -1 if it does not.
func (u *unicast) out(s int32, l ib.LID) int32 {
	p := u.t.Entry(s, l)
	if int(p) >= len(u.d.g.PortChannel[s]) {
		return -1
	}
	return u.d.g.PortChannel[s][p]
}

// lid walks the paths to one LID from every switch, each up to where another
// with the same service level has come by the same channel and lane.
func (u *unicast) lid(l ib.LID) {
	g := u.d.g
	owner := g.LIDOwner[l]
	if owner == fabric.NoLID || g.EndPorts[owner].Switch < 0 {
		return
	}
	dst := &g.EndPorts[owner]
	for s := range int32(len(g.Switches)) {
		if s == dst.Switch || dst.Type == ib.NodeSwitch && !u.hasCA[s] {
			continue
		}
		sl := u.t.PathSL(s, l)
		c1 := u.out(s, l)
		if c1 < 0 {
			continue
		}
		for _, in := range u.hosts[s] {
			u.path(c1, u.t.VL(s, in, g.Channels[c1].OutPort, sl, g.Channels[c1].VLs), sl, l)
		}
	}
	for _, n := range u.touched {
		u.seen[n] = 0
	}
	u.touched = u.touched[:0]
}

func (u *unicast) path(c1 int32, v1 ib.VL, sl ib.SL, l ib.LID) {
	g := u.d.g
	for {
		n := u.d.node(c1, v1)
		if u.seen[n]>>sl&1 != 0 {
			return
		}
		if u.seen[n] == 0 {
			u.touched = append(u.touched, n)
		}
		u.seen[n] |= 1 << sl
		s := g.Channels[c1].To
		c2 := u.out(s, l)
		if c2 < 0 {
			return
		}
		v2 := u.t.VL(s, g.Channels[c1].InPort, g.Channels[c2].OutPort, sl, g.Channels[c2].VLs)
		b := u.d.bit(u.d.edge(c1, v1, c2, v2))
		u.bits[b>>6] |= 1 << (b & 63)
		c1, v1 = c2, v2
	}
}
