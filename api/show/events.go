package show

import (
	"strconv"
	"strings"
	"time"

	"heddle/api"
	"heddle/sm"
)

// Notice is the message of a notice, and its attributes.
func Notice(n *sm.Notice) (text string, attrs map[string]string) {
	attrs = map[string]string{}
	where(attrs, "", n.Where)
	where(attrs, "peer_", n.Peer)
	if n.Err != nil {
		attrs["err"] = n.Err.Error()
	}
	if n.Dur != 0 {
		attrs["dur"] = n.Dur.Round(time.Microsecond).String()
	}
	text = n.Text
	if text == "" {
		text = strings.ReplaceAll(n.Kind.String(), "_", " ")
	}
	return lead[n.Kind] + text, attrs
}

// lead begins the messages of notices whose text only says why.
var lead = map[sm.Kind]string{
	sm.KindSweepStart:   "sweep begins: ",
	sm.KindSweepEnd:     "sweep ends: ",
	sm.KindEnginePassed: "engine passed over: ",
}

func where(attrs map[string]string, prefix string, w sm.Where) {
	if !w.IsSet() {
		return
	}
	if w.Node != 0 {
		attrs[prefix+"node_guid"] = w.Node.String()
	}
	if w.Desc != "" {
		attrs[prefix+"node"] = w.Desc
	}
	if w.Port >= 0 {
		attrs[prefix+"port"] = strconv.Itoa(w.Port)
	}
	if w.LID != 0 {
		attrs[prefix+"lid"] = w.LID.String()
	}
	attrs[prefix+"path"] = sm.PathString(w.Path)
}

// Repair shows a repair that ended at a time.
func Repair(r *sm.Repair, at time.Time) api.Repair {
	out := api.Repair{
		Time: at, Reason: r.Reason, Faults: make([]string, len(r.Faults)), MoreFaults: r.More,
		Broken: r.Broken, First: r.First, Late: r.Late, Left: r.Left, Seconds: r.Took.Seconds(),
		Mode: r.Mode.String(), Policy: r.Policy.String(), Stages: r.Stages, Drains: r.Drains, DrainSeconds: r.Drain.Seconds(),
		Risk: risk(r.Risk),
	}
	for i, f := range r.Faults {
		out.Faults[i] = f.String()
	}
	return out
}

func risk(r *sm.Risk) *api.Risk {
	if r == nil {
		return nil
	}
	out := &api.Risk{Channels: make([]string, len(r.Channels)), Worst: r.Worst.Seconds(), Why: r.Why}
	for i, h := range r.Channels {
		out.Channels[i] = h.String()
	}
	return out
}
