package shell

import (
	"time"

	"heddle/mad"
	"heddle/store"
	"heddle/subnet"
	"heddle/vm"
)

// VMCore is vm.Core, or a test's substitute.
type VMCore interface {
	Step(now mad.Time, ev vm.Event, out *vm.Output)
}

// VMEdge carries out the effects of a vm.Core.
type VMEdge interface {
	Clock
	Store
	Timer
	// Published is called with a view after Shared.VMs has it.
	Published(v *vm.View)
	// Reported is called with reports of the subnet manager before the core gets them.
	Reported(list []subnet.PlacementReport)
	// Answered is called with the answer to an operation and the time it took.
	Answered(op vm.Op, r *vm.Reply, took time.Duration)
	Tell(list []vm.Notice)
}

// Ask is a batch of operations whose caller waits.
type Ask struct {
	Ops []vm.Op
	// Taken, if not nil, is called when the core has stored or refused them.
	Taken func()
	// Answer, if not nil, is called once for each operation, with its number. r is valid during
	// the call.
	Answer func(i int, r *vm.Reply)
}

// asked is an operation that has not been answered.
type asked struct {
	by *Ask
	i  int // in by.Ops
	at mad.Time
}

// VM drives the core of an address manager.
type VM struct {
	queue[vm.Event]
	core   VMCore
	edge   VMEdge
	shared *Shared
	seen   *subnet.Snapshot // the snapshot that the core has
	out    vm.Output

	tag   uint64 // of the last operation
	asked map[uint64]asked
	taken []*Ask // passed to the core, Taken not called yet
}

// NewVM returns a driver that waits for Start.
func NewVM(core VMCore, edge VMEdge, shared *Shared) *VM {
	v := &VM{core: core, edge: edge, shared: shared, asked: map[uint64]asked{}}
	v.handle = v.handleEvent
	return v
}

// Start restores the stored state. Its placements and memberships wait for the subnet manager,
// which takes them before it starts.
func (v *VM) Start(records []store.Record) { v.Step(vm.Start{Records: records}) }

// Step passes an event to the core, or queues it while another one is carried out.
func (v *VM) Step(ev vm.Event) {
	v.run(ev)
	if v.busy {
		return
	}
	for _, a := range v.taken {
		if a.Taken != nil && !v.halted {
			a.Taken()
		}
	}
	clear(v.taken)
	v.taken = v.taken[:0]
}

// Stop ends the driver in order: what the core has not stored yet is stored.
func (v *VM) Stop() {
	v.Step(vm.Stop{})
	v.Halt()
}

// Mail passes the newest snapshot to the core, and then the other waiting events: reports refer
// to the snapshot that was published before them.
func (v *VM) Mail() { v.Step(nil) }

func (v *VM) handleEvent(ev vm.Event) {
	if ev != nil {
		v.carryOut(ev)
		return
	}
	if snap := v.shared.Snap.Load(); snap != v.seen {
		v.seen = snap
		v.carryOut(vm.Published{Snap: snap})
	}
	if list, ok := v.shared.reports.take(); ok {
		v.edge.Reported(list)
		v.carryOut(vm.Reports{List: list})
	}
	if asks, ok := v.shared.asks.take(); ok {
		v.request(asks)
	}
}

// request passes the waiting operations to the core in one step: one write stores them, and
// their LIDs move in common blocks.
func (v *VM) request(asks []*Ask) {
	now := v.edge.Now()
	var list []vm.Request
	for _, a := range asks {
		for i, op := range a.Ops {
			v.tag++
			v.asked[v.tag] = asked{a, i, now}
			list = append(list, vm.Request{Tag: v.tag, Op: op})
		}
	}
	v.taken = append(v.taken, asks...)
	v.carryOut(vm.Requests{List: list})
}

// carryOut passes one event to the core and carries out its output, in the order of vm.Output.
func (v *VM) carryOut(ev vm.Event) {
	if v.halted {
		return
	}
	v.out.Reset()
	v.core.Step(v.edge.Now(), ev, &v.out)
	out := &v.out
	if len(out.Persist) > 0 || out.PersistGen != 0 {
		v.add(vm.Persisted{Gen: out.PersistGen, Err: v.edge.Apply(out.Persist)})
		if v.halted {
			return
		}
	}
	if out.Publish != nil {
		v.shared.VMs.Store(out.Publish)
		v.edge.Published(out.Publish)
	}
	if out.PartitionsChanged {
		v.shared.setMembers(out.Partitions)
	}
	if out.PlacementsChanged {
		v.shared.setPlacements(placementChange{out.Put, out.Drop, out.All})
	}
	for i := range out.Replies {
		v.answer(&out.Replies[i])
	}
	v.edge.Tell(out.Notices)
	v.edge.Wake(out.Timer)
}

func (v *VM) answer(r *vm.Reply) {
	a, ok := v.asked[r.Tag]
	if !ok {
		return
	}
	delete(v.asked, r.Tag)
	v.edge.Answered(a.by.Ops[a.i], r, v.edge.Now().Sub(a.at))
	if a.by.Answer != nil {
		a.by.Answer(a.i, r)
	}
}
