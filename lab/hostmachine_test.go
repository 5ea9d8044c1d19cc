package lab

import (
	"math/rand/v2"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sim/dataplane"
	"heddle/sim/host/adapter"
	"heddle/sim/host/program"
	"heddle/sim/host/rc"
	hv "heddle/sim/hypervisor"
)

// hostMachine is the virtual machine of a schedule of TestHostCampaign.
type hostMachine struct {
	*Machine
	r      *rand.Rand
	first  int // hypervisors are the hosts from here on
	sender rc.Sender
	move   *Move // the last; nil: none
}

// wayOf is how the machine of a schedule migrates; 0: there is none.
func wayOf(seed uint64) hv.Way { return hv.Way(seed % uint64(hv.Firmware+1)) }

// startMachine puts a machine on one of the hypervisors, with streams between it and hosts.
func (x *hostTrial) startMachine(seed uint64, way hv.Way) {
	r := rand.New(rand.NewPCG(seed, 6))
	h := &Machines{Loaded: x.Loaded, way: way, cfg: lashManager(x.change)}
	v := &hostMachine{r: r}
	for i, host := range x.hosts {
		h.Adapters = append(h.Adapters, host.Adapter)
		if host.Name[0] == 'V' && v.first == 0 {
			v.first = i
		}
	}
	var err error
	if v.Machine, err = h.Create("vm", v.first+r.IntN(4), 1+r.IntN(3)); err != nil {
		x.t.Fatal(err)
	}
	x.vm = v
	x.sum.ways[way]++
	h.OnMoved = func(*Machine) { x.machineMoved(way == hv.ThreeStages) }
	gid := h.gid(v.guid)
	o := x.hc.Options
	v.sender = rc.Sender{Timeout: uint8(12 + r.IntN(3)), Retries: 7, RNRRetries: 7} // 16.8 to 67.1 ms
	for i := range 4 {
		peer := r.IntN(6)
		host, at := x.hosts[peer], func() *Host { return x.hosts[v.Host()] }
		// Both ends ask the SA, so that it knows what they hold.
		if _, err := host.ResolveGID(gid); err != nil {
			x.t.Fatal(err)
		}
		if _, err := at().Resolve(host); err != nil {
			x.t.Fatal(err)
		}
		gap := Time(300+r.IntN(1200)) * dataplane.Microsecond
		p := program.Stream{Bytes: 3000, Depth: 8, Gap: gap, Seed: seed + uint64(i)}
		s, err := v.Connect(peer, i%2 == 0, o, v.sender, p)
		if err != nil {
			x.t.Fatal(err)
		}
		s.Mine.SetPeer(host.GID())
		s.Theirs.SetPeer(gid)
		c := &campaignStream{
			Stream: &Stream{Stream: s.Stream, Sink: s.Sink, Conn: s.Mine, Back: s.Theirs}, name: "the machine to " + host.Name,
			sender: v.sender, a: gid, b: host.GID(), from: at, to: func() *Host { return host },
			leads: func() bool { return x.machineLeads(s, host) },
		}
		if i%2 > 0 {
			c.name = host.Name + " to the machine"
			c.Conn, c.Back, c.a, c.b, c.from, c.to = c.Back, c.Conn, c.b, c.a, c.to, c.from
		}
		x.streams = append(x.streams, c)
	}
}

// machineLeads reports whether packets of both ends come to the other.
func (x *hostTrial) machineLeads(s *MachineStream, host *Host) bool {
	if s.Mine.Away() || !x.vm.ready() {
		return false
	}
	at := x.hosts[x.vm.Host()]
	hops, err := x.Sim.Trace(x.Fabric.Find(host.Name), 1, s.Theirs.QP().Path().DLID, s.Theirs.QP().Path().SL)
	return err == nil && hops[len(hops)-1].Node == x.Fabric.Find(at.Name) && x.leads(at, s.Mine.QP().Path())
}

// machineMoved has the software of the hosts look at queue pairs that came with the machine, and
// where peers took part (told) at theirs.
func (x *hostTrial) machineMoved(told bool) {
	for _, s := range x.vm.Streams {
		look := func(h *Host, c *adapter.Connection) {
			if c.Away() || c.QP().State() == rc.Error {
				return
			}
			h.Handler.Arrived(x.Sim.Now(), c)
			h.alarm.Set()
		}
		if look(x.hosts[x.vm.Host()], s.Mine); told {
			look(x.hosts[s.Peer], s.Theirs)
		}
	}
}

