package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"heddle/api"
	"heddle/api/metrics"
	"heddle/drain"
	"heddle/ib"
	"heddle/incident"
	"heddle/mad"
	"heddle/perf/findings"
	"heddle/sm"
	"heddle/store"
	"heddle/subnet"
)

// Kinds of events about links that are taken out of use.
const (
	kindPortAction = "port_requested" // a request, or the end of an action
	kindPortRule   = "port_rule"      // what a rule would do, or cannot do
)

// portStep is how often the ends of actions and the findings are looked at.
const portStep = time.Second

// portKeeper keeps the links that are drained, isolated or being restored.
type portKeeper struct {
	mu   sync.Mutex
	core *drain.Core // guarded by mu
}

// keepPorts takes the stored actions, ends those whose time is over, and has rules act; end stops that.
func (d *Daemon) keepPorts(records []store.Record) (end func()) {
	k := &d.finder.ports
	k.mu.Lock()
	k.core = drain.New(d.cfg.Actions, records)
	k.mu.Unlock()
	return background(func(ctx context.Context) {
		tick := time.NewTicker(portStep)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				d.stepPorts(time.Now())
			}
		}
	})
}

// SetActions replaces what rules may do.
func (d *Daemon) SetActions(c drain.Config) {
	d.finder.ports.mu.Lock()
	defer d.finder.ports.mu.Unlock()
	if d.finder.ports.core == nil {
		d.cfg.Actions = c
		return
	}
	d.finder.ports.core.Configure(c)
}

// portView is what rules can know.
func (d *Daemon) portView() *drain.View {
	v := &drain.View{Snap: d.Snapshot()}
	if r := d.Round(); r != nil && d.outdated() == "" {
		if last := d.finder.last.Load(); last != nil {
			v.Open, v.Read = last.Open, true
		}
		v.Sampled = func(node ib.GUID, port uint8) bool {
			i := r.Snap.NodeByGUID(node)
			if i < 0 {
				return false
			}
			at := r.Snap.PortIndex(subnet.Ref{Node: i, Port: port})
			return at >= 0 && int(at) < r.Len() && r.Elapsed(at) > 0
		}
	}
	return v
}

// stepPorts restores links whose time is over or that are clean, and has one rule act.
func (d *Daemon) stepPorts(now time.Time) {
	k, v := &d.finder.ports, d.portView()
	if v.Snap == nil || v.Snap.State != subnet.Master {
		return // the store belongs to the master
	}
	k.mu.Lock()
	for _, x := range k.core.Step(now, v) {
		if err := d.setPort(&x); err != nil {
			k.mu.Unlock()
			d.log.Warn("links that are drained or isolated cannot be stored", "err", err)
			return
		}
	}
	x, ok := k.core.Next(now, v)
	others := k.core.Actions()
	k.mu.Unlock()
	if !ok {
		return
	}
	plan, err := x.Resolve(v.Snap, others, now, d.routing(v.Snap)) // takes seconds in a large subnet
	k.mu.Lock()
	defer k.mu.Unlock()
	change, ok, text := k.core.Decide(now, v.Snap, &x, &plan, err)
	if ok {
		if err := d.setPort(&change); err != nil {
			d.log.Warn("a link that a rule is to take out of use cannot be stored", "err", err)
		}
	} else if text != "" {
		d.noteLink(slog.LevelWarn, kindPortRule, text, v.Snap, &x.Action, map[string]string{"rule": x.Rule, "finding": fmt.Sprint(x.Finding)})
	}
}

// noteLink is note of a fact about a link, whose ends are added to attrs. s may be nil.
func (d *Daemon) noteLink(level slog.Level, kind, text string, s *subnet.Snapshot, a *subnet.PortAction, attrs map[string]string) {
	x := showPort(s, a)
	attrs["node_guid"], attrs["port"] = x.GUID, fmt.Sprint(x.Port)
	if x.Description != "" {
		attrs["node"] = x.Description
	}
	if a.Peer != 0 {
		attrs["peer_node_guid"], attrs["peer_port"] = x.PeerGUID, fmt.Sprint(x.PeerPort)
		if x.PeerDescription != "" {
			attrs["peer_node"] = x.PeerDescription
		}
	}
	d.noteAt(level, kind, text, attrs, &incident.Fact{
		Node: a.Node, NodeDesc: x.Description, Port: x.Port, Peer: a.Peer, PeerDesc: x.PeerDescription, PeerPort: x.PeerPort,
	})
}

