package sim

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/smp"
)

// PortInfo is the current PortInfo of a port, with its M_Key. Port 0 is that of
// a switch.
func (s *Subnet) PortInfo(node, port int) smp.PortInfo {
	p := s.devs[node].first + int32(port)
	return s.portInfo(p, p)
}

// SwitchInfo is the SwitchInfo of a switch; ok is false for other nodes.
func (s *Subnet) SwitchInfo(node int) (si smp.SwitchInfo, ok bool) {
	d := &s.devs[node]
	if d.sw == nil {
		return si, false
	}
	si = d.sw.info
	si.LinearFDBCap = s.linearCap(d)
	return si, true
}

// LFT appends to b the linear forwarding table of a switch for LIDs 0 to
// LinearFDBTop, as the switch applies it.
func (s *Subnet) LFT(node int, b []byte) []byte {
	w := s.devs[node].sw
	if w == nil {
		return b
	}
	n := int(w.info.LinearFDBTop) + 1
	have := min(n, len(w.lft))
	b = append(b, w.lft[:have]...)
	for range n - have {
		b = append(b, noRoute)
	}
	return b
}

// SetLFT writes one entry without the manager's knowledge.
func (s *Subnet) SetLFT(node int, lid ib.LID, port uint8) {
	if w := s.devs[node].sw; w != nil && lid.IsUnicast() {
		w.growLFT((int(lid)/smp.LFTBlockLIDs + 1) * smp.LFTBlockLIDs)
		w.lft[lid] = port
	}
}

// MFT is the set of ports to which a switch sends a multicast packet, according
// to its table alone.
func (s *Subnet) MFT(node int, mlid ib.LID) (ports []uint8) {
	d := &s.devs[node]
	if d.sw == nil || !mlid.IsMulticast() {
		return nil
	}
	b, k := smp.MFTBlockOf(mlid)
	for pos := range uint32(d.nports)/16 + 1 {
		if row := d.sw.mft[pos<<16|uint32(b)]; row != nil {
			for i := range 16 {
				if row[k]&(1<<i) != 0 {
					ports = append(ports, uint8(pos)*16+uint8(i))
				}
			}
		}
	}
	return ports
}

// PKeys appends the P_Key table of a port to b.
func (s *Subnet) PKeys(node, port int, b []ib.PKey) []ib.PKey {
	p := s.devs[node].first + int32(port)
	for i := range s.pkeyCap(p) {
		b = append(b, s.pkeyAt(p, i))
	}
	return b
}

// MFTBlock is a block of the multicast table of a switch.
func (s *Subnet) MFTBlock(node int, block uint16, pos uint8) (t smp.MFT) {
	if w := s.devs[node].sw; w != nil {
		if row := w.mft[uint32(pos)<<16|uint32(block)]; row != nil {
			t = *row
		}
	}
	return t
}

// GUIDs is the GUID table of a port as its agent answers for it: the port GUID
// first.
func (s *Subnet) GUIDs(node, port int) []ib.GUID {
	p := s.devs[node].first + int32(port)
	l := make([]ib.GUID, max(int(s.infos[p].GUIDCap), 1))
	if c := s.ports[p].cold; c != nil {
		copy(l, c.guids)
	}
	l[0] = s.guidOf(p)
	return l
}

// SetGUID writes an alias into a port's GUID table, as a manager would.
func (s *Subnet) SetGUID(node, port, index int, g ib.GUID) {
	p := s.devs[node].first + int32(port)
	if c := s.coldOf(p); index > 0 && index < int(s.infos[p].GUIDCap) {
		if c.guids == nil {
			c.guids = make([]ib.GUID, s.infos[p].GUIDCap)
		}
		c.guids[index] = g
	}
}

// Up reports whether a node is on.
func (s *Subnet) Up(node int) bool { return !s.devs[node].down }

// Peer is the other end of the cable in a port; ok is false without a cable.
func (s *Subnet) Peer(node, port int) (r fabric.Ref, ok bool) {
	q := s.ports[s.devs[node].first+int32(port)].peer
	if q < 0 {
		return fabric.Ref{Node: -1}, false
	}
	return fabric.Ref{Node: s.ports[q].dev, Port: s.ports[q].num}, true
}

// EndPortLID is one end port and its addresses.
type EndPortLID struct {
	Node int
	Port uint8
	GUID ib.GUID
	LID  ib.LID
	LMC  uint8
	// Num is how many LIDs the port has from LID on: 1<<LMC, or more on a port
	// with virtual functions.
	Num int
	// VPort that owns LID; 0: the port itself. GUID is the port's.
	VPort uint16
}

