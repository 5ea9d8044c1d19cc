package findings

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"heddle/ib"
	"heddle/mad"
	"heddle/perf"
	"heddle/subnet"
)

// place names a port, or a node with port 0.
type place struct {
	guid ib.GUID
	port uint8
}

// key is what a finding is about: a link by its two ends, in order, or a node, or nodes with a text.
type key struct {
	rule int
	a, b place
	text string
}

func compareKeys(x, y key) int {
	return cmp.Or(cmp.Compare(x.rule, y.rule), cmp.Compare(x.a.guid, y.a.guid), cmp.Compare(x.a.port, y.a.port),
		cmp.Compare(x.b.guid, y.b.guid), cmp.Compare(x.b.port, y.b.port), cmp.Compare(x.text, y.text))
}

// track is what is known of a rule and a subject while there is anything to know.
type track struct {
	ends     []End
	more     int
	evidence []Evidence
	since    mad.Time                // of the first evidence
	seen     mad.Time                // last looked at
	level    [2][maxCounters]float64 // events in the buckets of both ends, for each counter of the rule
	fresh    bool                    // a counter has counted, and the link has not been there since
	counted  uint64                  // round in which it was there with what a counter last counted; 0: none did
	bad      bool                    // in this round
	held     bool                    // nothing is known of it in this round
	badSince mad.Time                // 0: it is not bad
	clean    time.Duration           // how long it has been seen without anything
	crossed  uint64                  // round in which it reached its threshold; 0: it has not
	open     *Finding
}

// Core evaluates rules. It belongs to one goroutine.
type Core struct {
	rules  []Rule
	number map[string]int
	tracks map[key]*track
	lost   map[[2]place]*lostLink // links that are gone, by their ends
	lostAt map[place]*lostLink    // the same by each end
	snap   *subnet.Snapshot
	states []state // of snap, which is the same in most rounds
	now    mad.Time
	last   mad.Time // of the round before
	round  uint64
	nextID uint64
	ids    func() uint64 // nil: nextID
	counts []Count       // by rule
	closed []Finding
	missed int    // in this round
	busy   []bool // memory of countLinks
}

// New returns a core with these rules; Rules() has those that are usual.
func New(rules []Rule) *Core {
	c := &Core{rules: rules, number: map[string]int{}, tracks: map[key]*track{}, lost: map[[2]place]*lostLink{}}
	for i := range rules {
		c.number[rules[i].Name] = i
		c.counts = append(c.counts, Count{Rule: rules[i].Name, Severity: rules[i].Severity})
	}
	return c
}

// SetRules replaces the rules by the same ones with other thresholds. What is open stays open until
// it ends by the new ones.
func (c *Core) SetRules(rules []Rule) {
	if !slices.EqualFunc(c.rules, rules, func(x, y Rule) bool { return x.Name == y.Name }) {
		panic("findings: these are other rules")
	}
	c.rules = rules
	for i := range rules {
		c.counts[i].Severity = rules[i].Severity
	}
}

// ShareIDs has the numbers of findings come from a function, because others have findings too. Each is
// greater than the one before.
func (c *Core) ShareIDs(next func() uint64) { c.ids = next }

func (c *Core) newID() uint64 {
	if c.ids != nil {
		return c.ids()
	}
	c.nextID++
	return c.nextID
}

// Step evaluates a round.
func (c *Core) Step(r *perf.Round) Output { return c.step(r.Snap, r.Ended, r) }

func (c *Core) step(s *subnet.Snapshot, now mad.Time, src source) (out Output) {
	c.last, c.now = c.now, now
	if c.last == 0 {
		c.last = now
	}
	c.round++
	c.missed = 0
	for _, t := range c.tracks {
		t.bad, t.held = false, false
	}
	same := c.snap == s
	c.findLost(s)
	c.snap = s
	c.countLinks(src)
	c.congestion(src)
	if !same {
		c.states = c.states[:0]
		c.linkStates()
		c.nodeStates()
	}
	for i := range c.states {
		m := &c.states[i]
		c.mark(m.name, m.key, m.ends, m.evidence...)
	}
	c.lostLinks()
	c.settle()
	c.restarts()
	c.resolve(&out)
	out.Report = c.Report()
	return out
}

// trackOf is the track of k, which is made if there is none and room for one.
func (c *Core) trackOf(k key, ends ...End) *track {
	t := c.tracks[k]
	if t == nil {
		if len(c.tracks) >= maxTracks {
			c.missed++
			return nil
		}
		t = &track{}
		c.tracks[k] = t
	}
	t.ends, t.more = ends, 0 // those of a description may be others now
	if len(ends) > maxEnds {
		t.ends, t.more = ends[:maxEnds], len(ends)-maxEnds
	}
	return t
}

// mark says that a rule without counters applies to a subject in this round, with its evidence.
func (c *Core) mark(name string, k key, ends []End, evidence ...Evidence) {
	n, ok := c.number[name]
	if !ok {
		return
	}
	k.rule = n
	t := c.trackOf(k, ends...)
	if t == nil {
		return
	}
	if t.badSince == 0 {
		t.badSince = c.now
		if t.since == 0 {
			t.since = c.now
		}
	}
	for i := range evidence {
		evidence[i].At, evidence[i].Since = c.now, t.badSince
	}
	if len(evidence) > maxEvidence {
		evidence = evidence[:maxEvidence]
	}
	t.bad, t.seen, t.clean, t.evidence = true, c.now, 0, evidence
}

