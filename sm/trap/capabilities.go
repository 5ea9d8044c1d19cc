package trap

import (
	"slices"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/topo"
	"heddle/sm/work"
	"heddle/subnet"
)

// A host changes CapabilityMask when a program that serves the subnet starts or ends: a manager, a
// target of SRP, a communication manager. The trap about that has one port read. A sweep follows only
// if more has changed than bits that no setting and no table depends on, or if another manager may
// be the one to be master.

// setUp are the capabilities by which ports and tables are set up.
const setUp = ib.CapIsSLMappingSupported | ib.CapIsExtendedSpeedsSupported | ib.CapIsCapabilityMask2Supported | ib.CapIsMulticastFDBTopSupported

// maxReading bounds the requests for ports and managers that are under way. With more a sweep is as
// cheap.
const maxReading = 256

// reading is a port whose capabilities, or manager, are being read. It is known by its node, because its
// LID may be another port's when the answer comes.
type reading struct {
	node ib.GUID
	at   subnet.Ref
}

// readingOf is the entry of a port.
func (r *Receiver) readingOf(at subnet.Ref) reading {
	return reading{node: r.Fabric.Nodes[at.Node].Info.NodeGUID, at: at}
}

// onlyMask reports whether a trap is about CapabilityMask alone.
func onlyMask(n *smp.Notice) bool {
	if Kind(n) != smp.TrapLocalChange {
		return false
	}
	var d smp.DetailChange
	d.Get(&n.DataDetails)
	return !d.OtherLocalChanges
}

// capabilitiesOf has the port with a LID read, or leaves that to a sweep.
func (r *Receiver) capabilitiesOf(lid ib.LID) {
	if !r.readCapabilities(lid) {
		r.sweepChanged(lid)
	}
}

// readCapabilities has a port read. It reports false if that is left to a sweep.
func (r *Receiver) readCapabilities(lid ib.LID) bool {
	n, num, ok := r.portByLID(lid)
	if !ok || !r.BetweenSweeps() || len(r.reading) >= maxReading {
		return false
	}
	nd, p := &r.Fabric.Nodes[n], r.Fabric.PortOf(n, num)
	if !nd.OK() || !nd.Path.Set || nd.Flags&topo.NodeUnseen != 0 || !p.Has(topo.PortKnown) || p.LID != lid {
		return false
	}
	r.reading = append(r.reading, r.readingOf(subnet.Ref{Node: n, Port: num}))
	r.Ask(work.Make(work.OpCapsNow, n, num, 0), smp.AttrPortInfo, smp.PortInfoMod(num, !p.Has(topo.PortNoExt)), mad.Normal)
	return true
}

// readLater has the port with a LID read when the subnet is up. It reports false if that is left to a sweep.
func (r *Receiver) readLater(lid ib.LID) bool {
	if r.BetweenSweeps() || !lid.IsUnicast() {
		return false
	}
	if slices.Contains(r.later, lid) {
		return true
	}
	if len(r.later) >= maxReading {
		return false
	}
	r.later = append(r.later, lid)
	return true
}

// LeaveToSweep has the sweep that begins read the ports whose capabilities are being read, because it
// cancels these requests.
func (r *Receiver) LeaveToSweep() {
	for _, x := range r.reading {
		if r.Fabric.Has(x.at) && r.readingOf(x.at) == x {
			r.needs.Sweeps.SuspectLID(r.Fabric.Port(x.at).LID, false)
		}
	}
	r.reading = r.reading[:0]
}

// read ends a request of the list. It returns the port, nil if the answer is of no use any more.
func (r *Receiver) read(it work.Item) *topo.Port {
	at := subnet.Ref{Node: it.Node(), Port: it.Port()}
	if !r.Fabric.Has(at) {
		return nil
	}
	p := r.Fabric.Port(at)
	i := slices.Index(r.reading, r.readingOf(at))
	if i < 0 {
		return nil
	}
	r.reading = slices.Delete(r.reading, i, i+1)
	if r.State != subnet.Master || !r.Up {
		return nil
	}
	return p
}

// capabilitiesRead takes the PortInfo of a port that sent the trap.
func (r *Receiver) capabilitiesRead(it work.Item, comp *mad.Completion) {
	p := r.read(it)
	if p == nil {
		return
	}
	var pi smp.PortInfo
	if !r.BetweenSweeps() || work.Answer(comp) != nil || pi.Decode(smp.Data(comp.MAD)) != nil || !onlyCapabilities(&p.Info, &pi) {
		r.sweepChanged(p.LID)
		return
	}
	old := p.Info.CapabilityMask
	if p.Info.CapabilityMask = pi.CapabilityMask; old != pi.CapabilityMask {
		r.needs.Publisher.PublishPort(p.Node, p.Num)
	}
	switch {
	case r.IsManager(p): // also without a change: it may have been started anew
		r.reading = append(r.reading, r.readingOf(subnet.Ref{Node: p.Node, Port: p.Num}))
		r.Ask(work.Make(work.OpSMNow, p.Node, p.Num, 0), smp.AttrSMInfo, 0, mad.Urgent)
	case old.Has(ib.CapIsSM):
		r.needs.Managers.Gone(subnet.Ref{Node: p.Node, Port: p.Num})
		r.needs.Publisher.PublishState()
	}
}

// managerRead takes the SMInfo of a port that sent the trap.
func (r *Receiver) managerRead(it work.Item, comp *mad.Completion) {
	p := r.read(it)
	if p == nil {
		return
	}
	if !r.BetweenSweeps() {
		r.sweepChanged(p.LID)
		return
	}
	answer := *comp // a copy, so that not each completion of the manager has to be on the heap
	r.needs.Managers.Read(it, &answer, true)
	if !r.needs.Managers.Leads() {
		r.sweepChanged(p.LID)
		return
	}
	r.needs.Publisher.PublishState()
}

// sweepChanged asks for a sweep that reads the port with a LID.
func (r *Receiver) sweepChanged(lid ib.LID) {
	r.needs.Sweeps.SuspectLID(lid, false)
	r.askSweep(0, "trap 144: capabilities or local settings changed at LID "+lid.String())
}

// onlyCapabilities reports whether two readings of a port differ at most in capabilities by which
// nothing is set up, in counters and in measurements.
func onlyCapabilities(a, b *smp.PortInfo) bool {
	if (a.CapabilityMask^b.CapabilityMask)&setUp != 0 {
		return false
	}
	return settled(*a) == settled(*b)
}

// settled is a PortInfo without what onlyCapabilities does not compare.
func settled(pi smp.PortInfo) smp.PortInfo {
	pi.CapabilityMask, pi.LocalPortNum, pi.ClientReregister = 0, 0, false
	pi.MKeyViolations, pi.PKeyViolations, pi.QKeyViolations = 0, 0, 0
	pi.MaxCreditHint, pi.LinkRoundTripLatency = 0, 0
	return pi
}
