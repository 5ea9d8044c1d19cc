package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"heddle/api"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/internal/vmtest"
	"heddle/mad"
	"heddle/shell"
	"heddle/sm"
	"heddle/store"
	"heddle/subnet"
	"heddle/vm"
)

// scripted is a core that records its events and returns the outputs of a test.
type scripted struct {
	events []vm.Event
	step   func(ev vm.Event, out *vm.Output)
}

func (s *scripted) Step(_ mad.Time, ev vm.Event, out *vm.Output) {
	s.events = append(s.events, ev)
	s.step(ev, out)
}

// managed is a daemon, master of a subnet, with a scripted address manager that
// the caller drives.
func managed(t *testing.T, state subnet.SMState, step func(ev vm.Event, out *vm.Output)) (*Daemon, *vmLoop, *scripted) {
	t.Helper()
	d, _ := newPiped(func(*mad.Packet) error { return nil }, Config{})
	d.status.Store(&sm.Status{State: state, Master: subnet.SM{GUID: 0xABC}})
	core := &scripted{step: step}
	l := newVMLoop(d, core)
	l.shell.Start(nil)
	d.shared.VMs.CompareAndSwap(nil, &vm.View{})
	return d, l, core
}

// TestVMReportsAreCounted: the subnet manager's reports on placements are counted.
func TestVMReportsAreCounted(t *testing.T) {
	d, l, core := managed(t, subnet.NotActive, func(vm.Event, *vm.Output) {})
	smSays(d, sm.Output{Placements: []subnet.PlacementReport{{GUID: 5, State: subnet.PlacementPlaced, SMPs: 2}, {GUID: 6, State: subnet.PlacementRefused}}})
	l.shell.Mail()
	if s := &d.vm.stats; s.placed.Load() != 1 || s.refused.Load() != 1 || s.blocks.Load() != 2 {
		t.Errorf("counted %d placed, %d refused, %d blocks", s.placed.Load(), s.refused.Load(), s.blocks.Load())
	}
	if r, ok := core.events[len(core.events)-1].(vm.Reports); !ok || len(r.List) != 2 {
		t.Errorf("events %v", core.events)
	}
}

// TestVMWaits: a request that ends before its operation is answered with what is stored and in
// progress; others get the final answer.
func TestVMWaits(t *testing.T) {
	web := vmtest.View(t, vm.Create{I: vm.Interface{Name: "web"}}, vm.Attach{Name: "web", At: subnet.Place{Port: 1, Function: 1}})
	synctest.Test(t, func(t *testing.T) {
		var tags []uint64
		d, l, _ := managed(t, subnet.Master, func(ev vm.Event, out *vm.Output) {
			switch ev := ev.(type) {
			case vm.Requests:
				for _, r := range ev.List {
					if a, ok := r.Op.(vm.Attach); ok && a.Name == "gone" {
						out.Replies = append(out.Replies, vm.Reply{Tag: r.Tag, Err: vm.ErrNotFound})
						continue
					}
					tags = append(tags, r.Tag)
				}
				out.Publish = web
			case vm.Reports:
				for _, tag := range tags {
					out.Replies = append(out.Replies, vm.Reply{Tag: tag, Interface: vm.Interface{Name: "web", State: vm.Attached}})
				}
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go l.run(ctx)
		ops := []vm.Op{vm.Attach{Name: "web"}, vm.Attach{Name: "gone"}}
		impatient, end := context.WithTimeout(ctx, time.Second)
		defer end()
		out, err := d.Perform(impatient, ops)
		if err != nil || !out[0].Waiting || out[0].Interface.Name != "web" || !errors.Is(out[1].Err, vm.ErrNotFound) || out[1].Waiting {
			t.Errorf("an impatient request: %+v, %v", out, err)
		}
		over, end := context.WithCancel(ctx)
		end()
		if out, err = d.Perform(over, ops); err != nil || !out[0].Waiting || !errors.Is(out[1].Err, vm.ErrNotFound) {
			t.Errorf("a request that does not wait: %+v, %v", out, err)
		}
		go func() {
			<-time.After(time.Minute)
			smSays(d, sm.Output{Placements: []subnet.PlacementReport{{GUID: 1}}})
		}()
		if out, err = d.Perform(ctx, ops[:1]); err != nil || out[0].Waiting || out[0].Interface.State != vm.Attached {
			t.Errorf("who waits: %+v, %v", out, err)
		}
	})
}

// TestVMNotHere: a manager that cannot carry out operations says why, and changes nothing.
func TestVMNotHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, l, core := managed(t, subnet.Standby, func(vm.Event, *vm.Output) {})
		_, err := d.Perform(t.Context(), []vm.Op{vm.Create{}})
		if !errors.Is(err, api.ErrNotMaster) || !strings.Contains(err.Error(), "0x0000000000000abc") || len(core.events) != 1 {
			t.Errorf("a standby: %v, events %v", err, core.events)
		}
		if _, err := d.Operate(t.Context(), []api.VMOperation{{Op: "finish", Name: "web"}}); !errors.Is(err, api.ErrNotMaster) {
			t.Errorf("a standby: %v", err)
		}
		d.status.Store(&sm.Status{State: subnet.Master})
		// Nobody takes it.
		if _, err := d.Perform(t.Context(), []vm.Op{vm.Create{}}); !errors.Is(err, api.ErrBusy) || !strings.Contains(err.Error(), "not known") {
			t.Errorf("a loop that hangs: %v", err)
		}
		for d.shared.Ask(&shell.Ask{}) { // until there is no room
		}
		if _, err := d.Perform(t.Context(), []vm.Op{vm.Create{}}); !errors.Is(err, api.ErrBusy) || !strings.Contains(err.Error(), "repeat") {
			t.Errorf("too many: %v", err)
		}
		l.shell.Mail()
		l.alarm.timer.Stop()
		close(d.vm.ended)
		if _, err := d.Perform(t.Context(), []vm.Op{vm.Create{}}); !errors.Is(err, errEnded) {
			t.Errorf("after the end: %v", err)
		}
	})
}

