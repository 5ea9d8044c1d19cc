package preview

import (
	"slices"
	"strings"
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/fabrictest"
	"heddle/internal/snaptest"
	"heddle/internal/vmtest"
	"heddle/partition"
	"heddle/subnet"
	"heddle/vm"
)

// hosts is a subnet without routes; index has the index in Ports of each host's port, in their order.
func hosts(tb testing.TB, kind string, params ...string) (s *subnet.Snapshot, index []int32) {
	tb.Helper()
	f, err := fabrictest.Generate(kind, params, 1)
	if err != nil {
		tb.Fatal(err)
	}
	if err := fabric.AssignLIDs(f, 1); err != nil {
		tb.Fatal(err)
	}
	g, err := f.Graph(fabric.GraphOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	s = snaptest.With(f, g, nil)
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Info.PartitionCap = 32; n.Info.NodeType == ib.NodeSwitch {
			n.Switch.PartitionEnforcementCap, n.Switch.InboundEnforcementCap, n.Switch.OutboundEnforcementCap = 32, true, true
		}
	}
	for i, p := range s.Ports {
		p.PKeys = []ib.PKey{ib.PKeyDefaultFull}
		if p.EndPort >= 0 && s.Nodes[p.Node].Info.NodeType != ib.NodeSwitch {
			index = append(index, int32(i))
		}
	}
	return s, index
}

func policy(tb testing.TB, text string) *partition.Policy {
	tb.Helper()
	p, _, err := partition.Parse(strings.NewReader(text), "policy")
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// now is the state of a subnet with a policy that is carried out.
func now(s *subnet.Snapshot, p *partition.Policy) *Now {
	return &Now{Snap: s, Base: p, InForce: p, EnforceIn: true, EnforceOut: true}
}

func compute(t *testing.T, n *Now, p *partition.Policy) *Plan {
	t.Helper()
	out, err := Compute(n, p)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestAliases: an alias makes its port a member if an administrator or the address manager gave it,
// and if the port holds it; one that a host chose is an address alone.
func TestAliases(t *testing.T) {
	s, at := hosts(t, "xgft", "2", "4,4", "1,2")
	const alias ib.GUID = 0xAB
	s.Ports[at[1]].Aliases = []ib.GUID{0, alias}
	s.Finish()
	open := policy(t, "Default=0x7fff: ALL=full;")
	next := policy(t, "Default=0x7fff: ALL=full;\na=5: 0xab=full;")
	for _, c := range []struct {
		what    string
		aliases []subnet.Alias
		vms     *vm.View
		ports   int
	}{
		{"a host chose it", []subnet.Alias{{Port: s.Ports[at[1]].GUID, Index: 1, GUID: alias}}, nil, 0},
		{"an administrator gave it", []subnet.Alias{{Port: s.Ports[at[1]].GUID, Index: 1, GUID: alias, Carries: true}}, nil, 1},
		{"another port is to have it", []subnet.Alias{{Port: s.Ports[at[2]].GUID, Index: 1, GUID: alias, Carries: true}}, nil, 0},
		{"an interface without a place", nil, vmtest.View(t, vm.Create{I: vm.Interface{Name: "web", GUID: alias}}), 0},
	} {
		n := now(s, open)
		n.Aliases, n.VMs = c.aliases, c.vms
		p := compute(t, n, next)
		if p.Ports != c.ports || len(p.Pending) != 0 {
			t.Errorf("%s: %+v", c.what, p)
		}
		if c.vms != nil && (p.Interfaces != 1 || !slices.Equal(p.Names, []string{"web"})) {
			t.Errorf("%s: %+v", c.what, p)
		}
	}
}

// TestKept: a P_Key that stays although no policy grants it stays in its table, unless the new policy
// says something about it.
func TestKept(t *testing.T) {
	s, at := hosts(t, "xgft", "2", "4,4", "1,2")
	p := s.Ports[at[0]]
	p.PKeys = []ib.PKey{ib.PKeyDefaultFull, 0x8009}
	s.Kept = []subnet.Kept{{Place: subnet.Place{Port: p.GUID}, GUID: p.GUID, PKey: 0x8009}}
	n := now(s, policy(t, "Default=0x7fff: ALL=full;"))
	n.EnforceIn, n.EnforceOut = false, false
	if got := compute(t, n, policy(t, "Default=0x7fff: ALL=full;\na=5: 0x77=full;")); got.Hosts.Writes != 0 {
		t.Errorf("%+v", got)
	}
	if got := compute(t, n, policy(t, "Default=0x7fff: ALL=full;\na=9: 0x77=full;")); got.Hosts.Writes != 1 || got.Ports != 0 {
		t.Errorf("%+v", got)
	}
}

// TestNoSpace: ports and switch ports whose table has no space are counted, and members of virtual
// machines that the policy has no place for are an error.
func TestNoSpace(t *testing.T) {
	s, at := hosts(t, "xgft", "2", "4,4", "1,2")
	s.Nodes[s.Ports[at[0]].Node].Info.PartitionCap = 2
	sw := &s.Nodes[s.Ports[at[0]].Peer.Node].Switch
	sw.PartitionEnforcementCap = 3
	n := now(s, policy(t, "Default=0x7fff: ALL=full;"))
	got := compute(t, n, policy(t, "Default=0x7fff: ALL=full;\na=5: ALL_CAS;\nb=6: ALL_CAS;\nc=7: ALL_CAS;"))
	if got.Overflow.Count != 1 || got.Overflow.First[0] != at[0] || got.Crowded != 4 || got.EnforceOn != 12 {
		t.Errorf("%+v", got)
	}
	group := partition.Group{MGID: ib.GID{0xFF, 0x12, 9}, MTU: 4, Rate: 3}
	n.Members = []partition.Partition{{Name: "0x0009", PKey: 9, Members: []partition.Member{{GUID: 1, As: partition.Full}}, Groups: []partition.Group{group}}}
	next, err := partition.Default().With([]partition.Partition{{Name: "x", PKey: 8, Members: n.Members[0].Members, Groups: []partition.Group{group}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Compute(n, next); err == nil || !strings.Contains(err.Error(), "0x0009") {
		t.Errorf("%v", err)
	}
}

// BenchmarkCompute is a plan for 11,664 hosts: of one member more, and of a change that every port is
// part of.
func BenchmarkCompute(b *testing.B) {
	s, at := hosts(b, "fattree", "11664")
	open := policy(b, "Default=0x7fff: ALL=full;\na=5: "+s.Ports[at[3]].GUID.String()+"=full;")
	for name, text := range map[string]string{
		"member": "Default=0x7fff: ALL=full;\na=5: " + s.Ports[at[3]].GUID.String() + "=full, " + s.Ports[at[9]].GUID.String() + ";",
		"all":    "Default=0x7fff: ALL=limited, SELF=full;\na=5: ALL_CAS=limited;\nb=6: ALL=full;",
	} {
		b.Run(name, func(b *testing.B) {
			n, next := now(s, open), policy(b, text)
			for b.Loop() {
				if _, err := Compute(n, next); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
