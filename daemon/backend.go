package daemon

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"heddle/api"
	"heddle/ib"
	"heddle/internal/version"
	"heddle/sm"
	"heddle/subnet"
)

// askTime is how long a reader waits for the loop before it takes the last
// status that the loop left.
const askTime = 200 * time.Millisecond

// fresh returns the core's status: asked of the loop, or the last one known.
func (d *Daemon) fresh() sm.Status {
	reply := make(chan sm.Status, 1)
	t := time.NewTimer(askTime)
	defer t.Stop()
	select {
	case d.ask <- reply:
		st := <-reply
		return st
	case <-t.C:
	}
	if st := d.status.Load(); st != nil {
		return *st
	}
	return sm.Status{}
}

// Status implements api.Backend.
func (d *Daemon) Status() api.Status {
	st := d.fresh()
	out := api.Status{
		Version: version.Version, State: st.State.String(), Phase: st.Phase.String(), SubnetUp: st.Up,
		Port: d.cfg.PortName, PortGUID: st.PortGUID.String(), LID: int(st.LID), Priority: int(st.Priority),
		Sweeps: st.Sweeps, Resweeps: st.Light, SMPsSent: st.Sent, SMPsRetried: st.Retried, SMPsTimedOut: st.TimedOut,
		Started: d.started, Unseen: st.Unseen, OwnSilent: st.OwnSilent,
	}
	if st.State != subnet.Master && st.Master.GUID != 0 {
		out.Master = st.Master.GUID.String()
	}
	if t := d.upAt.Load(); t != 0 {
		out.UpSince = time.Unix(0, t)
	}
	out.SA, out.Partitions = d.saStatus(), partitionStatus(&st)
	if v := d.Interfaces(); v != nil {
		out.VMs, out.VMsPending = v.Len(), v.Journal
	}
	if s := d.Snapshot(); s != nil {
		c := s.Counts
		out.Generation, out.Engine, out.EngineReason = s.Gen, s.Engine, joined(s.PassedOver)
		out.Switches, out.CAs, out.Routers, out.EndPorts = c.Switches, c.CAs, c.Routers, c.EndPorts
		out.Links, out.LinksActive, out.LIDs, out.Problems = c.Links, c.LinksActive, c.LIDs, c.Problems
		out.VPorts = c.VPorts
	}
	out.Damped = make([]api.Damped, len(st.Damped))
	for i, l := range st.Damped {
		out.Damped[i] = api.Damped{
			Port: l.Where.String(), Failures: l.Failures, Held: l.Held, Quiet: l.Quiet.Seconds(), Left: l.Left.Seconds(),
		}
	}
	out.LastSweep.Phases = map[string]float64{}
	if r := st.Last; r != nil {
		out.LastSweep.Seconds = r.Took.Seconds()
		out.LastSweep.BlocksSent, out.LastSweep.BlocksRead = r.BlocksSent, r.BlocksRead
		out.LastSweep.PortSets, out.LastSweep.Armed, out.LastSweep.Activated = r.PortSets, r.Armed, r.Activated
		out.LastSweep.SMPs = r.SMPs
		out.LastSweep.Reason, out.LastSweep.Region, out.LastSweep.Updated = r.Reason, r.Region, r.Updated
		out.LastSweep.GroupBlocks = r.GroupBlocks
		out.LastSweep.Transition, out.LastSweep.Risk = r.Transition, apiRisk(r.Risk)
		out.LastSweep.EnginePassed = r.PassedOver
		for p, t := range r.Phases {
			if t > 0 {
				out.LastSweep.Phases[sm.Phase(p).String()] = t.Seconds()
			}
		}
	}
	return out
}

func joined(passed []string) string {
	switch len(passed) {
	case 0:
		return ""
	case 1:
		return "passed over " + passed[0]
	}
	return fmt.Sprintf("passed over %s and %d more", passed[0], len(passed)-1)
}

