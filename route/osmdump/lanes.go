package osmdump

import (
	"bufio"
	"io"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
)

// WritePathSL writes the service level from every end port to every LID:
// opensm-path-sl.dump, the argument of `ibdmchk -c`. One block for each port,
// by ascending GUID; router ports appear as channel adapters, because readers
// know no other type. The file has a line for each pair, so it is large: ports
// × LIDs × 11 bytes.
func WritePathSL(w io.Writer, g *fabric.Graph, t *route.Tables) error {
	out := bufio.NewWriterSize(w, 1<<16)
	var line []byte
	for i := range g.EndPorts {
		e := &g.EndPorts[i]
		if e.Switch < 0 || e.LID == 0 {
			continue
		}
		line = append(portHead(line[:0], e), "# LID  : SL\n#-----------\n"...)
		out.Write(line)
		for l, owner := range g.LIDOwner {
			if owner == fabric.NoLID {
				continue
			}
			line = appendHex(append(line[:0], "0x"...), uint64(l), 4)
			line = appendDec(append(line, " : "...), int(t.PathSL(e.Switch, ib.LID(l))), 1)
			line = append(line, '\n')
			out.Write(line)
		}
	}
	return out.Flush()
}

// portHead is the line that begins a block for a port.
func portHead(b []byte, e *fabric.EndPort) []byte {
	kind := "Channel Adapter "
	if e.Type == ib.NodeSwitch {
		kind = "Switch "
	}
	b = append(b, kind...)
	b, _ = e.GUID.AppendText(b)
	b = append(b, ", base LID "...)
	b = appendDec(b, int(e.LID), 1)
	return append(b, ", \"\"\n"...)
}

// WriteSL2VL writes the SL-to-VL tables of all end ports by ascending GUID:
// opensm-sl2vl.dump, the argument of `ibdmchk -d`. For switches there is a line
// for each pair of ports whose egress port has a link, with port 0 as an
// ingress port too. Links to end ports count as having as many data VLs as the
// links between switches, one if there are none.
func WriteSL2VL(w io.Writer, g *fabric.Graph, t *route.Tables) error {
	out := bufio.NewWriterSize(w, 1<<16)
	vls := uint8(route.Budget(g, 0))
	if len(g.Channels) == 0 {
		vls = 1
	}
	// The switch ports that lead to end ports.
	ends := make([][]bool, len(g.Switches))
	for i := range g.EndPorts {
		e := &g.EndPorts[i]
		if e.Switch >= 0 && e.Port > 0 {
			if ends[e.Switch] == nil {
				ends[e.Switch] = make([]bool, 256)
			}
			ends[e.Switch][e.Port] = true
		}
	}
	const rule = "#--------------------------------------------------------\n"
	var line []byte
	for i := range g.EndPorts {
		e := &g.EndPorts[i]
		if e.Switch < 0 {
			continue
		}
		line = append(portHead(line[:0], e), "#in out : 0  1  2  3  4  5  6  7  8  9  10 11 12 13 14 15\n"+rule...)
		out.Write(line)
		if e.Type != ib.NodeSwitch {
			line = laneRow(line[:0], 0, 0, func(sl ib.SL) ib.VL { return ib.VL(uint8(sl) % vls) })
			out.Write(line)
		} else {
			for port := 1; port < len(g.PortChannel[e.Switch]); port++ {
				lanes := vls
				if c := g.PortChannel[e.Switch][port]; c >= 0 {
					lanes = g.Channels[c].VLs
				} else if ends[e.Switch] == nil || !ends[e.Switch][port] {
					continue
				}
				for in := range len(g.PortChannel[e.Switch]) {
					line = laneRow(line[:0], in, port, func(sl ib.SL) ib.VL { return t.VL(e.Switch, uint8(in), uint8(port), sl, lanes) })
					out.Write(line)
				}
			}
		}
		out.WriteString(rule + "\n")
	}
	return out.Flush()
}

// laneRow is one line of opensm-sl2vl.dump.
func laneRow(b []byte, in, out int, vl func(ib.SL) ib.VL) []byte {
	b = pad(appendDec(b, in, 1), 4)
	at := len(b)
	b = append(pad(appendDec(b, out, 1), at+4), ':')
	for sl := range ib.SL(16) {
		b = append(b, ' ')
		at = len(b)
		b = pad(appendDec(b, int(vl(sl)), 1), at+2)
	}
	return append(b, '\n')
}

// pad adds blanks up to a length.
func pad(b []byte, to int) []byte {
	for len(b) < to {
		b = append(b, ' ')
	}
	return b
}

// Groups are the trees of tables in the form that WriteMCFDBs takes.
func Groups(g *fabric.Graph, m *route.Multicast) []Multicast {
	if m == nil {
		return nil
	}
	groups := make([]Multicast, len(m.Trees))
	for i := range m.Trees {
		t := &m.Trees[i]
		groups[i] = Multicast{MLID: t.MLID, Ports: make([][]uint8, len(g.Switches))}
		for j, s := range t.Switches {
			for p := range 256 {
				if t.Ports[j][p/64]>>(p%64)&1 == 1 {
					groups[i].Ports[s] = append(groups[i].Ports[s], uint8(p))
				}
			}
		}
	}
	return groups
}
