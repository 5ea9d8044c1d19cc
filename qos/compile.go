package qos

import (
	"cmp"
	"slices"

	"heddle/ib"
)

// defaultLevel is the name of the level of queries that no rule matches.
const defaultLevel = "default"

// compile resolves the names.
func (p *parser) compile() (*Policy, error) {
	groups := map[string]int32{}
	out := &Policy{groups: make([]group, 0, len(p.groups)), rules: make([]rule, 0, len(p.rules)+len(p.ulps))}
	for i := range p.groups {
		g := &p.groups[i]
		g.guids, g.pkeys = merge(g.guids), merge(g.pkeys)
		out.groups = append(out.groups, g.group)
		if g.name == "" {
			continue
		}
		if _, twice := groups[fold(g.name)]; twice {
			p.warnf(g.line, "duplicate port-group %q; this one is never used", g.name)
			continue
		}
		groups[fold(g.name)] = int32(i)
	}
	levels := map[string]*Level{}
	for i := range p.levels {
		l := &p.levels[i]
		for _, s := range merge(l.pkeys) {
			l.PKeys = append(l.PKeys, PKeyRange{ib.PKey(s.lo), ib.PKey(s.hi)})
		}
		if levels[fold(l.Name)] != nil {
			p.warnf(l.line, "duplicate qos-level %q; this one is never used", l.Name)
			continue
		}
		levels[fold(l.Name)] = &l.Level
	}
	if out.fallback = levels[defaultLevel]; out.fallback == nil {
		out.fallback = p.fallback
	}
	if out.fallback == nil {
		return nil, p.errorf("there is no qos-level named DEFAULT, and no default in qos-ulps: queries that no rule matches would have no service level")
	}
	// In a policy of both forms, qos-match-rules come first.
	for _, r := range append(p.rules, p.ulps...) {
		at := lexer{file: p.file, line: r.line}
		if r.level == nil {
			if r.level = levels[fold(r.levelName)]; r.level == nil {
				return nil, at.errorf("qos-match-rule: there is no qos-level %q", r.levelName)
			}
		}
		var err error
		if r.src, err = at.resolve(groups, "source", r.source, r.src); err != nil {
			return nil, err
		}
		if r.dst, err = at.resolve(groups, "destination", r.destination, r.dst); err != nil {
			return nil, err
		}
		r.service, r.class, r.pkeys = merge(r.service), merge(r.class), merge(r.pkeys)
		out.rules = append(out.rules, r.rule)
	}
	out.index()
	return out, nil
}

func (l *lexer) resolve(groups map[string]int32, key string, names []string, list []int32) ([]int32, error) {
	for _, n := range names {
		g, ok := groups[fold(n)]
		if !ok {
			return nil, l.errorf("qos-match-rule: %s: there is no port-group %q", key, n)
		}
		list = append(list, g)
	}
	return list, nil
}

// merge sorts spans and joins those that overlap or touch.
func merge(list []span) spans {
	slices.SortFunc(list, func(a, b span) int { return cmp.Compare(a.lo, b.lo) })
	out := list[:0]
	for _, s := range list {
		if n := len(out); n > 0 && (s.lo <= out[n-1].hi || s.lo == out[n-1].hi+1) {
			out[n-1].hi = max(out[n-1].hi, s.hi)
			continue
		}
		out = append(out, s)
	}
	return slices.Clip(out)
}
