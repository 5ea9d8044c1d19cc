package vmdriver

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"heddle/ib"
	"heddle/mad"
)

// A world is a manager, hypervisors and a driver in virtual time. The manager keeps
// what it stored, the hypervisors keep their guests, and each of the three may die and
// come again at any moment.
type world struct {
	t      *testing.T
	rng    *rand.Rand
	now    mad.Time
	events []event
	n      int
	log    []string

	driver int // number of the driver that lives
	core   *Core
	armed  mad.Time

	up      int // number of the manager that lives; 0: none
	lives   int
	ifaces  map[string]*Interface
	shown   map[string]Progress
	reports map[string][]Stage
	ends    int     // calls that tell the end of a migration first
	refuse  float64 // share of moves of addresses that the fabric refuses

	told  mad.Time // when the last status arrives
	hosts map[ib.GUID]*host
	vms   map[string]*guest
	fresh map[string]bool // it may boot: it never has, or its host died with it
}

type event struct {
	at mad.Time
	n  int
	do func()
}

type host struct {
	alive bool
	life  int
}

// guest is a VM.
type guest struct {
	Guest
	order int      // of the copy under way
	since mad.Time // when it was stopped; negative: it runs
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{
		t: t, rng: rand.New(rand.NewPCG(seed, 7)), ifaces: map[string]*Interface{}, shown: map[string]Progress{}, reports: map[string][]Stage{},
		hosts: map[ib.GUID]*host{}, vms: map[string]*guest{}, fresh: map[string]bool{}, armed: mad.Never,
	}
	for p := ib.GUID(1); p <= 4; p++ {
		w.hosts[p] = &host{alive: true}
	}
	return w
}

func (w *world) say(format string, a ...any) {
	w.log = append(w.log, fmt.Sprintf("%v ", time.Duration(w.now))+fmt.Sprintf(format, a...))
}

func (w *world) fail(format string, a ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\n%s", fmt.Sprintf(format, a...), strings.Join(w.log[max(0, len(w.log)-80):], "\n"))
}

func (w *world) after(d time.Duration, do func()) {
	w.n++
	w.events = append(w.events, event{w.now.Add(d), w.n, do})
}

// soon does something after up to so many milliseconds.
func (w *world) soon(ms int, do func()) {
	w.after(time.Duration(1+w.rng.IntN(ms*1000))*time.Microsecond, do)
}

// run runs the world for some time.
func (w *world) run(d time.Duration) {
	end := w.now.Add(d)
	for len(w.events) > 0 {
		i := 0
		for k := range w.events {
			if c := cmp.Compare(w.events[k].at, w.events[i].at); c < 0 || c == 0 && w.events[k].n < w.events[i].n {
				i = k
			}
		}
		e := w.events[i]
		if e.at > end {
			break
		}
		w.events = slices.Delete(w.events, i, i+1)
		w.now = e.at
		e.do()
		w.watch()
	}
	w.now = end
}

// watch fails the test if a guest is stopped for longer than the driver may leave it so.
func (w *world) watch() {
	for _, name := range w.names() {
		g := w.vms[name]
		switch {
		case g.Phase < Stopping:
			g.since = -1
		case g.since < 0:
			g.since = w.now
		case w.now.Sub(g.since) > Defaults().FinishTime+2*time.Second:
			w.fail("%s has been stopped for %v", name, w.now.Sub(g.since))
		}
	}
}

// The driver.

func (w *world) startDriver() {
	w.driver++
	w.say("driver %d starts", w.driver)
	w.core, w.armed = New(Defaults()), mad.Never
	me := w.driver
	w.step(me, w.inventory())
	if w.up != 0 {
		w.soon(2, func() { w.step(me, Connected{}) })
	}
}

func (w *world) inventory() Inventory {
	inv := Inventory{Ports: []ib.GUID{1, 2, 3, 4}}
	for _, name := range w.names() {
		inv.Guests = append(inv.Guests, w.vms[name].Guest)
	}
	return inv
}

