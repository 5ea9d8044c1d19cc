package agent_test

import (
	"maps"
	"testing"
	"time"

	"heddle/agent"
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/mad"
)

// TestPermission: a record is kept if the SA permits it, and not otherwise (Tasoulas et al.,
// Algorithm 2).
func TestPermission(t *testing.T) {
	f := newFixture(t, agent.Defaults())
	f.want(1, 1, agent.Found, agent.FromSA)
	if a := f.want(1, 0, agent.Found, agent.FromCache); a.Record.DLID != 101 || a.Record.DGID != gid(1) || a.Record.SGID != gid(1000) {
		t.Fatalf("record %+v", a.Record)
	}
	f.permit = 0
	f.want(2, 1, agent.Found, agent.FromSA)
	f.want(2, 1, agent.Found, agent.FromSA)
	// The permission counts for one record: that of path 1 says nothing about path 2.
	f.want(1, 0, agent.Found, agent.FromCache)
	if s := f.core.Stats(); s.Unpermitted != 2 || s.Entries != 1 {
		t.Fatalf("%+v", s)
	}
	// A permission that is withdrawn ends the entry.
	f.step(agent.Reregister{})
	f.run(time.Second)
	f.want(1, 1, agent.Found, agent.FromSA)
	f.want(1, 1, agent.Found, agent.FromSA)
}

// TestOwnPathsOnly: the SA reports changes of the port's own paths, so only those are kept.
func TestOwnPathsOnly(t *testing.T) {
	f := newFixture(t, agent.Defaults())
	for range 2 {
		f.tokens++
		q := agent.Query{Mask: wire.PathCompDGID | wire.PathCompSGID, Record: wire.PathRecord{SGID: gid(3), DGID: gid(4)}}
		f.step(agent.Ask{Token: f.tokens, Query: q, Wait: time.Second})
		f.run(time.Second)
		if a := f.answers[f.tokens]; a.Result != agent.Found || a.Source != agent.FromSA {
			t.Fatalf("%+v", a)
		}
	}
}

// TestCoalesced: all who ask for one path while a query is in flight share it.
func TestCoalesced(t *testing.T) {
	f := newFixture(t, agent.Defaults())
	f.permit = 0
	before := f.queries
	for range 1000 {
		f.ask(7, time.Second)
	}
	f.run(100 * time.Millisecond)
	if len(f.answers) != 1000 || f.queries-before != 1 {
		t.Fatalf("%d answers with %d queries", len(f.answers), f.queries-before)
	}
	if s := f.core.Stats(); s.Joined != 999 || s.Waiting != 0 || s.InFlight != 0 {
		t.Fatalf("%+v", s)
	}
}

// TestNotices: each notice removes the entries that it concerns, and no others.
func TestNotices(t *testing.T) {
	sgid, dgid, dlid := wire.PathCompSGID, wire.PathCompDGID, wire.PathCompDLID
	for name, c := range map[string]struct {
		tell  func(f *fixture)
		other int // queries for the path that is not concerned
	}{
		"in service":     {func(f *fixture) { f.gidNotice(smp.TrapGIDInService, gid(1)) }, 0},
		"out of service": {func(f *fixture) { f.gidNotice(smp.TrapGIDOutOfService, gid(1)) }, 0},
		"unpath": {func(f *fixture) {
			f.pathNotice(smp.TrapUnPath, sgid|dgid, wire.PathRecord{SGID: gid(1000), DGID: gid(1)})
		}, 0},
		"repath": {func(f *fixture) {
			f.pathNotice(smp.TrapRePath, sgid|dgid|dlid, wire.PathRecord{SGID: gid(1000), DGID: gid(1), DLID: 101})
		}, 0},
		// A port may be known by another GID: its LID suffices.
		"repath by LID": {func(f *fixture) {
			f.pathNotice(smp.TrapRePath, sgid|dgid|dlid, wire.PathRecord{SGID: gid(1000), DGID: gid(99), DLID: 101})
		}, 0},
		"repath of all": {func(f *fixture) { f.pathNotice(smp.TrapRePath, sgid, wire.PathRecord{SGID: gid(1000)}) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, agent.Defaults())
			f.want(1, 1, agent.Found, agent.FromSA)
			f.want(2, 1, agent.Found, agent.FromSA)
			f.want(1, 0, agent.Found, agent.FromCache)
			f.lids[gid(1)] = 201
			c.tell(f)
			if f.acks != 1 {
				t.Fatalf("%d ReportResps", f.acks)
			}
			if a := f.want(1, 1, agent.Found, agent.FromSA); a.Record.DLID != 201 {
				t.Fatalf("DLID %d", a.Record.DLID)
			}
			src := agent.FromCache
			if c.other > 0 {
				src = agent.FromSA
			}
			f.want(2, c.other, agent.Found, src)
		})
	}
}

