package sm

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"heddle/ib"
	"heddle/mad"
	"heddle/route"
	"heddle/route/transition"
)

// Repair tells what a fault broke, and how it was repaired. A pair is a switch with a CA or
// router port, and the LID of a CA or router port: it is broken if the entries of the switches
// do not deliver it although cables connect the two.
//
// Broken = First + Late + Left. What no cable connects any more is no pair, and a sweep
// that finds nothing broken has no Repair.
type Repair struct {
	Reason string  // what asked for the sweep
	Faults []Fault // what was lost: switches, then links, then tables; the first few
	More   int     // faults that are not in Faults

	Broken int // pairs that the fault broke
	First  int // connected by entries that mix with all others, without a wait
	Late   int // connected by later entries: after a wait, or by such that do not mix with packets under way
	Left   int // not connected by this sweep; a next one is on its way

	Mode   transition.Mode
	Policy Transition
	Stages int           // stages of the transition
	Drains int           // waits for packets under way to leave
	Drain  time.Duration // their sum
	Risk   *Risk         // not nil: a transient cycle was possible

	// Took is the time from the first sign of the fault (the trap or the answer of a light
	// sweep that asked for the sweep; else its start) to the answer that acknowledges the last
	// block with which a broken pair works. 0 if no pair was connected.
	Took time.Duration
}

// FaultKind is what was lost.
type FaultKind uint8

// The kinds of faults.
const (
	FaultSwitch FaultKind = 1 + iota // a switch with all its links
	FaultLink                        // a link between two switches that are there
	FaultTable                       // the forwarding table of a switch, as by a reset
)

// Fault names something that was lost.
type Fault struct {
	Kind     FaultKind
	Node     ib.GUID // node GUID of a switch
	Desc     string  // its description, "" if not known
	Port     uint8   // of a link
	Peer     ib.GUID // the other end of a link
	PeerDesc string
	PeerPort uint8
}

// String names the fault as 'heddle plan --fault' takes it, with the other end of a link.
func (f Fault) String() string {
	switch f.Kind {
	case FaultLink:
		return fmt.Sprintf("link %s:%d (to %s:%d)", nodeName(f.Desc, f.Node), f.Port, nodeName(f.PeerDesc, f.Peer), f.PeerPort)
	case FaultTable:
		return "table of switch " + nodeName(f.Desc, f.Node)
	}
	return "switch " + nodeName(f.Desc, f.Node)
}

// plural is a count with its noun: "1 switch", "2 switches".
func plural(n int, what string) string {
	if n != 1 {
		if strings.HasSuffix(what, "ch") {
			what += "e"
		}
		what += "s"
	}
	return strconv.Itoa(n) + " " + what
}

func nodeName(desc string, g ib.GUID) string {
	if desc == "" {
		return g.String()
	}
	return desc
}

// Risk says that a transition is not proved at every step: packets may wait for each other
// in a circle until switches discard them.
type Risk struct {
	// Channels are an example of such a circle: each may wait for the next, the last for the
	// first. Empty if none is known by name.
	Channels []RiskChannel
	// Worst is how long such packets stay at most: the packet lifetime of a switch and
	// the head-of-queue limit.
	Worst time.Duration
	Why   string
}

// RiskChannel is the port by which a switch sends, and a data lane of it.
type RiskChannel struct {
	Node ib.GUID
	Desc string
	Port uint8
	Lane uint8
}

// String names the channel by the description of its switch.
func (h RiskChannel) String() string {
	return fmt.Sprintf("%s:%d lane %d", nodeName(h.Desc, h.Node), h.Port, h.Lane)
}