func (w *world) names() (list []string) {
	for n := range w.vms {
		list = append(list, n)
	}
	slices.Sort(list)
	return list
}

func (w *world) step(me int, e Event) {
	if me != w.driver {
		return // it is dead
	}
	var out Output
	w.core.Step(w.now, e, &out)
	for _, o := range out.Orders {
		w.say("order %v %s %v", o.Kind, o.Name, o.Place)
		w.soon(1, func() { w.obey(o) })
	}
	for _, c := range out.Calls {
		if c.Ends {
			w.ends++
		}
		if c.Verb != Report {
			w.say("call %v %s", c.Verb, c.Name)
		}
		w.call(me, c)
	}
	if w.armed = out.Timer; out.Timer != mad.Never {
		at := out.Timer
		w.after(max(0, at.Sub(w.now)), func() {
			if w.armed == at {
				w.armed = mad.Never
				w.step(me, Timer{})
			}
		})
	}
}

func (w *world) status(g *guest, failed string) {
	st := Status{Guest: g.Guest, Gone: w.vms[g.Name] != g}
	st.Guest.Failed = failed
	me := w.driver
	at := max(w.told+1, w.now.Add(time.Duration(1+w.rng.IntN(1000))*time.Microsecond)) // in their order
	w.told = at
	w.after(at.Sub(w.now), func() { w.step(me, st) })
}

// The hypervisors.

func (w *world) alive(p Place) bool { return w.hosts[p.Port].alive }

func (w *world) obey(o Order) {
	g := w.vms[o.Name]
	if g == nil {
		switch {
		case o.Kind != Start:
			w.status(&guest{Guest: Guest{Name: o.Name}}, "there is no VM")
		case !w.alive(o.Place):
			w.status(&guest{Guest: Guest{Name: o.Name}}, "the host is down")
		default:
			g = &guest{Guest: Guest{Name: o.Name, At: o.Place}}
			w.vms[o.Name] = g
			w.boot(g)
			w.status(g, "")
		}
		return
	}
	if !w.alive(g.At) && o.Kind != Resume {
		w.status(g, "the source is down")
		return
	}
	switch o.Kind {
	case Start:
	case End:
		delete(w.vms, o.Name)
		w.say("%s ends", o.Name)
	case Precopy, Halt:
		if !w.alive(o.Place) {
			if g.Phase < Stopping {
				g.To, g.Phase = Place{}, Running
			}
			w.status(g, "the destination is down")
			return
		}
		w.transfer(g, o)
	case Resume:
		switch {
		case o.Place == g.At:
			g.To, g.Phase = Place{}, Running
			g.order++
		case o.Place != g.To || g.Phase != Stopped:
			w.status(g, "it is not there")
			return
		case !w.alive(o.Place):
			g.To, g.Phase = Place{}, Broken
			w.status(g, "the destination is down")
			return
		default:
			if i := w.ifaces[g.Name]; i == nil || i.At != g.To {
				w.fail("%s is to run at %v, and the manager has it elsewhere: %+v", g.Name, g.To, i)
			}
			g.At, g.To, g.Phase = g.To, Place{}, Running
			g.Copy.Felt = time.Millisecond // a peer has its answer already, or has it a moment later
			w.soon(50, func() {
				if w.vms[g.Name] == g && g.Phase == Running && g.To == (Place{}) {
					g.Copy.Felt = 2 * time.Millisecond
					w.status(g, "")
				}
			})
		}
		w.say("%s runs at %v", g.Name, g.At)
	}
	w.status(g, "")
}

// boot starts a VM anew. If it has run before and no host has died with it, it was lost.
func (w *world) boot(g *guest) {
	if !w.fresh[g.Name] {
		w.fail("%s boots at %v, and no host had died with it", g.Name, g.At)
	}
	w.fresh[g.Name] = false
	w.say("%s boots at %v", g.Name, g.At)
}

