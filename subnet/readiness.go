package subnet

import (
	"fmt"
	"slices"

	"heddle/ib"
)

// MemberState is the state of a member of a partition.
type MemberState uint8

// The states.
const (
	// MemberAbsent: no port, virtual port that is up, or alias has its GUID. It is
	// given its key when it appears.
	MemberAbsent MemberState = iota
	// MemberPending: it is on the fabric, but its hardware is not known to hold the
	// key with the right membership; Why names the missing step.
	MemberPending
	// MemberReady: its own table holds the key, and that of the switch port before it
	// if that enforces partitions; and it can be reached.
	MemberReady
)

var memberStates = [...]string{"absent", "pending", "ready"}

func (s MemberState) String() string {
	if int(s) < len(memberStates) {
		return memberStates[s]
	}
	return fmt.Sprintf("member(%d)", uint8(s))
}

// MemberReadiness is one member's part of a Readiness.
type MemberReadiness struct {
	GUID  ib.GUID
	State MemberState
	Port  int32  // index in Snapshot.Ports of the port with the GUID, -1 if absent
	Why   string // of MemberPending: the missing step
}

// Readiness reports which members of a partition have its P_Key in their
// hardware, as read back or acknowledged.
type Readiness struct {
	PKey                   ib.PKey
	Members                []MemberReadiness // in the order of the request, each GUID once
	Absent, Pending, Ready int
}

// Done reports whether every member that is on the fabric has the key.
func (r *Readiness) Done() bool { return r.Pending == 0 }

// Ready reports the state of P_Key k at some members, given by port GUID, alias
// GUID or GUID of a virtual port. Bit 15 of k requires full membership; without
// it limited membership suffices. Several GUIDs may share one table, as aliases
// do; it holds the full membership if one of them needs it, which also satisfies
// a limited one. It takes time proportional to guids, and to all virtual ports if
// a GUID is not found.
func (s *Snapshot) Ready(k ib.PKey, guids []ib.GUID) Readiness {
	r := Readiness{PKey: k, Members: make([]MemberReadiness, 0, len(guids))}
	seen := make(map[ib.GUID]int, len(guids)) // index in r.Members
	lost := 0
	for _, g := range guids {
		if _, ok := seen[g]; ok {
			continue
		}
		m := MemberReadiness{GUID: g, Port: s.PortByGUID(g)}
		if m.Port < 0 {
			lost++
		}
		seen[g] = len(r.Members)
		r.Members = append(r.Members, m)
	}
	if lost > 0 { // lookups find no virtual port that cannot be reached yet
		for i := len(s.Ports) - 1; i >= 0 && s.Ports[i].Virtual != nil; i-- {
			p := s.Ports[i]
			if at, ok := seen[p.GUID]; ok && r.Members[at].Port < 0 && p.State() > ib.StateDown {
				r.Members[at].Port = int32(i)
			}
		}
	}
	for i := range r.Members {
		m := &r.Members[i]
		switch m.Why = s.lacks(m.Port, k); {
		case m.Port < 0:
			r.Absent++
		case m.Why != "":
			m.State = MemberPending
			r.Pending++
		default:
			m.State = MemberReady
			r.Ready++
		}
	}
	return r
}

// lacks is the reason why a port cannot use a key; "": it can.
func (s *Snapshot) lacks(i int32, k ib.PKey) string {
	if i < 0 {
		return ""
	}
	p := s.Ports[i]
	full, limited := slices.Contains(p.PKeys, k.Base()|0x8000), slices.Contains(p.PKeys, k.Base())
	switch {
	case p.PKeys == nil:
		return "its P_Key table was not read yet"
	case k.IsFull() && !full && limited:
		return "it is still a limited member, and must become a full one"
	case k.IsFull() && !full, !full && !limited:
		return "its P_Key table does not hold the key yet"
	case !k.IsFull() && full && !limited && len(p.Aliases) == 0:
		return "it is still a full member, and must become a limited one"
	case p.EndPort < 0:
		return "its virtual port is not up yet: " + p.State().String()
	}
	q := s.Port(p.Peer)
	if q == nil || q.Num == 0 || s.Nodes[q.Node].Info.NodeType != ib.NodeSwitch {
		return ""
	}
	if (q.Info.PartitionEnforcementInbound || q.Info.PartitionEnforcementOutbound) && !slices.Contains(q.PKeys, k.Base()|0x8000) {
		return fmt.Sprintf("the switch port before it, %q port %d, enforces partitions and does not hold the key yet", s.Nodes[q.Node].Desc, q.Num)
	}
	return ""
}
