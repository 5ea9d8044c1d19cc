package lab

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/internal/fabrictest"
	"heddle/mad"
	"heddle/sa"
	"heddle/subnet"
	"heddle/subnet/mirror"
)

// mirrored is a mirror of a manager's snapshots, which must answer like them.
type mirrored struct {
	enc    *mirror.Encoder
	mirror mirror.Mirror
	seen   *subnet.Snapshot
	sizes  []int
	asked  int
}

func newMirrored(stream uint64) *mirrored { return &mirrored{enc: mirror.NewEncoder(stream)} }

// follow brings the mirror to a snapshot. It returns the size of the message.
func (x *mirrored) follow(s *subnet.Snapshot) (size int, err error) {
	msg := x.enc.Next(s)
	x.sizes = append(x.sizes, len(msg))
	x.seen = s
	if err := x.mirror.Apply(msg); err != nil {
		return 0, err
	}
	if g := x.mirror.Generation(); g != s.Gen {
		return 0, fmt.Errorf("generation %d, not %d", g, s.Gen)
	}
	return len(msg), x.mirror.Snapshot().Check()
}

// mirrorKey is an SA_Key, with which nothing is hidden.
const mirrorKey = 0x77

// compare asks the mirrored snapshot and the mirror the same questions: n paths between ports drawn,
// and, with tables, whole tables of every kind.
func (x *mirrored) compare(view *sa.View, rng *rand.Rand, n int, tables bool) error {
	a, b := x.seen, x.mirror.Snapshot()
	opt := &sa.Options{SAKey: mirrorKey, PathCaching: 5}
	ask := func(from mad.Addr, q []byte) error {
		req := &sa.Request{From: from, Data: q}
		want, v := sa.Answer(&sa.Source{Snap: a, View: view, Opt: opt}, req, nil)
		want = bytes.Clone(want)
		got, w := sa.Answer(&sa.Source{Snap: b, View: view, Opt: opt}, req, nil)
		x.asked++
		if v != w || !bytes.Equal(got, want) {
			return fmt.Errorf("generation %d: a query of attribute %#x from LID %v is answered with %d and %d bytes, verdicts %d and %d",
				a.Gen, q[16:18], from.LID, len(got), len(want), w, v)
		}
		return nil
	}
	if len(a.EndPortPort) == 0 {
		return nil
	}
	draw := func() int32 {
		if v := a.VPorts(); len(v) > 0 && rng.IntN(2) == 0 {
			return a.FirstVPort() + int32(rng.IntN(len(v)))
		}
		return a.EndPortPort[rng.IntN(len(a.EndPortPort))]
	}
	for _, key := range []uint64{0, mirrorKey} {
		if !tables {
			break
		}
		from := mad.Addr{LID: a.Ports[draw()].LID, QP: 1}
		for attr := ib.AttrID(0x11); attr <= 0x3E; attr++ {
			if err := ask(from, saQuery(ib.MethodGetTable, attr, key, 0, nil)); err != nil {
				return err
			}
		}
		for attr := ib.AttrID(0xFF10); attr < 0xFFC0; attr++ { // virtualization and our own
			if err := ask(from, saQuery(ib.MethodGetTable, attr, key, 0, nil)); err != nil {
				return err
			}
		}
	}
	for range n {
		i, j := draw(), draw()
		p, q := a.Ports[i], a.Ports[j]
		r := wire.PathRecord{SGID: a.GID(i), DGID: a.GID(j), SLID: p.LID, DLID: q.LID + ib.LID(rng.IntN(1<<q.LMC)), NumbPath: uint8(1 + rng.IntN(8))}
		mask := []wire.CompMask{
			wire.PathCompSGID | wire.PathCompDGID, wire.PathCompSLID | wire.PathCompDLID, wire.PathCompSGID | wire.PathCompDLID,
			wire.PathCompSGID | wire.PathCompDGID | wire.PathCompNumbPath,
		}[rng.IntN(4)]
		key := []uint64{0, mirrorKey}[rng.IntN(2)]
		method := []ib.Method{ib.MethodGet, ib.MethodGetTable}[rng.IntN(2)]
		if err := ask(mad.Addr{LID: p.LID, QP: 1}, saQuery(method, wire.AttrPathRecord, key, mask, r.Put)); err != nil {
			return err
		}
	}
	return nil
}

