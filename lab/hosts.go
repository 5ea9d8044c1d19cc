package lab

import (
	"errors"
	"fmt"
	"time"

	"heddle/ib"
	"heddle/ib/cm"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sim"
	"heddle/sim/host/adapter"
	"heddle/sim/host/comm"
	"heddle/sim/host/program"
	"heddle/sim/host/rc"
	"heddle/sim/host/repath"
	"heddle/sim/host/saclient"
)

// HostConfig configures simulated hosts. Start from HostDefaults.
type HostConfig struct {
	Repath repath.Config
	// Deaf hosts subscribe to nothing, so their connections keep their paths.
	Deaf bool
	// CM has hosts connect by communication management, and load alternate paths by it.
	// Otherwise they exchange numbers and paths out of band, and each end rearms by
	// itself.
	CM   bool
	Comm comm.Config
	// Refresh is how often a host asks for all paths again, so that a notice that was
	// lost does no harm for longer; 0: never. Hosts do so in turn.
	Refresh time.Duration
	// MAD is how queries are repeated.
	MAD mad.Config
	// Options and Sender are those of connections.
	Options adapter.Options
	Sender  rc.Sender
}

// HostDefaults are hosts with path migration, and connections with a transport timer
// of 67 ms (code 14) and 7 retries.
func HostDefaults() HostConfig {
	return HostConfig{
		Repath:  repath.Defaults(),
		Options: adapter.Options{MTU: 2048, Window: 64, AckEvery: 16},
		Sender:  rc.Sender{Timeout: 14, Retries: 7, RNRRetries: 7},
		Comm:    comm.Config{PacketLife: 8, Response: 8, Retries: 15}, // 3.1 ms a try: agents here are quick
	}
}

// Host is a simulated host at an end port of the data plane: an adapter with queue
// pairs, a client of the SA, and a repath handler. Its packets are those of the data
// plane; its management datagrams are the simulated subnet's and wait for no credits.
type Host struct {
	Name    string // node
	Adapter *adapter.Adapter
	Client  *saclient.Client
	Handler *repath.Handler
	Comm    *comm.Manager // nil without HostConfig.CM
	// Rounds are what the handler has done.
	Rounds []repath.Round
	// OnReport, if set, sees each notice before the handler. Returning false loses it
	// in the host.
	OnReport func(r *saclient.Report) bool
	// Lose, if set, loses a datagram that the host sends or receives: a Report or its
	// response, a query or its answer.
	Lose func(p *mad.Packet) bool

	l     *Loaded
	cfg   HostConfig
	ep    *sim.Endpoint
	alarm *Alarm
	subs  int // traps that it is subscribed to
	era   int // of registration

	service uint16  // that it asked for last
	ip      *HostIP // nil: none
}

// hostTraps are those that hosts subscribe to.
var hostTraps = []uint16{smp.TrapGIDInService, smp.TrapGIDOutOfService, smp.TrapUnPath, smp.TrapRePath}

