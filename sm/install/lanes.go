package install

import (
	"heddle/ib/smp"
	"heddle/sm/forward"
	"heddle/sm/notice"
	"heddle/sm/work"
)

func (x *Installer) eachLane(it work.Item, fn func(k forward.LaneKey)) {
	n := &x.Fabric.Nodes[it.Node()]
	if n.IsSwitch() {
		it.EachInput(n.Info.NumPorts, func(in uint8) {
			fn(forward.LaneKey{Node: n.Info.NodeGUID, In: in, Out: it.Port()})
		})
	}
}

// InStage reports whether the SL-to-VL tables that are being set are those of a stage.
func (x *Installer) InStage() bool {
	return x.change.result != nil && x.change.next > 0 && x.Phase != notice.PhaseLanes
}

// LaneWritten is called when a switch is known to hold an SL-to-VL table of a stage: it was
// acknowledged, or read back.
func (x *Installer) LaneWritten(it work.Item, row smp.SLtoVL) {
	x.eachLane(it, func(k forward.LaneKey) {
		x.lanes.Wrote[k] = row
		delete(x.lanes.Doubt, k)
	})
}

// LaneUnread is called when an SL-to-VL table in doubt could not be read back.
func (x *Installer) LaneUnread() { x.lanesUnsure = true }

// LaneDoubted is called when the Set of an SL-to-VL table of a stage was not answered.
func (x *Installer) LaneDoubted(it work.Item) {
	x.eachLane(it, func(k forward.LaneKey) { x.lanes.Doubt[k] = true })
}

// Lanes are the SL-to-VL tables of a transition that has not ended, for a job. unknown says that
// switches may hold others. In a quiet subnet the tables do not matter, because all are set up
// before traffic flows that needs them: setUp is false if that is to be done.
func (x *Installer) Lanes(quiet bool) (m forward.StagedLanes, unknown, setUp bool) {
	setUp = true
	if quiet {
		setUp = !x.lanesUnsure && len(x.lanes.Wrote)+len(x.lanes.Doubt) == 0
		x.lanesUnsure = false
		x.lanes = forward.NewStagedLanes()
	}
	if len(x.lanes.Doubt) > 0 {
		x.lanesUnsure = true // they could not be read back
	}
	return x.lanes.Clone(), x.lanesUnsure, setUp
}
