package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"time"

	"heddle/api"
	"heddle/incident"
)

// compose puts entries together that are one event, and gives each its cause. What is held longer than
// it may be, or with release everything, is added.
func (r *Events) compose(batch []entry, now time.Time, release bool) (out []entry) {
	next := r.ring.Next()
	add := func(list []incident.Event) {
		for i := range list {
			out = append(out, finished(&list[i]))
		}
	}
	plain := func(e api.Event) {
		add(r.causes.Step(&incident.Fact{Kind: e.Kind, At: e.Time, Tag: &entry{e: e}}, next+uint64(len(out))))
	}
	for i := range batch {
		x := &batch[i]
		if x.e.Kind == kindAudit {
			ok, cut := r.audits.Allow(x.e.Kind, now)
			if cut > 0 {
				plain(auditsCut(cut))
			}
			if !ok {
				continue
			}
		}
		f := x.fact
		f.Kind, f.At, f.Tag = x.e.Kind, x.e.Time, x
		add(r.causes.Step(&f, next+uint64(len(out))))
	}
	for _, c := range r.audits.End(now, release) {
		plain(auditsCut(c.N))
	}
	if due := r.causes.Due(); release || !due.IsZero() && !now.Before(due) {
		add(r.causes.Release(next+uint64(len(out)), nil))
	}
	for _, c := range r.log.End(now, release) {
		tellCut(r.lastLog, c.Kind, c.N)
	}
	return out
}

// Kinds of events that others than notices have.
const kindAudit = "audit"

func auditsCut(n int) api.Event {
	return note("info", "audit_cut", fmt.Sprintf("%d further requests that were to change something are in the audit log alone: they are too many for the events", n), map[string]string{"count": strconv.Itoa(n)})
}

// finished is what an event says: that of its first entry, with what was merged into it.
func finished(v *incident.Event) entry {
	x := *v.Tag.(*entry)
	x.e.Cause = v.Cause
	switch {
	case v.Text != "":
		x.e.Message = v.Text
		attrs := map[string]string{"node_guid": v.Node.String(), "links": strconv.Itoa(len(v.Links))}
		if v.NodeDesc != "" {
			attrs["node"] = v.NodeDesc
		}
		if err := x.e.Attrs["err"]; err != "" {
			attrs["err"] = err
		}
		x.e.Attrs = attrs
		for i := range v.Links {
			x.e.Links = append(x.e.Links, eventLink(&v.Links[i]))
		}
		for _, n := range v.Nodes {
			x.e.Nodes = append(x.e.Nodes, api.EventNode{Node: n.Desc, GUID: n.GUID.String()})
		}
		x.e.More = v.More
	case len(v.Links) == 1 && v.Links[0].Peer != 0 && x.e.Attrs["peer_node_guid"] == "":
		l := eventLink(&v.Links[0])
		x.e.Attrs = maps.Clone(x.e.Attrs)
		x.e.Attrs["peer_node_guid"], x.e.Attrs["peer_node"], x.e.Attrs["peer_port"] = l.PeerGUID, l.Peer, strconv.Itoa(l.PeerPort)
	}
	return x
}

func eventLink(l *incident.Link) api.EventLink {
	out := api.EventLink{Node: l.NodeDesc, GUID: l.Node.String(), Port: l.Port, Peer: l.PeerDesc, PeerPort: l.PeerPort}
	if l.Peer != 0 {
		out.PeerGUID = l.Peer.String()
	}
	return out
}

// auditMost bounds the events about requests in each logs.Span.
const auditMost = 300

var slogLevels = map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}

// tell logs an event, if there are not too many of its kind. A log that shows everything has all.
func (r *Events) tell(log *slog.Logger, e *api.Event) {
	level := slogLevels[e.Level]
	if log == nil || !log.Enabled(context.Background(), level) {
		return
	}
	r.lastLog = log
	if !log.Enabled(context.Background(), slog.LevelDebug) {
		ok, cut := r.log.Allow(e.Kind, e.Time)
		if cut > 0 {
			tellCut(log, e.Kind, cut)
		}
		if !ok {
			return
		}
	}
	list := make([]slog.Attr, 0, len(e.Attrs)+3)
	list = append(list, slog.String("kind", e.Kind))
	for _, k := range slices.Sorted(maps.Keys(e.Attrs)) {
		list = append(list, slog.String(k, e.Attrs[k]))
	}
	list = append(list, slog.Uint64("event", e.Seq), slog.Uint64("cause", e.Cause))
	log.LogAttrs(context.Background(), level, e.Message, list...)
}

func tellCut(log *slog.Logger, kind string, n int) {
	log.Warn(fmt.Sprintf("%d further events of kind %s within a minute were not logged; 'heddle ctl events --kind %s' has them", n, kind, kind), "kind", "log_cut", "of", kind, "count", n)
}
