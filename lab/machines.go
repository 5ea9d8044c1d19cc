package lab

import (
	"fmt"
	"slices"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/sim"
	"heddle/sim/dataplane"
	"heddle/sim/host/adapter"
	"heddle/sim/host/program"
	"heddle/sim/host/rc"
	hv "heddle/sim/hypervisor"
	"heddle/sim/hypervisor/suspend"
	"heddle/sm"
	"heddle/subnet"
	"heddle/vm"
)

// Machines is a loaded subnet whose hosts are hypervisors, with virtual machines whose
// addresses a real manager moves. It migrates them live (package sim/hypervisor).
type Machines struct {
	*Loaded
	Adapters []*adapter.Adapter // by host of the engine
	// OnMoved, if set, hears of the end of each migration.
	OnMoved func(m *Machine)

	way hv.Way
	cfg sm.Config
}

// models are the adapters of each way, and the LIDs of machines on them.
var models = map[hv.Way]struct {
	model sim.Model
	kind  subnet.LIDKind
}{
	hv.ThreeStages: {sim.SharedPort, subnet.SharedLID},
	hv.FloatingLID: {sim.SharedPort, subnet.FloatingLID},
	hv.VSwitch:     {sim.VSwitch, subnet.OwnLID},
	hv.VPort:       {sim.VPorts, subnet.OwnLID},
	hv.Firmware:    {sim.VPorts, subnet.OwnLID},
}

// machineVFs is how many functions each hypervisor has.
const machineVFs = 8

// StartMachines brings up f with a manager in the first switch, and makes a hypervisor
// of each adapter, of the model that the way needs.
func StartMachines(f *fabric.Fabric, way hv.Way, sc sim.Config, cfg sm.Config, dc dataplane.Config) (*Machines, error) {
	c, err := NewCluster(f, sc)
	if err != nil {
		return nil, err
	}
	node := ""
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if n.IsSwitch() {
			if node == "" {
				node = n.ID
			}
			continue
		}
		if err := c.addHypervisor(n, way); err != nil {
			return nil, err
		}
	}
	m, err := c.Attach(node, cfg, nil)
	if err != nil {
		return nil, err
	}
	m.ServeVMs(vm.Config{})
	if err := m.Start(); err != nil {
		return nil, err
	}
	if err := c.RunUntil(upLimit, func() bool { return m.Up() && m.Idle() }); err != nil {
		return nil, fmt.Errorf("lab: the subnet does not come up: %w", err)
	}
	l, err := Load(c, m, dc)
	if err != nil {
		return nil, err
	}
	h := &Machines{Loaded: l, way: way, cfg: cfg}
	for i := range l.Engine.NumHosts() {
		a, err := adapter.New(l.Engine, i)
		if err != nil {
			return nil, err
		}
		h.Adapters = append(h.Adapters, a)
	}
	return h, nil
}

// addHypervisor makes a hypervisor of an adapter, of the model that a way needs.
func (c *Cluster) addHypervisor(n *fabric.Node, way hv.Way) error {
	c.floats[n.Ports[1].GUID] = way == hv.FloatingLID
	return c.Sim.AddHypervisor(n.ID, 1, sim.Hypervisor{Model: models[way].model, VFs: machineVFs})
}

// Restart has the manager die, and another begin in its place with what it has stored.
func (h *Machines) Restart() error {
	old := h.Manager
	old.Kill()
	m, err := h.Attach(old.Node, h.cfg, old.Store)
	if err != nil {
		return err
	}
	m.JobTime = old.JobTime
	m.ServeVMs(vm.Config{})
	h.Manager = m
	return m.Start()
}

// keeper is the manager whose store has the machines: the last that was started with it. A standby
// with a store of its own knows none.
func (h *Machines) keeper() *Manager {
	for _, m := range slices.Backward(h.Managers) {
		if m.vm != nil {
			return m
		}
	}
	return nil
}

// sums are what all managers have sent, and the Sets among that.
func (h *Machines) sums() (sent, sets int) {
	for _, m := range h.Managers {
		sent, sets = sent+m.Sent, sets+m.Writes
	}
	return sent, sets
}

// place is a function of a host, index from 1; 0: any.
func (h *Machines) place(host, index int) subnet.Place {
	return subnet.Place{Port: h.ports[host], Function: uint16(index)}
}

// function is the same for the simulator.
func (h *Machines) function(host, index int) sim.VF {
	r := h.Engine.HostPort(host)
	return sim.VF{Node: int(r.Node), Port: r.Port, Index: uint16(index)}
}

// path is the path from a host to a LID, at the service level that the manager tells.
func (h *Machines) path(from int, to ib.LID) rc.Path {
	p := rc.Path{DLID: to}
	if s := h.Manager.Snap; s != nil && s.Tables != nil {
		if e := h.endPort(from); e != nil && e.Switch >= 0 {
			p.SL = s.Tables.PathSL(e.Switch, to)
		}
	}
	return p
}

// endPort is a host's port in the manager's present graph.
func (h *Machines) endPort(host int) *fabric.EndPort {
	h.level(host, host) // reads a new graph
	return h.at[h.ports[host]]
}

// Machine is a virtual machine.
type Machine struct {
	Name    string
	Session *suspend.Session
	Streams []*MachineStream

	h        *Machines
	host     int
	index    int // of its function at every host
	guid     ib.GUID
	next     uint32 // number of its next queue pair
	programs []pausable
}

// pausable is a program that stands still with its machine.
type pausable interface {
	Pause()
	Continue()
}

