package lab

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sim"
	"heddle/sm"
	"heddle/subnet"
)

// regionRun is a seeded schedule of failures and returns on a fabric that
// loses nothing, so that sweeps of regions do all the work.
type regionRun struct {
	c        *Cluster
	m        *Manager
	rng      *rand.Rand
	log      []string
	cables   []fabric.Ref
	nodes    []string // switches and hosts but the manager's
	regional int      // sweeps that were of a region
	full     int
	routing  *drawn
}

func newRegionRun(t testing.TB, seed uint64) *regionRun {
	t.Helper()
	r := &regionRun{rng: rand.New(rand.NewPCG(seed, 7)), routing: drawRouting(seed)}
	f := r.routing.fabric
	r.note("%s", r.routing.what)
	var err error
	if r.c, err = NewCluster(f, sim.Config{Seed: seed, HopLatency: time.Microsecond, SMALatency: 3 * time.Microsecond}); err != nil {
		t.Fatal(err)
	}
	cfg := TrialConfig()
	cfg.DampHold = 0
	r.routing.apply(&cfg)
	node := firstCA(f)
	if r.m, err = r.c.Start(node, cfg, nil); err != nil {
		t.Fatal(err)
	}
	mustUp(t, r.c, r.m)
	r.routing.watch(r.m)
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if n.ID != node {
			r.nodes = append(r.nodes, n.ID)
		}
		for p := 1; n.IsSwitch() && p <= n.NumPorts; p++ {
			if n.Ports[p].Cabled() {
				r.cables = append(r.cables, fabric.Ref{Node: int32(i), Port: uint8(p)})
			}
		}
	}
	return r
}

func (r *regionRun) note(format string, a ...any) { r.log = append(r.log, fmt.Sprintf(format, a...)) }

// change does something at random; some things happen while the manager is
// still busy with the one before.
func (r *regionRun) change() {
	s, f := r.c.Sim, r.c.Fabric
	for range 1 + r.rng.IntN(3) {
		x := r.cables[r.rng.IntN(len(r.cables))]
		id := f.Nodes[x.Node].ID
		y := r.nodes[r.rng.IntN(len(r.nodes))]
		switch r.rng.IntN(8) {
		case 0, 1:
			r.note("link %s[%d] down: %v", id, x.Port, s.LinkDown(id, int(x.Port)))
		case 2, 3:
			r.note("link %s[%d] up: %v", id, x.Port, s.LinkUp(id, int(x.Port)))
		case 4:
			r.note("link %s[%d] bounces: %v", id, x.Port, s.LinkDown(id, int(x.Port)))
			r.note("… %v", s.LinkUp(id, int(x.Port)))
		case 5:
			r.note("node %s down: %v", y, s.NodeDown(y))
		case 6:
			r.note("node %s up: %v", y, s.NodeUp(y))
		default:
			r.note("node %s down: %v", y, s.NodeDown(y))
			r.note("… and up: %v", s.NodeUp(y))
		}
		if r.rng.IntN(2) == 0 {
			r.c.Run(time.Duration(r.rng.IntN(2000)) * time.Microsecond)
		}
	}
}

// settle waits until the manager has nothing to do and holds a good subnet.
func (r *regionRun) settle() error {
	k := len(r.m.Notices)
	var err error
	r.c.Run(3 * time.Second) // a trap may be lost; the light sweep sees what it would have said
	for range 60 {
		r.c.Run(time.Second)
		if !r.m.linked() {
			return nil
		}
		if err = r.c.Check(r.m); err == nil && r.m.Up() && r.m.Idle() && len(r.m.Snap.Problems) == 0 {
			break
		}
		if err == nil {
			err = fmt.Errorf("lab: %+v", r.m.Status())
		}
	}
	for i := range r.m.Notices[k:] {
		if n := &r.m.Notices[k+i]; n.Kind == sm.KindSweepEnd {
			if n.Report.Region {
				r.regional++
			} else {
				r.full++
			}
		}
	}
	return err
}

// known is what a snapshot says of the fabric, without the routes to it and
// the tables, of which a full sweep may find others.
func known(s *subnet.Snapshot) *subnet.Snapshot {
	k := *s
	k.Gen, k.ActCount, k.Master.ActCount, k.SweepNanos = 0, 0, 0, 0
	k.Tables, k.Lanes, k.Engine, k.Transition, k.PassedOver, k.Problems = nil, nil, "", "", nil, nil
	k.Nodes = append([]subnet.Node(nil), s.Nodes...)
	for i := range k.Nodes {
		k.Nodes[i].Path = nil
		if k.Nodes[i].Info.NodeType == ib.NodeSwitch {
			k.Nodes[i].Info.LocalPortNum = 0 // that of the route
		}
	}
	if g := s.Graph; g != nil && len(g.Channels) == 0 {
		h := *g
		h.Channels = nil
		k.Graph = &h
	}
	k.Ports = slices.Clone(s.Ports)
	for i, p := range k.Ports {
		q := *p
		k.Ports[i] = &q
		if k.Nodes[k.Ports[i].Node].Info.NodeType == ib.NodeSwitch {
			k.Ports[i].Info.LocalPortNum = 0 // the same
		}
	}
	return &k
}

