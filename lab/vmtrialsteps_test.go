package lab

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"heddle/ib"
	"heddle/sim"
	"heddle/subnet"
	"heddle/vm"
)

// lookup is what the address manager knows of a guest.
func (t *VMTrial) lookup(g *guest) *vm.Interface {
	if v := t.m.VMs(); v != nil {
		return v.Interface(g.name)
	}
	return nil
}

// step asks for an operation that makes sense as things are, or for any.
func (t *VMTrial) step() {
	if t.m.Dead || t.calm {
		return
	}
	if len(t.wild) > 0 && t.rng.IntN(4) == 0 {
		t.roam(t.wild[t.rng.IntN(len(t.wild))])
		return
	}
	g := t.guests[t.rng.IntN(len(t.guests))]
	i := t.lookup(g)
	if g.open > 0 && t.rng.IntN(8) > 0 {
		return // one thing after the other, mostly
	}
	what := -1
	if t.rng.IntN(12) == 0 {
		what = t.rng.IntN(9)
	}
	switch {
	case what == 0 || what < 0 && i == nil:
		t.create(g)
	case t.rng.IntN(8) == 0:
		t.members()
	case what == 1 || what < 0 && (i.State == vm.Created || i.State == vm.Detached) && t.rng.IntN(5) > 0:
		t.attach(g)
	case what == 2 || what < 0 && i.State == vm.Migrating:
		t.end(g)
	case what == 3 || what < 0 && t.rng.IntN(10) == 0:
		t.setKeys(g)
	case what == 4 || what < 0 && i.State == vm.Attached && t.rng.IntN(5) > 0:
		t.migrate(g)
	case what == 5 || what < 0 && i.State == vm.Attached:
		t.detach(g)
	case what == 6 || what < 0:
		t.remove(g, false)
	case what == 7:
		t.remove(g, true)
	default:
		t.migrate(g)
		t.attach(g)
	}
}

// roam has a hypervisor do something with a virtual machine that the manager was
// not told of.
func (t *VMTrial) roam(g *guest) {
	if t.rng.IntN(4) == 0 {
		t.host(g.name+" goes", func() error { return t.put(g, subnet.Place{}) })
		return
	}
	for range 10 {
		p := t.somewhere()
		if t.hosts[t.Judge.host[p.Port]].Model == sim.VPorts && !t.held(p) {
			t.host(fmt.Sprintf("%s at %v", g.name, p), func() error { return t.put(g, p) })
			return
		}
	}
}

// ask gives the address manager an operation about a guest and looks at the
// answer.
func (t *VMTrial) ask(g *guest, op vm.Op, done func(r *vm.Reply)) {
	t.Asked++
	g.open++
	m := t.m
	m.DoVM(func(_ int, r *vm.Reply) {
		if m == t.m {
			g.open = max(g.open-1, 0)
		}
		t.note("%T%+v: %v %v at %v (dest %v) waiting=%v %s: %v", op, op, r.Interface.GUID, r.Interface.State, r.Interface.Place, r.Interface.Dest, r.Waiting, r.Interface.Reason, r.Err)
		switch {
		case r.Err != nil:
			t.Refused++
			if !errors.Is(r.Err, vm.ErrConflict) && !errors.Is(r.Err, vm.ErrInvalid) && !errors.Is(r.Err, vm.ErrNoRoom) && !errors.Is(r.Err, vm.ErrNotFound) && !errors.Is(r.Err, vm.ErrStore) {
				t.Judge.fail("%T%+v: an error of no kind: %v", op, op, r.Err)
			}
		case r.Waiting:
			t.Waited++
		default:
			t.Done++
		}
		if r.Err == nil && r.Interface.GUID != 0 {
			g.guid = r.Interface.GUID
			if g.add(r.Interface.Place); !r.Waiting && r.Interface.Doing == "" && g.open == 0 {
				g.may, g.sure, g.gone = []subnet.Place{r.Interface.Place}, true, false
			}
		}
		if done != nil {
			done(r)
		}
	}, op)
}

