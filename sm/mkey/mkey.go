// Package mkey keeps the M_Keys of a subnet: which key each port has, as the store knows it, and
// which keys to try on a port that does not answer (IBA §14.2.4).
//
// Its input is what ports show in PortInfo, its output the changes of the store. To find the key
// of a node that nobody has read yet, it also remembers which port is behind each switch port.
package mkey

import (
	"slices"

	"heddle/ib"
	"heddle/sm/env"
	"heddle/sm/topo"
	"heddle/store"
	"heddle/subnet"
)

// maxTry bounds the stored keys that are tried on a port that does not answer.
const maxTry = 8

// Keys are the M_Keys of a subnet.
type Keys struct {
	*env.Env
	byPort    map[ib.GUID]ib.MKey     // stored; that of GUID 0 is being introduced
	try       []ib.MKey               // the different ones, ascending, as of the last Collect
	neighbors map[topo.PortID]ib.GUID // stored: the port GUID behind each switch port
}

// New returns an empty set of keys.
func New(e *env.Env) *Keys {
	return &Keys{Env: e, byPort: map[ib.GUID]ib.MKey{}, neighbors: map[topo.PortID]ib.GUID{}}
}

// Load takes the keys and neighbors of the store.
func (k *Keys) Load(st *store.State) {
	for _, e := range st.MKeys {
		k.byPort[e.GUID] = e.MKey
	}
	for _, e := range st.Neighbors {
		k.neighbors[topo.PortID{Node: e.Node, Port: e.Port}] = e.Peer
	}
}

// Neighbors are the stored port GUIDs behind switch ports. The caller only reads the map. It is
// empty in a subnet that never had an M_Key.
func (k *Keys) Neighbors() map[topo.PortID]ib.GUID { return k.neighbors }

// Collect lists the keys to try in the sweep that begins. As a rule there is one, and two while
// the keys of a subnet are being changed.
func (k *Keys) Collect() {
	k.try = k.try[:0]
	for _, key := range k.byPort {
		if !slices.Contains(k.try, key) {
			k.try = append(k.try, key)
		}
	}
	slices.Sort(k.try)
	k.try = k.try[:min(len(k.try), maxTry)]
}

// Guess is the key for a request number try (from 0) to the unknown node behind a port, or to our
// own node if from.Node is -1. The order is: the key stored for the last neighbor of the port, the
// configured key, the other keys of the subnet, no key. ok is false when all have been tried. An
// agent does not answer a request with a wrong key.
func (k *Keys) Guess(from subnet.Ref, try uint32) (key ib.MKey, ok bool) {
	var keys [maxTry + 3]ib.MKey
	n := 0
	add := func(key ib.MKey) {
		if !slices.Contains(keys[:n], key) {
			keys[n] = key
			n++
		}
	}
	if len(k.byPort) > 0 {
		g := k.Config.PortGUID
		if from.Node >= 0 {
			g = k.neighbors[topo.PortID{Node: k.Fabric.Nodes[from.Node].Info.NodeGUID, Port: from.Port}]
		}
		if key, ok := k.byPort[g]; ok {
			add(key)
		}
	}
	add(k.Config.MKey)
	for _, key := range k.try {
		add(key)
	}
	add(0)
	if int(try) >= n {
		return 0, false
	}
	return keys[try], true
}

// Of is the key that a port wants to see in a header, as far as the store knows.
func (k *Keys) Of(port ib.GUID) ib.MKey {
	if key, ok := k.byPort[port]; ok {
		return key
	}
	return k.Config.MKey
}

// NextHidden is the key for read number try of a port that answers without showing its key
// (M_KeyProtectBits 1): it shows the key only to a request with that key. ok is false when all
// have been tried.
func (k *Keys) NextHidden(try uint32) (key ib.MKey, ok bool) {
	if try == 0 {
		return k.Config.MKey, true
	}
	if int(try) <= len(k.try) {
		return k.try[try-1], true
	}
	return 0, false
}

// Ops takes over what the ports in the scope of the sweep show, and lists the changes of the
// store, which must be durable before a key is set. full says that the sweep read every port.
//
// The store always has every key that some port of the subnet may have. A port is stored with the
// key that it shows until it shows the new one. The new one is stored for GUID 0 before any port
// gets it. So a manager that dies during a change, and restarts with a third key, still has the
// keys of all ports.
func (k *Keys) Ops(full bool) []store.Op {
	if k.Config.MKey == 0 && len(k.byPort) == 0 {
		return nil
	}
	ops, changing := k.keyOps()
	switch {
	case changing && k.Config.MKey != 0:
		ops = k.put(ops, 0, k.Config.MKey)
	case !changing && full:
		ops = k.drop(ops, 0)
	}
	return k.neighborOps(ops)
}

// keyOps takes the keys that ports show. changing says that ports may have other keys than the
// configured one.
func (k *Keys) keyOps() (ops []store.Op, changing bool) {
	want := k.Config.MKey
	k.Sweeper.Scope(func(p *topo.Port) {
		if p.LID == 0 {
			return
		}
		_, stored := k.byPort[p.GUID]
		switch shown := p.Info.MKey; {
		case shown != 0 && shown != want:
			ops = k.put(ops, p.GUID, shown)
			changing = true
		case shown == 0 && stored && p.Info.MKeyProtectBits == 1:
			changing = true // the port may have a key that it does not show us
		case want == 0:
			ops = k.drop(ops, p.GUID) // the port has no key any more
		default:
			ops = k.put(ops, p.GUID, want)
		}
	})
	return ops, changing
}

func (k *Keys) put(ops []store.Op, g ib.GUID, key ib.MKey) []store.Op {
	if old, ok := k.byPort[g]; ok && old == key {
		return ops
	}
	k.byPort[g] = key
	return append(ops, store.Op{Kind: store.PutMKey, GUID: g, MKey: key})
}

func (k *Keys) drop(ops []store.Op, g ib.GUID) []store.Op {
	if _, ok := k.byPort[g]; !ok {
		return ops
	}
	delete(k.byPort, g)
	return append(ops, store.Op{Kind: store.DeleteMKey, GUID: g})
}

// neighborOps takes the ports behind switch ports.
func (k *Keys) neighborOps(ops []store.Op) []store.Op {
	f := k.Fabric
	k.Sweeper.Scope(func(p *topo.Port) {
		n := &f.Nodes[p.Node]
		if !p.Has(topo.PortLinked) || p.Num == 0 || !n.IsSwitch() {
			return
		}
		at := topo.PortID{Node: n.Info.NodeGUID, Port: p.Num}
		peer := f.AgentPort(p.Peer.Node, p.Peer.Port).GUID
		if k.neighbors[at] != peer {
			k.neighbors[at] = peer
			ops = append(ops, store.Op{Kind: store.PutNeighbor, GUID: at.Node, Port: at.Port, Peer: peer})
		}
	})
	return ops
}
