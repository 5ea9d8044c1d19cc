package mirror

import (
	"cmp"
	"slices"

	"heddle/ib"
	"heddle/route"
	"heddle/subnet"
)

// Snapshot returns what is mirrored, nil if there is nothing. It is made when it is asked for first,
// in time proportional to the subnet.
func (m *Mirror) Snapshot() *subnet.Snapshot {
	if m.made == nil && m.i.seq > 0 {
		m.made = m.i.build()
	}
	return m.made
}

func (x *image) build() *subnet.Snapshot {
	h := &x.head
	s := &subnet.Snapshot{
		Gen: x.gen, State: h.state, Up: h.up, Warm: h.warm, Veiled: h.veiled, Prefix: h.prefix, PortGUID: h.portGUID, LID: h.lid,
		Priority: h.priority, ActCount: h.actCount, PacketLife: h.packetLife, Master: h.master, SMs: h.sms, Engine: h.engine,
		Unsure: h.unsure, Gone: h.gone, Partitions: x.policy, BasePartitions: x.policy,
	}
	x.buildNodes(s)
	x.buildEnds(s)
	x.buildTables(s)
	s.Self = x.find(s, h.self)
	x.buildVPorts(s)
	s.Finish()
	return s
}

// find is the port that a key names, NoRef if there is none.
func (x *image) find(s *subnet.Snapshot, k portKey) subnet.Ref {
	if k.node == 0 {
		return subnet.NoRef()
	}
	n := s.NodeByGUID(k.node)
	if n < 0 || k.num > s.Nodes[n].Info.NumPorts {
		return subnet.NoRef()
	}
	return subnet.Ref{Node: n, Port: k.num}
}

func (x *image) buildNodes(s *subnet.Snapshot) {
	total := 0
	for _, n := range x.nodes {
		total += len(n.ports)
	}
	s.Nodes = make([]subnet.Node, len(x.nodes))
	for i, n := range x.nodes {
		s.Nodes[i] = n.node
	}
	all := make([]subnet.Port, 0, total) // one allocation
	s.Ports = make([]*subnet.Port, 0, total)
	keys := sharing{}
	switches := int32(0)
	for i, n := range x.nodes {
		nd := &s.Nodes[i]
		nd.First = int32(len(s.Ports))
		if nd.SwitchIndex >= 0 {
			nd.SwitchIndex = switches
			switches++
			s.SwitchNode = append(s.SwitchNode, int32(i))
		}
		for k := range n.ports {
			all = append(all, *n.ports[k].p)
			p := &all[len(all)-1]
			p.Node = int32(i)
			p.Peer = x.find(s, portKey{n.ports[k].peer, p.Peer.Port})
			p.PKeys = keys.shared(p.PKeys)
			s.Ports = append(s.Ports, p)
		}
		if n.lanes != nil {
			if s.Lanes == nil {
				s.Lanes = make([]*subnet.LaneTables, len(x.nodes))
			}
			s.Lanes[i] = n.lanes
		}
	}
	s.MFTs = make([][]subnet.MFTBlock, switches)
	for _, i := range s.SwitchNode {
		s.MFTs[s.Nodes[i].SwitchIndex] = x.nodes[i].mft
	}
}

// sharing gives equal P_Key tables one memory, as a manager does.
type sharing map[string][]ib.PKey

func (x sharing) shared(keys []ib.PKey) []ib.PKey {
	if len(keys) == 0 {
		return keys
	}
	b := make([]byte, 0, 64)
	for _, k := range keys {
		b = append(b, byte(k>>8), byte(k))
	}
	if have, ok := x[string(b)]; ok {
		return have
	}
	x[string(b)] = keys
	return keys
}

// buildEnds numbers the end ports as a graph does: by port GUID.
func (x *image) buildEnds(s *subnet.Snapshot) {
	for i, p := range s.Ports {
		if p.EndPort >= 0 {
			s.EndPortPort = append(s.EndPortPort, int32(i))
		}
	}
	slices.SortFunc(s.EndPortPort, func(a, b int32) int {
		return cmp.Or(cmp.Compare(s.Ports[a].GUID, s.Ports[b].GUID), cmp.Compare(a, b))
	})
	for e, i := range s.EndPortPort {
		s.Ports[i].EndPort = int32(e)
	}
}

func (x *image) buildTables(s *subnet.Snapshot) {
	h := &x.head
	if !h.tables {
		return
	}
	t := &route.Tables{Engine: h.engine, TopLID: h.topLID, NumVLs: h.numVLs, LFT: make([][]byte, len(s.SwitchNode))}
	for k, i := range s.SwitchNode {
		t.LFT[k] = x.nodes[i].row
	}
	if h.levels {
		t.NumClasses = h.classes
		t.SL = make([]ib.SL, len(s.SwitchNode)*h.classes)
		for k, i := range s.SwitchNode {
			copy(t.SL[k*h.classes:(k+1)*h.classes], x.nodes[i].levels)
		}
		t.Class = slices.Clone(x.class)
		for l, c := range t.Class {
			if int(c) >= h.classes {
				t.Class[l] = -1
			}
		}
	}
	s.Tables = t
}

// buildVPorts appends the virtual ports whose physical port is there.
func (x *image) buildVPorts(s *subnet.Snapshot) {
	physical := len(s.Ports)
	all := make([]subnet.Port, 0, len(x.vports))
	for i := range x.vports {
		at := x.find(s, x.vports[i].at)
		k := s.PortIndex(at)
		if k < 0 || int(k) >= physical {
			continue
		}
		q := s.Ports[k]
		p := *x.vports[i].p
		v := *p.Virtual
		v.Port, p.Virtual = k, &v
		p.Node, p.Num, p.Peer = q.Node, q.Num, q.Peer
		if p.EndPort >= 0 {
			p.EndPort = q.EndPort
		}
		all = append(all, p)
		s.Ports = append(s.Ports, &all[len(all)-1])
	}
}
