package vm

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"heddle/ib"
	"heddle/subnet"
)

// twin is a model of an address manager without store, waiting or indices: the table of
// docs/vm.md as simple code.
type twin struct {
	vms    map[string]*twinVM
	refuse func(subnet.Place) bool
	size   map[ib.GUID]int // functions of the ports that there are
	guids  map[subnet.Place]ib.GUID
}

type twinVM struct {
	guid     ib.GUID // 0: that of its function
	state    State
	at, dest subnet.Place
	last     outcome
}

// bind gives a function its GUID when a VM that has none of its own is to be there: the
// pool gives them out in order, 2 is nobody's.
func (w *twin) bind(v *twinVM, p subnet.Place) error {
	if v.guid != 0 || w.guids[p] != 0 {
		return nil
	}
	if p.Port == vportA {
		return ErrConflict
	}
	g := defaultFirst + ib.GUID(len(w.guids))
	if g > defaultFirst {
		g++
	}
	w.guids[p] = g
	return nil
}

// guidOf is what a VM has now.
func (w *twin) guidOf(v *twinVM) ib.GUID {
	if v.guid != 0 {
		return v.guid
	}
	return w.guids[v.at]
}

// taken reports who else has or keeps a place.
func (w *twin) taken(p subnet.Place) bool {
	for _, v := range w.vms {
		if v.at == p || v.dest == p {
			return true
		}
	}
	return false
}

// choose is the place that an operation names, and whether it is free.
func (w *twin) choose(p subnet.Place) (subnet.Place, error) {
	n := w.size[p.Port]
	if n == 0 || int(p.Function) > n {
		return p, ErrInvalid // or a conflict
	}
	if p.Function != 0 {
		if w.taken(p) {
			return p, ErrConflict
		}
		return p, nil
	}
	for p.Function = 1; int(p.Function) <= n; p.Function++ {
		if !w.taken(p) {
			return p, nil
		}
	}
	return p, ErrNoRoom
}

// nameOf is the interface that an operation on one is about.
func nameOf(op Op) string {
	switch op := op.(type) {
	case Attach:
		return op.Name
	case Migrate:
		return op.Name
	case Finish:
		return op.Name
	case RollBack:
		return op.Name
	case Detach:
		return op.Name
	case Move:
		return op.Name
	}
	return ""
}

// do carries out an operation in the model and reports whether it succeeds.
func (w *twin) do(op Op) bool {
	switch op := op.(type) {
	case Create:
		if v := w.vms[op.I.Name]; v != nil && v.guid != op.I.GUID {
			return false
		} else if v == nil {
			for _, v := range w.vms {
				if v.guid == op.I.GUID && v.guid != 0 {
					return false
				}
			}
			w.vms[op.I.Name] = &twinVM{guid: op.I.GUID}
		}
		return op.I.Place == (subnet.Place{}) || w.do(Attach{op.I.Name, op.I.Place})
	case Move:
		if v := w.vms[op.Name]; v != nil && v.state == Attached && matches(op.To, v.at) {
			return true
		}
		return w.do(Migrate(op)) && w.do(Finish{op.Name})
	case Delete:
		v := w.vms[op.Name]
		if v != nil && v.at != (subnet.Place{}) && !op.Force {
			return false
		}
		delete(w.vms, op.Name)
		return true
	}
	v := w.vms[nameOf(op)]
	if v == nil {
		return false
	}
	placed := v.state == Attached || v.state == Migrating
	switch op := op.(type) {
	case Attach:
		if placed {
			return matches(op.At, v.at)
		}
		p, err := w.choose(op.At)
		if err != nil || w.bind(v, p) != nil || w.refuse(p) {
			return false
		}
		v.state, v.at, v.last = Attached, p, noMigration
	case Migrate:
		switch {
		case !placed:
			return false
		case v.state == Migrating:
			return matches(op.To, v.dest)
		case matches(op.To, v.at):
			return true
		}
		p, err := w.choose(op.To)
		if err != nil || w.bind(v, p) != nil {
			return false
		}
		v.state, v.dest, v.last = Migrating, p, noMigration
	case Finish:
		if v.state != Migrating {
			return v.last == finished && placed
		}
		if w.refuse(v.dest) {
			v.state, v.dest, v.last = Attached, subnet.Place{}, rolledBack
			return false
		}
		v.state, v.at, v.dest, v.last = Attached, v.dest, subnet.Place{}, finished
	case RollBack:
		if !placed || v.state == Attached && v.last == finished {
			return false
		}
		if v.state == Migrating {
			v.state, v.dest, v.last = Attached, subnet.Place{}, rolledBack
		}
	case Detach:
		if placed {
			v.state, v.at, v.dest, v.last = Detached, subnet.Place{}, subnet.Place{}, noMigration
		}
	}
	return true
}

