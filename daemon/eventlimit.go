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
// each limitSpan. What is left out is counted and told, by kind, when the span is over. Pure,
// not safe for concurrent use; it remembers no more sources than it lets through.
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

// What is told in limitSpan at most. The same source has few different things to say in that
// time; a kind may concern many hosts at once, as when a switch fails.
const (
	limitSpan   = 10 * time.Second
	limitSource = 10
	limitKind   = 100
	limitAll    = 300
)

// cutEvents are the events of a kind that were left out.
type cutEvents struct {
	kind string
	n    uint64
}

// allow reports whether one more event may be told at now, of a kind and caused by the port
// with a LID; 0, which only kinds bound: not known, or nobody's. cut is what was left out of the span before, if a new
// one begins.
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

// end ends a span and returns what was left out of it.
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

// due is when what was left out is to be told, mad.Never if nothing was.
func (l *eventLimit) due() mad.Time {
	for i := range l.kinds {
		if l.kinds[i].cut > 0 {
			return l.began.Add(limitSpan)
		}
	}
	return mad.Never
}

// tellCut tells what was left out.
func (d *Daemon) tellCut(cut []cutEvents) {
	for _, c := range cut {
		d.note(slog.LevelWarn, "events_cut", fmt.Sprintf("%d further events of the kind %s were left out: hosts cause more of them than anybody reads", c.n, c.kind),
			map[string]string{"of": c.kind, "count": fmt.Sprint(c.n)})
	}
}

// limited are the kinds of notices of the subnet manager that any host can cause as often as
// it likes, by traps or as another manager.
var limited = map[sm.Kind]bool{
	sm.KindTrap: true, sm.KindTrapStorm: true, sm.KindTrapFalse: true, sm.KindPortUnhealthy: true, sm.KindSecurity: true,
	sm.KindOtherSM: true, sm.KindNodeGarbage: true,
}
