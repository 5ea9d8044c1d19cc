package lab

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/subnet"
)

// warmFault changes a subnet between what a standby knows of it and its takeover. Not every fabric
// has a place for every fault.
type warmFault struct {
	name string
	do   func(t *testing.T, c *Cluster, rng *rand.Rand, keep string)
}

// warmFaults end with those that exchange cables.
var warmFaults = []warmFault{
	{"a link between switches fails", func(t *testing.T, c *Cluster, rng *rand.Rand, _ string) {
		if n, p, ok := drawPort(c, rng, true, true, ""); ok {
			must(t, c.Sim.LinkDown(n, p))
		}
	}},
	{"a host is unplugged", func(t *testing.T, c *Cluster, rng *rand.Rand, keep string) {
		if n, p, ok := drawPort(c, rng, false, true, keep); ok {
			must(t, c.Sim.LinkDown(n, p))
		}
	}},
	{"a switch loses power", func(t *testing.T, c *Cluster, rng *rand.Rand, keep string) {
		if n, _, ok := drawPort(c, rng, true, true, keep); ok {
			must(t, c.Sim.NodeDown(n))
		}
	}},
	{"a switch restarts", func(t *testing.T, c *Cluster, rng *rand.Rand, keep string) {
		if n, _, ok := drawPort(c, rng, true, true, keep); ok {
			must(t, c.Sim.NodeDown(n))
			must(t, c.Sim.NodeUp(n))
		}
	}},
	{"a host restarts", func(t *testing.T, c *Cluster, rng *rand.Rand, keep string) {
		if n, _, ok := drawPort(c, rng, false, true, keep); ok {
			must(t, c.Sim.NodeDown(n))
			must(t, c.Sim.NodeUp(n))
		}
	}},
	{"two hosts change places", func(t *testing.T, c *Cluster, rng *rand.Rand, keep string) { swap(t, c, rng, false, keep) }},
	{"two cables between switches are crossed", func(t *testing.T, c *Cluster, rng *rand.Rand, keep string) { swap(t, c, rng, true, keep) }},
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// drawPort draws a port of a switch or of a host whose cable leads to a switch, but not of the node
// keep or of the switch before it.
func drawPort(c *Cluster, rng *rand.Rand, isSwitch, cabled bool, keep string) (node string, port int, ok bool) {
	f := c.Fabric
	for range 200 {
		n := &f.Nodes[rng.IntN(len(f.Nodes))]
		p := 1 + rng.IntN(n.NumPorts)
		q := n.Ports[p].Peer
		if n.IsSwitch() != isSwitch || n.ID == keep || cabled && (q.Node < 0 || !f.Nodes[q.Node].IsSwitch()) {
			continue
		}
		near := false
		for k := 1; k <= n.NumPorts; k++ {
			near = near || isSwitch && n.Ports[k].Peer.Node >= 0 && f.Nodes[n.Ports[k].Peer.Node].ID == keep
		}
		if !near {
			return n.ID, p, true
		}
	}
	return "", 0, false
}

// swap exchanges the far ends of two cables.
func swap(t *testing.T, c *Cluster, rng *rand.Rand, isSwitch bool, keep string) {
	f := c.Fabric
	a, ap, ok := drawPort(c, rng, isSwitch, true, keep)
	b, bp, more := drawPort(c, rng, isSwitch, true, keep)
	if !ok || !more {
		return
	}
	far := func(name string, port int) (string, int) {
		n, err := c.Sim.Node(name)
		must(t, err)
		q := f.Nodes[n].Ports[port].Peer
		return f.Nodes[q.Node].ID, int(q.Port)
	}
	x, xp := far(a, ap)
	y, yp := far(b, bp)
	ends := map[string]bool{fmt.Sprint(a, ap): true, fmt.Sprint(b, bp): true, fmt.Sprint(x, xp): true, fmt.Sprint(y, yp): true}
	if len(ends) < 4 {
		return
	}
	must(t, c.Sim.LinkDown(a, ap))
	must(t, c.Sim.LinkDown(b, bp))
	must(t, c.Sim.Link(a, ap, y, yp))
	must(t, c.Sim.Link(b, bp, x, xp))
}

// TestWarmCampaign: whatever happens between what a manager knows from its predecessor and its
// takeover, and whether the predecessor saw it or not, the subnet is in order afterward, no LID is
// another one, and every table and every port gets what a manager that read the subnet first would
// write, no more.
func TestWarmCampaign(t *testing.T) {
	first, n := seeds(30, 1500)
	used, refused, faults := 0, 0, map[string]int{}
	for seed := first; seed < first+n; seed++ {
		k := RepairFabrics()[int(seed)%len(RepairFabrics())]
		f, err := k.Make(seed)
		if err != nil {
			t.Fatal(err)
		}
		loss := pick(seed, "loss", 0, 0, 0, 0.03)
		what := fmt.Sprintf("seed %d: %s, loss %v", seed, k.Name, loss)
		run := func(warm bool) *succession {
			rng := rand.New(rand.NewPCG(seed, 0x77))
			sc := timed(seed)
			sc.Jitter = 0
			c, was := serveUp(t, f, sc)
			var s *subnet.Snapshot
			if warm {
				s = mirrorOf(t, was.Snap)
			}
			hosts := cas(f)
			next := hosts[1+rng.IntN(len(hosts)-1)]
			seen := rng.IntN(3) == 0 // by the old master
			faulty := func() {
				list := warmFaults
				for range 1 + rng.IntN(3) {
					at := rng.IntN(len(list))
					x := list[at]
					if at >= len(warmFaults)-2 {
						list = warmFaults[:len(warmFaults)-2] // cables can be exchanged once
					}
					if warm {
						faults[x.name]++
					}
					x.do(t, c, rng, next)
				}
			}
			if seen {
				faulty()
				c.Run(3 * time.Second)
			}
			c.Sim.SetDrop(loss)
			return succeed(t, c, was, next, TrialConfig(), s, func() {
				if !seen {
					faulty()
					c.Run(time.Duration(rng.IntN(3)) * time.Millisecond)
				}
			})
		}
		cold, warm := run(false), run(true)
		for _, x := range []*succession{cold, warm} {
			mustUp(t, x.c, x.m)
			x.c.Run(time.Second)
			x.c.Sim.SetDrop(0)
			if err := x.c.RunUntil(20*time.Second, func() bool { return x.m.Up() && x.m.Idle() }); err != nil {
				t.Fatalf("%s: %v\n%s", what, err, tail(x.m))
			}
			if err := x.c.Check(x.m); err != nil {
				t.Fatalf("%s: %v\n%s", what, err, tail(x.m))
			}
		}
		if err := sameLIDs(cold.m.Snap, warm.m.Snap); err != nil {
			t.Fatalf("%s: %v\n%s", what, err, tail(warm.m))
		}
		if warm.served < cold.served {
			used++
		} else {
			refused++
		}
		if loss > 0 {
			continue // Sets are repeated then
		}
		bad := 0
		for w, k := range warm.sets {
			if have := cold.sets[w]; have == 0 && !harmless(w) || have < k && w.attr == smp.AttrLFT {
				if bad++; bad < 4 {
					for v := range cold.sets {
						if v.attr == w.attr && v.mod == w.mod && string(v.data[16:18]) == string(w.data[16:18]) {
							t.Logf("%x", v.data)
						}
					}
					t.Errorf("%s: Set(%v) %#x was sent %d times, and %d times by a manager that read the subnet first: %x", what, w.attr, w.mod, k, have, w.data)
				}
			}
		}
		if bad > 0 {
			t.Fatalf("%d Sets differ\n%s\n--- cold\n%s", bad, tail(warm.m), tail(cold.m))
		}
	}
	t.Logf("%d were served by what the predecessor published, %d were not; %v", used, refused, faults)
	if used < int(n)/3 {
		t.Errorf("only %d of %d takeovers used what the predecessor published", used, n)
	}
}

// harmless are Sets that clear what a switch reports: whether it reports is a matter of time.
func harmless(w written) bool { return w.attr == smp.AttrSwitchInfo }

// sameLIDs compares the LIDs of ports that both snapshots have.
func sameLIDs(a, b *subnet.Snapshot) error {
	lids := map[ib.GUID]ib.LID{}
	for _, i := range a.EndPortPort {
		lids[a.Ports[i].GUID] = a.Ports[i].LID
	}
	if len(lids) != len(b.EndPortPort) {
		return fmt.Errorf("%d ports have LIDs, and %d if the subnet is read first", len(b.EndPortPort), len(lids))
	}
	for _, i := range b.EndPortPort {
		if p := b.Ports[i]; lids[p.GUID] != p.LID {
			return fmt.Errorf("port %v has LID %v, and %v if the subnet is read first", p.GUID, p.LID, lids[p.GUID])
		}
	}
	return nil
}
