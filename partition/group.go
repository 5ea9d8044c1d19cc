package partition

import (
	"strings"

	"heddle/ib"
)

// Signatures of IP multicast groups in bytes 2 and 3 of an MGID (RFC 4391 §4).
const (
	sigIPv4 = 0x401B
	sigIPv6 = 0x601B
)

const linkLocal = 2 // scope of a multicast address

// groupFlags are the flags of a group that were given.
type groupFlags struct {
	g      Group
	scopes uint16 // bit s for scope s
	set    uint8
}

const (
	setMTU = 1 << iota
	setRate
	setSL
	setQKey
	setFlow
)

// apply copies the flags given into g, except the TClass: that of a header
// applies to the broadcast group alone.
func (f *groupFlags) apply(g *Group) {
	if f.set&setMTU != 0 {
		g.MTU = f.g.MTU
	}
	if f.set&setRate != 0 {
		g.Rate = f.g.Rate
	}
	if f.set&setSL != 0 {
		g.SL = f.g.SL
	}
	if f.g.QKey != 0 || f.set&setQKey != 0 && !isIP(&g.MGID) { // an IP group has none that is 0
		g.QKey = f.g.QKey
	}
	if f.set&setFlow != 0 {
		g.FlowLabel = f.g.FlowLabel
	}
}

// groupFlag takes a flag of a group; ok is false if it is none.
func (p *parser) groupFlag(f *groupFlags, flag, val token) (ok bool, err error) {
	w := p.keyword(flag, "mtu", "rate", "scope", "Q_Key", "TClass", "sl", "FlowLabel")
	if w == "" {
		return false, nil
	}
	most := map[string]uint64{"mtu": 5, "rate": 63, "scope": 15, "Q_Key": 1<<32 - 1, "TClass": 255, "sl": 15, "FlowLabel": 1<<20 - 1}[w]
	n, err := p.number(val, most, w)
	if err != nil {
		return true, err
	}
	g := &f.g
	switch w {
	case "mtu":
		if n == 0 {
			return true, p.fail(val.pos, "mtu=0 is no MTU: 1 to 5 for 256 to 4096 bytes")
		}
		g.MTU, f.set = ib.MTU(n), f.set|setMTU
	case "rate":
		if ib.Rate(n).Gbps() == 0 {
			return true, p.fail(val.pos, "rate=%d is the code of no rate: 3 for 10 Gb/s, 7 for 40, 16 for 100, … (IBA §15.2.5.16)", n)
		}
		g.Rate, f.set = ib.Rate(n), f.set|setRate
	case "scope":
		if n == 0 {
			return true, p.fail(val.pos, "scope=0 is reserved: 1 to 15, 2 for link-local")
		}
		f.scopes |= 1 << n
	case "Q_Key":
		g.QKey, f.set = ib.QKey(n), f.set|setQKey
	case "TClass":
		g.TClass = uint8(n)
	case "sl":
		g.SL, f.set = ib.SL(n), f.set|setSL
	case "FlowLabel":
		g.FlowLabel, f.set = uint32(n), f.set|setFlow
	}
	return true, nil
}