// String tells the risk in one line.
func (r *Risk) String() string {
	s := "a transient cycle is possible"
	if len(r.Channels) > 0 {
		list := make([]string, len(r.Channels))
		for i, h := range r.Channels {
			list[i] = h.String()
		}
		s += " through " + strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s: %s; head-of-queue and lifetime limits end it within %v", s, r.Why, r.Worst.Round(time.Millisecond))
}

// String tells the repair in one line.
func (r *Repair) String() string {
	var b strings.Builder
	if len(r.Faults) > 0 {
		for i := range r.Faults {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(r.Faults[i].String())
		}
		if r.More > 0 {
			fmt.Fprintf(&b, " and %d more", r.More)
		}
		b.WriteString(" lost: ")
	}
	fmt.Fprintf(&b, "%s broken", plural(r.Broken, "pair"))
	if n := r.Broken - r.Left; n > 0 {
		fmt.Fprintf(&b, ", %d connected after %v", n, r.Took.Round(time.Microsecond))
		if r.Late > 0 {
			fmt.Fprintf(&b, ", %d of them late", r.Late)
		}
	}
	if r.Left > 0 {
		fmt.Fprintf(&b, ", %d left broken", r.Left)
	}
	fmt.Fprintf(&b, "; %v in %s", r.Mode, plural(r.Stages, "stage"))
	if r.Drains > 0 {
		fmt.Fprintf(&b, ", %s of %v in all", plural(r.Drains, "drain"), r.Drain)
	}
	fmt.Fprintf(&b, ", policy %v", r.Policy)
	if r.Risk != nil {
		b.WriteString("; a transient cycle was possible")
	}
	return b.String()
}

// repairing is the repair that a sweep carries out.
type repairing struct {
	rep    *Repair // nil: nothing is broken, as far as is known
	found  *breakage
	at     mad.Time // when the last block was acknowledged that connects a pair; Never: none was
	sign   mad.Time // the first sign of what the sweep looks for
	signed mad.Time // the first sign since the sweep began; Never: none
	open   bool     // pairs of the last repair are left
}

// noteSign is called when something asks for a sweep.
func (c *Core) noteSign() { c.rp.signed = min(c.rp.signed, c.now) }

// signSweep is called at the start of a sweep.
func (c *Core) signSweep() {
	r := &c.rp
	if !r.open {
		r.sign = min(r.signed, c.now)
	}
	*r = repairing{sign: r.sign, signed: mad.Never, at: mad.Never, open: r.open}
}

// startRepair notes what a job found broken.
func (c *Core) startRepair(r *JobResult) {
	p := r.Plan
	if p != nil && p.Risk != nil && p.Mode != transition.ModeRefused {
		c.report.Risk = c.riskOf(r)
		c.out.notify(Notice{Kind: KindTransientCycle, Level: Warn, Text: c.report.Risk.String()})
		c.batchAtRisk()
	}
	b := r.broken
	if b == nil {
		return
	}
	rep := &Repair{
		Reason: c.report.Reason, Faults: slices.Clone(b.faults), More: b.more, Policy: c.cfg.Transition,
		Broken: b.pairs.N, Late: b.late, First: b.pairs.N - b.late, Risk: c.report.Risk,
	}
	rep.name(c.descOf)
	if p != nil {
		rep.Mode = p.Mode
		rep.Stages = len(p.Stages)
		rep.drains(p, c.cfg.DrainTime)
	}
	c.rp.rep, c.rp.found = rep, b
}

// name fills in descriptions.
func (r *Repair) name(desc func(ib.GUID) string) {
	for i := range r.Faults {
		f := &r.Faults[i]
		if f.Desc = desc(f.Node); f.Peer != 0 {
			f.PeerDesc = desc(f.Peer)
		}
	}
}

// drains counts the waits of a plan; each takes as long as given, if that is not 0.
func (r *Repair) drains(p *transition.Plan, given time.Duration) {
	for i := range p.Stages {
		st := &p.Stages[i]
		wait := st.Drain
		if given > 0 && wait > 0 {
			wait = given
		}
		if wait += st.Repath; wait > 0 {
			r.Drains++
			r.Drain += wait
		}
	}
}

// riskOf names what a plan's risk is about.
func (c *Core) riskOf(r *JobResult) *Risk {
	return nameRisk(r.Plan.Risk, func(s int32) ib.GUID {
		if int(s) < len(c.f.SwitchNode) {
			return c.f.Nodes[c.f.SwitchNode[s]].Info.NodeGUID
		}
		if i := int(s) - len(c.f.SwitchNode); i < len(r.transition.Frozen) {
			return r.transition.Frozen[i].GUID // excluded, and forwards still
		}
		return 0
	}, c.descOf)
}

func nameRisk(r *transition.Risk, guid func(s int32) ib.GUID, desc func(ib.GUID) string) *Risk {
	k := &Risk{Worst: r.Worst, Why: r.Why}
	for _, h := range r.Cycle {
		g := guid(h.Switch)
		k.Channels = append(k.Channels, RiskChannel{Node: g, Desc: desc(g), Port: h.Port, Lane: h.Lane})
	}
	return k
}

// descOf is the description of a node that is or was there.
func (c *Core) descOf(g ib.GUID) string {
	if i, ok := c.f.ByGUID[g]; ok && c.f.Nodes[i].Desc != "" {
		return c.f.Nodes[i].Desc
	}
	if c.snap != nil {
		if i := c.snap.NodeByGUID(g); i >= 0 {
			return c.snap.Nodes[i].Desc
		}
	}
	return ""
}

// repairWritten is called when a block is acknowledged in a transition.
func (c *Core) repairWritten(s int32, b int) {
	r := &c.rp
	if r.rep == nil || c.dist.res == nil {
		return
	}
	if k := c.dist.next - 1; k >= 0 && k < len(r.found.writes) {
		if _, ok := slices.BinarySearchFunc(r.found.writes[k], route.BlockDiff{Switch: s, Block: uint16(b)}, compareBlocks); ok {
			r.at = c.now
		}
	}
}

func compareBlocks(a, b route.BlockDiff) int {
	if a.Switch != b.Switch {
		return int(a.Switch - b.Switch)
	}
	return int(a.Block) - int(b.Block)
}

// endRepair tells what became of the broken pairs of a sweep.
func (c *Core) endRepair() {
	r := &c.rp
	rep := r.rep
	if rep == nil {
		r.open = r.open && (c.errs > 0 || c.again)
		return
	}
	d := &c.dist
	switch {
	case c.refused, d.res == nil:
		rep.Left = rep.Broken
	case d.next < len(d.res.Plan.Stages) || c.lftErrs > 0:
		rep.Left = r.found.pairs.Still(c.installed())
	}
	rep.Late = min(rep.Late, rep.Broken-rep.Left)
	rep.First = rep.Broken - rep.Left - rep.Late
	if r.at != mad.Never && rep.Left < rep.Broken {
		rep.Took = r.at.Sub(r.sign)
	}
	n := Notice{Kind: KindRepair, Level: Info, Dur: rep.Took, Text: rep.String(), Repair: rep}
	if rep.Left > 0 || rep.Risk != nil {
		n.Level = Warn
	}
	c.report.Repair = rep
	c.out.notify(n)
	r.open = rep.Left > 0
	r.rep, r.found = nil, nil
}

var transitionNames = [...]string{
	TransitionAvailability: "availability", TransitionStrict: "strict", TransitionDiscard: "discard",
	TransitionStatic: "static", TransitionStatic2003: "static2003",
}

// String is the name that the flag --transition and metrics use.
func (t Transition) String() string {
	if int(t) < len(transitionNames) {
		return transitionNames[t]
	}
	return "transition" + strconv.Itoa(int(t))
}
