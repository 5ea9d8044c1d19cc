package lab

import (
	"fmt"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/route/check"
	"heddle/sim"
)

// Check verifies what the fabric really holds in the part that a manager can reach: every
// connected pair delivered, no loop, no credit cycle, no LID twice, changed or beyond a
// switch's table, every link Active. It looks at the simulated switches, never at what the
// manager believes.
func (c *Cluster) Check(m *Manager) error {
	reach := c.reachable(m)
	sub, lft, err := c.held(reach)
	if err != nil {
		return err
	}
	for i := range sub.EndPorts {
		e := &sub.EndPorts[i]
		if e.LID == 0 {
			return fmt.Errorf("lab: port %v has no LID", e.GUID)
		}
		if was, ok := c.lids[e.GUID]; ok && was != e.LID && !c.floats[e.GUID] {
			return fmt.Errorf("lab: the LID of port %v changed from %v to %v", e.GUID, was, e.LID)
		}
	}
	c.dropUnused(sub, lft)
	if err := c.lidsUnique(sub, reach); err != nil {
		return err
	}
	if err := c.linksActive(reach); err != nil {
		return err
	}
	t := &route.Tables{Engine: "held", LFT: lft, TopLID: sub.TopLID, NumVLs: 1}
	c.heldLanes(m, sub, t)
	rep := check.Verify(sub, t, check.Options{})
	if err := rep.Err(); err != nil {
		if len(rep.Failures) > 0 {
			f := rep.Failures[0]
			return fmt.Errorf("lab: %w; %v of LID %v at switch %v entry %d", err, f.Kind, f.LID, sub.Switches[f.Switch].GUID, f.Entry)
		}
		return fmt.Errorf("lab: %w", err)
	}
	return nil
}

// held is the part of the fabric with those nodes, and what its switches hold.
func (c *Cluster) held(reach map[ib.GUID]bool) (*fabric.Graph, [][]byte, error) {
	g, rows := c.Sim.Graph()
	return part(g, rows, func(guid ib.GUID) bool { return reach[guid] })
}

// dropUnused removes LIDs of functions that are down if no switch routes them: hosts leave them
// behind, and managers may ignore them. A LID that an active function also holds belongs to
// that function. With leftLIDs the routes of such LIDs do not matter.
func (c *Cluster) dropUnused(g *fabric.Graph, rows [][]byte) {
	index := map[ib.GUID]int32{}
	for i := range g.EndPorts {
		index[g.EndPorts[i].GUID] = int32(i)
	}
	up := map[ib.LID]int32{}
	for _, e := range c.Sim.LIDs() {
		if i, ok := index[e.GUID]; ok && !c.down(e) {
			up[e.LID] = i
		}
	}
	for _, e := range c.Sim.LIDs() {
		if int(e.LID) >= len(g.LIDOwner) || !c.down(e) {
			continue
		}
		i, ok := up[e.LID]
		switch {
		case ok: // whoever left it behind
			g.LIDOwner[e.LID] = i
		case c.leftLIDs, !slices.ContainsFunc(rows, func(row []byte) bool {
			return int(e.LID) < len(row) && row[e.LID] != route.Drop
		}):
			g.LIDOwner[e.LID] = fabric.NoLID
		}
	}
}

// down reports whether the owner of a LID is a virtual function that is down.
func (c *Cluster) down(e sim.EndPortLID) bool {
	if e.VPort == 0 {
		return false
	}
	st, err := c.Sim.VPort(sim.VF{Node: e.Node, Port: e.Port, Index: e.VPort})
	return err == nil && st.State == ib.StateDown
}

