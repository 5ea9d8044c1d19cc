package vmdriver

import (
	"slices"

	"heddle/mad"
)

// begin notes that a migration of r to a place begins.
func (c *Core) begin(r *record, to Place) {
	if r.wanted.Stage.Over() || r.wanted.Stage == "" || r.wanted.To != to {
		r.wanted = Progress{Stage: StageCopying, From: r.guest.At, To: to, Copy: Copy{Memory: r.guest.Copy.Memory}}
		r.unsent = true
	}
}

// tellFrom reports a stage of the migration that the interface of r is in.
func (c *Core) tellFrom(r *record, s Stage) {
	if r.wanted.Stage != s || r.wanted.To != r.view.To {
		r.wanted = Progress{Stage: s, From: r.view.At, To: r.view.To}
		r.unsent = true
		c.report(r)
	}
}

// tell reports the end of a migration of r; stage "": there is none.
func (c *Core) tell(r *record, s Stage, why string) {
	if s == "" {
		r.wanted, r.unsent = Progress{}, false
		return
	}
	r.wanted.Stage, r.wanted.Reason = s, why
	r.unsent, r.ends = true, true
	c.report(r)
}

// report has the manager show how far the migration of r is.
func (c *Core) report(r *record) {
	w := &r.wanted
	if w.Stage == "" {
		return
	}
	if g := &r.guest; r.here && (g.To == w.To || g.At == w.To) {
		if !slices.Equal(g.Copy.Rounds, w.Copy.Rounds) || g.Copy.Outage != w.Copy.Outage || g.Copy.Felt != w.Copy.Felt {
			w.Copy = g.Copy
			w.Copy.Rounds = slices.Clone(g.Copy.Rounds)
			r.unsent = true
		}
		s := w.Stage
		switch g.Phase {
		case Copying, Copied:
			s = StageCopying
		case Stopping:
			s = StageStopping
		case Stopped:
			s = StageFinishing
		}
		if s != w.Stage && g.To == w.To {
			w.Stage, r.unsent = s, true
		}
	}
	if !r.unsent || r.reporting || c.now < r.after {
		return
	}
	r.unsent, r.reporting = false, true
	ends := r.ends && w.Stage.Over()
	r.ends = false
	c.out.Calls = append(c.out.Calls, Call{Verb: Report, Name: r.name, Progress: *w, Ends: ends})
}

// timers acts on deadlines that have come, and says when the next one is.
func (c *Core) timers() {
	var due []string
	for name, r := range c.late {
		if r.due <= c.now {
			due = append(due, name)
		}
	}
	slices.Sort(due)
	for _, name := range due {
		if r := c.late[name]; r != nil {
			c.decide(r)
		}
	}
	if c.relist != 0 && c.now >= c.relist {
		c.list()
	}
	c.out.Timer = mad.Never
	if c.relist != 0 {
		c.out.Timer = c.relist
	}
	for _, r := range c.late {
		c.out.Timer = min(c.out.Timer, r.due)
	}
}

// deadline is when something is to be done about r without an event; Never: not at all.
func (c *Core) deadline(r *record) mad.Time {
	at := mad.Never
	switch {
	case r.asking || r.ordered:
	case c.now < r.retry:
		at = r.retry
	case r.halted != mad.Never && c.now.Sub(r.halted) < c.cfg.FinishTime:
		at = r.halted.Add(c.cfg.FinishTime)
	}
	if r.unsent && !r.reporting && c.now < r.after {
		at = min(at, r.after)
	}
	return at
}
