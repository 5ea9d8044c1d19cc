package move

import (
	"errors"
	"math"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
)

// FullSMPs is the number of LFT blocks that a full reconfiguration sends: n·m of
// equation 2, with LinearFDBTop at the highest LID in use. It is 216 for the fat
// tree of 324 hosts and 36 switches (360 LIDs), 336,960 for that of 11,664 and 1,620.
func FullSMPs(switches int, top ib.LID) int { return switches * (int(top)/route.BlockLen + 1) }

// Capacity is the number of hypervisors and VMs that fit the unicast LIDs of a
// subnet if every virtual function has a LID from boot (§V-A).
type Capacity struct {
	Hypervisors, VMs int
}

// PaperCapacity is the paper's figure: one LID for the PF and one for each of vfs
// VFs, and no others. 16 VFs make 2,891 hypervisors and 46,256 VMs.
func PaperCapacity(vfs int) Capacity { return TrueCapacity(vfs, 0) }

// TrueCapacity counts the LIDs of others too: switches, routers, hosts without
// VFs. With 648 switches and 16 VFs it is 2,853 hypervisors.
func TrueCapacity(vfs, others int) Capacity {
	h := max(int(ib.LIDMaxUnicast)-others, 0) / (1 + max(vfs, 0))
	return Capacity{h, h * max(vfs, 0)}
}

// Survey is the distribution of the SMPs of moves between pairs.
type Survey struct {
	Pairs        int
	Min, Max     int
	Mean         float64
	Switches     float64 // mean n′
	MostSwitches int     // largest n′
}

// Sample counts the cost of moves, each by itself on tables t for g, which must
// deliver everywhere (minimal moves are not checked for credit cycles here). pair
// draws the LIDs of a move: the one that moves, and a Copy's model or a Swap's
// partner.
func Sample(g *fabric.Graph, t *route.Tables, kind Kind, mode Mode, pairs int, pair func() (lid, with ib.LID)) (Survey, error) {
	if kind > Swap || mode > Minimal {
		return Survey{}, errors.New("move: only copies and swaps cost anything")
	}
	s := Survey{Min: math.MaxInt}
	total, switches := 0, 0
	for range pairs {
		m := &mover{g: g, t: t, n: len(g.Switches), top: g.TopLID, ends: g.EndPorts, owner: g.LIDOwner, cols: map[ib.LID]*column{}}
		l, with := pair()
		here, err := m.port(l)
		if err != nil {
			return s, err
		}
		there, err := m.port(with)
		if err != nil {
			return s, err
		}
		a, b := m.column(l), m.column(with)
		used := mode
		if mode == Minimal {
			used, _ = m.minimal(here, there, a, b, kind == Swap)
		}
		if used == Balanced {
			a.now = b.old
			if kind == Swap {
				b.now = a.old
			}
		}
		x := count(a.now, a.old, b.now, b.old, sameBlock(l, with))
		s.Pairs++
		s.Min, s.Max = min(s.Min, x.SMPs), max(s.Max, x.SMPs)
		s.MostSwitches = max(s.MostSwitches, x.Switches)
		total += x.SMPs
		switches += x.Switches
	}
	if s.Pairs == 0 {
		return Survey{}, nil
	}
	s.Mean, s.Switches = float64(total)/float64(s.Pairs), float64(switches)/float64(s.Pairs)
	return s, nil
}