// setPort makes a change in the store, in the list and in the manager. The holder of finder.ports.mu
// calls it.
func (d *Daemon) setPort(x *drain.Change) error {
	if err := d.cfg.Store.Apply([]store.Op{x.Op()}); err != nil {
		return err
	}
	d.finder.ports.core.Commit(x)
	d.shared.SetPortActions(d.finder.ports.core.Actions())
	if x.Text != "" {
		a, attrs := &x.Was, map[string]string{}
		if x.Now != nil {
			a = x.Now
		}
		attrs["action"] = a.Kind.String()
		if a.Rule != "" {
			attrs["rule"] = a.Rule
		}
		d.noteLink(slog.LevelInfo, kindPortAction, x.Text, d.Snapshot(), a, attrs)
	}
	return nil
}

// actions are the links that are out of use now.
func (d *Daemon) actions() []subnet.PortAction {
	d.finder.ports.mu.Lock()
	defer d.finder.ports.mu.Unlock()
	if d.finder.ports.core == nil {
		return nil
	}
	return d.finder.ports.core.Actions()
}

// PortActions implements api.Backend.
func (d *Daemon) PortActions() []api.PortAction {
	list, s := d.actions(), d.Snapshot()
	out := []api.PortAction{}
	for i := range list {
		x := showPort(s, &list[i])
		if st := d.status.Load(); st != nil {
			x.GoesOnAt = d.moment(goesOn(st, &list[i], x.Entries))
			if list[i].Kind == subnet.Isolate && !x.Disabled {
				x.DisableAt = d.moment(waitOf(st.Disabling, &list[i]))
			}
		}
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b api.PortAction) int { return cmp.Or(cmp.Compare(a.GUID, b.GUID), cmp.Compare(a.Port, b.Port)) })
	return out
}

// goesOn is when the entries over a link are changed; mad.Never: that waits for nothing. A link whose action gave
// way waits for its own time. The others wait for the sweep under way, or for the next one after it.
func goesOn(st *sm.Status, a *subnet.PortAction, entries int) mad.Time {
	if at := waitOf(st.PutOff, a); at != mad.Never {
		return at
	}
	if a.Kind == subnet.Restore || entries == 0 {
		return mad.Never
	}
	return st.WaitsUntil
}

// waitOf is when the wait of a link ends; mad.Never: it does not wait.
func waitOf(waits []sm.LinkWait, a *subnet.PortAction) mad.Time {
	for _, x := range waits {
		if a.Is(x.Node, x.Port) {
			return x.At
		}
	}
	return mad.Never
}

// moment is a time of the manager's clock on that of people, to the second; nil: never.
func (d *Daemon) moment(at mad.Time) *time.Time {
	if at == mad.Never {
		return nil
	}
	t := time.Now().Add(at.Sub(d.now())).UTC().Round(time.Second)
	return &t
}

