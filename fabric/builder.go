package fabric

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"heddle/ib"
)

// The numbering of nodes whose netlist gives no GUIDs, which is ibsim's.
const (
	FirstCAGUID     ib.GUID = 0x100000
	FirstSwitchGUID ib.GUID = 0x200000
)

// The limits of a node.
const (
	MaxPorts   = 254 // external ports: 255 is the permissive port number
	MaxIDLen   = 64
	MaxDescLen = 64
)

// BuildError is a mistake in the calls of a Builder.
type BuildError struct {
	Op     string // "add switch", "connect", "build"
	Object string // the node or port
	Reason string // the problem and the remedy
}

// Error gives all three parts.
func (e *BuildError) Error() string {
	return "fabric: " + e.Op + " " + e.Object + ": " + e.Reason
}

// Builder makes a Fabric. It collects mistakes for Build, so calls need not be
// checked one by one. The zero Builder is ready for use.
type Builder struct {
	// Width and Speed apply to the links that Connect makes from now on. The zero
	// values mean 4x and EDR.
	Width ib.LinkWidth
	Speed ib.LinkSpeed
	// AllowDuplicateGUIDs lets Build pass nodes with equal GUIDs, as faulty
	// subnets have them.
	AllowDuplicateGUIDs bool

	nodes []Node
	ids   map[string]int32
	errs  []error
	more  int // errors beyond those kept
	next  [4]ib.GUID
	slab  []Port
}

// maxKeptErrors bounds the errors that Build reports.
const maxKeptErrors = 10

func (b *Builder) fail(op, object, reason string) {
	if len(b.errs) < maxKeptErrors {
		b.errs = append(b.errs, &BuildError{op, object, reason})
	} else {
		b.more++
	}
}

// AddSwitch adds a switch with n external ports and returns its index.
func (b *Builder) AddSwitch(id string, n int) int { return b.Add(ib.NodeSwitch, id, n) }

// AddCA adds a channel adapter with n ports and returns its index.
func (b *Builder) AddCA(id string, n int) int { return b.Add(ib.NodeCA, id, n) }

// Add adds a node with n external ports, 1–254, and returns its index. It
// takes the next free GUID of its type; SetGUID changes that.
func (b *Builder) Add(t ib.NodeType, id string, n int) int {
	i := len(b.nodes)
	if b.ids == nil {
		b.ids = make(map[string]int32)
		b.next = [4]ib.GUID{ib.NodeCA: FirstCAGUID, ib.NodeSwitch: FirstSwitchGUID, ib.NodeRouter: 0}
	}
	op := "add " + typeWord(t)
	if reason := checkID(id); reason != "" {
		b.fail(op, quoteName(id), reason)
	}
	if first, dup := b.ids[id]; dup {
		b.fail(op, quoteName(id), "node "+strconv.Itoa(int(first))+" has this id already; ids must be unique")
	} else {
		b.ids[id] = int32(i)
	}
	if t < ib.NodeCA || t > ib.NodeRouter {
		b.fail(op, quoteName(id), "the type must be CA, switch or router")
		t = ib.NodeCA
	}
	if n < 1 || n > MaxPorts {
		b.fail(op, quoteName(id), fmt.Sprintf("%d ports; a node has 1 to %d", n, MaxPorts))
		n = min(max(n, 1), MaxPorts)
	}
	node := Node{ID: id, Desc: id, Type: t, NumPorts: n, VendorID: defaultVendorID, DeviceID: defaultDeviceID, Revision: defaultRevision}
	if len(id) > MaxDescLen {
		node.Desc = id[:MaxDescLen]
	}
	node.Ports = b.makePorts(n + 1)
	b.nodes = append(b.nodes, node)
	g := b.next[t]
	b.SetGUID(i, g)
	return i
}

// Defaults of nodes.
const (
	defaultVendorID uint32 = 0x0002C9
	defaultDeviceID uint16 = 0
	defaultRevision uint32 = 0xA1
)

