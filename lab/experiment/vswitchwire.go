package experiment

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/lab"
	"heddle/lab/experiment/bed"
	"heddle/mad"
	"heddle/route"
	"heddle/route/engine/ftree"
	"heddle/route/engine/minhop"
	"heddle/route/move"
	"heddle/sim"
	"heddle/sm"
	"heddle/subnet"
)

// Latencies of the simulated wire: a cable, with the switch behind it, and an
// agent's work on an SMP.
const (
	hopLatency = bed.HopLatency
	smaLatency = bed.SMALatency
	// smiLatency is r of equation 2 for each link, where directed routes are compared with LID routes.
	smiLatency = 2 * time.Microsecond
)

// settleTime is how long the subnet is left alone after it has come up.
const settleTime = 5 * time.Second

// wire is a subnet with hypervisors and a manager whose SMPs are counted.
type wire struct {
	c    *lab.Cluster
	m    *lab.Manager
	kind move.Kind // of its migrations: what its hypervisors' LIDs are
	seed uint64
	vms  []*wireVM

	under map[uint32]bool // requests under way, by transaction id: is it Set(LinearForwardingTable)?
	sets  int             // of those
	from  mad.Time        // when the first of those was sent
	still mad.Time        // when the last request was answered
	cost  wireCost
	reads int // of the manager's clock
}

// wireCost is what a manager did on the wire.
type wireCost struct {
	sets  int           // Set(LinearForwardingTable) that agents carried out
	hyper int           // Sets at hypervisors: virtual functions, their keys and GUIDs
	all   int           // SMPs of all kinds
	busy  time.Duration // virtual time with a Set(LinearForwardingTable) under way
	took  time.Duration // virtual time from the request to its report
	wait  time.Duration // of that, with no request under way
	cpu   time.Duration // processor time of the manager's steps and jobs
}

// wireVM is a virtual machine that migrates once: from its place to another.
type wireVM struct {
	name     string
	guid     ib.GUID
	from, to subnet.Place
	on, off  sim.VF
	lid      ib.LID
	mode     move.Mode
	leaf     bool // both places are on one leaf
}

// wireOptions say what newWire makes.
type wireOptions struct {
	hosts  int // a tree of the generator's
	kind   move.Kind
	modes  []move.Mode
	pairs  int  // VMs of each mode that migrate between random hosts
	vfs    int  // of each hypervisor; 0 = no hypervisors at all
	every  bool // all hosts are hypervisors, not just those that VMs are to be on
	window int  // SMPs in flight; 0 = the manager's own
	still  bool // nothing takes virtual time
	seed   uint64
	smi    time.Duration // what a directed route takes more over each link
}

// newWire brings up a subnet whose hypervisors have vSwitch adapters.
func newWire(o wireOptions) (*wire, error) {
	f, err := fabric.Generate(fabric.FatTree{Hosts: o.hosts}, fabric.GenerateOptions{})
	if err != nil {
		return nil, err
	}
	sc := sim.Config{Seed: o.seed, HopLatency: hopLatency, SMALatency: smaLatency}
	if o.still {
		sc.HopLatency, sc.SMALatency = 0, 0
	}
	sc.SMILatency = o.smi
	w := &wire{kind: o.kind, seed: o.seed, under: map[uint32]bool{}}
	if w.c, err = lab.NewCluster(f, sc); err != nil {
		return nil, err
	}
	var hosts []int // but the manager's
	own := -1
	for i := range f.Nodes {
		switch {
		case f.Nodes[i].IsSwitch():
		case own < 0:
			own = i
		default:
			hosts = append(hosts, i)
		}
	}
	if o.vfs > 0 {
		if err := w.place(f, hosts, o); err != nil {
			return nil, err
		}
	}
	if w.m, err = w.c.Attach(f.Nodes[own].ID, wireConfig(&o), nil); err != nil {
		return nil, err
	}
	w.m.Clock = func() time.Duration { w.reads++; return processorTime() }
	w.m.OnSend, w.m.OnReceive = w.onSend, w.onReceive
	if err := w.m.Start(); err != nil {
		return nil, err
	}
	w.m.SetPlacements(sm.SetPlacements{All: true}) // an address manager without VMs
	if err := w.c.RunUntil(time.Hour, w.quiet); err != nil {
		return nil, fmt.Errorf("the subnet does not come up: %w", err)
	}
	// Virtual functions are found, and their LIDs routed, after the subnet is up.
	w.c.Run(settleTime)
	return w, w.c.RunUntil(time.Hour, w.quiet)
}