func (w *world) transfer(g *guest, o Order) {
	if g.Phase >= Stopping && g.To == o.Place || g.Phase != Running && o.Kind == Precopy && g.To == o.Place {
		w.status(g, "")
		return
	}
	g.To, g.Phase = o.Place, Copying
	g.order++
	n := g.order
	if o.Kind == Halt {
		g.Phase = Stopping
	}
	w.status(g, "")
	w.soon(100, func() {
		switch {
		case w.vms[g.Name] != g || g.order != n:
			return
		case !w.alive(g.To):
			g.To = Place{}
			if g.Phase == Copying {
				g.Phase = Running
			} else {
				g.Phase = Broken
			}
			w.status(g, "the destination died")
			return
		case g.Phase == Copying:
			g.Phase = Copied
		default:
			g.Phase = Stopped
		}
		g.order++
		w.say("%s is %v", g.Name, g.Phase)
		w.status(g, "")
	})
}

// die kills a host with the guests that ran there, and the copies that it had.
func (w *world) die(p ib.GUID) {
	w.say("host %d dies", p)
	h := w.hosts[p]
	h.alive = false
	h.life++
	for _, name := range w.names() {
		switch g := w.vms[name]; {
		case g.At.Port == p && g.Phase == Stopped && w.alive(g.To): // the destination has all of it
		case g.At.Port == p:
			delete(w.vms, name)
			w.fresh[name] = true
			w.say("%s dies with it", name)
			w.status(g, "its host died")
		case g.To.Port == p && g.Phase == Stopped:
			g.To, g.Phase = Place{}, Broken
			w.status(g, "the destination died")
		}
	}
}

// The manager.

func (w *world) startManager() {
	w.lives++
	w.up = w.lives
	w.say("manager %d starts", w.up)
	for _, i := range w.ifaces {
		if i.Doing == Finishing || i.Doing == RollingBack || i.Doing == Attaching {
			w.carry(i)
		}
	}
	clear(w.shown)
	me := w.driver
	w.soon(5, func() { w.step(me, Connected{}) })
}

func (w *world) killManager() {
	w.say("manager %d dies", w.up)
	w.up = 0
}

// notice tells the driver of a change, unless the manager dies before.
func (w *world) notice(name string) {
	me, life := w.driver, w.up
	w.soon(2, func() {
		if w.up == life && life != 0 {
			w.step(me, Changed{Name: name})
		}
	})
}

// isUp reports whether a function is up for a VM: an address waits for it.
func (w *world) isUp(name string, at Place) bool {
	g := w.vms[name]
	return g != nil && w.alive(at) && (g.At == at || g.To == at && g.Phase == Stopped)
}

// carry carries a stored operation out.
func (w *world) carry(i *Interface) {
	life, doing, to := w.up, i.Doing, i.To
	w.soon(20, func() {
		if w.up != life || i.Doing != doing || i.To != to {
			return
		}
		switch {
		case doing == Finishing && (!w.hosts[to.Port].alive || w.rng.Float64() < w.refuse):
			i.State, i.Doing, i.To, i.Reason = Attached, Nothing, Place{}, "rolled back: the fabric refused it"
		case doing == Finishing:
			if !w.isUp(i.Name, to) {
				w.carry(i)
				return
			}
			i.State, i.Doing, i.At, i.To, i.Reason = Attached, Nothing, i.To, Place{}, ""
		case doing == RollingBack && !w.isUp(i.Name, i.At):
			w.carry(i)
			return
		default:
			i.Doing = Nothing
		}
		w.say("interface %s: %+v", i.Name, *i)
		w.notice(i.Name)
	})
}