// makePorts cuts the ports of a node from a slab, so that a fabric consists of
// a few large allocations.
func (b *Builder) makePorts(n int) []Port {
	if cap(b.slab)-len(b.slab) < n {
		b.slab = make([]Port, 0, max(n, 4096))
	}
	at := len(b.slab)
	b.slab = b.slab[:at+n]
	ports := b.slab[at : at+n : at+n]
	for i := range ports {
		ports[i] = Port{Peer: NoRef()}
	}
	return ports
}

// Node returns node i, so that Desc, SystemImageGUID, VendorID, DeviceID,
// Revision and EnhancedPort0 can be set. It is valid until the next Add.
func (b *Builder) Node(i int) *Node { return &b.nodes[i] }

// Len is how many nodes there are.
func (b *Builder) Len() int { return len(b.nodes) }

// SetGUID gives node i its GUID, its ports theirs (a switch's ports have the
// node's, port p of a CA has node GUID + p) and sets SystemImageGUID to it.
// Nodes of the same type added later count on from there.
func (b *Builder) SetGUID(i int, g ib.GUID) {
	n := &b.nodes[i]
	n.GUID, n.SystemImageGUID = g, g
	for p := range n.Ports {
		n.Ports[p].GUID = g
		if n.Type != ib.NodeSwitch {
			n.Ports[p].GUID += ib.GUID(p)
		}
	}
	if n.Type == ib.NodeSwitch {
		b.next[n.Type] = g + 1
	} else {
		b.next[n.Type] = g + ib.GUID(n.NumPorts) + 1
	}
}

// SetLID gives a port its base LID and LMC: port 0 of a switch, or a cabled
// port of a CA or router.
func (b *Builder) SetLID(i, p int, lid ib.LID, lmc uint8) {
	if i < 0 || i >= len(b.nodes) || p < 0 || p > b.nodes[i].NumPorts {
		b.fail("set LID of", fmt.Sprintf("node %d port %d", i, p), "there is no such port")
		return
	}
	n := &b.nodes[i]
	if (n.Type == ib.NodeSwitch) != (p == 0) {
		b.fail("set LID of", portName(n.ID, p), "only port 0 of a switch and the ports of CAs and routers have LIDs")
		return
	}
	if lid != 0 && (!lid.IsUnicast() || int(lid)+1<<(lmc&7)-1 > int(ib.LIDMaxUnicast)) || lmc > 7 {
		b.fail("set LID of", portName(n.ID, p), fmt.Sprintf("LID %d with LMC %d is outside 1–%d (LMC 0–7)", lid, lmc, ib.LIDMaxUnicast))
		return
	}
	n.Ports[p].LID, n.Ports[p].LMC, n.Ports[p].NumLIDs = lid, lmc, 0
}

// Connect links port ap of node a to port cp of node c.
func (b *Builder) Connect(a, ap, c, cp int) {
	w, s := b.Width, b.Speed
	if w == 0 {
		w = ib.Width4x
	}
	if s == 0 {
		s = ib.SpeedEDR
	}
	b.connect(a, ap, c, cp, w, s)
}

func (b *Builder) connect(a, ap, c, cp int, w ib.LinkWidth, s ib.LinkSpeed) {
	for _, e := range [2][2]int{{a, ap}, {c, cp}} {
		if e[0] < 0 || e[0] >= len(b.nodes) {
			b.fail("connect", "node "+strconv.Itoa(e[0]), "there is no such node")
			return
		}
		n := &b.nodes[e[0]]
		if e[1] < 1 || e[1] > n.NumPorts {
			b.fail("connect", portName(n.ID, e[1]), fmt.Sprintf("the node has ports 1 to %d", n.NumPorts))
			return
		}
		if p := n.Ports[e[1]].Peer; p.Valid() {
			b.fail("connect", portName(n.ID, e[1]), "the port is cabled to "+portName(b.nodes[p.Node].ID, int(p.Port))+" already")
			return
		}
	}
	if a == c && ap == cp {
		b.fail("connect", portName(b.nodes[a].ID, ap), "a port cannot be cabled to itself")
		return
	}
	if w.Lanes() == 0 || s.LaneGbps() == 0 {
		b.fail("connect", portName(b.nodes[a].ID, ap), fmt.Sprintf("width %v and speed %v are not a link; use one width and one speed", w, s))
		return
	}
	p, q := &b.nodes[a].Ports[ap], &b.nodes[c].Ports[cp]
	p.Peer, q.Peer = Ref{int32(c), uint8(cp)}, Ref{int32(a), uint8(ap)}
	p.Width, p.Speed, q.Width, q.Speed = w, s, w, s
}

