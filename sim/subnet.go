package sim

import (
	"errors"
	"fmt"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
)

// Subnet is a simulated subnet. It belongs to one goroutine.
type Subnet struct {
	f   *fabric.Fabric
	cfg Config
	k   kernel

	devs  []device
	ports []port         // of all devices, port 0 included: device.first + number
	infos []smp.PortInfo // parallel to ports; the fields that port duplicates are stale here
	// cables has by port the one at the other end of the cable that it has, or had last; -1: none.
	cables []int32
	byKey  map[string]int32
	// proxies are nodes whose performance agents are reached by a QP of another node, by QP, and
	// ccProxies the same for congestion control.
	proxies, ccProxies map[uint32]int32

	eps     []*Endpoint // by tag-1; nil: slot free
	freeEps []int32

	flights []*flight // every flight ever made, by flight.id
	idle    []*flight
	work    []*flight // sent during the run of another; FIFO from workHead
	head    int
	busy    bool

	pkt     mad.Packet // the packet shown to callbacks
	vms     map[string]*vm
	trapTID uint64
	hash    uint64
	stats   Stats
	pairs   *Pairs // pairs that the console watches
	data    *data  // packets between hosts; nil: none

	// OnChange, if set, gets every change that a management datagram or a fault
	// makes to a device.
	OnChange func(Change)
	// OnDrop, if set, gets every lost packet with the reason. p is valid only
	// during the call.
	OnDrop func(why DropReason, node int, port uint8, p *mad.Packet)

	asked [64]byte // of the Set that is carried out, for OnChange
}

// Stats counts what happened since the Subnet was made.
type Stats struct {
	// packets that ports sent, packets that reached an agent or endpoint, links crossed
	Sent, Delivered, Hops              uint64
	SMPs, GMPs                         uint64 // requests answered by SMAs, by PMAs
	LFTSets, MFTSets, PortInfoSets     uint64 // Sets carried out
	PortTransitions                    uint64 // changes of a PortState, for any reason
	VPortSets, VPortTransitions        uint64 // Sets of virtualization attributes executed, changes of a VPortState
	Traps, TrapRepeats, TrapsRepressed uint64
	Drops                              [numDropReasons]uint64
}

// Stats returns the counts.
func (s *Subnet) Stats() Stats { return s.stats }

// device is a node: a switch, a channel adapter or a router.
type device struct {
	first   int32 // index of port 0 in Subnet.ports
	node    int32 // index in the fabric
	nports  uint8
	typ     ib.NodeType
	down    bool
	muted   bool // quirk: the SMA does not answer
	sw      *switchState
	quirk   *Quirks
	pma     *PMA  // nil: as Config says
	cca     *CCA  // nil: answers all, and keeps what is written
	pmaPort int32 // index of the port to which pma redirects
	ccaPort int32 // the same of cca
	rng     stream
	guid    ib.GUID
	sysimg  ib.GUID
	desc    smp.NodeDescription

	smaFree   mad.Time // when the SMA finishes its last request
	smaLoad   int      // requests that wait for it
	traps     []*pendingTrap
	trapAt    mad.Time // no trap before this time
	trapTimer mad.Time // when traps are checked next; 0: not scheduled
	boots     uint32   // number of resets
	began     mad.Time // the last of them
}

func (d *device) isSwitch() bool { return d.sw != nil }

// port holds the fields of a port that packets use; the rest is in Subnet.infos
// and, if rare, in cold.
type port struct {
	// The first cache line has what an SMP needs that comes in.
	dev    int32
	peer   int32 // the port at the other end of the cable, -1 if there is none
	errPct float32
	lid    ib.LID
	extra  uint16 // LIDs that follow the base LID for virtual functions
	epoch  uint16 // counts trainings and losses of the link
	num    uint8
	state  ib.PortState
	phys   ib.PhysState
	lmc    uint8
	check  uint8 // enforcement bits of an external port: see portFilter
	wraps  bool  // its 32-bit counters go on from 0 (PMA.Wrap)
	cold   *portCold
	cnt    counters // the second line begins after those of what comes in

	hv    *hyper // virtual functions; nil: none
	ep    int32  // first endpoint, index into Subnet.eps; -1 none
	errAt ib.AttrID
}

// counters are the counters that traffic moves. The 32-bit ones saturate.
type counters struct {
	rcvData32, rcvPkts32   uint32
	rcvData, rcvPkts, urcv uint64
	xmitData32, xmitPkts32 uint32
	xmitData, xmitPkts     uint64
	uxmit, mxmit, mrcv     uint64
}

// portCold holds fields that few ports use.
type portCold struct {
	vlarb  *[4]smp.VLArb
	pkeys  []ib.PKey
	guids  []ib.GUID   // alias GUIDs, index 0 unused
	sl2vl  *smp.SLtoVL // CA and router ports
	led    uint32
	fec    [4]uint16 // PortInfoExtended: FDR, EDR, HDR, NDR FECModeEnabled
	pm     pmState
	cong   *congestion // congestion control agent
	lease  uint32      // number of the running M_Key lease; 0: none
	leases uint32      // leases started so far

	fdr10Supported, fdr10Enabled, fdr10Active bool
}

// coldOf returns the rare part of a port, and creates it if needed.
func (s *Subnet) coldOf(p int32) *portCold {
	c := s.ports[p].cold
	if c == nil {
		c = &portCold{}
		s.ports[p].cold = c
	}
	return c
}

// switchState is what only switches have.
type switchState struct {
	info  smp.SwitchInfo
	lft   []byte              // entries up to the highest block written; the rest is 255
	mft   map[uint32]*smp.MFT // position<<16|block → masks; blocks never written are absent
	sl2vl [][]smp.SLtoVL      // by output port, then input port; nil: default
}