// wireConfig is the manager's configuration.
func wireConfig(o *wireOptions) sm.Config {
	cfg := lab.DefaultConfig()
	cfg.Engines = []route.Engine{ftree.Engine{}, minhop.Engine{}}
	cfg.SweepInterval = 0 // nothing goes on but what is counted
	cfg.VSwitchPrepopulate = o.kind == move.Swap
	if o.window > 0 {
		cfg.Window, cfg.MaxWindow = o.window, o.window
	}
	return cfg
}

// clockCost is what reading processorTime adds to what is measured with it.
var clockCost = sync.OnceValue(func() time.Duration {
	const n = 1 << 14
	began := processorTime()
	for range n {
		processorTime()
	}
	return (processorTime() - began) / n
})

// spent is the processor time of the manager since reset, but for that of reading the
// clock: twice for each piece that is measured, of which one reading counts.
func (w *wire) spent() time.Duration {
	return w.m.StepCPU + w.m.JobCPU + w.m.PlanCPU - time.Duration(w.reads/2)*clockCost()
}

func (w *wire) reset() { w.m.StepCPU, w.m.JobCPU, w.m.PlanCPU, w.reads = 0, 0, 0, 0 }

// processorTime is what this process has spent, whatever else the machine does.
func processorTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

func (w *wire) quiet() bool { return w.m.Up() && w.m.Idle() && len(w.under) == 0 }

// place chooses hypervisors, and for each VM one that it is on and one that it will
// be on, all different: mode by mode one between two hosts of a leaf, and o.pairs
// anywhere.
func (w *wire) place(f *fabric.Fabric, hosts []int, o wireOptions) error {
	rng := rand.New(rand.NewPCG(o.seed, 0x76537769746368))
	leaf := func(h int) int32 { return f.Nodes[h].Ports[1].Peer.Node }
	free := make([]int, len(hosts))
	for i, k := range rng.Perm(len(hosts)) {
		free[i] = hosts[k]
	}
	if len(free) < 2*len(o.modes)*(o.pairs+1) {
		return fmt.Errorf("%d hosts are too few for %d pairs of each mode", len(hosts), o.pairs)
	}
	hypervisor := map[int]bool{}
	add := func(a, b int, mode move.Mode, leaf bool) {
		hypervisor[a], hypervisor[b] = true, true
		k := len(w.vms)
		w.vms = append(w.vms, &wireVM{
			name: fmt.Sprintf("vm%d", k), guid: 0x0200_0000_0000_0001 + ib.GUID(k), mode: mode, leaf: leaf,
			from: subnet.Place{Port: f.Nodes[a].Ports[1].GUID, Function: 1}, on: sim.VF{Node: a, Port: 1, Index: 1},
			to: subnet.Place{Port: f.Nodes[b].Ports[1].GUID, Function: 1}, off: sim.VF{Node: b, Port: 1, Index: 1},
		})
	}
	take := func(i int) int {
		h := free[i]
		free = append(free[:i:i], free[i+1:]...)
		return h
	}
	for _, mode := range o.modes {
		a := take(0)
		if near := slices.IndexFunc(free, func(h int) bool { return leaf(h) == leaf(a) }); near >= 0 {
			add(a, take(near), mode, true)
		}
		for range o.pairs {
			add(take(0), take(0), mode, false)
		}
	}
	for h := range f.Nodes {
		if f.Nodes[h].IsSwitch() || !hypervisor[h] && !o.every {
			continue
		}
		if err := w.c.Sim.AddHypervisor(f.Nodes[h].ID, 1, sim.Hypervisor{Model: sim.VSwitch, VFs: o.vfs}); err != nil {
			return err
		}
	}
	return nil
}

// tid is the manager's own part of a transaction id.
func tid(p *mad.Packet) uint32 { return binary.BigEndian.Uint32(p.Data[12:]) }

func (w *wire) onSend(p *mad.Packet) {
	method := ib.Method(p.Data[3])
	if method != ib.MethodGet && method != ib.MethodSet {
		return
	}
	if _, again := w.under[tid(p)]; again {
		return
	}
	now := w.c.Sim.Now()
	if len(w.under) == 0 {
		w.cost.wait += now.Sub(w.still)
	}
	w.cost.all++
	lft := false
	if method == ib.MethodSet {
		switch ib.AttrID(binary.BigEndian.Uint16(p.Data[16:])) {
		case smp.AttrLFT:
			lft = true
		case smp.AttrVPortInfo, smp.AttrVPortGUIDInfo, smp.AttrVPortPartitionTable, smp.AttrVirtualizationInfo:
			w.cost.hyper++
		}
	}
	if lft {
		if w.sets == 0 {
			w.from = now
		}
		w.sets++
	}
	w.under[tid(p)] = lft
}