// LIDs lists the end ports that have a LID, in the order of the fabric, and
// after each the LIDs that its virtual functions own.
func (s *Subnet) LIDs() (l []EndPortLID) {
	for i := range s.ports {
		pt := &s.ports[i]
		if pt.lid != 0 && !s.devs[pt.dev].down {
			e := EndPortLID{Node: int(pt.dev), Port: pt.num, GUID: s.guidOf(int32(i)), LID: pt.lid, LMC: pt.lmc, Num: pt.lids()}
			l = append(l, e)
			if pt.hv != nil {
				for _, o := range pt.hv.own {
					l = append(l, EndPortLID{Node: e.Node, Port: e.Port, GUID: e.GUID, LID: o.lid, Num: 1, VPort: o.idx})
				}
			}
		}
	}
	return l
}

// FindLID is the end port that has a LID.
func (s *Subnet) FindLID(lid ib.LID) (r fabric.Ref, ok bool) {
	for i := range s.ports {
		if pt := &s.ports[i]; pt.ownsLID(lid) && !s.devs[pt.dev].down {
			return fabric.Ref{Node: pt.dev, Port: pt.num}, true
		}
	}
	return fabric.Ref{Node: -1}, false
}

// Hop is one step of a Trace: a node, its ingress port and its egress port (0
// at the ends of the path, or at port 0 of a switch).
type Hop struct {
	Node    int
	In, Out uint8
}

// ErrTrace is wrapped by the reasons why a trace does not arrive.
var ErrTrace = errors.New("not delivered")

// Trace follows the installed tables from end port (node, port) to dlid, as a
// data packet of service level sl would. If the packet does not arrive, the
// hops are those up to the failure.
func (s *Subnet) Trace(node, port int, dlid ib.LID, sl ib.SL) (hops []Hop, err error) {
	p := s.devs[node].first + int32(port)
	fail := func(format string, a ...any) error {
		return fmt.Errorf("sim: LID %v from %s: %s: %w", dlid, s.portName(s.devs[node].first+int32(port)), fmt.Sprintf(format, a...), ErrTrace)
	}
	in := uint8(0)
	for range s.cfg.HopLimit + 1 {
		pt := &s.ports[p]
		d := &s.devs[pt.dev]
		if e := s.endPort(p); s.ports[e].ownsLID(dlid) {
			return append(hops, Hop{Node: int(pt.dev), In: in}), nil
		}
		out := pt.num
		if d.isSwitch() {
			out = noRoute
			if dlid <= d.sw.info.LinearFDBTop {
				out = d.sw.route(dlid)
			}
			hops = append(hops, Hop{Node: int(pt.dev), In: in, Out: out})
			if out == 0 || out > d.nports {
				return hops, fail("switch %q has entry %d", s.f.Nodes[pt.dev].ID, out)
			}
			if d.sw.sl2vl != nil && d.sw.vl(in, out, sl) == 15 {
				return hops, fail("switch %q drops SL %d from port %d to %d", s.f.Nodes[pt.dev].ID, sl, in, out)
			}
		} else {
			if len(hops) > 0 {
				return append(hops, Hop{Node: int(pt.dev), In: in}), fail("reached %s instead", s.portName(p))
			}
			hops = append(hops, Hop{Node: int(pt.dev), Out: out})
		}
		o := &s.ports[d.first+int32(out)]
		if o.peer < 0 || o.phys != ib.PhysLinkUp || o.state != ib.StateActive {
			return hops, fail("port %s is %v", s.portName(d.first+int32(out)), o.state)
		}
		p = o.peer
		if st := s.ports[p].state; st != ib.StateActive && st != ib.StateArmed {
			return hops, fail("port %s is %v", s.portName(p), st)
		}
		in = s.ports[p].num
	}
	return hops, fail("not delivered after %d hops", len(hops))
}

// Graph is the current fabric: its switches, the links that are up, the end
// ports with their LIDs, and the forwarding row of each switch (by
// Graph.Switches index, LID 0 to TopLID; 255 drops the packet). Switches and
// end ports that are down are omitted.
func (s *Subnet) Graph() (*fabric.Graph, [][]byte) {
	g := &fabric.Graph{}
	var sw []int32
	for i := range s.devs {
		if d := &s.devs[i]; d.isSwitch() && !d.down {
			sw = append(sw, int32(i))
		}
	}
	slices.SortFunc(sw, func(a, b int32) int { return cmp.Compare(s.devs[a].guid, s.devs[b].guid) })
	index := make([]int32, len(s.devs)) // of switches, +1
	for i, d := range sw {
		index[d] = int32(i) + 1
	}
	s.graphEndPorts(g, index)
	s.graphChannels(g, sw, index)
	lft := make([][]byte, len(sw))
	for i, v := range sw {
		w := s.devs[v].sw
		row := make([]byte, int(g.TopLID)+1)
		for l := range row {
			row[l] = noRoute
			if ib.LID(l) <= w.info.LinearFDBTop {
				row[l] = w.route(ib.LID(l))
			}
		}
		lft[i] = row
	}
	return g, lft
}

