package lab

import (
	"fmt"
	"slices"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
	"heddle/sim"
	"heddle/sim/host/ipoib"
	"heddle/sim/host/saclient"
	"heddle/subnet"
	"heddle/vm"
)

// Guest is a virtual machine with an IPoIB interface on a virtual function.
type Guest struct {
	*ipoib.Stack
	Name string
	GUID ib.GUID
	// Away and Back are when its interface was taken away last, and when it was up again.
	Away, Back mad.Time

	net    *IPNet
	server *IPServer
	at     subnet.Place
	vf     sim.VF
	dev    *ipoib.Device
	agent  *saAgent
	ready  bool // the function has the GUID, and is Active
	epoch  int
}

// look is how often a driver looks whether its function has come up.
const look = 100 * time.Microsecond

// AddGuest makes a VM and starts it on a function of a server; it waits until its interface is up.
func (n *IPNet) AddGuest(name string, s *IPServer, function int) (*Guest, error) {
	g := &Guest{Name: name, GUID: 0xA000 + ib.GUID(len(n.Guests)), net: n}
	g.dev = ipoib.New(n.Config.IPoIB, ipoib.IP(1+len(n.Guests)), g, g)
	g.Stack = ipoib.NewStack(g.dev, s.Server)
	n.Guests = append(n.Guests, g)
	if err := g.Plug(s, function); err != nil {
		return nil, err
	}
	var err error
	ep, err := n.Sim.AttachVM(name)
	if err != nil {
		return nil, err
	}
	g.agent = n.newAgent(ep, true)
	ep.Accepts = func(p *mad.Packet) bool { return saclient.Accepts(p) || ib.Class(p.Data[1]) == frameClass }
	ep.OnPacket = g.receive
	ep.Listen(ipoib.Broadcast(n.Config.IPoIB.PKey))
	g.agent.client.OnReport = func(r *saclient.Report) { g.notice(r) }
	if err := n.Do(vm.Create{I: vm.Interface{Name: name, GUID: g.GUID, LIDKind: n.Config.LIDKind, Place: g.at}}); err != nil {
		return nil, err
	}
	if err := n.RunUntil(time.Minute, func() bool { return g.dev.Joined() }); err != nil {
		return nil, fmt.Errorf("lab: VM %s: its interface does not come up: %w", name, err)
	}
	if n.Config.Subscriber == SubscribeGuests {
		g.agent.subscribe()
		err = n.RunUntil(time.Minute, func() bool { return g.agent.traps == len(n.Config.Traps) })
	}
	return g, err
}

// Device is the interface.
func (g *Guest) Device() *ipoib.Device { return g.dev }

// On is the server that the VM is on.
func (g *Guest) On() *IPServer { return g.server }

// Plug places the VM on a function, and watches for it to come up.
func (g *Guest) Plug(s *IPServer, function int) error {
	f, err := g.net.Sim.VF(s.Node, 1, function)
	if err != nil {
		return err
	}
	o := sim.VMOptions{GUID: g.GUID, OwnLID: g.net.Config.LIDKind == subnet.OwnLID}
	if err := g.net.Sim.PlaceVM(g.Name, f, o); err != nil {
		return err
	}
	if g.server != nil && g.server != s {
		g.server.guests = slices.DeleteFunc(g.server.guests, func(x *Guest) bool { return x == g })
	}
	if g.server != s {
		s.guests = append(s.guests, g)
		g.server = s
		g.Stack.Place(s.Server)
	}
	g.vf, g.at = f, subnet.Place{Port: s.agent.ep.PortGUID(), Function: uint16(function)}
	g.epoch++
	g.watch(g.epoch)
	return nil
}

// watch brings the interface up when the function has its GUID and is Active.
func (g *Guest) watch(epoch int) {
	g.net.Sim.After(look, func() {
		if g.epoch != epoch || g.ready {
			return
		}
		st, _ := g.net.Sim.VM(g.Name)
		if st.State != ib.StateActive || st.GID.GUID() != g.GUID || st.LID == 0 || g.agent == nil {
			g.watch(epoch)
			return
		}
		g.ready, g.Back = true, g.net.Sim.Now()
		g.net.qpn++
		g.dev.Up(g.Back, ipoib.Hardware{QPN: 0x800000 | g.net.qpn, GID: st.GID})
		g.agent.alarm.Set()
		g.server.alarm.Set()
	})
}

