package daemon

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"heddle/ib"
	"heddle/mad"
	"heddle/sm"
)

// eventLimit bounds the events and log lines that hosts can cause, so that they neither fill
// the log nor push other events out of the ring: by source and kind, by kind, and in all, in
// each limitSpan. Suppressed events are counted, and logged by kind at the end of the span.
// Pure, not safe for concurrent use; it keeps no more sources than it admits.
type eventLimit struct {
	began mad.Time
	told  int
	kinds []limitedKind // of this span
}

type limitedKind struct {
	kind    string
	told    int
	cut     uint64
	sources []limitedSource
}

type limitedSource struct {
	lid  ib.LID
	told int
}

// Limits per limitSpan. One source has few different events in that time; one kind may concern
// many hosts at once, for example when a switch fails.
const (
	limitSpan   = 10 * time.Second
	limitSource = 10
	limitKind   = 100
	limitAll    = 300
)

// cutEvents counts the suppressed events of a kind.
type cutEvents struct {
	kind string
	n    uint64
}

// allow reports whether one more event of a kind, caused by the port with a LID, is admitted at
// now. LID 0, an unknown source, is limited only by kind. If a new span begins, cut has the
// suppressed events of the last one.
func (l *eventLimit) allow(now mad.Time, kind string, from ib.LID) (ok bool, cut []cutEvents) {
	if len(l.kinds) == 0 || now.Sub(l.began) >= limitSpan {
		cut = l.end()
		l.began = now
	}
	i := slices.IndexFunc(l.kinds, func(k limitedKind) bool { return k.kind == kind })
	if i < 0 {
		i = len(l.kinds)
		l.kinds = append(l.kinds, limitedKind{kind: kind})
	}
	k := &l.kinds[i]
	if l.told >= limitAll || k.told >= limitKind {
		k.cut++
		return false, cut
	}
	if from != 0 {
		j := slices.IndexFunc(k.sources, func(s limitedSource) bool { return s.lid == from })
		if j < 0 {
			j = len(k.sources)
			k.sources = append(k.sources, limitedSource{lid: from})
		}
		if k.sources[j].told >= limitSource {
			k.cut++
			return false, cut
		}
		k.sources[j].told++
	}
	k.told++
	l.told++
	return true, cut
}

// end ends a span and returns its suppressed events.
func (l *eventLimit) end() (cut []cutEvents) {
	for _, k := range l.kinds {
		if k.cut > 0 {
			cut = append(cut, cutEvents{k.kind, k.cut})
		}
	}
	slices.SortFunc(cut, func(a, b cutEvents) int { return cmp.Compare(a.kind, b.kind) })
	*l = eventLimit{began: l.began}
	return cut
}

// due is when suppressed events are to be logged, mad.Never if there are none.
func (l *eventLimit) due() mad.Time {
	for i := range l.kinds {
		if l.kinds[i].cut > 0 {
			return l.began.Add(limitSpan)
		}
	}
	return mad.Never
}

// tellCut logs the suppressed events.
func (d *Daemon) tellCut(cut []cutEvents) {
	for _, c := range cut {
		d.note(slog.LevelWarn, "events_cut", fmt.Sprintf("%d further events of kind %s were not logged: their number exceeds the limit per ten seconds", c.n, c.kind),
			map[string]string{"of": c.kind, "count": fmt.Sprint(c.n)})
	}
}

// limited are the kinds of notices that any host can cause at will, by traps or as another
// manager.
var limited = map[sm.Kind]bool{
	sm.KindTrap: true, sm.KindTrapStorm: true, sm.KindTrapFalse: true, sm.KindPortUnhealthy: true, sm.KindSecurity: true,
	sm.KindOtherSM: true, sm.KindNodeGarbage: true,
}
