// Package trap is the part of a subnet manager that receives traps. It represses each trap, checks
// where it came from, counts it by its source, so that a noisy agent costs little, and decides what
// the trap asks for: a sweep, a read of one attribute, a light sweep, or a message.
//
// Inputs are the Trap MADs and the last snapshot, against which they are checked. Outputs are
// TrapRepress MADs (IBA §13.4.9), the traps for subscribers, and demands for sweeps. The package
// owns the time of the sweep that traps ask for.
//
// The sweeps are throttled. A flapping link costs a few sweeps, not one for each flap, and light
// sweeps see what an ignored trap would have said. Subscribers receive a trap, also one of a
// vendor, under the same throttle: each one until its source is noisy, and again when the source
// was quiet for Window. If an agent repeats a trap because our answer was lost, subscribers receive
// it again, because agents do not number their traps in a reliable way.
package trap

import (
	"strconv"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/env"
	"heddle/sm/notice"
	"heddle/sm/work"
	"heddle/subnet"
)

// maxHaste is the number of sweeps in a row that traps get without a gap of Config.TrapMinGap.
const maxHaste = 3

// Sweeps decides what the next sweep reads, and starts it.
type Sweeps interface {
	// SuspectLID has the next sweep read the port that has a LID; with whole, all ports of its
	// switch, whose node GUID it then returns.
	SuspectLID(lid ib.LID, whole bool) ib.GUID
	// ReadAll makes the next sweep a full one.
	ReadAll()
	// Join adds what the next sweep is to read to the region sweep under way. It reports whether
	// that is still possible.
	Join() bool
	// Peek has a switch asked for news during the sweep under way, or before one that is
	// deferred; 0 is none.
	Peek(node ib.GUID)
	// Sign takes the time of the first sign of a fault.
	Sign()
	// Plan sets the reason of the next sweep, and Begin starts it.
	Plan(why string)
	Begin()
}

// LightSweeps schedules light sweeps, see light.Sweep.
type LightSweeps interface {
	Soon()
	Within(d time.Duration)
	By(at mad.Time)
}

// VPorts takes traps about virtual ports.
type VPorts interface {
	Trapped(trap uint16, from ib.LID)
}

// Subscribers receive traps.
type Subscribers interface {
	Deliver(n smp.Notice, from mad.Addr)
}

// Publisher publishes snapshots.
type Publisher interface {
	Publish()
	// PublishPort publishes what is known of one port, PublishState which managers there are.
	PublishPort(node int32, port uint8)
	PublishState()
}

// Managers deals with other managers.
type Managers interface {
	// Read takes the SMInfo of a port.
	Read(it work.Item, comp *mad.Completion, region bool)
	// Gone forgets the manager at a port.
	Gone(at subnet.Ref)
	// Leads reports whether no manager that is known ranks above us or is master too.
	Leads() bool
}

// Needs are the parts that a Receiver depends on.
type Needs struct {
	Sweeps      Sweeps
	Light       LightSweeps
	VPorts      VPorts
	Subscribers Subscribers
	Publisher   Publisher
	Managers    Managers
}

// Receiver receives the traps of a subnet.
type Receiver struct {
	*env.Env
	needs Needs

	table      Table
	count      uint64
	falseCount uint64

	sweepAt   mad.Time // of the sweep that traps ask for; mad.Never
	lastSweep mad.Time
	sweeps    int // in a row, without a pause of ten times Config.TrapMinGap

	holders []holder // switches that have just sent a trap
	lookAt  mad.Time // when they are peeked at next; mad.Never

	reading []reading // ports whose capabilities, or managers, are being read
	later   []ib.LID  // ports whose capabilities are read when the subnet is up
}

// New returns a Receiver that has no trap.
func New(e *env.Env, needs Needs) *Receiver {
	return &Receiver{Env: e, needs: needs, sweepAt: mad.Never, lookAt: mad.Never}
}

// Counts are the traps received, and those of them that were false.
func (r *Receiver) Counts() (all, untrue uint64) { return r.count, r.falseCount }

// Next is when a sweep is due, mad.Never if there is none.
func (r *Receiver) Next() mad.Time { return r.sweepAt }

// Due begins the sweep that is due.
func (r *Receiver) Due() {
	if r.sweepAt <= r.Now {
		r.sweepAt = mad.Never
		r.lastSweep = r.Now
		r.needs.Sweeps.Begin()
	}
}

