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
	"heddle/mad"
	"heddle/partition"
	"heddle/sm"
	"heddle/store"
	"heddle/subnet"
	"heddle/vm"
)

// scripted is a core that notes its events and does what a test says.
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
	l.start(nil)
	d.vm.view.CompareAndSwap(nil, &vm.View{})
	return d, l, core
}

// TestVMOutputOrder: what a step wants is stored before anybody is told, and told
// before the manager is asked for anything.
func TestVMOutputOrder(t *testing.T) {
	full := errors.New("no space")
	for _, fail := range []error{nil, full} {
		var log []string
		var d *Daemon
		var l *vmLoop
		d, l, core := managed(t, subnet.Master, func(ev vm.Event, out *vm.Output) {
			switch ev := ev.(type) {
			case vm.Requests:
				out.Persist = []store.Op{{Kind: store.PutRecord, Record: store.Record{Table: store.TableInterfaces, Key: []byte("web"), Value: []byte("x")}}}
				out.PersistGen = 7
			case vm.Persisted:
				log = append(log, fmt.Sprint("persisted ", ev.Gen, " ", ev.Err))
				if ev.Err != nil {
					out.Replies = []vm.Reply{{Tag: 1, Err: vm.ErrStore}}
					return
				}
				out.Publish = &vm.View{Gen: 3}
				out.Replies = []vm.Reply{{Tag: 1, Interface: vm.Interface{Name: "web"}}}
				out.Put, out.LeasesChanged = []subnet.Lease{{GUID: 5}}, true
				out.Partitions, out.PartitionsChanged = []partition.Partition{{PKey: 5}}, true
				out.Notices = []vm.Notice{{Kind: "vm_created", Text: "web is there"}}
			}
		})
		d.cfg.Store = &watchedStore{Store: d.cfg.Store, fail: fail, applied: func([]store.Op) { log = append(log, "apply") }}
		a := &vmAsk{ops: []vm.Op{vm.Create{}}, replies: make(chan vmReply, 1), taken: make(chan struct{})}
		d.vm.asks.put([]*vmAsk{a})
		l.change()
		if want := []string{"apply", fmt.Sprint("persisted 7 ", fail)}; !slices.Equal(log, want) {
			t.Errorf("what happened: %v, want %v", log, want)
		}
		r := <-a.replies
		<-a.taken
		leases, hasLeases := d.vm.leases.take()
		members, hasMembers := d.vm.members.take()
		if fail != nil {
			if !errors.Is(r.r.Err, vm.ErrStore) || hasLeases || hasMembers || d.Interfaces().Gen != 0 {
				t.Errorf("with a full disk: %+v, leases %v, members %v, view %+v", r, leases, members, d.Interfaces())
			}
			continue
		}
		if r.r.Err != nil || len(leases.put) != 1 || len(members) != 1 || d.Interfaces().Gen != 3 || len(core.events) != 3 {
			t.Errorf("%+v, leases %v, members %v, view %+v, events %v", r, leases, members, d.Interfaces(), core.events)
		}
		if ev, _ := d.Events(0); len(ev) != 1 || ev[0].Kind != "vm_created" {
			t.Errorf("events %v", ev)
		}
	}
}

