package experiment

import (
	"math/rand/v2"
	"time"

	"heddle/agent"
	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/cm"
	ibsa "heddle/ib/sa"
	"heddle/lab"
	"heddle/lab/experiment/bed"
	"heddle/mad"
	"heddle/sa"
	"heddle/sim"
	"heddle/sim/host/adapter"
	"heddle/sim/host/comm"
	"heddle/sim/host/program"
	"heddle/sim/host/rc"
	"heddle/sim/host/rds"
	"heddle/sim/host/saclient"
)

// rdsPatience is how long a program waits for its path cache: longer than all tries of a query.
const rdsPatience = time.Minute

// rdsService is the service that RDS listens to.
const rdsService = 0x1_0000_48CA

// rdsBed is a subnet under a real manager whose hosts and VMs keep connections by RDS.
// Queries and communication management are datagrams of the simulated subnet. Queue pairs
// are real and carry nothing, so all are in one adapter.
type rdsBed struct {
	c    *lab.Cluster
	m    *lab.Manager
	cfg  rdsConfig
	qps  *adapter.Adapter
	at   map[ib.GID]*rdsNode // who answers for an address
	of   map[*adapter.Connection]*rdsLink
	seed uint64
	// asleep: path caches have not started.
	asleep bool
}

// rdsConfig are the parameters of the hosts and of the manager's SA.
type rdsConfig struct {
	rds     rds.Config
	comm    comm.Config
	caching rdsCaching
	answer  time.Duration // of the SA for a query
	mad     mad.Config    // of queries
}

// rdsCaching says which paths hosts keep.
type rdsCaching uint8

const (
	noCaching   rdsCaching = iota // hosts ask the SA each time, and it permits nothing else
	asPrinted                     // Algorithm 2 as printed
	heddleAgent                   // heddle agent as it is
)

// String is the word of reports.
func (c rdsCaching) String() string { return [...]string{"no", "Algorithm 2", "heddle agent"}[c] }

// cache configures the path cache of a host: always that of heddle agent.
func (c *rdsConfig) cache() agent.Config {
	k := agent.Defaults()
	if c.caching == asPrinted {
		k.Policy = agent.AsPublished
		k.Timeout, k.Retries, k.Window = c.mad.Timeout, c.mad.Retries, max(k.Window, c.mad.Window)
	}
	return k
}

// newRDSBed brings up f with a manager at its first host, and hypervisors with shared
// ports at the hosts named.
func newRDSBed(f *fabric.Fabric, cfg rdsConfig, seed uint64, hypervisors ...string) (*rdsBed, error) {
	c, err := lab.NewCluster(f, sim.Config{Seed: seed, HopLatency: hopLatency, SMALatency: smaLatency, LinearFDBCap: 8192})
	if err != nil {
		return nil, err
	}
	for _, n := range hypervisors {
		if err := c.Sim.AddHypervisor(n, 1, sim.Hypervisor{Model: sim.SharedPort, VFs: 4}); err != nil {
			return nil, err
		}
	}
	b := &rdsBed{c: c, cfg: cfg, at: map[ib.GID]*rdsNode{}, of: map[*adapter.Connection]*rdsLink{}, seed: seed}
	if b.m, err = c.Attach(rdsHosts(f)[0], lab.DefaultConfig(), nil); err != nil {
		return nil, err
	}
	opt := sa.Options{}
	if cfg.caching != noCaching {
		opt.PathCaching = 1
	}
	b.m.ServeSA(sa.Defaults(), opt)
	b.m.SlowSA(cfg.answer)
	if err := b.m.Start(); err != nil {
		return nil, err
	}
	if err := c.RunUntil(settle, func() bool { return b.m.Up() && b.m.Idle() }); err != nil {
		return nil, err
	}
	hosts, err := manyHosts()
	if err != nil {
		return nil, err
	}
	b.qps = hosts[0]
	return b, nil
}

// rdsHosts are the names of the hosts.
func rdsHosts(f *fabric.Fabric) (list []string) {
	for i := range f.Nodes {
		if !f.Nodes[i].IsSwitch() {
			list = append(list, f.Nodes[i].ID)
		}
	}
	return list
}

func (b *rdsBed) now() mad.Time { return b.c.Sim.Now() }

// rdsNode is the software of a host or of a VM.
type rdsNode struct {
	b      *rdsBed
	name   string
	shared bool // a VM on a shared port
	ep     *sim.Endpoint
	gid    ib.GID           // that peers know: IPoIB asks for it when a peer connects
	up     bool             // its device is there
	gone   bool             // its device is removed: nothing comes or goes
	client *saclient.Client // nil: cache asks
	comm   *comm.Manager
	cache  *lab.PathHost // nil: it keeps no paths
	links  map[*rdsNode]*rdsLink
	order  []*rdsLink // the same, as they were made
	known  map[ib.LID]ib.GID
	alarm  *lab.Alarm

	queries, saved []mad.Time // when it asked the SA, and when its cache had the path
	away           int        // tries while it had no address
}