func saQuery(method ib.Method, attr ib.AttrID, key uint64, mask wire.CompMask, put func(b []byte)) []byte {
	var m ib.MAD
	wire.New(&m, method, attr, 0, mask)
	m.SetTID(0x1122)
	var h wire.Header
	if err := h.Decode(m[:]); err != nil {
		panic(err)
	}
	h.SMKey = key
	h.Put(m[:])
	if put != nil {
		put(wire.Data(&m))
	}
	return m[:]
}

// watchMirrors follows the managers of every cluster that is made until the test ends, looking every
// so often, and returns how many snapshots were compared and how many questions were asked.
func watchMirrors(t *testing.T, every time.Duration) (looks, asked func() int) {
	t.Helper()
	before := observe
	n, questions := 0, 0
	observe = func(c *Cluster) {
		if before != nil {
			before(c)
		}
		rng := rand.New(rand.NewPCG(1, 2))
		follow := map[*Manager]*mirrored{}
		var look func()
		look = func() {
			for _, m := range c.Managers {
				s := m.Snap
				if m.Dead || s == nil || !s.Up || s.State != subnet.Master {
					continue
				}
				x := follow[m]
				if x == nil {
					x = newMirrored(uint64(len(follow) + 1))
					follow[m] = x
				}
				if x.seen == s {
					continue
				}
				_, err := x.follow(s)
				if err == nil {
					err = x.compare(m.View(), rng, 20, true)
				}
				if err != nil {
					t.Errorf("%s: %v", m.Node, err)
					return
				}
				n++
				questions += x.asked
				x.asked = 0
			}
			c.Sim.After(every, look)
		}
		c.Sim.After(every, look)
	}
	t.Cleanup(func() { observe = before })
	return func() int { return n }, func() int { return questions }
}

// TestMirrorAnswersAlike: a mirror that follows the snapshots of a manager by differences answers
// every query as these do, on networks of all kinds, with adapters of all models, while virtual
// machines move, links fail and managers are replaced.
func TestMirrorAnswersAlike(t *testing.T) {
	looks, asked := watchMirrors(t, 70*time.Millisecond)
	first, n := seeds(5, 300)
	for s := first; s < first+n; s++ {
		tr := vmTrial(s)
		tr.Production, tr.Settle = false, 5*time.Second
		tr.Gap = 50 * time.Millisecond
		if err := tr.Run(); err != nil {
			t.Logf("seed %d: %v", s, err) // the trial itself needs more time to settle
		}
		if t.Failed() {
			t.Fatalf("seed %d: %s", s, tr.What)
		}
	}
	t.Logf("%d snapshots, %d queries", looks(), asked())
	if looks() < 20*int(n) {
		t.Errorf("%d snapshots are too few", looks())
	}
}

// TestMirrorSmallDifferences: the difference that a link makes is small, and a host that leaves does
// not change what is said of others.
func TestMirrorSmallDifferences(t *testing.T) {
	f, err := fabrictest.Generate("xgft", []string{"2", "18,36", "1,18"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	c, m := serveUp(t, f, timed(3))
	x := newMirrored(1)
	whole, err := x.follow(m.Snap)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	links := func(of func(n *fabric.Node) bool) (name string, port int) {
		for {
			n := &f.Nodes[rng.IntN(len(f.Nodes))]
			k := 1 + rng.IntN(len(n.Ports)-1)
			if q := n.Ports[k].Peer; of(n) && q.Node >= 0 && f.Nodes[q.Node].IsSwitch() && n.ID != m.Node {
				return n.ID, k
			}
		}
	}
	var link, host []int
	for i := range 4 {
		name, port := links(func(n *fabric.Node) bool { return n.IsSwitch() == (i < 2) })
		for _, change := range []func(string, int) error{c.Sim.LinkDown, c.Sim.LinkUp} {
			if err := change(name, port); err != nil {
				t.Fatal(err)
			}
			for {
				was := m.Snap
				if c.RunUntil(5*time.Second, func() bool { return m.Snap != was }) != nil {
					break // nothing more happens
				}
				size, err := x.follow(m.Snap)
				if err == nil {
					err = x.compare(m.View(), rng, 200, false)
				}
				if err != nil {
					t.Fatal(err)
				}
				if i < 2 {
					link = append(link, size)
				} else {
					host = append(host, size)
				}
			}
		}
	}
	if err := x.compare(m.View(), rng, 0, true); err != nil {
		t.Error(err)
	}
	t.Logf("%d bytes whole; links: %v; hosts: %v", whole, link, host)
	for _, n := range append(link, host...) {
		if n > whole/5 {
			t.Errorf("a difference has %d bytes", n)
		}
	}
}
