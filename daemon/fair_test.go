package daemon

import (
	"math/rand/v2"
	"slices"
	"testing"

	"heddle/ib"
	"heddle/mad"
)

// naiveFair is a simple model of fair.
type naiveFair struct {
	perSource, total, n int
	lines               map[ib.LID][]mad.Time
	used                map[ib.LID]mad.Time // in ticks
	heavy               map[ib.LID]bool
	turns               [2][]ib.LID // of light and heavy sources, the next first
	lights              int
}

func (f *naiveFair) put(lid ib.LID, at mad.Time) refusal {
	const most = lightBurst * lightEvery
	now := at / tick
	ahead := max(f.used[lid]-now, 0)
	f.heavy[lid] = ahead > most-lightEvery
	f.used[lid] = now + min(ahead+lightEvery, most)
	free, mine := f.total-f.n, len(f.lines[lid])
	switch {
	case free == 0:
		return everythingFull
	case mine >= f.perSource || mine > 0 && mine >= free/2:
		return sourceFull
	}
	if mine == 0 {
		f.enter(lid)
	}
	f.lines[lid] = append(f.lines[lid], at)
	f.n++
	return accepted
}

func (f *naiveFair) enter(lid ib.LID) {
	which := 0
	if f.heavy[lid] {
		which = 1
	}
	f.turns[which] = append(f.turns[which], lid)
}

func (f *naiveFair) take() (at mad.Time, light, ok bool) {
	for len(f.turns[0]) > 0 && f.heavy[f.turns[0][0]] {
		f.turns[1] = append(f.turns[1], f.turns[0][0])
		f.turns[0] = f.turns[0][1:]
	}
	which := 0
	switch waits := len(f.turns[1]) > 0; {
	case len(f.turns[0])+len(f.turns[1]) == 0:
		return 0, false, false
	case waits && (len(f.turns[0]) == 0 || f.lights >= heavyEvery-1):
		which, f.lights = 1, 0
	default:
		f.lights++
	}
	lid := f.turns[which][0]
	f.turns[which] = f.turns[which][1:]
	at = f.lines[lid][0]
	if f.lines[lid] = f.lines[lid][1:]; len(f.lines[lid]) > 0 {
		f.enter(lid)
	}
	if len(f.turns[1]) == 0 {
		f.lights = 0
	}
	f.n--
	return at, which == 0, true
}

// TestFairModel: any sequence of puts and takes gives the same requests in the same order as
// the model, whatever the clock says at the beginning.
func TestFairModel(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 7))
		per, total, lids := 1+rng.IntN(20), 1+rng.IntN(60), 1+rng.IntN(12)
		f := newFair(per, total)
		want := naiveFair{
			perSource: per, total: total, lines: map[ib.LID][]mad.Time{},
			used: map[ib.LID]mad.Time{}, heavy: map[ib.LID]bool{},
		}
		fill, pause := rng.IntN(100), 1
		now := mad.Time(rng.Int64N(2)) * (1<<32*tick - 2000*tick) // the count of ticks wraps soon, or begins
		var b [24]query
		for step := range 4000 {
			if step%500 == 0 {
				fill, pause = rng.IntN(100), 1+rng.IntN(2)*rng.IntN(100)*tick
			}
			now += 1 + mad.Time(rng.IntN(pause))
			if rng.IntN(100) < fill {
				lid := ib.LID(rng.IntN(lids) * 0xFFFF / max(1, lids-1)) // 0 and 0xFFFF too
				if got, w := f.put(lid, query{at: now}), want.put(lid, now); got != w {
					t.Fatalf("seed %d: put gives %d, want %d", seed, got, w)
				}
			} else {
				n := f.take(b[:rng.IntN(len(b)+1)])
				for i := range n {
					if at, light, ok := want.take(); !ok || at != b[i].at || light != b[i].light {
						t.Fatalf("seed %d: took the request of %d, light %v, want that of %d, %v", seed, b[i].at, b[i].light, at, light)
					}
				}
			}
			if sources := len(want.turns[0]) + len(want.turns[1]); f.len() != want.n || f.sources() != sources {
				t.Fatalf("seed %d: %d requests of %d, want %d of %d", seed, f.len(), f.sources(), want.n, sources)
			}
		}
		for n := want.n; n > 0; n-- {
			at, _, _ := want.take()
			if f.take(b[:1]) != 1 || b[0].at != at {
				t.Fatalf("seed %d: the end is not as it should be", seed)
			}
		}
		if f.take(b[:]) != 0 || f.left != total {
			t.Fatalf("seed %d: something is left in an empty queue", seed)
		}
	}
}

