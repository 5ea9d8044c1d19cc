package agent_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"heddle/agent"
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/internal/need"
	"heddle/mad"
)

// TestRandom drives a core with lost queries, an SA that falls silent, changing addresses,
// lost notices and other managers. Each ask is answered once and in time; a path from the
// cache is never older than MaxAge, a stale one never older than MaxAge + StaleTime; after a
// notice that arrived, nobody gets what it made wrong; all bounds hold.
func TestRandom(t *testing.T) {
	for _, seed := range need.Seeds(120, 4000) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { randomRun(t, seed) })
	}
}

func randomRun(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 7))
	cfg := agent.Defaults()
	cfg.MaxAge, cfg.StaleTime, cfg.RenewTime, cfg.BlindAge = 20*time.Second, 10*time.Second, 7*time.Second, 3*time.Second
	cfg.MaxEntries, cfg.MaxWaiting, cfg.Window = 1+rng.IntN(40), 1+rng.IntN(60), 1+rng.IntN(8)
	f := newFixture(t, cfg)
	f.rng, f.loss, f.giving = rng, rng.Float64()*0.3, true
	if rng.IntN(3) > 0 {
		f.history = 1
	}
	w := &world{f: f, rng: rng, sm: smLID, limit: map[uint64]mad.Time{}, target: map[uint64]int{}, was: map[int][]change{}, told: map[int]mad.Time{}, vague: map[int]mad.Time{}, late: map[int]wire.PathNotice{}}
	for range 2500 {
		w.act()
		f.run(time.Duration(rng.ExpFloat64() * float64(15*time.Millisecond)))
		w.check()
	}
	f.silent, f.loss = false, 0
	f.run(time.Minute)
	w.check()
	if len(f.answers) != int(f.tokens) {
		t.Fatalf("%d asks, %d answers", f.tokens, len(f.answers))
	}
	if s := f.core.Stats(); s.Waiting != 0 || s.InFlight != 0 || !s.Subscribed {
		t.Fatalf("after a minute of peace: %+v", s)
	}
}

// world is what happens around a core, and what was true when.
type world struct {
	f      *fixture
	rng    *rand.Rand
	sm     ib.LID
	limit  map[uint64]mad.Time // when an ask must be answered
	target map[uint64]int
	was    map[int][]change        // addresses of a GID that ended
	told   map[int]mad.Time        // when the last change of a GID was reported
	vague  map[int]mad.Time        // of them, those by a Report that names no path
	seen   uint64                  // tokens checked
	late   map[int]wire.PathNotice // the last Report of a service level
}

type change struct {
	lid   ib.LID
	sl    ib.SL
	until mad.Time
}

func (w *world) act() {
	f := w.f
	n := w.rng.IntN(1 + w.rng.IntN(50))
	switch x := w.rng.IntN(100); {
	case x < 70:
		wait := time.Duration(w.rng.IntN(1200)) * time.Millisecond
		f.tokens++ // f.ask answers within the call: the limit must be known before
		w.limit[f.tokens], w.target[f.tokens] = f.now.Add(wait), n
		f.tokens--
		f.ask(n, wait)
	case x < 83:
		w.move(n)
	case x < 90:
		w.level(n)
	case x < 93:
		f.silent = !f.silent
	case x < 95:
		w.sm = ib.LID(1 + w.rng.IntN(3))
		if f.history > 0 && w.rng.IntN(2) == 0 {
			f.history++ // a manager without the store of the one before
		}
		f.oldest = uint64(w.rng.Int64N(int64(f.gen) + 1))
		f.step(agent.SetPort{Port: port(w.sm)})
	case x < 96:
		f.step(agent.Reregister{})
	case x < 97:
		f.step(agent.SetPort{Port: agent.Port{}})
		f.step(agent.SetPort{Port: port(w.sm)})
	case x < 98:
		f.step(agent.Flush{GID: gid(n)})
	default:
		f.permit = uint8(w.rng.IntN(2))
	}
}

// level gives the path to a GID another service level. Its Report has the new values, may come
// twice, or late and after newer ones, or be lost.
func (w *world) level(n int) {
	f, g := w.f, gid(n)
	w.was[n] = append(w.was[n], change{f.lids[g], f.sls[g], f.now.Add(-1)}) // before it is reported
	f.sls[g] = ib.SL(w.rng.IntN(16))
	before := f.history<<32 | f.gen
	f.change(g)
	x := wire.PathNotice{Path: f.values(g), Generation: f.history<<32 | f.gen, Before: before, More: w.rng.IntN(4) == 0}
	if f.history == 0 {
		x.Generation, x.Before = 0, 0
	}
	d := smp.DetailPath{ComponentMask: uint64(wire.PathCompSGID | wire.PathCompDGID | wire.PathCompDLID)}
	if w.rng.IntN(4) > 0 {
		f.reportGen(w.sm, smp.TrapRePath, d, &x)
		w.told[n] = f.now
	}
	if l, ok := w.late[n]; ok && w.rng.IntN(2) == 0 {
		f.reportGen(w.sm, smp.TrapRePath, d, &l)
	}
	w.late[n] = x
}

