package lane

import (
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/route/transition"
	"heddle/sm/config"
	"heddle/sm/forward"
	"heddle/sm/topo"
	"heddle/sm/work"
)

// Where more than one VL matters, SL-to-VL tables are set up as the routing engine wants them, or
// else as identity modulo the VLs of the link, and arbitration gives all VLs of a link the same
// weight. With tables that use one VL, without QoS, and with the manager's datagrams on SL 0 too,
// nothing is sent: it is the only one in use (but for a slow lane, Config.SlowLane), and every agent
// maps it to VL 0 after a reset. What an
// earlier manager has left in its place is looked for between sweeps (left.go).
//
// Where data may flow a table is read first, and set only if it differs. Only then is it found
// what an earlier master of a running subnet has set; until then the tables are taken to be the
// identity.

// Matter reports whether SL-to-VL tables have to be right.
func (t *Tables) Matter() bool {
	w := t.install.Wanted()
	sl, _ := t.ManagerLevel()
	return t.Config.QoS || t.Config.SlowLane || w.NumVLs > 1 || w.Lanes != nil || sl > 0
}

// SetUp reports whether all tables were set up in this mastership.
func (t *Tables) SetUp() bool { return t.setUp }

// SetUpAnew has all tables set up again: what switches hold is not certain.
func (t *Tables) SetUpAnew() { t.setUp = false }

// Start adds the items of the phase in which tables are set up: those of ports whose link comes
// up, the first time those of all ports.
func (t *Tables) Start() {
	switch {
	case !t.Matter():
		// The tables of a port that comes up are those of an earlier manager, or of earlier
		// forwarding tables. They are read when VLs matter again.
		t.Sweeper.Scope(func(p *topo.Port) {
			t.setUp = t.setUp && p.Info.PortState != ib.StateInit
			t.returned(p, true)
		})
		if t.FirstSweep {
			t.suspect()
		}
		t.mend()
	case t.setUp && t.mapped == t.maps():
		t.Sweeper.Scope(func(p *topo.Port) {
			if p.Info.PortState == ib.StateInit {
				t.port(p)
				t.returned(p, false)
			}
		})
		t.hosts()
	default:
		t.all()
	}
}

// maps reports whether SL-to-VL tables of the configuration are in force: forwarding tables that use
// several lanes rest on mappings of their own, and have been proven with these. So do the stages of a
// transition from such tables: those of before are in use until the last one ends.
func (t *Tables) maps() bool {
	if w := t.install.Wanted(); !t.Config.QoS || t.install.InStage() || w.NumVLs > 1 || w.Lanes != nil {
		return false
	}
	for i := range t.Config.Lanes {
		if t.Config.Lanes[i].SLtoVL != nil {
			return true
		}
	}
	return false
}

// Unmap has all tables set up again before forwarding tables that need their own mappings, if those
// of the configuration are in force.
func (t *Tables) Unmap() {
	if t.mapped && !t.maps() {
		t.setUp = false
	}
}

// StartFirst adds the items of a phase in which all tables become the identity, before the first
// forwarding tables are written that need VLs: the subnet used one so far.
func (t *Tables) StartFirst() {
	t.first = true
	t.all()
}

// First reports whether the phase is that of StartFirst.
func (t *Tables) First() bool { return t.first }

// FirstDone ends the phase of StartFirst.
func (t *Tables) FirstDone() {
	t.first = false
	if t.Errs > 0 {
		return
	}
	t.setUp, t.mapped = true, false
	for s, ni := range t.Fabric.SwitchNode {
		t.used[t.Fabric.Nodes[ni].Info.NodeGUID] = use{nil, int32(s)}
	}
}

// CancelFirst breaks off the phase of StartFirst. It reports whether that was the phase.
func (t *Tables) CancelFirst() bool {
	first := t.first
	t.first = false
	return first
}

