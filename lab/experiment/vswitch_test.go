package experiment

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"heddle/ib"
	wiresa "heddle/ib/sa"
	"heddle/internal/need"
	"heddle/mad"
	"heddle/route/move"
	"heddle/sa"
	"heddle/subnet"
)

// TestVSwitchReconfiguration: the published SMPs of a full reconfiguration, the
// bounds of migrations, one SMP inside a leaf, and the same numbers again.
func TestVSwitchReconfiguration(t *testing.T) {
	var first string
	for range 2 {
		r, err := VSwitchReconfiguration(Options{Seed: 5, Runs: 3, Sizes: []int{324}})
		if err != nil {
			t.Fatal(err)
		}
		counts := ""
		for _, s := range r.Sections {
			for _, row := range s.Table.Rows {
				if len(row) != len(s.Table.Columns) {
					t.Fatalf("%s: %d columns, a row of %d", s.Title, len(s.Table.Columns), len(row))
				}
			}
			for _, p := range s.Plots {
				for _, c := range p.Columns {
					if c < 1 || c >= len(s.Table.Columns) {
						t.Errorf("%s: a plot of column %d", s.Title, c)
					}
				}
			}
			for _, c := range s.Claim {
				// The proof may ask minimal ones for more than the fewest, and computing is measured
				// in real time, where it takes a millisecond.
				if !c.Holds && !strings.HasPrefix(c.What, "the count of a minimal migration") && !strings.HasPrefix(c.What, "computing ") {
					t.Errorf("%s: %s: published %s, measured %s", s.Title, c.What, c.Published, c.Measured)
				}
			}
			if s.Title == "SMPs of a migration" {
				counts = fmt.Sprint(s.Table.Rows)
				if len(s.Table.Rows) != 4 {
					t.Errorf("%d kinds of migrations", len(s.Table.Rows))
				}
			}
		}
		if first == "" {
			first = counts
		}
		if counts == "" || counts != first {
			t.Errorf("%s, then %s", first, counts)
		}
		var b bytes.Buffer
		if err := r.Text(&b); err != nil || !strings.Contains(b.String(), "46256") {
			t.Errorf("text: %v", err)
		}
	}
}

// TestFullSubnet: 49,149 LIDs or 3,501 at boot, and a thousand migrations at once cost
// no more SMPs than one by one.
func TestFullSubnet(t *testing.T) {
	need.Long(t)
	r, err := VSwitchReconfiguration(Options{Seed: 1, Sizes: []int{fullSubnetHosts}})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range r.Sections {
		for _, c := range s.Claim { // but those about time
			if !c.Holds && !strings.Contains(c.What, "time") && !strings.HasPrefix(c.What, "booting prepopulated") {
				t.Errorf("%s: %s: published %s, measured %s", s.Title, c.What, c.Published, c.Measured)
			}
		}
	}
	if len(r.Sections) != 4 {
		t.Errorf("%d sections", len(r.Sections))
	}
}

// TestAnswersAreOfOnePlace: while VMs migrate, alone and many at once, every
// snapshot that is published names for each VM one place, the SA tells paths to
// and from it that its tables lead there, and so do the switches' own.
func TestAnswersAreOfOnePlace(t *testing.T) {
	for _, kind := range []move.Kind{move.Copy, move.Swap} {
		t.Run(lidsAre[kind], func(t *testing.T) {
			w, err := newWire(wireOptions{hosts: 324, kind: kind, modes: []move.Mode{move.Balanced, move.Minimal}, pairs: 12, vfs: 2, every: true, seed: 3})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.create(); err != nil {
				t.Fatal(err)
			}
			opt := sa.Options{}
			published := 0
			places := map[ib.GUID][]subnet.Place{} // where each VM may be
			w.m.OnPublish = func() {
				published++
				if err := w.onePlace(w.m.Snap, &opt, places); err != nil && !t.Failed() {
					t.Errorf("snapshot %d: %v", published, err)
				}
			}
			move := func(list ...*wireVM) {
				t.Helper()
				for _, v := range list {
					places[v.guid] = []subnet.Place{v.from, v.to}
				}
				if _, _, err := w.migrate(list...); err != nil {
					t.Fatal(err)
				}
				for _, v := range list {
					places[v.guid] = []subnet.Place{v.from} // migrate turned it round
				}
			}
			for _, v := range w.vms {
				places[v.guid] = []subnet.Place{v.from}
			}
			for _, v := range w.vms[:6] {
				move(v)
			}
			before := published
			move(w.vms...)
			if published == before {
				t.Error("nothing was published")
			}
			move(w.vms[3:17]...)
			if err := w.c.Check(w.m); err != nil {
				t.Error(err)
			}
		})
	}
}