func differ(a, b *subnet.Snapshot) string {
	x, y := known(a), known(b)
	if reflect.DeepEqual(x, y) {
		return ""
	}
	var out strings.Builder
	if len(x.Nodes) != len(y.Nodes) {
		return fmt.Sprintf("%d nodes, a full sweep finds %d", len(x.Nodes), len(y.Nodes))
	}
	for i := range x.Nodes {
		if !reflect.DeepEqual(x.Nodes[i], y.Nodes[i]) {
			fmt.Fprintf(&out, "node\n%+v\n%+v\n", x.Nodes[i], y.Nodes[i])
		}
	}
	for i := range x.Ports {
		if !reflect.DeepEqual(x.Ports[i], y.Ports[i]) {
			fmt.Fprintf(&out, "port of %s\n%+v\n%+v\n", x.Nodes[x.Ports[i].Node].Desc, *x.Ports[i], *y.Ports[i])
		}
	}
	if !reflect.DeepEqual(x.Graph, y.Graph) {
		fmt.Fprintf(&out, "the graphs differ\n")
	}
	for u, v, i := reflect.ValueOf(*x), reflect.ValueOf(*y), 0; i < u.NumField(); i++ {
		f := u.Type().Field(i)
		if f.IsExported() && f.Name != "Nodes" && f.Name != "Ports" && f.Name != "Graph" && !reflect.DeepEqual(u.Field(i).Interface(), v.Field(i).Interface()) {
			fmt.Fprintf(&out, "%s: %v, %v\n", f.Name, u.Field(i), v.Field(i))
		}
	}
	return out.String()
}

// TestRegionOracle: after random failures and returns what sweeps of regions
// left is what a full sweep finds.
func TestRegionOracle(t *testing.T) {
	first, n := seeds(150, 10_000)
	regional, full, engines := 0, 0, inForce{}
	for s := first; s < first+n; s++ {
		r := newRegionRun(t, s)
		for range 6 {
			r.change()
			err := r.settle()
			if err == nil && r.m.linked() {
				before := r.m.Snap
				r.m.Sweep(false)
				if err = r.c.RunUntil(time.Minute, r.m.Idle); err == nil {
					if d := differ(before, r.m.Snap); d != "" {
						err = fmt.Errorf("what is known is not what is there:\n%s", d)
					}
				}
			}
			if err != nil {
				t.Fatalf("replay with HEDDLE_SEED=%d: %v\n%s\nmanager:\n%s", s, err, strings.Join(r.log, "\n"), strings.Join(r.m.Events(sm.Info), "\n"))
			}
		}
		regional += r.regional
		full += r.full
		engines.add(r.routing.inForce)
	}
	engines.check(t, n)
	if n > 1 && (regional == 0 || full > regional/4) {
		t.Errorf("%d sweeps of a region and %d full ones", regional, full)
	}
}

// TestRegionCost: a link that goes and comes back costs SMPs to the two
// switches only, whatever the size of the fabric.
func TestRegionCost(t *testing.T) {
	f := gen(t, "fattree", "324")
	cfg := TrialConfig()
	cfg.SweepInterval = 0
	c, m := bringUp(t, f, sim.Config{}, cfg)
	c.Run(5 * time.Second)
	var sw int
	for i := range f.Nodes {
		if f.Nodes[i].IsSwitch() && f.Nodes[f.Nodes[i].Ports[1].Peer.Node].IsSwitch() {
			sw = i
			break
		}
	}
	ports := f.Nodes[sw].NumPorts + f.Nodes[f.Nodes[sw].Ports[1].Peer.Node].NumPorts
	blocks := 0
	asked := map[string]int{}
	m.OnSend = func(p *mad.Packet) {
		k := (*ib.MAD)(p.Data)
		if k.AttrID() == smp.AttrLFT {
			blocks++ // of as many switches as there are entries that change
			return
		}
		asked[fmt.Sprintf("%v %s", k.Method(), ib.AttrName(k.Class(), k.AttrID()))]++
	}
	for _, change := range []func(string, int) error{c.Sim.LinkDown, c.Sim.LinkUp} {
		clear(asked)
		if err := change(f.Nodes[sw].ID, 1); err != nil {
			t.Fatal(err)
		}
		c.Run(5 * time.Second)
		total := 0
		for _, n := range asked {
			total += n
		}
		if total == 0 || total > 3*ports+40 {
			t.Errorf("%d SMPs besides LFT blocks for two switches with %d ports: %v", total, ports, asked)
		}
	}
	c.Run(20 * time.Second)
	if err := c.Check(m); err != nil {
		t.Error(err)
	}
}
