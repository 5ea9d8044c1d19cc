package sa_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/route"
	"heddle/route/engine/lash"
	"heddle/route/engine/minhop"
	"heddle/sa"
	"heddle/subnet"
)

// user is a program on a host that uses paths: it asks once, and believes what it has until it is
// notified.
type user struct {
	r      *fixture
	port   int32
	aware  bool // it asks for what changed since a generation
	deaf   bool // it receives nothing
	gen    uint64
	peers  []int32 // it uses paths to them
	held   map[int32]wire.PathRecord
	asked  int // queries
	heard  int // Reports
	caught int // queries for changes
}

func (u *user) lid() ib.LID { return u.r.snap.Ports[u.port].LID }

func (u *user) subscribe() {
	u.r.want(u.lid(), inform(trapNumber(smp.TrapRePath)), 0)
	u.r.want(u.lid(), inform(trapNumber(smp.TrapUnPath)), 0)
}

// query is how the SA answers for a path now; ok is false if there is none.
func (u *user) query(dst int32) (p wire.PathRecord, ok bool) {
	q := ask(ib.MethodGet, wire.AttrPathRecord, wire.PathCompSGID|wire.PathCompDGID, &wire.PathRecord{SGID: u.r.snap.GID(u.port), DGID: u.r.snap.GID(dst)})
	b := u.r.ask(u.lid(), q)
	if status(b) != 0 {
		return p, false
	}
	if err := p.Decode(b[wire.HeaderLen : wire.HeaderLen+wire.PathRecordLen]); err != nil {
		u.r.t.Fatal(err)
	}
	return p, true
}

func (u *user) ask(dst int32) {
	u.asked++
	delete(u.held, dst)
	if p, ok := u.query(dst); ok {
		u.held[dst] = p
	}
}

func (u *user) askAll() {
	for _, d := range u.peers {
		u.ask(d)
	}
}

// take is what a Report does to the user.
func (u *user) take(p mad.Packet) {
	u.heard++
	data := wire.Data((*ib.MAD)(p.Data))
	var n wire.Notice
	var x wire.PathNotice
	if n.Decode(data[:wire.NoticeLen]) != nil || x.Decode(data[wire.NoticeLen:]) != nil {
		u.r.t.Fatal("bad Report")
	}
	var d smp.DetailPath
	d.Get(&n.DataDetails)
	mask := wire.CompMask(d.ComponentMask)
	one := mask.Any(wire.PathCompDLID | wire.PathCompDGID)
	switch {
	case !u.aware && !one:
		u.askAll()
	case u.aware && (!one || u.gen < x.Before || u.gen>>32 != x.Generation>>32):
		u.catchUp()
	default:
		u.apply(mask, &x.Path, n.TrapNumber == smp.TrapUnPath)
		if !x.More {
			u.gen = max(u.gen, x.Generation)
		}
	}
}

// apply is what one changed path does.
func (u *user) apply(mask wire.CompMask, p *wire.PathRecord, lost bool) {
	for _, dst := range u.peers {
		gid := u.r.snap.GID(dst)
		had, has := u.held[dst]
		switch {
		case mask.Has(wire.PathCompDGID) && gid != p.DGID, !mask.Has(wire.PathCompDGID) && has && had.DLID != p.DLID:
		case lost:
			delete(u.held, dst)
		case p.MTU == 0 || gid != p.DGID || has && had.PKey != p.PKey:
			u.ask(dst)
		default:
			u.held[dst] = *p
		}
	}
}

func (u *user) catchUp() {
	u.caught++
	b := u.r.ask(u.lid(), ask(ib.MethodGetTable, wire.AttrPathChangeRecord, wire.PathChangeCompGeneration, &wire.PathChangeRecord{Generation: u.gen}))
	if status(b) != 0 {
		u.r.t.Fatalf("query for changes: %v", status(b))
	}
	for i, b := 0, b[wire.HeaderLen:]; len(b) >= wire.PathChangeRecordLen; i, b = i+1, b[wire.PathChangeRecordLen:] {
		var x wire.PathChangeRecord
		if err := x.Decode(b[:wire.PathChangeRecordLen]); err != nil || x.Head != (i == 0) {
			u.r.t.Fatalf("%v, %+v", err, x)
		}
		switch {
		case x.Head:
			if u.gen = x.Generation; x.All {
				u.askAll()
			}
		default:
			mask := wire.PathCompSGID | wire.PathCompDLID
			if !x.Path.DGID.IsZero() {
				mask |= wire.PathCompDGID
			}
			u.apply(mask, &x.Path, x.Lost)
		}
	}
}

