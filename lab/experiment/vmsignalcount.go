package experiment

import (
	"errors"
	"fmt"
	"time"

	"heddle/ib"
	sawire "heddle/ib/sa"
	"heddle/lab"
	"heddle/mad"
	"heddle/sa"
	"heddle/sim"
	"heddle/sim/host/ipoib"
	"heddle/vm"
)

// saTally counts what the manager's SA receives and sends about subscriptions and notices.
type saTally struct{ sets, answers, reports, responses int }

func countSA(m *lab.Manager) *saTally {
	k := &saTally{}
	m.OnReceive = func(p *mad.Packet) { k.add(p, &k.sets, &k.responses) }
	m.WatchSA(func(p *mad.Packet) { k.add(p, &k.answers, &k.reports) })
	return k
}

func (k *saTally) add(p *mad.Packet, inform, notice *int) {
	if m := (*ib.MAD)(p.Data); m.Class() == ib.ClassSA {
		switch m.AttrID() {
		case sawire.AttrInformInfo:
			*inform++
		case sawire.AttrNotice:
			*notice++
		}
	}
}

// vmSubscription is who subscribes, and how the manager signals.
type vmSubscription struct {
	name   string
	model  sim.Model
	who    lab.Subscriber
	signal sa.Signal
}

var vmCounted = []vmSubscription{
	{"by VM, to all", sim.VPorts, lab.SubscribeGuests, sa.SignalHybrid},
	{"by server, to all", sim.SharedPort, lab.SubscribeServers, sa.SignalHybrid},
	{"by VM of a shared port, to all", sim.SharedPort, lab.SubscribeGuests, sa.SignalHybrid},
	{"by server, repath", sim.SharedPort, lab.SubscribeServers, sa.SignalRepath},
	{"by server, targeted", sim.SharedPort, lab.SubscribeServers, sa.SignalTargeted},
}

// vmCount is what the SA's messages were.
type vmCount struct {
	vmSubscription
	n, m            int
	start           saTally // all subscribe
	newVM, reboot   int     // Reports for a new VM, for one that restarts in place
	migrate         saTally // for one that migrates
	removed         saTally // whose GUID is deleted, and set at another server
	holders         int     // servers that held a path to the VM before it migrated
	relayed         uint64  // notices that privileged domains handed on, for the migration
	stale, repaired int     // VMs that held a path to it, and those that have the new LID after it
}

// run counts for n servers with m VMs each.
func (w vmSubscription) run(seed uint64, n, m int) (c vmCount, err error) {
	c = vmCount{vmSubscription: w, n: n, m: m}
	cfg := lab.IPDefaults()
	cfg.Model, cfg.Subscriber, cfg.VFs = w.model, w.who, m+2
	net, err := newVMNet(n, cfg, vmManager(), w.signal, seed)
	if err != nil {
		return c, err
	}
	k := countSA(net.Manager)
	if err := net.Subscribe(); err != nil {
		return c, err
	}
	for f := range m {
		for i, s := range net.Servers {
			if _, err := net.AddGuest(fmt.Sprintf("vm%d-%d", i, f), s, 1+f); err != nil {
				return c, err
			}
		}
	}
	net.Run(vmSettle)
	c.start = *k
	for i, a := range net.Guests {
		a.Stream(net.Guests[(i+1)%len(net.Guests)], uint16(i), 100_000, ipoib.TCPDefaults())
	}
	net.Run(vmSettle)
	event := func(errs ...error) saTally {
		err = errors.Join(append(errs, err)...)
		net.Run(vmSettle)
		x := *k
		*k = saTally{}
		return x
	}
	*k = saTally{}
	g := net.Guests[0]
	at := int(g.Place().Function)
	e1 := g.Unplug()
	net.Run(time.Second)
	c.reboot = event(e1, g.Plug(g.On(), at)).reports
	e1 = errors.Join(g.Unplug(), net.Do(vm.Detach{Name: g.Name}))
	net.Run(time.Second)
	e2 := g.Plug(g.On(), at)
	c.reboot += event(e1, e2, net.Do(vm.Attach{Name: g.Name, At: g.Place()})).reports
	c.look(net, g)
	relayed := relayedBy(net)
	c.migrate = event(g.Migrate(net.Servers[1], m+1, time.Second))
	c.relayed = relayedBy(net) - relayed
	c.repaired = c.reach(net, g)
	e1 = errors.Join(g.Unplug(), net.Do(vm.Detach{Name: g.Name}))
	net.Run(time.Second)
	e2 = g.Plug(net.Servers[2], m+1)
	c.removed = event(e1, e2, net.Do(vm.Attach{Name: g.Name, At: g.Place()}))
	_, e1 = net.AddGuest("new", net.Servers[n-1], m+2)
	c.newVM = event(e1).reports
	return c, err
}

// look counts who holds a path to a VM.
func (c *vmCount) look(net *lab.IPNet, g *lab.Guest) {
	servers := map[*lab.IPServer]bool{}
	gid := g.Device().Hardware().GID
	for _, x := range net.Guests {
		if _, ok := x.Device().PathTo(gid); ok && x != g {
			servers[x.On()] = true
			c.stale++
		}
	}
	c.holders = len(servers)
}

// reach counts the VMs whose path to a VM is the one that the SA says.
func (c *vmCount) reach(net *lab.IPNet, g *lab.Guest) (n int) {
	gid := g.Device().Hardware().GID
	st, _ := net.Sim.VM(g.Name)
	for _, x := range net.Guests {
		if p, ok := x.Device().PathTo(gid); ok && x != g && p.DLID == st.LID {
			n++
		}
	}
	return n
}

func relayedBy(net *lab.IPNet) (n uint64) {
	for _, s := range net.Servers {
		n += s.Relayed
	}
	return n
}
