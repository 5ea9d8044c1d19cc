package vmdriver

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"heddle/ib"
)

// settled fails the test unless every VM runs where its interface is, and nothing is under way.
func (w *world) settled() {
	w.t.Helper()
	for name, i := range w.ifaces {
		g := w.vms[name]
		if i.State != Attached || i.Doing != Nothing || g == nil || g.Phase != Running || g.At != i.At || g.To != (Place{}) {
			w.fail("%s: interface %+v, guest %+v", name, *i, g)
		}
	}
	if len(w.vms) != len(w.ifaces) {
		w.fail("%d VMs for %d interfaces", len(w.vms), len(w.ifaces))
	}
	if w.armed < w.now {
		w.fail("a timer was missed")
	}
}

func begin(t *testing.T, seed uint64) *world {
	w := newWorld(t, seed)
	w.startManager()
	w.startDriver()
	w.create("web", Place{1, 1})
	w.run(time.Second)
	w.settled()
	return w
}

// TestLiveMigration: the calls, in their order, and what the manager shows.
func TestLiveMigration(t *testing.T) {
	w := begin(t, 1)
	w.migrate("web", Place{2, 3})
	w.run(time.Second)
	w.settled()
	if g := w.vms["web"]; g.At != (Place{2, 3}) {
		w.fail("it is at %v", g.At)
	}
	want := []Stage{StageCopying, StageStopping, StageFinishing, StageResumed}
	if !slices.Equal(w.reports["web"], want) {
		w.fail("reports %v, want %v", w.reports["web"], want)
	}
	if w.ends != 1 || w.shown["web"].Copy.Felt != 2*time.Millisecond {
		w.fail("the end was told %d times; at last %+v", w.ends, w.shown["web"])
	}
	w.ifaces["web"].State, w.ifaces["web"].At = Detached, Place{}
	w.notice("web")
	w.run(time.Second)
	if len(w.vms) != 0 {
		w.fail("a detached VM goes on")
	}
}

// TestMoveWithoutMigrate: the manager's move has the VM stop at once; so has an interface
// that is found elsewhere.
func TestMoveWithoutMigrate(t *testing.T) {
	w := begin(t, 2)
	i := w.ifaces["web"]
	i.State, i.Doing, i.To = Migrating, Finishing, Place{2, 1}
	w.carry(i)
	w.notice("web")
	w.run(time.Second)
	w.settled()
	i.At = Place{3, 1}
	w.notice("web")
	w.run(time.Second)
	w.settled()
	if w.vms["web"].At != (Place{3, 1}) || w.ends != 2 {
		w.fail("it is at %v; %d ends were told", w.vms["web"].At, w.ends)
	}
}

// TestMigrateAfterMove: a migration that begins as soon as a move is answered, while the VM is still
// stopped at the place that it left, is carried out after it, and both ends are reported.
func TestMigrateAfterMove(t *testing.T) {
	for _, seed := range seeds(t, 50) {
		w := begin(t, seed)
		i := w.ifaces["web"]
		i.State, i.Doing, i.To = Migrating, Finishing, Place{2, 1}
		w.carry(i)
		w.notice("web")
		for i.State != Attached {
			w.run(50 * time.Microsecond)
		}
		w.migrate("web", Place{3, 1})
		w.run(2 * time.Second)
		w.settled()
		if w.vms["web"].At != (Place{3, 1}) || w.shown["web"].Stage != StageResumed || w.ends != 2 {
			w.fail("seed %d: it is at %v, %d ends were told, the last report is %+v", seed, w.vms["web"].At, w.ends, w.shown["web"])
		}
	}
}

// TestRefusedFinish: the VM goes on at the source, and the operator reads why.
func TestRefusedFinish(t *testing.T) {
	w := begin(t, 3)
	w.refuse = 1
	w.migrate("web", Place{2, 1})
	w.run(time.Second)
	w.settled()
	if p := w.shown["web"]; w.vms["web"].At != (Place{1, 1}) || p.Stage != StageFailed || p.Reason != "rolled back: the fabric refused it" {
		w.fail("%+v", p)
	}
}

