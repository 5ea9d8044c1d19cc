package sa_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
	"heddle/route/engine/lash"
	"heddle/route/engine/minhop"
	"heddle/sa"
	"heddle/subnet"
)

// slowBed is a fabric with users of paths on one lane.
type slowBed struct {
	*fixture
	f     *pathFabric
	users []*user
	rng   *rand.Rand
}

// newSlowBed has each host use paths to the next two, or as peers says.
func newSlowBed(t testing.TB, cfg sa.Config, seed uint64, aware func(i int) bool) *slowBed {
	t.Helper()
	f := newPathFabric(t, minhop.Engine{}, "xgft", "2", "3,3", "1,2")
	b := &slowBed{fixture: newFixture(t, f.s, cfg), f: f, rng: rand.New(rand.NewPCG(seed, 15))}
	for i, h := range f.hosts {
		n := len(f.hosts)
		u := &user{r: b.fixture, port: h, aware: aware(i), peers: []int32{f.hosts[(i+1)%n], f.hosts[(i+2)%n]}, held: map[int32]wire.PathRecord{}}
		u.subscribe()
		u.askAll()
		b.users = append(b.users, u)
	}
	pump(b.fixture, b.users, b.rng, 0, 5*time.Second)
	for _, u := range b.users {
		u.heard, u.asked, u.caught = 0, 0, 0
	}
	return b
}

// pair is the path from one host to another.
func (b *slowBed) pair(from, to int) subnet.PortPair {
	return subnet.PortPair{From: b.snap.Ports[b.f.hosts[from]].GUID, To: b.snap.Ports[b.f.hosts[to]].GUID}
}

func (b *slowBed) slow(until time.Duration, pairs ...subnet.PortPair) {
	b.step(sa.SetSlowPaths{Paths: subnet.NewSlowPaths(3, pairs), Snap: b.snap, Until: b.now.Add(until)})
	pump(b.fixture, b.users, b.rng, 0, time.Second)
}

// heard is how many Reports each host got, and forgets them.
func (b *slowBed) heard() map[int]int {
	m := map[int]int{}
	for i, u := range b.users {
		if u.heard > 0 {
			m[i] = u.heard
		}
		u.heard = 0
	}
	return m
}

// levels are those that the hosts use: for each that is not 0, "from-to:level".
func (b *slowBed) levels() (s string) {
	b.t.Helper()
	for i, u := range b.users {
		for _, d := range u.peers {
			if sl := u.held[d].SL; sl != 0 {
				s += fmt.Sprintf("%d-%d:%d ", i, slices.Index(b.f.hosts, d), sl)
			}
		}
		if w := u.wrong(); len(w) > 0 {
			b.t.Errorf("host %d: %s", i, w[0])
		}
	}
	return s
}

// TestSlowPaths: contributors have a Report of the one path that moves, others none; what they ask
// later has the same level, and the paths come back when they are taken away, and by themselves.
func TestSlowPaths(t *testing.T) {
	for _, aware := range []bool{false, true} {
		b := newSlowBed(t, sa.Config{}, 1, func(int) bool { return aware })
		// Host 6 does not use the path to host 2.
		b.slow(time.Minute, b.pair(0, 2), b.pair(1, 2), b.pair(6, 2))
		if l, h := b.levels(), b.heard(); l != "0-2:3 1-2:3 " || !maps.Equal(h, map[int]int{0: 1, 1: 1}) {
			t.Errorf("levels %s, Reports %v", l, h)
		}
		for _, u := range b.users {
			if u.asked > 0 || u.caught > 0 {
				t.Errorf("a host asked %d times, and %d times for changes: the Report has the values", u.asked, u.caught)
			}
		}
		// A flow that comes later.
		u := b.users[6]
		u.peers = append(u.peers, b.f.hosts[2])
		u.askAll()
		if l := b.levels(); l != "0-2:3 1-2:3 6-2:3 " {
			t.Error(l)
		}
		b.slow(time.Minute, b.pair(0, 2), b.pair(1, 2), b.pair(6, 2)) // the same again
		b.slow(time.Minute, b.pair(1, 2), b.pair(6, 2), b.pair(0, 1))
		if l, h := b.levels(), b.heard(); l != "0-1:3 1-2:3 6-2:3 " || !maps.Equal(h, map[int]int{0: 2}) {
			t.Errorf("levels %s, Reports %v", l, h)
		}
		pump(b.fixture, b.users, b.rng, 0, time.Minute)
		if l, h := b.levels(), b.heard(); l != "" || !maps.Equal(h, map[int]int{0: 1, 1: 1, 6: 1}) {
			t.Errorf("levels %s, Reports %v after their time", l, h)
		}
		b.slow(time.Minute, b.pair(0, 1))
		b.slow(time.Minute)
		if l := b.levels(); l != "" {
			t.Error(l)
		}
	}
}

