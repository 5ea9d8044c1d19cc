package qos

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"heddle/ib"
	"heddle/partition"
)

// maxFile bounds a policy file, in bytes. Its compiled form is of the same
// order.
const maxFile = 4 << 20

// Service IDs that identify upper layer protocols. Those of SDP, RDS and iSER end
// in a TCP port number.
const (
	serviceSDP  = 0x0000_0000_0001_0000
	serviceTCP  = 0x0000_0000_0106_0000 // RDS and iSER
	serviceRDS  = serviceTCP + 0x48CA
	serviceISER = serviceTCP + 0x0CBC
)

// parser reads a file into raw declarations; compile resolves their names.
type parser struct {
	lexer
	parts    *partition.Policy
	warnings []Warning
	groups   []rawGroup
	levels   []rawLevel
	rules    []rawRule
	ulps     []rawRule
	fallback *Level // the default of qos-ulps
	setup    bool   // qos-setup was seen
}

type rawGroup struct {
	group
	name string
	line int
}

type rawLevel struct {
	Level
	pkeys []span
	hasSL bool
	line  int
}

type rawRule struct {
	rule
	source, destination []string // names of groups
	levelName           string
	line                int
}

// Parse reads a policy file as OpenSM 3.3.23 does; name is the file's name in
// messages. parts are the partitions that the file may name; nil leaves that
// unchecked. On an error (*Error) there is no policy, because half a policy would
// send traffic over wrong lanes.
//
// It differs from OpenSM where that would silently misread the file: numbers out of
// range and levels that do not exist are errors; a node description with blanks
// need not be quoted; membership of ports is evaluated when the path is queried,
// not when the file is read, and for every node with a description, not only the
// first.
func Parse(r io.Reader, name string, parts *partition.Policy) (*Policy, []Warning, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	p := &parser{lexer: lexer{file: name, b: string(b), line: 1}, parts: parts}
	if len(b) > maxFile {
		p.line += strings.Count(p.b, "\n")
		return nil, nil, p.errorf("the file has more than %d MiB", maxFile>>20)
	}
	if strings.ContainsRune(p.b, 0) {
		p.line += strings.Count(p.b[:strings.IndexByte(p.b, 0)], "\n")
		return nil, nil, p.errorf("a zero byte: this is no text file")
	}
	if err := p.sections(); err != nil {
		return nil, nil, err
	}
	policy, err := p.compile()
	if err != nil {
		return nil, nil, err
	}
	slices.SortStableFunc(p.warnings, func(a, b Warning) int { return cmp.Compare(a.Line, b.Line) })
	return policy, p.warnings, nil
}

func (p *parser) warnf(line int, format string, a ...any) {
	p.warnings = append(p.warnings, Warning{p.file, line, fmt.Sprintf(format, a...)})
}

func (p *parser) sections() error {
	for {
		w, err := p.word()
		if err != nil {
			return err
		}
		switch w {
		case "":
			return nil
		case "port-groups":
			err = p.block(w, func(k string) error { return p.entry(w, "port-group", k, p.portGroup) })
		case "qos-levels":
			err = p.block(w, func(k string) error { return p.entry(w, "qos-level", k, p.qosLevel) })
		case "qos-match-rules":
			err = p.block(w, func(k string) error { return p.entry(w, "qos-match-rule", k, p.matchRule) })
		case "qos-ulps":
			err = p.block(w, p.ulp)
		case "qos-setup":
			if !p.setup {
				p.warnf(p.line, "qos-setup is read and ignored, as by OpenSM: lanes and their arbitration come from the routing engine")
			}
			p.setup = true
			err = p.block(w, func(k string) error { return p.ignored(w, k) })
		default:
			return p.unknown(w, "the file", "port-groups, qos-setup, qos-levels, qos-match-rules, qos-ulps")
		}
		if err != nil {
			return err
		}
	}
}

func (p *parser) unknown(w, where, want string) error {
	if l := strings.ToLower(w); l != w && (blocks[l] || keys[l]) {
		return p.errorf("%q is written in lower case", w)
	}
	return p.errorf("%q is unknown in %s (want one of: %s)", w, where, want)
}

// block passes each word of a block to each, up to the end of the block.
func (p *parser) block(name string, each func(word string) error) error {
	opened := p.line
	for {
		w, err := p.word()
		if err != nil {
			return err
		}
		switch w {
		case "":
			return p.errorf("%s of line %d is not closed: want end-%s", name, opened, name)
		case "end-" + name:
			return nil
		}
		if err := each(w); err != nil {
			return err
		}
	}
}

// entry is the only kind of block that a list of blocks holds.
func (p *parser) entry(list, name, word string, read func() error) error {
	if word != name {
		return p.unknown(word, list, name+", end-"+list)
	}
	return read()
}

// colon takes the colon after a key.
func (p *parser) colon(key string) error {
	if !p.punct(':') {
		return p.errorf("%s: want a colon after it", key)
	}
	return nil
}