// TestForeignDestination: what the driver cannot carry out is refused with the reason.
func TestForeignDestination(t *testing.T) {
	w := begin(t, 4)
	w.hosts[9] = &host{alive: true} // not in the inventory
	w.migrate("web", Place{9, 1})
	w.run(time.Second)
	w.settled()
	if p := w.shown["web"]; p.Stage != StageFailed || p.Reason == "" || w.vms["web"].At != (Place{1, 1}) {
		w.fail("%+v", p)
	}
}

// TestManagerGone: a VM that is stopped for its migration goes on at the source when the
// manager is silent for too long; the migration is done when it is back.
func TestManagerGone(t *testing.T) {
	w := begin(t, 5)
	w.migrate("web", Place{2, 1})
	for w.vms["web"].Phase != Stopping {
		w.run(time.Millisecond)
	}
	w.killManager()
	w.run(time.Minute)
	if g := w.vms["web"]; g.Phase != Running || g.At != (Place{1, 1}) {
		w.fail("%+v", g.Guest)
	}
	w.startManager()
	w.run(2 * time.Second)
	w.settled()
	if w.vms["web"].At != (Place{2, 1}) {
		w.fail("it is at %v", w.vms["web"].At)
	}
}

// TestManagerGoneBefore: while the manager does not answer, a VM that could be stopped runs on.
func TestManagerGoneBefore(t *testing.T) {
	w := begin(t, 8)
	w.migrate("web", Place{2, 1})
	for w.vms["web"].Phase != Copying {
		w.run(time.Millisecond)
	}
	w.killManager()
	w.run(10 * time.Second)
	if g := w.vms["web"]; g.Phase != Copied || g.At != (Place{1, 1}) {
		w.fail("%+v", g.Guest)
	}
	w.startManager()
	w.run(2 * time.Second)
	w.settled()
	if w.vms["web"].At != (Place{2, 1}) {
		w.fail("it is at %v", w.vms["web"].At)
	}
}

// TestRollBackWithoutVM: a host dies during a rollback, which waits for the VM's function;
// the VM starts again there.
func TestRollBackWithoutVM(t *testing.T) {
	w := begin(t, 9)
	w.ifaces["web"].Doing = RollingBack
	w.die(1)
	w.hosts[1].alive = true
	w.carry(w.ifaces["web"])
	w.notice("web")
	w.run(20 * time.Second)
	w.settled()
}

// TestEmptyStore: a manager that lost its store does not end VMs.
func TestEmptyStore(t *testing.T) {
	w := begin(t, 6)
	kept := *w.ifaces["web"]
	w.killManager()
	delete(w.ifaces, "web")
	w.startManager()
	w.run(time.Minute)
	if g := w.vms["web"]; g == nil || g.Phase != Running {
		w.fail("%+v", g)
	}
	w.ifaces["web"] = &kept
	w.notice("web")
	w.run(time.Second)
	w.settled()
	delete(w.ifaces, "web")
	w.step(w.driver, Changed{Name: "web", Deleted: true})
	w.run(time.Second)
	if len(w.vms) != 0 {
		w.fail("a VM whose interface was deleted goes on")
	}
}

// TestOutbound: no more guests leave a hypervisor at a time than configured, and all leave.
func TestOutbound(t *testing.T) {
	w := newWorld(t, 7)
	w.startManager()
	w.startDriver()
	const n = 9
	for i := range n {
		w.create(fmt.Sprint("vm", i), Place{1, uint16(i + 1)})
	}
	w.run(time.Second)
	w.settled()
	for i := range n {
		w.migrate(fmt.Sprint("vm", i), Place{ib.GUID(2 + i%3), uint16(i + 1)})
	}
	most := 0
	for range 3000 {
		w.run(time.Millisecond)
		leaving := 0
		for _, g := range w.vms {
			if g.To != (Place{}) {
				leaving++
			}
		}
		most = max(most, leaving)
	}
	w.settled()
	for _, g := range w.vms {
		if g.At.Port == 1 {
			w.fail("%s stays", g.Name)
		}
	}
	if most != Defaults().Outbound {
		w.fail("%d at a time", most)
	}
}

