// Package osmdump writes forwarding tables and links in the formats of OpenSM's
// dump files, so that their readers (ibdmchk and similar tools, site scripts)
// work with Heddle:
//
//   - opensm.fdbs: WriteFDBs
//   - opensm.mcfdbs: WriteMCFDBs
//   - opensm-subnet.lst: WriteSubnet
//   - opensm-sl2vl.dump: WriteSL2VL
//   - opensm-path-sl.dump, which OpenSM itself does not write: WritePathSL
//
// and reads them, with the variants that other tools print: ReadRoutes,
// ReadPathSL, ReadSL2VL. Readers do not trust files: lines, switches and
// entries are bounded, memory is proportional to the file, errors name the
// line.
//
// The formats are OpenSM 3.3's, without its defects: names cannot break the
// line, vendor and device IDs are correct on both sides, NDR has a number.
// Writers stream.
package osmdump

import (
	"bufio"
	"io"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
)

const noWay = 0xFFFF

// WriteFDBs writes the unicast tables, all LIDs from 1 to the top at every
// switch, each with the links of its path and whether there is a shorter one.
func WriteFDBs(w io.Writer, g *fabric.Graph, t *route.Tables) error {
	out := bufio.NewWriterSize(w, 1<<16)
	n := len(g.Switches)
	dist := make([]uint16, n*n) // by destination switch, switch
	queue := make([]int32, 0, n)
	for d := range n {
		queue = breadthFirst(g, int32(d), dist[d*n:(d+1)*n], queue)
	}
	line := make([]byte, 0, 64)
	for s := range int32(n) {
		line = append(line[:0], "dump_ucast_routes: Switch "...)
		line, _ = g.Switches[s].GUID.AppendText(line)
		line = append(line, "\nLID    : Port : Hops : Optimal\n"...)
		out.Write(line)
		for l := 1; l <= int(t.TopLID); l++ {
			line = appendHex(append(line[:0], "0x"...), uint64(l), 4)
			line = append(line, " : "...)
			p := t.Entry(s, ib.LID(l))
			owner := int32(fabric.NoLID)
			if l < len(g.LIDOwner) {
				owner = g.LIDOwner[l]
			}
			if p == route.Drop || owner == fabric.NoLID || g.EndPorts[owner].Switch < 0 {
				line = append(line, "UNREACHABLE\n"...)
				out.Write(line)
				continue
			}
			line = append(appendDec(line, int(p), 3), "  : "...)
			hops, ok := follow(g, t, s, ib.LID(l), owner)
			best := dist[int(g.EndPorts[owner].Switch)*n+int(s)]
			switch {
			case !ok:
				line = append(line, "HOPS UNKNOWN\n"...)
			case hops == int(best):
				line = append(appendDec(line, hops, 2), "   : yes\n"...)
			default:
				line = append(appendDec(line, hops, 2), "   : No "...)
				line = append(appendDec(line, int(best), 1), " hop path possible via port "...)
				line = append(appendDec(line, int(nearer(g, s, dist[int(g.EndPorts[owner].Switch)*n:])), 1), "!\n"...)
			}
			out.Write(line)
		}
	}
	return out.Flush()
}

// breadthFirst fills dist with the links from every switch to d.
func breadthFirst(g *fabric.Graph, d int32, dist []uint16, queue []int32) []int32 {
	for s := range dist {
		dist[s] = noWay
	}
	dist[d] = 0
	queue = append(queue[:0], d)
	for h := 0; h < len(queue); h++ {
		u := queue[h]
		for c := g.Off[u]; c < g.Off[u+1]; c++ {
			if v := g.Channels[c].To; dist[v] == noWay {
				dist[v] = dist[u] + 1
				queue = append(queue, v)
			}
		}
	}
	return queue
}

// follow counts the links that packets from switch s to l cross.
func follow(g *fabric.Graph, t *route.Tables, s int32, l ib.LID, owner int32) (hops int, ok bool) {
	end := &g.EndPorts[owner]
	for range len(g.Switches) {
		p := t.Entry(s, l)
		if s == end.Switch {
			return hops, p == end.Port
		}
		if int(p) >= len(g.PortChannel[s]) || g.PortChannel[s][p] < 0 {
			return hops, false
		}
		s = g.Channels[g.PortChannel[s][p]].To
		hops++
	}
	return hops, false
}

// nearer is the first port of s on a shortest path by the distances dist.
func nearer(g *fabric.Graph, s int32, dist []uint16) uint8 {
	for _, c := range g.Channels[g.Off[s]:g.Off[s+1]] {
		if dist[c.To]+1 == dist[s] {
			return c.OutPort
		}
	}
	return 0
}

// Multicast is the installed tree of one multicast group.
type Multicast struct {
	MLID  ib.LID
	Ports [][]uint8 // by switch of the Graph: ports in the mask, ascending; empty if it has no entry
}

// WriteMCFDBs writes the multicast tables of groups, which ascend by MLID.
// Switches in no group are left out; without groups nothing is written.
func WriteMCFDBs(w io.Writer, g *fabric.Graph, groups []Multicast) error {
	out := bufio.NewWriter(w)
	var line []byte
	for s := range g.Switches {
		first := true
		for _, m := range groups {
			if s >= len(m.Ports) || len(m.Ports[s]) == 0 {
				continue
			}
			line = line[:0]
			if first {
				first = false
				line = append(line, "\nSwitch "...)
				line, _ = g.Switches[s].GUID.AppendText(line)
				line = append(line, "\nLID    : Out Port(s)\n"...)
			}
			line = append(appendHex(append(line, "0x"...), uint64(m.MLID), 4), " :"...)
			for _, p := range m.Ports[s] {
				line = append(appendHex(append(line, " 0x"...), uint64(p), 3), ' ')
			}
			line = append(line, '\n')
			out.Write(line)
		}
	}
	return out.Flush()
}