// state is what is to be marked in each round of a snapshot.
type state struct {
	name     string
	key      key
	ends     []End
	evidence []Evidence
}

func (c *Core) state(name string, k key, ends []End, evidence ...Evidence) {
	c.states = append(c.states, state{name, k, ends, evidence})
}

// settle ends the round for all tracks: which have reached their threshold, and which have nothing to
// say any more.
func (c *Core) settle() {
	for k, t := range c.tracks {
		r := &c.rules[k.rule]
		over := false
		if len(r.Counters) > 0 {
			over = r.exceeded(&t.level) && (t.crossed != 0 || !c.isLost(k))
		} else {
			switch {
			case t.bad:
				over = c.now.Sub(t.badSince) >= r.Hold
			case !t.held:
				t.badSince = 0
				t.clean += c.now.Sub(c.last)
			}
		}
		if t.fresh && !c.isLost(k) {
			t.fresh, t.counted = false, c.round
		}
		over = over && !r.Off
		switch {
		case over && t.crossed == 0:
			t.crossed = c.round
		case !over && t.open == nil:
			t.crossed = 0
		}
		if t.open == nil && t.crossed == 0 && !t.bad && !t.held && (len(r.Counters) == 0 || t.clean >= r.Quiet || c.unseen(t, r)) {
			delete(c.tracks, k)
		}
	}
}

// unseen: nothing was heard of it for so long that it is not there any more.
func (c *Core) unseen(t *track, r *Rule) bool { return c.now.Sub(t.seen) >= 4*r.Quiet }

// resolve opens and closes findings. Rules are in the order of causes, so that each cause is known
// before its symptoms. A rule that has causes waits for a round, because its cause may show in the
// next one, and while a cause waits itself.
func (c *Core) resolve(out *Output) {
	keys := slices.SortedFunc(maps.Keys(c.tracks), compareKeys)
	active, waiting := make([][]key, len(c.rules)), make([][]key, len(c.rules))
	opened := 0
	for _, k := range keys {
		if c.tracks[k].open != nil {
			opened++
		}
	}
	for _, k := range keys {
		t, r := c.tracks[k], &c.rules[k.rule]
		if t.crossed == 0 {
			continue
		}
		if r.Off {
			c.close(t, k.rule, SwitchedOff, out)
			opened--
			delete(c.tracks, k)
			continue
		}
		if why := c.explained(k, active); why != "" {
			if t.open != nil {
				c.close(t, k.rule, why, out)
				opened--
			}
			delete(c.tracks, k)
			continue
		}
		if t.open == nil {
			if len(r.Causes) > 0 && (t.crossed == c.round || c.explained(k, waiting) != "") {
				waiting[k.rule] = append(waiting[k.rule], k)
				continue
			}
			if opened >= maxOpen {
				c.missed++
				continue
			}
			c.counts[k.rule].Opened++
			opened++
			t.open = &Finding{
				ID: c.newID(), Rule: r.Name, Severity: r.Severity, Title: r.Title, Do: r.Do, Since: t.since, Opened: c.now,
			}
			c.show(t)
			out.Opened = append(out.Opened, *t.open)
		} else {
			c.show(t)
			gone := len(r.Counters) > 0 && c.unseen(t, r)
			if gone || t.clean >= r.Quiet {
				why := Healed
				if gone {
					why = Unseen
				}
				c.close(t, k.rule, why, out)
				opened--
				delete(c.tracks, k)
				continue
			}
		}
		active[k.rule] = append(active[k.rule], k)
	}
}

// show copies what is known to the finding: evidence is not changed once it is in a report.
func (c *Core) show(t *track) {
	f := *t.open
	f.Ends, f.More, f.Evidence = t.ends, t.more, slices.Clone(t.evidence)
	t.open = &f
}

func (c *Core) close(t *track, rule int, why string, out *Output) {
	switch n := &c.counts[rule]; why {
	case Healed:
		n.Healed++
	case Unseen:
		n.Unseen++
	case SwitchedOff:
		n.SwitchedOff++
	default:
		n.Explained++
	}
	f := *t.open
	f.Closed, f.Why = c.now, why
	t.open = nil
	out.Closed = append(out.Closed, f)
	// Reports share the list, so a new one is made.
	c.closed = append(slices.Clone(c.closed[max(0, len(c.closed)+1-maxClosed):]), f)
}

// explained is the name of an active rule that explains the finding k, or "".
func (c *Core) explained(k key, active [][]key) string {
	for _, cause := range c.rules[k.rule].Causes {
		n, ok := c.number[cause.Name]
		if !ok {
			continue
		}
		for _, a := range active[n] {
			switch cause.Scope {
			case SameSubject:
				ok = a.a == k.a && a.b == k.b
			case OneEnd:
				ok = a.a.guid == k.a.guid || a.a.guid == k.b.guid
			case Anywhere:
				ok = true
			}
			if ok {
				return cause.Name
			}
		}
	}
	return ""
}

// Report has all findings after the last step, or none before the first.
func (c *Core) Report() *Report {
	r := &Report{Round: c.round, At: c.now, Closed: c.closed, Missed: c.missed, Rules: slices.Clone(c.counts)}
	for k, t := range c.tracks {
		if t.open != nil {
			r.Open = append(r.Open, *t.open)
			r.Rules[k.rule].Open++
		}
	}
	slices.SortFunc(r.Open, func(a, b Finding) int { return cmp.Compare(a.ID, b.ID) })
	return r
}
