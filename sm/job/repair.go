package job

import (
	"heddle/fabric"
	"heddle/route"
	"heddle/route/transition"
	"heddle/sm/config"
)

// While pairs are broken, no plan from the installed tables to those of an engine waits. The pairs
// are connected first, by tables between the two (transition.Repair). The engine's tables follow in
// rounds when the fabric is quiet (transition.Approach), so that no round has to wait either.

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
func (j *Job) strict() bool { return j.Policy == config.TransitionStrict }

// between replaces tables that would have to wait by others on the way to them.
func (j *Job) between(r *Result, inst *route.Tables, t transition.Options) {
	if j.Transition.Force != transition.ModeAuto || j.Transition.Quiet || immediate(r.Plan) {
		return
	}
	if j.Drained && j.leadOn(inst) {
		return
	}
	if r.Unsafe != "" {
		j.unsafe(r, inst, t)
		return
	}
	f := transition.Repair(j.Graph, inst, r.Tables, t)
	if f == nil {
		if !j.strict() && r.Next != nil {
			j.repair(r, transition.Unknown(inst), inst, t)
		}
		return
	}
	if len(f.LIDs) > 0 || f.Stale {
		j.repair(r, f, inst, t)
		return
	}
	if r.Aim == 0 {
		r.Aim = j.Aim
	}
	r.Lifts, t.Lifted = j.Lifts, j.Lifts > 0
	j.approach(r, inst, t)
	if (j.Mode != Full || j.Patient) && !immediate(r.Plan) && (r.Plan.Fitted == nil || !r.Plan.Fitted.Past) {
		j.stay(r, inst, t)
	}
}

// unsafe writes tables immediately that can deadlock by themselves, as the operator permitted: a
// wait would not make them safe.
func (j *Job) unsafe(r *Result, inst *route.Tables, t transition.Options) {
	if j.strict() {
		return
	}
	if p := transition.NewRepair(j.Graph, inst, r.Tables, transition.Unknown(inst), t, false); p != nil {
		r.Plan = p
	}
}

// approach makes the result a round that leads from the installed tables toward the wanted ones.
// No pair is broken.
func (j *Job) approach(r *Result, inst *route.Tables, t transition.Options) {
	wanted := r.Tables
	if j.Balance && j.Mode == Improve {
		r.Balance, r.Waiting = true, r.Plan.LIDsChanged
		j.relieve(r, inst, wanted, t)
		return
	}
	f := transition.Approach(j.Graph, inst, r.Tables, t)
	if f != nil && f.Later {
		j.stay(r, inst, t)
		r.Moved = 1 // others can follow
		return
	}
	if f == nil && j.Mode == Improve && !j.Remembered {
		// No round leads to the wanted tables: neither SL-to-VL tables take the entries of the other.
		r.Balance, r.Waiting = true, r.Plan.LIDsChanged
		j.relieve(r, inst, wanted, t)
		return
	}
	if f == nil || f.Moved+f.Entries+f.Levels == 0 && !f.Lanes && j.Mode == Full {
		return
	}
	if s := j.settle(f.Tables, r); s != nil {
		if p := transition.NewRepair(j.Graph, inst, s.Tables, f, t, j.strict()); p != nil {
			r.replace(s, p)
			if r.Moved, r.Waiting = f.Moved+f.Entries+f.Levels, f.Waiting; f.Lanes {
				r.Moved = 1 // others can follow
			}
			if r.Moved == 0 && j.Mode == Improve && !j.Remembered {
				r.Balance = true
				j.relieve(r, inst, wanted, t)
			}
		}
	}
}

// maxLifts bounds the rounds that move destinations to other levels, for one fabric.
const maxLifts = 16

