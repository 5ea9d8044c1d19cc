package sim

import (
	"errors"
	"fmt"
	"slices"

	"heddle/ib"
	"heddle/ib/smp"
)

// Model is the type of an SR-IOV channel adapter: how it stores the addresses
// of its virtual functions.
type Model uint8

const (
	// SharedPort adapters (ConnectX-3 and similar) have one LID. Alias GUID i of
	// the port, which a manager writes with GUIDInfo, identifies function i. A
	// function has no port state of its own. It shares the port's P_Key table, of
	// which the hypervisor shows it the permitted entries.
	SharedPort Model = iota + 1
	// VSwitch adapters (Tasoulas et al., 2015) contain a switch. The switch has
	// the physical function's LID; each virtual function behind it has a LID and a
	// GUID of its own, both written by the manager. A manager treats it as a leaf
	// that accepts many LIDs: it has the attributes of a VPort adapter, with
	// smp.VirtCapIsVSwitch in VirtualizationInfo.CapabilityMask, LIDRequired at
	// every function, and a PortGUID that a Set of VPortInfo writes. So one SMP to
	// a hypervisor sets or clears LID, GUID and state of a function.
	VSwitch
	// VPorts adapters implement InfiniBand virtualization: virtual ports with
	// GUIDs, P_Keys and states of their own, and LIDs if they request them. The
	// GUID comes from the hypervisor, which moves it along with a VM.
	VPorts
)

var modelNames = [...]string{SharedPort: "shared", VSwitch: "vswitch", VPorts: "vport"}

func (m Model) String() string {
	if m > 0 && int(m) < len(modelNames) {
		return modelNames[m]
	}
	return fmt.Sprintf("model %d", uint8(m))
}

// ParseModel is the inverse of String.
func ParseModel(w string) (Model, error) {
	if i := slices.Index(modelNames[:], w); i > 0 {
		return Model(i), nil
	}
	return 0, fmt.Errorf("sim: %q is not a model of virtual functions: want shared, vswitch or vport", w)
}

// Hypervisor describes the adapter port of a hypervisor.
type Hypervisor struct {
	Model Model
	// VFs is how many virtual functions it has at most, 1–1024; on a shared port
	// 1–127, because its GUID table also holds the port's own.
	VFs int
	// OwnLIDs makes every VPort request a LID of its own (LIDRequired). The other
	// models ignore it.
	OwnLIDs bool
	// VendorTraps makes it send traps about VPorts in NVIDIA's form, as shipping
	// devices do, instead of generic notices.
	VendorTraps bool
}

// VF names a virtual function: its port and its index there, from 1. Index 0
// is the physical function, which is the port itself.
type VF struct {
	Node  int
	Port  uint8
	Index uint16
}

// ErrNoVF is wrapped by errors about a virtual function that does not exist.
var ErrNoVF = errors.New("no such virtual function")

// Limits and power-on values of virtual functions.
const (
	maxVFs        = 1024
	vportGUIDCap  = 8
	sharedGUIDCap = 128
	// vfGUIDStep separates the initial GUIDs of functions from those of ports:
	// function i has its port's plus i times this.
	vfGUIDStep ib.GUID = 1 << 40
)

// hyper is the adapter of a hypervisor, at one of its ports.
type hyper struct {
	Hypervisor
	port    int32
	vps     []vport // by index; 0 is the port itself and only counts
	top     uint16  // VPortIndexTop: functions above it do not exist now
	enabled bool    // VirtualizationEnable
	changed bool    // VPortStateChange
	own     []ownLID
}

// ownLID is a LID that belongs to a virtual function.
type ownLID struct {
	lid ib.LID
	idx uint16
}

// vport is a virtual function and, except on a shared port, its VPort.
type vport struct {
	h     *hyper
	idx   uint16
	up    bool // VirtLink: the host wants it up
	state ib.PortState
	own   bool // LIDRequired
	by    uint16
	lid   ib.LID
	guid  ib.GUID   // GUID 0
	first ib.GUID   // initial GUID 0
	alias []ib.GUID // GUIDs 1 and up at their index; nil: none
	pkeys []ib.PKey // nil: the default partition alone
	allow []ib.PKey // shared port: the keys that the hypervisor permits; nil: all
	sls   uint16    // SLMask
	caps  ib.VPortCapMask
	desc  smp.NodeDescription
	pviol uint16
	qviol uint16
	cnt   counters
	relay uint64 // PortRelayErrors
	vm    *vm
}

