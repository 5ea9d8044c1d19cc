package install

import (
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/route"
	"heddle/sm/forward"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/work"
)

// Build turns an item that reads or writes a forwarding table into a request.
func (x *Installer) Build(it work.Item, get func(ib.AttrID, uint32), set func(ib.AttrID, uint32) []byte) bool {
	if x.passOver(it) {
		return false
	}
	switch it.Op() {
	case work.OpGetLFT:
		get(smp.AttrLFT, it.Extra())
	case work.OpSetLFT:
		x.fillLinear(it.Node(), uint16(it.Extra()), (*[route.BlockLen]byte)(set(smp.AttrLFT, it.Extra())))
	case work.OpGetMFT:
		get(smp.AttrMFT, smp.MFTMod(uint16(it.Extra()), it.Port()))
	case work.OpSetMFT:
		x.fillMulticast(it.Node(), uint16(it.Extra()), it.Port(), set(smp.AttrMFT, smp.MFTMod(uint16(it.Extra()), it.Port())))
	default:
		return false
	}
	return true
}

// passOver reports whether an item is left to the next sweep: the switch has left another one of the
// same portion unanswered in all tries. A table of a full subnet has 768 blocks, and each would be
// waited for as long, window by window.
func (x *Installer) passOver(it work.Item) bool {
	if !x.mute[it.Node()] || it.Op() == work.OpGetLFT && x.Phase != notice.PhaseReadback {
		return false
	}
	if it.Op() == work.OpSetLFT || it.Op() == work.OpSetMFT {
		x.failed++
	}
	return true
}

// Answered takes the answer to an item that Build built.
func (x *Installer) Answered(it work.Item, comp *mad.Completion) {
	if mad.Unanswered(comp.Err) && it.Node() >= 0 {
		x.mute[it.Node()] = true
	}
	switch it.Op() {
	case work.OpGetLFT:
		x.linearRead(it, comp)
	case work.OpSetLFT:
		x.linearSet(it, comp)
	case work.OpGetMFT:
		x.multicastRead(it, comp)
	case work.OpSetMFT:
		x.multicastSet(it, comp)
	}
}

// linearSet takes the answer to a Set(LinearForwardingTable).
func (x *Installer) linearSet(it work.Item, comp *mad.Completion) {
	n := &x.Fabric.Nodes[it.Node()]
	l, b := n.LFT, int(it.Extra())
	if l == nil {
		return
	}
	if err := work.Answer(comp); err != nil {
		l.Forget(b) // it may have been applied
		x.failed++
		x.Sweeper.SetFailed(it.Node(), -1, "Set(LinearForwardingTable)", err)
		return
	}
	var same []byte
	if m := x.change.moves; m != nil && n.GraphSwitch >= 0 && int(n.GraphSwitch) < m.Tables.Switches() && m.Tables.Banded() {
		same = m.Tables.Part(n.GraphSwitch, b)
	}
	l.Set(b, (*[route.BlockLen]byte)(smp.Data(comp.Request)), same)
	// The network may deliver an older copy of a Set late. Where two writes of one block come
	// close to each other, it is read again later.
	if x.Now.Sub(l.Wrote) >= mad.LateCopy {
		clear(l.Recent)
	}
	if comp.Tries > 1 || forward.BitGet(l.Recent, b) {
		forward.BitSet(&l.Suspect, b)
		x.sweep.AuditAt(x.Now.Add(mad.LateCopy))
	}
	forward.BitSet(&l.Recent, b)
	l.Wrote = x.Now
	if x.change.result != nil {
		x.sweep.BlockWritten(n.GraphSwitch, b)
	}
}

// linearRead takes the answer to a Get(LinearForwardingTable) of a block that is not known.
func (x *Installer) linearRead(it work.Item, comp *mad.Completion) {
	n := &x.Fabric.Nodes[it.Node()]
	err := work.Answer(comp)
	switch {
	case n.LFT == nil:
	case err != nil:
		x.Sweeper.SetFailed(it.Node(), -1, "reading back the forwarding table", err)
	default:
		n.LFT.Set(int(it.Extra()), (*[route.BlockLen]byte)(smp.Data(comp.MAD)), nil)
	}
}

// multicastRead takes the answer to a Get(MulticastForwardingTable) of a block that is not known.
func (x *Installer) multicastRead(it work.Item, comp *mad.Completion) {
	var t smp.MFT
	err := work.Answer(comp)
	if err == nil {
		err = t.Decode(smp.Data(comp.MAD))
	}
	if err != nil {
		x.Sweeper.SetFailed(it.Node(), -1, "reading back the multicast table", err)
		return
	}
	x.Fabric.Nodes[it.Node()].MFT.Set(uint16(it.Extra()), it.Port(), &t)
	x.multicastChanged(it.Node(), uint16(it.Extra()))
}

// multicastSet takes the answer to a Set(MulticastForwardingTable).
func (x *Installer) multicastSet(it work.Item, comp *mad.Completion) {
	m := x.Fabric.Nodes[it.Node()].MFT
	block, position := uint16(it.Extra()), it.Port()
	var t smp.MFT
	bad := t.Decode(smp.Data(comp.Request))
	err := work.Answer(comp)
	if err == nil {
		err = bad
	}
	if err != nil {
		m.Doubt(block, position, &t)
		x.multicastChanged(it.Node(), block)
		x.Sweeper.SetFailed(it.Node(), -1, "Set(MulticastForwardingTable)", err)
		return
	}
	m.Set(block, position, &t)
	x.multicastChanged(it.Node(), block)
}

// TopSet is called when a switch has acknowledged LinearFDBTop.
func (x *Installer) TopSet(n *topo.Node, sw *smp.SwitchInfo) {
	n.LFT.Top = sw.LinearFDBTop
	n.LFT.ForgetAbove(sw.LinearFDBTop)
}

// NotTaken is called when a switch did not take LinearFDBTop, or gets nothing because it does not
// answer.
func (x *Installer) NotTaken() { x.failed++ }

// Doubt is called for each Set of a table that was sent and is not answered when its phase is cut
// short: it may have been carried out, now or as long as a copy of it is on its way.
func (x *Installer) Doubt(it work.Item) {
	n := &x.Fabric.Nodes[it.Node()]
	switch it.Op() {
	case work.OpSetLFT:
		if l := n.LFT; l != nil {
			l.Forget(int(it.Extra()))
			forward.BitSet(&l.Suspect, int(it.Extra()))
			x.sweep.AuditAt(x.Now.Add(mad.LateCopy))
		}
	case work.OpSetMFT:
		if n.MFT != nil {
			var t smp.MFT
			var data [smp.DataLen]byte
			x.fillMulticast(it.Node(), uint16(it.Extra()), it.Port(), data[:])
			_ = t.Decode(data[:]) // it is our own
			n.MFT.Doubt(uint16(it.Extra()), it.Port(), &t)
			x.multicastChanged(it.Node(), uint16(it.Extra()))
		}
	case work.OpSetSwitch:
		if it.Extra() != 1 && n.LFT != nil {
			n.LFT.Raised = x.Top()
		}
	}
}
