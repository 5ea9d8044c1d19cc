// Package discover reads the subnet by directed routes, in full or in part.
//
// A full discovery starts at our own node and reads everything. It works in propagation order
// (R. Casado et al., 2003, §2.2): each answer leads to the questions that it makes possible. It
// asks a link between two switches from both ends, except the link by which it found a switch:
// there one answer proves both ends. So a cable, a duplicate GUID or a moved node cannot be
// mistaken without notice. Nodes that do not answer stay as they were last read (package absent).
//
// A region discovery starts at what a trap or a light sweep named: all ports of the switch that
// reported, then the switches at the far ends of links that changed, and whatever is behind links
// that came up. The rest of the subnet stays as it is known, and is sent nothing. It works on the
// present topology in waves, the nearest switches first, because what one wave finds may change the
// routes to those of the next. Anything out of the ordinary (no answer, a duplicate GUID, a cable
// moved meanwhile) makes it give up and start a full discovery, so that trouble is sorted out in
// one place.
//
// Both use the same questions: who is behind a port (NodeInfo), and what are its settings
// (PortInfo, SwitchInfo). A full discovery adds a node for each new GUID, a region discovery asks
// links that changed.
//
// Discovery owns the topology while it is being read, and which nodes belong to the region, until
// the sweep ends. Inputs are answers and suspects. Outputs are items of work, notices and problems,
// and, when no item is pending, an Outcome.
package discover

import (
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/absent"
	"heddle/sm/env"
	"heddle/sm/topo"
	"heddle/sm/work"
	"heddle/subnet"
)

type ref = subnet.Ref

// Keys know which M_Key a node wants.
type Keys interface {
	// Collect lists the keys to try in the discovery that begins.
	Collect()
	// Guess is the key for request number try to the unknown node behind a port, or to our own
	// node if from.Node is -1.
	Guess(from subnet.Ref, try uint32) (ib.MKey, bool)
	// NextHidden is the key for read number try of a port that does not show its key.
	NextHidden(try uint32) (ib.MKey, bool)
}

// Links keep flapping links out of the subnet.
type Links interface {
	// KeptOut marks a port that is kept out for flapping, and reports whether it is. changed says
	// that its state has changed again.
	KeptOut(at subnet.Ref, changed bool) bool
	// LinkFailed notes that an active link failed.
	LinkFailed(a, b subnet.Ref)
	// Compare notes the links that failed since the last subnet was read.
	Compare()
}

// Managers are the other subnet managers.
type Managers interface {
	// Gone is called when a port is no manager's any more.
	Gone(at subnet.Ref)
}

// PKeys read P_Key tables.
type PKeys interface {
	// Discovered is called with each end port that was read.
	Discovered(p *topo.Port)
}

// Sweeps is the sweep that a discovery belongs to.
type Sweeps interface {
	// BeginFull is called when a full discovery begins, with an empty topology.
	BeginFull()
	// SettleMute decides about the switches that did not answer a light sweep, and gives up if one
	// of them is still linked.
	SettleMute()
}

// Needs are the parts that Discovery depends on.
type Needs struct {
	Absent   *absent.Nodes
	Keys     Keys
	Links    Links
	Managers Managers
	PKeys    PKeys
	Sweeps   Sweeps
}

// Outcome is what became of a discovery.
type Outcome uint8

const (
	More    Outcome = iota // there is more to ask
	Read                   // the topology is complete
	Failed                 // our own node did not answer, or is excluded; counted in Env.Errs
	NoLink                 // our own port has no link
	OwnMute                // PortInfo of our own port could not be read
)

// Discovery reads the subnet of one manager.
type Discovery struct {
	*env.Env
	absent *absent.Nodes
	needs  Needs

	rechecked bool       // the ends of a link disagreed, and the subnet was discovered once more
	conflicts int        // fingerprint of the disagreements of the last discovery
	late      []lateNode // nodes that claim to be one that was elsewhere
	r         region
	cut       bool // a link was found to be down since the last Resend
}

