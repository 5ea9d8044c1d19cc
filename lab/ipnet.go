package lab

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sim"
	"heddle/sim/host/ipoib"
	"heddle/sim/host/saclient"
	"heddle/subnet"
	"heddle/vm"
)

// Subscriber says which clients of the SA subscribe to notices.
type Subscriber uint8

// The subscribers.
const (
	SubscribeServers Subscriber = iota // the privileged domain of each server, which hands notices on
	SubscribeGuests                    // each VM by itself
	SubscribeNobody
)

// IPConfig configures an IPNet. Start from IPDefaults.
type IPConfig struct {
	IPoIB      ipoib.Config
	Subscriber Subscriber
	// Traps are those that are subscribed to.
	Traps []uint16
	// Rate is what a server sends, in bits/s, CPU what a byte costs it, in ns.
	Rate int64
	CPU  float64
	// Take is how long the privileged domain takes for a notice, Relay for handing it to one VM.
	Take, Relay time.Duration
	MAD         mad.Config // how queries are repeated
	Model       sim.Model
	VFs         int
	LIDKind     subnet.LIDKind // of the interfaces of VMs
}

// IPDefaults are servers with shared ports, whose privileged domains subscribe to trap 69.
func IPDefaults() IPConfig {
	return IPConfig{
		IPoIB: ipoib.Defaults(), Traps: []uint16{smp.TrapRePath}, Take: 20 * time.Microsecond, Relay: 10 * time.Microsecond,
		Model: sim.SharedPort, VFs: 16,
	}
}

// IPNet is IPoIB between virtual machines on simulated hypervisors. The manager and its SA are real:
// they place the addresses of the VMs, answer joins and path queries, and send Reports. Frames are
// datagrams of the simulated subnet, which follow the tables that the manager wrote and take the
// latency of each link, but no time for their bytes: rates are those of servers and connections.
type IPNet struct {
	*Cluster
	Manager *Manager
	Config  IPConfig
	Servers []*IPServer
	Guests  []*Guest

	qpn uint32
}

// IPServer is a physical machine: its port, with the privileged domain, and VMs.
type IPServer struct {
	*ipoib.Server
	Node   string
	Client *saclient.Client
	// OnReport, if set, sees each notice before it is handed on. Returning false loses it.
	OnReport func(r *saclient.Report) bool
	// Lose, if set, says whether a Report is lost before it comes to the port.
	Lose    func() bool
	Relayed uint64 // notices that were handed to VMs

	net    *IPNet
	agent  *saAgent
	guests []*Guest
	alarm  *Alarm
}

// saAgent is a client of the SA at an endpoint, with its timer.
type saAgent struct {
	net    *IPNet
	ep     *sim.Endpoint
	client *saclient.Client
	grh    bool // of a VM: a shared LID does not say who asks
	alarm  *Alarm
	traps  int // subscribed to
	era    int
	lose   func() bool // a Report, nil: none
}

// NewIPNet makes hypervisors of nodes. Call it before the manager starts, and Subscribe when the
// subnet is up.
func NewIPNet(c *Cluster, m *Manager, cfg IPConfig, nodes ...string) (*IPNet, error) {
	n := &IPNet{Cluster: c, Manager: m, Config: cfg}
	for _, node := range nodes {
		if err := c.Sim.AddHypervisor(node, 1, sim.Hypervisor{Model: cfg.Model, VFs: cfg.VFs}); err != nil {
			return nil, err
		}
		ep, err := c.Sim.Attach(node)
		if err != nil {
			return nil, err
		}
		v := &IPServer{Server: &ipoib.Server{Rate: cfg.Rate, CPU: cfg.CPU}, Node: node, net: n}
		v.alarm = NewAlarm(c.Sim, v.NextTimer, v.Run)
		v.agent = n.newAgent(ep, false)
		v.Client = v.agent.client
		v.Client.OnReport = v.report
		v.agent.lose = func() bool { return v.Lose != nil && v.Lose() }
		ep.OnReregister = v.reregister
		n.Servers = append(n.Servers, v)
	}
	return n, nil
}

// Subscribe has the privileged domains subscribe, and waits until they have.
func (n *IPNet) Subscribe() error {
	if n.Config.Subscriber != SubscribeServers {
		return nil
	}
	for _, v := range n.Servers {
		v.agent.subscribe()
	}
	return n.RunUntil(time.Minute, func() bool {
		for _, v := range n.Servers {
			if v.agent.traps < len(n.Config.Traps) {
				return false
			}
		}
		return true
	})
}

// reregister is the request of a manager that may know nothing of this server.
func (v *IPServer) reregister() {
	now := v.net.Sim.Now()
	v.Client.Redirect(now)
	if v.agent.era > 0 {
		v.agent.subscribe()
	}
	for _, g := range v.guests {
		g.agent.client.Redirect(now)
		if g.agent.era > 0 {
			g.agent.subscribe()
		}
		g.dev.Rejoin(now)
		g.dev.Refresh(now)
		g.agent.alarm.Set()
	}
	v.agent.alarm.Set()
	v.alarm.Set()
}