// TestSlowPathQueries: a query that names a level is not given another one.
func TestSlowPathQueries(t *testing.T) {
	b := newSlowBed(t, sa.Config{}, 1, func(int) bool { return true })
	b.slow(time.Minute, b.pair(0, 2))
	for _, x := range []struct {
		mask     wire.CompMask
		asks, sl ib.SL
	}{{0, 0, 3}, {wire.PathCompSL, 0, 0}, {wire.PathCompSL, 3, 3}, {wire.PathCompSL, 2, 2}} {
		q := ask(ib.MethodGet, wire.AttrPathRecord, wire.PathCompSGID|wire.PathCompDGID|x.mask,
			&wire.PathRecord{SGID: b.snap.GID(b.f.hosts[0]), DGID: b.snap.GID(b.f.hosts[2]), SL: x.asks})
		a := b.ask(b.users[0].lid(), q)
		var p wire.PathRecord
		if err := p.Decode(a[wire.HeaderLen : wire.HeaderLen+wire.PathRecordLen]); status(a) != 0 || err != nil || p.SL != x.sl {
			t.Errorf("level %d with mask %x: status %v, level %d", x.asks, x.mask, status(a), p.SL)
		}
	}
}

// TestSlowPathsAfterRestart: a manager that starts again has no slow paths, and has all hosts use
// theirs again within its first seconds; so has one that is not master for a while.
func TestSlowPathsAfterRestart(t *testing.T) {
	for _, settled := range []bool{false, true} {
		b := newSlowBed(t, sa.Config{}, 1, func(i int) bool { return i%2 == 0 })
		b.slow(time.Hour, b.pair(0, 2), b.pair(1, 2))
		if b.levels() == "" {
			t.Fatal("nothing moved")
		}
		if settled {
			pump(b.fixture, b.users, b.rng, 0, time.Minute)
			if !b.core.Signals().Settled {
				t.Fatal("not settled")
			}
		}
		b.restart()
		b.publish(b.f.s)
		pump(b.fixture, b.users, b.rng, 0, 3*time.Second)
		if l := b.levels(); l != "" {
			t.Errorf("settled %v: levels %s after a restart", settled, l)
		}
		b.slow(time.Hour, b.pair(0, 2))
		down := clone(b.f.s)
		down.Up = false
		b.publish(down)
		b.step(sa.SetSlowPaths{Paths: subnet.NewSlowPaths(3, []subnet.PortPair{b.pair(0, 2)}), Snap: b.snap, Until: mad.Never})
		b.publish(b.f.s)
		pump(b.fixture, b.users, b.rng, 0, 10*time.Second)
		if l := b.levels(); l != "" {
			t.Errorf("levels %s after another manager", l)
		}
	}
}

// TestSlowPathsAndRoutes: other tables of one lane leave slow paths where they are; tables with
// levels have them come back until they are checked again.
func TestSlowPathsAndRoutes(t *testing.T) {
	b := newSlowBed(t, sa.Config{}, 1, func(int) bool { return true })
	b.slow(time.Hour, b.pair(0, 2))
	now := clone(b.f.s)
	now.PacketLife, now.Tables = b.f.s.PacketLife, b.f.s.Tables.Clone()
	b.f.s = now
	b.publish(now)
	pump(b.fixture, b.users, b.rng, 0, 5*time.Second)
	if l := b.levels(); l != "0-2:3 " {
		t.Error(l)
	}
	now = clone(b.f.s)
	now.PacketLife, now.Tables = b.f.s.PacketLife, b.f.s.Tables.Clone()
	b.f.levels(now, b.rng, 0)
	b.f.s = now
	b.publish(now)
	pump(b.fixture, b.users, b.rng, 0, 5*time.Second)
	if l := b.levels(); l != "" {
		t.Error(l)
	}
}

