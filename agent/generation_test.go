package agent_test

import (
	"testing"
	"time"

	"heddle/agent"
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
)

func withGenerations(t *testing.T) *fixture {
	f := newFixture(t, agent.Defaults())
	f.history, f.gen = 7, 5
	f.step(agent.Reregister{})
	f.run(time.Second)
	if g := f.core.Stats().Generation; g != 7<<32|5 {
		t.Fatalf("generation %#x", g)
	}
	return f
}

// TestVerified: one question each VerifyTime finds the entries whose notices were lost. It is not
// asked for an empty cache.
func TestVerified(t *testing.T) {
	cfg := agent.Defaults()
	f := withGenerations(t)
	catches := f.catches
	f.run(time.Hour)
	if f.catches != catches {
		t.Fatalf("%d questions for an empty cache", f.catches-catches)
	}
	f.want(1, 1, agent.Found, agent.FromSA)
	f.want(2, 1, agent.Found, agent.FromSA)
	f.run(cfg.MaxAge / 2)
	f.want(1, 0, agent.Found, agent.FromCache)
	f.change(gid(2)) // the Report is lost
	f.lids[gid(2)] = 202
	f.run(cfg.VerifyTime + time.Second)
	f.want(1, 0, agent.Found, agent.FromCache)
	if a := f.want(2, 1, agent.Found, agent.FromSA); a.Record.DLID != 202 {
		t.Fatalf("DLID %d", a.Record.DLID)
	}
	f.run(cfg.MaxAge) // other changes have no generation
	f.want(1, 1, agent.Found, agent.FromSA)

	f.change(gid(2)) // it left, and the Report is lost
	delete(f.lids, gid(2))
	f.run(cfg.VerifyTime + time.Second)
	f.want(2, 1, agent.NoPath, agent.FromSA)
}

// TestManagerContinues: a manager that continues the history of the one before costs one
// question, another manager one query for each path that is asked for.
func TestManagerContinues(t *testing.T) {
	f := withGenerations(t)
	for n := range 20 {
		f.want(n, 1, agent.Found, agent.FromSA)
	}
	f.change(gid(3))
	f.lids[gid(3)] = 203
	f.step(agent.SetPort{Port: port(2)})
	if s := f.core.Stats(); s.Suspect != 20 {
		t.Fatalf("%+v", s)
	}
	f.run(time.Second)
	if s := f.core.Stats(); s.Suspect != 0 || s.Entries != 19 {
		t.Fatalf("%+v", s)
	}
	f.want(4, 0, agent.Found, agent.FromCache)
	f.want(3, 1, agent.Found, agent.FromSA)

	f.history++
	f.step(agent.SetPort{Port: port(3)})
	f.run(time.Second)
	f.want(4, 1, agent.Found, agent.FromSA)
	f.want(4, 0, agent.Found, agent.FromCache)
	// The doubt about what the manager before answered does not end.
	f.run(2 * agent.Defaults().VerifyTime)
	f.want(5, 1, agent.Found, agent.FromSA)
}

// TestDeaf: a port that no Report reaches subscribes to none. Its entries live BlindAge, and
// generations show changed paths before.
func TestDeaf(t *testing.T) {
	cfg := agent.Defaults()
	cfg.VerifyTime = cfg.BlindAge / 2
	for _, history := range []uint64{0, 7} {
		f := newFixture(t, cfg)
		f.history = history
		p := port(smLID)
		p.Deaf = true
		informs := f.informs
		f.step(agent.SetPort{Port: p})
		f.run(time.Second)
		f.want(1, 1, agent.Found, agent.FromSA)
		f.want(1, 0, agent.Found, agent.FromCache)
		f.change(gid(1))
		f.run(cfg.BlindAge * 9 / 10)
		src, queries := agent.FromCache, 0
		if history != 0 { // the change was seen
			src, queries = agent.FromSA, 1
		}
		f.want(1, queries, agent.Found, src)
		f.run(cfg.BlindAge)
		f.want(1, 1, agent.Found, agent.FromSA)
		if f.informs != informs {
			t.Errorf("%d subscriptions", f.informs-informs)
		}
	}
}

