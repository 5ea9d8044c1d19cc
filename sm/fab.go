package sm

import (
	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/subnet"
)

type ref = subnet.Ref

type nodePort struct {
	node ib.GUID
	port uint8
}

// pathRef is a directed route in fab.paths.
type pathRef struct {
	off uint32
	n   uint8
	set bool
}

type portFlags uint16

const (
	pKnown    portFlags = 1 << iota // info was read in this discovery
	pMeasured                       // peer was asked through this port
	pProved                         // peer found this port; the answer proved the far port number
	pLinked                         // both ends agree: the link is part of the subnet
	pSilent                         // up, but the far end does not answer
	pNoExt                          // the device does not take the extended-speed bit
	pEnd                            // end port: has a LID
	pFailed                         // a Set of this sweep failed
	pLoop                           // cabled to itself
	pBadPeer                        // the far end is no part of the subnet, reported
	pLeft                           // end port left out: no LID for it
	pHeld                           // it flaps: held down, nothing behind it is asked or routed to
	pAsked                          // read in this sweep because a way leads over it
)

type port struct {
	info  smp.PortInfo
	guid  ib.GUID
	mkey  ib.MKey // key that the port wants to see in a header
	peer  ref
	path  pathRef // CA and router ports, and port 0: the way to the agent
	node  int32
	lid   ib.LID     // given to it; end ports only
	pk    *pkeyTable // nil if nothing is known of it
	flags portFlags
	lmc   uint8
	num   uint8
}

func (p *port) has(f portFlags) bool { return p.flags&f != 0 }

func (p *port) upPhys() bool { return p.info.PortState > ib.StateDown }

type nodeFlags uint16

const (
	nSwitchInfo nodeFlags = 1 << iota
	nDesc
	nOut      // left out of the subnet
	nNew      // was not there in the last sweep
	nGone     // not there any more: its slots wait for its return or the next full sweep
	nTouched  // of the region that the sweep explores
	nSuspect  // a switch of the region that is still to be read
	nRead     // a switch of the region that was read
	nMoved    // one of its ports was found in another state than before
	nReset    // its agent forgot its LID or key
	nAgain    // its port 0 was read again
	nSeen     // … or its far ends were looked at to find out why it says so
	nUnseen   // does not answer; it is as it was last read (unseen.go)
	nNonsense // one of its answers in this discovery cannot be true
	nLight    // a question of the light sweep about its ports has no answer yet
)

type node struct {
	info  smp.NodeInfo
	sw    smp.SwitchInfo
	desc  string
	first int32 // index of port 0 in fab.ports
	gsw   int32 // index in graph.Switches, -1
	path  pathRef
	via   ref // the port that path's last hop leaves by; NoRef for our own node
	flags nodeFlags
	lft   *lft // switches of a master
	mft   *mft // likewise
	out   string
}

func (n *node) isSwitch() bool { return n.info.NodeType == ib.NodeSwitch }

func (n *node) ok() bool { return n.flags&nOut == 0 }

// fab is the fabric as one discovery sees it. Nodes are in the order they
// were found; node 0 is our own.
type fab struct {
	nodes  []node
	ports  []port
	byGUID map[ib.GUID]int32
	paths  []byte
	self   ref // our port
	gone   int // nodes that are gone and still have slots

	graph    *fabric.Graph
	swNode   []int32 // node of graph.Switches[i]
	epPort   []int32 // index in ports of graph.EndPorts[i]
	problems []subnet.Problem
}

func newFab(sizeHint *fab) *fab {
	f := &fab{byGUID: map[ib.GUID]int32{}, self: subnet.NoRef}
	if sizeHint != nil {
		f.nodes = make([]node, 0, len(sizeHint.nodes)+8)
		f.ports = make([]port, 0, len(sizeHint.ports)+64)
		f.byGUID = make(map[ib.GUID]int32, len(sizeHint.nodes))
		f.paths = make([]byte, 0, len(sizeHint.paths)+64)
	}
	return f
}

// port returns the port that r names; r is valid.
func (f *fab) port(r ref) *port { return &f.ports[f.nodes[r.Node].first+int32(r.Port)] }

