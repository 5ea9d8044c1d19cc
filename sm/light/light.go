// Package light is the part of a subnet manager that does light sweeps and audits, between sweeps.
//
// A light sweep asks every switch for its PortStateChange bit, ports that had a silent far end
// whether somebody answers now, and nodes without a description for it. What differs leads to a
// sweep. An audit reads forwarding blocks again of which a late copy of an older Set may have
// arrived after the last one.
//
// Inputs are the discovered subnet and what agents answer. Outputs are requests, and demands for
// sweeps. The package owns the times of the next light sweep and the next audit.
package light

import (
	"slices"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/env"
	"heddle/sm/forward"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/work"
	"heddle/subnet"
)

// After a fault light sweeps follow each other at growing intervals for a while. The traps of
// a further fault may be lost where the first broke their paths, and an agent that has just sent
// a trap holds the next back for up to a second.
const (
	watchFirst = 25 * time.Millisecond
	watchLast  = 800 * time.Millisecond
)

// Discovery reads the subnet.
type Discovery interface {
	// AskRegion asks for a sweep that looks at a node.
	AskRegion(node int32, why string)
	// SuspectSwitch has the next sweep look at a switch.
	SuspectSwitch(node ib.GUID)
	// GiveUp makes the region sweep under way read everything.
	GiveUp(why string)
	// Sane returns an error for a NodeInfo that no node can have.
	Sane(ni *smp.NodeInfo, own bool) error
}

// Absent keeps the nodes that do not answer.
type Absent interface {
	// Heard is called when a node that did not answer does, Silent when it still does not.
	Heard(node ib.GUID)
	Silent(node ib.GUID)
}

// Keys knows M_Keys.
type Keys interface {
	// Guess is the key for request number try to the node behind a port, if there is one more.
	Guess(from subnet.Ref, try uint32) (key ib.MKey, ok bool)
}

// Publisher publishes snapshots.
type Publisher interface {
	// Publish publishes a new snapshot.
	Publish()
}

// Needs are the parts that a Sweep depends on.
type Needs struct {
	Discovery Discovery
	Absent    Absent
	Keys      Keys
	Publisher Publisher
}

// Sweep does the light sweeps and audits of a manager.
type Sweep struct {
	*env.Env
	needs Needs

	at       mad.Time      // of the next light sweep; mad.Never
	now      bool          // one is due as soon as it may begin
	lastAt   mad.Time      // when all switches had been asked
	watch    time.Duration // from watchAt to the light sweep after it, after a fault; 0: no further one
	watchAt  mad.Time      // of the next one after a fault; mad.Never
	auditAt  mad.Time      // of the next audit; mad.Never
	auditing bool          // an audit is under way, no light sweep
	mute     []muteSwitch  // switches that did not answer, until a region sweep has looked around them
	missed   []ib.GUID     // switches that owed an answer when a light sweep was cut short
	descRead bool          // a NodeDescription was read
	count    uint64
}

// New returns a Sweep with no time set.
func New(e *env.Env, needs Needs) *Sweep {
	return &Sweep{Env: e, needs: needs, at: mad.Never, watchAt: mad.Never, auditAt: mad.Never}
}

// Next is when a light sweep is due. During another sweep it is when all switches are to be asked
// for PortStateChange in addition.
func (s *Sweep) Next() mad.Time { return s.at }

// NextAudit is when an audit is due.
func (s *Sweep) NextAudit() mad.Time { return s.auditAt }

// Count is the number of light sweeps and audits that ended.
func (s *Sweep) Count() uint64 { return s.count }

// AuditAt sets the time of the next audit.
func (s *Sweep) AuditAt(at mad.Time) { s.auditAt = at }

// Disarm drops the times of the next light sweep and the next audit.
func (s *Sweep) Disarm() { s.at, s.auditAt = mad.Never, mad.Never }

// SweepBegins is called when a sweep begins. If the subnet is up, all switches are asked during a
// long sweep, too.
func (s *Sweep) SweepBegins() {
	s.at = mad.Never
	if s.Running() && s.Config.SweepInterval > 0 {
		s.Postpone()
	}
}

// Postpone sets the next light sweep to the usual interval from now.
func (s *Sweep) Postpone() { s.at = s.Now.Add(s.Config.SweepInterval) }

