package fabric

import (
	"bytes"
	"math/bits"

	"heddle/ib"
)

// portLine reads `[n](guid) "peer"[m] options # comment` or `@[n] "alias"`.
func (n *netlist) portLine(l []byte) error {
	e := cableEnd{node: int32(n.node), width: n.width, basic: n.basic, ext: n.ext}
	at := 0
	if l[0] == '@' {
		e.alias = true
		at = 1
		if len(l) < 2 || l[1] != '[' {
			return n.err(at, `the port is missing; write @[PORT] "ALIAS"`)
		}
	}
	node := n.b.Node(n.node)
	num, end, ok := parseDecimal(l, at+1)
	if !ok || end >= len(l) || l[end] != ']' {
		return n.err(at, "this is not a port; write [PORT] \"PEER\"[PEERPORT]")
	}
	if num < 1 || num > node.NumPorts {
		return n.err(at+1, "port %d: %s has ports 1 to %d", num, quoteName(node.ID), node.NumPorts)
	}
	e.port, e.at = uint8(num), n.at(at)
	slot := &n.endOf[n.endBase[n.node]+int32(num)]
	if *slot != 0 {
		return n.err(at, "port %s is listed twice, first in %s; a port has one cable", portName(node.ID, num), n.place(n.ends[*slot-1].at))
	}
	at, err := n.afterPort(l, end+1, node, num)
	if err != nil {
		return err
	}
	col := skipSpace(l, at)
	name, at, ok := quoted(l, col)
	if !ok || name == "" {
		return n.err(col, "the other end of the cable is missing; write [%d] \"PEER\"[PEERPORT]", num)
	}
	if len(name) > 2*MaxIDLen {
		return n.err(col, "%s is too long for the id of a node", quoteName(name))
	}
	if e.alias {
		if at, err = n.newAlias(name, col, at, e); err != nil {
			return err
		}
	} else if at, err = n.peer(l, name, at, &e); err != nil {
		return err
	}
	if err := n.portTail(l, at, &e, &node.Ports[num]); err != nil {
		return err
	}
	n.ends = append(n.ends, e)
	*slot = int32(len(n.ends))
	return nil
}

// afterPort reads the optional fields between the number of a port and the
// peer: "[ext 5]" of a chassis, "(GUID)" of the port.
func (n *netlist) afterPort(l []byte, at int, node *Node, num int) (int, error) {
	for at < len(l) {
		switch l[at] {
		case '[':
			k := bytes.IndexByte(l[at:], ']')
			if k < 0 {
				return 0, n.err(at, "']' is missing")
			}
			at += k + 1
		case '(':
			g, end, ok := parseHex(l, at+1)
			if !ok || end >= len(l) || l[end] != ')' {
				return 0, n.err(at+1, "this is not the GUID of a port; write up to 16 hex digits and ')'")
			}
			if !node.IsSwitch() {
				node.Ports[num].GUID = ib.GUID(g)
			}
			at = end + 1
		default:
			return at, nil
		}
	}
	return at, nil
}

// newAlias gives a port the name by which other modules refer to it.
func (n *netlist) newAlias(name string, col, at int, e cableEnd) (int, error) {
	if bytes.ContainsAny([]byte(name), "#@") {
		return 0, n.err(col, "alias %s: '#' and '@' are reserved", quoteName(name))
	}
	full := n.prefix + "@" + name
	if was, dup := n.aliases[full]; dup {
		return 0, n.err(col, "alias %s is that of %s, %s, already", quoteName(full), portName(n.b.nodes[was.node].ID, int(was.port)), n.place(was.at))
	}
	n.aliases[full] = alias{e.node, e.port, e.at}
	return at, nil
}