// Done ends the phase of Start; changed says that the sweep installed new tables.
func (t *Tables) Done(changed bool) {
	if t.Errs == 0 {
		t.left.found = nil
	}
	if !t.Matter() || t.Errs > 0 {
		return
	}
	t.setUp, t.mapped = true, t.maps()
	if !changed {
		return
	}
	for s, ni := range t.Fabric.SwitchNode {
		t.used[t.Fabric.Nodes[ni].Info.NodeGUID] = use{t.install.Wanted().Lanes, int32(s)}
	}
}

// all adds the tables of all ports.
func (t *Tables) all() {
	for i := range t.Fabric.Ports {
		t.port(&t.Fabric.Ports[i])
	}
}

// port adds the tables of a port.
func (t *Tables) port(p *topo.Port) {
	f := t.Fabric
	n := &f.Nodes[p.Node]
	if p.Num == 0 {
		t.port0(p)
		return
	}
	if !t.links.Moves(p) || t.Lanes(p) <= 1 {
		return
	}
	if f.AgentPort(p.Node, p.Num).Info.CapabilityMask.Has(ib.CapIsSLMappingSupported) {
		switch {
		case !n.IsSwitch():
			t.Add(work.Make(work.OpGetSL, p.Node, p.Num, 0))
		case p.Info.PortState == ib.StateInit && t.oneTable(p.Node, p.Num):
			t.Add(work.Make(work.OpSetSL, p.Node, p.Num, work.AllInputs))
		default:
			for in := range int(n.Info.NumPorts) + 1 {
				t.Add(work.Make(work.OpGetSL, p.Node, p.Num, uint32(in)))
			}
		}
	}
	t.arbitration(p)
}

// arbitration adds the arbitration tables of a port. Second blocks are the configuration's.
func (t *Tables) arbitration(p *topo.Port) {
	given := t.Config.LanesOf(t.Fabric.Nodes[p.Node].Info.NodeType, p.Num)
	for _, x := range []struct {
		part  uint16
		entry bool // the port has entries there
		ours  bool
	}{
		{smp.VLArbLow0, p.Info.VLArbitrationLowCap > 0, true},
		{smp.VLArbLow1, p.Info.VLArbitrationLowCap > 32, given.Low != nil},
		{smp.VLArbHigh0, p.Info.VLArbitrationHighCap > 0, true},
		{smp.VLArbHigh1, p.Info.VLArbitrationHighCap > 32, given.High != nil},
	} {
		if x.entry && x.ours {
			t.Add(work.Make(work.OpGetArb, p.Node, p.Num, uint32(x.part)))
		}
	}
}

// port0 adds the tables of a port 0 with lanes, if the configuration has some: its own for packets
// that it sends, and those of external ports for packets that come in there.
func (t *Tables) port0(p *topo.Port) {
	n := &t.Fabric.Nodes[p.Node]
	if !n.IsSwitch() || !n.Switch.EnhancedPort0 || t.first || ib.VLsOf(p.Info.OperationalVLs) <= 1 {
		return
	}
	own, in := t.Config.LanesOf(n.Info.NodeType, 0), t.Config.LanesOf(n.Info.NodeType, 1)
	if p.Info.CapabilityMask.Has(ib.CapIsSLMappingSupported) && t.maps() {
		for num := range int(n.Info.NumPorts) + 1 {
			if num == 0 && own.SLtoVL != nil || num > 0 && in.SLtoVL != nil {
				t.Add(work.Make(work.OpGetSL, p.Node, 0, uint32(num)))
			}
		}
	}
	if own.Low != nil || own.High != nil {
		t.arbitration(p)
	}
}

// lanes is how many data VLs a port has.
func (t *Tables) lanes(p *topo.Port) uint8 {
	switch {
	case p.Num == 0:
		return uint8(max(ib.VLsOf(p.Info.OperationalVLs), 1))
	case p.Has(topo.PortLinked):
		return t.Lanes(p)
	}
	return 1
}

