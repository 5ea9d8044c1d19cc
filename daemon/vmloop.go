package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"heddle/ib"
	"heddle/mad"
	"heddle/store"
	"heddle/subnet"
	"heddle/vm"
)

// addressManager is vm.Core, or what stands in for it in a test.
type addressManager interface {
	Step(now mad.Time, ev vm.Event, out *vm.Output)
}

// vmLoop is the goroutine that owns the address manager's core: interfaces of
// virtual machines, memberships, and the leases that it wants of the manager's
// core. Its writes to the store hold up neither that one nor the SA.
type vmLoop struct {
	d     *Daemon
	core  addressManager
	out   vm.Output
	seen  *subnet.Snapshot // the core knows it
	alarm alarm
	told  noticeLimit

	tag   uint64 // of the last request
	asked map[uint64]asked
	list  []vm.Request
}

// asked is an operation that has not been answered.
type asked struct {
	by *vmAsk
	i  int // in by.ops
	at mad.Time
}

// vmAsk are operations that somebody waits for.
type vmAsk struct {
	ops     []vm.Op
	replies chan vmReply  // has room for all
	taken   chan struct{} // closed when the core has stored or refused them
}

// vmReply is the answer to operation i of a vmAsk.
type vmReply struct {
	i int
	r vm.Reply
}

// leaseChange is what sm.SetLeases is to be told.
type leaseChange struct {
	put  []subnet.Lease
	drop []ib.GUID
	all  bool
}

// then is c and after it n, as one change.
func (c leaseChange) then(n leaseChange) leaseChange {
	if n.all {
		return n
	}
	anew := make(map[ib.GUID]bool, len(n.put)+len(n.drop))
	for i := range n.put {
		anew[n.put[i].GUID] = true
	}
	for _, g := range n.drop {
		anew[g] = true
	}
	out := leaseChange{all: c.all}
	for i := range c.put {
		if !anew[c.put[i].GUID] {
			out.put = append(out.put, c.put[i])
		}
	}
	for _, g := range c.drop {
		if !anew[g] {
			out.drop = append(out.drop, g)
		}
	}
	out.put = append(out.put, n.put...)
	if !c.all { // what is not put ends anyway
		out.drop = append(out.drop, n.drop...)
	}
	return out
}

func newVMLoop(d *Daemon, core addressManager) *vmLoop {
	l := &vmLoop{d: d, core: core, alarm: newAlarm(), asked: map[uint64]asked{}}
	return l
}

// start restores what the store held. The leases and memberships that follow
// from it wait for the manager's loop, which takes them before it starts.
func (l *vmLoop) start(records []store.Record) { l.step(vm.Start{Records: records}) }

func (l *vmLoop) run(ctx context.Context) {
	defer l.alarm.timer.Stop()
	d := l.d
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.vm.published:
			l.look()
		case <-d.vm.reports.bell:
			if list, ok := d.vm.reports.take(); ok {
				l.look() // what is reported is in it already
				l.count(list)
				l.step(vm.Reports{List: list})
			}
		case <-d.vm.asks.bell:
			l.look()
			l.change()
		case <-l.alarm.timer.C:
			l.alarm.rang()
			l.step(vm.Timer{})
		}
	}
}

// look shows the core the newest snapshot.
func (l *vmLoop) look() {
	if s := l.d.snap.Load(); s != l.seen {
		l.seen = s
		l.step(vm.Published{Snap: s})
	}
}

// change takes the operations that wait and makes one step of them: they are
// stored by one write, and their LIDs move in common blocks.
func (l *vmLoop) change() {
	asks, ok := l.d.vm.asks.take()
	if !ok {
		return
	}
	now := l.d.now()
	l.list = l.list[:0]
	for _, a := range asks {
		for i, op := range a.ops {
			l.tag++
			l.asked[l.tag] = asked{a, i, now}
			l.list = append(l.list, vm.Request{Tag: l.tag, Op: op})
		}
	}
	l.step(vm.Requests{List: l.list})
	clear(l.list)
	for _, a := range asks {
		close(a.taken)
	}
}

// step hands the core one event and does what it asks for, in the order of
// vm.Output.
func (l *vmLoop) step(ev vm.Event) {
	d := l.d
	for ev != nil {
		l.out.Reset()
		l.core.Step(d.now(), ev, &l.out)
		ev = nil
		out := &l.out
		if len(out.Persist) > 0 || out.PersistGen != 0 {
			ev = vm.Persisted{Gen: out.PersistGen, Err: d.cfg.Store.Apply(out.Persist)}
		}
		if out.Publish != nil {
			d.vm.publish(out.Publish)
		}
		if out.PartitionsChanged {
			d.vm.members.put(out.Partitions)
		}
		if out.LeasesChanged {
			c := leaseChange{out.Put, out.Drop, out.All}
			d.vm.leases.update(func(waiting leaseChange) leaseChange { return waiting.then(c) })
		}
		for i := range out.Replies {
			l.reply(&out.Replies[i])
		}
		l.tell(out.Notices)
		l.alarm.set(d.now(), out.Timer)
	}
}

func (l *vmLoop) reply(r *vm.Reply) {
	a, ok := l.asked[r.Tag]
	if !ok {
		return
	}
	delete(l.asked, r.Tag)
	l.d.vm.stats.add(a.by.ops[a.i], r, l.d.now().Sub(a.at))
	a.by.replies <- vmReply{a.i, *r} // there is room
}

// count adds up what the subnet manager reports.
func (l *vmLoop) count(list []subnet.LeaseReport) {
	s := &l.d.vm.stats
	for i := range list {
		switch r := &list[i]; r.State {
		case subnet.LeasePlaced:
			bump(&s.placed)
			s.blocks.Store(s.blocks.Load() + uint64(max(0, r.SMPs)))
		case subnet.LeaseRefused:
			bump(&s.refused)
		}
	}
}

// tell logs what the core has to say and keeps it as events, as far as the
// limit goes.
func (l *vmLoop) tell(notices []vm.Notice) {
	for i := range notices {
		n := &notices[i]
		allowed, cut := l.told.allow(l.d.now())
		if cut > 0 {
			l.d.note(slog.LevelWarn, "vm_notices_cut", fmt.Sprintf("%d notices about interfaces of virtual machines were left out: more came than anybody reads", cut), nil)
		}
		if !allowed {
			bump(&l.d.vm.stats.noticesCut)
			continue
		}
		level := slog.LevelInfo
		if n.Warn {
			level = slog.LevelWarn
		}
		l.d.note(level, n.Kind, n.Text, nil)
	}
}

// setMembers hands the core the memberships that the address manager added, if
// they are others than before, and setLeases the leases.
func (l *loop) setMembers() {
	if m, ok := l.d.vm.members.take(); ok {
		l.step(smMembers(m))
	}
}

func (l *loop) setLeases() {
	if c, ok := l.d.vm.leases.take(); ok {
		l.step(smLeases(c))
	}
}

// report passes on to the address manager what the manager's core says of leases.
func (v *vmSide) report(list []subnet.LeaseReport) {
	if len(list) > 0 {
		list = slices.Clone(list) // the core's buffer
		v.reports.update(func(waiting []subnet.LeaseReport) []subnet.LeaseReport { return append(waiting, list...) })
	}
}
