package sim

import (
	"math/rand/v2"
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
)

// pairBed is a tree of four leaves and two spines with LIDs and links that are
// Active, and tables that drop everything.
func pairBed(t *testing.T) *Subnet {
	s, err := New(tree(4, 2, 2), Config{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.devs {
		d := &s.devs[i]
		e := d.first
		if !d.isSwitch() {
			e++
		} else {
			d.sw.info.LinearFDBTop = ib.LID(len(s.devs))
		}
		s.ports[e].lid = ib.LID(i + 1)
		for p := d.first; p <= d.first+int32(d.nports); p++ {
			if s.ports[p].phys == ib.PhysLinkUp {
				s.ports[p].state = ib.StateActive
			}
		}
	}
	return s
}

// naivePair is a pair's state, found packet by packet and link by link.
func naivePair(s *Subnet, sw int, l ib.LID) PairState {
	owner, ok := s.FindLID(l)
	host := false
	reach := map[int]bool{sw: true}
	for grown := true; grown; {
		grown = false
		for n := range s.devs {
			d := &s.devs[n]
			if !reach[n] || !d.isSwitch() {
				continue
			}
			for p := 1; p <= int(d.nports); p++ {
				r, up := s.Peer(n, p)
				if up = up && s.PortInfo(n, p).PortPhysicalState == ib.PhysLinkUp; up && !reach[int(r.Node)] {
					reach[int(r.Node)], grown = true, true
				}
				host = host || up && n == sw && !s.devs[r.Node].isSwitch()
			}
		}
	}
	if !ok || !s.Up(sw) || !host || !reach[int(owner.Node)] {
		return PairApart
	}
	at := sw
	for range len(s.devs) {
		row := s.LFT(at, nil)
		switch e := int(row[l]); {
		case e == 0 && at == int(owner.Node):
			return PairWorks
		case e == 0 || e > int(s.devs[at].nports) || s.PortInfo(at, e).PortState != ib.StateActive:
			return PairBroken
		default:
			r, _ := s.Peer(at, e)
			if !s.devs[r.Node].isSwitch() {
				if r.Node == owner.Node {
					return PairWorks
				}
				return PairBroken
			}
			at = int(r.Node)
		}
	}
	return PairBroken
}

// TestPairsOracle changes entries, links and switches at random, and compares the state
// of every pair with that found by following one packet.
func TestPairsOracle(t *testing.T) {
	count := [3]int{}
	for seed := range uint64(10) {
		rng := rand.New(rand.NewPCG(seed, 1))
		s := pairBed(t)
		p := s.WatchPairs(-1)
		seen := map[[2]int]PairState{}
		p.OnPair = func(_ mad.Time, node int, l ib.LID, was, now PairState) {
			k := [2]int{node, int(l)}
			if seen[k] != was || was == now {
				t.Fatalf("seed %d: node %d LID %d goes from %d to %d; it was %d", seed, node, l, was, now, seen[k])
			}
			seen[k] = now
		}
		for l := range p.state {
			for d, st := range p.state[l] {
				seen[[2]int{int(p.node[d]), l}] = st
			}
		}
		for step := range 200 {
			n := rng.IntN(len(s.devs))
			d, id := &s.devs[n], s.f.Nodes[n].ID
			switch {
			case !d.isSwitch() || d.down:
			case step%100 == 99:
				_ = s.NodeDown(id)
			case step%20 == 19:
				_ = s.LinkDown(id, 1+rng.IntN(int(d.nports)))
			default:
				for range 12 {
					s.SetLFT(n, ib.LID(1+rng.IntN(len(s.devs))), uint8(rng.IntN(int(d.nports)+1)))
				}
				// A right entry for each neighbor now and then, else little works.
				for q := 1; q <= int(d.nports); q++ {
					if r, ok := s.Peer(n, q); ok {
						s.SetLFT(n, ib.LID(r.Node+1), uint8(q))
					}
				}
				s.SetLFT(n, ib.LID(n+1), 0)
				s.OnChange(Change{Kind: ChangeSet, Node: n, Attr: smp.AttrLFT})
			}
			st := p.Stats()
			works, broken := 0, 0
			for n := range s.devs {
				for l := 1; s.devs[n].isSwitch() && l <= len(s.devs); l++ {
					want := naivePair(s, n, ib.LID(l))
					if got := seen[[2]int{n, l}]; got != want {
						t.Fatalf("seed %d step %d: node %d LID %d is %d, want %d", seed, step, n, l, got, want)
					}
					count[want]++
					if want == PairWorks {
						works++
					} else if want == PairBroken {
						broken++
						if at, q := p.Ends(n, ib.LID(l)); q != 0 && s.PortInfo(at, int(q)).PortState == ib.StateActive {
							if r, _ := s.Peer(at, int(q)); s.LFT(at, nil)[l] != q || s.devs[r.Node].isSwitch() && !loops(s, n, ib.LID(l)) {
								t.Fatalf("seed %d step %d: node %d LID %d ends at %d[%d]", seed, step, n, l, at, q)
							}
						}
					}
				}
			}
			if works != st.Works || broken != st.Broken {
				t.Fatalf("seed %d step %d: %d work and %d are broken; the watch says %+v", seed, step, works, broken, st)
			}
		}
	}
	if min(count[0], count[1], count[2]) < 1000 {
		t.Errorf("states seen: %v", count)
	}
}

// loops reports whether the entries of l lead from a switch round in a ring.
func loops(s *Subnet, at int, l ib.LID) bool {
	for range len(s.devs) {
		e := s.LFT(at, nil)[l]
		r, ok := s.Peer(at, int(min(e, s.devs[at].nports)))
		if e == 0 || e > s.devs[at].nports || !ok || !s.devs[r.Node].isSwitch() {
			return false
		}
		at = int(r.Node)
	}
	return true
}

// TestPairsTimes: the times of breaks and repairs, also on the console.
func TestPairsTimes(t *testing.T) {
	b := newTestbed(t, chain(), Config{}, "H1")
	b.configure()
	said := func(line, want string) {
		t.Helper()
		if got, err := b.s.Exec(line); err != nil || got != want {
			t.Errorf("%s: %q %v, want %q", line, got, err, want)
		}
	}
	said("pairs", "works 8 broken 0\n")
	said("pairs watch", "")
	said("pairs", "works 8 broken 0 worst 0 breaks 0 repairs 0 took 0s\n")
	b.s.RunUntil(mad.Time(time.Second))
	b.table(toS2, 255, 1, 1, 0, 3) // H2 is at port 2
	b.s.RunUntil(mad.Time(1200 * time.Millisecond))
	said("pairs", "works 6 broken 2 worst 2 breaks 2 repairs 0 took 0s\n")
	b.table(toS2, 255, 1, 1, 0, 2)
	b.s.RunUntil(mad.Time(2 * time.Second))
	said("pairs", "works 8 broken 0 worst 2 breaks 2 repairs 2 took 200ms\n")
	if err := b.s.LinkDown("H2", 1); err != nil {
		t.Fatal(err)
	}
	said("pairs", "works 3 broken 0 worst 2 breaks 2 repairs 2 took 200ms\n") // S2 has no host any more
	said("pairs watch", "")
	if _, err := b.s.Exec("pairs what"); err == nil {
		t.Error("a wrong argument is taken")
	}
}
