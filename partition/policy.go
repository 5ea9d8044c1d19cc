package partition

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"heddle/ib"
)

const maxName = 256 // bytes of the name of a partition

// MaxGroups is the most multicast groups of a policy: a subnet has no more
// MLIDs.
const MaxGroups = 0x3FFF

// badInName reports whether a character is forbidden in the name of a
// partition, because a file could not show it.
func badInName(r rune) bool {
	return strings.ContainsRune("=,:;#", r) || r == unicode.ReplacementChar || r != ' ' && !unicode.IsGraphic(r) || r != ' ' && unicode.IsSpace(r)
}

// Validate returns the first mistake in a policy, nil if there is none. Parse
// calls it; validate a policy from elsewhere before use.
func (p *Policy) Validate() error {
	_, err := p.check()
	return err
}

// check is Validate; key is the P_Key that the error is about.
func (p *Policy) check() (key ib.PKey, err error) {
	if p == nil {
		return 0, fmt.Errorf("partition: no policy")
	}
	groups := map[ib.GID]bool{}
	hasDefault := false
	for i := range p.Partitions {
		q := &p.Partitions[i]
		if i > 0 && q.PKey <= p.Partitions[i-1].PKey {
			return q.PKey, fmt.Errorf("partition: P_Key %v comes after %v; each may occur once, in ascending order", q.PKey, p.Partitions[i-1].PKey)
		}
		if err := q.validate(groups); err != nil {
			return q.PKey, fmt.Errorf("partition %q (%v): %w", q.Name, q.PKey, err)
		}
		hasDefault = hasDefault || q.PKey == DefaultKey
	}
	if !hasDefault {
		return DefaultKey, fmt.Errorf("partition: the default partition %v is missing", DefaultKey)
	}
	return 0, nil
}

func (q *Partition) validate(groups map[ib.GID]bool) error {
	switch {
	case q.PKey == 0 || q.PKey > DefaultKey:
		return fmt.Errorf("a P_Key without its membership bit is 0x0001 to %v", DefaultKey)
	case len(q.Name) > maxName || strings.IndexFunc(q.Name, badInName) >= 0 || strings.Join(strings.Fields(q.Name), " ") != q.Name:
		return fmt.Errorf("the name must be printable, without \"=,:;#\", of %d bytes at most", maxName)
	case q.SL > 15:
		return fmt.Errorf("service level %d: 15 at most", q.SL)
	}
	for _, m := range q.Members {
		switch {
		case m.Kind > Self:
			return fmt.Errorf("member of kind %d", m.Kind)
		case m.Kind == Port && m.GUID == 0:
			return fmt.Errorf("no port has GUID 0")
		case m.Kind != Port && m.GUID != 0:
			return fmt.Errorf("a class of ports has no GUID (%v)", m.GUID)
		case m.As < Limited || m.As > Both:
			return fmt.Errorf("member %v: membership %d", m, m.As)
		}
	}
	if q.PKey == DefaultKey && (len(q.Members) == 0 || q.Members[0].Kind != All) {
		return fmt.Errorf("the first member of the default partition must be ALL: a port that is not in it reaches no subnet administrator")
	}
	for i := range q.Groups {
		g := &q.Groups[i]
		switch {
		case !g.MGID.IsMulticast():
			return fmt.Errorf("group %v is not a multicast GID", g.MGID)
		case groups[g.MGID]:
			return fmt.Errorf("group %v is there twice", g.MGID)
		case len(groups) == MaxGroups:
			return fmt.Errorf("more than %d groups", MaxGroups)
		case g.MTU < 1 || g.MTU > 5 || g.Rate.Gbps() == 0 || g.SL > 15 || g.FlowLabel >= 1<<20:
			return fmt.Errorf("group %v: mtu %d, rate %d, sl %d or flow label %#x is out of range", g.MGID, g.MTU, g.Rate, g.SL, g.FlowLabel)
		case isIP(&g.MGID) && [2]byte(g.MGID[4:6]) != [2]byte{byte(q.PKey>>8) | 0x80, byte(q.PKey)}:
			return fmt.Errorf("group %v has the P_Key of another partition", g.MGID)
		}
		groups[g.MGID] = true
	}
	return nil
}

func (p *Policy) sort() {
	slices.SortFunc(p.Partitions, func(a, b Partition) int { return cmp.Compare(a.PKey, b.PKey) })
}

// Trivial reports whether every port is a full member of the only partition: switches need not enforce
// it then.
func (p *Policy) Trivial() bool {
	if len(p.Partitions) != 1 {
		return false
	}
	for _, m := range p.Partitions[0].Members {
		if m.As != Full {
			return false
		}
	}
	return true
}

// Find returns the partition of a P_Key, full or limited, nil if there is none.
func (p *Policy) Find(k ib.PKey) *Partition {
	i, ok := slices.BinarySearchFunc(p.Partitions, k.Base(), func(q Partition, k ib.PKey) int { return cmp.Compare(q.PKey, k) })
	if !ok {
		return nil
	}
	return &p.Partitions[i]
}

// effective drops members that later ones override. The order of the others is
// kept.
func effective(list []Member) []Member {
	type who struct {
		kind Kind
		guid ib.GUID
	}
	seen := make(map[who]bool, len(list))
	out := make([]Member, 0, len(list))
	for i := len(list) - 1; i >= 0; i-- {
		m := list[i]
		if seen[who{m.Kind, m.GUID}] {
			continue
		}
		seen[who{m.Kind, m.GUID}] = true
		out = append(out, m)
		if m.Kind == All {
			break
		}
	}
	slices.Reverse(out)
	return out
}

var membershipNames = [...]string{Limited: "limited", Full: "full", Both: "both"}

// String is the word that partitions.conf uses.
func (m Membership) String() string {
	if int(m) < len(membershipNames) && m > 0 {
		return membershipNames[m]
	}
	return fmt.Sprintf("membership%d", uint8(m))
}

var kindNames = [...]string{All: "ALL", AllCAs: "ALL_CAS", AllSwitches: "ALL_SWITCHES", AllRouters: "ALL_ROUTERS", Self: "SELF"}

// String names the member as partitions.conf does, without the membership.
func (m Member) String() string {
	if m.Kind == Port || int(m.Kind) >= len(kindNames) {
		return m.GUID.String()
	}
	return kindNames[m.Kind]
}
