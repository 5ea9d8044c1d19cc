// Package guests has simulated hypervisors obey a driver (package vmdriver): they start
// VMs on the functions of a sim.Subnet, copy their memory in rounds (sim/hypervisor/precopy)
// at the rate of the links, stop them, switch their functions and resume them. While a
// VM migrates, a peer sends it probes, so the outage that others see is measured.
//
// Guests lives in the time of its subnet, virtual or real, and is used under the same
// lock. VMs that somebody else placed (console commands) it leaves alone.
package guests

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"heddle/ib"
	"heddle/mad"
	"heddle/sim"
	"heddle/sim/hypervisor/precopy"
	"heddle/vmdriver"
)

// Config describes the VMs. Start from Defaults.
type Config struct {
	// Machine is the memory of a VM, and when its copy stops it. Chunk is set.
	Machine precopy.Config
	// Rate bounds the copies of a hypervisor, all together, in bytes/s; 0: its link does.
	Rate float64
	// Probe is the time between two probes of a peer during a migration; 0: none.
	Probe time.Duration
	Seed  uint64
}

// Defaults is a VM of 4 GiB that writes 100 MB/s in a tenth of it, and a probe each
// millisecond.
func Defaults() Config {
	m := precopy.Defaults()
	m.Memory, m.Dirty, m.Hot = 4<<30, 100e6, 0.1
	return Config{Machine: m, Probe: time.Millisecond, Seed: 1}
}

// chunks is how many parts a memory has at least when it is copied, so that a rate that
// changes counts, and most is how large they are at most, in bytes.
const (
	chunks = 256
	most   = 16 << 20
)

// look is how often Guests looks whether hosts and VMs are still there.
const look = 100 * time.Millisecond

// Guests are the VMs of the hypervisors of a subnet.
type Guests struct {
	// OnStatus is told what vmdriver.Core is to know. It must not call back.
	OnStatus func(vmdriver.Event)

	s     *sim.Subnet
	cfg   Config
	ports map[ib.GUID]sim.HypervisorPort
	list  map[string]*guest
	busy  map[ib.GUID]int // copies that leave a port, or arrive there
}

// guest is a VM of a driver.
type guest struct {
	vmdriver.Guest
	copy    *precopy.Copy
	from    ib.GUID // ports whose links the copy uses
	to      ib.GUID
	stopped mad.Time
	n       int // of the copy, so that what is under way of an earlier one does not count
	felt    *feeler
}

// New returns the guests of a subnet, none yet. Its hypervisors may be added later.
func New(s *sim.Subnet, c Config) (*Guests, error) {
	c.Machine.Chunk = int(min(most, max(int64(c.Machine.Page), c.Machine.Memory/chunks)))
	if _, err := precopy.New(c.Machine, c.Seed); err != nil {
		return nil, err
	}
	g := &Guests{s: s, cfg: c, list: map[string]*guest{}, busy: map[ib.GUID]int{}}
	g.readPorts()
	s.After(look, g.look)
	return g, nil
}

// readPorts reads which hypervisors there are, and reports whether that changed.
func (g *Guests) readPorts() bool {
	list := g.s.Hypervisors()
	if len(list) == len(g.ports) {
		return false // they never leave
	}
	g.ports = map[ib.GUID]sim.HypervisorPort{}
	for _, h := range list {
		g.ports[h.GUID] = h
	}
	return true
}

// Inventory is what a driver that begins is to know.
func (g *Guests) Inventory() vmdriver.Inventory {
	inv := vmdriver.Inventory{Ports: slices.Sorted(maps.Keys(g.ports))}
	for _, name := range slices.Sorted(maps.Keys(g.list)) {
		inv.Guests = append(inv.Guests, g.list[name].Guest)
	}
	return inv
}

// look looks for hypervisors that came, hosts that died, and VMs that somebody removed
// or moved.
func (g *Guests) look() {
	g.s.After(look, g.look)
	if g.readPorts() {
		g.tell(g.Inventory())
	}
	for _, name := range slices.Sorted(maps.Keys(g.list)) {
		x := g.list[name]
		st, ok := g.s.VM(name)
		at, here := g.place(st.At)
		switch {
		case !ok || !here:
			g.drop(x, "the VM was taken away")
		case !g.up(x.At):
			g.crash(x)
		case at != x.At && x.To == (vmdriver.Place{}):
			x.At = at
			g.status(x, "")
		}
	}
}

// crash is the end of the host of x. If the destination has all of it, x goes on there.
func (g *Guests) crash(x *guest) {
	if x.Phase == vmdriver.Stopped && g.up(x.To) {
		return
	}
	_ = g.s.RemoveVM(x.Name) // it is gone in any case
	g.drop(x, "its host died")
}

// drop forgets a VM that is no more.
func (g *Guests) drop(x *guest, why string) {
	g.endCopy(x)
	delete(g.list, x.Name)
	x.Failed = why
	g.tell(vmdriver.Status{Guest: x.Guest, Gone: true})
}