// newNode is the software of a host, or of a VM if vm is its name.
func (b *rdsBed) newNode(host, vm string, caching bool) (*rdsNode, error) {
	n := &rdsNode{b: b, name: host, links: map[*rdsNode]*rdsLink{}, known: map[ib.LID]ib.GID{}}
	var err error
	if vm != "" {
		n.name, n.shared = vm, true
		n.ep, err = b.c.Sim.AttachVM(vm)
	} else {
		n.ep, err = b.c.Sim.Attach(host)
	}
	if err != nil {
		return nil, err
	}
	n.ep.OnPacket = n.receive
	n.ep.Accepts = comm.Accepts
	if caching {
		n.ep.Accepts = func(p *mad.Packet) bool { return comm.Accepts(p) || saclient.Accepts(p) }
		n.cache = lab.NewPathHost(b.c.Sim, n.ep, b.cfg.cache(), n.send)
	} else {
		n.client = saclient.New(n.send, func() saclient.Master {
			pi := n.ep.PortInfo()
			return saclient.Master{LID: pi.MasterSMLID, SL: pi.MasterSMSL}
		}, b.cfg.mad)
	}
	n.alarm = lab.NewAlarm(b.c.Sim, n.nextTimer, n.expire)
	n.attach()
	return n, nil
}

func (n *rdsNode) nextTimer() mad.Time {
	t := n.comm.NextTimer()
	if n.client != nil {
		t = min(t, n.client.NextTimer())
	}
	return t
}

func (n *rdsNode) expire(now mad.Time) {
	if n.client != nil {
		n.client.Expire(now)
	}
	n.comm.Expire(now)
}

// attach gives the node its device, with the GID that it has there.
func (n *rdsNode) attach() {
	n.up, n.gone = true, false
	n.gid = ib.MakeGID(ib.DefaultSubnetPrefix, n.ep.PortGUID())
	n.b.at[n.gid] = n
	if n.cache != nil && !n.b.asleep {
		n.cache.Return()
	}
	n.comm = comm.New(n.b.cfg.comm, n.send, func() (ib.LID, ib.GID) { return n.ep.LID(), n.gid })
	n.comm.Listen(rdsService, n.asked)
	n.comm.OnReady = func(now mad.Time, c *comm.Conn) {
		if l := n.b.of[c.QP()]; l != nil {
			l.opened(c)
			l.conn.Established(now)
		}
	}
}

// remove begins to remove the device: connections end, and peers' requests are refused.
func (n *rdsNode) remove() {
	n.up = false
	for _, l := range n.order {
		l.conn.Broken(n.b.now())
	}
	n.alarm.Set()
}

// removed ends the device.
func (n *rdsNode) removed() {
	n.gone = true
	if n.cache != nil {
		n.cache.Remove()
	}
}

func (n *rdsNode) send(p *mad.Packet) {
	if n.gone {
		return
	}
	q := *p
	switch g, ok := n.known[p.Addr.LID]; {
	case comm.Accepts(p) && ok:
		q.Addr.HasGRH, q.Addr.GRH = true, mad.GRH{GID: g, HopLimit: 1}
	case !comm.Accepts(p) && n.shared:
		q.Addr.HasGRH, q.Addr.GRH = true, mad.GRH{GID: ib.MakeGID(ib.DefaultSubnetPrefix, ibsa.WellKnownGUID), HopLimit: 1}
	}
	n.ep.Send(&q)
}

func (n *rdsNode) receive(p *mad.Packet) {
	if n.gone {
		return
	}
	now := n.b.now()
	switch {
	case comm.Accepts(p):
		if p.Addr.HasGRH {
			n.known[p.Addr.LID] = p.Addr.GRH.GID
		}
		n.comm.Receive(now, p)
	case n.cache != nil:
		n.cache.Receive(p)
	default:
		n.client.Receive(now, p)
	}
	n.alarm.Set()
}

// asked takes a peer's request.
func (n *rdsNode) asked(now mad.Time, r *cm.REQ) (*adapter.Connection, uint32, cm.Reason) {
	peer := n.b.at[r.Primary.LocalGID]
	if !n.up || peer == nil {
		return nil, 0, cm.ReasonConsumer
	}
	l := n.link(peer)
	if !l.conn.Incoming(now) {
		return nil, 0, cm.ReasonConsumer
	}
	if err := l.open(); err != nil {
		l.conn.Broken(now)
		return nil, 0, cm.ReasonNoQP
	}
	return l.qp, 0, 0
}

// rdsLink is the connection of a node to a peer.
type rdsLink struct {
	n, peer *rdsNode
	conn    *rds.Conn
	path    rc.Path
	dst     ib.GID
	qp      *adapter.Connection
	cm      *comm.Conn // once it is up
	alarm   *lab.Alarm

	ups, downs []mad.Time
}

