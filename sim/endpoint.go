package sim

import (
	"errors"
	"fmt"
	"slices"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
)

// The 16-bit tag in transaction IDs bounds maxEndpoints; tag 0 marks packets of
// the agents.
const maxEndpoints = 1<<16 - 1

// Endpoint is a program's access to a port, like an open user-MAD device on
// real hardware. Any number of endpoints may share a port. The callbacks run
// while a packet is being delivered; they may Send, and must not keep p.
type Endpoint struct {
	s    *Subnet
	idx  int32 // in Subnet.eps; the tag is idx+1
	port int32
	vp   *vport // the virtual function it is on, nil: the port itself
	vm   *vm    // the VM it is in and moves with, if any
	next int32  // next endpoint of the port in order of attaching, -1: last
	issm bool
	gone bool

	// OnPacket processes packets for this endpoint: responses to what it sent, and
	// requests that Accepts accepts. The packet is valid only during the call.
	OnPacket func(p *mad.Packet)
	// Accepts decides about MADs that are not responses (traps, SMInfo, SA
	// requests, …). The first endpoint of the port that accepts gets the packet;
	// a multicast packet goes to each. nil: accepts all while IsSM is set through
	// this endpoint, nothing otherwise.
	Accepts func(p *mad.Packet) bool
	// OnUndeliverable gets each packet of this endpoint, or an agent's response to
	// it, that was lost, in its state at that moment; nil ignores losses, as real
	// hardware does.
	OnUndeliverable func(p *mad.Packet)
	// OnReregister is called when a manager asks the clients of the port to register
	// again (PortInfo.ClientReregister), as a port event of the kernel. It may Send.
	OnReregister func()
	// SingleMAD marks an endpoint that cannot reassemble RMPP messages, like stock
	// clients of ibsim's protocol. The receivers of its requests see this
	// (mad.Packet).
	SingleMAD bool

	groups []ib.GID // groups it listens to; nil: all
}

// Attach opens port 1 of a CA or router, or port 0 of a switch. The node is
// named by its netlist id, else its description; "" is the first node.
func (s *Subnet) Attach(node string) (*Endpoint, error) {
	n, err := s.Node(node)
	if err != nil {
		return nil, err
	}
	num := 1
	if s.devs[n].isSwitch() {
		num = 0
	}
	return s.AttachPort(node, num)
}

// AttachPort opens a port that has LIDs: any port of a CA or router, port 0 of
// a switch.
func (s *Subnet) AttachPort(node string, num int) (*Endpoint, error) {
	p, err := s.portIndex(node, num)
	if err != nil {
		return nil, err
	}
	if s.endPort(p) != p {
		return nil, fmt.Errorf("sim: %s is an external port of a switch: attach to port 0", s.portName(p))
	}
	return s.attach(p, nil)
}

// AttachVPort opens a virtual function, as a program in its VM does. Its
// packets have the LID, GIDs and P_Keys of the function. SMPs are lost, and so
// is everything while the function is not Active. A function that shares a LID
// must send with a GRH (see the package documentation).
func (s *Subnet) AttachVPort(f VF) (*Endpoint, error) {
	v, err := s.function(f)
	if err != nil {
		return nil, err
	}
	return s.attach(v.h.port, v)
}

func (s *Subnet) attach(p int32, v *vport) (*Endpoint, error) {
	e := &Endpoint{s: s, port: p, vp: v, next: -1}
	if n := len(s.freeEps); n > 0 {
		// Take the slot free for longest, so that a late response finds no endpoint.
		e.idx = s.freeEps[0]
		s.freeEps = s.freeEps[:copy(s.freeEps, s.freeEps[1:n])]
		s.eps[e.idx] = e
	} else {
		if len(s.eps) >= maxEndpoints {
			return nil, errors.New("sim: 65,535 endpoints are attached, the maximum of the transaction ID's tag")
		}
		e.idx = int32(len(s.eps))
		s.eps = append(s.eps, e)
	}
	e.join()
	return e, nil
}

// join appends e to the endpoints of its port.
func (e *Endpoint) join() {
	link := &e.s.ports[e.port].ep
	for *link >= 0 {
		link = &e.s.eps[*link].next
	}
	*link, e.next = e.idx, -1
}

// leave removes e from its port.
func (e *Endpoint) leave() {
	link := &e.s.ports[e.port].ep
	for *link != e.idx {
		link = &e.s.eps[*link].next
	}
	*link = e.next
}

// Close detaches the endpoint; IsSM is cleared if no other endpoint of the
// port holds it.
func (e *Endpoint) Close() {
	if e.gone {
		return
	}
	if e.issm {
		_ = e.SetIsSM(false)
	}
	e.gone = true
	e.leave()
	if e.vm != nil {
		e.vm.eps = slices.DeleteFunc(e.vm.eps, func(x *Endpoint) bool { return x == e })
	}
	e.s.eps[e.idx] = nil
	e.s.freeEps = append(e.s.freeEps, e.idx)
}

