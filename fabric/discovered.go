package fabric

import (
	"bufio"
	"fmt"
	"io"

	"heddle/ib"
)

// Discovered is the part of the fabric that ibnetdiscover finds from the port from, as it shows it: its
// names of nodes ("S-", "H-" or "R-" and the GUID), switches before channel adapters before routers, each
// kind in the order of ibnetdiscover 44, which lists first what it found last. It returns nil if there is
// no such port.
//
// The order is that of a subnet that answers requests in their order, as ibsim does. In a real one the
// tool's order changes from run to run, and this one does not.
func (f *Fabric) Discovered(from Ref) *Fabric {
	if f.Port(from) == nil {
		return nil
	}
	// The tool has one queue of requests. A node's description and SwitchInfo lead to no further request,
	// so the queue here has only NodeInfo and PortInfo.
	type request struct {
		at   Ref   // the node, and the port that is asked about
		in   uint8 // the port by which the request enters the node
		info bool  // NodeInfo; otherwise PortInfo
	}
	var (
		queue = []request{{at: from, in: from.Port, info: true}}
		index = make([]int32, len(f.Nodes)) // in order of discovery, from 1
		found []int32
	)
	for i := 0; i < len(queue); i++ {
		r := queue[i]
		n := &f.Nodes[r.at.Node]
		if r.info {
			first := index[r.at.Node] == 0
			if first {
				found = append(found, r.at.Node)
				index[r.at.Node] = int32(len(found))
			}
			switch {
			case !n.IsSwitch():
				queue = append(queue, request{at: Ref{r.at.Node, r.in}, in: r.in})
			case first:
				queue = append(queue, request{at: Ref{r.at.Node, 0}, in: r.in})
			}
			continue
		}
		if r.at.Port == 0 { // of a switch; the others wait for it
			for p := 1; p <= n.NumPorts; p++ {
				queue = append(queue, request{at: Ref{r.at.Node, uint8(p)}, in: r.in})
			}
			continue
		}
		onward := n.IsSwitch() && r.at.Port != r.in || r.at == from
		if peer := n.Ports[r.at.Port].Peer; onward && peer.Valid() {
			queue = append(queue, request{at: peer, in: peer.Port, info: true})
		}
	}

	// What was found last comes first.
	var order []int32
	for _, kind := range [...]ib.NodeType{ib.NodeSwitch, ib.NodeCA, ib.NodeRouter} {
		for i := len(found) - 1; i >= 0; i-- {
			if f.Nodes[found[i]].Type == kind {
				order = append(order, found[i])
			}
		}
	}
	at := make([]int32, len(f.Nodes))
	for i := range at {
		at[i] = -1
	}
	d := &Fabric{Nodes: make([]Node, len(order))}
	for i, old := range order {
		at[old] = int32(i)
		n := f.Nodes[old]
		n.ID = fmt.Sprintf("%c-%016x", "?HSR"[n.Type&3], uint64(n.GUID))
		n.Ports = append([]Port(nil), n.Ports...)
		d.Nodes[i] = n
	}
	for i := range d.Nodes {
		for p := range d.Nodes[i].Ports {
			port := &d.Nodes[i].Ports[p]
			if port.Peer.Valid() {
				port.Peer.Node = at[port.Peer.Node] // -1, which is no cable, if the far end was not found
			}
		}
	}
	return d
}

// WriteDiscovered writes the text of ibnetdiscover for a fabric as Discovered returns it. head are its
// first lines, without their "#".
func WriteDiscovered(w io.Writer, d *Fabric, head ...string) error {
	nw := netlistWriter{f: d, w: bufio.NewWriterSize(w, 64<<10), plain: true}
	for _, h := range head {
		nw.line("#" + h)
	}
	for i := range d.Nodes {
		nw.node(i)
	}
	if nw.err != nil {
		return nw.err
	}
	return nw.w.Flush()
}
