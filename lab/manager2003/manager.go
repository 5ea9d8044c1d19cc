// Package manager2003 is the subnet manager of A. Bermúdez, R. Casado, F. J.
// Quiles, T. M. Pinkston and J. Duato, "Evaluation of a Subnet Management
// Mechanism for InfiniBand Networks" (2003), §2, as far as its text describes it:
// sweeps by Get(SwitchInfo), discovery from nothing in propagation order, up*/down*
// routes, and static distribution: all ports to Initialize, whole tables, all ports
// to Active. It exists for the experiment change-assimilation and manages nothing
// else: no partitions, no lanes, no other manager, no SA.
//
// Where the report is silent:
//
//   - what lies beyond the port of a host is not asked, but at the manager's own: an
//     adapter relays no directed route (IBA §14.2.2.2), and it is where one came from;
//   - a node keeps its LID, by its GUID, in the order in which nodes were first met;
//   - SMPs of the distribution go out one after the other (Config.Window);
//   - LinearFDBTop has to be set and PortStateChange to be cleared: one
//     Set(SwitchInfo) for each switch that reports a change or has not answered the
//     sweep, because it is new or its way is gone (Change.Others);
//   - MTU, lanes and limits are set along with the port's state.
//
// Its Set(PortState) of Initialize, and of Active at a port in Init, are refused by
// today's devices: sim.Config.DirectStates makes the simulated ones take them.
package manager2003

import (
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/route"
	"heddle/sim"
)

// Config is what the manager is told.
type Config struct {
	SweepInterval time.Duration // between the starts of sweeps
	// Blocks of each table are written, whatever is in them: 16 for 1,024 entries.
	Blocks int
	// Window is how many SMPs of the distribution may be unanswered. Those of the
	// discovery have no bound.
	Window int
	// Clock measures what computing takes, which passes in virtual time as well; nil:
	// it takes none. Compute, if set, says instead what it takes with so many switches.
	Clock   func() time.Duration
	Compute func(switches int) time.Duration
}

// Defaults are those of the report.
func Defaults() Config { return Config{SweepInterval: 100 * time.Millisecond, Blocks: 16, Window: 1} }

// Change is one assimilation of a change, the activation included.
type Change struct {
	// When the sweep noticed it, the topology was known, the tables were computed, all
	// ports were in Initialize, all tables were written, and all ports Active again.
	Noticed, Discovered, Computed, Down, Written, Up mad.Time
	// Requests, repetitions left out: of the discovery, of the distribution, and
	// Set(SwitchInfo), of which the report says nothing.
	NodeInfos, PortInfos, LIDs int
	Downs, Blocks, Ups         int
	Others                     int
	Lost                       int           // requests that nobody answered
	CPU                        time.Duration // of the computation

	Graph  *fabric.Graph
	Tables *route.Tables
}

// Discovery is the number of SMPs of the discovery, Distribution of the rest.
func (c *Change) Discovery() int    { return c.NodeInfos + c.PortInfos + c.LIDs }
func (c *Change) Distribution() int { return c.Downs + c.Blocks + c.Ups }

// Manager is the manager on a port of a simulated subnet.
type Manager struct {
	// Changes are the assimilations that have ended, the activation first.
	Changes []Change
	// OnSend, if set, sees every packet before it is sent.
	OnSend func(p *mad.Packet)
	// OnNode, if set, sees each Get(NodeInfo) as it is ordered and each answer to one.
	OnNode func(path []byte, answer bool)
	Swept  int // sweeps begun

	cfg   Config
	s     *sim.Subnet
	ep    *sim.Endpoint
	mads  *mad.Engine
	armed mad.Time
	token uint64
	wait  map[uint64]func(*mad.Completion)
	lids  map[ib.GUID]ib.LID
	heard map[ib.GUID]bool // switches that have answered the last sweep
	sm    ib.LID
	busy  bool
	now   Change
	open  int // requests of the present task
	nodes map[ib.GUID]*node
	list  []*node // in the order in which they were met
	queue []func()
	after func() // in the distribution: sends more
}

// node is a device that was discovered.
type node struct {
	info  smp.NodeInfo
	path  []byte
	lid   ib.LID
	ports []port
}

// port is a port of a node; the management port of a switch is 0.
type port struct {
	info smp.PortInfo
	peer ib.GUID // node at the far end
	far  uint8
}