func (t *VMTrial) create(g *guest) {
	i := vm.Interface{Name: g.name, LIDKind: t.Kinds[t.rng.IntN(len(t.Kinds))], Mode: subnet.MoveMode(t.rng.IntN(3)), Keys: t.keys()}
	if t.rng.IntN(2) == 0 {
		i.GUID = 0x0002C9_0300_000000 + ib.GUID(t.rng.IntN(3*len(t.guests)))
	}
	if t.rng.IntN(4) == 0 {
		i.GUID, i.GUIDKind, i.LIDKind = 0, vm.FunctionGUID, subnet.SharedLID
	}
	g.sure = false
	if t.rng.IntN(4) == 0 { // with a place
		i.Place = t.somewhere()
		g.add(i.Place)
	}
	t.ask(g, vm.Create{I: i}, func(r *vm.Reply) {
		if i.Place == (subnet.Place{}) {
			g.own = r.Err == nil && r.Interface.LIDKind == subnet.OwnLID || r.Err != nil && g.own
			return
		}
		if i := t.lookup(g); i != nil { // which is there even if it cannot be at its place
			g.own = i.LIDKind == subnet.OwnLID
			t.later("place", func() error { return t.put(g, i.Place) })
		}
	})
}

// keys draws P_Keys of a few partitions.
func (t *VMTrial) keys() (list []vm.Membership) {
	for k := range ib.PKey(4) {
		if t.rng.IntN(3) == 0 {
			list = append(list, vm.Membership{PKey: 0x10 + k, Full: t.rng.IntN(3) > 0})
		}
	}
	return list
}

// somewhere draws a function that is free as far as hypervisors know, or any.
func (t *VMTrial) somewhere() subnet.Place {
	for range 20 {
		h := &t.hosts[t.rng.IntN(len(t.hosts))]
		k := 1 + t.rng.IntN(h.VFs)
		if st, err := t.c.Sim.VPort(sim.VF{Node: h.At, Port: h.Port, Index: uint16(k)}); err == nil && st.VM == "" || t.rng.IntN(10) == 0 {
			return subnet.Place{Port: h.GUID, Function: uint16(k)}
		}
	}
	return subnet.Place{Port: t.hosts[0].GUID, Function: uint16(1 + t.rng.IntN(6))} // it may not be there
}

// later runs what a hypervisor does, soon.
func (t *VMTrial) later(what string, fn func() error) {
	if t.rng.IntN(2) == 0 {
		t.host(what, fn)
		return
	}
	t.c.Sim.After(time.Duration(t.rng.IntN(300))*time.Millisecond, func() { t.host(what, fn) })
}

func (t *VMTrial) host(what string, fn func() error) {
	if !t.calm {
		t.note("host: %s: %v", what, fn())
	}
}

// put has a guest run at a place, wherever it was, or nowhere.
func (t *VMTrial) put(g *guest, p subnet.Place) error {
	f, ok := t.Judge.vf(p)
	st, exists := t.c.Sim.VM(g.name)
	switch {
	case !ok && exists:
		return t.c.Sim.RemoveVM(g.name)
	case !ok:
		return nil
	case exists && st.At == f:
		return nil
	}
	if at, err := t.c.Sim.VPort(f); err != nil || at.VM != "" && at.VM != g.name {
		return fmt.Errorf("%v is not free (%q): %w", p, at.VM, err)
	}
	if exists && st.At.Node >= 0 {
		if err := t.c.Sim.DetachVM(g.name); err != nil {
			return err
		}
	}
	g.is = sim.VMOptions{GUID: g.guid, OwnLID: g.own, PKeys: t.allowed(g)}
	return t.c.Sim.PlaceVM(g.name, f, g.is)
}

// allowed are the P_Keys that a hypervisor with a shared port shows a guest.
func (t *VMTrial) allowed(g *guest) []ib.PKey {
	keys := []ib.PKey{ib.PKeyDefaultFull}
	if i := t.lookup(g); i != nil {
		for k := range t.Judge.Keys(t.m.VMs(), i) {
			keys = append(keys, k|0x8000)
		}
		slices.Sort(keys)
	}
	return keys
}

func (t *VMTrial) attach(g *guest) {
	p := t.somewhere()
	early := g.guid != 0 && t.rng.IntN(2) == 0
	op := vm.Attach{Name: g.name, At: p}
	if early {
		t.host("place early", func() error { return t.put(g, p) })
	} else if t.rng.IntN(2) == 0 {
		op.At.Function = 0
		for k := range uint16(8) {
			g.add(subnet.Place{Port: p.Port, Function: k})
		}
	}
	g.add(p)
	t.ask(g, op, func(r *vm.Reply) {
		if i := t.lookup(g); i != nil {
			t.later("place", func() error { return t.put(g, i.Place) })
		}
	})
}

func (t *VMTrial) migrate(g *guest) {
	p := t.somewhere()
	if t.rng.IntN(4) == 0 {
		t.move(g, p)
		return
	}
	op := vm.Migrate{Name: g.name, To: p}
	t.ask(g, op, func(r *vm.Reply) {
		if r.Err == nil && t.rng.IntN(3) > 0 {
			t.c.Sim.After(time.Duration(t.rng.IntN(200))*time.Millisecond, func() { t.end(g) })
		}
	})
}

