package sm

import (
	"heddle/fabric"
	"heddle/route"
	"heddle/route/transition"
	"heddle/sm/config"
)

// What is in the way of a plan from the installed tables to an engine's is
// never waited for while pairs are broken. These are connected first, by tables between the
// two (transition.Repair); the engine's follow in rounds when the fabric is quiet
// (transition.Approach), so no round has to wait either.

// immediate reports whether a plan can be carried out without a wait and
// without discarding anything.
func immediate(p *transition.Plan) bool {
	if p.Mode == transition.ModeRefused {
		return false
	}
	for i := range p.Stages {
		if st := &p.Stages[i]; st.Discards || st.Drain != 0 || st.Repath != 0 {
			return false
		}
	}
	return true
}

// strict reports whether plans wait where something could deadlock for a moment.
func (j *Job) strict() bool { return j.policy == config.TransitionStrict }

// between replaces tables that would have to wait by others on the way to them.
func (j *Job) between(r *JobResult, inst *route.Tables, t transition.Options) {
	if j.transition.Force != transition.ModeAuto || r.Unsafe != "" || j.transition.Quiet || immediate(r.Plan) {
		return
	}
	f := transition.Repair(j.graph, inst, r.Tables, t)
	if f == nil {
		if !j.strict() && r.next != nil {
			j.repair(r, transition.Unknown(inst), inst, t)
		}
		return
	}
	if len(f.LIDs) > 0 || f.Stale {
		j.repair(r, f, inst, t)
		return
	}
	if j.mode != jobFull || j.patient {
		defer func() {
			if !immediate(r.Plan) && (r.Plan.Fitted == nil || !r.Plan.Fitted.Past) {
				j.stay(r, inst, t)
			}
		}()
	}
	if r.aim == 0 {
		r.aim = j.aim
	}
	r.lifts, t.Lifted = j.lifts, j.lifts > 0
	wanted := r.Tables
	if j.balance && j.mode == jobImprove {
		r.balance, r.waiting = true, r.Plan.LIDsChanged
		j.relieve(r, inst, wanted, t)
		return
	}
	if f = transition.Approach(j.graph, inst, r.Tables, t); f != nil && f.Later {
		j.stay(r, inst, t)
		r.moved = 1 // others can follow
		return
	}
	if f == nil && j.mode == jobImprove && !j.remembered {
		// No round leads to the wanted tables: neither SL-to-VL tables take the entries of the other.
		r.balance, r.waiting = true, r.Plan.LIDsChanged
		j.relieve(r, inst, wanted, t)
		return
	}
	if f == nil || f.Moved+f.Entries+f.Levels == 0 && !f.Lanes && j.mode == jobFull {
		return
	}
	if s := j.settle(f.Tables, r); s != nil {
		if p := transition.NewRepair(j.graph, inst, s.tables, f, t, j.strict()); p != nil {
			r.replace(s, p)
			if r.moved, r.waiting = f.Moved+f.Entries+f.Levels, f.Waiting; f.Lanes {
				r.moved = 1 // others can follow
			}
			if r.moved == 0 && j.mode == jobImprove && !j.remembered {
				r.balance = true
				j.relieve(r, inst, wanted, t)
			}
		}
	}
}

// maxLifts bounds the rounds that move destinations to other levels, for one fabric.
const maxLifts = 16

// relieve evens out the load of tables that stay between two. If it cannot, it moves
// destinations to levels on which the wanted tables come nearer.
func (j *Job) relieve(r *JobResult, inst, wanted *route.Tables, t transition.Options) {
	f := transition.Balance(j.graph, inst, r.aim, t)
	if f == nil {
		return
	}
	if j.round(r, inst, f, t); r.moved > 0 || j.remembered || r.Report.MaxChannelLoad <= r.aim || j.lifts >= maxLifts || t.RepathTime <= 0 {
		return
	}
	if f = transition.Lift(j.graph, inst, wanted, t); f != nil && f.Levels > 0 {
		if j.round(r, inst, f, t); r.moved > 0 {
			r.balance, r.lifts = false, j.lifts+1
		}
	}
}

// round makes one of the rounds toward better tables the result.
func (j *Job) round(r *JobResult, inst *route.Tables, f *transition.Fitted, t transition.Options) {
	s := j.settle(f.Tables, r)
	if s == nil {
		return
	}
	if p := transition.NewRepair(j.graph, inst, s.tables, f, t, j.strict()); p != nil {
		r.replace(s, p)
		r.moved = f.Moved + f.Entries + f.Levels
	}
}

// repair connects broken pairs.
func (j *Job) repair(r *JobResult, f *transition.Fitted, inst *route.Tables, t transition.Options) {
	s := r.next
	if f.Tables != nil {
		if s = j.settle(f.Tables, r); s == nil {
			return
		}
	}
	p := transition.NewRepair(j.graph, inst, s.tables, f, t, j.strict())
	if p == nil {
		return
	}
	if f.Tables == nil {
		r.Plan = p
		return
	}
	r.replace(s, p)
}

// stay keeps the entries that are installed, which all work.
func (j *Job) stay(r *JobResult, inst *route.Tables, t transition.Options) {
	if s := j.settle(inst, r); s != nil {
		waiting := r.Plan.LIDsChanged
		p := transition.New(j.graph, inst, s.tables, t)
		if !immediate(p) && p.EntriesChanged == 0 {
			// Packets may be in a circle by way of a link that is back.
			p = transition.NewRepair(j.graph, inst, s.tables, &transition.Fitted{First: s.tables, Tables: s.tables, Past: true}, t, j.strict())
		}
		if p != nil && (immediate(p) || p.Fitted != nil) {
			r.replace(s, p)
			r.waiting = waiting
		}
	}
}

// replace makes the result one that goes part of the way to its tables.
func (r *JobResult) replace(s *solution, p *transition.Plan) {
	r.Tables, r.Report, r.Plan, r.next = s.tables, s.report, p, s
	r.partial = true
	r.Refused = nil
	if m := r.Tables.Multicast; m != nil {
		r.Refused = m.Refused
	}
}

// settle proves tables between the installed and the wanted ones and gives them
// trees; nil if that fails.
func (j *Job) settle(t *route.Tables, r *JobResult) *solution {
	w := r.next
	if w == nil || w.proof == nil {
		return nil
	}
	o := j.opt
	o.Workers = max(r.transition.Workers, 1)
	d := fabric.Diff(j.graph, j.graph)
	u, pr, err := j.prove(t, w, d, o)
	if err != nil {
		return nil
	}
	return &solution{graph: j.graph, engine: w.engine, tables: u, report: pr.Report(), proof: pr, passed: w.passed}
}

// fresh is what the engine of a solution would compute for its graph without
// regard to what is installed, if that takes more than a twentieth off the busiest channel.
func (j *Job) fresh(b *solution, o route.Options, r *JobResult) *solution {
	o.Previous = nil
	for _, e := range j.engines {
		if e.Name() != b.engine {
			continue
		}
		t, err := e.Compute(j.graph, o)
		if err != nil {
			return nil
		}
		t, pr, err := j.prove(t, nil, nil, o)
		if err != nil || b.report == nil {
			return nil
		}
		if r.aim = pr.Report().MaxChannelLoad * 21 / 20; r.aim >= b.report.MaxChannelLoad {
			return nil
		}
		return &solution{graph: j.graph, engine: b.engine, tables: t, report: pr.Report(), proof: pr, passed: b.passed}
	}
	return nil
}
