package daemon

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"heddle/api"
	"heddle/ib"
	"heddle/route/preview"
	"heddle/store"
	"heddle/subnet"
)

// Bounds of links that are drained or isolated at one time: so many, or a share of the ports of the
// subnet if that is less, but one in any case.
const (
	maxPortActions = 10
	portShare      = 200 // one port in so many: 0.5 %
)

// kindPortAction is the event of a request about a link, and of its end.
const kindPortAction = "port_requested"

// expiryStep is how often the ends of actions are looked at.
const expiryStep = time.Second

// portKeeper keeps the links that are drained, isolated or being restored.
type portKeeper struct {
	mu   sync.Mutex
	list []subnet.PortAction // guarded by mu
}

// keepPorts takes the stored actions, and ends those whose time is over; end stops that.
func (d *Daemon) keepPorts(records []store.Record) (end func()) {
	d.finder.ports.mu.Lock()
	for i := range records {
		if r := &records[i]; r.Table == store.TablePortActions {
			if a, err := subnet.DecodePortAction(r.Key, r.Value); err == nil {
				d.finder.ports.list = append(d.finder.ports.list, a)
			}
		}
	}
	d.finder.ports.mu.Unlock()
	return background(func(ctx context.Context) {
		tick := time.NewTicker(expiryStep)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				d.expirePorts(time.Now())
			}
		}
	})
}

// expirePorts restores links whose time is over, and forgets those that are restored.
func (d *Daemon) expirePorts(now time.Time) {
	d.finder.ports.mu.Lock()
	defer d.finder.ports.mu.Unlock()
	s := d.Snapshot()
	for _, a := range slices.Clone(d.finder.ports.list) {
		var err error
		switch {
		case a.Kind == subnet.Restore && now.Sub(a.Since) >= restoreTime && s != nil && s.State == subnet.Master && s.Up && !disabled(s, &a):
			err = d.setPort(a, nil)
		case a.Kind != subnet.Restore && !a.Until.IsZero() && !now.Before(a.Until):
			if err = d.setPort(a, restoring(a, now)); err == nil {
				d.note(slog.LevelInfo, kindPortAction, "the time is over: "+portText(s, &a)+" is restored", nil)
			}
		}
		if err != nil {
			d.log.Warn("links that are drained or isolated cannot be stored", "err", err)
			return
		}
	}
}

// restoreTime is how long the restore of an isolated link is kept at least: the Set that disables the
// port may be on its way when the restore is asked for.
const restoreTime = 30 * time.Second

// restoring is what follows an action: an isolated link has to be enabled.
func restoring(a subnet.PortAction, now time.Time) *subnet.PortAction {
	if a.Kind == subnet.Drain {
		return nil
	}
	a.Kind, a.Since, a.Until = subnet.Restore, now.UTC().Truncate(time.Second), time.Time{}
	return &a
}

// setPort replaces an action in the store, in the list and in the manager; nil: it ends. The holder of
// finder.ports.mu calls it.
func (d *Daemon) setPort(was subnet.PortAction, now *subnet.PortAction) error {
	op := store.Op{Kind: store.DeleteRecord, Record: store.Record{Table: store.TablePortActions, Key: was.Key()}}
	if now != nil {
		op.Kind, op.Record.Value = store.PutRecord, now.Value()
	}
	if err := d.cfg.Store.Apply([]store.Op{op}); err != nil {
		return err
	}
	list := slices.DeleteFunc(slices.Clone(d.finder.ports.list), func(a subnet.PortAction) bool { return a.Is(was.Node, was.Port) })
	if now != nil {
		list = append(list, *now)
	}
	d.finder.ports.list = list
	d.shared.SetPortActions(slices.Clone(list))
	return nil
}