// move migrates and finishes as one operation.
func (t *VMTrial) move(g *guest, to subnet.Place) {
	g.add(to)
	if t.rng.IntN(2) == 0 {
		t.host("move before", func() error { return t.put(g, to) })
	}
	t.ask(g, vm.Move{Name: g.name, To: to}, func(*vm.Reply) {
		if i := t.lookup(g); i != nil {
			t.later("follow", func() error { return t.put(g, i.Place) })
		}
	})
}

// end finishes a migration or rolls it back.
func (t *VMTrial) end(g *guest) {
	if t.m.Dead || t.calm {
		return
	}
	follow := func(*vm.Reply) {
		if i := t.lookup(g); i != nil {
			t.later("follow", func() error { return t.put(g, i.Place) })
		}
	}
	i := t.lookup(g)
	if i == nil || t.rng.IntN(4) == 0 {
		if i != nil && i.State == vm.Migrating {
			g.add(i.Place) // also if a manager that died has finished it
		}
		t.ask(g, vm.RollBack{Name: g.name}, follow)
		return
	}
	g.add(i.Dest)
	if t.rng.IntN(2) == 0 {
		t.host("move before", func() error { return t.put(g, i.Dest) })
	}
	if f, ok := t.Judge.vf(i.Dest); ok && t.hosts[t.Judge.host[i.Dest.Port]].Model == sim.VSwitch && t.rng.IntN(2) == 0 {
		// The hypervisor has the function ready: the address can change places while
		// both are up.
		t.host("destination up", func() error { return t.c.Sim.EnableVPort(f) })
	}
	t.ask(g, vm.Finish{Name: g.name}, follow)
	if t.rng.IntN(2) == 0 {
		t.later("move while", func() error { return t.put(g, i.Dest) })
	}
}

func (t *VMTrial) detach(g *guest) {
	if t.rng.IntN(2) == 0 {
		t.host("remove before", func() error { return t.put(g, subnet.Place{}) })
	}
	g.add(subnet.Place{})
	t.ask(g, vm.Detach{Name: g.name}, func(r *vm.Reply) {
		if r.Err == nil {
			t.later("remove", func() error { return t.put(g, subnet.Place{}) })
		}
	})
}

func (t *VMTrial) remove(g *guest, force bool) {
	g.sure = false
	t.ask(g, vm.Delete{Name: g.name, Force: force}, func(r *vm.Reply) {
		if r.Err == nil {
			t.host("remove", func() error { return t.put(g, subnet.Place{}) })
			if g.open == 0 {
				g.may, g.sure, g.gone, g.guid = []subnet.Place{{}}, true, true, 0
			}
		}
	})
}

func (t *VMTrial) setKeys(g *guest) {
	t.ask(g, vm.SetKeys{Name: g.name, Keys: t.keys()}, func(*vm.Reply) { t.show() })
}

// show has hypervisors with shared ports show their guests what is theirs now.
func (t *VMTrial) show() {
	for _, g := range t.guests {
		if _, ok := t.c.Sim.VM(g.name); ok {
			_ = t.c.Sim.ShowPKeys(g.name, t.allowed(g))
		}
	}
}

// members changes the members of a partition, guests or GUIDs that nobody has.
func (t *VMTrial) members() {
	var list []ib.GUID
	for range 1 + t.rng.IntN(4) {
		if g := t.guests[t.rng.IntN(len(t.guests))]; g.guid != 0 && t.rng.IntN(4) > 0 {
			list = append(list, g.guid)
		} else if len(t.wild) > 0 && t.rng.IntN(2) == 0 {
			list = append(list, t.wild[t.rng.IntN(len(t.wild))].guid)
		} else {
			list = append(list, 0x0002C9_0300_FF0000+ib.GUID(t.rng.IntN(20)))
		}
	}
	slices.Sort(list)
	list = slices.Compact(list)
	key := 0x20 + ib.PKey(t.rng.IntN(3))
	var op vm.Op = vm.AddMembers{PKey: key, GUIDs: list, Full: t.rng.IntN(3) > 0, Replace: t.rng.IntN(6) == 0}
	if t.rng.IntN(3) == 0 {
		op = vm.RemoveMembers{PKey: key, GUIDs: list, All: t.rng.IntN(8) == 0}
	}
	t.Asked++
	t.m.DoVM(func(_ int, r *vm.Reply) {
		t.note("%T%+v: %v", op, op, r.Err)
		if r.Err == nil {
			t.Done++
		} else {
			t.Refused++
		}
		t.show()
	}, op)
}