// SweepBegins is called when a sweep begins, which is the one that traps ask for.
// It reads what traps before the subnet was up were about.
func (r *Receiver) SweepBegins() {
	r.sweepAt = mad.Never
	r.later = r.later[:0]
}

// BroughtUp is called when the subnet is up. Ports whose traps came before that are read.
func (r *Receiver) BroughtUp() {
	for _, lid := range r.later {
		r.capabilitiesOf(lid)
	}
	r.later = r.later[:0]
}

// SweepAt sets the time of the next sweep.
func (r *Receiver) SweepAt(at mad.Time) { r.sweepAt = at }

// Hasten brings the next sweep forward. It reports whether it did.
func (r *Receiver) Hasten(at mad.Time) bool {
	if at >= r.sweepAt {
		return false
	}
	r.sweepAt = at
	return true
}

// Receive takes a trap. Only a master answers: without an answer the agent repeats the trap until
// the master receives it. There is one exception. A manager that announces itself to us while we
// hand the subnet over to it has no other master, and OpenSM waits for the answer before it does
// anything else.
func (r *Receiver) Receive(p *mad.Packet, m *ib.MAD) {
	var n smp.Notice
	if r.Config.PlanOnly || n.Decode(smp.Data(m)) != nil {
		return
	}
	if r.State != subnet.Master {
		if r.State == subnet.Standby && announces(&n) {
			r.repress(p, m)
		}
		return
	}
	r.count++
	r.repress(p, m)
	if r.Snapshot == nil || !r.Up {
		r.early(p, &n)
		return
	}
	lids, port := Claims(&n)
	from, honest := r.origin(p, lids)
	if !honest {
		claimed := lids[0]
		if claimed == 0 {
			claimed = lids[1]
		}
		r.reject(&n, from, claimed)
		return
	}
	issuer := r.Snapshot.Ports[from].LID
	node := &r.Snapshot.Nodes[r.Snapshot.Ports[from].Node].Info
	src := Source{LID: issuer, Trap: Kind(&n), Port: port}
	if node.NodeType != ib.NodeSwitch {
		src.Port, port = 0, 0 // the port can only be the one that sent the trap
	}
	if r.noisy(&n, p.Addr, src, port) {
		return
	}
	if node.NodeType == ib.NodeSwitch {
		r.Holds(node.NodeGUID)
	}
	r.handle(&n, from, port)
}

// early takes a trap before the subnet is up, when there is no snapshot to check it against. The
// sweep under way may already have read what has changed. Capabilities have time until its end: our
// own port sends that trap when we start.
func (r *Receiver) early(p *mad.Packet, n *smp.Notice) {
	issuer := p.Addr.LID
	if issuer == 0 {
		issuer = r.OwnLID()
	}
	if onlyMask(n) && r.readLater(issuer) {
		return
	}
	if kind := Kind(n); kind == smp.TrapPortStateChange || kind == smp.TrapLocalChange {
		node := r.needs.Sweeps.SuspectLID(issuer, kind == smp.TrapPortStateChange)
		r.askSweep(node, "trap "+number(n)+" from LID "+issuer.String())
	}
}

// noisy counts a trap, delivers it to subscribers, and reports whether its source is so noisy that
// it is ignored. A light sweep then sees what the trap would have said.
func (r *Receiver) noisy(n *smp.Notice, from mad.Addr, src Source, port uint8) bool {
	k := r.table.Count(r.Now, src)
	if k < Noisy {
		r.needs.Subscribers.Deliver(*n, from)
		return false
	}
	if k == Noisy {
		r.tell(notice.KindTrapStorm, notice.Warn, src.LID, port,
			"trap "+number(n)+" is repeated too often and is ignored until it stops: check the cable and the device")
	}
	if r.Phase == notice.PhaseIdle { // also where light sweeps are off
		r.needs.Light.Within(Window)
	}
	return true
}