func (g *Guests) tell(e vmdriver.Event) {
	if g.OnStatus != nil {
		g.OnStatus(e)
	}
}

// status tells what x does, and why it did not do what it was told.
func (g *Guests) status(x *guest, failed string) {
	x.Failed = failed
	st := vmdriver.Status{Guest: x.Guest}
	st.Guest.Copy.Rounds = slices.Clone(x.Copy.Rounds)
	g.tell(st)
}

// place is what a driver calls a function.
func (g *Guests) place(f sim.VF) (vmdriver.Place, bool) {
	for guid, h := range g.ports {
		if h.Node == f.Node && h.Port == f.Port {
			return vmdriver.Place{Port: guid, Function: f.Index}, true
		}
	}
	return vmdriver.Place{}, false
}

// function is the function at a place.
func (g *Guests) function(p vmdriver.Place) sim.VF {
	h := g.ports[p.Port]
	return sim.VF{Node: h.Node, Port: h.Port, Index: p.Function}
}

func (g *Guests) up(p vmdriver.Place) bool {
	h, ok := g.ports[p.Port]
	return ok && g.s.Up(h.Node)
}

// Do carries an order out, or tells why it cannot be.
func (g *Guests) Do(o vmdriver.Order) {
	x := g.list[o.Name]
	if x == nil {
		x = &guest{Guest: vmdriver.Guest{Name: o.Name}}
		why := "there is no such VM"
		if o.Kind == vmdriver.Start {
			why = g.start(x, o)
		}
		if why != "" {
			x.Failed = why
			g.tell(vmdriver.Status{Guest: x.Guest, Gone: true})
			return
		}
		g.status(x, "")
		return
	}
	switch o.Kind {
	case vmdriver.Start:
		g.status(x, "")
	case vmdriver.End:
		_ = g.s.RemoveVM(x.Name) // somebody else may have
		g.drop(x, "")
	case vmdriver.Precopy:
		g.status(x, g.precopy(x, o.Place))
	case vmdriver.Halt:
		g.status(x, g.halt(x, o.Place))
	case vmdriver.Resume:
		g.status(x, g.resume(x, o.Place))
	}
}

func (g *Guests) start(x *guest, o vmdriver.Order) (why string) {
	if !g.up(o.Place) {
		return "the host is down"
	}
	if _, ok := g.s.VM(o.Name); ok {
		return "the simulator has a VM of this name that was placed by a command"
	}
	if err := g.s.PlaceVM(o.Name, g.function(o.Place), sim.VMOptions{GUID: o.GUID, OwnLID: o.OwnLID}); err != nil {
		return err.Error()
	}
	x.At = o.Place
	x.Copy.Memory = g.cfg.Machine.Memory
	g.list[x.Name] = x
	return ""
}

// reach says why a VM cannot migrate to a place.
func (g *Guests) reach(x *guest, to vmdriver.Place) (why string) {
	a, ok := g.ports[x.At.Port]
	z, known := g.ports[to.Port]
	switch {
	case !known || !ok:
		return fmt.Sprintf("port %v is not a hypervisor", to.Port)
	case !g.up(x.At):
		return "its host is down"
	case !g.up(to):
		return "the host of the destination is down"
	case a.Model != z.Model:
		return fmt.Sprintf("the function of a %v adapter cannot go on as that of a %v adapter: choose a hypervisor of the same model", a.Model, z.Model)
	}
	st, err := g.s.VPort(g.function(to))
	switch {
	case err != nil:
		return err.Error()
	case st.VM != "" && st.VM != x.Name:
		return fmt.Sprintf("the function is taken by VM %q", st.VM)
	}
	return ""
}

// begin begins a copy to a place.
func (g *Guests) begin(x *guest, to vmdriver.Place) {
	g.endCopy(x)
	h := fnv.New64a()
	h.Write([]byte(x.Name))
	x.n++
	x.copy, _ = precopy.New(g.cfg.Machine, g.cfg.Seed^h.Sum64()^uint64(x.n)) // New has tried it
	x.To, x.from, x.to = to, x.At.Port, to.Port
	g.busy[x.from]++
	g.busy[x.to]++
	x.Copy = vmdriver.Copy{Memory: g.cfg.Machine.Memory}
	x.copy.Start(time.Duration(g.s.Now()))
	g.feel(x)
}

// endCopy ends a copy, complete or not.
func (g *Guests) endCopy(x *guest) {
	if x.copy == nil {
		return
	}
	x.copy = nil
	x.n++
	for _, p := range []ib.GUID{x.from, x.to} {
		if g.busy[p]--; g.busy[p] == 0 {
			delete(g.busy, p)
		}
	}
}