// TestVMStartsBeforeTheManager: what the store held is wanted of the manager's core
// before it starts, so that nobody loses a key or an address for a moment.
func TestVMStartsBeforeTheManager(t *testing.T) {
	d, l, core := managed(t, subnet.NotActive, func(ev vm.Event, out *vm.Output) {
		if _, ok := ev.(vm.Start); ok {
			out.Put, out.All, out.LeasesChanged = []subnet.Lease{{GUID: 5}}, true, true
			out.PartitionsChanged = true
		}
	})
	if _, ok := core.events[0].(vm.Start); !ok || len(core.events) != 1 {
		t.Fatalf("events %v", core.events)
	}
	if c, ok := d.vm.leases.take(); !ok || !c.all || len(c.put) != 1 {
		t.Errorf("leases %+v, %v", c, ok)
	}
	if _, ok := d.vm.members.take(); !ok {
		t.Error("no members, where there are none: the manager's core is to know that too")
	}
	// A snapshot comes before the reports that rest on it.
	d.snap.Store(&subnet.Snapshot{Gen: 4})
	d.vm.report([]subnet.LeaseReport{{GUID: 5, State: subnet.LeasePlaced, SMPs: 2}})
	d.vm.report([]subnet.LeaseReport{{GUID: 6, State: subnet.LeaseRefused}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	l.core = &scripted{step: func(ev vm.Event, _ *vm.Output) {
		if r, ok := ev.(vm.Reports); ok {
			if l.seen == nil || len(r.List) != 2 || r.List[0].GUID != 5 {
				t.Errorf("reports %v after snapshot %v", r.List, l.seen)
			}
			cancel()
		}
	}}
	go func() { l.run(ctx); close(done) }()
	<-done
	if s := &d.vm.stats; s.placed.Load() != 1 || s.refused.Load() != 1 || s.blocks.Load() != 2 {
		t.Errorf("counted %d placed, %d refused, %d blocks", s.placed.Load(), s.refused.Load(), s.blocks.Load())
	}
}

func TestLeaseChangesAddUp(t *testing.T) {
	at := func(g ib.GUID, fn uint16) subnet.Lease {
		return subnet.Lease{GUID: g, Place: subnet.Place{Port: 1, Function: fn}}
	}
	for _, c := range []struct {
		name string
		in   []leaseChange
		want leaseChange
	}{
		{"the later counts", []leaseChange{{put: []subnet.Lease{at(1, 1), at(2, 1)}}, {put: []subnet.Lease{at(1, 2)}}}, leaseChange{put: []subnet.Lease{at(2, 1), at(1, 2)}}},
		{"put, then dropped", []leaseChange{{put: []subnet.Lease{at(1, 1)}}, {drop: []ib.GUID{1}}}, leaseChange{drop: []ib.GUID{1}}},
		{"dropped, then put", []leaseChange{{drop: []ib.GUID{1, 3}}, {put: []subnet.Lease{at(1, 1)}}}, leaseChange{drop: []ib.GUID{3}, put: []subnet.Lease{at(1, 1)}}},
		{"all, then more", []leaseChange{{put: []subnet.Lease{at(1, 1), at(2, 1)}, all: true}, {put: []subnet.Lease{at(3, 1)}, drop: []ib.GUID{1}}}, leaseChange{put: []subnet.Lease{at(2, 1), at(3, 1)}, all: true}},
		{"all forgets", []leaseChange{{put: []subnet.Lease{at(1, 1)}, drop: []ib.GUID{2}}, {put: []subnet.Lease{at(3, 1)}, all: true}}, leaseChange{put: []subnet.Lease{at(3, 1)}, all: true}},
	} {
		var got leaseChange
		for _, n := range c.in {
			got = got.then(n)
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestVMWaits: who does not wait long enough is told what is stored and goes on;
// the others get the answer.
func TestVMWaits(t *testing.T) {
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
				out.Publish = vm.ViewOf(vm.Interface{Name: "web", Doing: "attach"})
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
			t.Errorf("who does not wait: %+v, %v", out, err)
		}
		over, end := context.WithCancel(ctx)
		end()
		if out, err = d.Perform(over, ops); err != nil || !out[0].Waiting || !errors.Is(out[1].Err, vm.ErrNotFound) {
			t.Errorf("who does not wait at all: %+v, %v", out, err)
		}
		go func() {
			<-time.After(time.Minute)
			d.vm.report([]subnet.LeaseReport{{GUID: 1}})
		}()
		if out, err = d.Perform(ctx, ops[:1]); err != nil || out[0].Waiting || out[0].Interface.State != vm.Attached {
			t.Errorf("who waits: %+v, %v", out, err)
		}
	})
}

// TestVMNotHere: a manager that cannot do it says why, and does nothing.
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
		d.vm.asks.put(make([]*vmAsk, maxVMAsks))
		if _, err := d.Perform(t.Context(), []vm.Op{vm.Create{}}); !errors.Is(err, api.ErrBusy) || !strings.Contains(err.Error(), "again") {
			t.Errorf("too many: %v", err)
		}
		d.vm.asks.take()
		l.alarm.timer.Stop()
		close(d.vm.ended)
		if _, err := d.Perform(t.Context(), []vm.Op{vm.Create{}}); !errors.Is(err, errEnded) {
			t.Errorf("after the end: %v", err)
		}
	})
}

// TestVMSteps: operations of the API that are made of two go on to the second only
// after the first, all of a batch together.
func TestVMSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rounds []string
		d, l, _ := managed(t, subnet.Master, func(ev vm.Event, out *vm.Output) {
			if ev, ok := ev.(vm.Requests); ok {
				var names []string
				for _, r := range ev.List {
					name := opName(r.Op)
					names = append(names, fmt.Sprintf("%T %s", r.Op, name))
					rep := vm.Reply{Tag: r.Tag, Interface: vm.Interface{Name: name}}
					switch r.Op.(type) {
					case vm.Migrate:
						if name == "b" {
							rep.Err = vm.ErrConflict
						}
					case vm.Attach:
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
			{Op: "move", Name: "b", VMTarget: api.VMTarget{Hypervisor: h}},
			{Op: "create", Name: "c", VMTarget: api.VMTarget{Hypervisor: h}},
			{Op: "create", Name: "pools"},
			{Op: "attach", Name: "e"},
		})
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"vm.Migrate a, vm.Migrate b, vm.Create c", "vm.Finish a, vm.Attach c"}
		if !slices.Equal(rounds, want) {
			t.Errorf("asked for %q, want %q", rounds, want)
		}
		if out[0].Err != nil || !errors.Is(out[1].Err, vm.ErrConflict) || !errors.Is(out[2].Err, vm.ErrConflict) || !strings.Contains(out[2].Err.Error(), "it is created") ||
			!errors.Is(out[3].Err, vm.ErrInvalid) || !errors.Is(out[4].Err, vm.ErrInvalid) {
			t.Errorf("%+v", out)
		}
	})
}

