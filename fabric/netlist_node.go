package fabric

import (
	"bytes"
	"encoding/hex"
	"strings"

	"heddle/ib"
)

// comment reads what netlists of ours say in comments, where ibsim and others
// do not look. All of it is about the next node:
//
//	#heddle:desc HEX        the description where it cannot stand in quotes
//	#heddle:revision N      NodeInfo.Revision other than that of ibsim's nodes
//	#heddle:portguid P HEX  GUID of a port without a cable
func (n *netlist) comment(l []byte) error {
	const mark = "#heddle:"
	if !hasPrefix(l, mark) || n.node >= 0 {
		return nil
	}
	at := len(mark)
	key := firstWord(l[at:])
	at = skipSpace(l, at+len(key))
	switch key {
	case "desc":
		_, to := trimSpace(l, at, len(l))
		if to-at > 2*MaxDescLen {
			return n.err(at, "the description has more than %d bytes", MaxDescLen)
		}
		d, err := hex.DecodeString(string(l[at:to]))
		if err != nil {
			return n.err(at, "the description is not written in hex digits")
		}
		n.pending.desc, n.pending.hasDesc = string(d), true
	case "revision":
		v, end, ok := parseUint(l, at)
		if !ok || v > 1<<32-1 {
			return n.err(at, "%q is not a revision of 32 bits", word(l, at, end))
		}
		n.pending.rev, n.pending.hasRev = uint32(v), true
	case "portguid":
		p, end, ok := parseDecimal(l, at)
		g, _, ok2 := parseHex(l, skipSpace(l, end))
		if !ok || !ok2 || p < 1 || p > MaxPorts || len(n.pending.portGUIDs) >= MaxPorts {
			return n.err(at, "this is not the number of a port and its GUID")
		}
		n.pending.portGUIDs = append(n.pending.portGUIDs, portGUID{p, ib.GUID(g)})
	}
	return nil
}

// nodeHeader reads `Switch N "id" # "description" …`.
func (n *netlist) nodeHeader(l []byte, at int, t ib.NodeType) error {
	at = skipSpace(l, at)
	ports, end, ok := parseDecimal(l, at)
	if !ok || ports < 1 || ports > MaxPorts {
		return n.err(at, "the number of ports is missing or not from 1 to %d; write %s PORTS \"ID\"", MaxPorts, firstWord(l))
	}
	if n.b.Len() >= n.o.MaxNodes {
		return n.err(0, "there are more than %d nodes; raise MaxNodes if you trust the netlist", n.o.MaxNodes)
	}
	if n.ports += ports + 1; n.ports > n.o.MaxPorts {
		return n.err(at, "the nodes have more than %d ports together; raise MaxPorts if you trust the netlist", n.o.MaxPorts)
	}
	idCol := skipSpace(l, end)
	base, rest, ok := quoted(l, idCol)
	if !ok {
		return n.err(idCol, "the id of the node is missing; write it in quotes")
	}
	id := base
	if n.prefix != "" {
		id = n.prefix + "#" + base
	}
	if reason := checkID(id); reason != "" {
		return n.err(idCol, "%s %s: %s", typeWord(t), quoteName(id), reason)
	}
	if strings.IndexByte(base, '#') >= 0 {
		return n.err(idCol, "%s %s: '#' separates the module from the id; write module=\"NAME\" above the node", typeWord(t), quoteName(id))
	}
	name := n.name(id)
	if was := n.nodeOf[name]; was > 0 {
		return n.err(idCol, "node %s is there already, %s; ids must be unique", quoteName(id), n.place(n.header[was-1]))
	}
	guid := n.next[t]
	if n.byGUID == nil {
		n.byGUID = make(map[ib.GUID]int32)
	}
	if was, dup := n.byGUID[guid]; dup && !n.o.AllowDuplicateGUIDs {
		return n.err(0, "node %s has the GUID %v of node %s, %s; GUIDs must be unique", quoteName(id), guid, quoteName(n.b.nodes[was].ID), n.place(n.header[was]))
	}
	i := n.b.Add(t, id, ports)
	n.b.SetGUID(i, guid)
	n.next[t] = n.b.next[t]
	n.byGUID[guid] = int32(i)
	n.nodeOf[name] = int32(i) + 1
	n.header = append(n.header, n.at(0))
	n.endBase = append(n.endBase, int32(len(n.endOf)))
	n.endOf = append(n.endOf, make([]int32, ports+1)...)
	n.node = i

	node := n.b.Node(i)
	node.VendorID, node.DeviceID = n.vendor, n.device
	if n.hasImg {
		node.SystemImageGUID = n.image
	}
	n.vendor, n.hasImg = 0, false
	if err := n.headerTail(l, rest, node); err != nil {
		return err
	}
	p := n.pending
	n.pending = notes{}
	if p.hasDesc {
		node.Desc = p.desc
	}
	if p.hasRev {
		node.Revision = p.rev
	}
	for _, g := range p.portGUIDs {
		if t == ib.NodeSwitch || g.port > ports {
			return n.err(0, "node %s has no port %d with a GUID of its own", quoteName(id), g.port)
		}
		node.Ports[g.port].GUID = g.guid
	}
	return nil
}

