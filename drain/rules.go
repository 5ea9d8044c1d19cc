package drain

import (
	"fmt"
	"time"

	"heddle/ib"
	"heddle/internal/plural"
	"heddle/perf/findings"
	"heddle/route/preview"
	"heddle/subnet"
)

// Mode is the permission of rules.
type Mode uint8

// The modes.
const (
	Say Mode = iota // dry run: what would be done is said
	Act
	Off
)

// String is the mode as settings have it.
func (m Mode) String() string { return [...]string{"dry-run", "act", "off"}[min(m, Off)] }

// Config has the permissions of rules, and their times. Defaults returns the usual one.
type Config struct {
	Mode Mode
	// Acts are the kinds of actions by rule: Drain or Isolate. Other rules do nothing.
	Acts map[string]subnet.PortActionKind
	// Clean is the time without a finding after which routes use a link again. An isolated link has
	// no counters: it is tried again after this time.
	Clean time.Duration
	// Expiry is the time after which an action by a rule ends if the counters of its link are no
	// longer read.
	Expiry time.Duration
}

// Defaults returns the usual times, and the actions of the table of rules.
func Defaults() Config {
	return Config{Acts: Acts(findings.Rules()), Clean: 125 * time.Minute, Expiry: 24 * time.Hour}
}

// Acts are the actions of a table of rules.
func Acts(rules []findings.Rule) map[string]subnet.PortActionKind {
	m := map[string]subnet.PortActionKind{}
	for i := range rules {
		if r := &rules[i]; r.Act != 0 && !r.Off {
			m[r.Name] = r.Act
		}
	}
	return m
}

// Configure replaces the configuration. Dry runs are decided again.
func (c *Core) Configure(cfg Config) {
	if cfg.Mode != c.cfg.Mode {
		clear(c.handled)
		c.acted = time.Time{}
	}
	c.cfg = cfg
}

// View is the state of the subnet at one time.
type View struct {
	Snap *subnet.Snapshot
	Open []findings.Finding // those that are open; it holds only if Read
	Read bool               // counters are being read
	// Sampled reports whether the counters of a port were read in the last round.
	Sampled func(node ib.GUID, port uint8) bool
}

const (
	// longest bounds the time between two steps that counts as clean.
	longest = time.Minute
	// between is the time between two decisions by rules: the sweep of the first is to be over, and a
	// preview takes its time.
	between = 10 * time.Second
	// again is after how long a refused action is tried again while its finding is open.
	again = 10 * time.Minute
	// renew is how much later an expiry must be to be stored; half of short ones.
	renew = time.Hour
)

// handled is what became of a finding.
type handled struct {
	result Result
	text   string
	at     time.Time
}

// Step ends actions whose time is over, and actions of rules whose links are clean. Call it about
// once a second.
func (c *Core) Step(now time.Time, v *View) (todo []Change) {
	passed := min(max(now.Sub(c.last), 0), longest)
	if c.last.IsZero() {
		passed = 0
	}
	c.last = now
	keep := map[place]bool{}
	for i := range c.list {
		a := &c.list[i]
		if x, ok := c.ending(now, v.Snap, a); ok {
			todo = append(todo, x)
			continue
		}
		if a.Rule == "" || a.Kind == subnet.Restore {
			continue
		}
		keep[placeOf(a)] = true
		if x, ok := c.watch(now, passed, v, a); ok {
			todo = append(todo, x)
		}
	}
	for at := range c.clean {
		if !keep[at] {
			delete(c.clean, at)
		}
	}
	if v.Read {
		c.forget(v.Open)
	}
	return todo
}

// forget drops findings that are not open any more.
func (c *Core) forget(open []findings.Finding) {
	here := make(map[uint64]bool, len(open))
	for i := range open {
		here[open[i].ID] = true
	}
	for id := range c.handled {
		if !here[id] {
			delete(c.handled, id)
		}
	}
}

// watch counts for how long the link of a rule's action has been clean.
func (c *Core) watch(now time.Time, passed time.Duration, v *View, a *subnet.PortAction) (x Change, ok bool) {
	at := placeOf(a)
	switch {
	case v.Read && c.sick(v.Open, a):
		c.clean[at] = 0
		return c.renewed(now, a)
	case a.Kind == subnet.Isolate:
		c.clean[at] += passed
	case v.Read && v.Sampled != nil && v.Sampled(a.Node, a.Port) && v.Sampled(a.Peer, a.PeerPort):
		c.clean[at] += passed
		if c.clean[at] < c.cfg.Clean {
			return c.renewed(now, a)
		}
	}
	if c.clean[at] < c.cfg.Clean {
		return x, false
	}
	return Change{
		Was: *a, Now: restoring(*a, now), Text: fmt.Sprintf("%s is restored: it was without a finding for %v", LinkText(v.Snap, a), c.cfg.Clean),
		counted: func(n *Counts) { n.Returned++ }, done: func() { delete(c.clean, at) },
	}, true
}

