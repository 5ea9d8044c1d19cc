package hotspot

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/snaptest"
	"heddle/mad"
	"heddle/perf"
	"heddle/route/engine/minhop"
	"heddle/subnet"
)

const period = 10 * time.Second

// counts is a round whose counters are said by the test.
type counts struct {
	n    int
	now  mad.Time
	wait map[int32]float64
	use  map[int32]float64
	lane map[int32]int
	mute map[int32]bool
	long map[int32]int // periods that a sample covers, if not one
}

func (x *counts) Len() int                            { return x.n }
func (x *counts) At(int32) mad.Time                   { return x.now }
func (x *counts) WaitShare(i int32) float64           { return x.wait[i] }
func (x *counts) Use(i int32, _ perf.Counter) float64 { return x.use[i] }

func (x *counts) Elapsed(i int32) time.Duration {
	if x.mute[i] {
		return 0
	}
	return time.Duration(max(x.long[i], 1)) * period
}

func (x *counts) Details(i int32) *perf.Details {
	vl, ok := x.lane[i]
	if !ok {
		return nil
	}
	d := &perf.Details{VLWaitAt: 1}
	d.VLWait[vl] = 100
	return d
}

// bed is the paper's tree 3a: leaves A, B and C with two hosts each, numbered from 1, and a root.
type bed struct {
	t    *testing.T
	c    *Core
	s    *subnet.Snapshot
	now  mad.Time
	last Output
	log  string
}

func newBed(t *testing.T, holds Holds) *bed {
	t.Helper()
	return &bed{t: t, c: New(Defaults(), holds), s: snaptest.New(t, bedFabric(t, false), minhop.Engine{}, 1), now: mad.Time(time.Hour)}
}