// reregister hands the request of a manager to the endpoints of a port.
func (s *Subnet) reregister(p int32) {
	for i := s.ports[p].ep; i >= 0; {
		e := s.eps[i]
		i = e.next
		if e.OnReregister != nil {
			e.OnReregister()
		}
	}
}

// Tag is what bits 63..48 of this endpoint's transaction ids hold on the wire.
func (e *Endpoint) Tag() uint16 { return uint16(e.idx + 1) }

// ErrBusy is returned when another endpoint of the port holds IsSM.
var ErrBusy = errors.New("sim: another endpoint of the port holds IsSM")

// SetIsSM sets or clears CapabilityMask.IsSM of the port, which trap 144
// announces. Only one endpoint of a port can hold it.
func (e *Endpoint) SetIsSM(on bool) error {
	if e.gone {
		return errors.New("sim: endpoint is closed")
	}
	if on == e.issm {
		return nil
	}
	if e.vp != nil {
		return errors.New("sim: a virtual function has no QP0: no manager can run on it")
	}
	s := e.s
	if on {
		for i := s.ports[e.port].ep; i >= 0; i = s.eps[i].next {
			if s.eps[i].issm {
				return ErrBusy
			}
		}
	}
	e.issm = on
	m := s.infos[e.port].CapabilityMask &^ ib.CapIsSM
	if on {
		m |= ib.CapIsSM
	}
	s.setCapMask(e.port, m)
	return nil
}

// IsSM reports whether this endpoint holds IsSM.
func (e *Endpoint) IsSM() bool { return e.issm }

// PortGUID is the GUID of the port.
func (e *Endpoint) PortGUID() ib.GUID {
	if e.vp != nil {
		return e.s.vguid(e.vp, 0)
	}
	return e.s.guidOf(e.port)
}

// NodeIndex is the index of the node in the fabric.
func (e *Endpoint) NodeIndex() int { return int(e.s.ports[e.port].dev) }

// NodeID is the netlist id of the node.
func (e *Endpoint) NodeID() string { return e.s.f.Nodes[e.NodeIndex()].ID }

// PortNum is the number of the port; 0 on a switch.
func (e *Endpoint) PortNum() uint8 { return e.s.ports[e.port].num }

// LID is the base LID of the port, 0 before it has one.
func (e *Endpoint) LID() ib.LID {
	if e.vp != nil {
		return e.s.lidOf(e.vp)
	}
	return e.s.ports[e.port].lid
}

// LMC is the LMC of the port.
func (e *Endpoint) LMC() uint8 { return e.PortInfo().LMC }

// PortInfo is the PortInfo of the port as its SMA would answer locally. For a
// virtual function it is what its host shows: the function's own state, LID,
// tables and counters, the rest from the port, without the M_Key.
func (e *Endpoint) PortInfo() smp.PortInfo {
	pi := e.s.portInfo(e.port, e.port)
	v := e.vp
	if v == nil {
		return pi
	}
	pi.MKey, pi.MKeyViolations = 0, 0
	pi.CapabilityMask &^= ib.CapIsSM
	pi.PortState, pi.GUIDCap = e.s.vstate(v), uint8(v.vguids())
	pi.PKeyViolations, pi.QKeyViolations = v.pviol, v.qviol
	if lid := e.s.lidOf(v); lid != pi.LID {
		pi.LID, pi.LMC = lid, 0 // the LMC is that of the port's LID
	}
	return pi
}

// PortInfoOf is the PortInfo of another port of the same node; an unknown
// number gives the endpoint's own.
func (e *Endpoint) PortInfoOf(num uint8) smp.PortInfo {
	d := &e.s.devs[e.s.ports[e.port].dev]
	if num > d.nports || num == 0 {
		return e.PortInfo()
	}
	return e.s.portInfo(d.first+int32(num), e.port)
}

// NodeInfo is the NodeInfo of the node as seen through the port; for a virtual
// function, that of the virtual adapter.
func (e *Endpoint) NodeInfo() smp.NodeInfo {
	ni := e.s.nodeInfo(e.port)
	if v := e.vp; v != nil {
		ni.NodeGUID, ni.PortGUID = e.s.vnodeGUID(v), e.s.vguid(v, 0)
		ni.LocalPortNum, ni.NumPorts = e.s.vnodePorts(v)
	}
	return ni
}

// NodeDescription is the description that the node answers with.
func (e *Endpoint) NodeDescription() smp.NodeDescription {
	if e.vp != nil {
		return e.vp.desc
	}
	return e.s.devs[e.s.ports[e.port].dev].desc
}

