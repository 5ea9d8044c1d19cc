package experiment

import (
	"os"
	"testing"

	"heddle/fabric"
	"heddle/internal/need"
	"heddle/route"
	"heddle/route/check"
)

// fakePeer says what OpenSM 3.3.23 did; cmd/heddle has the real one.
type fakePeer struct{ asked []int }

func (p *fakePeer) Lash(f *fabric.Fabric, _ string, _ int) (PeerLanes, error) {
	p.asked = append(p.asked, len(f.Nodes)/2)
	if len(f.Nodes) == 12 {
		return PeerLanes{Before: []int{30}, Fitted: []int{24, 6}, After: []int{16, 14}, Sweeps: 2}, nil
	}
	return PeerLanes{Before: []int{1260}, Fitted: []int{1134, 126}, After: []int{632, 628}, Sweeps: 2}, nil
}

// failing are claims that do not hold, for the reasons that the report gives.
var failing = []string{
	"the same, with one sweep for each cable", "P2.5: 64 processes", "P2.5: and at most 1/6", "P2.9: Reports",
}

// TestSignalling: every way comes to the same paths, and what it costs is as published.
func TestSignalling(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds")
	}
	p := &fakePeer{}
	r, err := Signalling(Options{Seed: 1, Sizes: []int{36, 6}, Peer: p})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.asked) != 2 {
		t.Errorf("the peer was asked for %v", p.asked)
	}
	mustHold(t, r, failing...)
}

// TestSignallingFull is the experiment as the command runs it, without OpenSM.
func TestSignallingFull(t *testing.T) {
	if os.Getenv("HEDDLE_LONG") == "" {
		t.Skip("minutes; HEDDLE_LONG=1 runs it")
	}
	r, err := Signalling(Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	mustHold(t, r, append(failing, "P2.6: OpenSM", "P2.7", "P2.8: by formula")...)
}

// TestBalanced: lanes that are balanced at random have no circle, and differ by a few pairs.
func TestBalanced(t *testing.T) {
	for _, n := range []int{6, 16, 36, 64} {
		f, node, port, err := signalFabric(n)
		if err != nil {
			t.Fatal(err)
		}
		if err := fabric.AssignLIDs(f, 1); err != nil {
			t.Fatal(err)
		}
		g, err := without(f, node, port).Graph(fabric.GraphOptions{VLs: 8})
		if err != nil {
			t.Fatal(err)
		}
		for _, seed := range need.Seeds(3, 30) {
			x, err := balanced{seed}.Compute(g, route.Options{})
			if err != nil {
				t.Fatal(err)
			}
			one := &route.Tables{Engine: x.Engine, LFT: x.LFT, TopLID: x.TopLID, NumVLs: 1}
			moved := levelsChanged(g, one, x)
			if rest := n*(n-1) - moved; x.NumVLs != 2 || abs(rest-moved) > lanesDiffer {
				t.Errorf("%d switches, seed %d: %d lanes, %d pairs on the second, %d on the first", n, seed, x.NumVLs, moved, rest)
			}
			if v := check.Verify(g, x, check.Options{}); v.Malformed != "" || v.CreditCycles > 0 || v.UnreachablePairs > 0 {
				t.Errorf("%d switches, seed %d: %+v", n, seed, v)
			}
		}
	}
}