// New attaches a manager to a node.
func New(s *sim.Subnet, at string, cfg Config) (*Manager, error) {
	ep, err := s.Attach(at)
	if err != nil {
		return nil, err
	}
	m := &Manager{
		cfg: cfg, s: s, ep: ep, armed: mad.Never, mads: mad.NewEngine(mad.Config{Window: 4096, MaxWindow: 4096}),
		wait: map[uint64]func(*mad.Completion){}, lids: map[ib.GUID]ib.LID{},
	}
	// A delivery may come while a Send is under way: it is looked at afterward.
	ep.OnPacket = func(p *mad.Packet) {
		c := *p
		c.Data = append([]byte(nil), p.Data...)
		s.At(s.Now(), func() { m.receive(&c) })
	}
	return m, nil
}

// Start activates the subnet and begins to sweep.
func (m *Manager) Start() {
	m.discover()
	m.s.After(m.cfg.SweepInterval, m.sweep)
}

// Busy reports whether a change is being assimilated.
func (m *Manager) Busy() bool { return m.busy }

// sweep asks every switch whether a port of it has changed its state. The first one
// that says so starts the discovery; the answers of the others are still awaited, to
// clear what they report.
func (m *Manager) sweep() {
	m.s.After(m.cfg.SweepInterval, m.sweep)
	if m.busy {
		return
	}
	m.Swept++
	m.heard = map[ib.GUID]bool{}
	for _, n := range m.list {
		if n.info.NodeType != ib.NodeSwitch {
			continue
		}
		m.ask(ib.MethodGet, smp.AttrSwitchInfo, 0, n.path, nil, func(c *mad.Completion) {
			var si smp.SwitchInfo
			if c.Err != nil || si.Decode(smp.Data(c.MAD)) != nil {
				return
			}
			m.heard[n.info.NodeGUID] = true
			if !si.PortStateChange {
				return
			}
			if !m.busy {
				m.discover()
			}
			m.setSwitch(n, si)
		})
	}
	m.pump()
}

// setSwitch clears PortStateChange and sets LinearFDBTop to the end of the table.
func (m *Manager) setSwitch(n *node, si smp.SwitchInfo) {
	si.PortStateChange = true
	si.LinearFDBTop, si.LifeTimeValue = ib.LID(m.cfg.Blocks*route.BlockLen-1), noLimit
	m.now.Others++
	m.ask(ib.MethodSet, smp.AttrSwitchInfo, 0, n.path, si.Put, func(*mad.Completion) {})
}

// ask sends a request; then gets its end.
func (m *Manager) ask(method ib.Method, attr ib.AttrID, mod uint32, path []byte, put func([]byte),
	then func(*mad.Completion),
) {
	m.token++
	r := mad.Request{Addr: mad.Addr{LID: ib.LIDPermissive}, Token: m.token}
	smp.NewDR(&r.MAD, method, attr, mod, 0, path)
	if put != nil {
		put(smp.Data(&r.MAD))
	}
	m.wait[m.token] = then
	if err := m.mads.Submit(&r); err != nil {
		panic(err) // a million requests are waiting
	}
}

// task is ask for the present task, which ends with its last answer.
func (m *Manager) task(method ib.Method, attr ib.AttrID, mod uint32, path []byte, put func([]byte),
	then func(*mad.Completion),
) {
	m.open++
	m.ask(method, attr, mod, path, put, func(c *mad.Completion) {
		m.open--
		if c.Err != nil {
			m.now.Lost++
		}
		then(c)
		if m.after != nil {
			m.after()
		}
	})
}

func (m *Manager) receive(p *mad.Packet) {
	if c, k := m.mads.Receive(m.s.Now(), p); k == mad.KindCompletion {
		m.done(c)
	}
	m.pump()
}

func (m *Manager) done(c mad.Completion) {
	then := m.wait[c.Token]
	delete(m.wait, c.Token)
	then(&c)
}

// pump sends what may be sent, and arranges to be called at the next time-out.
func (m *Manager) pump() {
	m.mads.Poll(m.s.Now(), func(p *mad.Packet) {
		if m.OnSend != nil {
			m.OnSend(p)
		}
		m.ep.Send(p)
	})
	at := m.mads.NextTimer()
	if at == mad.Never || m.armed <= at {
		return
	}
	m.armed = at
	m.s.At(at, func() {
		if m.armed != at {
			return
		}
		m.armed = mad.Never
		m.mads.Expire(m.s.Now(), m.done)
		m.pump()
	})
}

// Distributing is when the distribution for change i began, Never if it has not yet.
func (m *Manager) Distributing(i int) mad.Time {
	switch {
	case i < len(m.Changes):
		return m.Changes[i].Computed
	case m.busy && i == len(m.Changes) && m.now.Computed != 0:
		return m.now.Computed
	}
	return mad.Never
}