// disabled reports whether an end of a link is disabled.
func disabled(s *subnet.Snapshot, a *subnet.PortAction) bool {
	for _, e := range [2]struct {
		guid ib.GUID
		port uint8
	}{{a.Node, a.Port}, {a.Peer, a.PeerPort}} {
		if i := s.NodeByGUID(e.guid); i >= 0 && int(e.port) < len(s.NodePorts(i)) {
			if s.NodePorts(i)[e.port].Info.PortPhysicalState == ib.PhysDisabled {
				return true
			}
		}
	}
	return false
}

// entries is how many installed entries of a switch lead out of one of its ports.
func entries(s *subnet.Snapshot, guid ib.GUID, port uint8) (n int) {
	i := s.NodeByGUID(guid)
	if i < 0 || s.Tables == nil {
		return 0
	}
	sw := s.Nodes[i].SwitchIndex
	if sw < 0 || int(sw) >= s.Tables.Switches() {
		return 0
	}
	for l := 1; l <= int(s.Tables.TopLID); l++ {
		if s.Tables.Entry(sw, ib.LID(l)) == port {
			n++
		}
	}
	return n
}

func portText(s *subnet.Snapshot, a *subnet.PortAction) string {
	name := a.Node.String()
	if s != nil {
		if i := s.NodeByGUID(a.Node); i >= 0 {
			name = s.Nodes[i].Desc
		}
	}
	return fmt.Sprintf("the link at port %d of %q", a.Port, name)
}

// PortActions implements api.Backend.
func (d *Daemon) PortActions() []api.PortAction {
	d.finder.ports.mu.Lock()
	list := slices.Clone(d.finder.ports.list)
	d.finder.ports.mu.Unlock()
	s := d.Snapshot()
	out := []api.PortAction{}
	for i := range list {
		out = append(out, showPort(s, &list[i]))
	}
	slices.SortFunc(out, func(a, b api.PortAction) int { return cmp.Or(cmp.Compare(a.GUID, b.GUID), cmp.Compare(a.Port, b.Port)) })
	return out
}

func showPort(s *subnet.Snapshot, a *subnet.PortAction) api.PortAction {
	x := api.PortAction{
		Action: a.Kind.String(), GUID: a.Node.String(), Port: int(a.Port), PeerGUID: a.Peer.String(), PeerPort: int(a.PeerPort),
		Since: a.Since, By: a.By, Why: a.Why,
	}
	if !a.Until.IsZero() {
		t := a.Until
		x.Until = &t
	}
	if s != nil {
		if i := s.NodeByGUID(a.Node); i >= 0 {
			x.Description = s.Nodes[i].Desc
		}
		if i := s.NodeByGUID(a.Peer); i >= 0 {
			x.PeerDescription = s.Nodes[i].Desc
		}
		x.Entries = entries(s, a.Node, a.Port) + entries(s, a.Peer, a.PeerPort)
		x.Disabled = disabled(s, a)
	}
	return x
}

