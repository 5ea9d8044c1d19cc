package lab

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"heddle/ib"
	"heddle/sim"
	"heddle/sim/hypervisor/guests"
	"heddle/store"
	"heddle/subnet"
	"heddle/vm"
	"heddle/vmdriver"
)

// driven is a cloud whose hypervisors a driver runs, with a whole manager: interfaces,
// placements, tables, in one virtual time.
type driven struct {
	*cloud
	kind  subnet.LIDKind
	st    *store.Memory
	rng   *rand.Rand
	g     *guests.Guests
	core  *vmdriver.Core
	life  int // of the driver
	view  *vm.View
	armed int
	open  map[int]func() // calls that a manager has not answered: what to say if it dies
	calls int
	fresh map[string]bool // VMs that may boot: never did, or a host died
	names []string
	log   []string
}

func newDriven(t *testing.T, seed uint64, h sim.Hypervisor, kind subnet.LIDKind) *driven {
	t.Helper()
	d := &driven{
		cloud: layCloud(t, 3, 3, h, sim.Config{Seed: seed, HopLatency: time.Microsecond, SMALatency: 5 * time.Microsecond}, nil),
		kind:  kind, st: store.NewMemory(), rng: rand.New(rand.NewPCG(seed, 0x6476)), open: map[int]func(){}, fresh: map[string]bool{},
	}
	c := guests.Defaults()
	c.Machine.Memory, c.Rate, c.Probe = 8<<20, 1e9, 0
	var err error
	if d.g, err = guests.New(d.Sim, c); err != nil {
		t.Fatal(err)
	}
	d.manage()
	d.drive()
	d.Sim.After(time.Millisecond, d.feed)
	return d
}

func (d *driven) say(format string, a ...any) {
	d.log = append(d.log, fmt.Sprintf("%v ", time.Duration(d.Sim.Now()))+fmt.Sprintf(format, a...))
}

func (d *driven) fail(format string, a ...any) {
	d.t.Helper()
	d.t.Fatalf("%s\n%s\n%s", fmt.Sprintf(format, a...), strings.Join(d.log[max(0, len(d.log)-60):], "\n"), tail(d.m))
}

// manage starts a manager with what is stored.
func (d *driven) manage() {
	d.t.Helper()
	m, err := d.Attach(d.hosts[0], d.cfg, d.st)
	if err != nil {
		d.t.Fatal(err)
	}
	m.ServeVMs(vm.Defaults())
	d.m, d.view = m, nil
	d.say("a manager starts")
	if err := m.Start(); err != nil {
		d.t.Fatal(err)
	}
}

func (d *driven) kill() {
	d.say("the manager dies")
	d.m.Kill()
	d.view = nil
	list := d.open
	d.open = map[int]func(){}
	for i := range d.calls + 1 {
		if end := list[i]; end != nil {
			end()
		}
	}
}

// drive starts a driver, in place of the last one.
func (d *driven) drive() {
	d.life++
	d.say("driver %d starts", d.life)
	d.core = vmdriver.New(vmdriver.Defaults())
	me := d.life
	d.g.OnStatus = func(e vmdriver.Event) {
		if st, ok := e.(vmdriver.Status); ok {
			d.say("status %+v", st)
		}
		d.Sim.After(50*time.Microsecond, func() { d.step(me, e) })
	}
	d.step(me, d.g.Inventory())
	d.view = nil
}

func (d *driven) step(me int, e vmdriver.Event) {
	if me != d.life {
		return
	}
	var out vmdriver.Output
	d.core.Step(d.Sim.Now(), e, &out)
	for _, c := range out.Calls {
		d.call(me, c)
	}
	for _, o := range out.Orders {
		d.say("order %v %s %v", o.Kind, o.Name, o.Place)
		if o.Kind == vmdriver.Start {
			if !d.fresh[o.Name] && !slices.Contains(d.Sim.VMs(), o.Name) {
				d.fail("%s boots again: it was lost", o.Name)
			}
		}
		d.Sim.After(50*time.Microsecond, func() { d.g.Do(o) })
	}
	d.armed++
	n := d.armed
	if out.Timer < d.Sim.Now().Add(time.Hour) {
		d.Sim.At(out.Timer, func() {
			if d.armed == n {
				d.step(me, vmdriver.Timer{})
			}
		})
	}
}