// bedFabric is the tree; with hosts 3 and 5 exchanged, and other LIDs, if they have moved.
func bedFabric(t *testing.T, moved bool) *fabric.Fabric {
	t.Helper()
	b := &fabric.Builder{Width: ib.Width4x, Speed: ib.SpeedDDR}
	for i := range 6 {
		b.AddCA(fmt.Sprintf("host-%d", i+1), 1)
	}
	for i := range 3 {
		leaf := b.AddSwitch(fmt.Sprintf("leaf-%c", 'A'+i), 3)
		first := 2 * i
		if moved && i > 0 {
			first = 6 - 2*i // hosts 3 and 5 change places
		}
		b.Connect(first, 1, leaf, 1)
		b.Connect(2*i+1, 1, leaf, 2)
	}
	root := b.AddSwitch("root", 3)
	for i := range 3 {
		b.Connect(6+i, 3, root, i+1)
	}
	f, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// port is the index of a port.
func (b *bed) port(name string, num uint8) int32 {
	for i := range b.s.Nodes {
		if b.s.Nodes[i].Desc == name {
			return b.s.Nodes[i].First + int32(num)
		}
	}
	b.t.Fatalf("there is no %s", name)
	return -1
}

func (b *bed) lid(name string) ib.LID { return b.s.Ports[b.port(name, 1)].LID }

// congested is what the ports show while hosts 1, 3 and 4 send to host 5: all on their way waits,
// and host 2, which sends to host 3 over the same link.
func (b *bed) congested() *counts {
	x := &counts{wait: map[int32]float64{}, use: map[int32]float64{}, lane: map[int32]int{}, mute: map[int32]bool{}}
	for _, h := range []string{"host-1", "host-2", "host-3", "host-4"} {
		x.wait[b.port(h, 1)], x.use[b.port(h, 1)] = 0.7, 0.25
	}
	x.wait[b.port("leaf-C", 1)], x.use[b.port("leaf-C", 1)] = 0.18, 0.82
	x.wait[b.port("leaf-A", 3)], x.wait[b.port("leaf-B", 3)], x.wait[b.port("root", 3)] = 0.5, 0.5, 0.3
	return x
}

func (b *bed) round(x *counts) {
	b.now = b.now.Add(period)
	x.n, x.now = len(b.s.Ports), b.now
	b.last = b.c.step(b.s, b.now, period, x)
	for i := range b.last.Opened {
		b.log += "+" + b.last.Opened[i].Host.Desc + " "
	}
	for i := range b.last.Closed {
		b.log += "-" + b.last.Closed[i].Host.Desc + " " + b.last.Closed[i].Why + " "
	}
}

func (b *bed) want(log string) {
	b.t.Helper()
	if b.log != log {
		b.t.Errorf("got %q, want %q", b.log, log)
	}
	b.log = ""
}

func names(x *HotSpot) (feed, suffer string) {
	for i := range x.Contributors {
		feed += x.Contributors[i].Host.Desc + " "
	}
	for i := range x.Victims {
		suffer += x.Victims[i].Host.Desc + " "
	}
	return feed, suffer
}

// TestFeeds: who feeds a hot spot is who waits on all links of a path that it may hold; who else
// waits and shares such a link may suffer.
func TestFeeds(t *testing.T) {
	b := newBed(t, nil)
	b.round(&counts{})
	b.want("")
	b.round(b.congested())
	b.want("+host-5 ")
	x := &b.last.Report.Open[0]
	if feed, suffer := names(x); feed != "host-1 host-2 host-3 host-4 " || suffer != "" {
		t.Errorf("without the SA: fed by %s, suffering %s", feed, suffer)
	}
	if x.Sign != Waiting || x.At.Desc != "leaf-C" || x.At.Port != 1 || x.Since != b.now.Add(-period) || x.Opened != b.now || x.Lane != -1 {
		t.Errorf("%+v", x)
	}

	b = newBed(t, nil)
	b.c.holds = func(src, _ ib.LID) (may, known bool) { return src != b.lid("host-2"), src != b.lid("host-4") }
	y := b.congested()
	y.lane[b.port("leaf-C", 1)] = 3
	b.round(y)
	x = &b.last.Report.Open[0]
	if feed, suffer := names(x); feed != "host-1 host-3 host-4 " || suffer != "host-2 " || x.Victims[0].Via.Desc != "leaf-A" || x.Lane != 3 || !x.Contributors[1].Known || x.Contributors[2].Known {
		t.Errorf("fed by %s, suffering %s: %+v", feed, suffer, x)
	}
	if len(b.last.Watch) != 1 || b.last.Watch[0] != x.At.GUID {
		t.Errorf("watches %v", b.last.Watch)
	}

	// Nothing waits between leaf B and the root, so hosts 3 and 4 wait for another reason.
	b.log = ""
	b.c = New(Defaults(), b.c.holds)
	y.wait[b.port("leaf-B", 3)] = 0
	b.round(y)
	if feed, _ := names(&b.last.Report.Open[0]); feed != "host-1 " {
		t.Errorf("fed by %s", feed)
	}
	// A host that begins to send later is added, and stays until the end.
	y.wait[b.port("leaf-B", 3)] = 0.5
	b.round(y)
	before := b.last.Report.Open[0].Contributors
	y.wait[b.port("host-1", 1)] = 0
	b.round(y)
	if feed, _ := names(&b.last.Report.Open[0]); feed != "host-1 host-3 host-4 " || before[0].Wait != 0.7 {
		t.Errorf("fed by %s; a report changed: %+v", feed, before)
	}
	b.want("+host-5 ")
}

// TestFull: a port in use all the time is a hot spot if somebody waits for it, and not if its one
// sender has what it wants.
func TestFull(t *testing.T) {
	b := newBed(t, nil)
	x := b.congested()
	x.wait[b.port("leaf-C", 1)], x.use[b.port("leaf-C", 1)] = 0, 0.97
	b.round(x)
	b.want("+host-5 ")
	if b.last.Report.Open[0].Sign != Full {
		t.Errorf("%+v", b.last.Report.Open[0])
	}
	// On a lane of their own the links that feed it are busy with others; the hosts still wait.
	x.wait[b.port("root", 3)] = 0
	b.round(x)
	b.want("")
	one := &counts{wait: map[int32]float64{}, use: map[int32]float64{b.port("leaf-C", 1): 0.99, b.port("host-1", 1): 0.99}}
	b.round(one)
	b.want("-host-5 ended ")
	b.round(one)
	b.want("")
	// Two hosts that share a link to a host at full speed: half of it for each.
	one.wait[b.port("root", 3)], one.wait[b.port("leaf-A", 3)] = 0.4, 0.5
	one.wait[b.port("host-1", 1)], one.use[b.port("host-1", 1)] = 0.5, 0.5
	b.round(one)
	b.want("+host-5 ")
}

// TestNotHot: a port that waits with nobody behind it that waits is none, nor is a silent one.
func TestNotHot(t *testing.T) {
	b := newBed(t, nil)
	p := b.port("leaf-C", 1)
	b.round(&counts{wait: map[int32]float64{p: 0.9}})
	x := b.congested()
	x.mute[p] = true
	b.round(x)
	y := b.congested()
	for _, h := range []string{"host-1", "host-2", "host-3", "host-4"} {
		y.use[b.port(h, 1)] = 0.5 // as much as half of its link: they need no more
	}
	b.round(y)
	b.want("")
}

// TestHysteresis: a hot spot stays while the port waits for half as long, while it is silent for a
// while, and ends with the first round without.
func TestHysteresis(t *testing.T) {
	b := newBed(t, nil)
	p := b.port("leaf-C", 1)
	b.round(b.congested())
	for range 30 {
		x := b.congested()
		x.wait[p] = 0.09
		b.round(x)
	}
	for range unseenRounds - 1 {
		x := b.congested()
		x.mute[p] = true
		b.round(x)
	}
	b.round(b.congested())
	b.want("+host-5 ")
	x := b.congested()
	x.wait[p], x.use[p] = 0.02, 0.1
	b.round(x)
	b.want("-host-5 ended ")
	b.round(b.congested())
	for range unseenRounds {
		x := b.congested()
		x.mute[p] = true
		b.round(x)
	}
	b.want("+host-5 -host-5 not seen any more ")
	b.s = newBed(t, nil).s
	if got := b.last.Report.Closed; len(got) != 2 || got[1].Closed == 0 {
		t.Errorf("%+v", got)
	}
}

// TestLongSample: a sample of an agent that was silent for more than three periods opens no hot spot:
// what it shows may have ended. Nor does it keep one open.
func TestLongSample(t *testing.T) {
	for periods, want := range map[int]string{3: "+host-5 ", 4: "", 20: ""} {
		b := newBed(t, nil)
		x := b.congested()
		x.long = map[int32]int{b.port("leaf-C", 1): periods}
		b.round(x)
		b.want(want)
		b.round(&counts{})
		b.log = ""
		// The same of hosts that would feed it.
		b = newBed(t, nil)
		x = b.congested()
		x.long = map[int32]int{}
		for _, h := range []string{"host-1", "host-2", "host-3", "host-4"} {
			x.long[b.port(h, 1)] = periods
		}
		b.round(x)
		b.want(want)
	}
	b := newBed(t, nil)
	b.round(b.congested())
	x := b.congested()
	x.long = map[int32]int{b.port("leaf-C", 1): 4}
	for range unseenRounds {
		b.round(x)
	}
	b.want("+host-5 -host-5 not seen any more ")
}

// TestMoved: the LIDs and the switch port of an open hot spot and of those that feed it are those of
// the snapshot.
func TestMoved(t *testing.T) {
	b := newBed(t, nil)
	b.round(b.congested())
	before := b.last.Report.Open[0]
	b.s = snaptest.New(t, bedFabric(t, true), minhop.Engine{}, 1)
	x := b.congested()
	x.wait[b.port("leaf-B", 1)], x.use[b.port("leaf-B", 1)] = 0.18, 0.82
	x.wait[b.port("leaf-C", 1)], x.use[b.port("leaf-C", 1)] = 0, 0.2
	x.wait[b.port("leaf-C", 3)], x.wait[b.port("root", 2)] = 0.5, 0.3
	b.round(x)
	now := &b.last.Report.Open[0]
	if now.ID != before.ID || now.At.Desc != "leaf-B" || before.At.Desc != "leaf-C" || now.Host.LID != b.lid("host-5") {
		t.Errorf("%+v, and before %+v", now, before)
	}
	if len(b.last.Watch) != 1 || b.last.Watch[0] != now.At.GUID {
		t.Errorf("watches %v", b.last.Watch)
	}
	for i := range now.Contributors {
		if c := &now.Contributors[i].Host; c.LID != b.lid(c.Desc) {
			t.Errorf("%+v", c)
		}
	}
}

// TestOscillation: whatever the counters do, a host's hot spot is opened again at most once in ten
// rounds, and tracks of hosts do not stay.
func TestOscillation(t *testing.T) {
	for seed := range uint64(15) {
		r := rand.New(rand.NewPCG(seed, 4))
		run := func(r *rand.Rand) (opened []int, all []*Report, c *Core) {
			b := newBed(t, nil)
			for round := range 400 {
				x := b.congested()
				if r.IntN(3) == 0 {
					x = &counts{}
				}
				b.round(x)
				if len(b.last.Opened) > 0 {
					opened = append(opened, round)
				}
				all = append(all, b.last.Report)
			}
			for range 40 {
				b.round(&counts{})
			}
			return opened, all, b.c
		}
		s := r.Uint64()
		opened, all, c := run(rand.New(rand.NewPCG(s, 1)))
		for i := 2; i < len(opened); i++ { // the first of a series is no reopening
			if opened[i]-opened[i-1] <= 10 && opened[i-1]-opened[i-2] <= 10 {
				t.Fatalf("seed %d: opened in rounds %v", seed, opened[i-2:i+1])
			}
		}
		if len(opened) < 20 || len(c.tracks) != 0 {
			t.Fatalf("seed %d: opened %d times, %d tracks are left", seed, len(opened), len(c.tracks))
		}
		if _, again, _ := run(rand.New(rand.NewPCG(s, 1))); !reflect.DeepEqual(all, again) {
			t.Fatalf("seed %d gives two results", seed)
		}
	}
}

// TestFreed: a victim that is free since the last round sends at full speed to a host that takes
// less than its link carries. What its ports show is half of before, so that it seems to wait and
// to feed this host. If it still does a round later it is a contributor.
func TestFreed(t *testing.T) {
	for _, stays := range []bool{false, true} {
		var b *bed
		b = newBed(t, func(src, dst ib.LID) (may, known bool) {
			return dst == b.lid("host-5") && src != b.lid("host-2") || src == b.lid("host-2") && dst == b.lid("host-3"), true
		})
		b.round(b.congested())
		b.want("+host-5 ")
		x := b.congested()
		x.wait[b.port("leaf-B", 1)], x.use[b.port("leaf-B", 1)] = 0.11, 0.55
		x.wait[b.port("root", 2)] = 0.2
		b.round(x)
		b.want("")
		if stays {
			b.round(x)
			b.want("+host-3 ")
			continue
		}
		x.wait[b.port("leaf-B", 1)], x.use[b.port("leaf-B", 1)] = 0.18, 0.82
		x.wait[b.port("host-2", 1)], x.use[b.port("host-2", 1)] = 0.02, 0.82
		b.round(x)
		b.round(x)
		b.want("")
	}
}

// TestNeighborOfHot: where inputs are FIFOs packets to host 6 wait behind those to host 5, and its
// port counts that as waiting. It is none, whatever the round, until it is busy nearly all the time.
func TestNeighborOfHot(t *testing.T) {
	b := newBed(t, nil)
	x := b.congested()
	next := b.port("leaf-C", 2)
	x.wait[next], x.use[next] = 0.16, 0.17
	for range 3 {
		b.round(x)
	}
	b.want("+host-5 ")
	x.wait[next], x.use[next] = 0.18, 0.74
	b.round(x)
	b.want("+host-6 ")
	// It stays while it sends or waits for most of the time.
	x.wait[next], x.use[next] = 0.16, 0.5
	b.round(x)
	b.want("")
	x.wait[next], x.use[next] = 0.16, 0.17
	b.round(x)
	b.want("-host-6 ended ")
}

// TestBeganWithin: a hot spot that began within a round has kept its port busy for a part of it.
// Where nothing else was sent it is found in that round, and elsewhere, or where the switch's other
// ports were not read, in the next one.
func TestBeganWithin(t *testing.T) {
	for _, c := range []struct {
		name  string
		other float64
		mute  bool
		want  string
	}{{"quiet", 0.1, false, "+host-5 "}, {"others send", 0.12, false, ""}, {"not read", 0, true, ""}} {
		b := newBed(t, nil)
		x := b.congested()
		at := b.port("leaf-C", 1)
		x.wait[at], x.use[at] = 0.11, 0.5
		x.use[b.port("leaf-C", 2)], x.mute[b.port("leaf-C", 3)] = c.other, c.mute
		b.round(x)
		if b.log != c.want {
			t.Errorf("%s: %q, want %q", c.name, b.log, c.want)
		}
		b.log = ""
		x.wait[at], x.use[at] = 0.18, 0.82
		b.round(x)
		if c.want == "" {
			b.want("+host-5 ")
		}
		b.want("")
	}
}

// TestFullThatWaits: a hot spot whose port is in use all the time, and then waits for inputs that are
// busy with others, has ended.
func TestFullThatWaits(t *testing.T) {
	b := newBed(t, nil)
	x := b.congested()
	at := b.port("leaf-C", 1)
	x.wait[at], x.use[at] = 0, 0.99
	b.round(x)
	b.want("+host-5 ")
	x.wait[at], x.use[at], x.use[b.port("leaf-C", 2)] = 0.2, 0.2, 0.85
	b.round(x)
	b.want("-host-5 ended ")
}