// Forget drops what light sweeps left to be looked at, because everything is read anyway.
func (s *Sweep) Forget() { s.mute, s.missed, s.now = s.mute[:0], s.missed[:0], false }

// AllRead is called when a full sweep has read every switch.
func (s *Sweep) AllRead() { s.lastAt = s.Now }

// Watch is called when a sweep found a link between switches down. All switches are asked now,
// and again at growing intervals.
func (s *Sweep) Watch() {
	s.now = true
	s.watch, s.watchAt = 2*watchFirst, s.Now.Add(watchFirst)
}

// Rearm sets the time of the next light sweep anew, because the interval is another one.
func (s *Sweep) Rearm() {
	if s.Phase != notice.PhaseIdle || s.State != subnet.Master || s.WaitHandover {
		return // it is set when what is under way ends
	}
	s.at = s.watchAt
	if s.Config.SweepInterval > 0 {
		s.at = min(s.at, s.lastAt.Add(s.Config.SweepInterval))
	}
}

// By brings the next light sweep forward.
func (s *Sweep) By(at mad.Time) { s.at = min(s.at, at) }

// Within brings the next light sweep forward, and repeats it if another sweep comes first.
func (s *Sweep) Within(d time.Duration) {
	s.watchAt = min(s.watchAt, s.Now.Add(d))
	s.By(s.watchAt)
}

// Soon brings the next light sweep forward if the subnet is up and nothing else is under way.
func (s *Sweep) Soon() {
	if s.Phase == notice.PhaseIdle && s.State == subnet.Master && s.Up {
		s.Within(s.Config.TrapSettle)
	}
}

// Arm sets the time of the next light sweep. Region sweeps do not postpone it: where hosts join
// and leave all the time there would never be one. waits says that a sweep was asked for. Then the
// time is set after that, and what is to be asked now is not forgotten.
func (s *Sweep) Arm(waits bool) {
	s.at = mad.Never
	if waits {
		return
	}
	for _, g := range s.missed {
		_, there := s.Fabric.Find(g)
		s.now = s.now || there
	}
	s.missed = s.missed[:0]
	if s.State == subnet.Master && s.Config.SweepInterval > 0 && !s.WaitHandover {
		s.at = min(s.lastAt.Add(s.Config.SweepInterval), s.watchAt)
		if s.now {
			s.at = s.Now
		}
	}
	s.now = false
}

// Ready is called when a light sweep is due. It reports whether there is a subnet to ask.
func (s *Sweep) Ready() bool {
	s.at = mad.Never
	return s.Fabric != nil && s.Fabric.Graph != nil
}

// Start lists the requests of a light sweep.
func (s *Sweep) Start() {
	f := s.Fabric
	s.AskSwitches()
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if n.Flags&(topo.NodeDesc|topo.NodeGone) == 0 {
			s.Add(work.Make(work.OpLightDesc, int32(i), n.Info.LocalPortNum, 0))
		}
	}
	for i := range f.Ports {
		p := &f.Ports[i]
		if p.Has(topo.PortSilent) && p.Has(topo.PortKnown) && !p.Has(topo.PortBadPeer) &&
			len(f.AgentPath(p.Node, p.Num)) < smp.MaxHops {
			s.Add(work.Make(work.OpLightProbe, p.Node, p.Num, 0))
		}
	}
}

// AskSwitches lists the requests to our own port and to every switch that does not owe an answer.
// The nearest switches are asked first. If one has died, the last switch before it that answers
// reports that, and its answer must not wait behind requests to dead switches.
func (s *Sweep) AskSwitches() {
	f := s.Fabric
	if own := f.Self; f.Nodes[own.Node].Flags&topo.NodeUnseen != 0 {
		s.Add(work.Make(work.OpLightProbe, -1, 0, 0))
	} else if !f.Nodes[own.Node].IsSwitch() {
		s.Add(work.Make(work.OpLightPort, own.Node, own.Port, 0))
	}
	farthest := 0
	for hops := 0; hops <= farthest; hops++ {
		for i := range f.Nodes {
			n := &f.Nodes[i]
			if !n.IsSwitch() || !n.OK() || !n.Path.Set || n.Flags&topo.NodeUnseen != 0 {
				continue
			}
			farthest = max(farthest, int(n.Path.N))
			if int(n.Path.N) == hops && n.Flags&topo.NodeLight == 0 {
				n.Flags |= topo.NodeLight
				s.Add(work.Make(work.OpLightSwitch, int32(i), 0, 0))
			}
		}
	}
	s.auditing = false
	s.at = mad.Never
	if s.Config.SweepInterval > 0 {
		s.Postpone()
	}
}