// TestForeignReport: a Report that is not the SA's changes nothing.
func TestForeignReport(t *testing.T) {
	f := newFixture(t, agent.Defaults())
	f.want(1, 1, agent.Found, agent.FromSA)
	f.report(33, smp.TrapRePath, smp.DetailPath{ComponentMask: uint64(wire.PathCompSGID)}, &wire.PathRecord{SGID: gid(1000)})
	f.want(1, 0, agent.Found, agent.FromCache)
	if s := f.core.Stats(); s.Foreign != 1 || s.Reports != 0 || f.acks != 0 {
		t.Fatalf("%+v, %d ReportResps", s, f.acks)
	}
}

// TestNoticeOvertakesAnswer: an answer that the SA made before a notice is neither served to
// those who wait nor kept.
func TestNoticeOvertakesAnswer(t *testing.T) {
	f := newFixture(t, agent.Defaults())
	f.delay = 50 * time.Millisecond
	token := f.ask(1, time.Second)
	f.lids[gid(1)] = 201
	f.run(time.Millisecond)
	f.pathNotice(smp.TrapRePath, wire.PathCompSGID|wire.PathCompDGID, wire.PathRecord{SGID: gid(1000), DGID: gid(1)})
	f.run(time.Second)
	if a := f.answers[token]; a.Record.DLID != 201 || f.core.Stats().Repeated != 1 {
		t.Fatalf("DLID %d; %+v", a.Record.DLID, f.core.Stats())
	}
	if a := f.want(1, 0, agent.Found, agent.FromCache); a.Record.DLID != 201 {
		t.Fatalf("DLID %d", a.Record.DLID)
	}
}

// TestAge: without any notice an entry ends after MaxAge, and while the SA is silent after
// StaleTime more.
func TestAge(t *testing.T) {
	cfg := agent.Defaults()
	f := newFixture(t, cfg)
	f.want(1, 1, agent.Found, agent.FromSA)
	start := f.now
	f.run(cfg.MaxAge * 3 / 4)
	f.want(1, 0, agent.Found, agent.FromCache)
	f.run(start.Add(cfg.MaxAge).Sub(f.now))
	f.want(1, 1, agent.Found, agent.FromSA)

	f.silent = true
	start = f.now
	f.run(cfg.MaxAge)
	for f.now.Sub(start) < cfg.MaxAge+cfg.StaleTime-2*time.Second {
		if a := f.get(1); a.Result == agent.Found && a.Age > cfg.MaxAge+cfg.StaleTime {
			t.Fatalf("a path of age %v", a.Age)
		}
		f.run(20 * time.Second)
	}
	if f.core.Stats().Answers[agent.Found][agent.FromStale] == 0 {
		t.Fatal("nothing was served while the SA was silent")
	}
	f.run(start.Add(cfg.MaxAge + cfg.StaleTime).Sub(f.now))
	f.want(1, 0, agent.TimedOut, agent.FromNone)
	f.run(2 * time.Minute)
	if s := f.core.Stats(); s.Entries != 0 {
		t.Fatalf("%+v", s)
	}
}

// TestSilentSA: an asker gets an answer within its time whatever the SA does, and the SA's
// return is noticed.
func TestSilentSA(t *testing.T) {
	f := newFixture(t, agent.Defaults())
	f.want(1, 1, agent.Found, agent.FromSA)
	f.silent = true
	for n := range 300 {
		token := f.ask(2+n%40, time.Duration(n)*time.Millisecond)
		start := f.now
		f.run(time.Duration(n) * time.Millisecond)
		if a, ok := f.answers[token]; !ok || a.Result != agent.TimedOut && a.Result != agent.NotCached || f.at[token].Sub(start) > time.Duration(n)*time.Millisecond {
			t.Fatalf("ask %d: %v %v after %v", n, ok, a.Result, f.at[token].Sub(start))
		}
	}
	if !f.core.Stats().Silent {
		t.Fatal("the SA is not known to be silent")
	}
	// The subscriptions could not be renewed: what is cached is suspect, and served all the same.
	f.want(1, 0, agent.Found, agent.FromStale)
	f.silent = false
	f.run(5 * time.Second)
	f.want(1, 0, agent.Found, agent.FromCache) // the query behind the stale answer was answered
	if f.core.Stats().Silent {
		t.Fatal("the SA is still taken as silent")
	}
}