// oneTable reports whether one Set can program an output port of a switch for all input ports.
func (t *Tables) oneTable(ni int32, out uint8) bool {
	n := &t.Fabric.Nodes[ni]
	if n.Switch.OptimizedSLtoVLMappingProgramming&1 == 0 {
		return false
	}
	first := t.wantedSL(ni, 0, out)
	for in := 1; in <= int(n.Info.NumPorts); in++ {
		if uint8(in) != out && t.wantedSL(ni, uint8(in), out) != first {
			return false
		}
	}
	return true
}

// hosts adds the tables towards hosts that differ from those set last. The transition plan has
// none of them, because no host waits for another.
func (t *Tables) hosts() {
	f := t.Fabric
	for s, ni := range f.SwitchNode {
		n := &f.Nodes[ni]
		was, ok := t.used[n.Info.NodeGUID]
		if !ok || was.lanes == t.install.Wanted().Lanes && was.s == int32(s) {
			continue
		}
		for out := 1; out <= int(n.Info.NumPorts); out++ {
			p := f.PortOf(ni, uint8(out))
			if !p.Has(topo.PortLinked) || f.Nodes[p.Peer.Node].IsSwitch() ||
				p.Info.PortState < ib.StateArmed || t.Lanes(p) <= 1 {
				continue
			}
			for in := range int(n.Info.NumPorts) + 1 {
				old := forward.SLtoVL(was.lanes, was.s, uint8(in), uint8(out), t.Lanes(p))
				if in != out && old != t.wantedSL(ni, uint8(in), uint8(out)) {
					t.Add(work.Make(work.OpSetSL, ni, uint8(out), uint32(in)))
				}
			}
		}
	}
}

// Stage adds the SL-to-VL tables of a stage of a transition.
func (t *Tables) Stage(list []transition.LaneTable) {
	for i := 0; i < len(list); {
		x := list[i]
		k := i + 1
		for k < len(list) && list[k].Switch == x.Switch && list[k].Out == x.Out {
			k++
		}
		ni := t.Fabric.SwitchNode[x.Switch]
		if p := t.Fabric.PortOf(ni, x.Out); !p.Has(topo.PortLinked) || t.Lanes(p) <= 1 {
			i = k // no packet leaves by it; its tables are set when its link comes up
			continue
		}
		if k-i > 1 && t.oneTable(ni, x.Out) {
			t.Add(work.Make(work.OpSetSL, ni, x.Out, work.AllInputs))
		} else {
			for _, y := range list[i:k] {
				t.Add(work.Make(work.OpSetSL, ni, y.Out, uint32(y.In)))
			}
		}
		i = k
	}
}

// wantedSL is the SL-to-VL table that a port is to have for packets from an input port.
func (t *Tables) wantedSL(ni int32, in, out uint8) smp.SLtoVL {
	n := &t.Fabric.Nodes[ni]
	vls := t.lanes(t.Fabric.PortOf(ni, out))
	class := out
	if out == 0 {
		class = in // what leaves by port 0 has come in by that port
	}
	if given := t.Config.LanesOf(n.Info.NodeType, class); given.SLtoVL != nil && !t.first && t.maps() {
		return config.OnLanes(given.SLtoVL, vls)
	}
	if t.first || n.GraphSwitch < 0 {
		return forward.SLtoVL(nil, 0, in, out, vls)
	}
	return forward.SLtoVL(t.install.Wanted().Lanes, n.GraphSwitch, in, out, vls)
}