// handle does what a trap asks for. from is the port that sent it, an index in the last snapshot.
func (r *Receiver) handle(n *smp.Notice, from int32, port uint8) {
	issuer := r.Snapshot.Ports[from].LID
	if r.virtual(n, issuer) {
		return
	}
	if Kind(n) == Vendor {
		r.tell(notice.KindTrap, notice.Info, issuer, 0, "vendor trap, vendor ID "+strconv.Itoa(int(n.Producer)))
		return
	}
	switch n.TrapNumber {
	case smp.TrapPortStateChange:
		node := r.needs.Sweeps.SuspectLID(issuer, true)
		r.askSweep(node, "trap 128: a port changed state at LID "+issuer.String())
	case smp.TrapLocalChange:
		r.localChange(n, issuer)
	case smp.TrapSystemImageGUID:
		r.readImage(from)
	case smp.TrapLocalPhyErrors, smp.TrapBufferOverrun, smp.TrapFlowCtlWatchdog:
		r.tell(notice.KindPortUnhealthy, notice.Warn, issuer, port,
			"trap "+number(n)+": link errors exceed the threshold")
		r.needs.Light.Soon()
	case smp.TrapBadMKey, smp.TrapBadPKey, smp.TrapBadQKey, smp.TrapBadPKeySwitchPort:
		r.tell(notice.KindSecurity, notice.Warn, issuer, 0, "trap "+number(n)+": a wrong key was used")
		r.needs.Light.Soon()
	default:
		r.tell(notice.KindTrap, notice.Info, issuer, 0, "trap "+number(n))
		r.needs.Light.Soon()
	}
}

// virtual takes a trap about virtual ports, in either form. It reports whether it was one.
func (r *Receiver) virtual(n *smp.Notice, issuer ib.LID) bool {
	trap, ok := n.Trap()
	if !ok {
		return false
	}
	switch trap {
	case smp.TrapVPortState, smp.TrapVPortChange:
		r.needs.VPorts.Trapped(trap, issuer)
	case smp.TrapVPortBadPKey, smp.TrapVPortBadQKey:
		var d smp.DetailVPortKey
		d.Get(&n.DataDetails)
		r.tell(notice.KindSecurity, notice.Warn, issuer, 0,
			"trap "+strconv.Itoa(int(trap))+": a wrong key was used at VPort "+strconv.Itoa(int(d.VPortIndex)))
	default:
		return false
	}
	return true
}

// announces reports whether a trap is that of a manager about itself.
func announces(n *smp.Notice) bool {
	if !n.IsGeneric || n.TrapNumber != smp.TrapLocalChange {
		return false
	}
	var d smp.DetailChange
	d.Get(&n.DataDetails)
	return d.CapabilityMask.Has(ib.CapIsSM)
}

// repress answers with TrapRepress: the transaction ID and the notice of the trap, the M_Key of
// the port, LID routed to where the trap came from (IBA §13.4.9).
func (r *Receiver) repress(p *mad.Packet, m *ib.MAD) {
	var rep ib.MAD
	key := r.Config.MKey
	if n, num, ok := r.portByLID(p.Addr.LID); ok {
		key = r.Fabric.AgentPort(n, num).MKey
	}
	smp.NewLID(&rep, ib.MethodTrapRepress, smp.AttrNotice, 0, key)
	rep.SetTID(m.TID())
	copy(smp.Data(&rep), smp.Data(m))
	to := mad.Addr{LID: p.Addr.LID, SL: p.Addr.SL}
	if to.LID == 0 {
		if to.LID = r.OwnLID(); to.LID == 0 {
			return
		}
	}
	r.Send(&mad.Packet{Addr: to, Data: rep[:]})
}

// askSweep asks for a sweep after a short wait for further traps of the same fault. Sweeps that
// are asked for again and again are made less often. node is the switch that says that one of its
// ports changed state, or 0.
func (r *Receiver) askSweep(node ib.GUID, why string) {
	if !r.BetweenSweeps() {
		if !r.needs.Sweeps.Join() {
			r.needs.Sweeps.Peek(node)
			r.Sweeper.AskSweep(why)
		}
		return
	}
	r.needs.Sweeps.Sign()
	if r.sweepAt == mad.Never {
		r.plan(why)
	}
	if r.sweepAt > r.Now.Add(r.Config.TrapSettle) {
		r.needs.Sweeps.Peek(node) // a link that is down does not wait
	}
}

// plan sets the time of a sweep that a trap asks for.
func (r *Receiver) plan(why string) {
	if r.Now.Sub(r.lastSweep) > 10*r.Config.TrapMinGap {
		r.sweeps = 0
	}
	r.sweeps++
	r.sweepAt = r.Now.Add(r.Config.TrapSettle)
	if r.sweeps > maxHaste {
		r.sweepAt = max(r.sweepAt, r.lastSweep.Add(r.Config.TrapMinGap))
	}
	r.needs.Sweeps.Plan(why)
}
