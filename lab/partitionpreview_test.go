package lab

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/partition"
	"heddle/partition/preview"
	"heddle/sim"
	"heddle/subnet"
)

// keyWrites is what a manager wrote for a change of partitions.
type keyWrites struct {
	hosts, switches   int // Set(P_KeyTable)
	hostAt, switchAt  map[string]bool
	enforced, stopped int
	nodes             map[string]bool // switches
}

// watchKeys has what agents are told counted from now on.
func watchKeys(c *Cluster) *keyWrites {
	w := &keyWrites{hostAt: map[string]bool{}, switchAt: map[string]bool{}, nodes: map[string]bool{}}
	c.Sim.OnChange = func(x sim.Change) {
		if x.Kind != sim.ChangeSet {
			return
		}
		at := fmt.Sprintf("%d %#x", x.Node, x.AttrMod)
		sw := c.Fabric.Nodes[x.Node].IsSwitch()
		switch {
		case x.Attr == smp.AttrPKeyTable && sw && x.AttrMod>>16 != 0:
			w.switches++
			w.switchAt[at] = true
			w.nodes[fmt.Sprint(x.Node)] = true
		case x.Attr == smp.AttrPKeyTable:
			w.hosts++
			w.hostAt[at] = true
		case x.Attr == smp.AttrPortInfo && sw:
			var pi smp.PortInfo
			if pi.Decode(x.Data) != nil {
				return
			}
			w.nodes[fmt.Sprint(x.Node)] = true
			if pi.PartitionEnforcementInbound || pi.PartitionEnforcementOutbound {
				w.enforced++
			} else {
				w.stopped++
			}
		}
	}
	return w
}

// memberships are the P_Keys of end ports, by GUID.
func memberships(s *subnet.Snapshot) map[ib.GUID][]ib.PKey {
	out := map[ib.GUID][]ib.PKey{}
	for _, i := range s.EndPortPort {
		keys := slices.DeleteFunc(slices.Clone(s.Ports[i].PKeys), ib.PKey.IsEmpty)
		slices.Sort(keys)
		out[s.Ports[i].GUID] = keys
	}
	return out
}

// randomPartitions is a policy of hosts 0 to 9 and of some that are not there; names change now and then.
func randomPartitions(rng *rand.Rand, c *Cluster) *partition.Policy {
	p := &partition.Policy{}
	for k := ib.PKey(1); k <= 40; k++ {
		if rng.IntN(3) != 0 {
			continue
		}
		q := partition.Partition{Name: fmt.Sprintf("p%d-%d", k, rng.IntN(6)/5), PKey: k, Index0: rng.IntN(8) == 0}
		if rng.IntN(6) == 0 {
			q.Members = append(q.Members, partition.Member{Kind: partition.AllCAs + partition.Kind(rng.IntN(4)), As: partition.Limited})
		}
		for range rng.IntN(4) + 1 {
			g := ib.GUID(0xDEAD000 + rng.IntN(3))
			if rng.IntN(5) > 0 {
				g = hostGUID(c, rng.IntN(10))
			}
			q.Members = append(q.Members, partition.Member{GUID: g, As: partition.Limited + partition.Membership(rng.IntN(3))})
		}
		if rng.IntN(3) == 0 {
			q.Groups = []partition.Group{partition.Broadcast(k)}
		}
		p.Partitions = append(p.Partitions, q)
	}
	def := partition.Partition{Name: "Default", PKey: partition.DefaultKey, Members: []partition.Member{{Kind: partition.All, As: partition.Full - partition.Membership(rng.IntN(2))}}}
	p.Partitions = append(p.Partitions, def)
	if rng.IntN(8) == 0 {
		return partition.Default()
	}
	return p
}

// TestPartitionPreview: for a sequence of random policies, what a preview says is what the manager
// does then: the requests for tables of hosts and of switches and for enforcement, and which ports
// gain, lose and change which memberships.
func TestPartitionPreview(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { previewTrial(t, seed) })
	}
}