const noRoute = 255 // LFT entry: drop

func (w *switchState) route(l ib.LID) byte {
	if int(l) < len(w.lft) {
		return w.lft[l]
	}
	return noRoute
}

// ErrNoNode is wrapped by errors about a node that does not exist.
var ErrNoNode = errors.New("no such node")

// New builds a simulated subnet from f. All links are up and all ports in Init,
// as after power-on; the tables are empty.
func New(f *fabric.Fabric, c Config) (*Subnet, error) {
	c.setDefaults()
	nports := 0
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if n.NumPorts < 0 || n.NumPorts > 254 || len(n.Ports) != n.NumPorts+1 {
			return nil, fmt.Errorf("sim: node %q: %d ports described, NumPorts %d", n.ID, len(n.Ports)-1, n.NumPorts)
		}
		nports += n.NumPorts + 1
	}
	s := &Subnet{
		f: f, cfg: c,
		devs:  make([]device, len(f.Nodes)),
		ports: make([]port, nports),
		infos: make([]smp.PortInfo, nports), cables: slices.Repeat([]int32{-1}, nports),
		byKey: make(map[string]int32, len(f.Nodes)),
	}
	first := int32(0)
	for i := range f.Nodes {
		n := &f.Nodes[i]
		s.devs[i] = device{
			first: first, node: int32(i), nports: uint8(n.NumPorts), typ: n.Type, guid: n.GUID,
			sysimg: n.SystemImageGUID, rng: newStream(c.Seed, n.GUID),
		}
		if n.Type == ib.NodeSwitch {
			s.devs[i].sw = &switchState{}
		}
		if _, dup := s.byKey[n.ID]; dup {
			return nil, fmt.Errorf("sim: two nodes with id %q", n.ID)
		}
		s.byKey[n.ID] = int32(i)
		first += int32(n.NumPorts) + 1
	}
	for i := range f.Nodes {
		d := &s.devs[i]
		for j := range f.Nodes[i].Ports {
			p := &s.ports[d.first+int32(j)]
			p.dev, p.num, p.peer, p.ep = int32(i), uint8(j), -1, -1
			r := f.Nodes[i].Ports[j].Peer
			if j == 0 || r.Node < 0 || r.Port == 0 {
				continue
			}
			if int(r.Node) >= len(s.devs) || r.Port > s.devs[r.Node].nports {
				return nil, fmt.Errorf("sim: %q port %d: cable leads to node %d port %d, which does not exist", f.Nodes[i].ID, j, r.Node, r.Port)
			}
			p.peer = s.devs[r.Node].first + int32(r.Port)
			s.cables[d.first+int32(j)] = p.peer
		}
	}
	for i := range s.ports {
		if p := &s.ports[i]; p.peer >= 0 && s.ports[p.peer].peer != int32(i) {
			return nil, fmt.Errorf("sim: %s: the two ends of the cable disagree", s.portName(int32(i)))
		}
	}
	for i := range s.devs {
		s.reset(int32(i), !c.IgnoreLIDs)
	}
	for i := range s.ports {
		s.trainNow(int32(i), everyone)
	}
	s.stats = Stats{} // power-on does not count
	return s, nil
}

// Fabric is what the Subnet was built from.
func (s *Subnet) Fabric() *fabric.Fabric { return s.f }

// Config is what the Subnet was made with, defaults filled in.
func (s *Subnet) Config() Config { return s.cfg }

// portName names a port for messages: "S1"[3].
func (s *Subnet) portName(p int32) string {
	return fmt.Sprintf("%q[%d]", s.f.Nodes[s.ports[p].dev].ID, s.ports[p].num)
}

// Node returns the index of a node in the fabric: by netlist id, else by
// description; "" is the first node.
func (s *Subnet) Node(name string) (int, error) {
	if name == "" {
		if len(s.devs) == 0 {
			return 0, fmt.Errorf("sim: empty fabric: %w", ErrNoNode)
		}
		return 0, nil
	}
	if i, ok := s.byKey[name]; ok {
		return int(i), nil
	}
	for i := range s.f.Nodes {
		if s.f.Nodes[i].Desc == name {
			return i, nil
		}
	}
	return 0, fmt.Errorf("sim: node %q: %w", name, ErrNoNode)
}

// port index of (node, number), or an error that names them.
func (s *Subnet) portIndex(node string, num int) (int32, error) {
	n, err := s.Node(node)
	if err != nil {
		return -1, err
	}
	d := &s.devs[n]
	if num < 0 || num > int(d.nports) || num == 0 && !d.isSwitch() {
		return -1, fmt.Errorf("sim: node %q has no port %d", s.f.Nodes[n].ID, num)
	}
	return d.first + int32(num), nil
}

// endPort is the port whose LID, M_Key and P_Keys apply to p: port 0 of a
// switch, otherwise p itself.
func (s *Subnet) endPort(p int32) int32 {
	d := &s.devs[s.ports[p].dev]
	if d.isSwitch() {
		return d.first
	}
	return p
}

// guidOf is the GUID of an end port, or of the end port of an external one.
func (s *Subnet) guidOf(p int32) ib.GUID {
	d := &s.devs[s.ports[p].dev]
	num := s.ports[p].num
	if d.isSwitch() {
		num = 0
	}
	node := d.guid
	if d.quirk != nil && d.quirk.NodeGUID != 0 {
		node = d.quirk.NodeGUID
	} else if g := s.f.Nodes[d.node].Ports[num].GUID; g != 0 {
		return g
	}
	return node + ib.GUID(num)
}
