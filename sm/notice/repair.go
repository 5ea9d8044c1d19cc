package notice

import (
	"fmt"
	"strings"
	"time"

	"heddle/ib"
	"heddle/internal/plural"
	"heddle/route/transition"
	"heddle/sm/config"
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
	Policy config.Transition
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

// NewRisk names the channels of a transition's risk. guid is the node GUID of a switch by its index in the
// plan, desc the description of a node.
func NewRisk(r *transition.Risk, guid func(s int32) ib.GUID, desc func(ib.GUID) string) *Risk {
	k := &Risk{Worst: r.Worst, Why: r.Why}
	for _, h := range r.Cycle {
		g := guid(h.Switch)
		k.Channels = append(k.Channels, RiskChannel{Node: g, Desc: desc(g), Port: h.Port, Lane: h.Lane})
	}
	return k
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
	return fmt.Sprintf("%s: %s; if it closes, head-of-queue and lifetime limits discard its packets within %v, and under load it can close again until hosts have new paths", s, r.Why, r.Worst.Round(time.Millisecond))
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
	fmt.Fprintf(&b, "%s broken", plural.Of(r.Broken, "pair"))
	if n := r.Broken - r.Left; n > 0 {
		fmt.Fprintf(&b, ", %d connected after %v", n, r.Took.Round(time.Microsecond))
		if r.Late > 0 {
			fmt.Fprintf(&b, ", %d of them late", r.Late)
		}
	}
	if r.Left > 0 {
		fmt.Fprintf(&b, ", %d left broken", r.Left)
	}
	fmt.Fprintf(&b, "; %v in %s", r.Mode, plural.Of(r.Stages, "stage"))
	if r.Drains > 0 {
		fmt.Fprintf(&b, ", %s of %v in all", plural.Of(r.Drains, "drain"), r.Drain)
	}
	fmt.Fprintf(&b, ", policy %v", r.Policy)
	if r.Risk != nil {
		b.WriteString("; a transient cycle was possible")
	}
	return b.String()
}

// Name fills in descriptions.
func (r *Repair) Name(desc func(ib.GUID) string) {
	for i := range r.Faults {
		f := &r.Faults[i]
		if f.Desc = desc(f.Node); f.Peer != 0 {
			f.PeerDesc = desc(f.Peer)
		}
	}
}

// CountDrains counts the waits of a plan; each takes as long as given, if that is not 0.
func (r *Repair) CountDrains(p *transition.Plan, given time.Duration) {
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
