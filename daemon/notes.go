package daemon

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"heddle/api"
	"heddle/api/show"
	"heddle/daemon/eventlog"
	"heddle/incident"
	"heddle/sm"
)

// tell logs a notice of the core and adds it to the events.
func (d *Daemon) tell(n *sm.Notice) {
	text, attrs := show.Notice(n)
	if n.Kind == sm.KindSweepEnd && n.Report != nil {
		d.sweeps.Add(n.Report, time.Now())
	}
	if n.Repair != nil {
		d.repairs.Add(n.Repair, time.Now())
	}
	d.noteAt(levels[n.Level], n.Kind.String(), text, attrs, &incident.Fact{
		Node: n.Where.Node, NodeDesc: n.Where.Desc, Port: n.Where.Port, Peer: n.Peer.Node, PeerDesc: n.Peer.Desc, PeerPort: n.Peer.Port,
		Snap: d.Snapshot(),
	})
}

var levels = [...]slog.Level{sm.Debug: slog.LevelDebug, sm.Info: slog.LevelInfo, sm.Warn: slog.LevelWarn, sm.Error: slog.LevelError}

// note adds a fact to the events, which log it. One below level info is logged alone.
func (d *Daemon) note(level slog.Level, kind, text string, attrs map[string]string) {
	d.noteAt(level, kind, text, attrs, &incident.Fact{})
}

// noteAt is note of a fact with a place.
func (d *Daemon) noteAt(level slog.Level, kind, text string, attrs map[string]string, at *incident.Fact) {
	if level >= slog.LevelInfo {
		d.events.Record(&eventlog.Entry{
			Event: api.Event{Time: time.Now(), Level: strings.ToLower(level.String()), Kind: kind, Message: text, Attrs: attrs},
			At:    *at, Log: d.log,
		})
		return
	}
	if !d.log.Enabled(context.Background(), level) {
		return
	}
	list := make([]slog.Attr, 0, len(attrs)+1)
	list = append(list, slog.String("kind", kind))
	for _, k := range slices.Sorted(maps.Keys(attrs)) {
		list = append(list, slog.String(k, attrs[k]))
	}
	d.log.LogAttrs(context.Background(), level, text, list...)
}