// moving reports whether a migration is under way.
func (x *hostTrial) moving() bool { return x.vm != nil && x.vm.move != nil && !x.vm.move.Ended() }

// migrate begins a migration, unless one is under way.
func (x *hostTrial) migrate() bool {
	v := x.vm
	if v == nil || x.moving() || x.Manager.Dead {
		return false
	}
	x.tallyMove()
	to := v.first + (v.Host()-v.first+1+v.r.IntN(3))%4
	c := quickMigration(v.r.IntN(3) > 0, v.r.Uint64())
	if v.r.IntN(3) == 0 {
		c.Cost.Rate = 200e6 // some 60 ms more
	}
	m, err := v.Migrate(to, c, x.hc.Options, rc.Sender{Timeout: 11, Retries: 3})
	if err != nil {
		x.t.Fatal(err)
	}
	v.move = m
	x.sum.moves++
	return true
}

// dieInMove has the manager die some packets after it begins to bring an address elsewhere: between
// what functions hold, tables and Reports. It reports whether a migration began that takes long
// enough.
func (x *hostTrial) dieInMove() bool {
	m := x.Manager
	if !x.migrate() {
		return false
	}
	m.OnSend = func(p *mad.Packet) {
		if m.KillAfter > 0 || !ib.Class(p.Data[1]).IsSMP() || ib.Method(p.Data[3]) != ib.MethodSet {
			return
		}
		switch (*ib.MAD)(p.Data).AttrID() {
		case smp.AttrGUIDInfo, smp.AttrVPortInfo, smp.AttrLFT:
			m.KillAfter = 1 + x.vm.r.IntN(12)
		}
	}
	for x.moving() && !m.Dead {
		x.step(5 * time.Millisecond)
	}
	if m.OnSend = nil; m.Dead {
		x.sum.midmove++
	}
	return true
}

// standIn has another manager stand in for m, which died: a standby that knows nothing of the machine,
// until m is back with its store. If it was the standby that died, the manager that knows takes over.
func (x *hostTrial) standIn(m *Manager) {
	if m.vm != nil && x.vm.r.IntN(4) > 0 {
		for end := x.Sim.Now().Add(time.Duration(x.vm.r.IntN(400)) * time.Millisecond); x.Sim.Now() < end; {
			if x.step(5 * time.Millisecond); !x.Manager.Dead {
				if x.sum.takeovers++; x.moving() {
					x.sum.relieved++
				}
				x.step(time.Duration(x.vm.r.IntN(60)) * time.Millisecond)
				break
			}
		}
	}
	x.attach(m.Node, m)
}

// host is whom the next fault of a host is for: while a machine migrates often one of its two.
func (x *hostTrial) host() *Host {
	if x.moving() && x.vm.r.IntN(3) > 0 {
		return x.hosts[[]int{x.vm.move.from, x.vm.move.to}[x.vm.r.IntN(2)]]
	}
	return x.hosts[x.r.IntN(len(x.hosts))]
}

// tallyMove counts the last migration.
func (x *hostTrial) tallyMove() {
	if v := x.vm; v.move != nil && v.move.Err() == nil && v.move.Ended() {
		x.sum.moved++
	}
}

// pause is how long a schedule waits for its next fault: while a machine migrates not for long.
func (x *hostTrial) pause() time.Duration {
	if x.moving() {
		x.sum.faulted++
		return time.Duration(x.r.IntN(20_000)) * time.Microsecond
	}
	return time.Duration(x.r.IntN(120)) * time.Millisecond
}

// endMigration waits for the migration under way.
func (x *hostTrial) endMigration() {
	for end := x.Sim.Now().Add(2 * time.Minute); x.moving(); x.step(5 * time.Millisecond) {
		if x.Sim.Now() > end {
			x.t.Fatalf("the migration does not end: %+v\n%+v", x.vm.move.Marks(), x.vm.Interface())
		}
	}
}

// checkMachine judges the machine at the end.
func (x *hostTrial) checkMachine() {
	if x.vm == nil {
		return
	}
	x.tallyMove()
	if st, ok := x.Sim.VM("vm"); !ok || st.State != ib.StateActive || !x.vm.settled(x.vm.Host()) {
		x.t.Errorf("the machine is %+v, and the manager has %+v", st, x.vm.Interface())
	}
}
