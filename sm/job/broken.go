package job

import (
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/route/transition"
	"heddle/sm/config"
	"heddle/sm/notice"
)

// maxFaults is how many faults a Repair names.
const maxFaults = 8

// Breakage is what a job finds out about broken pairs, for a notice.Repair.
type Breakage struct {
	Pairs  *transition.Pairs
	Faults []notice.Fault      // without descriptions, at most 8
	More   int                 // faults that are not in Faults
	Late   int                 // pairs that the plan connects only after a wait
	Writes [][]route.BlockDiff // by stage of the plan: the blocks that connect pairs, ascending
}

// broken counts the broken pairs, and those that the plan connects. It runs after the plan, so that
// it does not delay proved tables. nil: nothing is known to be broken.
func (j *Job) broken(r *Result) *Breakage {
	if j.Transition.Quiet && j.Policy != config.TransitionStatic2003 || len(j.Installed.LFT) != len(j.Graph.Switches) {
		return nil
	}
	b := &Breakage{}
	ports, rows := j.lost(b)
	if len(ports)+len(rows) == 0 {
		return nil
	}
	if b.Pairs = transition.Broken(j.Graph, j.Installed, ports, rows); b.Pairs.N == 0 {
		return nil
	}
	if r.Plan != nil && r.Plan.Mode != transition.ModeRefused {
		b.Late, b.Writes = b.Pairs.Late(r.Plan), b.Pairs.Repairs(r.Plan)
	}
	return b
}

// lost lists what was lost since tables were last distributed in full: ports that led to another
// switch, and rows with entries. For a manager that has distributed none yet, all ports without a
// link are lost, but for those that are drained.
func (j *Job) lost(b *Breakage) (ports []transition.LostPort, rows []transition.LostRow) {
	g := j.Graph
	s := j.Served
	if s == nil {
		for i, out := range g.PortChannel {
			for p := 1; p < len(out); p++ {
				if out[p] < 0 && !j.carries(g.Switches[i].GUID, uint8(p), 0) {
					ports = append(ports, transition.LostPort{Switch: int32(i), Port: uint8(p)})
				}
			}
		}
		return ports, nil
	}
	at, ports := j.lostLinks(b)
	for i, now := range at {
		if now < 0 || i >= len(s.Tables.LFT) || j.Installed.LFT[now] == nil {
			continue
		}
		have, had := j.Installed.LFT[now], s.Tables.LFT[i]
		if len(have) == len(had) && (len(have) == 0 || &have[0] == &had[0] || slices.Equal(have, had)) {
			continue
		}
		rows = append(rows, transition.LostRow{Switch: now, Was: had})
		if len(have) == 0 && len(had) > 0 {
			b.add(notice.Fault{Kind: notice.FaultTable, Node: g.Switches[now].GUID})
		}
	}
	return ports, rows
}

// add adds a fault to those that a Repair names.
func (b *Breakage) add(f notice.Fault) {
	if len(b.Faults) < maxFaults {
		b.Faults = append(b.Faults, f)
	} else {
		b.More++
	}
}

// lostLinks compares the graph with that of the tables last distributed. at has the index in the
// graph of each switch of the other, or -1; ports are those that led to another switch.
func (j *Job) lostLinks(b *Breakage) (at []int32, ports []transition.LostPort) {
	was := j.Served.Graph
	at = make([]int32, len(was.Switches))
	if was == j.Graph {
		for i := range at {
			at[i] = int32(i)
		}
		return at, nil
	}
	d := fabric.Diff(was, j.Graph)
	copy(at, d.OldSwitch)
	for i, now := range d.OldSwitch {
		if now < 0 && !j.forwards(was.Switches[i].GUID) {
			b.add(notice.Fault{Kind: notice.FaultSwitch, Node: was.Switches[i].GUID})
		}
	}
	for c, now := range d.OldChannel {
		ch := &was.Channels[c]
		from, to := d.OldSwitch[ch.From], d.OldSwitch[ch.To]
		a, z := was.Switches[ch.From].GUID, was.Switches[ch.To].GUID
		if now >= 0 || from < 0 || j.carries(a, ch.OutPort, z) {
			continue
		}
		ports = append(ports, transition.LostPort{Switch: from, Port: ch.OutPort})
		if to >= 0 && int(ch.Rev) > c {
			b.add(notice.Fault{Kind: notice.FaultLink, Node: a, Port: ch.OutPort, Peer: z, PeerPort: ch.InPort})
		}
	}
	return at, ports
}

// leadOn reports whether nothing but drained links lacks in the graph what the installed tables use.
func (j *Job) leadOn(inst *route.Tables) bool {
	ports, _ := j.lost(&Breakage{})
	return len(ports) == 0 || j.Served == nil && transition.Broken(j.Graph, inst, ports, nil).N == 0
}

// forwards reports whether an excluded switch still forwards.
func (j *Job) forwards(g ib.GUID) bool {
	return slices.ContainsFunc(j.Transition.Frozen, func(f transition.Frozen) bool { return f.GUID == g })
}

// carries reports whether data may still go over a link that is no channel of the graph.
func (j *Job) carries(from ib.GUID, port uint8, to ib.GUID) bool {
	for i := range j.Transition.Left {
		l := &j.Transition.Left[i]
		if l.Switch == from && l.Port == port || l.Peer == from && l.PeerPort == port {
			return true
		}
	}
	for i := range j.Transition.Frozen {
		f := &j.Transition.Frozen[i]
		there := func(k transition.FrozenCable) bool { return k.Peer == from && k.PeerPort == port }
		if f.GUID == to && slices.ContainsFunc(f.Cables, there) {
			return true
		}
	}
	return false
}