// onePlace looks at a snapshot as those do who ask the SA.
func (w *wire) onePlace(s *subnet.Snapshot, opt *sa.Options, places map[ib.GUID][]subnet.Place) error {
	if err := s.Check(); err != nil {
		return err
	}
	src := &sa.Source{Snap: s, View: &sa.View{}, Opt: opt}
	host := s.PortIndex(s.Self)
	for _, v := range w.vms {
		i := s.PortByGUID(v.guid)
		if i < 0 || s.Ports[i].Virtual == nil || s.Ports[i].EndPort < 0 {
			if len(places[v.guid]) == 1 {
				return fmt.Errorf("%s, which does not move, is nowhere", v.name)
			}
			continue // on its way
		}
		p := s.Ports[i]
		at := subnet.Place{Port: s.Ports[p.Virtual.Port].GUID, Function: p.Virtual.Index}
		if !slices.Contains(places[v.guid], at) {
			return fmt.Errorf("%s is at %v, neither where it was nor where it goes: %v", v.name, at, places[v.guid])
		}
		if p.LID != v.lid {
			return fmt.Errorf("%s has LID %d, it was given %d", v.name, p.LID, v.lid)
		}
		for _, there := range []bool{true, false} {
			from, to := s.Ports[host].GUID, v.guid
			end := s.Ports[p.Virtual.Port]
			if !there {
				from, to, end = to, from, s.Ports[host]
			}
			r, err := askPath(src, s, from, to)
			if err != nil {
				return fmt.Errorf("%s: path from %v to %v: %w", v.name, from, to, err)
			}
			start := s.PortByGUID(from)
			hops, ok := s.Trace(start, r.DLID, nil)
			if !ok || len(hops) == 0 {
				return fmt.Errorf("%s: the snapshot's tables do not lead from %v to LID %d", v.name, from, r.DLID)
			}
			// What the switches hold now leads there too.
			way, err := w.c.Sim.Trace(int(s.Ports[start].Node), int(s.Ports[start].Num), r.DLID, 0)
			if err != nil {
				return fmt.Errorf("%s: the switches do not lead from %v to LID %d: %w", v.name, from, r.DLID, err)
			}
			last := way[len(way)-1]
			if n := w.c.Fabric.Nodes[last.Node]; n.IsSwitch() || n.GUID != s.Nodes[end.Node].Info.NodeGUID {
				return fmt.Errorf("%s: the switches lead LID %d to %s, the snapshot says %v", v.name, r.DLID, n.Name(), s.Nodes[end.Node].Info.NodeGUID)
			}
		}
	}
	return nil
}

// askPath asks the SA for the path between two ports, as the first.
func askPath(src *sa.Source, s *subnet.Snapshot, from, to ib.GUID) (r wiresa.PathRecord, err error) {
	var q ib.MAD
	wiresa.New(&q, ib.MethodGet, wiresa.AttrPathRecord, 0, wiresa.PathCompDGID|wiresa.PathCompSGID)
	ask := wiresa.PathRecord{SGID: ib.MakeGID(s.Prefix, from), DGID: ib.MakeGID(s.Prefix, to)}
	ask.Put(wiresa.Data(&q))
	p := s.Ports[s.PortByGUID(from)]
	reply, v := sa.Answer(src, &sa.Request{From: mad.Addr{LID: p.LID, QP: 1}, Data: q[:]}, nil)
	if v != sa.Answered || len(reply) < wiresa.HeaderLen+wiresa.PathRecordLen {
		return r, fmt.Errorf("verdict %v, %d bytes", v, len(reply))
	}
	if st := ib.Status(uint16(reply[4])<<8 | uint16(reply[5])); st != 0 {
		return r, fmt.Errorf("status %v", st)
	}
	return r, r.Decode(reply[wiresa.HeaderLen:][:wiresa.PathRecordLen])
}

// TestComputeSection: claims on computing follow the times. lash routes between switches, so the LIDs
// that they have cost it next to nothing.
func TestComputeSection(t *testing.T) {
	for _, c := range []struct {
		name  string
		step  func(call int) time.Duration
		holds bool
	}{
		{"longer each time", func(call int) time.Duration { return time.Duration(call) }, true},
		{"always alike", func(int) time.Duration { return 5 }, false},
	} {
		now, call := time.Duration(0), 0
		s, err := computeSection(&Options{Clock: func() time.Duration {
			call++
			now += time.Microsecond * c.step(call)
			return now
		}}, []int{324})
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Table.Rows) != len(computedEngines) || len(s.Claim) != 2 {
			t.Fatalf("%d rows, %d claims", len(s.Table.Rows), len(s.Claim))
		}
		for _, claim := range s.Claim {
			if claim.Holds != c.holds {
				t.Errorf("times %s: %q holds: %v, %s", c.name, claim.What, claim.Holds, claim.Measured)
			}
		}
	}
}

// TestTrafficIsCountedWhereItEnds: packets to a LID whose entries lead to a third host are found there.
func TestTrafficIsCountedWhereItEnds(t *testing.T) {
	w, err := newWire(wireOptions{hosts: 324, kind: move.Copy, modes: []move.Mode{move.Balanced}, pairs: 2, vfs: 1, every: true, seed: 2})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.create(); err != nil {
		t.Fatal(err)
	}
	v, other := w.vms[1], w.vms[2]
	right, err := w.traffic(w.vms[1:2])
	if err != nil {
		t.Fatal(err)
	}
	if right.wrong != 0 || right.lost != 0 || right.live != 0 || right.old == 0 || right.new == 0 || right.away == 0 {
		t.Fatalf("%+v", right)
	}
	// It moves back, while hosts believe that it has the LID of another VM.
	v.lid, other.lid = other.lid, v.lid
	wrong, err := w.traffic(w.vms[1:2])
	if err == nil || wrong.wrong == 0 || wrong.old+wrong.new > 0 {
		t.Fatalf("packets to another VM are taken for those to this one: %v, %+v", err, wrong)
	}
}