// Ready implements api.Backend.
func (d *Daemon) Ready() (bool, string) {
	st := d.fresh()
	u := d.unsaved.Load()
	switch {
	case st.Up && u != nil:
		// The subnet works and hosts are served, but what they were told is not safe.
		return false, fmt.Sprintf("subnet up, but %d changes that hosts were told of are lost if the manager ends now: the store cannot be written: %v", u.n, u.err)
	case st.Up && st.OwnSilent:
		return true, "subnet up as last read: the agent of the manager's own port does not answer"
	case st.Up && st.Unseen > 0:
		return true, fmt.Sprintf("subnet up, %d nodes do not answer", st.Unseen)
	case st.Up:
		return true, "subnet up"
	case st.State == subnet.Standby:
		return true, "standby"
	}
	return false, fmt.Sprintf("%s, %s", st.State, st.Phase)
}

// Events implements api.Backend.
func (d *Daemon) Events(after uint64) ([]api.Event, <-chan struct{}) { return d.events.since(after) }

// Nodes implements api.Backend.
func (d *Daemon) Nodes() []api.Node {
	s := d.Snapshot()
	if s == nil {
		return nil
	}
	bad := map[ib.GUID]string{}
	for _, p := range s.Problems {
		if p.GUID != 0 && bad[p.GUID] == "" {
			bad[p.GUID] = p.Text
		}
	}
	out := make([]api.Node, 0, len(s.Nodes))
	for i := range s.Nodes {
		n := &s.Nodes[i]
		row := api.Node{
			GUID: n.Info.NodeGUID.String(), Description: n.Desc, Type: n.Info.NodeType.String(),
			Ports: int(n.Info.NumPorts), Path: sm.PathString(n.Path), State: "ok",
		}
		for _, p := range s.NodePorts(int32(i)) {
			if p.EndPort >= 0 && p.LID != 0 {
				row.LID, row.LMC = int(p.LID), int(p.LMC)
				break
			}
		}
		if why := bad[n.Info.NodeGUID]; why != "" {
			row.State = why
		} else if !n.OK {
			row.State = "left out"
		}
		out = append(out, row)
	}
	return out
}

// Links implements api.Backend.
func (d *Daemon) Links() []api.Link {
	s := d.Snapshot()
	if s == nil {
		return nil
	}
	var out []api.Link
	for i := range s.Ports {
		p := &s.Ports[i]
		if p.Virtual != nil {
			break // they come last, and share the cable of their physical port
		}
		q := s.Port(p.Peer)
		if q == nil || p.Peer.Node < p.Node || p.Peer.Node == p.Node && p.Peer.Port < p.Num {
			continue
		}
		l := api.Link{
			A: linkEnd(s, p), B: linkEnd(s, q), Width: p.Info.LinkWidthActive.String(),
			Speed: p.Info.ActiveSpeed().String(), MTU: p.MTU.Bytes(), VLs: ib.VLsOf(p.Info.OperationalVLs), State: "down",
		}
		switch {
		case p.Held || q.Held:
			l.State = "held down"
		case p.State() == ib.StateActive && q.State() == ib.StateActive:
			l.State = "active"
		case p.State() >= ib.StateInit && q.State() >= ib.StateInit:
			l.State = "not active"
		}
		out = append(out, l)
	}
	return out
}

func linkEnd(s *subnet.Snapshot, p *subnet.Port) api.LinkEnd {
	n := &s.Nodes[p.Node]
	return api.LinkEnd{GUID: n.Info.NodeGUID.String(), Description: n.Desc, Port: int(p.Num), State: p.State().String()}
}

// drawingCache keeps the drawing of one snapshot, as many pages look at it,
// and what it has drawn since the start, so that what is gone is drawn as
// gone and not left out.
type drawingCache struct {
	mu     sync.Mutex
	made   bool               // guarded by mu
	last   api.Drawing        // guarded by mu
	hosts  map[ib.GUID]int    // most hosts a switch has had; guarded by mu
	cables map[[2]ib.GUID]int // most cables two switches have had; guarded by mu
}