// link is the connection to a peer; RDS has one for each pair of nodes.
func (n *rdsNode) link(peer *rdsNode) *rdsLink {
	l := n.links[peer]
	if l == nil {
		l = &rdsLink{n: n, peer: peer}
		h := uint64(n.ep.Tag())<<16 | uint64(peer.ep.Tag())
		l.conn = rds.New(n.b.cfg.rds, rand.New(rand.NewPCG(n.b.seed, h)), l)
		l.alarm = lab.NewAlarm(n.b.c.Sim, l.conn.NextTimer, l.conn.Expire)
		n.links[peer] = l
		n.order = append(n.order, l)
	}
	return l
}

// start connects to a peer.
func (n *rdsNode) start(peer *rdsNode) { n.link(peer).conn.Start(n.b.now()) }

// open makes a queue pair.
func (l *rdsLink) open() (err error) {
	l.qp, err = l.n.b.qps.Connect(adapter.Options{MTU: bed.Payload, Window: 1, Peer: l.peer.gid}, &program.Sink{})
	if err == nil {
		l.n.b.of[l.qp] = l
	}
	return err
}

// opened takes what communication management knows of an established connection.
func (l *rdsLink) opened(c *comm.Conn) {
	l.cm = c
	c.Ended = func(now mad.Time) {
		if l.cm == c {
			l.cm = nil
			l.conn.Broken(now)
		}
	}
}

// Resolve implements rds.Actions: the peer's GID is what IPoIB knows.
func (l *rdsLink) Resolve(now mad.Time, try uint64) {
	n := l.n
	if !n.up {
		n.away++
		l.conn.Resolved(now, try, false)
		return
	}
	l.dst = l.peer.gid
	q := ibsa.PathRecord{SGID: n.gid, DGID: l.dst, NumbPath: 1, Reversible: true}
	mask := ibsa.PathCompSGID | ibsa.PathCompDGID | ibsa.PathCompNumbPath | ibsa.PathCompReversible
	if n.cache != nil {
		asked := n.cache.Stats().Queries
		n.cache.Ask(&agent.Query{Mask: mask, Record: q}, rdsPatience, func(at mad.Time, a *agent.Answer) {
			if a.Result == agent.Found {
				l.found(&a.Record)
			}
			l.conn.Resolved(at, try, a.Result == agent.Found)
		})
		if n.cache.Stats().Queries > asked {
			n.queries = append(n.queries, now)
		} else {
			n.saved = append(n.saved, now)
		}
		return
	}
	n.queries = append(n.queries, now)
	n.client.Paths(now, &q, mask, true, func(at mad.Time, list []ibsa.PathRecord, err error) {
		ok := err == nil && len(list) > 0
		if ok {
			l.found(&list[0])
		}
		l.conn.Resolved(at, try, ok)
	})
	n.alarm.Set()
}

func (l *rdsLink) found(r *ibsa.PathRecord) {
	l.path = rc.Path{DLID: r.DLID, SL: r.SL}
	l.n.known[r.DLID] = l.dst
}

// Request implements rds.Actions.
func (l *rdsLink) Request(now mad.Time, try uint64) {
	if err := l.open(); err != nil {
		l.conn.Ended(now, try, false)
		return
	}
	qp := l.qp
	var c *comm.Conn
	c = l.n.comm.Connect(now, comm.Request{
		Service: rdsService, QP: qp, Path: l.path, Peer: l.dst, MTU: ib.MTU2048,
		Sender: rc.Sender{Timeout: hostTimeout, Retries: 7, RNRRetries: 7},
	}, func(at mad.Time, err error) {
		if err == nil {
			l.opened(c)
		} else {
			l.discard(qp)
		}
		l.conn.Ended(at, try, err == nil)
	})
	l.n.alarm.Set()
}

// discard destroys a queue pair.
func (l *rdsLink) discard(qp *adapter.Connection) {
	delete(l.n.b.of, qp)
	qp.Destroy()
}

// Drop implements rds.Actions.
func (l *rdsLink) Drop(now mad.Time) {
	if c := l.cm; c != nil {
		l.cm = nil
		c.Disconnect(now)
	}
	if l.qp != nil {
		l.discard(l.qp)
		l.qp = nil
	}
}

// Changed implements rds.Actions.
func (l *rdsLink) Changed(now mad.Time, s rds.State) {
	switch {
	case s == rds.Up:
		l.ups = append(l.ups, now)
	case len(l.ups) > len(l.downs):
		l.downs = append(l.downs, now)
	}
	l.alarm.Set()
}

// linked reports whether two nodes have a connection that is up at both ends.
func linked(a, b *rdsNode) bool {
	return a.link(b).conn.State() == rds.Up && b.link(a).conn.State() == rds.Up
}
