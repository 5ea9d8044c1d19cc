package findings

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"heddle/ib"
	"heddle/mad"
	"heddle/perf"
	"heddle/subnet"
)

// period is the time between two rounds of the tests.
const period = 10 * time.Second

// counts is a round whose counters are said by the test.
type counts struct {
	n     int
	now   mad.Time
	delta map[int32][perf.NumCounters]uint64
	wait  map[int32]float64
	mute  map[int32]bool
	end   map[int32]bool // counters are at their ends
}

func (x *counts) Len() int                             { return x.n }
func (x *counts) At(int32) mad.Time                    { return x.now }
func (x *counts) Delta(i int32, c perf.Counter) uint64 { return x.delta[i][c] }
func (x *counts) MayErr(i int32) bool                  { return x.delta[i] != [perf.NumCounters]uint64{} }
func (x *counts) WaitShare(i int32) float64            { return x.wait[i] }
func (x *counts) AtEnd(i int32, _ perf.Counter) bool   { return x.end[i] }
func (x *counts) Elapsed(i int32) time.Duration {
	if x.mute[i] {
		return 0
	}
	return period
}

// star is a switch of n ports, GUID 1, with a host at each, GUIDs 2 to n+1.
func star(n int) *subnet.Snapshot {
	s := &subnet.Snapshot{Up: true}
	add := func(t ib.NodeType, g ib.GUID, ports int, index int32) {
		node := subnet.Node{Desc: fmt.Sprint("node ", g), First: int32(len(s.Ports)), SwitchIndex: index, OK: true}
		node.Info.NodeType, node.Info.NodeGUID, node.Info.NumPorts = t, g, uint8(ports)
		for p := range ports + 1 {
			x := &subnet.Port{Node: int32(len(s.Nodes)), Num: uint8(p), Peer: subnet.NoRef(), EndPort: -1, Known: p > 0}
			x.Info.PortState, x.Info.PortPhysicalState = ib.StateActive, ib.PhysLinkUp
			x.Info.LinkWidthSupported, x.Info.LinkWidthActive = ib.Width1x|ib.Width4x, ib.Width4x
			x.Info.LinkSpeedSupported, x.Info.LinkSpeedActive = ib.SpeedBitAll, ib.SpeedBitQDR
			x.Info.MTUCap, x.Info.VLCap = 5, 4
			s.Ports = append(s.Ports, x)
		}
		s.Nodes = append(s.Nodes, node)
	}
	add(ib.NodeSwitch, 1, n, 0)
	for i := range n {
		add(ib.NodeCA, ib.GUID(i+2), 1, -1)
		s.Ports[i+1].Peer = subnet.Ref{Node: int32(i + 1), Port: 1}
		s.Ports[len(s.Ports)-1].Peer = subnet.Ref{Node: 0, Port: uint8(i + 1)}
	}
	s.Finish()
	return s
}

// bed is a core and its rounds.
type bed struct {
	c    *Core
	s    *subnet.Snapshot
	now  mad.Time
	last *Report
	log  []string // what opened and closed: "+rule", "-rule why"
}

func newBed(n int) *bed { return &bed{c: New(Rules()), s: star(n), now: mad.Time(time.Hour)} }

func (b *bed) round(x counts) {
	b.now = b.now.Add(period)
	x.n, x.now = len(b.s.Ports), b.now
	out := b.c.step(b.s, b.now, &x)
	b.last = out.Report
	for _, f := range out.Opened {
		b.log = append(b.log, "+"+f.Rule)
	}
	for _, f := range out.Closed {
		b.log = append(b.log, "-"+f.Rule+" "+f.Why)
	}
}

func (b *bed) rounds(d time.Duration, x counts) {
	for ; d > 0; d -= period {
		b.round(x)
	}
}

// change publishes a snapshot with changed ports.
func (b *bed) change(do func(s *subnet.Snapshot)) {
	b.s = star(len(b.s.Nodes) - 1)
	do(b.s)
	b.s.Finish()
}

// events are one counter of one port.
func events(port int32, c perf.Counter, n uint64) counts {
	var d [perf.NumCounters]uint64
	d[c] = n
	return counts{delta: map[int32][perf.NumCounters]uint64{port: d}}
}

func (b *bed) want(t *testing.T, log ...string) {
	t.Helper()
	if fmt.Sprint(b.log) != fmt.Sprint(log) {
		t.Errorf("got %v, want %v", b.log, log)
	}
	b.log = nil
}

