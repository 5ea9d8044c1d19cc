package lab

import (
	"errors"
	"fmt"
	"time"

	"heddle/ib"
	"heddle/sim/host/adapter"
	"heddle/sim/host/rc"
	hv "heddle/sim/hypervisor"
	"heddle/subnet"
	"heddle/vm"
)

// Move is a live migration of a Machine.
type Move struct {
	*hv.Migration
	m        *Machine
	from, to int
	carrier  *hv.Carrier
	replied  error
	// Sent and Sets are the packets and Sets that the manager sent meanwhile, Blocks the
	// blocks of forwarding tables that switches wrote; valid when it has ended.
	Sent, Sets, Blocks int
	began              time.Duration
	ended              bool
}

// Migrate begins the migration of the machine to a host. The hypervisors' connection
// has options o and sender s.
func (m *Machine) Migrate(to int, c hv.Config, o adapter.Options, s rc.Sender) (*Move, error) {
	h := m.h
	c.Way = h.way
	v := &Move{m: m, from: m.host, to: to, began: h.now()}
	a, b := h.Adapters[m.host], h.Adapters[to]
	var err error
	if v.carrier, err = hv.OpenCarrier(a, b, o, s, h.path(m.host, b.LID()), h.path(to, a.LID())); err != nil {
		return nil, err
	}
	v.carrier.SetPeers(h.gid(h.ports[m.host]), h.gid(h.ports[to]))
	if v.Migration, err = hv.New(c, v); err != nil {
		return nil, err
	}
	v.Session = m.Session
	for _, x := range m.Streams {
		v.Connections = append(v.Connections, x.Mine)
	}
	v.Sent, v.Sets = h.sums()
	v.Blocks = int(h.Sim.Stats().LFTSets)
	v.Start()
	v.watch()
	return v, nil
}

// watch waits for the end of the migration, and ends what is left of it.
func (v *Move) watch() {
	h := v.m.h
	switch {
	case !v.Done():
		h.after(time.Millisecond, v.watch)
		return
	case v.Err() != nil && v.migrating(): // it failed before the manager had to act
		v.ask(vm.RollBack{Name: v.m.Name}, func(error) {})
	}
	v.carrier.Close()
	sent, sets := h.sums()
	v.Sent, v.Sets, v.Blocks = sent-v.Sent, sets-v.Sets, int(h.Sim.Stats().LFTSets)-v.Blocks
	v.ended = true
	if h.OnMoved != nil {
		h.OnMoved(v.m)
	}
}

// gid is the GID of a GUID.
func (h *Machines) gid(g ib.GUID) ib.GID { return ib.MakeGID(h.cfg.Prefix, g) }

func (v *Move) migrating() bool {
	i := v.m.Interface()
	return i != nil && i.State == vm.Migrating
}

// Ended reports whether it has ended and been counted.
func (v *Move) Ended() bool { return v.ended }

// Began is its time 0 by Now.
func (v *Move) Began() time.Duration { return v.began }

func (h *Machines) now() time.Duration { return h.Sim.Now().Sub(h.began) }

// Now implements hv.Site.
func (v *Move) Now() time.Duration { return v.m.h.now() }

// After implements hv.Site.
func (v *Move) After(d time.Duration, fn func()) { v.m.h.after(d, fn) }

// Reserve implements hv.Site: the manager's migrate.
func (v *Move) Reserve(done func(error)) {
	v.ask(vm.Migrate{Name: v.m.Name, To: v.m.h.place(v.to, v.m.index)}, done)
}

// operationAgain is after how long a hypervisor repeats an operation without an answer: the
// manager may have died, and operations are idempotent.
const operationAgain = 500 * time.Millisecond

// ask gives the manager an operation until it is answered.
func (v *Move) ask(op vm.Op, done func(error)) {
	answered := false
	var try func()
	try = func() {
		if answered {
			return
		}
		v.After(operationAgain, try)
		k := v.m.h.keeper()
		if k.State() == subnet.Standby {
			return // it refuses operations
		}
		k.DoVM(func(_ int, r *vm.Reply) {
			if !answered {
				answered = true
				done(r.Err)
			}
		}, op)
	}
	try()
}

// Send implements hv.Site.
func (v *Move) Send(bytes int) { v.carrier.Send(bytes) }

// Arrived implements hv.Site.
func (v *Move) Arrived() int64 { return v.carrier.Arrived() }

// Broken implements hv.Site.
func (v *Move) Broken() error { return v.carrier.Broken() }

// Stop implements hv.Site.
func (v *Move) Stop() {
	for _, p := range v.m.programs {
		p.Pause()
	}
}

// Run implements hv.Site.
func (v *Move) Run() {
	for _, p := range v.m.programs {
		p.Continue()
	}
}

// Unplug implements hv.Site.
func (v *Move) Unplug() error { return v.m.h.Sim.DetachVM(v.m.Name) }

// Plug implements hv.Site.
func (v *Move) Plug(back bool) error {
	if v.m.host = v.to; back {
		v.m.host = v.from
	}
	return v.m.plug(v.m.host)
}

// errRolledBack is why a migration failed that the manager has rolled back.
var errRolledBack = errors.New("lab: the manager has rolled the migration back")

// settleLimit is how long a hypervisor waits for the manager.
const settleLimit = 30 * time.Second

// Settle implements hv.Site: the manager's finish, or its rollback.
func (v *Move) Settle(done func(error)) {
	back := v.m.host == v.from
	var op vm.Op = vm.Finish{Name: v.m.Name}
	if back {
		op = vm.RollBack{Name: v.m.Name}
	}
	v.replied = nil
	if !back || v.migrating() {
		v.ask(op, func(err error) { v.replied = err })
	}
	v.await(done, v.Now()+settleLimit, back)
}

// await looks until the manager is done.
func (v *Move) await(done func(error), until time.Duration, back bool) {
	i := v.m.Interface()
	switch {
	case v.m.settled(v.m.host):
		done(nil)
	case v.replied != nil && !back:
		done(v.replied)
	case !back && i != nil && v.m.settled(v.from):
		done(fmt.Errorf("%w: %s", errRolledBack, i.Reason))
	case v.Now() >= until:
		done(fmt.Errorf("lab: machine %q gets no addresses at host %d: %+v", v.m.Name, v.m.host, i))
	default:
		v.After(50*time.Microsecond, func() { v.await(done, until, back) })
	}
}

// Ready implements hv.Site.
func (v *Move) Ready() bool { return v.m.ready() }

// At implements hv.Site.
func (v *Move) At() (*adapter.Adapter, ib.LID) { return v.m.h.Adapters[v.m.host], v.m.own() }