// ActOnPort implements api.Backend.
func (d *Daemon) ActOnPort(_ context.Context, q api.PortRequest) (api.PortPlan, error) {
	kind, err := subnet.ParsePortAction(q.Action)
	if err != nil {
		return api.PortPlan{}, err
	}
	guid, err := ib.ParseGUID(q.GUID)
	if err != nil {
		return api.PortPlan{}, err
	}
	s, err := d.routed()
	if err != nil {
		return api.PortPlan{}, err
	}
	if kind == subnet.Restore {
		return d.restorePort(s, guid, &q)
	}
	a, known := d.actionAt(guid, q.Port)
	plan := api.PortPlan{}
	if !known { // a link that is drained already has no routes to lose
		var channel int32
		if a, channel, err = linkAt(s, guid, q.Port); err == nil {
			var p preview.Result
			p, err = preview.Without(s.Graph, channel, s.Tables, d.routing()) // takes seconds in a large subnet, so it holds no lock
			plan.Engine, plan.TableChange, plan.LoadBefore, plan.LoadAfter = p.Engine, changeOf(&p), p.LoadBefore, p.LoadAfter
		}
		if err != nil {
			return plan, err
		}
	}
	now := time.Now().UTC().Truncate(time.Second)
	a.Kind, a.Since, a.Until, a.By, a.Why = kind, now, time.Time{}, q.By, q.Why
	if q.For > 0 {
		a.Until = now.Add(q.For)
	}
	plan.PortAction, plan.Applied = showPort(s, &a), !q.DryRun

	d.finder.ports.mu.Lock()
	defer d.finder.ports.mu.Unlock()
	others := 0
	for i := range d.finder.ports.list {
		if !d.finder.ports.list[i].Is(a.Node, a.Port) {
			others++
		}
	}
	if most := mostPorts(s); others >= most {
		return plan, fmt.Errorf("%d of at most %d links are drained or isolated; restore one first", others, most)
	}
	if q.DryRun {
		return plan, nil
	}
	if err := d.setPort(a, &a); err != nil {
		return plan, err
	}
	d.note(slog.LevelInfo, kindPortAction, fmt.Sprintf("%s: %s, by %s", kind, portText(s, &a), q.By), nil)
	return plan, nil
}

// actionAt is the action on the link at a port.
func (d *Daemon) actionAt(guid ib.GUID, port int) (subnet.PortAction, bool) {
	d.finder.ports.mu.Lock()
	defer d.finder.ports.mu.Unlock()
	for _, a := range d.finder.ports.list {
		if a.Is(guid, uint8(port)) {
			return a, true
		}
	}
	return subnet.PortAction{}, false
}

// restorePort gives a link back to routing.
func (d *Daemon) restorePort(s *subnet.Snapshot, guid ib.GUID, q *api.PortRequest) (api.PortPlan, error) {
	was, known := d.actionAt(guid, q.Port)
	if !known {
		return api.PortPlan{}, fmt.Errorf("port %d of %v is neither drained nor isolated", q.Port, guid)
	}
	plan := api.PortPlan{PortAction: showPort(s, &was), Applied: !q.DryRun}
	plan.Action = subnet.Restore.String()
	if q.DryRun {
		return plan, nil
	}
	d.finder.ports.mu.Lock()
	defer d.finder.ports.mu.Unlock()
	if err := d.setPort(was, restoring(was, time.Now())); err != nil {
		return api.PortPlan{}, err
	}
	d.note(slog.LevelInfo, kindPortAction, portText(s, &was)+" is restored by "+q.By, nil)
	return plan, nil
}

// mostPorts is how many links may be drained or isolated at one time.
func mostPorts(s *subnet.Snapshot) int {
	n := 0
	for i := range s.FirstVPort() {
		if s.Ports[i].Peer != subnet.NoRef() {
			n++
		}
	}
	return max(1, min(maxPortActions, n/portShare))
}

// linkAt is the link between switches at a port, and its channel.
func linkAt(s *subnet.Snapshot, guid ib.GUID, port int) (a subnet.PortAction, channel int32, err error) {
	g := s.Graph
	i, ok := g.SwitchByGUID(guid)
	if !ok {
		return a, 0, fmt.Errorf("%v is no switch of the subnet: the link of a host is the last path to it", guid)
	}
	if port < 1 || port >= len(g.PortChannel[i]) || g.PortChannel[i][port] < 0 {
		for _, e := range g.EndPorts {
			if e.Switch == i && int(e.Port) == port && e.Type != ib.NodeSwitch {
				return a, 0, fmt.Errorf("port %d of %v leads to a host: it is the last path to it", port, guid)
			}
		}
		return a, 0, fmt.Errorf("port %d of %v has no link with routes to another switch", port, guid)
	}
	channel = g.PortChannel[i][port]
	ch := &g.Channels[channel]
	return subnet.PortAction{Node: guid, Port: uint8(port), Peer: g.Switches[ch.To].GUID, PeerPort: ch.InPort}, channel, nil
}