// call performs a request of driver me, and answers it; the manager may die before, in
// between, and after.
func (w *world) call(me int, c Call) {
	answer := func(a Answer) {
		a.Call = c
		w.soon(2, func() { w.step(me, a) })
	}
	w.soon(2, func() {
		life := w.up
		if life == 0 || w.rng.IntN(50) == 0 {
			answer(Answer{Result: Unknown})
			return
		}
		if w.perform(c, answer) {
			return
		}
		// It waits for the end of the operation, as the API does.
		i := w.ifaces[c.Name]
		left := 40
		var wait func()
		wait = func() {
			left--
			switch {
			case w.up != life:
				answer(Answer{Result: Unknown})
			case i.Doing == Nothing && c.Verb == Finish && i.At != c.Place:
				answer(Answer{Result: Refused, Reason: i.Reason})
			case i.Doing == Nothing || left == 0:
				answer(Answer{Result: Done, View: *i})
			default:
				w.after(time.Duration(5)*time.Millisecond, wait)
			}
		}
		wait()
	})
}

// perform changes what a request changes. over: it was answered.
func (w *world) perform(c Call, answer func(Answer)) (over bool) {
	if c.Verb == List {
		var list []Interface
		for _, i := range w.ifaces {
			list = append(list, *i)
		}
		answer(Answer{Result: Done, List: list})
		return true
	}
	i := w.ifaces[c.Name]
	if i == nil {
		answer(Answer{Result: Absent})
		return true
	}
	refused := func(why string) bool {
		answer(Answer{Result: Refused, Reason: why})
		return true
	}
	switch c.Verb {
	case Get:
		answer(Answer{Result: Done, View: *i})
		return true
	case Report:
		if w.shown[c.Name].Stage != c.Progress.Stage {
			w.reports[c.Name] = append(w.reports[c.Name], c.Progress.Stage)
			w.say("report %s %s %s", c.Name, c.Progress.Stage, c.Progress.Reason)
		}
		w.shown[c.Name] = c.Progress
		answer(Answer{Result: Done, View: *i})
		return true
	case Finish:
		switch {
		case i.State == Attached && i.Doing == Nothing && i.At == c.Place:
			answer(Answer{Result: Done, View: *i})
			return true
		case i.State != Migrating:
			return refused("it is not migrating: " + i.Reason)
		case !w.hosts[i.To.Port].alive && i.Doing == Nothing:
			return refused("its destination is not in the subnet")
		case i.Doing == Nothing:
			i.Doing = Finishing
			w.carry(i)
		}
	case RollBack:
		switch {
		case i.State != Migrating && i.Doing != RollingBack:
			answer(Answer{Result: Done, View: *i})
			return true
		case i.Doing == Nothing:
			i.State, i.To = Attached, Place{}
			w.notice(i.Name)
			answer(Answer{Result: Done, View: *i})
			return true
		case i.Doing == Finishing:
			i.State, i.To, i.Doing = Attached, Place{}, RollingBack
			w.carry(i)
		}
	case Move:
		if i.State != Attached || i.Doing != Nothing || !w.hosts[c.Place.Port].alive || w.taken(c.Place, i.Name) {
			return refused("it cannot move")
		}
		i.State, i.To, i.Doing = Migrating, c.Place, Finishing
		w.carry(i)
	}
	return false
}

func (w *world) taken(p Place, but string) bool {
	for name, i := range w.ifaces {
		if name != but && (i.At == p || i.To == p) {
			return true
		}
	}
	return false
}

// migrate is the operator's request.
func (w *world) migrate(name string, to Place) {
	i := w.ifaces[name]
	if w.up == 0 || i == nil || i.State != Attached || i.Doing != Nothing || i.At.Port == to.Port || !w.hosts[to.Port].alive || w.taken(to, name) {
		return
	}
	w.say("operator: migrate %s to %v", name, to)
	i.State, i.To, i.Reason = Migrating, to, ""
	w.notice(name)
}

// create is the operator's, too.
func (w *world) create(name string, at Place) {
	w.ifaces[name] = &Interface{Name: name, State: Attached, Doing: Attaching, At: at, GUID: 0x100}
	w.fresh[name] = true
	w.carry(w.ifaces[name])
	w.notice(name)
}
