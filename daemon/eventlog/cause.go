package eventlog

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
func (r *Log) compose(batch []Entry, now time.Time, release bool) (out []Entry) {
	next := r.ring.Next()
	add := func(list []incident.Event) {
		for i := range list {
			out = append(out, finished(&list[i]))
		}
	}
	plain := func(e api.Event) {
		add(r.causes.Step(&incident.Fact{Kind: e.Kind, At: e.Time, Tag: &Entry{Event: e}}, next+uint64(len(out))))
	}
	for i := range batch {
		x := &batch[i]
		if x.Event.Kind == kindAudit {
			ok, cut := r.audits.Allow(x.Event.Kind, now)
			if cut > 0 {
				plain(auditsCut(cut))
			}
			if !ok {
				continue
			}
		}
		f := x.At
		f.Kind, f.At, f.Tag = x.Event.Kind, x.Event.Time, x
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

// Kinds of events that this package treats on its own.
const (
	KindFindingOpened = "finding_opened"
	kindAudit         = "audit"
)

func auditsCut(n int) api.Event {
	return note("info", "audit_cut", fmt.Sprintf("%d further requests that were to change something are in the audit log alone: they are too many for the events", n), map[string]string{"count": strconv.Itoa(n)})
}

// finished is what an event says: that of its first entry, with what was merged into it.
func finished(v *incident.Event) Entry {
	x := *v.Tag.(*Entry)
	x.Event.Cause = v.Cause
	switch {
	case v.Text != "":
		x.Event.Message = v.Text
		attrs := map[string]string{"node_guid": v.Node.String(), "links": strconv.Itoa(len(v.Links))}
		if v.NodeDesc != "" {
			attrs["node"] = v.NodeDesc
		}
		if err := x.Event.Attrs["err"]; err != "" {
			attrs["err"] = err
		}
		x.Event.Attrs = attrs
		for i := range v.Links {
			x.Event.Links = append(x.Event.Links, eventLink(&v.Links[i]))
		}
		for _, n := range v.Nodes {
			x.Event.Nodes = append(x.Event.Nodes, api.EventNode{Node: n.Desc, GUID: n.GUID.String()})
		}
		x.Event.More = v.More
	case len(v.Links) == 1 && v.Links[0].Peer != 0 && x.Event.Attrs["peer_node_guid"] == "":
		l := eventLink(&v.Links[0])
		x.Event.Attrs = maps.Clone(x.Event.Attrs)
		x.Event.Attrs["peer_node_guid"], x.Event.Attrs["peer_node"], x.Event.Attrs["peer_port"] = l.PeerGUID, l.Peer, strconv.Itoa(l.PeerPort)
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
func (r *Log) tell(log *slog.Logger, e *api.Event) {
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