// remember raises what was drawn before to what is there now, and puts what
// is missing now into d.
func (c *drawingCache) remember(d *api.Drawing, s *subnet.Snapshot) {
	if c.hosts == nil {
		c.hosts, c.cables = map[ib.GUID]int{}, map[[2]ib.GUID]int{}
	}
	for i := range d.Levels {
		for j := range d.Levels[i] {
			n := &d.Levels[i][j]
			g := s.Nodes[n.ID].Info.NodeGUID
			c.hosts[g] = max(c.hosts[g], n.Hosts)
			n.Hosts = c.hosts[g]
		}
	}
	now := map[[2]ib.GUID]bool{}
	for i := range d.Links {
		l := &d.Links[i]
		k := [2]ib.GUID{s.Nodes[l.A].Info.NodeGUID, s.Nodes[l.B].Info.NodeGUID} // nodes are in GUID order
		now[k] = true
		c.cables[k] = max(c.cables[k], l.N)
		l.N = c.cables[k]
	}
	for k, n := range c.cables {
		if now[k] {
			continue
		}
		if a, b := s.NodeByGUID(k[0]), s.NodeByGUID(k[1]); a >= 0 && b >= 0 {
			d.Links = append(d.Links, api.DrawLink{A: int(a), B: int(b), N: n})
		}
	}
	sortLinks(d.Links)
}

func sortLinks(l []api.DrawLink) {
	slices.SortFunc(l, func(a, b api.DrawLink) int {
		return cmp.Or(cmp.Compare(a.A, b.A), cmp.Compare(a.B, b.B))
	})
}

// Drawing implements api.Backend.
func (d *Daemon) Drawing() api.Drawing {
	s := d.Snapshot()
	if s == nil {
		return api.Drawing{Levels: [][]api.DrawNode{}, Links: []api.DrawLink{}}
	}
	d.drawn.mu.Lock()
	defer d.drawn.mu.Unlock()
	if !d.drawn.made || d.drawn.last.Generation != s.Gen {
		d.drawn.last, d.drawn.made = draw(s), true
		d.drawn.remember(&d.drawn.last, s)
	}
	return d.drawn.last
}

// draw places the switches on the levels of fabric.Layout. Within a level they
// stand in GUID order, which is cabling order in most fabrics. A fabric
// without levels (a torus) is one row.
func draw(s *subnet.Snapshot) api.Drawing {
	level := s.Fabric().Layout()
	hosts, up := make([]int, len(s.Nodes)), make([]int, len(s.Nodes))
	cables := map[[2]int]*api.DrawLink{}
	for i := range s.Nodes {
		if s.Nodes[i].SwitchIndex < 0 {
			continue
		}
		for _, p := range s.NodePorts(int32(i)) {
			q := s.Port(p.Peer)
			if q == nil {
				continue
			}
			active := p.State() == ib.StateActive && q.State() == ib.StateActive
			j := int(q.Node)
			switch {
			case s.Nodes[j].Info.NodeType != ib.NodeSwitch:
				hosts[i]++
				if active {
					up[i]++
				}
			case s.Nodes[j].SwitchIndex >= 0 && j > i: // each cable once, no loopback
				k := [2]int{i, j}
				l := cables[k]
				if l == nil {
					l = &api.DrawLink{A: i, B: j}
					cables[k] = l
				}
				l.N++
				if active {
					l.Up++
				}
			}
		}
	}
	out := api.Drawing{Generation: s.Gen, Levels: [][]api.DrawNode{}, Links: make([]api.DrawLink, 0, len(cables))}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.SwitchIndex < 0 {
			continue
		}
		at := max(level[i], 1)
		for len(out.Levels) < at {
			out.Levels = append(out.Levels, []api.DrawNode{})
		}
		state := "ok"
		if !n.OK {
			state = "left out"
		}
		out.Levels[at-1] = append(out.Levels[at-1], api.DrawNode{
			ID: i, GUID: n.Info.NodeGUID.String(), Name: n.Desc, Hosts: hosts[i], Up: up[i], State: state,
		})
	}
	for _, l := range cables {
		out.Links = append(out.Links, *l)
	}
	sortLinks(out.Links)
	return out
}