// TestSilentSAReturns: an SA that was silent may have lost the subscriptions, so it is asked for
// them until it answers, even if no program asks for a path.
func TestSilentSAReturns(t *testing.T) {
	f := newFixture(t, agent.Defaults())
	f.want(1, 1, agent.Found, agent.FromSA)
	f.silent = true
	f.want(2, 0, agent.TimedOut, agent.FromNone)
	f.run(20 * time.Second)
	if s := f.core.Stats(); s.Subscribed || s.Suspect != 1 || !s.Silent {
		t.Fatalf("%+v", s)
	}
	f.want(1, 0, agent.Found, agent.FromStale)
	f.silent = false
	f.run(time.Minute)
	if s := f.core.Stats(); !s.Subscribed || s.Silent {
		t.Fatalf("%+v", s)
	}
}

// TestReturnHurries: when the SA answers again, queries in flight do not wait for the end of
// their tries.
func TestReturnHurries(t *testing.T) {
	for name, sign := range map[string]func(f *fixture){
		"an answer": func(f *fixture) { f.step(agent.Reregister{}) },
		"a Report":  func(f *fixture) { f.gidNotice(smp.TrapGIDInService, gid(40)) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, agent.Defaults())
			f.silent = true
			f.want(2, 0, agent.TimedOut, agent.FromNone)
			f.run(5 * time.Second)
			f.ask(2, time.Minute)
			f.run(800 * time.Millisecond) // its last try was sent
			f.silent = false
			sign(f)
			f.run(10 * time.Millisecond)
			if a := f.answers[f.tokens]; a.Result != agent.Found || a.Source != agent.FromSA {
				t.Fatalf("%+v", a)
			}
		})
	}
}

// TestManagerChange: another subnet manager gets the subscriptions, and the entries are asked
// for again.
func TestManagerChange(t *testing.T) {
	f := newFixture(t, agent.Defaults())
	if f.informs != 4 || !f.core.Stats().Subscribed {
		t.Fatalf("%d subscriptions", f.informs)
	}
	f.want(1, 1, agent.Found, agent.FromSA)
	f.step(agent.SetPort{Port: port(smLID)}) // nothing changed
	f.want(1, 0, agent.Found, agent.FromCache)
	f.step(agent.SetPort{Port: port(5)})
	f.run(100 * time.Millisecond)
	if f.informs != 8 || !f.core.Stats().Subscribed {
		t.Fatalf("%d subscriptions", f.informs)
	}
	f.want(1, 1, agent.Found, agent.FromSA)
	f.want(1, 0, agent.Found, agent.FromCache)

	// A query in flight goes to the new manager at once.
	f.silent = true
	token := f.ask(2, time.Second)
	f.silent = false
	f.step(agent.SetPort{Port: port(6)})
	f.run(100 * time.Millisecond)
	if f.answers[token].Result != agent.Found {
		t.Fatalf("%+v", f.answers[token])
	}

	// A port that goes down answers at once; its LID is not what it was.
	f.silent = true
	token = f.ask(3, time.Minute)
	f.step(agent.SetPort{Port: agent.Port{}})
	if f.answers[token].Result != agent.Down {
		t.Fatalf("%+v", f.answers[token])
	}
	f.want(1, 0, agent.Down, agent.FromNone)
	f.silent = false
	p := port(6)
	p.LID = 11
	f.step(agent.SetPort{Port: p})
	if s := f.core.Stats(); s.Entries != 0 {
		t.Fatalf("%+v", s)
	}
}