// StartHosts puts a host on every adapter port, and waits until all have subscribed.
// The manager needs an SA (ServeSA), and a node of its own: a switch, for instance,
// because a manager takes what comes to its port.
func (l *Loaded) StartHosts(cfg HostConfig) ([]*Host, error) {
	var hosts []*Host
	for i := range l.Engine.NumHosts() {
		h, err := l.startHost(i, cfg)
		if err != nil {
			return nil, err
		}
		hosts = append(hosts, h)
	}
	if cfg.Deaf {
		return hosts, nil
	}
	err := l.RunUntil(time.Minute, func() bool {
		for _, h := range hosts {
			if h.subs < len(hostTraps) {
				return false
			}
		}
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("lab: hosts do not get their subscriptions: %w", err)
	}
	return hosts, nil
}

func (l *Loaded) startHost(i int, cfg HostConfig) (*Host, error) {
	ref := l.Engine.HostPort(i)
	h := &Host{Name: l.Fabric.Nodes[ref.Node].ID, l: l, cfg: cfg}
	var err error
	if h.ep, err = l.Sim.AttachPort(h.Name, int(ref.Port)); err != nil {
		return nil, err
	}
	if h.Adapter, err = adapter.New(l.Engine, i); err != nil {
		return nil, err
	}
	h.Client = saclient.New(h.send, h.master, cfg.MAD)
	h.Handler = repath.New(cfg.Repath, h.Client, h.Adapter, h.GID)
	h.alarm = NewAlarm(l.Sim, h.nextTimer, h.expire)
	h.Handler.Done = func(r *repath.Round) { h.Rounds = append(h.Rounds, *r) }
	h.Adapter.OnMigrated = func(c *adapter.Connection) {
		l.Sim.After(0, func() {
			h.Handler.Migrated(l.Sim.Now(), c)
			h.alarm.Set()
		})
	}
	h.ep.Accepts = func(p *mad.Packet) bool { return saclient.Accepts(p) || cfg.CM && comm.Accepts(p) }
	h.ep.OnPacket = func(p *mad.Packet) {
		if h.Lose != nil && h.Lose(p) {
			return
		}
		if comm.Accepts(p) && h.Comm != nil {
			h.Comm.Receive(l.Sim.Now(), p)
		} else {
			h.Client.Receive(l.Sim.Now(), p)
		}
		h.alarm.Set()
	}
	if cfg.CM {
		h.startComm()
	}
	h.Client.OnReport = func(r *saclient.Report) {
		if h.OnReport != nil && !h.OnReport(r) {
			return
		}
		h.Handler.Notice(l.Sim.Now(), r)
		if h.ip != nil {
			h.ip.notice(r)
		}
	}
	if !cfg.Deaf {
		h.register()
		h.ep.OnReregister = h.reregister
		if cfg.Refresh > 0 {
			l.Sim.After(cfg.Refresh*time.Duration(i+1)/time.Duration(l.Engine.NumHosts()), h.refresh)
		}
	}
	h.alarm.Set()
	return h, nil
}

func (h *Host) send(p *mad.Packet) {
	if h.Lose == nil || !h.Lose(p) {
		h.ep.Send(p)
	}
}

// startComm gives the host a communication manager.
func (h *Host) startComm() {
	h.Comm = comm.New(h.cfg.Comm, h.send, func() (ib.LID, ib.GID) { return h.ep.LID(), h.GID() })
	h.Handler.LoadAlternate = func(now mad.Time, c *adapter.Connection, p rc.Path, done func(mad.Time, error)) bool {
		x := h.Comm.Of(c)
		if x != nil {
			x.LoadAlternate(now, p, done)
		}
		return x != nil
	}
}

// register subscribes to all traps.
func (h *Host) register() {
	h.era++
	h.subs = 0
	for _, trap := range hostTraps {
		h.subscribe(trap, h.era)
	}
}

// reregister is the request of a manager that may know nothing of this host, and whose
// paths may be others.
func (h *Host) reregister() {
	h.Client.Redirect(h.l.Sim.Now())
	h.Handler.Restart()
	h.register()
	h.Handler.Refresh(h.l.Sim.Now())
	if h.ip != nil {
		h.ip.reregister()
	}
	h.alarm.Set()
}

// refresh asks for all paths, again and again.
func (h *Host) refresh() {
	h.Handler.Refresh(h.l.Sim.Now())
	h.l.Sim.After(h.cfg.Refresh, h.refresh)
	h.alarm.Set()
}

// subscribe asks for a trap until it gets it, or registers anew.
func (h *Host) subscribe(trap uint16, era int) {
	h.Client.Subscribe(h.l.Sim.Now(), trap, func(_ mad.Time, err error) {
		switch {
		case era != h.era:
		case err == nil:
			h.subs++
		default:
			h.l.Sim.After(time.Second, func() {
				if era == h.era {
					h.subscribe(trap, era)
					h.alarm.Set()
				}
			})
		}
	})
}

// GID is the GID of the host's port.
func (h *Host) GID() ib.GID {
	return ib.MakeGID(h.ep.PortInfo().GidPrefix, h.ep.PortGUID())
}

func (h *Host) master() saclient.Master {
	pi := h.ep.PortInfo()
	return saclient.Master{LID: pi.MasterSMLID, SL: pi.MasterSMSL}
}

func (h *Host) nextTimer() mad.Time {
	t := min(h.Client.NextTimer(), h.Handler.NextTimer())
	if h.Comm != nil {
		t = min(t, h.Comm.NextTimer())
	}
	return t
}

// expire has client, handler and communication manager do what is due.
func (h *Host) expire(now mad.Time) {
	if h.Client.NextTimer() <= now {
		h.Client.Expire(now)
	}
	if h.Handler.NextTimer() <= now {
		h.Handler.Expire(now)
	}
	if h.Comm != nil && h.Comm.NextTimer() <= now {
		h.Comm.Expire(now)
	}
}

// Resolve asks the SA for the path to a host, and runs events until it is known.
func (h *Host) Resolve(to *Host) (rc.Path, error) { return h.ResolveGID(to.GID()) }

// ResolveGID is Resolve for any GID.
func (h *Host) ResolveGID(to ib.GID) (rc.Path, error) {
	var got []wire.PathRecord
	var failed error
	ended := false
	q := wire.PathRecord{SGID: h.GID(), DGID: to, NumbPath: 1, Reversible: true}
	mask := wire.PathCompSGID | wire.PathCompDGID | wire.PathCompNumbPath | wire.PathCompReversible
	h.Client.Paths(h.l.Sim.Now(), &q, mask, true, func(_ mad.Time, list []wire.PathRecord, err error) {
		got, failed, ended = list, err, true
	})
	h.alarm.Set()
	if err := h.l.RunUntil(time.Minute, func() bool { return ended }); err != nil {
		return rc.Path{}, err
	}
	if failed == nil && len(got) == 0 {
		failed = fmt.Errorf("lab: no path from %s to %v", h.Name, to)
	}
	if failed != nil {
		return rc.Path{}, failed
	}
	return rc.Path{DLID: got[0].DLID, SL: got[0].SL}, nil
}

// Connect resolves the path to a host and connects to it, by communication management
// (HostConfig.CM) or by an exchange of numbers and paths out of band, as programs do
// over sockets.
func (h *Host) Connect(to *Host, mine, theirs adapter.Program) (c, d *adapter.Connection, err error) {
	there, err := h.Resolve(to)
	if err != nil {
		return nil, nil, err
	}
	if h.Comm != nil {
		return h.agree(to, there, mine, theirs)
	}
	back, err := to.Resolve(h)
	if err != nil {
		return nil, nil, err
	}
	if c, d, err = program.Pair(h.Adapter, to.Adapter, h.cfg.Options, h.cfg.Sender, there, back, mine, theirs); err != nil {
		return nil, nil, err
	}
	c.SetPeer(to.GID())
	d.SetPeer(h.GID())
	return c, d, nil
}

// agree connects by REQ, REP and RTU. The passive end asks the SA for its path back, as
// that of the REQ may have another service level in this direction.
func (h *Host) agree(to *Host, there rc.Path, mine, theirs adapter.Program) (c, d *adapter.Connection, err error) {
	back, err := to.Resolve(h)
	if err != nil {
		return nil, nil, err
	}
	o := h.cfg.Options
	o.Peer = to.GID()
	if c, err = h.Adapter.Connect(o, mine); err != nil {
		return nil, nil, err
	}
	c.PostReceives(1 << 30)
	h.service++
	service := uint64(h.GID().GUID())<<16 | uint64(h.service)
	to.Comm.Listen(service, func(_ mad.Time, r *cm.REQ) (*adapter.Connection, uint32, cm.Reason) {
		o.Peer = r.Primary.LocalGID
		if d, err = to.Adapter.Connect(o, theirs); err != nil {
			return nil, 0, cm.ReasonNoQP
		}
		d.PostReceives(1 << 30)
		return d, 0, 0
	})
	ended := false
	h.Comm.Connect(h.l.Sim.Now(), comm.Request{Service: service, QP: c, Path: there, Peer: to.GID(), Sender: h.cfg.Sender, MTU: ib.MTU2048},
		func(_ mad.Time, e error) { ended, err = true, e })
	h.alarm.Set()
	e := h.l.RunUntil(time.Minute, func() bool { return ended && (err != nil || d.QP().State() == rc.ReadyToSend) })
	if e != nil || err != nil {
		return nil, nil, errors.Join(e, err)
	}
	if d.QP().Path() != back {
		err = d.Do(func(q *rc.QP, _ rc.Time) error {
			return errors.Join(q.Drain(), q.SetPath(back), q.Resume())
		})
	}
	return c, d, err
}

// Stream is a stream of messages from one host to another.
type Stream struct {
	*program.Stream
	Sink *program.Sink
	Conn *adapter.Connection // of the sender
	Back *adapter.Connection // of the receiver
}

// Check reports a message that was lost, doubled or out of order.
func (s *Stream) Check() error { return s.Sink.Check(s.Stream) }

// Stream starts a stream of messages to another host.
func (h *Host) Stream(to *Host, p program.Stream) (*Stream, error) {
	s := &Stream{Stream: &p, Sink: &program.Sink{}}
	var err error
	if s.Conn, s.Back, err = h.Connect(to, s.Stream, s.Sink); err != nil {
		return nil, err
	}
	s.Run(s.Conn)
	return s, nil
}