// TestReportedGenerations: a Report that follows the cache's generation costs nothing more; one
// that shows a lost Report, or that names no path, costs one question.
func TestReportedGenerations(t *testing.T) {
	f := withGenerations(t)
	for n := range 5 {
		f.want(n, 1, agent.Found, agent.FromSA)
	}
	ends := wire.PathCompSGID | wire.PathCompDGID
	tell := func(mask wire.CompMask, n int, before uint64, more bool) {
		t.Helper()
		f.reportGen(smLID, smp.TrapRePath, smp.DetailPath{ComponentMask: uint64(mask)}, &wire.PathNotice{
			Path: wire.PathRecord{SGID: gid(1000), DGID: gid(n)}, Generation: f.history<<32 | f.gen, Before: f.history<<32 | before, More: more,
		})
		f.run(time.Second)
	}
	want := func(generation uint64, catches, entries int) {
		t.Helper()
		s := f.core.Stats()
		if s.Generation != f.history<<32|generation || f.catches != catches || s.Entries != entries || s.Suspect != 0 {
			t.Fatalf("%d questions; %+v", f.catches, s)
		}
	}
	catches := f.catches
	f.change(gid(0))
	tell(ends, 0, 5, false)
	want(6, catches, 4)
	// Two Reports for one generation: the first leaves the cache where it is.
	f.change(gid(1))
	tell(ends, 1, 6, true)
	want(6, catches, 3)
	tell(ends, 49, 6, false)
	want(7, catches, 3)
	// The Report of generation 8 is lost.
	f.change(gid(2))
	f.change(gid(40))
	tell(ends, 40, 8, false)
	want(9, catches+1, 2)
	// Any path may have changed: the SA says which.
	f.change(gid(3))
	tell(wire.PathCompSGID, 0, 9, false)
	want(10, catches+2, 1)
	f.want(4, 0, agent.Found, agent.FromCache)
}

// TestBrokenChanges: what is no answer to the question changes nothing.
func TestBrokenChanges(t *testing.T) {
	f := withGenerations(t)
	f.want(1, 1, agent.Found, agent.FromSA)
	for _, b := range []func(b []byte) []byte{
		func(b []byte) []byte { return b[:wire.HeaderLen] },
		func(b []byte) []byte { return b[:wire.HeaderLen+wire.PathChangeRecordLen-1] },
		func(b []byte) []byte { b[wire.HeaderLen+8] = 0; return b }, // no head
		func(b []byte) []byte { clear(b[wire.HeaderLen : wire.HeaderLen+8]); return b },
		// A second head: what follows it is not read, so the list does not clear other entries.
		func(b []byte) []byte { return append(b, b[wire.HeaderLen:]...) },
	} {
		f.step(agent.Reregister{})
		for changed := false; !changed; {
			for i := range f.replies {
				if p := f.replies[i].p; ib.AttrID(p.Data[16])<<8|ib.AttrID(p.Data[17]) == wire.AttrPathChangeRecord {
					p.Data, changed = b(p.Data), true
				}
			}
			if !changed {
				f.run(time.Millisecond / 4)
			}
		}
		f.run(time.Second)
		if s := f.core.Stats(); s.Suspect != 1 || s.Entries != 1 {
			t.Fatalf("%+v", s)
		}
	}
}

// TestGapOvertakesAnswer: an answer that the SA made before notices may have been missed is
// asked for again.
func TestGapOvertakesAnswer(t *testing.T) {
	for name, gap := range map[string]func(f *fixture){
		"reregister": func(f *fixture) { f.step(agent.Reregister{}) },
		"any path": func(f *fixture) {
			f.reportGen(smLID, smp.TrapRePath, smp.DetailPath{ComponentMask: uint64(wire.PathCompSGID)}, &wire.PathNotice{Generation: 7<<32 | 6, Before: 7<<32 | 5})
		},
		"flush": func(f *fixture) { f.step(agent.Flush{}) },
	} {
		t.Run(name, func(t *testing.T) {
			f := withGenerations(t)
			f.ask(1, time.Second)
			f.lids[gid(1)] = 201
			gap(f)
			f.run(time.Second)
			if a := f.answers[f.tokens]; a.Record.DLID != 201 {
				t.Fatalf("DLID %d", a.Record.DLID)
			}
		})
	}
}

