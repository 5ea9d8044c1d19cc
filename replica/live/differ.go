package live

import (
	"slices"
	"strings"

	"heddle/replica/wire"
)

// comparing compares the settings of both managers. It belongs to the pair's goroutine.
type comparing struct {
	own    []wire.Setting
	theirs *wire.Digests // nil: not known
	differ []string
}

// SetSettings says what the settings are now (Config.Settings).
func (p *Pair) SetSettings(list []wire.Setting) {
	p.post(func() {
		p.comparing.own = list
		for _, st := range []*stream{p.streams.mine, p.streams.theirs} {
			if st != nil {
				st.compare()
			}
		}
		p.compare()
	})
}

// compare sends the peer what it needs to compare its settings.
func (st *stream) compare() {
	p := st.p
	if !st.as.Compares() {
		p.comparing.theirs = nil // the peer may be of another version than before
		p.compare()
		return
	}
	if !st.put(wire.NewDigests(p.comparing.own, p.cfg.Secret), 2*p.cfg.Rules.Waiting) {
		p.log.Debug("too much waits for the peer: it compares settings when its stream begins anew")
	}
}

// compare says which settings differ, when these have changed.
func (p *Pair) compare() {
	x := &p.comparing
	var names []string
	if x.theirs != nil {
		names = x.theirs.Differ(x.own, p.cfg.Secret)
	}
	if slices.Equal(names, x.differ) {
		return
	}
	x.differ = names
	p.set(func(st *Status) { st.Differ = slices.Clone(names) })
	if len(names) > 0 {
		p.log.Warn("settings of the two managers differ: give both the same", "settings", strings.Join(names, ", "))
	} else {
		p.log.Info("no settings of the two managers differ any more")
	}
	if p.cfg.OnDiffer != nil {
		p.cfg.OnDiffer(slices.Clone(names))
	}
}