// report is a notice for the privileged domain: it hands it to each VM with a GUID (Paper VI,
// algorithm 2), one after the other.
func (v *IPServer) report(r *saclient.Report) {
	if v.OnReport != nil && !v.OnReport(r) {
		return
	}
	if v.net.Config.IPoIB.Deaf {
		return
	}
	at := v.net.Config.Take
	x := *r
	for _, g := range v.guests {
		if !g.ready {
			continue
		}
		at += v.net.Config.Relay
		v.Relayed++
		v.net.Sim.After(at, func() { g.notice(&x) })
	}
}

// newAgent makes a client of the SA. The endpoint's other packets are frames.
func (n *IPNet) newAgent(ep *sim.Endpoint, grh bool) *saAgent {
	a := &saAgent{net: n, ep: ep, grh: grh}
	a.client = saclient.New(a.send, func() saclient.Master {
		pi := ep.PortInfo()
		return saclient.Master{LID: pi.MasterSMLID, SL: pi.MasterSMSL}
	}, n.Config.MAD)
	a.alarm = NewAlarm(n.Sim, a.client.NextTimer, a.client.Expire)
	ep.Accepts = saclient.Accepts
	ep.OnPacket = a.receive
	return a
}

func (a *saAgent) receive(p *mad.Packet) {
	if a.lose != nil && saclient.Accepts(p) && a.lose() {
		return
	}
	a.client.Receive(a.net.Sim.Now(), p)
	a.alarm.Set()
}

func (a *saAgent) send(p *mad.Packet) {
	if !a.grh || p.Addr.HasGRH {
		a.ep.Send(p)
		return
	}
	q := *p
	q.Addr.HasGRH, q.Addr.GRH = true, mad.GRH{GID: ib.MakeGID(a.ep.PortInfo().GidPrefix, wire.WellKnownGUID), HopLimit: 1}
	a.ep.Send(&q)
}

// subscribe asks for all traps until it has them, or subscribes anew.
func (a *saAgent) subscribe() {
	a.era++
	a.traps = 0
	for _, trap := range a.net.Config.Traps {
		a.ask(trap, a.era)
	}
	a.alarm.Set()
}

func (a *saAgent) ask(trap uint16, era int) {
	a.client.Subscribe(a.net.Sim.Now(), trap, func(_ mad.Time, err error) {
		switch {
		case era != a.era:
		case err == nil:
			a.traps++
		default:
			a.net.Sim.After(time.Second, func() {
				if era == a.era {
					a.ask(trap, era)
					a.alarm.Set()
				}
			})
		}
	})
}

// Do passes operations to the address manager, and waits until each is answered.
func (n *IPNet) Do(ops ...vm.Op) error {
	left := len(ops)
	var failed error
	n.Manager.DoVM(func(_ int, r *vm.Reply) {
		left--
		failed = errors.Join(failed, r.Err)
	}, ops...)
	if err := n.RunUntil(time.Minute, func() bool { return left == 0 }); err != nil {
		return err
	}
	return failed
}

// frameClass is the class of the datagrams that carry frames, vendor range 1, which no agent has.
const frameClass ib.Class = 0x0A

// Layout of a frame in the data of a datagram.
const (
	frameAt  = 24
	frameEnd = frameAt + 28
)

// putFrame makes the datagram of a frame.
func putFrame(m *ib.MAD, f *ipoib.Frame, from, to uint32) {
	m.SetHeader(frameClass, 1, ib.MethodSend, 0, 0)
	message, more := f.Pack()
	b := m[frameAt:frameEnd]
	binary.BigEndian.PutUint64(b, message)
	binary.BigEndian.PutUint64(b[8:], more)
	binary.BigEndian.PutUint32(b[16:], uint32(f.Bytes()))
	binary.BigEndian.PutUint32(b[20:], from)
	binary.BigEndian.PutUint32(b[24:], to)
}

// takeFrame reads it; ok is false if the datagram is something else.
func takeFrame(p *mad.Packet, f *ipoib.Frame) (to uint32, ok bool) {
	if len(p.Data) < frameEnd || ib.Class(p.Data[1]) != frameClass {
		return 0, false
	}
	b := p.Data[frameAt:frameEnd]
	u := binary.BigEndian.Uint32
	f.Unpack(binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:]), int(u(b[16:])), u(b[20:]), ib.DefaultSubnetPrefix)
	return u(b[24:]), true
}

// String names a server.
func (v *IPServer) String() string { return fmt.Sprintf("server %s, %d VMs", v.Node, len(v.guests)) }
