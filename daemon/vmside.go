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

// vmSide is a Daemon's part of the address manager.
type vmSide struct {
	more  chan struct{} // closed at the next view; guarded by mu
	mu    sync.Mutex
	stats vmStats
	ended chan struct{} // closed when operations are no longer answered
	asked askedKeys
}

func newVMSide() vmSide {
	return vmSide{more: make(chan struct{}), ended: make(chan struct{})}
}

// published wakes goroutines that wait for a new view.
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

// next is closed when a view newer than the current one is published.
func (v *vmSide) next() <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.more
}

// manageAddresses restores the address manager's stored state and starts its goroutine; end
// stops it and waits for it.
func (d *Daemon) manageAddresses(core shell.VMCore, records []store.Record) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	l := newVMLoop(d, core)
	l.shell.Start(records)
	running.Go(func() { l.run(ctx) })
	return func() {
		cancel()
		running.Wait()
		l.shell.Stop()
		close(d.vm.ended)
	}
}

// Interfaces is the address manager's view; nil before Run.
func (d *Daemon) Interfaces() *vm.View { return d.shared.VMs.Load() }

// master reports, as an error, that this manager is not the master, and who is. The store is
// local, so the master would not learn of changes on a standby.
func (d *Daemon) master() error {
	st := d.status.Load()
	switch {
	case st != nil && st.State == subnet.Master:
		return nil
	case st != nil && st.Master.GUID != 0:
		return fmt.Errorf("%w: ask the master, port GUID %v%s", api.ErrNotMaster, st.Master.GUID, d.described(st.Master))
	}
	return fmt.Errorf("%w, and the master is not known yet", api.ErrNotMaster)
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

// Perform passes operations to the address manager as one batch, and returns when each is
// answered. If ctx ends first, the others are returned as Waiting: they are stored and
// continue. An error says that none was carried out, or that this is not known.
func (d *Daemon) Perform(ctx context.Context, ops []vm.Op) ([]vm.Reply, error) {
	return d.perform(ctx, ops, d.vm.asked.hold(keysOf(ops)))
}

// perform is Perform while the P_Keys of ops are held. release is called when the view shows what became
// of ops, which may be after the return, or when nothing will.
func (d *Daemon) perform(ctx context.Context, ops []vm.Op, release func()) ([]vm.Reply, error) {
	err := d.master()
	switch {
	case err != nil:
	case d.Interfaces() == nil:
		err = fmt.Errorf("%w: the address manager has not started yet", api.ErrBusy)
	}
	if err != nil || len(ops) == 0 {
		release()
		return nil, err
	}
	replies, taken := make(chan vmReply, len(ops)), make(chan struct{}) // with room for all replies
	a := &shell.Ask{
		Ops: ops, Taken: func() {
			release()
			close(taken)
		},
		Answer: func(i int, r *vm.Reply) { replies <- vmReply{i, *r} },
	}
	if !d.shared.Ask(a) {
		release()
		return nil, fmt.Errorf("%w: %d requests wait for the address manager; repeat the request in a second", api.ErrBusy, shell.MaxAsks)
	}
	limit := time.NewTimer(changeTime)
	defer limit.Stop()
	select {
	case <-taken:
	case <-limit.C:
		return nil, fmt.Errorf("%w: after %v it is not known whether this is stored; query the interface", api.ErrBusy, changeTime)
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
		select { // replies that are available count, even after the end
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

// outlast waits for an operation in progress, such as a move that waits until packets have
// drained. It returns its end, or its state when ctx ends.
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
		r = r.Now(r.Interface) // no operation is in progress
	}
	return r
}

// interfaceNow is an interface as last published; only its name if it does not exist.
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
