package lab

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"heddle/ib"
	"heddle/sa"
	"heddle/sim"
	"heddle/sm"
	"heddle/store"
	"heddle/subnet"
	"heddle/vm"
)

// answeredKnown are schedules of TestVMsAnswered that show defects of the subnet manager which have
// nothing to do with what is stored when; HEDDLE_SEED runs them.
var answeredKnown = []uint64{
	189, // a snapshot has a LID at a place to which its tables do not lead, as switches are silent
	586, // placements of floating LIDs are gathered without end
}

// TestVMsAnswered is TestVMs with a manager that dies each time when it has answered a move whose
// end is not stored: the interface stays where the answer said.
func TestVMsAnswered(t *testing.T) {
	first, n := seeds(14, 10_000)
	done, deaths, failed := 0, 0, 0
	for s := first; s < first+n; s++ {
		if n > 1 && slices.Contains(answeredKnown, s) {
			continue
		}
		tr := vmTrial(s)
		tr.Answered, tr.Kills = true, 6
		if err := tr.Run(); err != nil {
			t.Errorf("replay with HEDDLE_SEED=%d\n%s", s, tr.Report(err))
			if failed++; failed == 5 {
				return
			}
		}
		done, deaths = done+tr.Done, deaths+tr.Judge.Restarts
	}
	t.Logf("%d operations done, %d managers died", done, deaths)
	if n > 10 && deaths < int(n) {
		t.Errorf("%d managers died in %d schedules: this proves little", deaths, n)
	}
}

// lateCloud is a cloud with an interface "web" that has a P_Key.
type lateCloud struct {
	*cloud
	st *store.Memory
}

func (k *lateCloud) manage() {
	k.t.Helper()
	if k.m != nil {
		k.st = k.st.Reopen()
	}
	m, err := k.Attach(k.hosts[0], k.cfg, k.st)
	if err != nil {
		k.t.Fatal(err)
	}
	m.ServeSA(SAConfig(0), sa.Options{})
	m.ServeVMs(vm.Config{})
	if k.m = m; m.Start() != nil {
		k.t.Fatal("the manager does not start")
	}
}

func (k *lateCloud) do(op vm.Op) vm.Interface {
	k.t.Helper()
	r := k.m.VM(op)
	if r.Err != nil || r.Waiting {
		k.t.Fatalf("%T %+v: %v, %+v\n%s", op, op, r.Err, r.Interface, tail(k.m))
	}
	return r.Interface
}

// state is what is stored of addresses.
func (k *lateCloud) state() string {
	k.t.Helper()
	st, err := k.st.Load()
	if err != nil {
		k.t.Fatal(err)
	}
	return fmt.Sprint(st.LIDs, slices.DeleteFunc(st.Records, func(r store.Record) bool {
		return r.Table != store.TableInterfaces && r.Table != store.TableFunctionLIDs
	}))
}

// TestDiesAfterMove: a manager dies when it has answered a move, before the store has its end. The
// next one comes to the same: it writes what one writes that finds the end in its store, and no more;
// the address is at its place at every moment; and in the end the store has the same. A manager that
// ends in order stores all.
func TestDiesAfterMove(t *testing.T) {
	for _, x := range []struct {
		name        string
		h           sim.Hypervisor
		kind        subnet.LIDKind
		prepopulate bool
		guid        vm.GUIDKind
	}{
		{"vSwitch", sim.Hypervisor{Model: sim.VSwitch, VFs: 4}, subnet.OwnLID, false, vm.PoolGUID},
		{"vSwitch, prepopulated", sim.Hypervisor{Model: sim.VSwitch, VFs: 4}, subnet.OwnLID, true, vm.PoolGUID},
		{"vSwitch, GUIDs of functions", sim.Hypervisor{Model: sim.VSwitch, VFs: 4}, subnet.SharedLID, true, vm.FunctionGUID},
		{"shared port", sim.Hypervisor{Model: sim.SharedPort, VFs: 4}, subnet.SharedLID, false, vm.PoolGUID},
		{"shared port, floating", sim.Hypervisor{Model: sim.SharedPort, VFs: 4}, subnet.FloatingLID, false, vm.PoolGUID},
		{"VPorts", sim.Hypervisor{Model: sim.VPorts, VFs: 4, OwnLIDs: true}, subnet.OwnLID, false, vm.StaticGUID},
	} {
		t.Run(x.name, func(t *testing.T) {
			// The first manager ends in order, or dies.
			var writes [2]int
			var states [2]string
			for i, dies := range []bool{false, true} {
				k := &lateCloud{layCloud(t, 3, 3, x.h, sim.Config{Seed: 1, HopLatency: time.Microsecond, SMALatency: 5 * time.Microsecond}, func(c *sm.Config) {
					c.VSwitchPrepopulate = x.prepopulate
				}), store.NewMemory()}
				moved := k.moved(x.kind, x.guid)
				before := k.state()
				if dies {
					k.m.Kill()
				} else {
					k.m.Stop()
				}
				if dies != (k.state() == before) {
					t.Errorf("dies %v: what is stored changed: %v", dies, k.state() != before)
				}
				k.manage()
				if v := k.m.VMs().Interface("web"); (v.Doing == vm.DoingFinish) != dies {
					t.Errorf("dies %v: the next manager begins with %+v", dies, v)
				}
				k.watch(moved.GUID)
				k.up()
				k.Run(time.Second)
				v := *k.m.VMs().Interface("web")
				if v.State != vm.Attached || v.Place != moved.Place || v.GUID != moved.GUID || v.LID != moved.LID || v.Doing != "" || v.Placement != subnet.PlacementPlaced {
					t.Errorf("dies %v: %+v, want %+v", dies, v, moved)
				}
				writes[i], states[i] = k.m.Writes, k.state()
				// Who was not told repeats the request.
				for _, op := range []vm.Op{vm.Move{Name: "web", To: k.place(5, 2)}, vm.Finish{Name: "web"}} {
					if again := k.do(op); again.Place != moved.Place {
						t.Errorf("dies %v, %T again: %+v", dies, op, again)
					}
				}
				if k.m.Writes != writes[i] {
					t.Errorf("dies %v: a repeated request writes %d SMPs", dies, k.m.Writes-writes[i])
				}
			}
			if writes[0] != writes[1] || states[0] != states[1] {
				t.Errorf("after an end in order the next manager writes %d SMPs, after a death %d; it comes to\n%s\nand\n%s", writes[0], writes[1], states[0], states[1])
			}
		})
	}
}