// TestVMOutlasts: an operation that takes longer than the core lets anybody wait,
// as packets must drain first, is waited for all the same, until who asked has
// waited enough; how it ends is told.
func TestVMOutlasts(t *testing.T) {
	const port, guid = ib.GUID(0x11), ib.GUID(0xAA)
	for _, c := range []struct {
		end  subnet.LeaseState
		wait time.Duration
		want string
	}{
		{subnet.LeasePlaced, time.Minute, "200 attached"},
		{subnet.LeaseRefused, time.Minute, "409 created"},
		{subnet.LeasePlaced, 10 * time.Second, "202 attached, doing attach"},
	} {
		synctest.Test(t, func(t *testing.T) {
			d, _ := newPiped(func(*mad.Packet) error { return nil }, Config{})
			d.status.Store(&sm.Status{State: subnet.Master})
			s := &subnet.Snapshot{
				Gen: 1, Up: true, State: subnet.Master,
				Nodes: []subnet.Node{{Info: smp.NodeInfo{NodeType: ib.NodeCA, NumPorts: 1, NodeGUID: 0x10}, Desc: "H1", SwitchIndex: -1, OK: true}},
				Ports: []subnet.Port{
					{EndPort: -1, Peer: subnet.NoRef},
					{GUID: port, Num: 1, LID: 1, Known: true, Peer: subnet.NoRef, Adapter: &subnet.Adapter{Model: subnet.VSwitch, Functions: 2}},
				},
			}
			s.Finish()
			d.snap.Store(s)
			end := d.manageAddresses(newAddressManager(vm.Config{}), nil)
			defer end()
			go func() {
				at := subnet.Place{Port: port, Function: 1}
				<-time.After(time.Second)
				d.vm.report([]subnet.LeaseReport{{GUID: guid, Place: at, State: subnet.LeaseMoving}})
				<-time.After(17 * time.Second)
				d.vm.report([]subnet.LeaseReport{{GUID: guid, Place: at, State: c.end, LID: 7, Reason: "the hypervisor does not take it"}})
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

// TestHypervisorNames: what people call a hypervisor, also before it is known to be
// one, and what cannot be one.
func TestHypervisorNames(t *testing.T) {
	node := func(guid ib.GUID, desc string, first int32) subnet.Node {
		return subnet.Node{Info: smp.NodeInfo{NodeType: ib.NodeCA, NumPorts: 1, NodeGUID: guid}, Desc: desc, First: first, SwitchIndex: -1, OK: true}
	}
	s := &subnet.Snapshot{
		Up: true,
		Nodes: []subnet.Node{
			node(0x10, "H1", 0), node(0x20, "H2", 2), node(0x30, "twin", 4), node(0x40, "twin", 6),
		},
		Ports: []subnet.Port{
			{EndPort: -1, Peer: subnet.NoRef},
			{GUID: 0x11, Num: 1, LID: 1, Peer: subnet.NoRef, Adapter: &subnet.Adapter{Model: subnet.VPorts, Functions: 2}},
			{EndPort: -1, Peer: subnet.NoRef, Node: 1},
			{GUID: 0x21, Num: 1, LID: 2, Peer: subnet.NoRef, Node: 1},
			{EndPort: -1, Peer: subnet.NoRef, Node: 2},
			{GUID: 0x31, Num: 1, LID: 3, Peer: subnet.NoRef, Node: 2},
			{EndPort: -1, Peer: subnet.NoRef, Node: 3},
			{GUID: 0x41, Num: 1, LID: 4, Peer: subnet.NoRef, Node: 3},
			{GUID: 0xAA, Num: 1, LID: 1, Peer: subnet.NoRef, Virtual: &subnet.Virtual{Port: 1, Index: 1}},
		},
	}
	s.Finish()
	for name, want := range map[string]string{
		"H1":                 "0x0000000000000011",
		"0x0000000000000010": "0x0000000000000011",
		"0x0000000000000011": "0x0000000000000011",
		"H2":                 "0x0000000000000021", // whether it is one is not known yet
		"0x0000000000000099": "0x0000000000000099", // not there yet
		"":                   "which hypervisor",
		"twin":               "several ports",
		"nobody":             "no port with virtual functions",
		"0x00000000000000aa": "is a virtual port of 0x0000000000000011",
	} {
		got, err := hypervisorPort(s, name)
		if text := fmt.Sprint(got, " ", err); !strings.Contains(text, want) || (err != nil) != !strings.HasPrefix(want, "0x") {
			t.Errorf("%q: %s, want %s", name, text, want)
		}
	}
	if _, err := hypervisorPort(nil, "H1"); !errors.Is(err, api.ErrBusy) {
		t.Errorf("before the subnet is up: %v", err)
	}
}