func (s *Subnet) graphEndPorts(g *fabric.Graph, index []int32) {
	for i := range s.ports {
		pt := &s.ports[i]
		d := &s.devs[pt.dev]
		if d.down || s.endPort(int32(i)) != int32(i) || pt.num == 0 && !d.isSwitch() {
			continue
		}
		e := fabric.EndPort{
			GUID: s.guidOf(int32(i)), NodeGUID: d.guid, Type: d.typ, PortNum: pt.num, Switch: -1,
			LID: pt.lid, LMC: pt.lmc,
		}
		if d.isSwitch() {
			e.Switch = index[pt.dev] - 1
		} else if q := pt.peer; q >= 0 && pt.phys == ib.PhysLinkUp {
			if e.Switch = index[s.ports[q].dev] - 1; e.Switch >= 0 {
				e.Port = s.ports[q].num
			}
		}
		g.EndPorts = append(g.EndPorts, e)
	}
	slices.SortStableFunc(g.EndPorts, func(a, b fabric.EndPort) int { return cmp.Compare(a.GUID, b.GUID) })
	byGUID := make(map[ib.GUID]int32, len(g.EndPorts))
	for i := range g.EndPorts {
		byGUID[g.EndPorts[i].GUID] = int32(i)
	}
	lids := s.LIDs()
	for _, l := range lids {
		g.TopLID = max(g.TopLID, l.LID+ib.LID(l.Num-1))
	}
	g.LIDOwner = make([]int32, int(g.TopLID)+1)
	for i := range g.LIDOwner {
		g.LIDOwner[i] = fabric.NoLID
	}
	for _, l := range lids {
		for k := range l.Num {
			g.LIDOwner[int(l.LID)+k] = byGUID[l.GUID]
		}
	}
}

func (s *Subnet) graphChannels(g *fabric.Graph, sw, index []int32) {
	for i, v := range sw {
		d := &s.devs[v]
		g.Switches = append(g.Switches, fabric.SwitchNode{GUID: d.guid, NumPorts: d.nports, LinearFDBCap: s.linearCap(d)})
		g.Off = append(g.Off, int32(len(g.Channels)))
		row := make([]int32, int(d.nports)+1)
		row[0] = -1
		for p := 1; p <= int(d.nports); p++ {
			row[p] = -1
			pt := &s.ports[d.first+int32(p)]
			if pt.peer < 0 || pt.phys != ib.PhysLinkUp {
				continue
			}
			to := index[s.ports[pt.peer].dev] - 1
			if to < 0 || to == int32(i) {
				continue
			}
			row[p] = int32(len(g.Channels))
			pi := s.portInfo(d.first+int32(p), d.first)
			g.Channels = append(g.Channels, fabric.Channel{
				From: int32(i), To: to, OutPort: uint8(p),
				InPort: s.ports[pt.peer].num, VLs: uint8(max(ib.VLsOf(pi.OperationalVLs), 1)),
				Gbps: float32(ib.RateOf(pi.LinkWidthActive, pi.ActiveSpeedOf(s.infos[d.first].CapabilityMask, false)).Gbps()),
			})
		}
		g.PortChannel = append(g.PortChannel, row)
	}
	g.Off = append(g.Off, int32(len(g.Channels)))
	for i := range g.Channels {
		c := &g.Channels[i]
		c.Rev = g.PortChannel[c.To][c.InPort]
	}
	for i := range g.EndPorts {
		if e := &g.EndPorts[i]; e.Type == ib.NodeSwitch {
			g.Switches[e.Switch].EndPort = int32(i)
		}
	}
}

// SLtoVL is the SL to VL mapping of a switch for packets from port in to port
// out, or that of port out of another node.
func (s *Subnet) SLtoVL(node int, in, out uint8) smp.SLtoVL {
	if w := s.devs[node].sw; w != nil && w.sl2vl != nil && w.sl2vl[out] != nil {
		return w.sl2vl[out][in]
	} else if c := s.ports[s.devs[node].first+int32(out)].cold; w == nil && c != nil && c.sl2vl != nil {
		return *c.sl2vl
	}
	return s.defaultSLtoVL()
}

// VLArb is block 1–4 of the VL arbitration tables of a port.
func (s *Subnet) VLArb(node, port, block int) (t smp.VLArb) {
	if c := s.ports[s.devs[node].first+int32(port)].cold; c != nil && c.vlarb != nil {
		t = c.vlarb[block-1]
	}
	return t
}

// Tables are the installed tables of a switch, for comparison in tests.
type Tables struct {
	Info smp.SwitchInfo
	LFT  []byte // up to the highest block written
}

// Tables returns a copy of the tables of a switch, nil for other nodes.
func (s *Subnet) Tables(node int) *Tables {
	w := s.devs[node].sw
	if w == nil {
		return nil
	}
	return &Tables{Info: w.info, LFT: slices.Clone(w.lft)}
}

// portRef names a port.
func (s *Subnet) portRef(p int32) fabric.Ref {
	return fabric.Ref{Node: s.ports[p].dev, Port: s.ports[p].num}
}
