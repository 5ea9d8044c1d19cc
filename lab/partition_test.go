package lab

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/need"
	"heddle/mad"
	"heddle/partition"
	"heddle/sim"
	"heddle/sm"
)

// randomPolicy gives a few keys to tenants at random: the same keys come again
// and again, at other tenants.
func randomPolicy(rng *rand.Rand, f *fabric.Fabric, vms int) *partition.Policy {
	as := func() partition.Membership { return partition.Limited + partition.Membership(rng.IntN(3)) }
	p := &partition.Policy{}
	for key := ib.PKey(1); key <= 4; key++ {
		if rng.IntN(3) == 0 {
			continue
		}
		q := partition.Partition{PKey: key, Name: string(rune('A' + rng.IntN(3))), Index0: rng.IntN(4) == 0}
		for i := range f.Nodes {
			if n := &f.Nodes[i]; !n.IsSwitch() && rng.IntN(2) == 0 {
				q.Members = append(q.Members, partition.Member{GUID: n.Ports[1].GUID, As: as()})
			}
		}
		q.Members = append(q.Members, randomVMs(rng, vms)...)
		switch rng.IntN(10) {
		case 0:
			q.Members = append(q.Members, partition.Member{Kind: partition.AllCAs, As: as()})
		case 1:
			q.Members = append(q.Members, partition.Member{Kind: partition.AllSwitches, As: as()})
		case 2:
			q.Members = append(q.Members, partition.Member{Kind: partition.Self, As: as()})
		case 3:
			q.Members = append(q.Members, partition.Member{GUID: 0xABCDEF, As: as()}) // nobody, so far
		}
		p.Partitions = append(p.Partitions, q)
	}
	def := partition.Partition{Name: "Default", PKey: partition.DefaultKey, Members: []partition.Member{{Kind: partition.All, As: partition.Limited}, {Kind: partition.Self, As: partition.Full}}}
	if rng.IntN(3) == 0 {
		def.Members[0].As = partition.Full
	}
	p.Partitions = append(p.Partitions, def)
	return p
}

// partitionDrill is one seeded run: transactions of partitions while MADs are
// lost, doubled and reordered, links and nodes fail and return, and the
// manager is killed and started again.
type partitionDrill struct {
	seed uint64
	rng  *rand.Rand
	c    *Cluster
	m    *Manager
	j    *pkeyJudge
	cfg  sm.Config
	tag  uint64
	log  []string
	vms  int // virtual machines that come, go and move meanwhile; 0: none

	base    *partition.Policy
	members []partition.Partition
	routing *drawn
	probed  int // packets that arrived
	moved   int
}

func (d *partitionDrill) note(format string, a ...any) {
	d.log = append(d.log, fmt.Sprintf("%12v ", time.Duration(d.c.Sim.Now()))+fmt.Sprintf(format, a...))
}

func (d *partitionDrill) set() {
	d.tag++
	if d.vms > 0 && d.rng.IntN(2) == 0 {
		d.setMembers()
		return
	}
	p := randomPolicy(d.rng, d.c.Fabric, d.vms)
	fails := d.rng.IntN(12)
	switch fails {
	case 0:
		p.Partitions[0].PKey |= 0x8000 // not valid
	case 1:
		d.m.Store.FailNext = 1
	}
	if d.m.Dead {
		return
	}
	inForce, err := p.With(d.members)
	if err != nil {
		inForce = p // it is refused
	}
	d.j.propose(d.tag, inForce)
	var b strings.Builder
	_ = p.Format(&b)
	d.note("policy %d (store fails: %v): %s", d.tag, fails == 1, strings.Join(strings.Fields(b.String()), " "))
	d.m.SetPartitions(p, d.tag)
	d.m.Store.FailNext = 0
	if n := lastNotice(d.m, sm.KindPartitionsRefused); n == nil || n.Tag != d.tag {
		d.base = p
	}
	d.j.read(d.m)
}

func (d *partitionDrill) restart() {
	old := d.m
	old.Kill()
	m, err := d.c.Attach(old.Node, d.cfg, old.Store.Reopen())
	if err != nil {
		d.note("restart: %v", err)
		return
	}
	if d.vms > 0 {
		m.SetMembers(d.members, 0)
	}
	if err := m.Start(); err != nil {
		d.note("restart: %v", err)
		return
	}
	d.note("manager killed and started again")
	d.m, d.j.m, d.j.told = m, m, 0
	d.routing.watch(m)
}