// moved makes interface "web" and moves it. It returns when the move is answered.
func (k *lateCloud) moved(kind subnet.LIDKind, guid vm.GUIDKind) vm.Interface {
	k.t.Helper()
	k.manage()
	k.up()
	web, opt := vm.Interface{Name: "web", LIDKind: kind, GUIDKind: guid, Keys: []vm.Membership{{PKey: 5, Full: true}}}, sim.VMOptions{}
	if guid == vm.StaticGUID {
		web.GUID = 0x0200_0000_0000_1000
		opt = sim.VMOptions{GUID: web.GUID, OwnLID: true}
	}
	to := vf(k.t, k.Cluster, k.hosts[5], 2)
	err := k.Sim.PlaceVM("web", vf(k.t, k.Cluster, k.hosts[1], 1), opt)
	k.Run(time.Second) // the manager sees it
	k.do(vm.Create{I: web})
	k.do(vm.Attach{Name: "web", At: k.place(1, 1)})
	k.Run(time.Second)
	if err = errors.Join(err, k.Sim.MoveVM("web", to)); err != nil {
		k.t.Fatal(err)
	}
	k.Run(time.Second)
	return k.do(vm.Move{Name: "web", To: k.place(5, 2)})
}

// watch has the test fail if a GUID is in a snapshot and not in a later one, or if the destination
// changes in any way.
func (k *lateCloud) watch(g ib.GUID) {
	to := vf(k.t, k.Cluster, k.hosts[5], 2)
	look := func() string {
		st, err := k.Sim.VPort(to)
		return fmt.Sprint(st.GUID, st.LID, st.State, k.Sim.GUIDs(to.Node, int(to.Port)), err)
	}
	was, there := look(), false
	k.m.OnPublish = func() { // the functions are read after the first
		if now := k.m.Snap.PortByGUID(g) >= 0; there && !now {
			k.t.Errorf("%v: a snapshot lacks the address", k.Sim.Now())
		} else {
			there = now
		}
	}
	k.m.OnStep = func() {
		if now := look(); now != was {
			k.t.Errorf("%v: the function had %s, and has %s", k.Sim.Now(), was, now)
			was = now
		}
	}
}

// TestMoveStoredLate: what a move leaves is stored soon, and by itself.
func TestMoveStoredLate(t *testing.T) {
	k := &lateCloud{layCloud(t, 3, 3, sim.Hypervisor{Model: sim.VSwitch, VFs: 4}, sim.Config{Seed: 1}, nil), store.NewMemory()}
	k.moved(subnet.OwnLID, vm.PoolGUID)
	before := k.state()
	k.Run(100 * time.Millisecond)
	after := k.state()
	if after == before {
		t.Error("not stored after 100 ms")
	}
	k.m.Kill()
	k.manage()
	if v := k.m.VMs().Interface("web"); v.State != vm.Attached || v.Place != k.place(5, 2) {
		t.Errorf("%+v", v)
	}
	if k.Run(time.Second); k.state() != after {
		t.Error("stored again")
	}
}

// TestCommitsOfMoves: moves that follow each other take one commit each, and two if the functions
// exchange LIDs.
func TestCommitsOfMoves(t *testing.T) {
	for _, prepopulate := range []bool{false, true} {
		k := &lateCloud{layCloud(t, 3, 3, sim.Hypervisor{Model: sim.VSwitch, VFs: 4}, sim.Config{Seed: 1, HopLatency: time.Microsecond, SMALatency: 5 * time.Microsecond}, func(c *sm.Config) {
			c.VSwitchPrepopulate = prepopulate
		}), store.NewMemory()}
		k.moved(subnet.OwnLID, vm.PoolGUID)
		if err := k.Sim.EnableVPort(vf(t, k.Cluster, k.hosts[1], 1)); err != nil {
			t.Fatal(err)
		}
		k.Run(time.Second)
		const moves = 40
		before := k.m.Commits
		for i := range moves {
			k.do(vm.Move{Name: "web", To: []subnet.Place{k.place(1, 1), k.place(5, 2)}[i%2]})
		}
		got, want := k.m.Commits-before, moves
		if prepopulate {
			want *= 2
		}
		if got != want {
			t.Errorf("prepopulate %v: %d commits for %d moves, want %d", prepopulate, got, moves, want)
		}
		if k.Run(time.Second); k.m.Commits-before != want+1 {
			t.Errorf("prepopulate %v: %d commits after the last move, want 1", prepopulate, k.m.Commits-before-want)
		}
	}
}
