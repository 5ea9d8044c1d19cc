package daemon

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"heddle/api"
	"heddle/sm"
)

// tell logs a notice of the core and keeps it as an event.
func (d *Daemon) tell(n *sm.Notice) {
	attrs := map[string]string{}
	where(attrs, "", n.Where)
	where(attrs, "peer_", n.Peer)
	if n.Err != nil {
		attrs["err"] = n.Err.Error()
	}
	if n.Dur != 0 {
		attrs["dur"] = n.Dur.Round(time.Microsecond).String()
	}
	text := n.Text
	if text == "" {
		text = strings.ReplaceAll(n.Kind.String(), "_", " ")
	}
	text = lead[n.Kind] + text
	if n.Kind == sm.KindSweepEnd && n.Report != nil {
		d.phases.add(n.Report)
	}
	if n.Repair != nil {
		d.repairs.add(n.Repair, time.Now())
	}
	d.note(levels[n.Level], n.Kind.String(), text, attrs)
}

// lead begins the messages of notices whose text only says why.
var lead = map[sm.Kind]string{
	sm.KindSweepStart:   "sweep begins: ",
	sm.KindSweepEnd:     "sweep ends: ",
	sm.KindEnginePassed: "engine passed over: ",
}

var levels = [...]slog.Level{sm.Debug: slog.LevelDebug, sm.Info: slog.LevelInfo, sm.Warn: slog.LevelWarn, sm.Error: slog.LevelError}

func where(attrs map[string]string, prefix string, w sm.Where) {
	if !w.IsSet() {
		return
	}
	if w.Node != 0 {
		attrs[prefix+"node_guid"] = w.Node.String()
	}
	if w.Desc != "" {
		attrs[prefix+"node"] = w.Desc
	}
	if w.Port >= 0 {
		attrs[prefix+"port"] = strconv.Itoa(w.Port)
	}
	if w.LID != 0 {
		attrs[prefix+"lid"] = w.LID.String()
	}
	attrs[prefix+"path"] = sm.PathString(w.Path)
}

// note logs a fact and, from level info up, keeps it as an event.
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
	d.events.add(api.Event{
		Time: time.Now(), Level: strings.ToLower(level.String()), Kind: kind, Message: text, Attrs: attrs,
	})
}