// renewed is the change that puts off the expiry of an action whose link is being watched.
func (c *Core) renewed(now time.Time, a *subnet.PortAction) (x Change, ok bool) {
	until := now.Add(c.cfg.Expiry).UTC().Truncate(time.Second)
	if until.Sub(a.Until) < min(renew, c.cfg.Expiry/2) {
		return x, false
	}
	b := *a
	b.Until = until
	return Change{Was: *a, Now: &b}, true
}

// sick reports whether a finding of a rule that acts is about a link.
func (c *Core) sick(open []findings.Finding, a *subnet.PortAction) bool {
	for i := range open {
		if c.cfg.Acts[open[i].Rule] == 0 && open[i].Rule != a.Rule {
			continue
		}
		for _, e := range open[i].Ends {
			if e.Port != 0 && a.Is(e.GUID, e.Port) {
				return true
			}
		}
	}
	return false
}

// Candidate is a link that a rule wants to take out of use.
type Candidate struct {
	Finding uint64
	Rule    string
	Action  subnet.PortAction
	full    error // there is no room for it
}

// Next is the next link that a rule is to take out of use, also in a dry run. The caller previews
// it (Candidate.Resolve), and passes the result to Decide.
func (c *Core) Next(now time.Time, v *View) (x Candidate, ok bool) {
	s := v.Snap
	if c.cfg.Mode == Off || !v.Read || s == nil || s.State != subnet.Master || !s.Up || s.Graph == nil || s.Tables == nil {
		return x, false
	}
	if now.Sub(c.acted) < between {
		return x, false
	}
	for i := range v.Open {
		f := &v.Open[i]
		kind := c.cfg.Acts[f.Rule]
		if kind == 0 || len(f.Ends) == 0 || f.Ends[0].Port == 0 {
			continue
		}
		if h := c.handled[f.ID]; h != nil && (h.result != Refused || now.Sub(h.at) < again) {
			continue
		}
		e := &f.Ends[0]
		if _, out := c.At(e.GUID, e.Port); out {
			continue // it is out of use already
		}
		for _, o := range f.Ends { // a host's link may be named by the host first
			if i := s.NodeByGUID(o.GUID); i >= 0 && s.Nodes[i].Info.NodeType == ib.NodeSwitch {
				e = &o
				break
			}
		}
		x = Candidate{Finding: f.ID, Rule: f.Rule, Action: subnet.PortAction{Kind: kind, Node: e.GUID, Port: e.Port, Rule: f.Rule}}
		x.full = c.Room(s, &x.Action)
		return x, true
	}
	return x, false
}

// Decide takes a candidate after Resolve; err is the reason for a refusal. It returns the text for
// the event, and with ok the change that is to be stored.
func (c *Core) Decide(now time.Time, s *subnet.Snapshot, x *Candidate, p *preview.Result, err error) (change Change, ok bool, text string) {
	a := x.Action
	if _, out := c.At(a.Node, a.Port); out {
		return change, false, "" // an operator was faster
	}
	if err == nil {
		err = c.Room(s, &a) // an operator may have taken the last room meanwhile
	}
	c.acted = now
	was := c.handled[x.Finding]
	h := &handled{at: now}
	c.handled[x.Finding] = h
	verb := "drained"
	if a.Kind == subnet.Isolate {
		verb = "isolated"
	}
	switch {
	case err != nil:
		h.result, h.text = Refused, fmt.Sprintf("cannot be %s by rule %s: %v", verb, x.Rule, err)
	case c.cfg.Mode == Say:
		h.result = DryRun
		h.text = fmt.Sprintf("would be %s by rule %s (dry run): %s would change, most paths over one link %d instead of %d", verb, x.Rule, plural.Of(p.Entries, "entry"), p.LoadAfter, p.LoadBefore)
	default:
		// Until it is stored, which a store that is away does not do.
		h.result, h.text = Refused, fmt.Sprintf("cannot be %s by rule %s: that could not be stored", verb, x.Rule)
		done := fmt.Sprintf("is %s by rule %s", verb, x.Rule)
		a.Since = now.UTC().Truncate(time.Second)
		a.Until, a.By, a.Why = a.Since.Add(c.cfg.Expiry), "rule "+x.Rule, fmt.Sprintf("finding %d", x.Finding)
		return Change{
			Was: a, Now: &a, Text: LinkText(s, &a) + " " + done,
			done:    func() { h.result, h.text = Done, done },
			counted: func(n *Counts) { n.Asked[a.Kind][Rule][Done]++ },
		}, true, ""
	}
	if was != nil && was.text == h.text {
		return change, false, "" // it was said before
	}
	c.counts.Asked[a.Kind][Rule][h.result]++
	return change, false, LinkText(s, &a) + " " + h.text
}

// Notes returns texts about open findings, by their numbers: the action that a rule took, or would
// take.
func (c *Core) Notes() map[uint64]string {
	m := make(map[uint64]string, len(c.handled))
	for id, h := range c.handled {
		m[id] = "the link " + h.text
	}
	return m
}