// New returns a discovery that has read nothing.
func New(e *env.Env, needs Needs) *Discovery {
	return &Discovery{Env: e, absent: needs.Absent, needs: needs}
}

// Full starts to read everything.
func (d *Discovery) Full() {
	d.rechecked = false
	d.restart()
}

func (d *Discovery) restart() {
	if d.Fabric != nil && d.Fabric.Graph != nil {
		d.Last = d.Fabric
	}
	d.Fabric = topo.New(d.Last)
	d.late = d.late[:0]
	d.needs.Keys.Collect()
	d.needs.Sweeps.BeginFull()
	d.Add(work.Make(work.OpNodeInfo, -1, 0, 0))
}

// BuildNodeInfo makes the request that asks who is behind a port, or who we are (node -1). The
// item's extra is the number of the key to try.
func (d *Discovery) BuildNodeInfo(it work.Item, r *mad.Request) {
	f, n, p := d.Fabric, it.Node(), it.Port()
	key, _ := d.needs.Keys.Guess(ref{Node: n, Port: p}, it.Extra())
	var path []byte
	if n >= 0 {
		var buf [smp.MaxHops + 1]byte
		path = append(append(buf[:0], f.AgentPath(n, p)...), p)
	}
	if it.Extra() > 0 { // another key: one try after the first is enough
		r.Retries = 1
	}
	if n >= 0 && f.Nodes[n].Flags&topo.NodeUnseen != 0 && it.Op() == work.OpNodeInfo {
		r.Retries = -1 // the absent node in between may let nothing pass
	}
	smp.NewDR(&r.MAD, ib.MethodGet, smp.AttrNodeInfo, 0, key, path)
}

// Build turns another item of a discovery into a request.
func (d *Discovery) Build(it work.Item, get func(ib.AttrID, uint32)) {
	n, p := it.Node(), it.Port()
	switch it.Op() {
	case work.OpNodeDesc:
		get(smp.AttrNodeDescription, 0)
	case work.OpSwitchInfo:
		get(smp.AttrSwitchInfo, 0)
	case work.OpPortInfo:
		get(smp.AttrPortInfo, smp.PortInfoMod(p, it.Extra()&1 == 0))
	case work.OpReread:
		get(smp.AttrPortInfo, smp.PortInfoMod(p, !d.Fabric.PortOf(n, p).Has(topo.PortNoExt)))
	}
}

// Answered takes the answer to an item of a discovery.
func (d *Discovery) Answered(it work.Item, comp *mad.Completion) {
	switch it.Op() {
	case work.OpNodeInfo:
		d.nodeInfo(it, comp)
	case work.OpNodeDesc:
		d.TakeDescription(it, comp)
	case work.OpSwitchInfo:
		d.switchInfo(it, comp)
	case work.OpPortInfo:
		d.portInfo(it, comp)
	case work.OpReread:
		d.reread(it, comp)
	}
}

// Done is called when no item is pending. It adds further items and returns More, or says what
// became of the discovery.
func (d *Discovery) Done() Outcome {
	if d.Region {
		return d.waveDone()
	}
	if d.keepAbsent() || d.lateFound() {
		return More
	}
	f := d.Fabric
	if len(f.Nodes) == 0 {
		d.Errs++
		return Failed
	}
	if d.readResetAgain() {
		return More
	}
	switch own := f.Port(f.Self); {
	case !own.Has(topo.PortKnown):
		return OwnMute
	case !f.Nodes[f.Self.Node].IsSwitch() && !own.LinkUp():
		return NoLink
	}
	d.excludeUnread()
	if bad := d.checkLinks(false); bad != 0 && bad != d.conflicts && !d.rechecked {
		// A cable may have been moved during the discovery: discover once more.
		d.rechecked = true
		d.Report.Reason += "; the ends of a link disagreed, discovered again"
		d.restart()
		return More
	}
	d.absent.Settle()
	d.conflicts = d.checkLinks(true)
	d.needs.Links.Compare()
	f.MarkLinks()
	d.markNew()
	if f.Nodes[0].Flags&topo.NodeOut != 0 {
		d.Errs++
		return Failed
	}
	return Read
}