// TestOldList: a list that was made before a newer answer about an interface does not undo it.
func TestOldList(t *testing.T) {
	at, to := Place{1, 1}, Place{2, 1}
	c := New(Defaults())
	var out Output
	c.Step(1, Inventory{Ports: []ib.GUID{1, 2}, Guests: []Guest{{Name: "web", At: at, To: to, Phase: Stopped}}}, &out)
	c.Step(2, Connected{}, &out)
	if len(out.Calls) != 1 || out.Calls[0].Verb != List {
		t.Fatalf("%+v", out)
	}
	c.Step(3, Changed{Name: "web"}, &out)
	if len(out.Calls) != 1 || out.Calls[0].Verb != Get {
		t.Fatalf("%+v", out)
	}
	c.Step(4, Answer{Call: out.Calls[0], View: Interface{Name: "web", State: Attached, At: to}}, &out)
	if len(out.Orders) != 1 || out.Orders[0].Kind != Resume || out.Orders[0].Place != to {
		t.Fatalf("%+v", out)
	}
	c.Step(5, Answer{Call: Call{Verb: List}, List: []Interface{{Name: "web", State: Migrating, At: at, To: to}}}, &out)
	c.Step(6, Status{Guest: Guest{Name: "web", At: to}}, &out)
	if len(out.Orders) != 0 || len(out.Calls) != 0 {
		t.Fatalf("%+v", out)
	}
}

func seeds(t *testing.T, n int) []uint64 {
	if s := os.Getenv("HEDDLE_SEED"); s != "" {
		one, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return []uint64{one}
	}
	if s := os.Getenv("HEDDLE_SEEDS"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	list := make([]uint64, n)
	for i := range list {
		list[i] = uint64(i + 1)
	}
	return list
}

// TestCampaign: operators migrate; managers, drivers and hosts die and return at any
// step; the fabric refuses moves. No VM is ever lost, boots a second time while its host
// lives, runs where the manager did not bring its address, or stays stopped; at the end
// each runs where its interface is.
func TestCampaign(t *testing.T) {
	for _, seed := range seeds(t, 200) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newWorld(t, seed)
			r := rand.New(rand.NewPCG(seed, 11))
			w.refuse = []float64{0, 0.3}[r.IntN(2)]
			w.startManager()
			w.startDriver()
			names := []string{"a", "b", "c"}
			for i, n := range names {
				w.create(n, Place{ib.GUID(1 + i), 1})
			}
			w.run(time.Second)
			dies := r.IntN(4) == 0
			for range 60 {
				w.run(time.Duration(r.IntN(60_000)) * time.Microsecond)
				switch x := r.IntN(10); {
				case x < 5:
					w.migrate(names[r.IntN(3)], Place{ib.GUID(1 + r.IntN(4)), uint16(1 + r.IntN(2))})
				case x < 7 && w.up != 0:
					w.killManager()
					w.after(time.Duration(r.IntN(200))*time.Millisecond, w.startManager)
				case x == 7:
					w.startDriver()
				case x == 8 && dies:
					p := ib.GUID(1 + r.IntN(4))
					if h := w.hosts[p]; h.alive {
						w.die(p)
						w.after(time.Duration(r.IntN(500))*time.Millisecond, func() { h.alive = true })
					}
				case x == 9 && w.up != 0 && r.IntN(4) == 0: // the operator changes his mind
					if i := w.ifaces[names[r.IntN(3)]]; i.State == Migrating {
						w.perform(Call{Verb: RollBack, Name: i.Name}, func(Answer) {})
					}
				}
			}
			w.refuse = 0
			w.run(2 * time.Minute)
			w.settled()
		})
	}
}