// wantedArb is what the configuration says of a port, or else gives each VL of the link the same
// low-priority weight and leaves the high-priority table empty.
func (t *Tables) wantedArb(ni int32, num uint8, part uint16) (w smp.VLArb) {
	p := t.Fabric.PortOf(ni, num)
	given := t.Config.LanesOf(t.Fabric.Nodes[ni].Info.NodeType, num)
	low, room := part <= smp.VLArbLow1, int(p.Info.VLArbitrationHighCap)
	table := given.High
	if low {
		table, room = given.Low, int(p.Info.VLArbitrationLowCap)
	}
	switch {
	case table != nil:
		return config.ArbOnLanes(table, t.lanes(p), int((part-1)%2)*len(w), room)
	case part != smp.VLArbLow0:
		return w
	}
	for i := range min(room, len(w), int(t.lanes(p))) {
		w[i] = smp.VLArbEntry{VL: ib.VL(i), Weight: 4}
	}
	return w
}

// gotSL sets an SL-to-VL table that differs from the wanted one.
func (t *Tables) gotSL(it work.Item, comp *mad.Completion) {
	var have smp.SLtoVL
	err := work.Answer(comp)
	if err != nil || have.Decode(smp.Data(comp.MAD)) != nil {
		t.failed(it, err)
		return
	}
	if have != t.wantedSL(it.Node(), uint8(it.Extra()), it.Port()) {
		t.Add(work.Make(work.OpSetSL, it.Node(), it.Port(), it.Extra()))
	}
}

// gotArb sets an arbitration table that differs from the wanted one.
func (t *Tables) gotArb(it work.Item, comp *mad.Completion) {
	var have smp.VLArb
	err := work.Answer(comp)
	if err != nil || have.Decode(smp.Data(comp.MAD)) != nil {
		t.failed(it, err)
		return
	}
	want := t.wantedArb(it.Node(), it.Port(), uint16(it.Extra()))
	info := &t.Fabric.PortOf(it.Node(), it.Port()).Info
	entries, lanes := int(info.VLArbitrationLowCap), t.Config.LanesOf(t.Fabric.Nodes[it.Node()].Info.NodeType, it.Port())
	given := lanes.Low != nil || lanes.High != nil // then as OpenSM, also where an entry has no weight
	if uint16(it.Extra()) > smp.VLArbLow1 {
		entries = int(info.VLArbitrationHighCap)
	}
	entries -= int(it.Extra()-1) % 2 * len(have)
	for i := range min(entries, len(have)) {
		if have[i] != want[i] && (given || have[i].Weight != 0 || want[i].Weight != 0) {
			t.Add(work.Make(work.OpSetArb, it.Node(), it.Port(), it.Extra()))
			return
		}
	}
}

// wasSet takes the answer to a Set.
func (t *Tables) wasSet(it work.Item, comp *mad.Completion) {
	err := work.Answer(comp)
	if it.Op() == work.OpSetSL && t.install.InStage() {
		var row smp.SLtoVL
		if err != nil || row.Decode(smp.Data(comp.Request)) != nil {
			t.install.LaneDoubted(it)
		} else {
			t.install.LaneWritten(it, row)
		}
		if err != nil {
			t.setUp = false
			t.Sweeper.SetFailed(it.Node(), int(it.Port()), "Set(SLtoVLMappingTable)", err)
			return
		}
	}
	if err != nil {
		t.failed(it, err)
	}
}

// readBack takes the answer to the Get of a table of a stage that was in doubt.
func (t *Tables) readBack(it work.Item, comp *mad.Completion) {
	var row smp.SLtoVL
	err := work.Answer(comp)
	if err == nil {
		err = row.Decode(smp.Data(comp.MAD))
	}
	if err != nil {
		t.install.LaneUnread()
		t.Sweeper.SetFailed(it.Node(), int(it.Port()), "reading back a lane table", err)
		return
	}
	t.install.LaneWritten(it, row)
}

// failed reports a request that failed. An agent that does not have a table says so with a
// status, and that is no failure. An agent that is busy, or does not answer, may have it.
func (t *Tables) failed(it work.Item, err error) {
	if !work.Refusal(err) {
		t.Sweeper.SetFailed(it.Node(), int(it.Port()), "reading or setting lane tables", err)
	}
}