func showPort(s *subnet.Snapshot, a *subnet.PortAction) api.PortAction {
	x := api.PortAction{
		Action: a.Kind.String(), GUID: a.Node.String(), Port: int(a.Port), PeerGUID: a.Peer.String(), PeerPort: int(a.PeerPort),
		Since: a.Since, By: a.By, Why: a.Why, Rule: a.Rule,
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
		x.Entries = drain.Entries(s, a.Node, a.Port) + drain.Entries(s, a.Peer, a.PeerPort)
		x.Disabled = drain.Disabled(s, a)
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
	var plan api.PortPlan
	if kind == subnet.Restore {
		plan, err = d.restorePort(s, guid, &q)
	} else {
		plan, err = d.takePort(s, kind, guid, &q)
	}
	d.finder.ports.mu.Lock()
	defer d.finder.ports.mu.Unlock()
	switch {
	case err != nil:
		d.finder.ports.core.Asked(kind, drain.Refused)
	case q.DryRun:
		d.finder.ports.core.Asked(kind, drain.DryRun)
	}
	return plan, err
}

// takePort drains or isolates a link, or says what that would do.
func (d *Daemon) takePort(s *subnet.Snapshot, kind subnet.PortActionKind, guid ib.GUID, q *api.PortRequest) (plan api.PortPlan, err error) {
	k := &d.finder.ports
	now := time.Now().UTC().Truncate(time.Second)
	k.mu.Lock()
	a, known := k.core.At(guid, uint8(q.Port))
	others := k.core.Actions()
	k.mu.Unlock()
	if !known { // a link that is drained already has no routes to lose
		if a, err = d.previewPort(s, kind, guid, q, others, now, &plan); err != nil {
			return plan, err
		}
	}
	wait := time.Duration(0) // of package linkmgr, for packets; the link of a host has none
	if i := s.NodeByGUID(a.Peer); kind == subnet.Isolate && i >= 0 && s.Nodes[i].Info.NodeType == ib.NodeSwitch {
		wait = d.coreConfig().Flight()
	}
	if q.For > 0 && q.For <= wait {
		return plan, fmt.Errorf("for %v: the link is disabled about %v after its last route has gone, so it would be restored before; give a longer time, or drain it", q.For, wait.Round(time.Second))
	}
	a.Kind, a.Since, a.Until, a.By, a.Why, a.Rule = kind, now, time.Time{}, q.By, q.Why, ""
	if q.For > 0 {
		a.Until = now.Add(q.For)
	}
	plan.PortAction, plan.Applied, plan.Wait = showPort(s, &a), !q.DryRun, wait.Seconds()
	k.mu.Lock()
	defer k.mu.Unlock()
	change, err := k.core.Take(s, a)
	if err != nil || q.DryRun {
		return plan, err
	}
	return plan, d.setPort(&change)
}

// previewPort is the link at a port, and what it would mean to be without.
func (d *Daemon) previewPort(s *subnet.Snapshot, kind subnet.PortActionKind, guid ib.GUID, q *api.PortRequest, others []subnet.PortAction, now time.Time, plan *api.PortPlan) (subnet.PortAction, error) {
	a, channel, err := drain.LinkAt(s, guid, q.Port)
	if err != nil {
		if host, hostErr := drain.HostAt(s, guid, q.Port); hostErr == nil && q.Force && kind == subnet.Isolate {
			return host, nil
		} else if errors.Is(hostErr, drain.ErrManagerLink) {
			err = hostErr
		} else if hostErr == nil && kind == subnet.Isolate {
			err = fmt.Errorf("%w; with --force it is isolated all the same", err)
		}
		return a, err
	}
	p, err := drain.Preview(s, channel, others, now, d.routing(s)) // holds no lock
	plan.Engine, plan.TableChange, plan.LoadBefore, plan.LoadAfter = p.Engine, changeOf(&p), p.LoadBefore, p.LoadAfter
	return a, err
}

// restorePort gives a link back to routing.
func (d *Daemon) restorePort(s *subnet.Snapshot, guid ib.GUID, q *api.PortRequest) (api.PortPlan, error) {
	k := &d.finder.ports
	k.mu.Lock()
	defer k.mu.Unlock()
	was, known := k.core.At(guid, uint8(q.Port))
	if !known {
		return api.PortPlan{}, fmt.Errorf("port %d of %v is neither drained nor isolated", q.Port, guid)
	}
	plan := api.PortPlan{PortAction: showPort(s, &was), Applied: !q.DryRun}
	plan.Action = subnet.Restore.String()
	if q.DryRun {
		return plan, nil
	}
	change := k.core.Restore(s, was, q.By, time.Now())
	return plan, d.setPort(&change)
}

// withActions are findings with what was done about them.
func (d *Daemon) withActions(r *findings.Report) *findings.Report {
	k := &d.finder.ports
	k.mu.Lock()
	defer k.mu.Unlock()
	if r == nil || k.core == nil {
		return r
	}
	notes := k.core.Notes()
	if len(notes) == 0 {
		return r
	}
	out := *r
	out.Open = slices.Clone(r.Open)
	for i := range out.Open {
		out.Open[i].Action = notes[out.Open[i].ID]
	}
	return &out
}

// portValues are the values of the metrics.
func (d *Daemon) portValues() *metrics.Ports {
	d.finder.ports.mu.Lock()
	defer d.finder.ports.mu.Unlock()
	s := d.Snapshot()
	if d.finder.ports.core == nil || s == nil || s.State != subnet.Master {
		return nil
	}
	return &metrics.Ports{List: d.finder.ports.core.Actions(), Counts: d.finder.ports.core.Counts(), Most: drain.Most(s)}
}
