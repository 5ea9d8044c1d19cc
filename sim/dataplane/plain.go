package dataplane

import "heddle/ib"

// Plain are Tables in memory: for tests, and for questions about tables that no
// device holds. New ones have empty forwarding tables, all ports Active, one LID
// for each end port in the order of Engine.Hosts, and service level i on lane i
// modulo the number of lanes. Change fields at will, and call Engine.Refresh
// after a change of Attr, Arb or Lives.
type Plain struct {
	LFT    [][]uint8             // by switch; beyond the end: 255
	MFT    []map[ib.LID]PortMask // by switch, nil: none
	SLtoVL func(node int32, in, out uint8, sl ib.SL) ib.VL
	Filter func(sw int32, port uint8, out bool, key ib.PKey) bool
	Attr   [][]PortAttr    // by node and port
	Arb    [][]Arbitration // by node and port
	Lives  []Time          // by switch
	// Congestion control, by node and port; beyond the end: off.
	Marks     [][]Marking
	Throttles [][]*Throttling
}

// NewPlain returns tables for t with so many data lanes.
func NewPlain(t *Topology, lanes int) *Plain {
	n := len(t.Nodes)
	p := &Plain{
		LFT: make([][]uint8, n), MFT: make([]map[ib.LID]PortMask, n),
		Attr: make([][]PortAttr, n), Arb: make([][]Arbitration, n), Lives: make([]Time, n),
	}
	p.SLtoVL = func(_ int32, _, _ uint8, sl ib.SL) ib.VL { return ib.VL(int(sl) % lanes) }
	p.Filter = func(int32, uint8, bool, ib.PKey) bool { return true }
	lid := ib.LID(1)
	give := func(i, j int) {
		p.Attr[i][j].LID = lid
		lid++
	}
	for i, nd := range t.Nodes {
		p.Attr[i] = make([]PortAttr, nd.Ports+1)
		p.Arb[i] = make([]Arbitration, nd.Ports+1)
		p.Lives[i] = Never
		for j := range p.Attr[i] {
			p.Attr[i][j] = PortAttr{State: ib.StateActive, VLs: uint8(lanes), MTU: 4096, HOQLife: Never}
		}
		if !nd.Switch {
			for j := 1; j <= nd.Ports; j++ {
				give(i, j)
			}
		}
	}
	for i, nd := range t.Nodes {
		if nd.Switch {
			give(i, 0)
		}
	}
	return p
}

// SetRoute writes an entry of a forwarding table.
func (p *Plain) SetRoute(sw int32, dlid ib.LID, port uint8) {
	for len(p.LFT[sw]) <= int(dlid) {
		p.LFT[sw] = append(p.LFT[sw], noPort)
	}
	p.LFT[sw][dlid] = port
}

// Route implements Tables.
func (p *Plain) Route(sw int32, dlid ib.LID) uint8 {
	if l := p.LFT[sw]; int(dlid) < len(l) {
		return l[dlid]
	}
	return noPort
}

// Multicast implements Tables.
func (p *Plain) Multicast(sw int32, dlid ib.LID, ports *PortMask) {
	m := p.MFT[sw][dlid]
	for i := range m {
		ports[i] |= m[i]
	}
}

// Lane implements Tables.
func (p *Plain) Lane(node int32, in, out uint8, sl ib.SL) ib.VL { return p.SLtoVL(node, in, out, sl) }

// Admits implements Tables.
func (p *Plain) Admits(sw int32, port uint8, out bool, key ib.PKey) bool {
	return p.Filter(sw, port, out, key)
}

// Port implements Tables.
func (p *Plain) Port(node int32, port uint8) PortAttr { return p.Attr[node][port] }

// Arbitration implements Tables.
func (p *Plain) Arbitration(node int32, port uint8) Arbitration { return p.Arb[node][port] }

// Life implements Tables.
func (p *Plain) Life(sw int32) Time { return p.Lives[sw] }

// Marking implements CongestionTables.
func (p *Plain) Marking(sw int32, port uint8) Marking {
	if int(sw) < len(p.Marks) && int(port) < len(p.Marks[sw]) {
		return p.Marks[sw][port]
	}
	return Marking{}
}

// Throttling implements CongestionTables.
func (p *Plain) Throttling(node int32, port uint8) *Throttling {
	if int(node) < len(p.Throttles) && int(port) < len(p.Throttles[node]) {
		return p.Throttles[node][port]
	}
	return nil
}
