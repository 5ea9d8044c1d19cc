package light

import (
	"bytes"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/route"
	"heddle/sm/forward"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/work"
	"heddle/subnet"
)

// Build turns an item into a request. It reports whether one is needed. Requests to silent far
// ends (work.OpLightProbe) are built by discovery.
func (s *Sweep) Build(it work.Item, get func(ib.AttrID, uint32), _ func(ib.AttrID, uint32) []byte) bool {
	switch it.Op() {
	case work.OpLightSwitch:
		get(smp.AttrSwitchInfo, 0)
	case work.OpLightDesc:
		get(smp.AttrNodeDescription, 0)
	case work.OpLightPort:
		p := s.Fabric.PortOf(it.Node(), it.Port())
		get(smp.AttrPortInfo, smp.PortInfoMod(p.Num, !p.Has(topo.PortNoExt)))
	}
	return true
}

// Answered takes the end of a request.
func (s *Sweep) Answered(it work.Item, comp *mad.Completion) {
	switch it.Op() {
	case work.OpLightSwitch:
		s.answeredSwitch(it, comp)
	case work.OpLightProbe:
		s.answeredProbe(it, comp)
	case work.OpLightDesc:
		s.TakeDescription(it, comp)
		s.descRead = s.descRead || s.Fabric.Nodes[it.Node()].Flags&topo.NodeDesc != 0
	case work.OpLightPort:
		s.answeredPort(it, comp)
	case work.OpGetLFT:
		s.answeredBlock(it, comp)
	}
}

func (s *Sweep) answeredSwitch(it work.Item, comp *mad.Completion) {
	n := &s.Fabric.Nodes[it.Node()]
	n.Flags &^= topo.NodeLight
	var sw smp.SwitchInfo
	err := work.Answer(comp)
	if err == nil {
		err = sw.Decode(smp.Data(comp.MAD))
	}
	where := func() string { return s.Fabric.Where(it.Node(), -1).String() }
	switch {
	case err != nil:
		s.askAround(it.Node(), "a light sweep got no answer from "+where())
	case sw.PortStateChange:
		s.needs.Discovery.AskRegion(it.Node(), "a port changed state at "+where())
	case n.LFT != nil && sw.LinearFDBTop != n.LFT.Top:
		s.Sweeper.AskFullSweep("LinearFDBTop changed at " + where())
	}
}

// SettleMute decides about the switches that did not answer, after a region sweep has looked at
// their neighbors. A switch that is gone needs nothing. If the path to a switch has changed,
// perhaps a dead switch was on the old one: the next light sweep, which comes immediately, asks
// it by the new path. Otherwise a full sweep is needed.
func (s *Sweep) SettleMute() {
	f := s.Fabric
	for _, m := range s.mute {
		n, ok := f.Find(m.guid)
		switch {
		case !ok || f.Nodes[n].Flags&topo.NodeGone != 0:
		case bytes.Equal(m.path, f.Path(f.Nodes[n].Path)):
			s.needs.Discovery.GiveUp(f.Where(n, -1).String() + " is linked and did not answer")
		default:
			s.now = true
		}
	}
	s.mute = s.mute[:0]
}

// answeredProbe takes the answer of the node behind a port with a silent far end. A node that
// stays in the subnet without answering is tried with further keys.
func (s *Sweep) answeredProbe(it work.Item, comp *mad.Completion) {
	f, at := s.Fabric, subnet.Ref{Node: it.Node(), Port: it.Port()}
	known := f.Self.Node
	if at.Node >= 0 {
		known = f.Port(at).Peer.Node
	}
	var ni smp.NodeInfo
	err := work.Answer(comp)
	if err == nil {
		err = ni.Decode(smp.Data(comp.MAD))
	}
	if err == nil {
		err = s.needs.Discovery.Sane(&ni, at.Node < 0)
	}
	switch {
	case err == nil:
		if known >= 0 {
			s.needs.Absent.Heard(f.Nodes[known].Info.NodeGUID)
		}
		s.Sweeper.AskFullSweep("a node that did not answer answers now: " + f.Behind(at).String())
	case known >= 0 && f.Nodes[known].Flags&topo.NodeUnseen != 0:
		s.needs.Absent.Silent(f.Nodes[known].Info.NodeGUID)
		if _, more := s.needs.Keys.Guess(at, it.Extra()+1); more {
			s.Add(work.Make(work.OpLightProbe, at.Node, at.Port, it.Extra()+1))
		}
	}
}

// answeredPort takes the state of our own port, which no switch reports when its link is gone.
func (s *Sweep) answeredPort(it work.Item, comp *mad.Completion) {
	var pi smp.PortInfo
	p := s.Fabric.PortOf(it.Node(), it.Port())
	if work.Answer(comp) != nil || pi.Decode(smp.Data(comp.MAD)) != nil {
		s.Sweeper.AskFullSweep("our own port does not answer")
		return
	}
	if pi.PortState != p.Info.PortState || pi.LID != p.Info.LID || pi.MasterSMLID != p.Info.MasterSMLID {
		s.Sweeper.AskFullSweep("our own port changed")
	}
}

// answeredBlock takes a block that an audit read. Without an answer it is read again later.
func (s *Sweep) answeredBlock(it work.Item, comp *mad.Completion) {
	n, b := it.Node(), int(it.Extra())
	l := s.Fabric.Nodes[n].LFT
	if work.Answer(comp) != nil {
		forward.BitSet(&l.Suspect, b)
		s.auditAt = s.Now.Add(mad.LateCopy)
		return
	}
	data := (*[route.BlockLen]byte)(smp.Data(comp.MAD))
	if have := l.Block(b); have != nil && [route.BlockLen]byte(have) == *data {
		return
	}
	l.Set(b, data, nil)
	s.Notify(notice.Notice{
		Kind: notice.KindForeignChange, Level: notice.Warn, Where: s.Fabric.Where(n, -1),
		Text: "a block of its forwarding table is not what was written; it is written again",
	})
	s.Sweeper.AskFullSweep("a forwarding table is not what was written")
}
