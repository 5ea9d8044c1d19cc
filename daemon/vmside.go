package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"heddle/api"
	"heddle/api/show"
	"heddle/shell"
	"heddle/store"
	"heddle/subnet"
	"heddle/vm"
)

// vmSide is what a Daemon has of its address manager beside what it publishes.
type vmSide struct {
	more  chan struct{} // closed when there is a newer view; guarded by mu
	mu    sync.Mutex
	stats vmStats
	ended chan struct{} // closed when no operation is answered any more
}

func newVMSide() vmSide {
	return vmSide{more: make(chan struct{}), ended: make(chan struct{})}
}

// published wakes who waits for a new view.
func (v *vmSide) published() {
	v.mu.Lock()
	defer v.mu.Unlock()
	close(v.more)
	v.more = make(chan struct{})
}

// vmReply is the answer to operation i of a request.
type vmReply struct {
	i int
	r vm.Reply
}

// next is closed when there is a newer view than the one of now.
func (v *vmSide) next() <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.more
}

// manageAddresses restores what the address manager kept and starts its
// goroutine; end stops it and waits for it.
func (d *Daemon) manageAddresses(core shell.VMCore, records []store.Record) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	l := newVMLoop(d, core)
	l.shell.Start(records)
	running.Go(func() { l.run(ctx) })
	return func() {
		cancel()
		running.Wait()
		close(d.vm.ended)
	}
}

// Interfaces is what the address manager keeps; nil before Run.
func (d *Daemon) Interfaces() *vm.View { return d.shared.VMs.Load() }

// master reports, as an error, that this manager is not the master, and who is.
// The store is local: what a standby changed, the master would not know.
func (d *Daemon) master() error {
	st := d.status.Load()
	switch {
	case st != nil && st.State == subnet.Master:
		return nil
	case st != nil && st.Master.GUID != 0:
		return fmt.Errorf("%w: ask the master, port GUID %v%s", api.ErrNotMaster, st.Master.GUID, d.described(st.Master))
	}
	return fmt.Errorf("%w, and it is not known yet who is", api.ErrNotMaster)
}

// described names another manager's node, if a snapshot shows it.
func (d *Daemon) described(m subnet.SM) string {
	s := d.Snapshot()
	if s == nil {
		return ""
	}
	if i := s.PortByGUID(m.GUID); i >= 0 {
		return fmt.Sprintf(" (%q)", s.Nodes[s.Ports[i].Node].Desc)
	}
	return ""
}

// Perform hands operations to the address manager, all at once, and returns when
// each is answered. When ctx ends first, those that are not are told as Waiting:
// they are stored and go on. An error says that none was done, or that it is not
// known.
func (d *Daemon) Perform(ctx context.Context, ops []vm.Op) ([]vm.Reply, error) {
	if err := d.master(); err != nil {
		return nil, err
	}
	if d.Interfaces() == nil {
		return nil, fmt.Errorf("%w: the address manager has not started yet", api.ErrBusy)
	}
	if len(ops) == 0 {
		return nil, nil
	}
	replies, taken := make(chan vmReply, len(ops)), make(chan struct{}) // room for all
	a := &shell.Ask{Ops: ops, Taken: func() { close(taken) }, Answer: func(i int, r *vm.Reply) { replies <- vmReply{i, *r} }}
	if !d.shared.Ask(a) {
		return nil, fmt.Errorf("%w: %d requests wait for the address manager; ask again in a second", api.ErrBusy, shell.MaxAsks)
	}
	limit := time.NewTimer(changeTime)
	defer limit.Stop()
	select {
	case <-taken:
	case <-limit.C:
		return nil, fmt.Errorf("%w: after %v it is not known whether this is stored; ask what the interface is now", api.ErrBusy, changeTime)
	case <-d.vm.ended:
		return nil, errEnded
	}
	out, done := make([]vm.Reply, len(ops)), make([]bool, len(ops))
	left := len(ops)
	take := func(r vmReply) {
		out[r.i], done[r.i] = r.r, true
		left--
	}
	for over := false; left > 0; {
		select { // what is there already counts, even if nobody waits for more
		case r := <-replies:
			take(r)
			continue
		default:
		}
		if over {
			break
		}
		select {
		case r := <-replies:
			take(r)
		case <-ctx.Done():
			over = true
		case <-d.vm.ended:
			over = true
		}
	}
	for i := range out {
		if !done[i] {
			out[i] = vm.Reply{Interface: d.interfaceNow(opName(ops[i])), Waiting: true}
		}
	}
	return out, nil
}

var errEnded = errors.New("the manager has ended")

// outlast waits for an operation that goes on, as one does for which packets must
// drain first, and returns how it ended, or as what it goes on when ctx ends.
func (d *Daemon) outlast(ctx context.Context, op vm.Op, r vm.Reply) vm.Reply {
	name := opName(op)
	for r.Waiting && r.Interface.Doing != "" && r.Interface.Placement == subnet.PlacementMoving {
		more := d.vm.next()
		if r = r.Now(d.interfaceNow(name)); !r.Waiting || r.Interface.Placement != subnet.PlacementMoving {
			break
		}
		select {
		case <-more:
		case <-ctx.Done():
			return r
		case <-d.vm.ended:
			return r
		}
	}
	if r.Interface.Doing == "" {
		r = r.Now(r.Interface) // nothing goes on that could be waited for
	}
	return r
}

// interfaceNow is an interface as it was last published; only its name if it is
// not there.
func (d *Daemon) interfaceNow(name string) vm.Interface {
	if i, ok := show.Interface(d.Interfaces(), name); ok {
		return *i
	}
	return vm.Interface{Name: name}
}

// opName is the name of the interface that an operation is about, empty for those
// about memberships.
func opName(op vm.Op) string {
	switch op := op.(type) {
	case vm.Create:
		return op.I.Name
	case vm.Attach:
		return op.Name
	case vm.Migrate:
		return op.Name
	case vm.Finish:
		return op.Name
	case vm.Move:
		return op.Name
	case vm.RollBack:
		return op.Name
	case vm.Detach:
		return op.Name
	case vm.Delete:
		return op.Name
	case vm.SetKeys:
		return op.Name
	}
	return ""
}
