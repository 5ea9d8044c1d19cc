package show

import (
	"fmt"
	"strings"
	"time"

	"heddle/api"
	"heddle/ib"
	"heddle/internal/plural"
	"heddle/perf/dftree"
	"heddle/perf/hotspot"
	"heddle/subnet"
)

// HotSpots is /v1/hotspots with at most limit hot spots of each kind, the newest, and at most that many
// hosts of each list of theirs; 0: all. slow are the paths that the SA answers with the level of the
// slow lane. began is when the manager's time was 0; a nil report: nothing was looked for.
func HotSpots(r *hotspot.Report, p *dftree.Plan, slow *subnet.SlowPaths, began time.Time, limit int) api.HotSpots {
	out := api.HotSpots{Open: []api.HotSpot{}, Closed: []api.HotSpot{}, SL: -1, Mode: dftree.Off.String()}
	if r == nil || p == nil {
		return out
	}
	out.Round, out.Held, out.Missed, out.Mode, out.NoSL = r.Round, r.Held, r.Missed, p.Mode.String(), p.Why
	out.Count, out.Slow = len(r.Open), slow.Len()
	if p.Why == "" {
		out.SL = int(p.SL)
	}
	open, closed := r.Open, r.Closed
	if limit > 0 {
		open, closed = open[max(0, len(open)-limit):], closed[max(0, len(closed)-limit):]
	}
	spots := make(map[uint64]*dftree.Spot, len(p.Spots))
	for k := range p.Spots {
		spots[p.Spots[k].ID] = &p.Spots[k]
	}
	moved := map[ib.GUID]int{}
	for x := range slow.All() {
		moved[x.To]++
	}
	for i := range open {
		x := hotSpot(&open[i], began, limit)
		if s := spots[x.ID]; s != nil {
			x.Paths, x.Refused = s.Paths, s.Refused
		}
		if p.Mode == dftree.Act {
			x.Paths = moved[open[i].Host.GUID]
		}
		out.Open = append(out.Open, x)
	}
	for i := range closed {
		out.Closed = append(out.Closed, hotSpot(&closed[i], began, limit))
	}
	return out
}

// NoHotSpots is /v1/hotspots when counters have not been read, or not any more, and why.
func NoHotSpots(why string, mode dftree.Mode) api.HotSpots {
	return api.HotSpots{Open: []api.HotSpot{}, Closed: []api.HotSpot{}, SL: -1, Mode: mode.String(), Note: why}
}

// atMost is how many of n are shown with a limit; 0: all.
func atMost(n, limit int) int {
	if limit == 0 {
		return n
	}
	return min(n, limit)
}

func hotSpot(h *hotspot.HotSpot, began time.Time, limit int) api.HotSpot {
	at := func(t time.Duration) time.Time { return began.Add(t).UTC() }
	feeders, victims := atMost(len(h.Contributors), limit), atMost(len(h.Victims), limit)
	x := api.HotSpot{
		ID: h.ID, Host: hotSpotEnd(&h.Host), At: hotSpotEnd(&h.At).FindingEnd, Sign: h.Sign.String(), Since: at(time.Duration(h.Since)), Opened: at(time.Duration(h.Opened)),
		Why: h.Why, Wait: h.Wait, Use: h.Use, Lane: h.Lane, Behind: h.Behind,
		MoreContributors: h.MoreContributors + len(h.Contributors) - feeders, More: h.MoreVictims + len(h.Victims) - victims,
		Contributors: make([]api.HotSpotFeeder, 0, feeders), Victims: make([]api.HotSpotSufferer, 0, victims),
	}
	if h.Closed != 0 {
		t := at(time.Duration(h.Closed))
		x.Closed = &t
	}
	for i := range h.Contributors[:feeders] {
		c := &h.Contributors[i]
		x.Contributors = append(x.Contributors, api.HotSpotFeeder{HotSpotEnd: hotSpotEnd(&c.Host), Since: at(time.Duration(c.Since)), Wait: c.Wait, Use: c.Use, Known: c.Known})
	}
	for i := range h.Victims[:victims] {
		v := &h.Victims[i]
		x.Victims = append(x.Victims, api.HotSpotSufferer{HotSpotEnd: hotSpotEnd(&v.Host), Wait: v.Wait, Use: v.Use, Via: hotSpotEnd(&v.Via).FindingEnd})
	}
	return x
}

func hotSpotEnd(e *hotspot.End) api.HotSpotEnd {
	return api.HotSpotEnd{
		FindingEnd: api.FindingEnd{GUID: e.Node.String(), Port: int(e.Port), Description: e.Desc}, PortGUID: e.GUID.String(), LID: int(e.LID),
	}
}

// maxFeeders is how many hosts a line names.
const maxFeeders = 8

// HotSpotText is a hot spot in a line, as events tell it: "host-5 is a hot spot, fed by host-1 and
// host-3, on lane 1". p says what is done about it; nil: nothing.
func HotSpotText(h *hotspot.HotSpot, p *dftree.Plan) string {
	if h.Closed != 0 {
		return fmt.Sprintf("hot spot %d, %q: %s", h.ID, h.Host.Desc, h.Why)
	}
	var names []string
	for i := range h.Contributors {
		if i == maxFeeders {
			names = append(names, fmt.Sprintf("%d more", len(h.Contributors)-i+h.MoreContributors))
			break
		}
		perhaps := ""
		if !h.Contributors[i].Known {
			perhaps = "perhaps "
		}
		names = append(names, fmt.Sprintf("%s%q", perhaps, h.Contributors[i].Host.Desc))
	}
	s := fmt.Sprintf("hot spot %d: %q is sent more than it takes, fed by %s", h.ID, h.Host.Desc, strings.Join(names, ", "))
	if h.Lane >= 0 {
		s += fmt.Sprintf(", on lane %d", h.Lane)
	}
	if p == nil {
		return s
	}
	for _, x := range p.Spots {
		switch {
		case x.ID != h.ID:
		case x.Refused != "":
			s += "; its paths do not move: " + x.Refused
		case p.Mode == dftree.Act:
			s += fmt.Sprintf("; %s %s to service level %d", plural.Of(x.Paths, "path"), plural.Verb(x.Paths, "moves", "move"), p.SL)
		default:
			s += fmt.Sprintf("; with --dftree act %s would move to service level %d", plural.Of(x.Paths, "path"), p.SL)
		}
	}
	return s
}