// TestRenewed: a Report with the values of a path replaces those of its entries, so that nobody
// asks; their age stays. It does not if a question asks for more than the Report can answer, if
// the Report is a repetition of an older one, if it has no values, or if it forbids caching.
func TestRenewed(t *testing.T) {
	ends := wire.PathCompSGID | wire.PathCompDGID | wire.PathCompDLID
	rdma := wire.PathCompSGID | wire.PathCompDGID | wire.PathCompPKey | wire.PathCompReversible | wire.PathCompNumbPath |
		wire.PathCompServiceID8 | wire.PathCompServiceID56 | wire.PathCompQoSClass
	for _, c := range []struct {
		name   string
		mask   wire.CompMask // of the question
		report func(f *fixture, n *wire.PathNotice)
		trap   uint16
		renews bool
	}{
		{"of librdmacm's question", rdma, nil, smp.TrapRePath, true},
		{"of a question for the ends", wire.PathCompDGID, nil, smp.TrapRePath, true},
		{"one of several Reports", rdma, func(_ *fixture, n *wire.PathNotice) { n.More = true }, smp.TrapRePath, true},
		{"after a Report that was lost", rdma, func(f *fixture, n *wire.PathNotice) {
			f.change(gid(9))
			n.Generation, n.Before = n.Generation+1, n.Before+1
		}, smp.TrapRePath, true},
		{"of a question for a service level", rdma | wire.PathCompSL, nil, smp.TrapRePath, false},
		{"an older Report", rdma, func(_ *fixture, n *wire.PathNotice) { n.Generation--; n.Before-- }, smp.TrapRePath, false},
		{"without values", rdma, func(_ *fixture, n *wire.PathNotice) {
			n.Path = wire.PathRecord{SGID: n.Path.SGID, DGID: n.Path.DGID, DLID: n.Path.DLID}
		}, smp.TrapRePath, false},
		{"of a path that may not be kept", rdma, func(_ *fixture, n *wire.PathNotice) { n.Path.Reserved3 = 0 }, smp.TrapRePath, false},
		{"of another partition", rdma, func(_ *fixture, n *wire.PathNotice) { n.Path.PKey = 0x8001 }, smp.TrapRePath, false},
		{"no longer reversible", rdma, func(_ *fixture, n *wire.PathNotice) { n.Path.Reversible = false }, smp.TrapRePath, false},
		{"a lost path", rdma, nil, smp.TrapUnPath, false},
		{"another manager", rdma, func(_ *fixture, n *wire.PathNotice) { n.Generation, n.Before = 0, 0 }, smp.TrapRePath, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := withGenerations(t)
			q := agent.Query{Mask: c.mask, Record: wire.PathRecord{
				SGID: gid(1000), DGID: gid(1), PKey: 0x7FFF, Reversible: true, NumbPath: 1, ServiceID: 77, QoSClass: 3,
			}}
			ask := func() agent.Answer {
				f.tokens++
				f.step(agent.Ask{Token: f.tokens, Query: q, Wait: time.Second})
				f.run(100 * time.Millisecond)
				return f.answers[f.tokens]
			}
			was := ask()
			f.run(time.Second)
			f.change(gid(1))
			f.sls[gid(1)] = 5
			n := wire.PathNotice{Path: f.values(gid(1)), Generation: f.history<<32 | f.gen, Before: f.history<<32 | (f.gen - 1)}
			if c.report != nil {
				c.report(f, &n)
			}
			f.reportGen(smLID, c.trap, smp.DetailPath{ComponentMask: uint64(ends)}, &n)
			queries, silent := f.queries, f.silent
			a := ask()
			if a.Result != agent.Found || a.Record.SL != 5 {
				t.Fatalf("%+v", a)
			}
			from, asked := agent.FromSA, 1
			if c.renews {
				from, asked = agent.FromCache, 0
				if a.Age < time.Second || a.Record.PKey != was.Record.PKey || f.core.Stats().Renewed != 1 {
					t.Errorf("%+v, before %+v", a, was)
				}
			}
			if a.Source != from || f.queries-queries != asked || silent {
				t.Errorf("%v with %d queries", a.Source, f.queries-queries)
			}
		})
	}
}

// TestReportOvertakesChanges: an answer about changes that was made before a Report came does not
// take its values back.
func TestReportOvertakesChanges(t *testing.T) {
	f := withGenerations(t)
	f.giving = true
	f.want(1, 1, agent.Found, agent.FromSA)
	f.change(gid(1)) // generation 6: its Report is lost
	f.sls[gid(1)] = 3
	catches := f.catches
	for f.catches == catches {
		f.run(time.Millisecond / 4)
	}
	f.change(gid(1))
	f.sls[gid(1)] = 5
	ends := wire.PathCompSGID | wire.PathCompDGID | wire.PathCompDLID
	f.reportGen(smLID, smp.TrapRePath, smp.DetailPath{ComponentMask: uint64(ends)}, &wire.PathNotice{
		Path: f.values(gid(1)), Generation: f.history<<32 | 7, Before: f.history<<32 | 6,
	})
	if a := f.want(1, 0, agent.Found, agent.FromCache); a.Record.SL != 5 {
		t.Fatalf("SL %d after the Report", a.Record.SL)
	}
	for range 8 {
		f.run(time.Millisecond / 4)
		if a := f.get(1); a.Record.SL != 5 {
			t.Fatalf("SL %d after the answer, from %v", a.Record.SL, a.Source)
		}
	}
}