// feed tells the driver which interfaces changed, as GET /v1/vms:changes does.
func (d *driven) feed() {
	d.Sim.After(200*time.Microsecond, d.feed)
	if d.m.Dead || d.m.VMs() == nil || d.m.VMs() == d.view || !d.m.Up() {
		return
	}
	old := d.view
	d.view = d.m.VMs()
	if old == nil {
		d.step(d.life, vmdriver.Connected{})
		return
	}
	for _, c := range d.view.Changes(old) {
		d.step(d.life, vmdriver.Changed{Name: c.Name, Deleted: c.Gone})
	}
}

func shown(i *vm.Interface) vmdriver.Interface {
	at := func(p subnet.Place) vmdriver.Place { return vmdriver.Place{Port: p.Port, Function: p.Function} }
	doing := map[string]vmdriver.Doing{
		vm.DoingAttach: vmdriver.Attaching, vm.DoingFinish: vmdriver.Finishing, vm.DoingRollBack: vmdriver.RollingBack, vm.DoingDetach: vmdriver.Detaching,
	}
	return vmdriver.Interface{
		Name: i.Name, State: vmdriver.State(i.State), Doing: doing[i.Doing], At: at(i.Place), To: at(i.Dest), GUID: i.GUID,
		OwnLID: i.LIDKind == subnet.OwnLID, Reason: i.Reason,
	}
}

// call performs a request of the driver, as the API does.
func (d *driven) call(me int, c vmdriver.Call) {
	d.calls++
	n := d.calls
	answer := func(a vmdriver.Answer) {
		delete(d.open, n)
		a.Call = c
		if c.Verb != vmdriver.Report {
			d.say("%v %s: %v %+v %s", c.Verb, c.Name, a.Result, a.View, a.Reason)
		}
		d.Sim.After(100*time.Microsecond, func() { d.step(me, a) })
	}
	d.open[n] = func() { answer(vmdriver.Answer{Result: vmdriver.Unknown}) }
	d.Sim.After(100*time.Microsecond, func() {
		if d.open[n] == nil {
			return
		}
		if d.m.Dead || d.m.VMs() == nil {
			d.open[n]()
			return
		}
		done := func(_ int, r *vm.Reply) {
			switch {
			case d.open[n] == nil:
			case errors.Is(r.Err, vm.ErrNotFound):
				answer(vmdriver.Answer{Result: vmdriver.Absent})
			case errors.Is(r.Err, vm.ErrStore):
				answer(vmdriver.Answer{Result: vmdriver.Unknown})
			case r.Err != nil:
				answer(vmdriver.Answer{Result: vmdriver.Refused, Reason: r.Err.Error()})
			default:
				answer(vmdriver.Answer{View: shown(&r.Interface)})
			}
		}
		switch i := d.m.VMs().Interface(c.Name); {
		case c.Verb == vmdriver.List:
			var a vmdriver.Answer
			for i := range d.m.VMs().All() {
				a.List = append(a.List, shown(i))
			}
			answer(a)
		case i == nil:
			answer(vmdriver.Answer{Result: vmdriver.Absent})
		case c.Verb == vmdriver.Finish:
			d.m.DoVM(done, vm.Finish{Name: c.Name})
		case c.Verb == vmdriver.RollBack:
			d.m.DoVM(done, vm.RollBack{Name: c.Name})
		case c.Verb == vmdriver.Move:
			d.m.DoVM(done, vm.Move{Name: c.Name, To: subnet.Place{Port: c.Place.Port, Function: c.Place.Function}})
		default:
			answer(vmdriver.Answer{View: shown(i)})
		}
	})
}

// create makes an interface at a host.
func (d *driven) create(name string, host int) {
	d.fresh[name] = true
	d.names = append(d.names, name)
	d.m.DoVM(func(_ int, r *vm.Reply) {
		if r.Err != nil {
			d.fail("%v", r.Err)
		}
	}, vm.Create{I: vm.Interface{Name: name, LIDKind: d.kind, GUID: 0x0200_0000_0000_1000 + ib.GUID(len(d.names)), Place: d.place(host, 0)}})
}