// wrong lists the peers whose path is another one than the user has.
func (u *user) wrong() (list []string) {
	for _, d := range u.peers {
		p, ok := u.query(d)
		if h, has := u.held[d]; has != ok || h != p {
			list = append(list, fmt.Sprintf("from %d to %d: has %v %+v, is %v %+v", u.port, d, has, h, ok, p))
		}
	}
	return list
}

// pump delivers what the core sends until nothing is left to do, at most for the time. A packet
// is lost with the chance of one in loss; 0: never.
func pump(r *fixture, users []*user, rng *rand.Rand, loss int, most time.Duration) {
	lost := func() bool { return loss > 0 && rng.IntN(loss) == 0 }
	end := r.now.Add(most)
	for {
		for len(r.sends) > 0 {
			p := r.sends[0]
			r.sends = r.sends[1:]
			i := slices.IndexFunc(users, func(u *user) bool { return u.lid() == p.Addr.LID })
			if i < 0 || users[i].deaf || lost() {
				continue
			}
			if users[i].take(p); !lost() {
				r.answer(p)
			}
		}
		if r.timer > end {
			r.until(end)
			return
		}
		r.until(r.timer)
	}
}

// pathFabric makes snapshots of one fabric whose paths change.
type pathFabric struct {
	s     *subnet.Snapshot
	hosts []int32
}

func newPathFabric(tb testing.TB, e route.Engine, kind string, params ...string) *pathFabric {
	f := &pathFabric{s: fabricSnapshot(tb, e, 0, 4, kind, params...)}
	for _, p := range f.s.EndPortPort {
		if f.s.Ports[p].Num != 0 {
			f.hosts = append(f.hosts, p)
		}
	}
	return f
}

// change makes the next snapshot: some service levels, a rate, an entry, or the ports of paths
// with the same values.
func (f *pathFabric) change(rng *rand.Rand) {
	now := clone(f.s)
	now.PacketLife = f.s.PacketLife
	now.Tables = f.s.Tables.Clone()
	switch rng.IntN(12) {
	case 0: // lifetime of all paths
		now.PacketLife = uint8(16 + rng.IntN(4))
	case 1, 2, 3:
		f.rate(now, rng)
	case 4, 5:
		row := slices.Clone(now.Tables.LFT[rng.IntN(len(now.Tables.LFT))])
		for range 1 + rng.IntN(3) {
			now.Tables.LFT[rng.IntN(len(now.Tables.LFT))][1+rng.IntN(len(row)-1)] = route.Drop
		}
	case 6: // all that was lost comes back
		t, err := minhop.Engine{}.Compute(now.Graph, route.Options{Workers: 1})
		if err != nil {
			panic(err)
		}
		now.Tables.LFT = t.LFT
	default:
		f.levels(now, rng, 1+rng.IntN(40))
	}
	f.s = now
}

// levels changes service levels of pairs of switches.
func (f *pathFabric) levels(now *subnet.Snapshot, rng *rand.Rand, n int) {
	t := now.Tables
	t.SwitchClasses(now.Graph)
	sl := make([]ib.SL, len(now.Graph.Switches)*t.NumClasses)
	if len(t.SL) == len(sl) {
		copy(sl, t.SL)
	}
	for range n {
		sl[rng.IntN(len(sl))] = ib.SL(rng.IntN(4))
	}
	t.SL, t.NumVLs = sl, 4
}

// rate changes the rate of a link.
func (f *pathFabric) rate(now *subnet.Snapshot, rng *rand.Rand) {
	g := *now.Graph
	g.Channels, g.EndPorts = slices.Clone(g.Channels), slices.Clone(g.EndPorts)
	rate := []ib.Rate{ib.Rate100, ib.Rate40, ib.Rate20}[rng.IntN(3)]
	gbps := map[ib.Rate]float32{ib.Rate100: 100, ib.Rate40: 40, ib.Rate20: 20}[rate]
	p := int32(0)
	for now.Ports[p].Peer.Node < 0 || now.Ports[p].Num == 0 {
		p = int32(rng.IntN(len(now.Ports)))
	}
	for _, i := range []int32{p, now.PortIndex(now.Ports[p].Peer)} {
		x := now.Ports[i]
		x.Rate = rate
		if e := x.EndPort; e >= 0 && x.Num != 0 && now.Nodes[x.Node].SwitchIndex < 0 {
			g.EndPorts[e].Gbps = gbps
		}
		if s := now.Nodes[x.Node].SwitchIndex; s >= 0 && g.PortChannel[s][x.Num] != -1 {
			g.Channels[g.PortChannel[s][x.Num]].Gbps = gbps
		}
	}
	now.Graph = &g
	now.Finish()
}