func previewTrial(t *testing.T, seed uint64) {
	c, m := bringUp(t, gen(t, "xgft", "2", "4,4", "1,2"), sim.Config{}, quietConfig())
	rng := rand.New(rand.NewPCG(seed, seed))
	m.apply(t, policyOf(t, c, "Default:ALL=full; a=5:H1=full;"), 1) // has the tables of switch ports read
	waited, both := 0, 0
	var vms []partition.Partition
	for tag := uint64(2); tag < 80; tag++ {
		if tag%7 == 0 {
			vms = []partition.Partition{members(c, "", ib.PKey(1+rng.IntN(40)), rng.IntN(10), rng.IntN(10))}
			vms[0].Name = vms[0].PKey.String()
			m.addMembers(t, 1000+tag, vms...)
		}
		c.Run(10 * time.Second) // tables that were just written are read once more
		p := randomPartitions(rng, c)
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		st := m.Status().Partitions
		now := preview.Now{Snap: m.Snap, InForce: st.InForce, Base: st.Base, Members: vms, Quarantined: st.Quarantined, EnforceIn: true, EnforceOut: true}
		plan, err := preview.Compute(&now, p)
		if err != nil {
			t.Fatal(err)
		}
		before, w := memberships(m.Snap), watchKeys(c)
		m.apply(t, p, tag)
		c.Sim.OnChange = nil
		what := fmt.Sprintf("change %d: %+v\n%s", tag, plan, strings.Join(partition.Diff(now.Base, p), "\n"))
		if w.hosts != plan.Hosts.Writes || len(w.hostAt) < plan.Hosts.Blocks || w.switches != plan.Switches.Writes || len(w.switchAt) < plan.Switches.Blocks {
			t.Fatalf("written: %d for hosts in %d blocks, %d for switches in %d blocks\n%s", w.hosts, len(w.hostAt), w.switches, len(w.switchAt), what)
		}
		if w.enforced != plan.EnforceOn || w.stopped != plan.EnforceOff || len(w.nodes) != plan.SwitchCount {
			t.Fatalf("%d switch ports begin to enforce, %d end; switches %v\n%s", w.enforced, w.stopped, slices.Sorted(maps.Keys(w.nodes)), what)
		}
		sameChanges(t, what, plan, before, memberships(m.Snap))
		if len(plan.Waiting) > 0 {
			waited++
		}
		if plan.Hosts.Writes > plan.Hosts.Blocks {
			both++
		}
	}
	if waited < 10 || both < 10 {
		t.Errorf("%d changes with P_Keys that wait, %d with blocks that are written twice", waited, both)
	}
}

// sameChanges compares the changes of a plan with those of tables.
func sameChanges(t *testing.T, what string, plan *preview.Plan, before, after map[ib.GUID][]ib.PKey) {
	t.Helper()
	got, want := map[string]int{}, map[string]int{}
	for i := range plan.Changes {
		x := &plan.Changes[i]
		got[fmt.Sprintf("%v %d to %d", x.PKey, x.From, x.To)] = x.Count
	}
	as := func(list []ib.PKey, k ib.PKey) (m partition.Membership) {
		for _, x := range list {
			switch {
			case x.Base() != k:
			case m != 0:
				m = partition.Both
			case x.IsFull():
				m = partition.Full
			default:
				m = partition.Limited
			}
		}
		return m
	}
	ports := 0
	for g := range before {
		bases := map[ib.PKey]bool{}
		for _, k := range slices.Concat(before[g], after[g]) {
			bases[k.Base()] = true
		}
		changed := false
		for k := range bases {
			if x, y := as(before[g], k), as(after[g], k); x != y {
				want[fmt.Sprintf("%v %d to %d", k, x, y)]++
				changed = true
			}
		}
		if changed {
			ports++
		}
	}
	if !maps.Equal(got, want) || ports != plan.Ports {
		t.Fatalf("%d ports: %v\nwant %d: %v\n%s", plan.Ports, got, ports, want, what)
	}
}