// TestTable: causes come before symptoms, and every rule can open and close.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Rules() {
		for _, c := range r.Causes {
			if !seen[c.Name] {
				t.Errorf("%s has the cause %s, which is not before it", r.Name, c.Name)
			}
		}
		if seen[r.Name] || r.Title == "" || r.Do == "" || r.Quiet <= 0 || len(r.Counters) > maxCounters ||
			len(r.Counters) == 0 && (r.Open <= 0 || r.Close <= 0 || r.Close > r.Open) {
			t.Errorf("the rule %+v is not whole", r)
		}
		seen[r.Name] = true
	}
}

// TestStates: each state that lasts has its finding, and one that passes has none.
func TestStates(t *testing.T) {
	for name, do := range map[string]func(s *subnet.Snapshot){
		HalfActive: func(s *subnet.Snapshot) { s.Ports[2].Info.PortState = ib.StateArmed },
		StuckInit: func(s *subnet.Snapshot) {
			p := s.PortIndex(s.Ports[2].Peer)
			s.Ports[2].Info.PortState, s.Ports[p].Info.PortState = ib.StateInit, ib.StateInit
		},
		LowMTU:        func(s *subnet.Snapshot) { s.Ports[s.PortIndex(s.Ports[2].Peer)].Info.MTUCap = 4 },
		FewVLs:        func(s *subnet.Snapshot) { s.Ports[s.PortIndex(s.Ports[2].Peer)].Info.VLCap = 2 },
		NoDescription: func(s *subnet.Snapshot) { s.Nodes[3].Desc = "" },
		SameDesc:      func(s *subnet.Snapshot) { s.Nodes[3].Desc = s.Nodes[4].Desc },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(5)
			b.rounds(time.Minute, counts{})
			b.change(do)
			b.rounds(40*time.Second, counts{})
			b.change(func(*subnet.Snapshot) {})
			b.rounds(5*time.Minute, counts{})
			b.want(t)
			b.change(do)
			b.rounds(5*time.Minute, counts{})
			b.want(t, "+"+name)
			if f := b.last.Open[0]; len(f.Evidence) == 0 || len(f.Ends) == 0 || f.Opened.Sub(f.Since) < time.Minute {
				t.Errorf("%+v", f)
			}
			b.change(func(*subnet.Snapshot) {})
			b.rounds(5*time.Minute, counts{})
			b.want(t, "-"+name+" "+Healed)
			if len(b.c.tracks) != 0 {
				t.Errorf("%d tracks are left", len(b.c.tracks))
			}
		})
	}
	b := newBed(2)
	b.change(func(s *subnet.Snapshot) {
		s.Problems = []subnet.Problem{{Node: "x", GUID: 3, Kind: "duplicate_guid", Text: "seen behind y"}}
	})
	b.round(counts{})
	b.want(t, "+"+DuplicateGUID)
}

// TestEndsAreThoseOfNow: a finding about many nodes names those that it is about now.
func TestEndsAreThoseOfNow(t *testing.T) {
	b := newBed(30)
	same := func(n int) func(s *subnet.Snapshot) {
		return func(s *subnet.Snapshot) {
			for i := range n {
				s.Nodes[i+1].Desc = "localhost"
			}
		}
	}
	for _, n := range []int{2, 20, 3} {
		b.change(same(n))
		b.rounds(2*time.Minute, counts{})
		f := b.last.Open[0]
		if len(f.Ends) != min(n, maxEnds) || f.More != n-len(f.Ends) || f.Evidence[0].Value != float64(n) {
			t.Errorf("of %d nodes: %+v", n, f)
		}
	}
	b.want(t, "+"+SameDesc)
}

// TestBitErrors: what the speed permits is none; more is one; an open one stays while there are any
// to speak of, while its port is silent, and while a counter is at its end.
func TestBitErrors(t *testing.T) {
	b := newBed(4)
	// 10^-12 of 40 Gb/s is an error in 25 s.
	for k := range 2000 {
		b.round(events(1, perf.SymbolErrors, uint64(k%3/2)))
	}
	b.want(t)
	b.rounds(time.Minute, events(1, perf.SymbolErrors, 3))
	b.want(t, "+"+BadCable)
	if f := b.last.Open[0]; len(f.Ends) != 2 || f.Ends[0].GUID != 1 || f.Ends[1].GUID != 2 || f.Evidence[0].End.Port != 1 {
		t.Errorf("%+v", f)
	}
	b.rounds(10*time.Minute, counts{})
	b.round(events(1, perf.SymbolErrors, 3))
	b.rounds(14*time.Minute, counts{})
	silent := counts{mute: map[int32]bool{1: true, b.s.PortIndex(b.s.Ports[1].Peer): true}}
	b.rounds(30*time.Minute, silent)
	b.rounds(30*time.Minute, counts{end: map[int32]bool{1: true}})
	b.rounds(14*time.Minute, counts{})
	b.want(t)
	b.rounds(2*time.Minute, counts{})
	b.want(t, "-"+BadCable+" "+Healed)
}