func (g *Guests) precopy(x *guest, to vmdriver.Place) (why string) {
	switch {
	case x.Phase != vmdriver.Running && x.To == to:
		return ""
	case x.Phase >= vmdriver.Stopping:
		return "the VM is stopped"
	}
	if why = g.reach(x, to); why != "" {
		return why
	}
	g.begin(x, to)
	x.Phase = vmdriver.Copying
	g.pump(x)
	return ""
}

func (g *Guests) halt(x *guest, to vmdriver.Place) (why string) {
	if x.Phase >= vmdriver.Stopping && x.To == to {
		return ""
	}
	why = g.reach(x, to)
	if why == "" {
		why = errorText(g.s.ReadyVM(x.Name, g.function(to)))
	}
	if why != "" {
		if x.Phase < vmdriver.Stopping && x.To == to {
			g.endCopy(x)
			x.To, x.Phase = vmdriver.Place{}, vmdriver.Running
		}
		return why
	}
	pumped := x.To == to && x.Phase == vmdriver.Copying // a chunk is on its way
	if x.To != to {
		g.begin(x, to)
	}
	if x.Phase < vmdriver.Stopping {
		x.stopped = g.s.Now()
	}
	_ = g.s.StopVM(x.Name) // ReadyVM has found it
	x.Phase = vmdriver.Stopping
	x.copy.Paused(time.Duration(g.s.Now()))
	if !pumped {
		g.pump(x)
	}
	return ""
}

func errorText(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}

func (g *Guests) resume(x *guest, at vmdriver.Place) (why string) {
	switch {
	case at == x.At:
		_ = g.s.UnreadyVM(x.Name)
	case x.Phase != vmdriver.Stopped || x.To != at:
		return "the destination does not have all of it"
	default:
		if why = errorText(g.s.SwitchVM(x.Name)); why == "" && !g.up(at) {
			why = "the host of the destination is down"
		}
		if why != "" {
			g.endCopy(x)
			x.To, x.Phase = vmdriver.Place{}, vmdriver.Broken
			return why
		}
		x.At = at
	}
	g.endCopy(x)
	_ = g.s.ResumeVM(x.Name)
	if x.Phase >= vmdriver.Stopping {
		x.Copy.Outage = g.s.Now().Sub(x.stopped)
	}
	x.To, x.Phase = vmdriver.Place{}, vmdriver.Running
	return ""
}

// pump sends the next chunk of the copy of x.
func (g *Guests) pump(x *guest) {
	now := time.Duration(g.s.Now())
	switch {
	case x.copy == nil:
		return
	case !g.up(x.To):
		g.broken(x, "the host of the destination died")
		return
	case !g.up(x.At):
		return // look will find it
	}
	bytes := x.copy.Next(now)
	g.rounds(x)
	switch phase := x.copy.Phase(); {
	case bytes > 0:
		n := x.n
		g.s.After(time.Duration(float64(bytes)/g.rate(x)*1e9), func() {
			if x.n == n && x.copy != nil {
				x.copy.Arrived(time.Duration(g.s.Now()), bytes)
				g.pump(x)
			}
		})
	case phase == precopy.Pausing && x.Phase == vmdriver.Copying:
		x.Phase = vmdriver.Copied
		g.status(x, "")
	case phase == precopy.Complete && x.Phase == vmdriver.Stopping:
		x.Phase = vmdriver.Stopped
		g.status(x, "")
	}
}

// rounds takes over the rounds that have ended.
func (g *Guests) rounds(x *guest) {
	list := x.copy.Rounds()
	have := len(x.Copy.Rounds)
	for _, r := range list[min(have, len(list)):min(len(list), vmdriver.MaxRounds)] {
		x.Copy.Rounds = append(x.Copy.Rounds, vmdriver.Round{Bytes: r.Bytes, Time: r.End - r.Begin})
	}
	if have < len(x.Copy.Rounds) && x.Phase == vmdriver.Copying && x.copy.Phase() == precopy.PreCopy {
		g.status(x, "")
	}
}

// broken ends the copy of x, because the destination is not there.
func (g *Guests) broken(x *guest, why string) {
	g.endCopy(x)
	_ = g.s.UnreadyVM(x.Name)
	x.To = vmdriver.Place{}
	if x.Phase < vmdriver.Stopping {
		x.Phase = vmdriver.Running
	} else {
		x.Phase = vmdriver.Broken
	}
	g.status(x, why)
}

// rate is how fast the memory of x is copied, in bytes/s: its share of the links.
func (g *Guests) rate(x *guest) float64 {
	share := func(port ib.GUID) float64 {
		h := g.ports[port]
		r := g.s.Capacity(h.Node, h.Port)
		if g.cfg.Rate > 0 && (r == 0 || g.cfg.Rate < r) {
			r = g.cfg.Rate
		}
		return cmp.Or(r, 1e9) / float64(max(1, g.busy[port]))
	}
	return min(share(x.from), share(x.to))
}