// TestVMBatch: the valid operations of a request are passed to the address manager as one
// batch, and each has its own outcome.
func TestVMBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rounds []string
		d, l, _ := managed(t, subnet.Master, func(ev vm.Event, out *vm.Output) {
			if ev, ok := ev.(vm.Requests); ok {
				var names []string
				for _, r := range ev.List {
					name := opName(r.Op)
					names = append(names, fmt.Sprintf("%T %s", r.Op, name))
					rep := vm.Reply{Tag: r.Tag, Interface: vm.Interface{Name: name}}
					if name == "b" {
						rep.Err = vm.ErrConflict
					}
					out.Replies = append(out.Replies, rep)
				}
				rounds = append(rounds, strings.Join(names, ", "))
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go l.run(ctx)
		const h = "0x0002c90300000001"
		out, err := d.Operate(ctx, []api.VMOperation{
			{Op: "move", Name: "a", VMTarget: api.VMTarget{Hypervisor: h}},
			{Op: "create", Name: "pools"},
			{Op: "move", Name: "b", VMTarget: api.VMTarget{Hypervisor: h}},
			{Op: "create", Name: "c", VMTarget: api.VMTarget{Hypervisor: h}},
			{Op: "attach", Name: "e"},
		})
		if err != nil {
			t.Fatal(err)
		}
		if want := []string{"vm.Move a, vm.Move b, vm.Create c"}; !slices.Equal(rounds, want) {
			t.Errorf("asked for %q, want %q", rounds, want)
		}
		if out[0].Err != nil || !errors.Is(out[1].Err, vm.ErrInvalid) || !errors.Is(out[2].Err, vm.ErrConflict) || out[3].Err != nil || !errors.Is(out[4].Err, vm.ErrInvalid) {
			t.Errorf("%+v", out)
		}
		if out[0].VM.Name != "a" || out[3].VM.Name != "c" {
			t.Errorf("%+v", out)
		}
	})
}

// TestVMOutlasts: an operation that takes longer than the core's limit for replies, because
// packets must drain first, is awaited up to the limit of the request, and its end is reported.
func TestVMOutlasts(t *testing.T) {
	const port, guid = ib.GUID(0x11), ib.GUID(0xAA)
	for _, c := range []struct {
		end  subnet.PlacementState
		wait time.Duration
		want string
	}{
		{subnet.PlacementPlaced, time.Minute, "200 attached"},
		{subnet.PlacementRefused, time.Minute, "409 created"},
		{subnet.PlacementPlaced, 10 * time.Second, "202 attached, doing attach"},
	} {
		synctest.Test(t, func(t *testing.T) {
			d, _ := newPiped(func(*mad.Packet) error { return nil }, Config{})
			d.status.Store(&sm.Status{State: subnet.Master})
			s := &subnet.Snapshot{
				Gen: 1, Up: true, State: subnet.Master,
				Nodes: []subnet.Node{{Info: smp.NodeInfo{NodeType: ib.NodeCA, NumPorts: 1, NodeGUID: 0x10}, Desc: "H1", SwitchIndex: -1, OK: true}},
				Ports: []*subnet.Port{
					{EndPort: -1, Peer: subnet.NoRef()},
					{GUID: port, Num: 1, LID: 1, Known: true, Peer: subnet.NoRef(), Adapter: &subnet.Adapter{Model: subnet.VSwitch, Functions: 2}},
				},
			}
			s.Finish()
			d.shared.Snap.Store(s)
			end := d.manageAddresses(vm.New(vm.Config{}), nil)
			defer end()
			go func() {
				at := subnet.Place{Port: port, Function: 1}
				<-time.After(time.Second)
				smSays(d, sm.Output{Placements: []subnet.PlacementReport{{GUID: guid, Place: at, State: subnet.PlacementMoving}}})
				<-time.After(17 * time.Second)
				smSays(d, sm.Output{Placements: []subnet.PlacementReport{{GUID: guid, Place: at, State: c.end, LID: 7, Reason: "the hypervisor does not take it"}}})
			}()
			ctx, cancel := context.WithTimeout(t.Context(), c.wait)
			defer cancel()
			out, err := d.Operate(ctx, []api.VMOperation{{
				Op: "create", Name: "web", VMAddress: api.VMAddress{GUID: guid.String(), LIDKind: "own"}, VMTarget: api.VMTarget{Hypervisor: "H1"},
			}})
			if err != nil {
				t.Fatal(err)
			}
			code, got := api.VMStatus(out[0].Err), out[0].VM.State
			if out[0].VM.Waiting {
				code = 202
			}
			if out[0].VM.Doing != "" {
				got += ", doing " + out[0].VM.Doing
			}
			if got = fmt.Sprint(code, " ", got); got != c.want {
				t.Errorf("%v: %s, want %s; %+v", c.end, got, c.want, out[0])
			}
			<-time.After(time.Minute)
		})
	}
}