// Unplug takes the interface away, as hot plug does before a migration.
func (g *Guest) Unplug() error {
	g.epoch++
	g.ready, g.Away = false, g.net.Sim.Now()
	g.dev.Down()
	return g.net.Sim.DetachVM(g.Name)
}

// Migrate moves the VM to a function of another server: the destination is reserved, the interface
// is taken away, and after the time of the hot plug it is there, and the manager moves the address.
// It returns at once; Ready says when the interface is up.
func (g *Guest) Migrate(to *IPServer, function int, hotPlug time.Duration) error {
	n := g.net
	place := subnet.Place{Port: to.agent.ep.PortGUID(), Function: uint16(function)}
	if err := n.Do(vm.Migrate{Name: g.Name, To: place}); err != nil {
		return err
	}
	if err := g.Unplug(); err != nil {
		return err
	}
	n.Sim.After(hotPlug, func() {
		if err := g.Plug(to, function); err == nil {
			g.finish(g.epoch)
		}
	})
	return nil
}

// finish asks for the address at the new place, again each second until the interface is up: a
// manager that died may not have heard of it.
func (g *Guest) finish(epoch int) {
	if g.epoch != epoch || g.ready {
		return
	}
	g.net.Manager.DoVM(func(int, *vm.Reply) {}, vm.Finish{Name: g.Name})
	g.net.Sim.After(time.Second, func() { g.finish(epoch) })
}

// Stream begins a stream with a number to another VM; limit is its bytes, 0: no end.
func (g *Guest) Stream(to *Guest, id uint16, limit uint64, c ipoib.TCP) (*ipoib.Sender, *ipoib.Receiver) {
	r := to.Receive(id)
	s := g.Stack.Send(id, to.dev.IP(), limit, c)
	g.server.alarm.Set()
	return s, r
}

// Place is where the VM is.
func (g *Guest) Place() subnet.Place { return g.at }

// Ready reports whether the interface is up and in its group.
func (g *Guest) Ready() bool { return g.ready && g.dev.Joined() }

// notice hands a notice to the interface.
func (g *Guest) notice(r *saclient.Report) {
	g.dev.Notice(g.net.Sim.Now(), r)
	g.agent.alarm.Set()
	g.server.alarm.Set()
}

// receive takes a packet from the function.
func (g *Guest) receive(p *mad.Packet) {
	var f ipoib.Frame
	to, ok := takeFrame(p, &f)
	switch {
	case !ok:
		g.agent.receive(p)
	case to == 0xFFFFFF || to == g.dev.Hardware().QPN:
		g.dev.Input(g.net.Sim.Now(), &f)
	}
	g.server.alarm.Set()
}

// Send implements ipoib.Link.
func (g *Guest) Send(_ mad.Time, to ipoib.Address, f *ipoib.Frame) bool {
	if !g.ready {
		return false
	}
	var m ib.MAD
	putFrame(&m, f, g.dev.Hardware().QPN, to.QPN)
	g.agent.ep.Send(&mad.Packet{
		Addr:    mad.Addr{LID: to.Path.DLID, SL: to.Path.SL, QP: 1, HasGRH: true, GRH: mad.GRH{GID: to.GID}},
		LocalQP: 1, Data: m[:],
	})
	return true
}

// Paths implements ipoib.SA.
func (g *Guest) Paths(now mad.Time, q *wire.PathRecord, mask wire.CompMask, one bool, done func(mad.Time, []wire.PathRecord, error)) {
	g.agent.client.Paths(now, q, mask, one, func(now mad.Time, list []wire.PathRecord, err error) {
		done(now, list, err)
		g.server.alarm.Set()
	})
	g.agent.alarm.Set()
}

// Join implements ipoib.SA.
func (g *Guest) Join(now mad.Time, group, port ib.GID, done func(mad.Time, wire.MCMemberRecord, error)) {
	g.agent.client.Join(now, group, port, func(now mad.Time, r wire.MCMemberRecord, err error) {
		done(now, r, err)
		g.server.alarm.Set()
	})
	g.agent.alarm.Set()
}
