package umadfs

import (
	"fmt"

	"heddle/ib"
	"heddle/mad"
	"heddle/sim"
	"heddle/sim/umadfs/kernel"
)

// hcaID identifies the owner of an adapter: a node, or a VM, whose adapter is
// its current virtual function.
type hcaID struct {
	node int    // index in the fabric; -1 for a VM
	vm   string // "" for a node
}

// idOf looks up a name: first among the nodes, then among the VMs.
func idOf(s *sim.Subnet, name string) (hcaID, error) {
	i, err := s.Node(name)
	if err == nil {
		return hcaID{node: i}, nil
	}
	if _, ok := s.VM(name); ok {
		return hcaID{node: -1, vm: name}, nil
	}
	return hcaID{}, err
}

// hca is one node's adapter: the ports that its programs see.
type hca struct {
	id    hcaID
	ports []*port
	refs  int // mounts
}

// port is one port's kernel state and the endpoint under it. It is also the
// kernel.Wire. Under the driver's lock.
type port struct {
	ep     *sim.Endpoint
	subnet *sim.Subnet
	kernel *kernel.Port
	gids   []ib.GID
}

func (p *port) Now() mad.Time               { return p.subnet.Now() }
func (p *port) At(t mad.Time, fn func())    { p.subnet.At(t, fn) }
func (p *port) Send(pk *mad.Packet)         { p.ep.Send(pk) }
func (p *port) SetIsSM(on bool) error       { return p.ep.SetIsSM(on) }
func (p *port) LMC() uint8                  { return p.ep.LMC() }
func (p *port) NumGIDs() int                { p.gids = p.ep.GIDs(p.gids[:0]); return len(p.gids) }
func (p *port) accepts(pk *mad.Packet) bool { return p.kernel.Accepts(pk) }
func newPort(s *sim.Subnet, e *sim.Endpoint, lastNum *uint16) *port {
	p := &port{ep: e, subnet: s}
	p.kernel = kernel.New(p, true, lastNum)
	e.OnPacket = p.kernel.Deliver
	e.Accepts = p.accepts
	return p
}

// openHCA attaches to every port of a node that has LIDs, or to the function of
// a VM; lastNum is for the kernel.
func openHCA(s *sim.Subnet, id hcaID, lastNum *uint16) (*hca, error) {
	h := &hca{id: id}
	if id.vm != "" {
		ep, err := s.AttachVM(id.vm)
		if err != nil {
			return nil, fmt.Errorf("umadfs: %w", err)
		}
		h.ports = []*port{newPort(s, ep, lastNum)}
		return h, nil
	}
	n := &s.Fabric().Nodes[id.node]
	first, last := 1, n.NumPorts
	if n.Type == ib.NodeSwitch {
		first, last = 0, 0
	}
	for num := first; num <= last; num++ {
		ep, err := s.AttachPort(n.ID, num)
		if err != nil {
			h.close()
			return nil, fmt.Errorf("umadfs: attach to port %d: %w", num, err)
		}
		h.ports = append(h.ports, newPort(s, ep, lastNum))
	}
	if len(h.ports) == 0 {
		return nil, fmt.Errorf("umadfs: node %q has no ports", n.ID)
	}
	return h, nil
}

func (h *hca) close() {
	for _, p := range h.ports {
		p.ep.Close()
	}
}

// laneTenths is the data rate of one lane in tenths of Gb/s, and the name, as
// the kernel prints them in the port's rate file.
func laneTenths(s ib.LinkSpeed) (int, string) {
	switch s {
	case ib.SpeedDDR:
		return 50, " DDR"
	case ib.SpeedQDR:
		return 100, " QDR"
	case ib.SpeedFDR10:
		return 100, " FDR10"
	case ib.SpeedFDR:
		return 140, " FDR"
	case ib.SpeedEDR:
		return 250, " EDR"
	case ib.SpeedHDR:
		return 500, " HDR"
	case ib.SpeedNDR:
		return 1000, " NDR"
	case ib.SpeedXDR:
		return 2000, " XDR"
	}
	return 25, ""
}

func rateText(p *port) string {
	pi := p.ep.PortInfo()
	lanes := max(pi.LinkWidthActive.Lanes(), 1)
	tenths, name := laneTenths(pi.ActiveSpeed())
	tenths *= lanes
	half := ""
	if tenths%10 != 0 {
		half = ".5"
	}
	return fmt.Sprintf("%d%s Gb/sec (%dX%s)", tenths/10, half, lanes, name)
}