// TestTwin: thousands of operations, with refusals, full disks and restarts, lead to the state
// of the model.
func TestTwin(t *testing.T) {
	succeeded, failed := 0, 0
	for seed := range 60 {
		rng := rand.New(rand.NewPCG(uint64(seed), 8))
		r := newRig(t)
		r.up()
		size := map[ib.GUID]int{hyperA: 4, hyperB: 4, hyperC: 2, sharedA: 126, vportA: 4}
		ports := []ib.GUID{hyperA, hyperB, hyperC, sharedA, vportA, plain}
		w := &twin{vms: map[string]*twinVM{}, guids: map[subnet.Place]ib.GUID{}, size: size, refuse: func(p subnet.Place) bool { return r.refuse[p] != "" }}
		place := func() subnet.Place { return at(ports[rng.IntN(len(ports))], uint16(rng.IntN(6))) }
		op := func() Op {
			name := string(rune('a' + rng.IntN(8)))
			switch rng.IntN(9) {
			case 0:
				i := Interface{Name: name, GUIDKind: FunctionGUID}
				if rng.IntN(3) > 0 {
					i.GUID, i.GUIDKind = ib.GUID(0x7000+rng.IntN(9)), StaticGUID
				}
				if rng.IntN(2) == 0 {
					i.Place = place()
				}
				return Create{i}
			case 1, 2:
				return Attach{name, place()}
			case 3, 4:
				return Migrate{name, place()}
			case 5:
				return Finish{name}
			case 6:
				return []Op{Finish{name}, Move{name, place()}}[rng.IntN(2)]
			case 7:
				return []Op{RollBack{name}, Detach{name}}[rng.IntN(2)]
			default:
				return []Op{RollBack{name}, Delete{name, rng.IntN(2) == 0}}[rng.IntN(2)]
			}
		}
		same := func(what any) {
			t.Helper()
			if r.view.Len() != len(w.vms) || r.view.Journal != 0 {
				t.Fatalf("seed %d, %+v: %d interfaces, want %d; journal %d", seed, what, r.view.Len(), len(w.vms), r.view.Journal)
			}
			for i := range r.view.All() {
				v := w.vms[i.Name]
				if got, want := fmt.Sprint(i.GUID, i.State, i.Place, i.Dest), fmt.Sprint(w.guidOf(v), v.state, v.at, v.dest); got != want {
					t.Fatalf("seed %d, %+v: %q is %s, want %s", seed, what, i.Name, got, want)
				}
				if v.guid == 0 && i.DestGUID != w.guids[v.dest] {
					t.Fatalf("seed %d, %+v: %q will have GUID %v, want %v", seed, what, i.Name, i.DestGUID, w.guids[v.dest])
				}
				if l := r.placements[i.GUID]; l.Place != i.Place {
					t.Fatalf("seed %d, %+v: %q is at %v, its placement at %v", seed, what, i.Name, i.Place, l.Place)
				}
			}
			if len(r.view.Functions) != len(w.guids) {
				t.Fatalf("seed %d, %+v: functions have GUIDs %v, want %v", seed, what, r.view.Functions, w.guids)
			}
			for _, f := range r.view.Functions {
				if w.guids[f.Place] != f.GUID {
					t.Fatalf("seed %d, %+v: %+v, want %v", seed, what, f, w.guids[f.Place])
				}
			}
		}
		for range 300 {
			switch rng.IntN(12) {
			case 0:
				p := place()
				if r.refuse[p] == "" && p.Port != 0 && !w.taken(p) {
					r.refuse[p] = "it does not take it"
				} else {
					delete(r.refuse, p)
				}
			case 1:
				before := durable(r.view)
				r.store.FailNext = 1
				o := op()
				if a := r.do(o); r.store.FailNext == 0 && !errors.Is(a.Err, ErrStore) {
					t.Fatalf("seed %d, %+v: %v", seed, o, a.Err)
				}
				if r.store.FailNext == 0 && durable(r.view) != before {
					t.Fatalf("seed %d: a write failed; the state is\n%s, was\n%s", seed, durable(r.view), before)
				} else if r.store.FailNext == 1 { // nothing was to be stored
					w.do(o)
				}
				r.store.FailNext = 0
				same(o)
			case 2:
				r.restart()
				r.up()
				same("restart")
			default:
				o := op()
				a := r.do(o)
				ok := w.do(o)
				if (a.Err == nil) != ok {
					t.Fatalf("seed %d, %T %+v: %v, want success %v", seed, o, o, a.Err, ok)
				}
				if ok {
					succeeded++
				} else {
					failed++
				}
				same(o)
			}
		}
	}
	t.Logf("%d succeeded, %d failed", succeeded, failed)
	if succeeded < 2000 || failed < 2000 {
		t.Error("too few operations failed or succeeded for a meaningful test")
	}
}