// settle runs until every VM runs where its interface is, which is placed there.
func (d *driven) settle(limit time.Duration) {
	d.t.Helper()
	why := ""
	err := d.RunUntil(limit, func() bool {
		why = "no manager"
		if d.m.Dead || !d.m.Up() || d.m.VMs() == nil {
			return false
		}
		inv := d.g.Inventory()
		for _, name := range d.names {
			i := d.m.VMs().Interface(name)
			k := slices.IndexFunc(inv.Guests, func(g vmdriver.Guest) bool { return g.Name == name })
			if i == nil || k < 0 {
				why = fmt.Sprintf("%s: %+v %d", name, i, k)
				return false
			}
			g, v := inv.Guests[k], shown(i)
			st, _ := d.Sim.VM(name)
			if why = fmt.Sprintf("%s: %+v, %+v, %+v", name, *i, g, st); i.State != vm.Attached || i.Doing != "" || i.Placement != subnet.PlacementPlaced ||
				g.Phase != vmdriver.Running || g.At != v.At || st.Stopped || st.Next.Node >= 0 || st.State != ib.StateActive || st.GID.GUID() != i.GUID {
				return false
			}
			d.fresh[name] = false
		}
		return d.m.Idle()
	})
	if err != nil {
		d.fail("%v: %s", err, why)
	}
	for _, a := range d.names {
		for _, b := range d.names {
			if a != b {
				d.probe(a, b)
			}
		}
	}
}

// TestDriver: a driver and a whole manager. Operators migrate; the manager, the driver and
// hypervisors die and return; packets are lost. No VM boots twice while its host lives, and
// at the end each runs, alone, where its interface is, and answers.
func TestDriver(t *testing.T) {
	kinds := []struct {
		h    sim.Hypervisor
		kind subnet.LIDKind
	}{
		{sim.Hypervisor{Model: sim.VSwitch, VFs: 4}, subnet.OwnLID},
		{sim.Hypervisor{Model: sim.SharedPort, VFs: 4}, subnet.SharedLID},
		{sim.Hypervisor{Model: sim.VPorts, VFs: 4}, subnet.SharedLID},
		{sim.Hypervisor{Model: sim.VPorts, VFs: 4}, subnet.OwnLID},
	}
	first, n := seeds(24, 2000)
	for seed := first; seed < first+n; seed++ {
		x := kinds[seed%4]
		t.Run(fmt.Sprintf("%d %v %v", seed, x.h.Model, x.kind), func(t *testing.T) {
			d := newDriven(t, seed, x.h, x.kind)
			if err := d.RunUntil(time.Minute, func() bool { return d.m.Up() && d.m.VMs() != nil }); err != nil {
				t.Fatal(err)
			}
			for i := range 4 {
				d.create(fmt.Sprint("vm", i), 1+i*2)
			}
			d.settle(time.Minute)
			d.Sim.SetDrop([]float64{0, 0.005}[d.rng.IntN(2)])
			dies := d.rng.IntN(3) == 0
			for range 40 {
				d.Run(time.Duration(d.rng.IntN(60_000)) * time.Microsecond)
				switch x := d.rng.IntN(12); {
				case x < 7 && !d.m.Dead:
					name, host := d.names[d.rng.IntN(4)], 1+d.rng.IntN(8)
					d.m.DoVM(func(_ int, r *vm.Reply) { d.say("operator: migrate %s to %d: %v", name, host, r.Err) },
						vm.Migrate{Name: name, To: d.place(host, 0)})
				case x < 9 && !d.m.Dead:
					d.kill()
					d.Sim.After(time.Duration(d.rng.IntN(300))*time.Millisecond, d.manage)
				case x == 9:
					d.drive()
				case x == 10 && dies:
					host := d.hosts[1+d.rng.IntN(8)]
					d.say("%s dies", host)
					for _, name := range d.names {
						d.fresh[name] = true
					}
					_ = d.Sim.NodeDown(host)
					d.Sim.After(time.Duration(d.rng.IntN(2000))*time.Millisecond, func() { _ = d.Sim.NodeUp(host) })
				}
			}
			d.Sim.SetDrop(0)
			d.Run(3 * time.Second)
			d.settle(5 * time.Minute)
		})
	}
}