// lidsUnique checks that every LID has one owner, virtual functions and VPorts
// among them, and fits the tables of all switches.
func (c *Cluster) lidsUnique(g *fabric.Graph, reach map[ib.GUID]bool) error {
	least := int(ib.LIDMaxUnicast) + 1
	at := ib.GUID(0)
	for s := range g.Switches {
		if k := int(g.Switches[s].LinearFDBCap); k < least {
			least, at = k, g.Switches[s].GUID
		}
	}
	seen := map[ib.LID]sim.EndPortLID{}
	for _, e := range c.Sim.LIDs() {
		if !reach[c.Fabric.Nodes[e.Node].GUID] {
			continue
		}
		for k := range e.Num {
			l := e.LID + ib.LID(k)
			o, ok := seen[l]
			switch {
			case ok && c.down(o) && !c.down(e): // it was left behind by who has it now
			case ok && !c.down(o) && c.down(e), ok && c.down(o) && c.leftLIDs:
				continue
			case ok:
				return fmt.Errorf("lab: LID %v belongs to %v VPort %d and %v VPort %d", l, o.GUID, o.VPort, e.GUID, e.VPort)
			}
			seen[l] = e
			if int(l) >= least {
				return fmt.Errorf("lab: LID %v does not fit switch %v", l, at)
			}
		}
	}
	return nil
}

// heldLanes adds the service levels that the manager publishes and, where there is more than
// one, the SL-to-VL tables that the switches hold.
func (c *Cluster) heldLanes(m *Manager, g *fabric.Graph, t *route.Tables) {
	told := m.Snap.Tables
	if told == nil || told.SL == nil && told.Lanes == nil || told.Switches() != len(g.Switches) {
		return
	}
	t.NumVLs, t.SL, t.Class, t.NumClasses = told.NumVLs, told.SL, told.Class, told.NumClasses
	for len(t.Class) > 0 && len(t.Class) <= int(t.TopLID) { // LIDs that a VPort left behind
		t.Class = append(slices.Clip(t.Class), -1)
	}
	node := map[ib.GUID]int{}
	for i := range c.Fabric.Nodes {
		node[c.Fabric.Nodes[i].GUID] = i
	}
	l := &route.Lanes{Guards: told.Lanes != nil && told.Lanes.Guards, Index: make([][]uint8, len(g.Switches)), Stride: make([]uint16, len(g.Switches))}
	rows := map[[16]ib.VL]uint8{}
	for s := range g.Switches {
		n, ports := node[g.Switches[s].GUID], int(g.Switches[s].NumPorts)+1
		l.Stride[s] = uint16(ports)
		l.Index[s] = make([]uint8, ports*ports)
		for in := range ports {
			for out := range ports {
				row := [16]ib.VL(c.Sim.SLtoVL(n, uint8(in), uint8(out)))
				k, ok := rows[row]
				if !ok {
					k = uint8(len(l.Rows))
					rows[row] = k
					l.Rows = append(l.Rows, row)
				}
				l.Index[s][in*ports+out] = k
			}
		}
	}
	t.Lanes = l
}

// reachable are the node GUIDs that cables in order join with the manager.
func (c *Cluster) reachable(m *Manager) map[ib.GUID]bool {
	start := m.ep.NodeIndex()
	seen := make([]bool, len(c.Fabric.Nodes))
	out := map[ib.GUID]bool{}
	queue := []int{start}
	seen[start] = true
	for len(queue) > 0 {
		n := queue[0]
		queue = queue[1:]
		nd := &c.Fabric.Nodes[n]
		out[nd.GUID] = true
		if !nd.IsSwitch() && n != start {
			continue // datagrams do not pass through a CA
		}
		for p := 1; p <= nd.NumPorts; p++ {
			if !nd.IsSwitch() && p != int(m.ep.PortNum()) {
				continue
			}
			r, ok := c.Sim.Peer(n, p)
			if !ok || seen[r.Node] || !c.Sim.Up(int(r.Node)) || c.Sim.PortInfo(n, p).PortPhysicalState != ib.PhysLinkUp {
				continue
			}
			seen[r.Node] = true
			queue = append(queue, int(r.Node))
		}
	}
	return out
}