// Build checks the fabric as a whole and returns it. The Builder must not be
// used afterward. All nodes are in the order of Add.
func (b *Builder) Build() (*Fabric, error) {
	b.checkNodes()
	if b.more > 0 {
		b.errs = append(b.errs, fmt.Errorf("fabric: and %d more mistakes like these", b.more))
	}
	if len(b.errs) > 0 {
		return nil, errors.Join(b.errs...)
	}
	return &Fabric{Nodes: b.nodes}, nil
}

func (b *Builder) checkNodes() {
	var byGUID map[ib.GUID]int32
	if !b.AllowDuplicateGUIDs {
		byGUID = make(map[ib.GUID]int32, len(b.nodes))
	}
	for i := range b.nodes {
		n := &b.nodes[i]
		if len(n.Desc) > MaxDescLen {
			b.fail("build", quoteName(n.ID), fmt.Sprintf("the description has %d bytes; at most %d fit", len(n.Desc), MaxDescLen))
		}
		if strings.IndexByte(n.Desc, 0) >= 0 {
			b.fail("build", quoteName(n.ID), "the description has a zero byte, which would end it; leave it out")
		}
		if bits.Len32(n.VendorID) > 24 {
			b.fail("build", quoteName(n.ID), fmt.Sprintf("vendor id %#x has more than 24 bits", n.VendorID))
		}
		if n.EnhancedPort0 && !n.IsSwitch() {
			b.fail("build", quoteName(n.ID), "only a switch has a port 0")
		}
		if !n.IsSwitch() {
			for p := 1; p <= n.NumPorts; p++ {
				if n.Ports[p].LID != 0 && !n.Ports[p].Cabled() {
					b.fail("build", portName(n.ID, p), fmt.Sprintf("it has LID %d but no cable; only a cabled port can have a LID", n.Ports[p].LID))
				}
			}
		}
		if b.AllowDuplicateGUIDs {
			continue
		}
		if first, dup := byGUID[n.GUID]; dup {
			b.fail("build", quoteName(n.ID), fmt.Sprintf("it has the GUID of %s, %v; GUIDs must be unique", quoteName(b.nodes[first].ID), n.GUID))
		} else {
			byGUID[n.GUID] = int32(i)
		}
	}
}

// checkID returns what is wrong with the ID of a node, "" if it is valid. The
// first '#' separates the name of a module from the rest; otherwise '#' and '@'
// are reserved, as for ibsim.
func checkID(id string) string {
	switch {
	case id == "":
		return "the id is empty"
	case len(id) > MaxIDLen:
		return fmt.Sprintf("the id has %d bytes; at most %d are allowed", len(id), MaxIDLen)
	}
	module, base, has := strings.Cut(id, "#")
	if has && (module == "" || base == "") {
		return "the id needs a name on both sides of '#'"
	}
	if strings.ContainsAny(base, "#") {
		return "the id has more than one '#', which separates a module from its nodes"
	}
	for i := 0; i < len(id); i++ {
		if c := id[i]; c < ' ' || c == 0x7F || c == '"' || c == '@' {
			return fmt.Sprintf("the id has the character %q, which a netlist cannot hold; put it into the description", c)
		}
	}
	return ""
}

func typeWord(t ib.NodeType) string {
	switch t {
	case ib.NodeSwitch:
		return "switch"
	case ib.NodeCA:
		return "CA"
	case ib.NodeRouter:
		return "router"
	}
	return "node"
}

// quoteName quotes a name for an error, and shortens long ones.
func quoteName(s string) string {
	if len(s) > 80 {
		s = s[:80] + "…"
	}
	return strconv.Quote(s)
}

func portName(id string, port int) string { return quoteName(id) + "[" + strconv.Itoa(port) + "]" }