// peer reads the line after the name of the peer: the number of its port, 1 by
// default, and the fields that ibnetdiscover adds.
func (n *netlist) peer(l []byte, name string, at int, e *cableEnd) (int, error) {
	e.peerPort = 1
	if k := bytes.IndexByte([]byte(name), '@'); k >= 0 {
		e.viaAlias = true
		if k == 0 {
			name = n.prefix + name
		}
	} else if n.prefix != "" && bytes.IndexByte([]byte(name), '#') < 0 {
		name = n.prefix + "#" + name
	}
	e.peer = n.name(name)
	col := skipSpace(l, at)
	if col >= len(l) || l[col] != '[' {
		return at, nil
	}
	num, end, ok := parseDecimal(l, col+1)
	if !ok || num < 1 || num > MaxPorts || end >= len(l) || l[end] != ']' {
		return 0, n.err(col, "%q is not a port of %s; write its number, 1 to %d, in brackets", word(l, col, 0), quoteName(name), MaxPorts)
	}
	if !e.viaAlias {
		e.peerPort = uint8(num)
	}
	at = end + 1
	for at < len(l) && (l[at] == '[' || l[at] == '(') { // [ext 5], (GUID)
		k := bytes.IndexAny(l[at:], "])")
		if k < 0 {
			return 0, n.err(at, "']' or ')' is missing")
		}
		at += k + 1
	}
	return at, nil
}

// portTail reads options and comment of a port line.
func (n *netlist) portTail(l []byte, at int, e *cableEnd, p *Port) error {
	end := len(l)
	if k := bytes.IndexByte(l[at:], '#'); k >= 0 {
		end = at + k
	}
	comment := min(end+1, len(l))
	// ibnetdiscover ends the comment by "lid 4 4xEDR", after the last quote.
	tail := comment
	if k := bytes.LastIndexByte(l[comment:], '"'); k >= 0 {
		tail = comment + k + 1
	}
	linkTail(l, tail, e)
	if err := n.options(l, at, end, e); err != nil {
		return err
	}
	if n.b.nodes[e.node].IsSwitch() {
		return nil
	}
	if err := n.presets(l, at, end, p); err != nil {
		return err
	}
	// A CA's own LID stands before the description of the peer.
	first := bytes.IndexByte(l[comment:], '"')
	if first < 0 {
		return nil
	}
	return n.presets(l, comment, comment+first, p)
}

// linkTail takes width and speed from a word such as 4xEDR at the end.
func linkTail(l []byte, from int, e *cableEnd) {
	from, to := trimSpace(l, from, len(l))
	start := to
	for start > from && !isSpace(l[start-1]) {
		start--
	}
	lanes, x, ok := parseDecimal(l[:to], start)
	if !ok || x >= to || l[x]|0x20 != 'x' || to-start > 10 {
		return
	}
	w, err := ib.ParseLinkWidth(string(l[start : x+1]))
	s, err2 := ib.ParseLinkSpeed(string(l[x+1 : to]))
	if lanes == 0 || err != nil || err2 != nil {
		return
	}
	e.width = w
	switch {
	case s == ib.SpeedFDR10:
		e.basic, e.ext = 1<<ib.SpeedQDR|1<<ib.SpeedFDR10, 0
	case s <= ib.SpeedQDR:
		e.basic, e.ext = 1<<s, 0
	default:
		e.ext = 1 << s
	}
}

// options reads w=, s= and e=: of a longer word only the last letter counts.
func (n *netlist) options(l []byte, at, end int, e *cableEnd) error {
	for {
		k := bytes.IndexByte(l[at:end], '=')
		if k < 0 {
			return nil
		}
		eq := at + k
		letter := byte(0)
		col := eq - 1
		for ; col >= at && letter == 0; col-- {
			if isAlpha(l[col]) {
				letter = l[col]
			}
		}
		v, after, ok := parseUint(l[:end], skipSpace(l[:end], eq+1))
		lo, hi := uint64(0), uint64(0)
		switch letter {
		case 'w':
			lo, hi = 1, 31
		case 's':
			hi = 7
		case 'e':
			hi = 15
		default:
			return n.err(max(col+1, at), "there is no such option; there are w=, s= and e=")
		}
		if !ok || v < lo || v > hi {
			return n.err(eq+1, "%q: %c= takes a mask from %d to %d", word(l, eq+1, after), letter, lo, hi)
		}
		switch letter {
		case 'w':
			e.width = ib.LinkWidth(v)
		case 's':
			e.basic = basicSpeeds(v)
		case 'e':
			e.ext = extSpeeds(v)
		}
		at = max(after, eq+1)
	}
}