// PKeys appends the P_Key table of the port to b, empty slots included.
func (e *Endpoint) PKeys(b []ib.PKey) []ib.PKey {
	n := e.s.pkeyCap(e.port)
	for i := range n {
		b = append(b, e.pkeyAt(i))
	}
	return b
}

func (e *Endpoint) pkeyAt(i int) ib.PKey {
	if e.vp != nil {
		return e.s.vpkeyAt(e.vp, i)
	}
	return e.s.pkeyAt(e.port, i)
}

// GIDs appends the GID table of the port: the port GUID first, then the alias
// GUIDs that are set.
func (e *Endpoint) GIDs(b []ib.GID) []ib.GID {
	pre := e.s.infos[e.port].GidPrefix
	if e.vp != nil {
		for i := range e.vp.vguids() {
			if g := e.s.vguid(e.vp, i); g != 0 {
				b = append(b, ib.MakeGID(pre, g))
			}
		}
		return b
	}
	b = append(b, ib.MakeGID(pre, e.PortGUID()))
	if c := e.s.ports[e.port].cold; c != nil {
		for _, g := range c.guids {
			if g != 0 {
				b = append(b, ib.MakeGID(pre, g))
			}
		}
	}
	return b
}

// Send puts p on the wire at the current time. p and p.Data are not kept; Data
// is cut or padded to 256 bytes. Bits 63..48 of the transaction ID of a request
// become the endpoint's tag, which routes the response back; responses (R bit,
// or TrapRepress) keep their ID. A directed-route SMP must be as its originator
// would write it: HopPointer 0, or HopCount+1 for a response.
func (e *Endpoint) Send(p *mad.Packet) {
	if e.gone || e.vp.absent() {
		return
	}
	s := e.s
	f := s.newFlight()
	n := copy(f.mad[:], p.Data)
	clear(f.mad[n:])
	f.origin = e
	s.address(f, e, p.Addr)
	f.dqp, f.sqp = p.Addr.QP, p.LocalQP
	if m := f.mad.Method(); !m.IsResponse() && m != ib.MethodTrapRepress {
		f.mad.SetTID(f.mad.TID()&(1<<48-1) | uint64(e.Tag())<<48)
	}
	f.stage = stSend
	s.start(f)
}

// address writes the headers of f, whose MAD is in place, for a packet from e.
func (s *Subnet) address(f *flight, e *Endpoint, a mad.Addr) {
	f.port = e.port
	f.dlid = a.LID
	f.sl = a.SL & 0xF
	f.smp = f.mad.Class().IsSMP()
	pt := &s.ports[e.port]
	f.slid = pt.lid
	f.svp = e.vp
	if e.vp != nil {
		f.slid = s.lidOf(e.vp)
	}
	if bits := int(a.PathBits); bits < pt.lids() && f.slid == pt.lid {
		f.slid += ib.LID(bits)
	}
	f.pkeyIdx = a.PKeyIndex
	if !f.smp {
		f.pkey = e.pkeyAt(int(a.PKeyIndex))
	}
	f.hasGRH = a.HasGRH
	if f.hasGRH {
		f.grh, f.dgid = a.GRH, a.GRH.GID
		if e.vp != nil {
			f.grh.GID = s.vgid(e.vp, a.GRH.GIDIndex)
		} else {
			f.grh.GID = s.gidAt(e.port, a.GRH.GIDIndex)
		}
	}
}

func (s *Subnet) gidAt(p int32, i uint8) ib.GID {
	g := s.guidOf(p)
	if c := s.ports[p].cold; i > 0 && c != nil && int(i) < len(c.guids) {
		g = c.guids[i]
	}
	return ib.MakeGID(s.infos[p].GidPrefix, g)
}

// Listen attaches the endpoint to a multicast group: from now on it gets only
// multicast packets with a GRH for groups that it listens to. A virtual
// function never gets others. The port must be a member of the group's tree, by
// a join at the SA.
func (e *Endpoint) Listen(mgid ib.GID) {
	if !slices.Contains(e.groups, mgid) {
		e.groups = append(e.groups, mgid)
	}
}

// Ignore is the inverse of Listen.
func (e *Endpoint) Ignore(mgid ib.GID) {
	if i := slices.Index(e.groups, mgid); i >= 0 {
		e.groups = slices.Delete(e.groups, i, i+1)
	}
}

// inGroup reports whether f is not multicast, or for a group of e.
func (e *Endpoint) inGroup(f *flight) bool {
	if !f.dlid.IsMulticast() || e.groups == nil && e.vp == nil {
		return true
	}
	return f.hasGRH && slices.Contains(e.groups, f.dgid)
}

// accepts applies the default rule.
func (e *Endpoint) accepts(p *mad.Packet) bool {
	if e.Accepts != nil {
		return e.Accepts(p)
	}
	return e.issm
}
