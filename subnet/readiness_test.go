package subnet

import (
	"slices"
	"strings"
	"testing"

	"heddle/ib"
)

// TestReady: a member is ready when its own table holds the key as it should, and
// that of the switch port before it, if that enforces; one that is not on the
// fabric keeps nobody waiting.
func TestReady(t *testing.T) {
	s := bed(t)
	a := s.at(hostA, 1)
	a.PKeys = []ib.PKey{0xFFFF, 5}
	a.Aliases = []ib.GUID{0, 0xA1}
	s.at(hostB, 1).PKeys = []ib.PKey{0xFFFF, 0x8005}
	port := s.PortIndex(Ref{hostB, 1})
	vport := func(guid ib.GUID, st ib.PortState, end int32, keys ...ib.PKey) {
		p := *s.at(hostB, 1)
		p.GUID, p.EndPort, p.PKeys, p.Virtual = guid, end, keys, &Virtual{Port: port, Index: 1}
		p.Info.PortState = st
		s.Ports = append(s.Ports, &p)
	}
	vport(0xF1, ib.StateActive, 6, 0xFFFF, 0x8005)
	vport(0xF2, ib.StateInit, -1, 0xFFFF, 0x8005)
	vport(0xF3, ib.StateDown, -1, 0xFFFF, 0x8005)
	vport(0xF4, ib.StateActive, 7, 0xFFFF, 0x8005, 5)
	s.Finish()
	why := func(k ib.PKey, g ib.GUID) string {
		t.Helper()
		r := s.Ready(k, []ib.GUID{g, g})
		if len(r.Members) != 1 || r.Absent+r.Pending+r.Ready != 1 || r.PKey != k || r.Done() != (r.Pending == 0) {
			t.Fatalf("%+v", r)
		}
		m := r.Members[0]
		if (m.State == MemberPending) != (m.Why != "") || (m.State == MemberAbsent) != (m.Port < 0) {
			t.Fatalf("%+v", m)
		}
		return m.State.String() + " " + m.Why
	}
	for _, c := range []struct {
		k    ib.PKey
		g    ib.GUID
		want string
	}{
		{5, 11, "ready "},
		{0x8005, 11, "pending it is still a limited"},
		{5, 0xA1, "ready "},
		{6, 0xA1, "pending its P_Key table does not"},
		{0x8005, 41, "ready "},
		{5, 41, "pending it is still a full"},
		{5, 51, "pending its P_Key table was not"},
		{0x8005, 0xF1, "ready "},
		{0x8005, 0xF2, "pending its virtual port is not up yet"},
		{0x8005, 0xF3, "absent "},
		{5, 0xF1, "pending it is still a full"},
		{5, 0xF4, "ready "},
		{0x8005, 0xF4, "ready "},
		{5, 0x999, "absent "},
		{5, 0, "absent "},
	} {
		if got := why(c.k, c.g); !strings.HasPrefix(got, c.want) || c.want == "ready " && got != c.want {
			t.Errorf("P_Key %v, port %v: %q, want %q", c.k, c.g, got, c.want)
		}
	}
	edge := s.at(sw2, 1)
	edge.Info.PartitionEnforcementInbound = true
	for _, g := range []ib.GUID{41, 0xF1} {
		if got := why(0x8005, g); !strings.HasPrefix(got, "pending the switch port before it") {
			t.Errorf("at an edge without the key: %q", got)
		}
	}
	edge.PKeys = []ib.PKey{0xFFFF, 0x8005}
	r := s.Ready(0x8005, []ib.GUID{0xF2, 41, 0x999, 0xF1, 41})
	var got []ib.GUID
	for _, m := range r.Members {
		got = append(got, m.GUID)
	}
	if !slices.Equal(got, []ib.GUID{0xF2, 41, 0x999, 0xF1}) || r.Absent != 1 || r.Pending != 1 || r.Ready != 2 || r.Done() {
		t.Errorf("%+v", r)
	}
	full := s.at(hostA, 1)
	full.PKeys = []ib.PKey{0x8005}
	if got := why(5, 0xA1); got != "ready " {
		t.Errorf("a limited alias at a port that is a full member for another: %q", got)
	}
}