// AddHypervisor adds virtual functions to port num of a CA, once. A manager
// sees them when it next reads the port.
func (s *Subnet) AddHypervisor(node string, num int, c Hypervisor) error {
	p, err := s.portIndex(node, num)
	if err != nil {
		return err
	}
	limit := maxVFs
	if c.Model == SharedPort {
		limit = sharedGUIDCap - 1
	}
	switch {
	case s.devs[s.ports[p].dev].typ != ib.NodeCA:
		return fmt.Errorf("sim: %s is not a port of a channel adapter: it has no virtual functions", s.portName(p))
	case c.Model < SharedPort || c.Model > VPorts:
		return fmt.Errorf("sim: %s: %v is not a model of virtual functions", s.portName(p), c.Model)
	case c.VFs < 1 || c.VFs > limit:
		return fmt.Errorf("sim: %s: %d virtual functions, 1 to %d are possible", s.portName(p), c.VFs, limit)
	case s.ports[p].hv != nil:
		return fmt.Errorf("sim: %s already has virtual functions", s.portName(p))
	}
	h := &hyper{Hypervisor: c, port: p, top: uint16(c.VFs), vps: make([]vport, c.VFs+1)}
	for i := range h.vps {
		h.vps[i] = vport{
			h: h, idx: uint16(i), first: s.guidOf(p) + vfGUIDStep*ib.GUID(i), own: c.Model == VSwitch || c.OwnLIDs,
		}
	}
	s.ports[p].hv = h
	s.resetHyper(h)
	return nil
}

// resetHyper is power-on: virtualization is off, and what managers wrote is
// cleared. The host's settings stay: which functions are up, and their VMs.
func (s *Subnet) resetHyper(h *hyper) {
	h.enabled, h.changed = false, false
	for i := range h.vps {
		v := &h.vps[i]
		*v = vport{
			h: h, idx: v.idx, up: v.up, first: v.first, guid: v.first, allow: v.allow, vm: v.vm,
			state: ib.StateDown, own: v.own, by: v.by, sls: 0xFFFF,
			caps: ib.VPortCapIsCommunicationManagementSupported,
		}
		v.desc.Set(fmt.Sprintf("%s VF %d", s.f.Nodes[s.ports[h.port].dev].Desc, i))
		if v.vm != nil {
			v.settle(v.vm)
		}
	}
	h.reindex()
	if h.Model != SharedPort {
		s.infos[h.port].CapabilityMask2 |= ib.Cap2IsVirtualizationSupported
		return
	}
	s.infos[h.port].GUIDCap = sharedGUIDCap
	if c := s.ports[h.port].cold; c != nil && c.guids != nil {
		c.guids = append(c.guids, make([]ib.GUID, sharedGUIDCap-len(c.guids))...)
	}
}

// reindex collects the LIDs that functions own.
func (h *hyper) reindex() {
	h.own = h.own[:0]
	if !h.enabled {
		return
	}
	for i := 1; i <= int(h.top); i++ {
		if v := &h.vps[i]; v.own && v.lid != 0 {
			h.own = append(h.own, ownLID{v.lid, v.idx})
		}
	}
}

// owner is the index of the function that owns l.
func (h *hyper) owner(l ib.LID) (idx uint16, ok bool) {
	for _, o := range h.own {
		if o.lid == l {
			return o.idx, true
		}
	}
	return 0, false
}

// VF looks up a virtual function by the name of its node.
func (s *Subnet) VF(node string, port, index int) (VF, error) {
	p, err := s.portIndex(node, port)
	if err != nil {
		return VF{}, err
	}
	v := VF{Node: int(s.ports[p].dev), Port: uint8(port), Index: uint16(index)}
	if index < 0 || index > maxVFs {
		return VF{}, fmt.Errorf("sim: %s: index %d: %w", s.portName(p), index, ErrNoVF)
	}
	if index > 0 {
		_, err = s.function(v)
	}
	return v, err
}

// function is the virtual function that v names; index 0 is none.
func (s *Subnet) function(v VF) (*vport, error) {
	if v.Node < 0 || v.Node >= len(s.devs) || v.Port > s.devs[v.Node].nports {
		return nil, fmt.Errorf("sim: node %d port %d: %w", v.Node, v.Port, ErrNoVF)
	}
	p := s.devs[v.Node].first + int32(v.Port)
	h := s.ports[p].hv
	if h == nil {
		return nil, fmt.Errorf("sim: %s has no virtual functions: %w", s.portName(p), ErrNoVF)
	}
	if v.Index == 0 || v.Index > h.top {
		return nil, fmt.Errorf("sim: %s has virtual functions 1 to %d, not %d: %w", s.portName(p), h.top, v.Index, ErrNoVF)
	}
	return &h.vps[v.Index], nil
}

// ref is how the outside names v.
func (s *Subnet) ref(v *vport) VF {
	pt := &s.ports[v.h.port]
	return VF{Node: int(pt.dev), Port: pt.num, Index: v.idx}
}