func seedsOf(n int) (list []uint64) {
	if v, err := strconv.ParseUint(os.Getenv("HEDDLE_SEED"), 10, 64); err == nil {
		return []uint64{v}
	}
	if v, err := strconv.Atoi(os.Getenv("HEDDLE_SEEDS")); err == nil {
		n = v
	}
	for s := range uint64(n) {
		list = append(list, s)
	}
	return list
}

// TestSignalCampaign: with lost Reports, lost responses, deaf hosts, changes that follow each
// other, and restarts of the manager between the change and its Reports, every host has the paths
// that the SA answers with, at the latest 40 s after the last disturbance.
func TestSignalCampaign(t *testing.T) {
	spared, caught, paths, all := uint64(0), 0, uint64(0), uint64(0)
	for _, seed := range seedsOf(60) {
		rng := rand.New(rand.NewPCG(seed, 69))
		cfg := sa.Config{Signal: sa.Signal(seed % 4), SignalRate: []int{0, 2000, 20}[rng.IntN(3)], DropAfter: 5 * time.Minute}
		f := newPathFabric(t, lash.Engine{}, "mesh", "3x3")
		f.levels(f.s, rng, 0)
		r := newFixture(t, f.s, cfg)
		var users []*user
		for i, h := range f.hosts {
			u := &user{r: r, port: h, aware: i%2 == 0, held: map[int32]wire.PathRecord{}}
			for _, d := range f.hosts {
				if d != h && rng.IntN(3) == 0 {
					u.peers = append(u.peers, d)
				}
			}
			u.subscribe()
			u.askAll()
			users = append(users, u)
		}
		pump(r, users, rng, 0, time.Second)
		for range 12 {
			loss := []int{0, 3, 10}[rng.IntN(3)]
			for range 1 + rng.IntN(3) {
				f.change(rng)
				r.publish(f.s)
				switch rng.IntN(6) {
				case 0: // the manager dies with the Reports
					r.sends = nil
					stats := r.core.Signals()
					spared, paths, all = spared+stats.Spared, paths+stats.Paths, all+stats.All
					r.restart()
					if rng.IntN(2) == 0 {
						f.change(rng)
					}
					r.publish(f.s)
				case 1:
					u := users[rng.IntN(len(users))]
					u.deaf = !u.deaf
				}
				pump(r, users, rng, loss, time.Duration(rng.IntN(2000))*time.Millisecond)
			}
			for _, u := range users {
				if u.deaf && rng.IntN(2) == 0 {
					u.deaf = false
				}
				if rng.IntN(10) == 0 { // a new connection
					d := f.hosts[rng.IntN(len(f.hosts))]
					if d != u.port && !slices.Contains(u.peers, d) {
						u.peers = append(u.peers, d)
						u.ask(d)
					}
				}
			}
			pump(r, users, rng, 0, 40*time.Second)
			for _, u := range users {
				if u.deaf {
					continue
				}
				if w := u.wrong(); len(w) > 0 {
					t.Fatalf("seed %d, %v, aware %v: %d wrong paths, as %s", seed, cfg.Signal, u.aware, len(w), w[0])
				}
			}
		}
		stats := r.core.Signals()
		spared, paths, all = spared+stats.Spared, paths+stats.Paths, all+stats.All
		for _, u := range users {
			caught += u.caught
		}
	}
	if spared == 0 || caught == 0 || paths == 0 || all == 0 {
		t.Errorf("%d spared, %d queries for changes, %d Reports of a path, %d of any: not everything was met", spared, caught, paths, all)
	}
}