// TestRenewal: the subscriptions are renewed; where that fails the entries become suspect, and
// where it is refused they live BlindAge.
func TestRenewal(t *testing.T) {
	cfg := agent.Defaults()
	f := newFixture(t, cfg)
	f.run(cfg.RenewTime + time.Second)
	if f.informs != 8 {
		t.Fatalf("%d subscriptions", f.informs)
	}
	f.want(1, 1, agent.Found, agent.FromSA)
	f.silent = true
	f.run(cfg.RenewTime + 5*time.Second)
	if s := f.core.Stats(); s.Subscribed || s.Suspect != 1 {
		t.Fatalf("%+v", s)
	}
	f.silent = false
	f.run(time.Minute)
	if s := f.core.Stats(); !s.Subscribed {
		t.Fatalf("%+v", s)
	}

	f = newFixture(t, cfg)
	f.refuse = true
	f.step(agent.Reregister{})
	f.run(time.Second)
	f.want(1, 1, agent.Found, agent.FromSA)
	f.want(1, 0, agent.Found, agent.FromCache)
	f.run(cfg.BlindAge)
	f.want(1, 1, agent.Found, agent.FromSA)
	informs := f.informs
	f.run(time.Hour)
	if n := f.informs - informs; n > 4*13 {
		t.Fatalf("%d subscriptions an hour from an SA that refuses them", n)
	}
}

// TestBusySubscription: an SA that is busy is asked again soon, not after RenewTime; when is spread
// by the port's GUID, and the same each time.
func TestBusySubscription(t *testing.T) {
	times := map[ib.GID]map[mad.Time]bool{}
	for i := range 40 {
		p := port(smLID)
		p.GIDs = []ib.GID{gid(1000 + i/2)}
		f := &fixture{t: t, core: agent.New(agent.Defaults()), busy: true, delay: time.Millisecond, timer: mad.Never}
		f.step(agent.SetPort{Port: p})
		f.run(100 * time.Millisecond)
		if n := f.informs; n != 3 || f.core.Stats().Subscribed { // its tries
			t.Fatalf("%d subscriptions", n)
		}
		f.busy = false
		for !f.core.Stats().Subscribed && f.now < mad.Time(time.Minute) {
			f.run(time.Millisecond)
		}
		if f.now > mad.Time(1100*time.Millisecond) {
			t.Errorf("subscribed after %v", f.now)
		}
		if times[p.GIDs[0]] == nil {
			times[p.GIDs[0]] = map[mad.Time]bool{}
		}
		times[p.GIDs[0]][f.now] = true
	}
	all := map[mad.Time]bool{}
	for g, x := range times {
		if len(x) != 1 {
			t.Errorf("%v: %v", g, x)
		}
		maps.Copy(all, x)
	}
	if len(all) < len(times)*3/4 {
		t.Errorf("%d hosts subscribe at %d times", len(times), len(all))
	}
}

// TestNegative: an absent path is answered for a moment without a query, until its GID comes.
func TestNegative(t *testing.T) {
	f := newFixture(t, agent.Defaults())
	f.want(70, 1, agent.NoPath, agent.FromSA)
	f.want(70, 0, agent.NoPath, agent.FromCache)
	f.run(agent.Defaults().NegativeTime)
	f.want(70, 1, agent.NoPath, agent.FromSA)
	f.lids[gid(70)] = 170
	f.gidNotice(smp.TrapGIDInService, gid(70))
	f.want(70, 1, agent.Found, agent.FromSA)
}

// TestBounded: the entries, the askers and the queries stay within their bounds; the entry
// least recently used leaves first.
func TestBounded(t *testing.T) {
	cfg := agent.Defaults()
	cfg.MaxEntries, cfg.MaxWaiting = 32, 64
	f := newFixture(t, cfg)
	for n := range 5000 {
		f.lids[gid(n)] = ib.LID(1 + n)
	}
	for n := range 3000 {
		f.want(n, 1, agent.Found, agent.FromSA)
		f.want(0, 0, agent.Found, agent.FromCache) // stays, because it is used
		if s := f.core.Stats(); s.Entries > 32 {
			t.Fatalf("%d entries", s.Entries)
		}
	}
	for n := range 200 { // absent paths displace few others
		f.want(6000+n, 1, agent.NoPath, agent.FromSA)
	}
	if s := f.core.Stats(); s.Negative != 2 || s.Entries != 30 {
		t.Fatalf("%+v", s)
	}
	f.silent = true
	for n := range 1000 {
		f.ask(10000+n, time.Second)
	}
	if s := f.core.Stats(); s.Waiting != 64 || s.InFlight != 64 || s.Answers[agent.Busy][agent.FromNone] != 1000-64 {
		t.Fatalf("%+v", s)
	}
	f.run(10 * time.Second)
	if s := f.core.Stats(); s.Waiting != 0 || s.InFlight != 0 {
		t.Fatalf("%+v", s)
	}
}