// one reads a number from lo to hi for a key that may occur once.
func (p *parser) one(key string, seen *bool, lo, hi uint64) (uint64, error) {
	if *seen {
		return 0, p.errorf("%s is given twice", key)
	}
	*seen = true
	v, err := p.number()
	if err == nil && (v < lo || v > hi) {
		err = p.errorf("%s: %d is out of range (want %d to %d)", key, v, lo, hi)
	}
	return v, err
}

// text takes the single text of a key that may stand once.
func (p *parser) text(key string, old string) (string, error) {
	if old != "" {
		return "", p.errorf("%s is given twice", key)
	}
	t, err := p.texts()
	if err != nil {
		return "", err
	}
	if len(t) > 1 || t[0] == "" {
		return "", p.errorf("%s: want one name, without a comma", key)
	}
	return t[0], nil
}

func (p *parser) portGroup() error {
	g := rawGroup{line: p.line}
	err := p.block("port-group", func(k string) error {
		if !slices.Contains([]string{"name", "use", "port-guid", "port-name", "pkey", "partition", "node-type"}, k) {
			return p.unknown(k, "port-group", "name, use, port-guid, port-name, pkey, partition, node-type")
		}
		if err := p.colon(k); err != nil {
			return err
		}
		return p.groupKey(&g, k)
	})
	if err == nil && g.name == "" {
		err = p.errorf("port-group of line %d has no name", g.line)
	}
	p.groups = append(p.groups, g)
	return err
}

func (p *parser) groupKey(g *rawGroup, k string) error {
	var err error
	var list []span
	switch k {
	case "name":
		g.name, err = p.text(k, g.name)
	case "use":
		p.rest()
	case "port-guid":
		list, err = p.ranges()
		g.guids = append(g.guids, list...)
	case "pkey":
		list, err = p.pkeyRanges()
		p.checkPKeys(list, false)
		g.pkeys = append(g.pkeys, list...)
	case "partition":
		var names []string
		names, err = p.texts()
		for _, n := range names {
			p.addPartition(g, n)
		}
	case "port-name":
		var names []string
		names, err = p.texts()
		for _, n := range names {
			if err := p.addPort(g, n); err != nil {
				return err
			}
		}
	case "node-type":
		var names []string
		names, err = p.texts()
		for _, n := range names {
			if err := p.addType(g, n); err != nil {
				return err
			}
		}
	}
	return err
}

func (p *parser) addPartition(g *rawGroup, name string) {
	if p.parts == nil {
		p.warnf(p.line, "partition %q: no partitions are known", name)
		return
	}
	for i := range p.parts.Partitions {
		if x := &p.parts.Partitions[i]; fold(x.Name) == fold(name) {
			g.pkeys = append(g.pkeys, span{uint64(x.PKey), uint64(x.PKey)})
			return
		}
	}
	p.warnf(p.line, "partition %q does not exist: it adds no port to the group", name)
}

// addPort adds "description/Pn".
func (p *parser) addPort(g *rawGroup, s string) error {
	i := strings.LastIndexByte(s, '/')
	if i < 0 || len(s) < i+3 || s[i+1]|0x20 != 'p' {
		return p.errorf("%q is not a port name (want NODE_DESCRIPTION/Pn)", s)
	}
	n, err := strconv.ParseUint(s[i+2:], 10, 8)
	if err != nil || n == 0 || n == 255 {
		return p.errorf("%q: the port number is out of range (want 1 to 254)", s)
	}
	if g.names == nil {
		g.names = map[string]*portSet{}
	}
	node := strings.TrimSpace(s[:i])
	if g.names[node] == nil {
		g.names[node] = new(portSet)
	}
	g.names[node].add(uint8(n))
	return nil
}

func (p *parser) addType(g *rawGroup, s string) error {
	switch strings.ToLower(s) {
	case "ca":
		g.types |= 1 << ib.NodeCA
	case "switch":
		g.types |= 1 << ib.NodeSwitch
	case "router":
		g.types |= 1 << ib.NodeRouter
	case "all":
		g.types |= 1<<ib.NodeCA | 1<<ib.NodeSwitch | 1<<ib.NodeRouter
	case "self":
		g.self = true
	default:
		return p.errorf("%q is not a node type (want CA, SWITCH, ROUTER, ALL or SELF)", s)
	}
	return nil
}

// pkeyRanges takes P_Keys, of which the membership bit does not count.
func (p *parser) pkeyRanges() ([]span, error) {
	list, err := p.ranges()
	if err != nil {
		return nil, err
	}
	for i, s := range list {
		if s.hi > 0xFFFF {
			return nil, p.errorf("P_Key %#x has more than 16 bits", s.hi)
		}
		if s.lo < 0x8000 && s.hi >= 0x8000 {
			return nil, p.errorf("P_Keys %#04x-%#04x: only one end has the membership bit", s.lo, s.hi)
		}
		list[i] = span{s.lo & 0x7FFF, s.hi & 0x7FFF}
	}
	return list, nil
}