// TestDeafHostIsRightAgain: a host that was dropped because it did not answer, and subscribes
// again, is notified of what it missed, also by a manager that has started again in between.
func TestDeafHostIsRightAgain(t *testing.T) {
	for _, restart := range []bool{false, true} {
		rng := rand.New(rand.NewPCG(1, 1))
		f := newPathFabric(t, lash.Engine{}, "mesh", "3x3")
		f.levels(f.s, rng, 0)
		r := newFixture(t, f.s, sa.Config{DropAfter: time.Minute})
		u := &user{r: r, port: f.hosts[0], peers: f.hosts[1:], held: map[int32]wire.PathRecord{}}
		u.subscribe()
		u.askAll()
		users := []*user{u}
		pump(r, users, rng, 0, time.Second)
		if p := r.core.SignalPeers(r.now); len(p) != 1 || !p[0].Latest || p[0].Late != 0 {
			t.Errorf("peers %+v", p)
		}
		u.deaf = true
		now := clone(f.s)
		now.PacketLife = f.s.PacketLife
		now.Tables = f.s.Tables.Clone()
		f.levels(now, rng, 60)
		f.s = now
		r.publish(f.s)
		if s, p := r.core.Signals(), r.core.SignalPeers(r.now); s.Due != 1 || s.Levels != 1 || s.Unanswered != 1 || p[0].Latest || !p[0].Sent || !p[0].Level {
			t.Errorf("%+v, peers %+v", s, p)
		}
		pump(r, users, rng, 0, 10*time.Minute)
		if len(r.view.Subs) != 0 {
			t.Fatalf("%d subscriptions are left", len(r.view.Subs))
		}
		if p := r.core.SignalPeers(r.now); !restart && len(p) != 0 {
			t.Errorf("peers %+v", p)
		}
		if len(u.wrong()) == 0 {
			t.Fatal("nothing is wrong: the test proves nothing")
		}
		if restart {
			r.restart()
			r.publish(f.s)
		}
		u.deaf = false
		u.subscribe()
		pump(r, users, rng, 0, time.Second)
		if w := u.wrong(); len(w) > 0 {
			t.Errorf("restart %v: %d wrong paths, as %s", restart, len(w), w[0])
		}
	}
}

// TestSignalModes: who is notified of which change, by mode.
func TestSignalModes(t *testing.T) {
	count := func(m sa.Signal, change func(f *pathFabric, now *subnet.Snapshot)) (told map[int]int) {
		f := newPathFabric(t, lash.Engine{}, "mesh", "3x3")
		rng := rand.New(rand.NewPCG(1, 1))
		f.levels(f.s, rng, 0)
		r := newFixture(t, f.s, sa.Config{Signal: m})
		var users []*user
		for i, h := range f.hosts { // each uses the path to the next
			u := &user{r: r, port: h, peers: []int32{f.hosts[(i+1)%len(f.hosts)]}, held: map[int32]wire.PathRecord{}}
			u.subscribe()
			u.askAll()
			users = append(users, u)
		}
		pump(r, users, rng, 0, time.Second)
		for _, u := range users {
			u.heard = 0
		}
		now := clone(f.s)
		now.PacketLife = f.s.PacketLife
		now.Tables = f.s.Tables.Clone()
		f.levels(now, rng, 0)
		change(f, now)
		r.publish(now)
		pump(r, users, rng, 0, time.Second)
		told = map[int]int{}
		for i, u := range users {
			if u.heard > 0 {
				told[i] = u.heard
			}
			if w := u.wrong(); len(w) > 0 {
				t.Errorf("%v: %s", m, w[0])
			}
		}
		return told
	}
	everybody := map[int]int{}
	for i := range 9 {
		everybody[i] = 1
	}
	// sourceOf is the switch of host i.
	sourceOf := func(f *pathFabric, i int) int32 { return f.s.Graph.EndPorts[f.s.Ports[f.hosts[i]].EndPort].Switch }
	used := func(f *pathFabric, now *subnet.Snapshot) {
		t := now.Tables
		t.SL[int(sourceOf(f, 0))*t.NumClasses+int(t.Class[f.s.Ports[f.hosts[1]].LID])] = 3
	}
	unused := func(f *pathFabric, now *subnet.Snapshot) {
		t := now.Tables
		t.SL[int(sourceOf(f, 0))*t.NumClasses+int(t.Class[f.s.Ports[f.hosts[4]].LID])] = 3
	}
	hops := func(_ *pathFabric, now *subnet.Snapshot) {
		x, err := minhop.Engine{}.Compute(now.Graph, route.Options{Workers: 1})
		if err != nil {
			t.Fatal(err)
		}
		if slices.EqualFunc(x.LFT, now.Tables.LFT, func(a, b []byte) bool { return slices.Equal(a, b) }) {
			t.Fatal("the tables are the same")
		}
		now.Tables.LFT = x.LFT
	}
	none := map[int]int{}
	for _, c := range []struct {
		what   string
		change func(f *pathFabric, now *subnet.Snapshot)
		want   [4]map[int]int
	}{
		// A class of destinations has two LIDs: the host's and its switch's.
		{"a path in use", used, [4]map[int]int{{0: 1}, {0: 2}, everybody, everybody}},
		{"a path that nobody uses", unused, [4]map[int]int{none, {0: 2}, everybody, everybody}},
		{"other ports", hops, [4]map[int]int{none, none, none, everybody}},
	} {
		for m, want := range c.want {
			if got := count(sa.Signal(m), c.change); !maps.Equal(got, want) {
				t.Errorf("%s, %v: Reports by host %v, want %v", c.what, sa.Signal(m), got, want)
			}
		}
	}
}