// EnableVPort brings the VirtLink of a function up, as its host does: the VPort
// goes to Init if virtualization is on, and the port sends trap 1146.
func (s *Subnet) EnableVPort(f VF) error { return s.virtLink(f, true) }

// DisableVPort takes the VirtLink of a function down: the VPort is Down
// immediately. What a manager wrote into it stays until the manager clears it.
func (s *Subnet) DisableVPort(f VF) error { return s.virtLink(f, false) }

func (s *Subnet) virtLink(f VF, up bool) error {
	v, err := s.function(f)
	if err != nil {
		return err
	}
	s.setVirtLink(v, up)
	return nil
}

func (s *Subnet) setVirtLink(v *vport, up bool) {
	v.up = up
	switch {
	case up && v.h.enabled && v.state == ib.StateDown:
		s.setVPortState(v, ib.StateInit)
	case !up && v.state != ib.StateDown:
		s.setVPortState(v, ib.StateDown)
	default:
		return
	}
	s.vportsChanged(v.h)
}

// vportsChanged sets VPortStateChange and sends trap 1146: something changed
// that no manager caused.
func (s *Subnet) vportsChanged(h *hyper) {
	h.changed = true
	s.trap1146(h)
}

func (s *Subnet) setVPortState(v *vport, st ib.PortState) {
	old := v.state
	v.state = st
	s.stats.VPortTransitions++
	if s.OnChange != nil {
		r := s.ref(v)
		s.OnChange(Change{At: s.k.now, Kind: ChangeVPort, Node: r.Node, Port: r.Port, VPort: r.Index, Old: old, New: st})
	}
}

// enable executes VirtualizationEnable. VPorts whose host wants them up go to
// Init, or all go Down. The change sets the bit but sends no trap, because the
// manager caused it.
func (s *Subnet) enable(h *hyper, on bool) {
	if h.enabled == on {
		return
	}
	h.enabled = on
	for i := 1; i <= int(h.top); i++ {
		switch v := &h.vps[i]; {
		case on && v.up && v.state == ib.StateDown:
			s.setVPortState(v, ib.StateInit)
			h.changed = true
		case !on && v.state != ib.StateDown:
			s.setVPortState(v, ib.StateDown)
			h.changed = true
		}
	}
	h.reindex()
}

// SetVFs changes how many functions exist, up to the hypervisor's maximum: hot
// plugging. Functions that are removed go down and lose their VMs first.
func (s *Subnet) SetVFs(node string, port, n int) error {
	p, err := s.portIndex(node, port)
	if err != nil {
		return err
	}
	h := s.ports[p].hv
	if h == nil || n < 0 || n > h.VFs {
		return fmt.Errorf("sim: %s cannot have %d virtual functions: %w", s.portName(p), n, ErrNoVF)
	}
	for i := n + 1; i <= int(h.top); i++ {
		v := &h.vps[i]
		switch m := v.vm; {
		case m != nil && m.next == v:
			s.unready(m)
		case m != nil:
			s.detach(m)
		}
		s.setVirtLink(v, false)
	}
	if int(h.top) != n {
		h.top = uint16(n)
		h.reindex()
		if h.Model != SharedPort {
			s.vportsChanged(h)
		}
	}
	return nil
}

// SetLIDRequired sets whether a VPort that is down requests a LID of its own,
// and if not, the VPort whose LID it uses: 0 is the port's.
func (s *Subnet) SetLIDRequired(f VF, own bool, by uint16) error {
	v, err := s.function(f)
	switch {
	case err != nil:
		return err
	case v.h.Model != VPorts:
		return fmt.Errorf("sim: %s VF %d: only VPorts choose whether they have a LID", s.portName(v.h.port), v.idx)
	case v.state != ib.StateDown:
		return fmt.Errorf("sim: %s VPort %d is %v: its LID is chosen while it is down", s.portName(v.h.port), v.idx, v.state)
	case by > v.h.top || by == v.idx:
		return fmt.Errorf("sim: %s VPort %d cannot use the LID of VPort %d", s.portName(v.h.port), v.idx, by)
	}
	v.own, v.by = own, by
	v.h.reindex()
	return nil
}

// SetVPortDescription changes the description of a VPort's virtual adapter,
// which trap 1144 announces.
func (s *Subnet) SetVPortDescription(f VF, desc string) error {
	v, err := s.function(f)
	if err != nil {
		return err
	}
	v.desc.Set(desc)
	s.trap1144(v, smp.ChangeNodeDescription)
	return nil
}

// SetVPortCapabilities changes the capabilities of a VPort, which trap 1144
// announces.
func (s *Subnet) SetVPortCapabilities(f VF, m ib.VPortCapMask) error {
	v, err := s.function(f)
	if err != nil {
		return err
	}
	if v.caps != m {
		v.caps = m
		s.trap1144(v, 0)
	}
	return nil
}