// checkPKeys warns of P_Keys without a partition. With strict the first is an
// error.
func (p *parser) checkPKeys(list []span, strict bool) error {
	if p.parts == nil {
		return nil
	}
	for _, s := range list {
		next, found := s.lo, false
		for i := range p.parts.Partitions {
			if k := uint64(p.parts.Partitions[i].PKey.Base()); k >= s.lo && k <= s.hi {
				found = true
				if k == next {
					next++
				}
			}
		}
		switch {
		case strict && next <= s.hi:
			return p.errorf("ipoib: there is no partition with P_Key %#04x", next)
		case !found && s.lo == s.hi:
			p.warnf(p.line, "there is no partition with P_Key %#04x", s.lo)
		case !found:
			p.warnf(p.line, "there is no partition with a P_Key in %#04x-%#04x", s.lo, s.hi)
		}
	}
	return nil
}

func (p *parser) qosLevel() error {
	l := rawLevel{line: p.line}
	var mtu, rate bool
	err := p.block("qos-level", func(k string) error {
		if !slices.Contains([]string{"name", "use", "sl", "mtu-limit", "rate-limit", "packet-life", "path-bits", "pkey"}, k) {
			return p.unknown(k, "qos-level", "name, use, sl, mtu-limit, rate-limit, packet-life, path-bits, pkey")
		}
		err := p.colon(k)
		if err != nil {
			return err
		}
		var v uint64
		var list []span
		switch k {
		case "name":
			l.Name, err = p.text(k, l.Name)
		case "use":
			p.rest()
		case "sl":
			v, err = p.one(k, &l.hasSL, 0, 15)
			l.SL = ib.SL(v)
		case "mtu-limit":
			v, err = p.one(k, &mtu, uint64(ib.MTU256), uint64(ib.MTU4096))
			l.MTULimit = ib.MTU(v)
		case "rate-limit":
			v, err = p.one(k, &rate, 0, 0xFF)
			if l.RateLimit = ib.Rate(v); err == nil && !l.RateLimit.Valid() {
				err = p.errorf("rate-limit: there is no rate with code %d", v)
			}
		case "packet-life":
			v, err = p.one(k, &l.HasLife, 0, 63)
			l.PacketLife = uint8(v)
		case "path-bits":
			_, err = p.ranges()
			p.warnf(p.line, "path-bits has no effect, as in OpenSM")
		case "pkey":
			list, err = p.pkeyRanges()
			p.checkPKeys(list, false)
			l.pkeys = append(l.pkeys, list...)
		}
		return err
	})
	switch {
	case err != nil:
	case l.Name == "":
		err = p.errorf("qos-level of line %d has no name", l.line)
	case !l.hasSL:
		err = p.errorf("qos-level %q has no sl", l.Name)
	}
	p.levels = append(p.levels, l)
	return err
}

func (p *parser) matchRule() error {
	r := rawRule{line: p.line}
	err := p.block("qos-match-rule", func(k string) error {
		if !slices.Contains([]string{"use", "source", "destination", "pkey", "qos-class", "service-id", "qos-level-name"}, k) {
			return p.unknown(k, "qos-match-rule", "use, source, destination, pkey, qos-class, service-id, qos-level-name")
		}
		err := p.colon(k)
		if err != nil {
			return err
		}
		var list []span
		var names []string
		switch k {
		case "use":
			p.rest()
		case "source":
			names, err = p.texts()
			r.source = append(r.source, names...)
		case "destination":
			names, err = p.texts()
			r.destination = append(r.destination, names...)
		case "pkey":
			list, err = p.pkeyRanges()
			p.checkPKeys(list, false)
			r.pkeys = append(r.pkeys, list...)
		case "qos-class":
			list, err = p.ranges()
			if err == nil && slices.ContainsFunc(list, func(s span) bool { return s.hi > 0xFFF }) {
				p.warnf(p.line, "qos-class: a class has 12 bits, so values above 4095 never match")
			}
			r.class = append(r.class, list...)
		case "service-id":
			list, err = p.ranges()
			r.service = append(r.service, list...)
		case "qos-level-name":
			r.levelName, err = p.text(k, r.levelName)
		}
		return err
	})
	if err == nil && r.levelName == "" {
		err = p.errorf("qos-match-rule of line %d has no qos-level-name", r.line)
	}
	p.rules = append(p.rules, r)
	return err
}

// ignored checks that the blocks of qos-setup are closed, and skips the rest.
func (p *parser) ignored(in, w string) error {
	switch {
	case strings.HasPrefix(w, "end-"):
		return p.errorf("%s: %s is still open", w, in)
	case in == "qos-setup" && (w == "vlarb-tables" || w == "sl2vl-tables"), in == "vlarb-tables" && w == "vlarb-scope", in == "sl2vl-tables" && w == "sl2vl-scope":
		return p.block(w, func(k string) error { return p.ignored(w, k) })
	case strings.HasSuffix(in, "-scope") && keys[w]:
		err := p.colon(w)
		p.rest()
		return err
	}
	return p.unknown(w, in, "end-"+in)
}

// fold makes names comparable as OpenSM compares them: without case and blanks.
func fold(s string) string {
	return strings.ToLower(strings.Join(strings.Fields(s), ""))
}