// group reads the text after "mgid=", to the end of the line. Missing flags are
// as in the header of the statement.
func (p *parser) group(h *header, b *building) error {
	t := p.rest()
	text, flags, _ := strings.Cut(t.text, ",")
	gid, err := ib.ParseGID(strings.TrimSpace(text))
	if err != nil || !gid.IsMulticast() {
		return p.fail(t.pos, "mgid=%s is not a multicast GID: ff12:…", short(strings.TrimSpace(text)))
	}
	f := h.group
	f.g.TClass = 0
	at := t.pos
	at.Col += len(text) + 1
	for flags != "" {
		var one string
		rest := flags
		one, flags, _ = strings.Cut(flags, ",")
		k, v, _ := strings.Cut(one, "=")
		flag, val := trimmed(at, k), trimmed(at, v)
		val.pos.Col += len(k) + 1
		at.Col += len(rest) - len(flags)
		if flag.text == "" {
			continue
		}
		ok, err := p.groupFlag(&f, flag, val)
		switch {
		case err != nil:
			return err
		case ok:
		case flag.text[0] >= '0' && flag.text[0] <= '9' || p.keyword(flag, kindWords...) != "":
			return p.fail(flag.pos, "member %s on the line of a multicast group: members begin on a line of their own", short(flag.text))
		default:
			p.warnf(flag.pos, "unknown flag %s is ignored", short(flag.text))
		}
	}
	if isIP(&gid) && (gid[4] == 0 && gid[5] == 0 || gid == Broadcast(DefaultKey).MGID) {
		gid[4], gid[5] = byte(b.PKey>>8)|0x80, byte(b.PKey)
	}
	if o := p.groups[gid]; o != nil { // before scope= counts, as with OpenSM
		p.taken(t.pos, b, o, gid)
		return nil
	}
	if f.scopes == 0 {
		f.scopes = 1 << linkLocal
	}
	if f.scopes>>(gid[1]&0xF)&1 == 0 {
		p.warnf(t.pos, "group %v is not made with the scope that is in its MGID: that needs scope=%d", gid, gid[1]&0xF)
	}
	head := Group{MTU: 4, Rate: ib.Rate10}
	h.group.apply(&head)
	for s := range uint8(16) {
		if f.scopes>>s&1 == 0 {
			continue
		}
		g := Group{MGID: gid, MTU: 4, Rate: ib.Rate10}
		g.MGID[1] = gid[1]&0xF0 | s
		if isIP(&gid) {
			g.QKey = 0x0B1B
		}
		f.apply(&g)
		g.TClass = f.g.TClass
		if isIP(&gid) && (g.MTU != head.MTU || g.Rate != head.Rate) {
			p.warnf(t.pos, "group %v is left out: mtu and rate must be those of the header, %d and %d (RFC 4391)", gid, head.MTU, head.Rate)
			return nil
		}
		if s != linkLocal {
			g.HopLimit = 0xFF
		}
		p.addGroup(t.pos, b, g)
	}
	return nil
}

// trimmed is the word in s, which begins at a place.
func trimmed(at Pos, s string) token {
	at.Col += len(s) - len(strings.TrimLeft(s, " \t\r\v\f"))
	return token{at, strings.TrimSpace(s)}
}

func isIP(g *ib.GID) bool {
	sig := int(g[2])<<8 | int(g[3])
	return sig == sigIPv4 || sig == sigIPv6
}

// broadcastOf is the MGID of the IPv4 broadcast group that the IP group g of a
// partition belongs to.
func broadcastOf(key ib.PKey, g *ib.GID) ib.GID {
	b := Broadcast(key).MGID
	b[1] = b[1]&0xF0 | g[1]&0xF
	return b
}

// addGroup adds a group to a partition. An invalid one is omitted with a
// warning, as OpenSM does; that grants nothing.
func (p *parser) addGroup(at Pos, b *building, g Group) {
	switch {
	case isIP(&g.MGID):
		if [2]byte(g.MGID[4:6]) != [2]byte{byte(b.PKey>>8) | 0x80, byte(b.PKey)} {
			p.warnf(at, "group %v is left out: its P_Key is not %v of its partition", g.MGID, b.PKey|0x8000)
			return
		}
		if bc := broadcastOf(b.PKey, &g.MGID); g.MGID != bc && b.find(bc) == nil {
			p.warnf(at, "group %v is left out: its partition has no broadcast group %v (flag ipoib, for scope 2)", g.MGID, bc)
			return
		}
	case g.MGID[1]&0xE0 != 0:
		p.warnf(at, "group %v is left out: bits 5 to 7 of its flags are reserved", g.MGID)
		return
	case g.MGID[2] == 0xA0 && g.MGID[3] == 0x1B && g.MGID[1]&0xF == linkLocal:
		p.warnf(at, "group %v is left out: an MGID of the SA's own kind (a01b) is not link-local", g.MGID)
		return
	}
	switch o := p.groups[g.MGID]; {
	case o != nil:
		p.taken(at, b, o, g.MGID)
		return
	case len(p.groups) == MaxGroups:
		p.warnf(at, "group %v is ignored: a subnet has at most %d groups", g.MGID, MaxGroups)
		return
	}
	p.groups[g.MGID] = b
	b.Groups = append(b.Groups, g)
}

// taken warns of a group for b that o has.
func (p *parser) taken(at Pos, b, o *building, mgid ib.GID) {
	if o == b {
		p.warnf(at, "duplicate group %v; the first one applies", mgid)
	} else {
		p.warnf(at, "group %v is left out: partition %s has it", mgid, short(o.Name))
	}
}

// find returns the group with an MGID, nil if the partition has none.
func (b *building) find(g ib.GID) *Group {
	for i := range b.Groups {
		if b.Groups[i].MGID == g {
			return &b.Groups[i]
		}
	}
	return nil
}