// move gives a GID another LID, and reports it or loses the Report.
func (w *world) move(n int) {
	f := w.f
	old := f.lids[gid(n)]
	w.was[n] = append(w.was[n], change{old, f.sls[gid(n)], f.now})
	f.lids[gid(n)] = ib.LID(100 + w.rng.IntN(40000))
	before := f.history<<32 | f.gen
	f.change(gid(n))
	now := f.history<<32 | f.gen
	path := func(trap uint16, mask wire.CompMask, r wire.PathRecord) {
		x := wire.PathNotice{Path: r, Generation: now, Before: before}
		if f.history == 0 {
			x.Generation, x.Before = 0, 0
		}
		f.reportGen(w.sm, trap, smp.DetailPath{ComponentMask: uint64(mask)}, &x)
	}
	sgid, dgid, dlid := wire.PathCompSGID, wire.PathCompDGID, wire.PathCompDLID
	switch w.rng.IntN(5) {
	case 0: // lost
		return
	case 4:
		path(smp.TrapRePath, sgid, wire.PathRecord{SGID: gid(1000)})
		w.vague[n] = f.now
	case 1:
		f.report(w.sm, smp.TrapGIDOutOfService, smp.DetailGID{GID: gid(n)}, nil)
		f.report(w.sm, smp.TrapGIDInService, smp.DetailGID{GID: gid(n)}, nil)
	case 2:
		path(smp.TrapRePath, sgid|dgid, wire.PathRecord{SGID: gid(1000), DGID: gid(n)})
	case 3:
		path(smp.TrapUnPath, sgid|dlid, wire.PathRecord{SGID: gid(1000), DLID: old})
		if len(w.was[n]) > 1 && w.told[n] < w.was[n][len(w.was[n])-2].until {
			return // the cache may hold an older LID, whose change was lost
		}
	}
	w.told[n] = f.now
}

func (w *world) check() {
	f := w.f
	s := f.core.Stats()
	if s.Entries+s.Negative > f.cfg.MaxEntries || s.Waiting > f.cfg.MaxWaiting || s.InFlight > f.cfg.MaxWaiting {
		f.t.Fatalf("bounds %+v: %+v", f.cfg, s)
	}
	for ; w.seen < f.tokens; w.seen++ {
		token := w.seen + 1
		a, ok := f.answers[token]
		if !ok {
			if f.now > w.limit[token] {
				f.t.Fatalf("ask %d has no answer at %v, limit %v", token, f.now, w.limit[token])
			}
			return
		}
		if f.at[token] > w.limit[token] {
			f.t.Fatalf("ask %d was answered at %v, limit %v", token, f.at[token], w.limit[token])
		}
		if a.Result == agent.Found {
			w.checkPath(token, &a)
		}
	}
}

// checkPath: the path was right within its bound, and after the last notice about it.
func (w *world) checkPath(token uint64, a *agent.Answer) {
	f, n := w.f, w.target[token]
	bound := map[agent.Source]time.Duration{
		agent.FromCache: f.cfg.MaxAge, agent.FromStale: f.cfg.MaxAge + f.cfg.StaleTime, agent.FromSA: 2 * time.Second,
	}[a.Source]
	if a.Source != agent.FromSA && a.Age > bound {
		f.t.Fatalf("ask %d: a path of age %v from %v", token, a.Age, a.Source)
	}
	right := mad.Time(-1) // when the record was right last
	for _, c := range w.was[n] {
		if c.lid == a.Record.DLID && c.sl == a.Record.SL {
			right = c.until
		}
	}
	if f.lids[gid(n)] == a.Record.DLID && f.sls[gid(n)] == a.Record.SL {
		right = f.now
	}
	at := f.at[token]
	if right < 0 || at.Sub(right) > bound {
		f.t.Fatalf("ask %d for %d, answered at %v from %v: LID %d, SL %d was right until %v", token, n, at, a.Source, a.Record.DLID, a.Record.SL, right)
	}
	told := w.told[n]
	if a.Source == agent.FromStale && told == w.vague[n] {
		return // the SA could not be asked which paths changed
	}
	if told > 0 && told <= at && right < told {
		f.t.Fatalf("ask %d for %d, answered at %v from %v: LID %d, SL %d was right until %v, and a notice came at %v", token, n, at, a.Source, a.Record.DLID, a.Record.SL, right, told)
	}
}
