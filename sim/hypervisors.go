package sim

import "heddle/ib"

// HypervisorPort is a port with virtual functions.
type HypervisorPort struct {
	Node int
	Port uint8
	GUID ib.GUID // of the port
	Hypervisor
}

// Hypervisors lists the ports with virtual functions, in the order of the fabric.
func (s *Subnet) Hypervisors() (list []HypervisorPort) {
	for p := range s.ports {
		if h := s.ports[p].hv; h != nil {
			pt := &s.ports[p]
			list = append(list, HypervisorPort{Node: int(pt.dev), Port: pt.num, GUID: s.guidOf(int32(p)), Hypervisor: h.Hypervisor})
		}
	}
	return list
}

// Capacity is the data rate of the link at a port in bytes/s; 0 if there is no link.
func (s *Subnet) Capacity(node int, port uint8) float64 {
	pi := s.PortInfo(node, int(port))
	return float64(pi.LinkWidthActive.Lanes()) * pi.ActiveSpeed().DataGbps() * 1e9 / 8
}
