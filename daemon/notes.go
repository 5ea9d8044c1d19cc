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
	"heddle/sm"
)

// tell logs a notice of the core and adds it to the events.
func (d *Daemon) tell(n *sm.Notice) {
	text, attrs := show.Notice(n)
	if n.Kind == sm.KindSweepEnd && n.Report != nil {
		d.phases.add(n.Report)
	}
	if n.Repair != nil {
		d.repairs.add(n.Repair, time.Now())
	}
	d.note(levels[n.Level], n.Kind.String(), text, attrs)
}

var levels = [...]slog.Level{sm.Debug: slog.LevelDebug, sm.Info: slog.LevelInfo, sm.Warn: slog.LevelWarn, sm.Error: slog.LevelError}

// note logs a fact and, from level info up, adds it to the events.
func (d *Daemon) note(level slog.Level, kind, text string, attrs map[string]string) {
	if d.log.Enabled(context.Background(), level) {
		list := make([]slog.Attr, 0, len(attrs)+1)
		list = append(list, slog.String("kind", kind))
		for _, k := range slices.Sorted(maps.Keys(attrs)) {
			list = append(list, slog.String(k, attrs[k]))
		}
		d.log.LogAttrs(context.Background(), level, text, list...)
	}
	if level < slog.LevelInfo {
		return
	}
	d.events.Add(api.Event{
		Time: time.Now(), Level: strings.ToLower(level.String()), Kind: kind, Message: text, Attrs: attrs,
	})
}