// relieve evens out the load of tables that stay between two. If it cannot, it moves
// destinations to levels on which the wanted tables come nearer.
func (j *Job) relieve(r *Result, inst, wanted *route.Tables, t transition.Options) {
	f := transition.Balance(j.Graph, inst, r.Aim, t)
	if f == nil {
		return
	}
	j.round(r, inst, f, t)
	if r.Moved > 0 || j.Remembered || r.Report.MaxChannelLoad <= r.Aim || j.Lifts >= maxLifts || t.RepathTime <= 0 {
		return
	}
	if f = transition.Lift(j.Graph, inst, wanted, t); f != nil && f.Levels > 0 {
		if j.round(r, inst, f, t); r.Moved > 0 {
			r.Balance, r.Lifts = false, j.Lifts+1
		}
	}
}

// round makes one of the rounds toward better tables the result.
func (j *Job) round(r *Result, inst *route.Tables, f *transition.Fitted, t transition.Options) {
	s := j.settle(f.Tables, r)
	if s == nil {
		return
	}
	if p := transition.NewRepair(j.Graph, inst, s.Tables, f, t, j.strict()); p != nil {
		r.replace(s, p)
		r.Moved = f.Moved + f.Entries + f.Levels
	}
}

// repair connects broken pairs.
func (j *Job) repair(r *Result, f *transition.Fitted, inst *route.Tables, t transition.Options) {
	s := r.Next
	if f.Tables != nil {
		if s = j.settle(f.Tables, r); s == nil {
			if j.strict() || r.Next == nil {
				return
			}
			f, s = transition.Unknown(inst), r.Next // those of the engine, immediately
		}
	}
	p := transition.NewRepair(j.Graph, inst, s.Tables, f, t, j.strict())
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
func (j *Job) stay(r *Result, inst *route.Tables, t transition.Options) {
	if s := j.settle(inst, r); s != nil {
		waiting := r.Plan.LIDsChanged
		p := transition.New(j.Graph, inst, s.Tables, t)
		if !immediate(p) && p.EntriesChanged == 0 {
			// Packets may be in a circle by way of a link that is back.
			same := &transition.Fitted{First: s.Tables, Tables: s.Tables, Past: true}
			p = transition.NewRepair(j.Graph, inst, s.Tables, same, t, j.strict())
		}
		if p != nil && (immediate(p) || p.Fitted != nil) {
			r.replace(s, p)
			r.Waiting = waiting
		}
	}
}

// replace makes the result one that goes part of the way to its tables.
func (r *Result) replace(s *Solution, p *transition.Plan) {
	r.Tables, r.Report, r.Plan, r.Next = s.Tables, s.Report, p, s
	r.Partial = true
	r.Refused = nil
	if m := r.Tables.Multicast; m != nil {
		r.Refused = m.Refused
	}
}

// settle proves tables between the installed and the wanted ones and gives them
// trees; nil if that fails.
func (j *Job) settle(t *route.Tables, r *Result) *Solution {
	w := r.Next
	if w == nil || w.Proof == nil {
		return nil
	}
	o := j.Options
	o.Workers = max(r.Transition.Workers, 1)
	d := fabric.Diff(j.Graph, j.Graph)
	u, pr, err := j.prove(t, w, d, o)
	if err != nil {
		return nil
	}
	return &Solution{Graph: j.Graph, Engine: w.Engine, Tables: u, Report: pr.Report(), Proof: pr, Passed: w.Passed}
}

// fresh is what the engine of a solution would compute for its graph without
// regard to what is installed, if that takes more than a twentieth off the busiest channel.
func (j *Job) fresh(b *Solution, o route.Options, r *Result) *Solution {
	o.Previous = nil
	for _, e := range j.Engines {
		if e.Name() != b.Engine {
			continue
		}
		t, err := e.Compute(j.Graph, o)
		if err != nil {
			return nil
		}
		t, pr, err := j.prove(t, nil, nil, o)
		if err != nil || b.Report == nil {
			return nil
		}
		if r.Aim = pr.Report().MaxChannelLoad * 21 / 20; r.Aim >= b.Report.MaxChannelLoad {
			return nil
		}
		return &Solution{Graph: j.Graph, Engine: b.Engine, Tables: t, Report: pr.Report(), Proof: pr, Passed: b.Passed}
	}
	return nil
}
