package takeover

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/sa"
	"heddle/internal/bench/pair"
	"heddle/mad"
	"heddle/sim"
	"heddle/sim/ibsimd"
	simlive "heddle/sim/live"
)

// A scene is a simulated fat tree in this process, whose hosts do what those of a cluster do when
// their manager changes: each one joins its groups again when it is asked to, one asks the SA for
// paths all the time, one registers services, and packets of flows are under way. The fields below
// ep belong to the driver's lock, like the subnet.
type scene struct {
	fab   *fabric.Fabric
	d     *simlive.Driver
	srv   *ibsimd.Server
	sock  string
	end   context.CancelFunc
	nodes [2]string // where the managers are
	hosts []*sceneHost
	r     *rand.Rand

	want       ib.LID              // of the manager that is to take over
	begun      mad.Time            // when the other one failed
	first      mad.Time            // the first answer of the SA of want; 0: none yet
	last       mad.Time            // the last answer to a path query of whichever, or begun
	silent     time.Duration       // the longest time without one since begun, while somebody asks
	passedOn   int                 // answers since begun with the address of the other one
	open       map[uint64]mad.Time // path queries without an answer since begun: when they were asked
	toldAt     mad.Time            // when the last host was told
	answeredAt mad.Time            // when the last join of those that were told was answered
	changedAt  mad.Time            // when the first change was acknowledged by want
	told       int
	answered   int // joins
	probes     int
	lost       int
	moved      map[ib.GID]bool // groups with another MLID than before
	mlids      map[ib.GID]ib.LID
	asks       bool   // queries, changes and probes are made
	version    uint64 // of the registrar's service
	changeDue  mad.Time
}

// Spans of a scene.
const (
	sceneAsks    = 2 * time.Millisecond   // between two queries, and between probes of flows
	sceneProbes  = 4                      // flows that are probed at a time
	sceneAgain   = time.Second            // until a host repeats a join, as the kernel does
	changeAgain  = 250 * time.Millisecond // until it repeats a change
	sceneGroups  = 8
	sceneJoins   = 4 // groups of each host: those of IPoIB, of IPv4 and of IPv6
	changeEvery  = 5 * time.Millisecond
	joinsSpread  = time.Millisecond // from the request to register again to the join
	transactions = 0xFF             // in a transaction ID: what was asked
)

// newScene serves a fat tree. The managers are on its first two hosts.
func newScene(hosts int, name string) (*scene, error) {
	t, o, err := fabric.ParseTopology("fattree", []string{fmt.Sprint(hosts)}, 1)
	if err != nil {
		return nil, err
	}
	s := &scene{r: rand.New(rand.NewPCG(1, 2)), mlids: map[ib.GID]ib.LID{}, moved: map[ib.GID]bool{}, open: map[uint64]mad.Time{}}
	if s.fab, err = fabric.Generate(t, o); err != nil {
		return nil, err
	}
	net, err := sim.New(s.fab, sim.Config{})
	if err != nil {
		return nil, err
	}
	s.d = simlive.New(net)
	if s.srv, err = ibsimd.Listen(s.d, ibsimd.Options{SockName: name}); err != nil {
		s.d.Close()
		return nil, err
	}
	s.sock = s.srv.SockName()
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = s.srv.Serve(ctx) // nil, or Close was called
	}()
	s.end = func() {
		cancel()
		<-served
		s.srv.Close()
		s.d.Close()
	}
	s.d.Do(func(net *sim.Subnet) { err = s.attach(net) })
	if err != nil {
		s.end()
		return nil, err
	}
	return s, nil
}

// attach opens the ports of the hosts.
func (s *scene) attach(net *sim.Subnet) error {
	n := 0
	for i := range s.fab.Nodes {
		nd := &s.fab.Nodes[i]
		if nd.Type != ib.NodeCA {
			continue
		}
		if n++; n <= 2 {
			s.nodes[n-1] = nd.ID
			continue
		}
		ep, err := net.Attach(nd.ID)
		if err != nil {
			return err
		}
		h := &sceneHost{s: s, ep: ep, node: i, gid: ib.MakeGID(ib.DefaultSubnetPrefix, ep.PortGUID())}
		for k := range h.in {
			h.in[k].mgid = ib.MakeGID(0xFF12_A01C_0000_0000, ib.GUID(1+(n+k)%sceneGroups))
		}
		ep.OnReregister = func() { net.After(time.Duration(s.r.Int64N(int64(joinsSpread))), func() { h.reregister(net) }) }
		ep.OnPacket = func(p *mad.Packet) { h.receive(net, p) }
		s.hosts = append(s.hosts, h)
	}
	net.After(sceneAsks, func() { s.tick(net) })
	return nil
}