// TestSymptoms: a symptom that opened before its cause ends with it, and there is one finding.
func TestSymptoms(t *testing.T) {
	b := newBed(4)
	b.rounds(time.Minute, events(1, perf.XmitDiscards, 60))
	b.want(t, "+discards")
	both := events(1, perf.XmitDiscards, 60)
	d := both.delta[1]
	d[perf.SymbolErrors] = 20
	both.delta[1] = d
	b.rounds(time.Minute, both)
	b.want(t, "+"+BadCable, "-discards "+BadCable)
	if len(b.last.Open) != 1 {
		t.Errorf("%+v", b.last.Open)
	}
}

// TestLateCause: a symptom waits while its cause waits for a cause of its own.
func TestLateCause(t *testing.T) {
	b := newBed(4)
	b.round(events(1, perf.XmitDiscards, 200))
	b.round(events(1, perf.SymbolErrors, 20))
	b.rounds(time.Minute, counts{})
	b.want(t, "+"+BadCable)
}

// TestWaiting: the share has two thresholds, and the root of the tree is named.
func TestWaiting(t *testing.T) {
	b := newBed(4)
	host := b.s.PortIndex(b.s.Ports[3].Peer) // waits because port 1 does
	wait := func(share float64) counts { return counts{wait: map[int32]float64{1: share, host: 0.9}} }
	b.rounds(time.Minute, wait(0.5))
	b.want(t, "+"+Congestion)
	if f := b.last.Open[0]; f.Ends[0].GUID != 1 || f.Ends[0].Port != 1 {
		t.Errorf("%+v", f)
	}
	b.rounds(10*time.Minute, wait(0.15))
	b.want(t)
	b.rounds(2*time.Minute, counts{})
	b.want(t, "-"+Congestion+" "+Healed)
}

// TestBounded: random counters, states and nodes that come and go leave no more than is open, and the
// same rounds give the same reports.
func TestBounded(t *testing.T) {
	run := func(seed uint64) (all []*Report, c *Core) {
		r := rand.New(rand.NewPCG(seed, 1))
		b := newBed(12)
		for range 400 {
			if r.IntN(4) == 0 {
				b.change(func(s *subnet.Snapshot) {
					for i := range s.Ports {
						switch r.IntN(30) {
						case 0:
							s.Ports[i].Info.PortPhysicalState = ib.PhysPolling
						case 1:
							s.Ports[i].Info.PortState = ib.StateInit
						case 2:
							s.Ports[i].Info.LinkWidthActive = ib.Width1x
						}
					}
				})
			}
			x := counts{delta: map[int32][perf.NumCounters]uint64{}, wait: map[int32]float64{}, mute: map[int32]bool{}}
			for range 5 {
				i := r.Int32N(int32(len(b.s.Ports)))
				var d [perf.NumCounters]uint64
				d[perf.SymbolErrors+perf.Counter(r.IntN(12))] = r.Uint64N(200)
				x.delta[i], x.wait[r.Int32N(30)], x.mute[r.Int32N(30)] = d, r.Float64(), true
			}
			b.round(x)
			all = append(all, b.last)
		}
		b.change(func(*subnet.Snapshot) {})
		b.rounds(3*time.Hour, counts{})
		if len(b.last.Open) != 0 || len(b.c.tracks) != 0 || len(b.c.lost) != 0 {
			t.Errorf("seed %d: %d open, %d tracks, %d lost links", seed, len(b.last.Open), len(b.c.tracks), len(b.c.lost))
		}
		if len(b.last.Closed) > maxClosed || b.c.nextID < 20 {
			t.Errorf("seed %d: %d closed of %d", seed, len(b.last.Closed), b.c.nextID)
		}
		return all, b.c
	}
	for seed := range uint64(5) {
		x, _ := run(seed)
		if y, _ := run(seed); !reflect.DeepEqual(x, y) {
			t.Errorf("seed %d gives two results", seed)
		}
	}
}

// BenchmarkRound is a round of which a hundredth of the ports has errors.
func BenchmarkRound(b *testing.B) {
	x := newBed(2)
	s := star(250)
	x.s = s
	r := counts{delta: map[int32][perf.NumCounters]uint64{}}
	for i := range int32(len(s.Ports)) {
		if i%100 == 0 {
			r.delta[i] = events(i, perf.SymbolErrors, 3).delta[i]
		}
	}
	for b.Loop() {
		x.round(r)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(s.Ports)), "ns/port")
}