// AuditReady is called when an audit is due. It reports whether there is a subnet to audit.
func (s *Sweep) AuditReady() bool {
	s.auditAt = mad.Never
	return s.Fabric != nil && s.Fabric.Graph != nil
}

// StartAudit lists the reads of the blocks that an older copy may have overwritten.
func (s *Sweep) StartAudit() {
	s.auditing = true
	for _, ni := range s.Fabric.SwitchNode {
		l := s.Fabric.Nodes[ni].LFT
		if l == nil || s.Fabric.Nodes[ni].Flags&topo.NodeUnseen != 0 {
			continue
		}
		for b := 0; b < len(l.Suspect)*64; b++ {
			if forward.BitGet(l.Suspect, b) && forward.BitGet(l.Known, b) {
				s.Add(work.Make(work.OpGetLFT, ni, 0, uint32(b)))
			}
		}
		l.Suspect = nil
	}
}

// Done ends a light sweep or an audit. waits says that a sweep was asked for.
func (s *Sweep) Done(waits bool) {
	s.count++
	if !s.auditing {
		s.watched()
	}
	if s.descRead {
		s.descRead = false
		s.needs.Publisher.Publish()
	}
	if !waits && !s.auditing {
		s.Arm(false)
	}
	s.auditing = false
}

// watched is called when all switches have been asked.
func (s *Sweep) watched() {
	s.lastAt = s.Now
	if s.watchAt > s.Now {
		return
	}
	s.watchAt = mad.Never
	if s.watch > 0 {
		s.watchAt = s.Now.Add(s.watch)
		if s.watch *= 2; s.watch > watchLast {
			s.watch = 0
		}
	}
}

// Canceled takes an item without an answer, when a light sweep or an audit is cut short by
// another sweep. It is asked again soon after that sweep: a switch may be mute, or have died at
// the same time.
func (s *Sweep) Canceled(it work.Item) {
	switch it.Op() {
	case work.OpLightSwitch:
		n := &s.Fabric.Nodes[it.Node()]
		n.Flags &^= topo.NodeLight
		s.missed = append(s.missed, n.Info.NodeGUID)
	case work.OpLightProbe: // the node was silent before, and may still be
	case work.OpGetLFT:
		if l := s.Fabric.Nodes[it.Node()].LFT; l != nil {
			forward.BitSet(&l.Suspect, int(it.Extra()))
		}
		s.auditAt = s.Now
	default:
		s.now = true
	}
}

// CutShort is called after Canceled for all items.
func (s *Sweep) CutShort() { s.auditing = false }

// maxSilent is how many switches may be silent at a time for a sweep of what is around them. With
// more a full sweep costs as little.
const maxSilent = 8

// muteSwitch is a switch that a light sweep got no answer from.
type muteSwitch struct {
	guid ib.GUID
	path []byte // by which it was asked
}

// askAround asks for a sweep of the neighbors of a silent switch. If it is dead, they report that
// their links to it are down, and nothing else needs to be read.
func (s *Sweep) askAround(n int32, why string) {
	f := s.Fabric
	g := f.Nodes[n].Info.NodeGUID
	around := 0
	for i := range f.NodePorts(n) {
		if q := f.PortOf(n, uint8(i)).Peer; i > 0 && q.Node >= 0 && q.Node != n && f.Nodes[q.Node].IsSwitch() {
			s.needs.Discovery.SuspectSwitch(f.Nodes[q.Node].Info.NodeGUID)
			around++
		}
	}
	if around == 0 || len(s.mute) >= maxSilent {
		s.Sweeper.AskFullSweep(why)
		return
	}
	s.mute = append(s.mute, muteSwitch{g, slices.Clone(f.Path(f.Nodes[n].Path))})
	s.Sweeper.AskSweep(why)
}