// link joins the two ends of every cable.
func (n *netlist) link() error {
	for i := range n.ends {
		e := &n.ends[i]
		if e.alias || n.b.nodes[e.node].Ports[e.port].Cabled() {
			continue
		}
		o, err := n.otherEnd(e)
		if err != nil {
			return err
		}
		w := (e.width & o.width).Widest()
		if w == 0 {
			return n.errAt(e.at, "%s and %s (%s) have no link width in common: %v here, %v there; make w= the same at both ends", n.portOf(e), n.portOf(o), n.place(o.at), e.width, o.width)
		}
		common := (e.basic | e.ext) & (o.basic | o.ext)
		if common == 0 {
			return n.errAt(e.at, "%s and %s (%s) have no link speed in common; make s= and e= the same at both ends", n.portOf(e), n.portOf(o), n.place(o.at))
		}
		n.b.connect(int(e.node), int(e.port), int(o.node), int(o.port), w, ib.LinkSpeed(bits.Len16(uint16(common))-1))
	}
	for i := range n.ends {
		e := &n.ends[i]
		if e.alias && !n.b.nodes[e.node].Ports[e.port].Cabled() {
			n.b.nodes[e.node].Ports[e.port].LID = 0 // no other end refers to it
		}
	}
	return nil
}

func (n *netlist) portOf(e *cableEnd) string { return portName(n.b.nodes[e.node].ID, int(e.port)) }

// otherEnd finds the line of the other end and checks that it agrees.
func (n *netlist) otherEnd(e *cableEnd) (*cableEnd, error) {
	name := n.nameList[e.peer]
	peer, port := n.nodeOf[e.peer]-1, int(e.peerPort)
	if e.viaAlias {
		a, ok := n.aliases[name]
		if !ok {
			return nil, n.errAt(e.at, "%s is cabled to %s, but no port has this alias; add @[PORT] %q to a node of its module", n.portOf(e), quoteName(name), aliasPart(name))
		}
		peer, port = a.node, int(a.port)
	}
	if peer < 0 {
		return nil, n.errAt(e.at, "%s is cabled to node %s, which is not in the netlist; add the node or take out the line", n.portOf(e), quoteName(name))
	}
	node := &n.b.nodes[peer]
	if port > node.NumPorts {
		return nil, n.errAt(e.at, "%s is cabled to port %d of %s, which has ports 1 to %d (%s)", n.portOf(e), port, quoteName(node.ID), node.NumPorts, n.place(n.header[peer]))
	}
	slot := n.endOf[n.endBase[peer]+int32(port)]
	if slot == 0 {
		return nil, n.errAt(e.at, "%s says it is cabled to %s, but that node (%s) does not list its port %d; add [%d] %q[%d] there or take out this line",
			n.portOf(e), portName(node.ID, port), n.place(n.header[peer]), port, port, n.b.nodes[e.node].ID, e.port)
	}
	o := &n.ends[slot-1]
	switch {
	case o == e:
		return nil, n.errAt(e.at, "%s is cabled to itself", n.portOf(e))
	case o.alias && e.viaAlias:
		if p := node.Ports[port].Peer; p.Valid() {
			return nil, n.errAt(e.at, "%s is cabled to %s (%s), which is cabled to %s already", n.portOf(e), portName(node.ID, port), n.place(o.at), portName(n.b.nodes[p.Node].ID, int(p.Port)))
		}
		return o, nil
	case o.alias:
		return nil, n.errAt(e.at, "%s is cabled to %s, which is known by an alias (%s); name the alias here", n.portOf(e), portName(node.ID, port), n.place(o.at))
	case e.viaAlias || o.viaAlias || n.nodeOf[o.peer]-1 != e.node || o.peerPort != e.port:
		there := quoteName(n.nameList[o.peer])
		if !o.viaAlias {
			there = portName(n.nameList[o.peer], int(o.peerPort))
		}
		return nil, n.errAt(e.at, "the ends of a cable disagree: %s says it is cabled to %s, but that port says it is cabled to %s (%s); make the two lines agree",
			n.portOf(e), portName(node.ID, port), there, n.place(o.at))
	}
	return o, nil
}

func aliasPart(s string) string {
	if k := bytes.IndexByte([]byte(s), '@'); k >= 0 {
		return s[k+1:]
	}
	return s
}