func (w *wire) onReceive(p *mad.Packet) {
	if len(p.Data) < 24 || !ib.Method(p.Data[3]).IsResponse() {
		return
	}
	lft, ok := w.under[tid(p)]
	if !ok {
		return
	}
	now := w.c.Sim.Now()
	if delete(w.under, tid(p)); len(w.under) == 0 {
		w.still = now
	}
	if lft {
		if w.sets--; w.sets == 0 {
			w.cost.busy += now.Sub(w.from)
		}
	}
}

// measure counts what f does.
func (w *wire) measure(f func() error) (wireCost, error) {
	w.cost, w.still = wireCost{}, w.c.Sim.Now()
	w.reset()
	sets, began := w.c.Sim.Stats().LFTSets, w.c.Sim.Now()
	if err := f(); err != nil {
		return wireCost{}, err
	}
	w.cost.took = w.c.Sim.Now().Sub(began)
	wait := w.cost.wait // what comes after is tidying up
	if err := w.c.RunUntil(time.Hour, w.quiet); err != nil {
		return wireCost{}, err
	}
	w.cost.wait = wait
	w.cost.sets = int(w.c.Sim.Stats().LFTSets - sets)
	w.cost.cpu = w.spent()
	return w.cost, nil
}

// placement is where a VM is to be.
func (v *wireVM) placement(at subnet.Place) subnet.Placement {
	return subnet.Placement{GUID: v.guid, Place: at, LIDKind: subnet.OwnLID, LID: v.lid, Mode: placementMode(v.mode)}
}

// create starts all VMs.
func (w *wire) create() (wireCost, error) {
	return w.measure(func() error {
		var put []subnet.Placement
		for _, v := range w.vms {
			if err := w.c.Sim.PlaceVM(v.name, v.on, sim.VMOptions{GUID: v.guid, OwnLID: true}); err != nil {
				return err
			}
			put = append(put, v.placement(v.from))
		}
		reports, err := w.set(put)
		for i, v := range w.vms {
			v.lid = reports[i].LID
		}
		return err
	})
}

// migrate moves VMs to their other places, as one batch.
func (w *wire) migrate(vms ...*wireVM) (wireCost, []subnet.PlacementReport, error) {
	var reports []subnet.PlacementReport
	cost, err := w.measure(func() error {
		var put []subnet.Placement
		for _, v := range vms {
			if err := w.c.Sim.MoveVM(v.name, v.off); err != nil {
				return err
			}
			put = append(put, v.placement(v.to))
			v.from, v.to, v.on, v.off = v.to, v.from, v.off, v.on
		}
		var err error
		reports, err = w.set(put)
		return err
	})
	return cost, reports, err
}

// set sets placements and waits until all are in their places.
func (w *wire) set(put []subnet.Placement) ([]subnet.PlacementReport, error) {
	reports := make([]subnet.PlacementReport, len(put))
	index := make(map[ib.GUID]int, len(put))
	for i := range put {
		index[put[i].GUID] = i
	}
	left, seen := len(put), len(w.m.Placements)
	var refused error
	w.m.SetPlacements(sm.SetPlacements{Put: put})
	err := w.c.RunUntil(time.Hour, func() bool {
		for ; seen < len(w.m.Placements); seen++ {
			r := w.m.Placements[seen]
			i, ok := index[r.GUID]
			if !ok || r.Place != put[i].Place {
				continue
			}
			switch {
			case r.State == subnet.PlacementRefused:
				refused = fmt.Errorf("the manager does not place %v at %v: %s", r.GUID, r.Place, r.Reason)
			case r.State == subnet.PlacementPlaced && reports[i].State != subnet.PlacementPlaced:
				reports[i] = r
				left--
			}
		}
		return left == 0 || refused != nil
	})
	if refused != nil {
		return reports, refused
	}
	if err != nil {
		return reports, fmt.Errorf("%d of %d placements are not complete: %w", left, len(put), err)
	}
	return reports, nil
}

// predicted is the paper's SMP count of a migration, for the installed tables.
func (w *wire) predicted(v *wireVM) (move.Survey, error) {
	with, err := w.partner(v)
	if err != nil {
		return move.Survey{}, err
	}
	return move.Sample(w.m.Snap.Graph, w.m.Snap.Tables, w.kind, v.mode, 1, func() (lid, other ib.LID) { return v.lid, with })
}

// partner is the LID that a migration copies, or exchanges the VM's with.
func (w *wire) partner(v *wireVM) (ib.LID, error) {
	if w.kind == move.Swap {
		st, err := w.c.Sim.VPort(v.off)
		return st.LID, err
	}
	return w.c.Sim.PortInfo(v.off.Node, int(v.off.Port)).LID, nil
}

// placementMode is the mode of a placement for a mode of moves.
func placementMode(m move.Mode) subnet.MoveMode {
	if m == move.Minimal {
		return subnet.MoveMinimal
	}
	return subnet.MoveBalanced
}
