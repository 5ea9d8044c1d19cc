package install

import (
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/forward"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/work"
)

// AllInputs in the extra field of work.OpSetSL stands for all input ports: they share one table.
const AllInputs = 0x100

// EachLane calls fn for the tables of a switch that a work.OpSetSL writes.
func EachLane(n *topo.Node, it work.Item, fn func(k forward.LaneKey)) {
	if !n.IsSwitch() || it.Port() == 0 {
		return
	}
	for in := range int(n.Info.NumPorts) + 1 {
		if in != int(it.Port()) && (it.Extra()&AllInputs != 0 || uint32(in) == it.Extra()) {
			fn(forward.LaneKey{Node: n.Info.NodeGUID, In: uint8(in), Out: it.Port()})
		}
	}
}

func (x *Installer) eachLane(it work.Item, fn func(k forward.LaneKey)) {
	EachLane(&x.Fabric.Nodes[it.Node()], it, fn)
}

// InStage reports whether the SL-to-VL tables that are being set are those of a stage.
func (x *Installer) InStage() bool {
	return x.change.result != nil && x.change.next > 0 && x.Phase != notice.PhaseLanes
}

// LaneSet takes the answer to the Set of an SL-to-VL table of a stage: err is nil if it is
// acknowledged.
func (x *Installer) LaneSet(it work.Item, comp *mad.Completion, err error) {
	var t smp.SLtoVL
	if err != nil || t.Decode(smp.Data(comp.Request)) != nil {
		x.LaneDoubted(it)
		return
	}
	x.laneWritten(it, &t)
}

// LaneRead takes the answer to the Get of an SL-to-VL table that was in doubt.
func (x *Installer) LaneRead(it work.Item, comp *mad.Completion) {
	var t smp.SLtoVL
	err := work.Answer(comp)
	if err == nil {
		err = t.Decode(smp.Data(comp.MAD))
	}
	if err != nil {
		x.lanesUnsure = true
		x.Sweeper.SetFailed(it.Node(), int(it.Port()), "reading back a lane table", err)
		return
	}
	x.laneWritten(it, &t)
}

func (x *Installer) laneWritten(it work.Item, row *smp.SLtoVL) {
	x.eachLane(it, func(k forward.LaneKey) {
		x.lanes.Wrote[k] = *row
		delete(x.lanes.Doubt, k)
	})
}

// LaneDoubted is called when the Set of an SL-to-VL table of a stage was not answered.
func (x *Installer) LaneDoubted(it work.Item) {
	x.eachLane(it, func(k forward.LaneKey) { x.lanes.Doubt[k] = true })
}

// DoubtedLanes calls fn for the SL-to-VL tables to be read back, in a fixed order.
func (x *Installer) DoubtedLanes(fn func(ni int32, k forward.LaneKey)) {
	for _, k := range x.lanes.Doubted() {
		if ni, ok := x.Fabric.Find(k.Node); ok {
			fn(ni, k)
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

// DoubtsLanes reports whether SL-to-VL tables are to be read back.
func (x *Installer) DoubtsLanes() bool { return len(x.lanes.Doubt) > 0 }