// TestSlowPathsOfOlderTables: a plan that was made before other tables were published is not taken as
// proved by them, and whatever it replaces comes back too. Tables of one lane, and the same tables
// in another snapshot, keep it.
func TestSlowPathsOfOlderTables(t *testing.T) {
	b := newSlowBed(t, sa.Config{}, 1, func(int) bool { return true })
	plan := func(made *subnet.Snapshot, want string) {
		t.Helper()
		b.step(sa.SetSlowPaths{Paths: subnet.NewSlowPaths(3, []subnet.PortPair{b.pair(0, 2)}), Snap: made, Until: b.now.Add(time.Hour)})
		pump(b.fixture, b.users, b.rng, 0, 5*time.Second)
		if l := b.levels(); l != want {
			t.Errorf("levels %q, want %q", l, want)
		}
	}
	next := func(change func(s *subnet.Snapshot)) {
		now := clone(b.f.s)
		now.PacketLife, now.Tables = b.f.s.PacketLife, b.f.s.Tables
		change(now)
		b.f.s = now
		b.publish(now)
		pump(b.fixture, b.users, b.rng, 0, 5*time.Second)
	}
	flat := b.snap
	next(func(s *subnet.Snapshot) { s.Tables = s.Tables.Clone() })
	plan(flat, "0-2:3 ")
	next(func(s *subnet.Snapshot) {
		s.Tables = s.Tables.Clone()
		b.f.levels(s, b.rng, 0)
	})
	layers := b.snap
	plan(flat, "")
	plan(layers, "0-2:3 ")
	next(func(*subnet.Snapshot) {})
	plan(layers, "0-2:3 ")
	next(func(s *subnet.Snapshot) { s.Tables = s.Tables.Clone() })
	plan(layers, "")
	plan(b.snap, "0-2:3 ")
	plan(layers, "") // what it replaces too: nobody knows both
	plan(nil, "")
}

// TestSlowPathCampaign: with slow paths that come and go among changes of routes, lost Reports,
// deaf hosts and restarts, every host has the paths that the SA answers with.
func TestSlowPathCampaign(t *testing.T) {
	met := 0
	for _, seed := range seedsOf(40) {
		rng := rand.New(rand.NewPCG(seed, 70))
		cfg := sa.Config{Signal: sa.Signal(seed % 4), SignalRate: []int{0, 2000, 20}[rng.IntN(3)], DropAfter: 5 * time.Minute}
		b := newSlowBed(t, cfg, seed, func(i int) bool { return i%2 == 0 })
		if rng.IntN(2) == 0 {
			b.f = newPathFabric(t, lash.Engine{}, "xgft", "2", "3,3", "1,2")
		}
		for range 10 {
			loss := []int{0, 3, 10}[rng.IntN(3)]
			for range 1 + rng.IntN(4) {
				switch rng.IntN(8) {
				case 0:
					b.f.change(rng)
					b.publish(b.f.s)
				case 1:
					b.sends = nil
					b.restart()
					b.publish(b.f.s)
				case 2:
					u := b.users[rng.IntN(len(b.users))]
					u.deaf = !u.deaf
				default:
					var pairs []subnet.PortPair
					for range rng.IntN(6) {
						pairs = append(pairs, b.pair(rng.IntN(9), rng.IntN(9)))
					}
					b.step(sa.SetSlowPaths{Paths: subnet.NewSlowPaths(3, pairs), Snap: b.snap, Until: b.now.Add(time.Duration(rng.IntN(100)) * time.Second)})
				}
				pump(b.fixture, b.users, rng, loss, time.Duration(rng.IntN(2000))*time.Millisecond)
			}
			for _, u := range b.users {
				u.deaf = u.deaf && rng.IntN(2) == 0
			}
			pump(b.fixture, b.users, rng, 0, 40*time.Second)
			for i, u := range b.users {
				if w := u.wrong(); len(w) > 0 && !u.deaf {
					t.Fatalf("seed %d, %v, host %d: %s", seed, cfg.Signal, i, w[0])
				}
				for _, p := range u.held {
					if p.SL == 3 {
						met++
					}
				}
			}
		}
	}
	if met == 0 {
		t.Error("no path was slow")
	}
}