// TestFairLight: a requester that asks now and then passes those that ask for much, whether it
// comes before or after them; but these are not starved.
func TestFairLight(t *testing.T) {
	const crowd, paths = 100, 32
	f := newFair(1000, 8000)
	for lid := range ib.LID(crowd) {
		for range paths {
			f.put(1+lid, query{at: 1})
		}
	}
	var b [1]query
	f.put(999, query{at: 2})
	if f.take(b[:]); b[0].at != 2 || !b[0].light {
		t.Errorf("served first: the request of %d, light %v", b[0].at, b[0].light)
	}
	// So many hosts ask for one path each that at least one of them always waits.
	heavy := 0
	for i := range 10 * heavyEvery {
		f.put(ib.LID(1000+i), query{at: 3})
		f.put(ib.LID(2000+i), query{at: 3})
		if f.take(b[:]); b[0].at == 1 {
			heavy++
		}
	}
	if heavy != 10 {
		t.Errorf("%d requests of the crowd were served among %d", heavy, 10*heavyEvery)
	}
	// When the crowd has been served and is quiet for a while, it is light again.
	for f.take(b[:]) > 0 {
	}
	const later = 1 + lightEvery*tick
	f.put(1, query{at: later})
	f.put(2, query{at: later})
	f.put(2, query{at: later})
	for _, want := range []bool{true, false, false} {
		if f.take(b[:]); b[0].light != want {
			t.Errorf("after a pause: light %v, want %v", b[0].light, want)
		}
	}
}

// TestFairShare: a requester waits for at most one request of each other one per request of its
// own, however many those have queued, and for none of them if it asks for little.
func TestFairShare(t *testing.T) {
	const others = 50
	for _, mine := range []int{3, lightBurst, lightBurst + 1} {
		f := newFair(1000, 8000)
		for range 100 {
			for lid := range ib.LID(others) {
				f.put(lid, query{})
			}
		}
		for i := range mine {
			if f.put(999, query{at: mad.Time(i + 1)}) != accepted {
				t.Fatal("refused")
			}
		}
		var b [1]query
		var turns, want []int
		for n := 1; len(turns) < mine; n++ {
			if f.take(b[:]) != 1 {
				t.Fatal("empty")
			}
			if b[0].at != 0 {
				turns = append(turns, n)
			}
		}
		for i := range mine {
			switch {
			case mine > lightBurst:
				want = append(want, (i+1)*(others+1))
			default:
				want = append(want, 1+i+i/(heavyEvery-1))
			}
		}
		if !slices.Equal(turns, want) {
			t.Errorf("%d requests were served at %v, want %v", mine, turns, want)
		}
	}
}

// TestFairRoom: however many requesters flood, a new one finds room, and a single one may fill
// its share.
func TestFairRoom(t *testing.T) {
	for _, flooders := range []int{1, 2, 10, 100, 500} {
		f := newFair(1024, 8192)
		for range 10000 {
			for lid := range ib.LID(flooders) {
				f.put(lid, query{})
			}
		}
		if flooders == 1 && f.len() != 1024 {
			t.Errorf("one flooder has %d places", f.len())
		}
		if n := f.put(40000, query{}); n != accepted {
			t.Errorf("%d flooders leave no room for another requester (%d wait)", flooders, f.len())
		}
	}
}

func BenchmarkFair(b *testing.B) {
	f := newFair(1024, 8192)
	var out [16]query
	b.ReportAllocs()
	for i := 0; b.Loop(); i += len(out) {
		for k := range out {
			f.put(ib.LID((i+k)*7%12000), query{})
		}
		f.take(out[:])
	}
}
