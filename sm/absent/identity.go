package absent

import (
	"errors"
	"fmt"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/sm/topo"
	"heddle/subnet"
)

type ref = subnet.Ref

// errIdentity: what a port or switch can do does not change while it runs.
var errIdentity = errors.New("its capabilities differ from those read before")

// identity is who a node is, or what a port or switch can do, as numbers that are equal if it is.
type identity [3]uint32

// claim is an identity other than the known one, and how often it was claimed in a row.
type claim struct {
	identity identity
	times    int
}

// claimTimes is how often another identity is claimed before it is believed. Random bytes never
// repeat so often.
const claimTimes = 3

// The ports under which claims that are not about a port are kept.
const (
	portOfSwitch = 255 // capabilities of a switch
	portOfSelf   = 254 // who our own node is
)

// believed reports whether an answer may be true: it has the known identity, or it claims another
// one for the third time.
func (a *Nodes) believed(at topo.PortID, was, now identity) bool {
	if was == now {
		delete(a.claims, at)
		return true
	}
	x := a.claims[at]
	if x.identity != now {
		x = claim{identity: now}
	}
	x.times++
	a.claims[at] = x
	return x.times >= claimTimes
}

// Plausible returns an error if a PortInfo cannot be that of p, which was read before.
func (a *Nodes) Plausible(p *topo.Port, info *smp.PortInfo) error {
	of := func(i *smp.PortInfo) identity {
		return identity{uint32(i.MTUCap)<<8 | uint32(i.VLCap), uint32(i.LinkWidthSupported)<<8 | uint32(i.LinkSpeedSupported), 0}
	}
	if !a.believed(topo.PortID{Node: p.GUID, Port: p.Num}, of(&p.Info), of(info)) {
		return errIdentity
	}
	return nil
}

// PlausibleSwitch returns an error if a SwitchInfo cannot be that of a node that had was before.
func (a *Nodes) PlausibleSwitch(n *topo.Node, was, now *smp.SwitchInfo) error {
	of := func(i *smp.SwitchInfo) identity {
		return identity{uint32(i.LinearFDBCap), uint32(i.MulticastFDBCap), 0}
	}
	if !a.believed(topo.PortID{Node: n.Info.NodeGUID, Port: portOfSwitch}, of(was), of(now)) {
		return errIdentity
	}
	return nil
}

// PlausibleNode returns an error if the node behind port from says that it is another node than
// before although the link has been up since: while a link is up no node becomes another one, and
// no cable moves. A node that says the same three times is believed, because the first answer may
// have been wrong.
func (a *Nodes) PlausibleNode(from ref, ni *smp.NodeInfo) error {
	was, ok := a.WasBehind(from)
	if !ok {
		return nil
	}
	if from.Node >= 0 {
		i, _ := a.Last.Find(a.Fabric.Nodes[from.Node].Info.NodeGUID)
		if a.Last.PortOf(i, from.Port).Info.PortState < ib.StateArmed {
			return nil
		}
	}
	o := &a.Last.Nodes[was.Node]
	of := func(g ib.GUID, i *smp.NodeInfo, num uint8) identity {
		if from.Node < 0 {
			num = 0
		}
		return identity{uint32(g >> 32), uint32(g), uint32(i.NodeType)<<16 | uint32(i.NumPorts)<<8 | uint32(num)}
	}
	at := topo.PortID{Node: a.Config.PortGUID, Port: portOfSelf}
	if from.Node >= 0 {
		at = topo.PortID{Node: ^a.Fabric.Nodes[from.Node].Info.NodeGUID, Port: from.Port} // not one of its own ports
	}
	if a.believed(at, of(o.Info.NodeGUID, &o.Info, was.Port), of(ni.NodeGUID, ni, ni.LocalPortNum)) {
		return nil
	}
	return fmt.Errorf("it claims to be node %v, but has been node %v since its link came up", ni.NodeGUID, o.Info.NodeGUID)
}