// MachineStream is a stream between a machine and a host.
type MachineStream struct {
	*program.Stream
	Sink         *program.Sink
	Mine, Theirs *adapter.Connection
	Peer         int
	started      rc.Path // of the peer, as it was told first
	number       uint32
}

// Check reports a message that was lost, doubled or out of order.
func (s *MachineStream) Check() error { return s.Sink.Check(s.Stream) }

// Told reports whether the peer had to learn another address or number of the machine.
func (s *MachineStream) Told() bool {
	return s.Theirs.QP().Path() != s.started || s.Theirs.QP().RemoteQPN() != s.number
}

// Create starts a machine on a function of a host, and waits until the manager has given
// it its addresses.
func (h *Machines) Create(name string, host, index int) (*Machine, error) {
	m := &Machine{Name: name, h: h, host: host, index: index, next: adapter.FirstGuest + uint32(index)<<12}
	m.Session = suspend.New(h.after, hv.Published().OutOfBand)
	var failed error
	h.Manager.DoVM(func(_ int, r *vm.Reply) { failed, m.guid = r.Err, r.Interface.GUID },
		vm.Create{I: vm.Interface{Name: name, GUIDKind: vm.PoolGUID, LIDKind: models[h.way].kind, Mode: subnet.MoveMinimal}})
	if err := h.RunUntil(time.Minute, func() bool { return failed != nil || m.guid != 0 }); err != nil || failed != nil {
		return nil, fmt.Errorf("lab: machine %q is not created: %w, %w", name, failed, err)
	}
	if err := m.plug(host); err != nil {
		return nil, err
	}
	h.Manager.DoVM(func(_ int, r *vm.Reply) { failed = r.Err }, vm.Attach{Name: name, At: h.place(host, index)})
	if err := h.RunUntil(time.Minute, func() bool { return failed != nil || m.settled(host) && m.ready() }); err != nil || failed != nil {
		return nil, fmt.Errorf("lab: machine %q gets no addresses: %w, %w", name, failed, err)
	}
	return m, nil
}

// after calls a function in virtual time.
func (h *Machines) after(d time.Duration, fn func()) { h.Sim.After(d, fn) }

// plug puts the machine on its function at a host.
func (m *Machine) plug(host int) error {
	return m.h.Sim.PlaceVM(m.Name, m.h.function(host, m.index), sim.VMOptions{
		GUID: m.guid, OwnLID: models[m.h.way].kind == subnet.OwnLID,
	})
}

// Interface is what the manager knows of the machine.
func (m *Machine) Interface() *vm.Interface {
	if v := m.h.keeper().VMs(); v != nil {
		return v.Interface(m.Name)
	}
	return nil
}

// settled reports whether the manager has the machine at a host, and is done.
func (m *Machine) settled(host int) bool {
	i := m.Interface()
	return i != nil && i.State == vm.Attached && i.Doing == "" && i.Place == m.h.place(host, m.index) && i.Placement == subnet.PlacementPlaced
}

// ready reports whether the machine's function carries packets to and from its address.
func (m *Machine) ready() bool {
	st, ok := m.h.Sim.VM(m.Name)
	i := m.Interface()
	if !ok || i == nil || st.State != ib.StateActive || st.LID == 0 || st.GID.GUID() != m.guid {
		return false
	}
	return models[m.h.way].kind == subnet.SharedLID || st.LID == i.LID
}

// Host is where the machine is.
func (m *Machine) Host() int { return m.host }

// own is the LID of the machine's function; 0: it is the port's.
func (m *Machine) own() ib.LID {
	if models[m.h.way].kind != subnet.OwnLID {
		return 0
	}
	st, _ := m.h.Sim.VM(m.Name)
	return st.LID
}

// Connect starts a stream from the machine to a host, or from a host to it, out of band.
func (m *Machine) Connect(peer int, out bool, o adapter.Options, s rc.Sender, p program.Stream) (*MachineStream, error) {
	x := &MachineStream{Stream: &p, Sink: &program.Sink{}, Peer: peer}
	a, b := m.h.Adapters[m.host], m.h.Adapters[peer]
	var mine, theirs adapter.Program = x.Stream, x.Sink
	if !out {
		mine, theirs = theirs, mine
	}
	g := o
	if m.h.way != hv.ThreeStages {
		g.QPN, g.LID = m.next, m.own()
		m.next++
	}
	var err error
	if x.Mine, err = a.Connect(g, mine); err != nil {
		return nil, err
	}
	if x.Theirs, err = b.Connect(o, theirs); err != nil {
		return nil, err
	}
	const plenty = 1 << 30
	x.Mine.PostReceives(plenty)
	x.Theirs.PostReceives(plenty)
	x.started, x.number = m.h.path(peer, x.Mine.LID()), x.Mine.QPN()
	if err := x.Theirs.Start(rc.Connect{RemoteQPN: x.number, Path: x.started}, s); err != nil {
		return nil, err
	}
	if err := x.Mine.Start(rc.Connect{RemoteQPN: x.Theirs.QPN(), Path: m.h.path(m.host, b.LID())}, s); err != nil {
		return nil, err
	}
	m.Streams = append(m.Streams, x)
	if m.h.way == hv.ThreeStages {
		m.Session.Add(len(m.Streams), x.Mine, x.Theirs)
	}
	if out {
		m.programs = append(m.programs, x.Stream)
		x.Run(x.Mine)
	} else {
		x.Run(x.Theirs)
	}
	return x, nil
}