// managersAt is where the managers are.
func (s *scene) managersAt() pair.At {
	at := pair.At{Sock: s.sock, Nodes: s.nodes}
	for i, id := range s.nodes {
		n := slices.IndexFunc(s.fab.Nodes, func(n fabric.Node) bool { return n.ID == id })
		at.GUIDs[i] = s.fab.Nodes[n].Ports[1].GUID
	}
	return at
}

// asker and registrar are the hosts that ask for paths and register services.
func (s *scene) asker() *sceneHost     { return s.hosts[len(s.hosts)/2] }
func (s *scene) registrar() *sceneHost { return s.hosts[len(s.hosts)/3] }

// tick makes queries, changes and probes.
func (s *scene) tick(net *sim.Subnet) {
	net.After(sceneAsks, func() { s.tick(net) })
	if !s.asks {
		return
	}
	h := s.asker()
	var m ib.MAD
	sa.New(&m, ib.MethodGet, sa.AttrPathRecord, 0, sa.PathCompSGID|sa.PathCompDGID|sa.PathCompNumbPath)
	to := s.hosts[s.r.IntN(len(s.hosts))]
	r := sa.PathRecord{SGID: h.gid, DGID: to.gid, NumbPath: 1}
	r.Put(sa.Data(&m))
	if tid := h.send(askedPath, &m); s.begun > 0 && tid != 0 {
		s.open[tid] = net.Now()
	}
	if s.changeDue <= net.Now() {
		s.changeDue = net.Now().Add(changeAgain)
		s.version++ // or it is no change, and answered without the store
		s.registrar().register(s.version)
	}
	for range sceneProbes {
		a, b := s.hosts[s.r.IntN(len(s.hosts))], s.hosts[s.r.IntN(len(s.hosts))]
		if a == b || a.off || b.off {
			continue
		}
		p, err := net.Probe(sim.VF{Node: a.node, Port: 1}, mad.Addr{LID: b.ep.LID()}, ib.PKeyDefaultFull)
		s.probes++
		if err != nil || !p.Answered {
			s.lost++
		}
	}
}

// begin has what follows measured: the manager at want is to take over.
func (s *scene) begin(want ib.LID) {
	s.d.Do(func(net *sim.Subnet) {
		s.want, s.begun = want, net.Now()
		s.first, s.last, s.toldAt, s.answeredAt, s.changedAt = 0, net.Now(), 0, 0, 0
		s.silent, s.passedOn = 0, 0
		clear(s.open)
		s.told, s.answered, s.probes, s.lost = 0, 0, 0, 0
		clear(s.moved)
	})
}

// joinedAll reports whether all hosts are members as far as the manager at lid is concerned, and none waits
// for an answer.
func (s *scene) joinedAll(lid ib.LID) (ok bool) {
	ok = true
	s.d.Do(func(*sim.Subnet) {
		for _, h := range s.hosts {
			for k := range h.in {
				ok = ok && (h.off || h.in[k].by == lid && h.in[k].asked == 0)
			}
		}
	})
	return ok
}

// lidOf is the LID of a manager's port.
func (s *scene) lidOf(i int) (lid ib.LID) {
	s.d.Do(func(net *sim.Subnet) {
		if n, err := net.Node(s.nodes[i]); err == nil {
			lid = net.PortInfo(n, 1).LID
		}
	})
	return lid
}

// held is what devices have that a takeover must not change.
type held struct {
	lids     map[ib.GUID]ib.LID
	pkeys    map[int]string
	lft, mft uint64 // Sets so far
}

func (s *scene) look() (x held) {
	s.d.Do(func(net *sim.Subnet) {
		st := net.Stats()
		x = held{lids: map[ib.GUID]ib.LID{}, pkeys: map[int]string{}, lft: st.LFTSets, mft: st.MFTSets}
		for _, e := range net.LIDs() {
			x.lids[e.GUID] = e.LID
		}
		for _, h := range s.hosts {
			x.pkeys[h.node] = fmt.Sprint(net.PKeys(h.node, 1, nil))
		}
	})
	return x
}

// changed counts LIDs and P_Key tables that are others than before, of ports that have any.
func (x *held) changed(before *held) (lids, pkeys int) {
	for g, l := range x.lids {
		if old := before.lids[g]; l != 0 && old != 0 && l != old {
			lids++
		}
	}
	for n, k := range x.pkeys {
		if k != before.pkeys[n] {
			pkeys++
		}
	}
	return lids, pkeys
}