// linksActive checks that both ends of every cable in order are Active.
func (c *Cluster) linksActive(reach map[ib.GUID]bool) error {
	for n := range c.Fabric.Nodes {
		nd := &c.Fabric.Nodes[n]
		if !reach[nd.GUID] || !nd.IsSwitch() {
			continue
		}
		for p := 1; p <= nd.NumPorts; p++ {
			r, ok := c.Sim.Peer(n, p)
			pi := c.Sim.PortInfo(n, p)
			if !ok || !c.Sim.Up(int(r.Node)) || pi.PortPhysicalState != ib.PhysLinkUp {
				continue
			}
			qi := c.Sim.PortInfo(int(r.Node), int(r.Port))
			if pi.PortState != ib.StateActive || qi.PortState != ib.StateActive {
				return fmt.Errorf("lab: link %s[%d] – %s[%d] is %v – %v", nd.ID, p, c.Fabric.Nodes[r.Node].ID, r.Port, pi.PortState, qi.PortState)
			}
		}
	}
	return nil
}

// part is the graph of the nodes that keep says, with its rows.
func part(g *fabric.Graph, rows [][]byte, keep func(ib.GUID) bool) (*fabric.Graph, [][]byte, error) {
	out := &fabric.Graph{}
	index := make([]int32, len(g.Switches))
	var lft [][]byte
	for s := range g.Switches {
		index[s] = -1
		if keep(g.Switches[s].GUID) {
			index[s] = int32(len(out.Switches))
			out.Switches = append(out.Switches, g.Switches[s])
			lft = append(lft, rows[s])
		}
	}
	kept := make([]int32, len(g.EndPorts))
	for i, e := range g.EndPorts {
		kept[i] = fabric.NoLID
		if !keep(e.NodeGUID) {
			continue
		}
		if e.Switch >= 0 {
			e.Switch = index[e.Switch]
		}
		if e.Type != ib.NodeSwitch && e.Switch < 0 {
			continue // a CA's port that has no link
		}
		if e.Type == ib.NodeSwitch {
			out.Switches[e.Switch].EndPort = int32(len(out.EndPorts))
		}
		kept[i] = int32(len(out.EndPorts))
		out.EndPorts = append(out.EndPorts, e)
	}
	for l, e := range g.LIDOwner { // those of virtual functions too
		if e == fabric.NoLID || kept[e] == fabric.NoLID {
			continue
		}
		for len(out.LIDOwner) <= l {
			out.LIDOwner = append(out.LIDOwner, fabric.NoLID)
		}
		out.LIDOwner[l], out.TopLID = kept[e], ib.LID(l)
	}
	for s := range g.Switches {
		if index[s] < 0 {
			continue
		}
		out.Off = append(out.Off, int32(len(out.Channels)))
		row := slices.Repeat([]int32{-1}, int(g.Switches[s].NumPorts)+1)
		for _, ch := range g.Channels[g.Off[s]:g.Off[s+1]] {
			if index[ch.To] < 0 {
				continue
			}
			ch.From, ch.To = index[ch.From], index[ch.To]
			row[ch.OutPort] = int32(len(out.Channels))
			out.Channels = append(out.Channels, ch)
		}
		out.PortChannel = append(out.PortChannel, row)
	}
	out.Off = append(out.Off, int32(len(out.Channels)))
	for i := range out.Channels {
		ch := &out.Channels[i]
		ch.Rev = out.PortChannel[ch.To][ch.InPort]
		if ch.Rev < 0 {
			return nil, nil, fmt.Errorf("lab: link of switch %v port %d is up at one end only", out.Switches[ch.From].GUID, ch.OutPort)
		}
	}
	w := route.RowLen(out.TopLID)
	for s := range lft {
		row := make([]byte, w)
		for l := range row {
			row[l] = route.Drop
		}
		copy(row, lft[s])
		lft[s] = row
	}
	return out, lft, nil
}
