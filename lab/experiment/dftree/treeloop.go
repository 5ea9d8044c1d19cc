package dftree

import (
	"fmt"
	"slices"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/lab/experiment/bed"
	"heddle/mad"
	"heddle/sim/dataplane"
	"heddle/sim/host/saclient"
)

// Figure 13 with the real loop (P4.10): counters of all ports are read, the detector finds
// the hot spots, the SA notifies the hosts, and these change the level of what they send
// there. Traffic is streams, so a host changes a level as soon as its notice has come.

const (
	// treeInterval is that of the performance manager, for each host: 2 ms for 648.
	treeInterval = 3 * time.Microsecond
	// treeLoopWarm is for how many intervals hosts send before the steady state is measured.
	treeLoopWarm = 10
	// maxLoopTree is how many hosts a tree with the real loop has at most.
	maxLoopTree = 648
)

// treeLoop is what it gave, as shares of what a host can send.
type treeLoop struct {
	spots                int
	without, ideal, real treeResult
	opened, closed       []string
	hot                  []string      // the hot spots' hosts, in order of names
	moved                int           // pairs of hosts whose level is that of the slow lane
	others               int           // of them not to a hot spot
	movedAt              time.Duration // until the last pair moved, from the beginning; never: none did
}

// treeEvery is the interval of the performance manager: at least 2 ms, in which hot spots
// fill a small tree.
func treeEvery(t bed.Tree) time.Duration {
	return max(2*time.Millisecond, time.Duration(t.Hosts)*treeInterval)
}

// run is the tree with the real loop.
func (r *treeLoop) run(t bed.Tree, seed uint64) error {
	loop := &real{every: treeEvery(t)}
	f, err := t.Fabric()
	if err != nil {
		return err
	}
	o := config()
	loop.Configure(&o.SM)
	o.Attached, o.Data = loop.Attach, bed.TreeConfig(seed, 2)
	level := make([]map[int]ib.SL, t.Hosts)
	o.Data.SL = func(src, dst int) ib.SL { return level[src][dst] }
	l, hosts, err := bed.StartHosts(f, o)
	if err != nil {
		return err
	}
	for h := range hosts {
		l.Engine.SetCaps(h, dataplane.Rate{}, dataplane.Rate{}) // wire speed
	}
	r.movedAt = never
	for i, h := range hosts {
		if t.Hot(i, r.spots) == i {
			r.hot = append(r.hot, h.Name)
		}
	}
	slices.Sort(r.hot)
	b := &TestBed{Loaded: l, Hosts: hosts}
	if err := l.RunUntil(time.Minute, b.notified); err != nil {
		return fmt.Errorf("the first notices: %w", err)
	}
	if err := b.resolveAll(); err != nil {
		return err
	}
	at := map[ib.LID]int{}
	for i, lid := range (&bed.Data{Cluster: l.Cluster, Engine: l.Engine}).LIDs() {
		at[lid] = i
	}
	began := l.Sim.Now()
	for i, h := range hosts {
		level[i] = map[int]ib.SL{}
		h.OnReport = func(n *saclient.Report) bool {
			if trap, _ := n.Notice.Trap(); trap == smp.TrapRePath {
				if dst, ok := at[n.Path.DLID]; ok && level[i][dst] != n.Path.SL {
					level[i][dst] = n.Path.SL
					r.movedAt = l.Sim.Now().Sub(began)
				}
			}
			return false
		}
	}
	d := &bed.Data{Cluster: l.Cluster, Manager: l.Manager, Engine: l.Engine}
	if err := t.Offer(d, r.spots, dataplane.LaneQueue); err != nil {
		return err
	}
	p := treePoint{tree: t}
	r.real.cold = p.share(d, treeCold)
	l.Run(treeLoopWarm*treeEvery(t) - l.Sim.Now().Sub(began))
	r.real.steady = p.share(d, treeWindow)
	for i := range level {
		for dst, sl := range level[i] {
			if sl != 0 {
				r.moved++
				if t.Hot(dst, r.spots) != dst {
					r.others++
				}
			}
		}
	}
	r.opened, r.closed = loop.Marked()
	return l.Engine.Check()
}

// resolveAll has all hosts ask the SA for their paths to all others, one host after the
// other.
func (b *TestBed) resolveAll() error {
	for _, h := range b.Hosts {
		ended := false
		var failed error
		q := wire.PathRecord{SGID: h.GID(), NumbPath: 1, Reversible: true}
		h.Client.Paths(b.Sim.Now(), &q, wire.PathCompSGID|wire.PathCompNumbPath|wire.PathCompReversible, false,
			func(_ mad.Time, list []wire.PathRecord, err error) {
				ended, failed = true, err
				if err == nil && len(list) < len(b.Hosts)-1 {
					failed = fmt.Errorf("%s has %d paths", h.Name, len(list))
				}
			})
		if err := b.RunUntil(time.Minute, func() bool { return ended }); err != nil {
			return err
		}
		if failed != nil {
			return failed
		}
	}
	return nil
}
