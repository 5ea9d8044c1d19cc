package install

import (
	"heddle/ib"
	"heddle/sm/forward"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/work"
)

// Discovered joins the switches that a sweep covers with what is known of their tables. A switch
// that shows signs of a reset has lost them: it forgot its LID, or the LID of its manager, or all
// its links are in Init. With audit all tables are to be read. Discovered reports whether tables
// have to be computed.
func (x *Installer) Discovered(smLID ib.LID, audit bool) (changed bool) {
	f := x.Fabric
	x.sweep.ScopeNodes(func(ni int32, n *topo.Node) {
		if n.GraphSwitch < 0 {
			return
		}
		p0 := f.PortOf(ni, 0)
		reset := p0.Info.LID != p0.LID || p0.Info.MasterSMLID != smLID || f.AllInit(ni)
		lost, foreign := x.Take(ni, reset, audit)
		changed = changed || lost
		if foreign {
			x.Notify(notice.Notice{
				Kind: notice.KindForeignChange, Level: notice.Warn, Where: f.Where(ni, -1),
				Text: "another program changed LinearFDBTop; the table is read back",
			})
		}
	})
	return changed
}

// MustRead reports whether tables are to be read back before a job.
func (x *Installer) MustRead() bool {
	must := len(x.lanes.Doubt) > 0
	x.Missing(func(int32, int) { must = true })
	return must
}

// ReadBack lists the Gets of the LFT blocks that are not known.
func (x *Installer) ReadBack() {
	clear(x.mute)
	x.Missing(func(ni int32, block int) {
		x.Report.BlocksRead++
		x.Add(work.Make(work.OpGetLFT, ni, 0, uint32(block)))
	})
}

// ReadBackLanes lists the Gets of the SL-to-VL tables in doubt, in a fixed order.
func (x *Installer) ReadBackLanes() {
	for _, k := range x.lanes.Doubted() {
		if ni, ok := x.Fabric.Find(k.Node); ok {
			x.Add(work.Make(work.OpBackSL, ni, k.Out, uint32(k.In)))
		}
	}
}

// ForgetLanes drops what a transition wrote to switches that are gone or were reset: the tables of
// their links are set up before data flows.
func (x *Installer) ForgetLanes() {
	x.lanes.Forget(func(k forward.LaneKey) bool {
		ni, ok := x.Fabric.Find(k.Node)
		if !ok {
			return true
		}
		n := &x.Fabric.Nodes[ni]
		return n.Flags&(topo.NodeNew|topo.NodeReset) != 0 || n.GraphSwitch < 0 || k.Out > n.Info.NumPorts
	})
}