// SubnetOptions are the inputs of WriteSubnet that the Fabric lacks.
type SubnetOptions struct {
	// SM is the index of the node that holds the master SM; -1 for none.
	SM int
	// State is the state of the link at a port; nil: all are Active. Links
	// that are Down are left out.
	State func(fabric.Ref) ib.PortState
}

// WriteSubnet writes the links, one line for each direction.
func WriteSubnet(w io.Writer, f *fabric.Fabric, o SubnetOptions) error {
	out := bufio.NewWriterSize(w, 1<<16)
	var line []byte
	for i := range f.Nodes {
		for p := 1; p < len(f.Nodes[i].Ports); p++ {
			here := fabric.Ref{Node: int32(i), Port: uint8(p)}
			port := f.Port(here)
			if !port.Cabled() {
				continue
			}
			state := ib.StateActive
			if o.State != nil {
				state = o.State(here)
			}
			if state <= ib.StateDown {
				continue
			}
			line = appendEnd(line[:0], f, here, o.SM, 6)
			line = appendEnd(append(line, ' '), f, port.Peer, o.SM, 8)
			line = append(line, " PHY="...)
			line = append(line, widthName(port.Width)...)
			line = append(line, " LOG="...)
			line = append(line, stateName(state)...)
			line = append(line, " SPD="...)
			line = append(line, speedName(port.Speed)...)
			line = append(line, '\n')
			out.Write(line)
		}
	}
	return out.Flush()
}

// appendEnd adds one end of a link; the vendor ID has 6 digits on the left and
// 8 on the right.
func appendEnd(b []byte, f *fabric.Fabric, r fabric.Ref, sm, vendorDigits int) []byte {
	n := &f.Nodes[r.Node]
	end := &n.Ports[r.Port] // the object with the GUID and LID: the node or the port
	kind := "CA"
	switch n.Type {
	case ib.NodeSwitch:
		kind, end = "SW", &n.Ports[0]
	case ib.NodeRouter:
		kind = "Rt"
	}
	b = append(append(b, "{ "...), kind...)
	if int(r.Node) == sm {
		b = append(b, "-SM"...)
	}
	b = appendHex(append(b, " Ports:"...), uint64(n.NumPorts), 2)
	b = appendHex(append(b, " SystemGUID:"...), uint64(n.SystemImageGUID), 16)
	b = appendHex(append(b, " NodeGUID:"...), uint64(n.GUID), 16)
	b = appendHex(append(b, " PortGUID:"...), uint64(end.GUID), 16)
	b = appendHex(append(b, " VenID:"...), uint64(n.VendorID), vendorDigits)
	b = appendHex(append(b, " DevID:"...), uint64(n.DeviceID), 4)
	b = appendHex(append(b, " Rev:"...), uint64(n.Revision), 8)
	b = append(b, " {"...)
	for _, c := range []byte(n.Name()) {
		if c < ' ' || c > '~' || c == '{' || c == '}' {
			c = '_' // a description may hold anything
		}
		b = append(b, c)
	}
	b = appendHex(append(b, "} LID:"...), uint64(end.LID), 4)
	b = appendHex(append(b, " PN:"...), uint64(r.Port), 2)
	return append(b, " }"...)
}

func widthName(w ib.LinkWidth) string {
	switch w {
	case ib.Width1x:
		return "1x"
	case ib.Width2x:
		return "2x"
	case ib.Width4x:
		return "4x"
	case ib.Width8x:
		return "8x"
	case ib.Width12x:
		return "12x"
	}
	return "??"
}

func stateName(s ib.PortState) string {
	switch s {
	case ib.StateInit:
		return "INI"
	case ib.StateArmed:
		return "ARM"
	case ib.StateActive, ib.StateActiveDefer:
		return "ACT"
	}
	return "DWN"
}

func speedName(s ib.LinkSpeed) string {
	switch s {
	case ib.SpeedSDR:
		return "2.5"
	case ib.SpeedDDR:
		return "5"
	case ib.SpeedQDR:
		return "10"
	case ib.SpeedFDR10:
		return "FDR10"
	case ib.SpeedFDR:
		return "14"
	case ib.SpeedEDR:
		return "25"
	case ib.SpeedHDR:
		return "50"
	case ib.SpeedNDR:
		return "100"
	case ib.SpeedXDR:
		return "200"
	}
	return "??"
}

const digits = "0123456789ABCDEF"

// appendHex adds v in upper case with leading zeros to width digits at least.
func appendHex(b []byte, v uint64, width int) []byte {
	n := width
	for n < 16 && v>>(4*n) != 0 {
		n++
	}
	for n--; n >= 0; n-- {
		b = append(b, digits[v>>(4*n)&0xF])
	}
	return b
}

// appendDec adds v ≥ 0 with leading zeros to width digits at least.
func appendDec(b []byte, v, width int) []byte {
	at := len(b)
	for v > 0 || len(b)-at < width {
		b = append(b, byte('0'+v%10))
		v /= 10
	}
	for i, j := at, len(b)-1; i < j; i, j = i+1, j-1 {
		b[i], b[j] = b[j], b[i]
	}
	return b
}