// headerEnds are the words that end a description without quotes.
var headerEnds = []string{" enhanced port ", " base port ", " lid ", " lmc "}

// headerTail reads the line after the ID of a node: the description and, for
// switches, the kind, LID and LMC of port 0.
func (n *netlist) headerTail(l []byte, at int, node *Node) error {
	hash := bytes.IndexByte(l[at:], '#')
	if hash < 0 {
		return n.port0(l, at, len(l), node)
	}
	if err := n.port0(l, at, at+hash, node); err != nil {
		return err
	}
	at = skipSpace(l, at+hash+1)
	var desc []byte
	if at < len(l) && l[at] == '"' {
		// A description may contain quotes: the last one ends it.
		end := bytes.LastIndexByte(l, '"')
		if end == at {
			end = len(l)
		}
		desc = l[at+1 : end]
		at = min(end+1, len(l))
	} else {
		end := len(l)
		for _, w := range headerEnds {
			if k := bytes.Index(l[at:], []byte(w)); k >= 0 {
				end = min(end, at+k)
			}
		}
		_, to := trimSpace(l, at, end)
		desc = l[at:to]
		at = end
	}
	if k := bytes.IndexByte(desc, 0); k >= 0 {
		desc = desc[:k]
	}
	if len(desc) > MaxDescLen {
		desc = desc[:MaxDescLen]
	}
	if len(desc) > 0 {
		node.Desc = string(desc)
	}
	return n.port0(l, at, len(l), node)
}

// port0 reads "enhanced port 0", "lid X" and "lmc Y" of a switch.
func (n *netlist) port0(l []byte, from, to int, node *Node) error {
	if !node.IsSwitch() || from >= to {
		return nil
	}
	if bytes.Contains(l[from:to], []byte("enhanced port 0")) {
		node.EnhancedPort0 = true
	}
	return n.presets(l, from, to, &node.Ports[0])
}

// presets reads "lid X" and "lmc Y". LID 65535 is what an unmanaged port
// shows; it means no more than 0.
func (n *netlist) presets(l []byte, from, to int, p *Port) error {
	if v, col, ok := keyValue(l, from, to, "lid"); ok {
		if v == uint64(ib.LIDPermissive) {
			v = 0
		}
		if v > uint64(ib.LIDMaxUnicast) {
			return n.err(col, "LID %d is no unicast LID; LIDs are 1 to %d, 0 for none", v, ib.LIDMaxUnicast)
		}
		p.LID = ib.LID(v)
	}
	if v, col, ok := keyValue(l, from, to, "lmc"); ok {
		if v > 7 {
			return n.err(col, "LMC %d is not from 0 to 7", v)
		}
		p.LMC = uint8(v)
	}
	if p.LID != 0 && int(p.LID)+1<<p.LMC-1 > int(ib.LIDMaxUnicast) {
		return n.err(from, "LID %d with LMC %d leaves the unicast range 1–%d", p.LID, p.LMC, ib.LIDMaxUnicast)
	}
	return nil
}

// name gives a name its number.
func (n *netlist) name(s string) int32 {
	if i, ok := n.names[s]; ok {
		return i
	}
	i := int32(len(n.nameList))
	n.names[s] = i
	n.nameList = append(n.nameList, s)
	n.nodeOf = append(n.nodeOf, 0)
	return i
}