// TestVMNothingGoesOn: a repeated attach does not wait, whatever the subnet manager last
// reported, because no operation is in progress.
func TestVMNothingGoesOn(t *testing.T) {
	d, _, _ := managed(t, subnet.Master, func(vm.Event, *vm.Output) {})
	for placement, refused := range map[subnet.PlacementState]bool{subnet.PlacementMoving: false, subnet.PlacementWaiting: false, subnet.PlacementRefused: true} {
		i := vm.Interface{Name: "web", State: vm.Attached, Place: subnet.Place{Port: 1, Function: 1}, Placement: placement}
		r := d.outlast(t.Context(), vm.Attach{Name: "web"}, vm.Reply{Interface: i, Waiting: true})
		if r.Waiting || (r.Err != nil) != refused {
			t.Errorf("%v: %+v", placement, r)
		}
	}
}

// TestVMStores: the end of a move that was answered is stored within 100 ms, or when the manager
// ends.
func TestVMStores(t *testing.T) {
	from, to := subnet.Place{Port: 0x11, Function: 1}, subnet.Place{Port: 0x11, Function: 2}
	for _, wait := range []time.Duration{0, 100 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			st := store.NewMemory()
			d, _ := newPiped(func(*mad.Packet) error { return nil }, Config{})
			d.cfg.Store = st
			d.status.Store(&sm.Status{State: subnet.Master})
			s := &subnet.Snapshot{
				Gen: 1, Up: true, State: subnet.Master,
				Nodes: []subnet.Node{{Info: smp.NodeInfo{NodeType: ib.NodeCA, NumPorts: 1, NodeGUID: 0x10}, Desc: "H1", SwitchIndex: -1, OK: true}},
				Ports: []*subnet.Port{
					{EndPort: -1, Peer: subnet.NoRef()},
					{GUID: from.Port, Num: 1, LID: 1, Known: true, Peer: subnet.NoRef(), Adapter: &subnet.Adapter{Model: subnet.VSwitch, Functions: 2}},
				},
			}
			s.Finish()
			d.shared.Snap.Store(s)
			end := d.manageAddresses(vm.New(vm.Config{}), nil)
			stored := func() string {
				state, err := st.Load()
				if err != nil {
					t.Fatal(err)
				}
				return fmt.Sprint(state.Records)
			}
			for i, at := range []subnet.Place{from, to} {
				go func() {
					<-time.After(time.Second)
					smSays(d, sm.Output{Placements: []subnet.PlacementReport{{GUID: 0xAA, Place: at, State: subnet.PlacementPlaced, LID: 7}}})
				}()
				op := []vm.Op{vm.Create{I: vm.Interface{Name: "web", GUID: 0xAA, LIDKind: subnet.OwnLID, Place: from}}, vm.Move{Name: "web", To: to}}[i]
				if out, err := d.Perform(t.Context(), []vm.Op{op}); err != nil || out[0].Err != nil || out[0].Waiting {
					t.Fatalf("%+v: %+v, %v", op, out, err)
				}
			}
			before := stored()
			if wait > 0 {
				<-time.After(wait)
				synctest.Wait()
				if stored() == before {
					t.Errorf("not stored after %v", wait)
				}
				before = stored()
			}
			end()
			if (stored() == before) != (wait > 0) {
				t.Errorf("after %v: stored at the end: %v", wait, stored() != before)
			}
		})
	}
}