func (d *partitionDrill) run() error {
	d.rng = rand.New(rand.NewPCG(d.seed, 0x706B6579))
	d.routing = drawRouting(d.seed)
	f := d.routing.fabric
	loss := pick(d.seed, "loss", 0, 0.02, 0.1)
	var err error
	d.c, err = NewCluster(f, sim.Config{
		Seed: d.seed, HopLatency: time.Microsecond, SMALatency: 5 * time.Microsecond, Jitter: 2 * time.Microsecond,
		TrainDelay: time.Duration(d.rng.IntN(3)) * time.Millisecond,
		Drop:       loss, Duplicate: loss, Reorder: loss, ReorderMax: 30 * time.Millisecond,
		PartitionCap: []uint16{64, 32, 100}[d.rng.IntN(3)],
	})
	if err != nil {
		return err
	}
	d.j = newPKeyJudge(d.c)
	d.j.late = loss > 0
	d.base = partition.Default()
	d.j.propose(0, d.base)
	d.cfg = TrialConfig()
	d.routing.apply(&d.cfg)
	d.note("%s, loss %v", d.routing.what, loss)

	if d.vms > 0 {
		if err := d.placeVMs(); err != nil {
			return err
		}
	}
	if d.m, err = d.c.Start(firstCA(f), d.cfg, nil); err != nil {
		return err
	}
	d.routing.watch(d.m)
	d.j.m = d.m
	span := 6 * time.Second
	cab, sws := cables(f), switches(f)
	var hosts []string
	for i := range f.Nodes {
		if n := &f.Nodes[i]; !n.IsSwitch() && n.ID != d.m.Node {
			hosts = append(hosts, n.ID)
		}
	}
	s := d.c.Sim
	at := func() mad.Time { return mad.Time(d.rng.Int64N(int64(span))) }
	for range 2 + d.rng.IntN(6) {
		s.At(at(), d.set)
	}
	if pick(d.seed, "faults", true, true, true, false) {
		for range d.rng.IntN(8) {
			host, sw, cable := hosts[d.rng.IntN(len(hosts))], f.Nodes[sws[d.rng.IntN(len(sws))]].ID, cab[d.rng.IntN(len(cab))]
			id, port := f.Nodes[cable.Node].ID, int(cable.Port)
			when, back, what := at(), at(), d.rng.IntN(8)
			s.At(when, func() {
				d.note("fault %d: %s, %s, %s[%d]", what, host, sw, id, port)
				switch what {
				case 0, 1:
					_ = s.LinkDown(host, 1)
					s.At(max(when, back), func() { _ = s.LinkUp(host, 1) })
				case 2, 3:
					_ = s.LinkDown(id, port)
					s.At(max(when, back), func() { _ = s.LinkUp(id, port) })
				case 4:
					_ = s.NodeUp(host) // a reset
				case 5:
					_ = s.NodeUp(sw)
				case 6:
					_ = s.MuteSMA(host, true)
					s.At(max(when, back), func() { _ = s.MuteSMA(host, false) })
				case 7:
					d.restart()
				}
			})
		}
	}
	d.planVMs(at)
	if pick(d.seed, "kill", true, false) {
		s.At(at(), func() { d.m.KillAfter = 1 + d.rng.IntN(40) })
		s.At(mad.Time(span), func() {
			if d.m.Dead {
				d.restart()
			}
		})
	}
	d.c.Run(span)
	s.SetDrop(0)
	s.SetDuplicate(0)
	s.SetReorder(0)
	for _, r := range cab {
		_ = s.LinkUp(f.Nodes[r.Node].ID, int(r.Port))
	}
	for _, h := range hosts {
		_ = s.LinkUp(h, 1)
		_ = s.MuteSMA(h, false)
	}
	if d.m.Dead {
		d.restart()
	}
	d.m.KillAfter = 0
	d.note("calm")
	// Bound: the longest pause between tries, and twice the life of late copies.
	if err := d.c.RunUntil(40*time.Second, func() bool { return d.m.Up() && d.j.settled() == "" }); err != nil {
		return fmt.Errorf("not settled: %s", d.j.settled())
	}
	d.c.Run(12 * time.Second)
	switch {
	case d.j.settled() != "":
		return fmt.Errorf("settled, but not for long: %s", d.j.settled())
	case d.vmsMeet() != "":
		return fmt.Errorf("%s", d.vmsMeet())
	case len(d.j.wrong) > 0:
		return fmt.Errorf("%s", strings.Join(d.j.wrong, "\n"))
	}
	return d.c.Check(d.m)
}

// TestPartitionDrill: no port ever holds a P_Key that no current or pending policy grants it. A
// key that changes owners is granted to no new one before all old ones have lost it. Keys that
// stay keep their index. When faults stop, the tables agree with the last policy within a
// bounded time.
func TestPartitionDrill(t *testing.T) {
	writes, engines, list := 0, inForce{}, need.Seeds(100, 20_000)
	for _, s := range list {
		d := &partitionDrill{seed: s}
		if err := d.run(); err != nil {
			t.Fatalf("replay with HEDDLE_SEED=%d: %v\n%s\nmanager:\n%s", s, err, strings.Join(d.log, "\n"), strings.Join(d.m.Events(sm.Info), "\n"))
		}
		writes += d.j.writes
		engines.add(d.routing.inForce)
	}
	engines.check(t, uint64(len(list)))
	if writes == 0 {
		t.Error("no P_Key table was ever written")
	}
}