// TestFlush removes what it names.
func TestFlush(t *testing.T) {
	f := newFixture(t, agent.Defaults())
	for n := range 4 {
		f.want(n, 1, agent.Found, agent.FromSA)
	}
	f.step(agent.Flush{GID: gid(1)})
	f.step(agent.Flush{LID: 102})
	var left []ib.LID
	f.core.Entries(f.now, func(e agent.Entry) bool {
		left = append(left, e.Record.DLID)
		return true
	})
	if len(left) != 2 || left[0] != 103 || left[1] != 100 {
		t.Fatalf("left: %v", left)
	}
	f.step(agent.Flush{})
	if s := f.core.Stats(); s.Entries != 0 || s.Flushed != 4 {
		t.Fatalf("%+v", s)
	}
}

// TestWrongAnswers: an answer to another question is neither kept nor passed on.
func TestWrongAnswers(t *testing.T) {
	f := newFixture(t, agent.Defaults())
	token := f.ask(1, time.Second)
	for i := range f.replies {
		g := gid(2)
		copy(f.replies[i].p.Data[wire.HeaderLen+8:], g[:])
	}
	f.run(time.Second)
	if a := f.answers[token]; a.Result != agent.Refused || f.core.Stats().Entries != 0 {
		t.Fatalf("%+v", a)
	}
	// No destination, no question.
	f.step(agent.Ask{Token: 1 << 40, Query: agent.Query{Mask: wire.PathCompSGID, Record: wire.PathRecord{SGID: gid(1000)}}, Wait: time.Second})
	if f.answers[1<<40].Result != agent.Refused {
		t.Fatalf("%+v", f.answers[1<<40])
	}
}

// TestAsPublished: Algorithm 2 as printed. A permitted entry stays as it was first read, whatever
// comes: other answers, changes of the port or of the manager, notices, and time. Others are asked
// for each time.
func TestAsPublished(t *testing.T) {
	cfg := agent.Defaults()
	cfg.Policy = agent.AsPublished
	f := newFixture(t, cfg)
	f.history, f.gen = 7, 5
	f.permit = 0
	f.want(1, 1, agent.Found, agent.FromSA)
	f.want(1, 1, agent.Found, agent.FromSA)
	f.permit = 1
	f.want(1, 1, agent.Found, agent.FromSA)
	f.permit = 0
	f.want(2, 1, agent.Found, agent.FromSA)
	f.want(2, 1, agent.Found, agent.FromSA)
	f.want(60, 1, agent.NoPath, agent.FromSA)
	f.want(60, 1, agent.NoPath, agent.FromSA)
	f.permit = 1
	f.change(gid(1))
	f.lids[gid(1)] = 201
	for name, event := range map[string]func(){
		"another answer": func() {
			f.tokens++
			f.step(agent.Ask{Token: f.tokens, Direct: true, Wait: time.Second, Query: agent.Query{
				Mask: wire.PathCompDGID | wire.PathCompReversible, Record: wire.PathRecord{DGID: gid(1), Reversible: true},
			}})
			f.run(time.Second)
			if a := f.answers[f.tokens]; a.Record.DLID != 201 || a.Source != agent.FromSA {
				t.Errorf("asked directly: %+v", a)
			}
		},
		"register again":  func() { f.step(agent.Reregister{}) },
		"another manager": func() { f.step(agent.SetPort{Port: port(2)}) },
		"the port is down": func() {
			f.step(agent.SetPort{})
			f.step(agent.SetPort{Port: port(smLID)})
		},
		"other P_Keys": func() {
			p := port(smLID)
			p.PKeys = append(p.PKeys, 0x8001)
			f.step(agent.SetPort{Port: p})
		},
		"out of service": func() { f.gidNotice(smp.TrapGIDOutOfService, gid(1)) },
		"a day":          func() { f.run(24 * time.Hour) },
	} {
		event()
		f.run(time.Second)
		queries := f.queries
		if a := f.get(1); a.Source != agent.FromCache || a.Record.DLID != 101 || f.queries != queries {
			t.Errorf("%s: %+v with %d queries", name, a, f.queries-queries)
		}
	}
	if s := f.core.Stats(); f.informs != 0 || f.catches != 0 || s.Subscribed || s.Entries != 1 {
		t.Errorf("%d subscriptions, %d questions for changes; %+v", f.informs, f.catches, s)
	}
	f.step(agent.Flush{})
	if a := f.want(1, 1, agent.Found, agent.FromSA); a.Record.DLID != 201 {
		t.Errorf("after a flush: %+v", a)
	}
}