// has reports whether r, which may be of another discovery, names a port.
func (f *fab) has(r ref) bool {
	return r.Node >= 0 && int(r.Node) < len(f.nodes) && r.Port <= f.nodes[r.Node].info.NumPorts
}

func (f *fab) portOf(n int32, p uint8) *port { return &f.ports[f.nodes[n].first+int32(p)] }

// nodePorts are all ports of a node, port 0 first.
func (f *fab) nodePorts(n int32) []port {
	nd := &f.nodes[n]
	return f.ports[nd.first : int(nd.first)+int(nd.info.NumPorts)+1]
}

func (f *fab) path(r pathRef) []byte { return f.paths[r.off : r.off+uint32(r.n)] }

// addPath stores a path; it is at most 63 long.
func (f *fab) addPath(p []byte) pathRef {
	r := pathRef{uint32(len(f.paths)), uint8(len(p)), true}
	f.paths = append(f.paths, p...)
	return r
}

// agentPath is the directed route to the agent that answers for a port.
func (f *fab) agentPath(n int32, p uint8) []byte {
	nd := &f.nodes[n]
	if !nd.isSwitch() {
		if q := f.portOf(n, p); q.path.set {
			return f.path(q.path)
		}
	}
	return f.path(nd.path)
}

// agentPort is the port whose M_Key guards a port: port 0 of a switch, the
// port itself elsewhere.
func (f *fab) agentPort(n int32, p uint8) *port {
	if f.nodes[n].isSwitch() {
		p = 0
	}
	return f.portOf(n, p)
}

// find returns the node with a GUID, unless it is gone.
func (f *fab) find(g ib.GUID) (int32, bool) {
	i, ok := f.byGUID[g]
	return i, ok && f.nodes[i].flags&nGone == 0
}

// addNode appends a node with its ports. One that was here before gets its
// old place.
func (f *fab) addNode(ni *smp.NodeInfo, path pathRef) int32 {
	if i, ok := f.byGUID[ni.NodeGUID]; ok && f.nodes[i].info.NumPorts == ni.NumPorts {
		n := &f.nodes[i]
		*n = node{info: *ni, first: n.first, gsw: -1, path: path, via: subnet.NoRef}
		for p := range f.nodePorts(i) {
			f.ports[int(n.first)+p] = port{node: i, num: uint8(p), peer: subnet.NoRef, guid: ni.PortGUID}
		}
		f.gone--
		return i
	}
	i := int32(len(f.nodes))
	f.nodes = append(f.nodes, node{info: *ni, first: int32(len(f.ports)), gsw: -1, path: path, via: subnet.NoRef})
	for p := 0; p <= int(ni.NumPorts); p++ {
		f.ports = append(f.ports, port{node: i, num: uint8(p), peer: subnet.NoRef, guid: ni.PortGUID})
	}
	f.byGUID[ni.NodeGUID] = i
	return i
}

// where names a port for people; port -1 means the node.
func (f *fab) where(n int32, p int) Where {
	nd := &f.nodes[n]
	w := Where{Node: nd.info.NodeGUID, Desc: nd.desc, Port: p, set: true}
	ap := uint8(0)
	if p > int(nd.info.NumPorts) {
		p = -1 // of another node that claims this one's GUID; there is nothing here to look up
	} else if p > 0 {
		ap = uint8(p)
	}
	if nd.isSwitch() {
		w.LID = f.portOf(n, 0).lid
	} else if p > 0 {
		w.LID = f.portOf(n, ap).lid
	}
	if w.LID == 0 {
		if q := f.agentPort(n, ap); q.has(pKnown) {
			w.LID = q.info.LID
		}
	}
	w.Path = append([]byte(nil), f.agentPath(n, ap)...)
	return w
}

// behind names the unknown far end of a port.
func (f *fab) behind(r ref) Where {
	w := Where{Port: -1, set: true}
	if r.Node < 0 {
		return w
	}
	w.Path = append([]byte(nil), f.agentPath(r.Node, r.Port)...)
	if f.nodes[r.Node].isSwitch() || len(w.Path) == 0 {
		w.Path = append(w.Path, r.Port)
	}
	return w
}
