package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"heddle/api"
)

func ctlStatus() *cobra.Command {
	var o ctlOptions
	c := &cobra.Command{
		Use:   "status",
		Short: "State, counts and the last sweep",
		Long: `Shows the state of a manager. The first line says which one, as without --api it is
the daemon that was started last. A standby knows little of the subnet: it says
where the active manager is, if it knows that.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, err := o.locate()
			if err != nil {
				return err
			}
			asked := m.addr
			if o.addr == "" {
				asked += ", found without --api"
			}
			return o.ask(cmd, http.MethodGet, "/v1/status", nil, func(w io.Writer, b []byte) error { return printStatus(w, b, asked) })
		},
	}
	o.register(c)
	return c
}

// printStatus prints a status; asked is the manager that was asked for it.
func printStatus(w io.Writer, body []byte, asked string) error {
	var s api.Status
	if err := json.Unmarshal(body, &s); err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(k, f string, a ...any) { fmt.Fprintf(t, "%s\t%s\n", k, plain(fmt.Sprintf(f, a...))) }
	if s.ActiveAt != "" {
		asked += "; it is not active, the active one is at " + s.ActiveAt
	}
	row("manager", "%s", asked)
	up := ", not up"
	switch {
	case s.SubnetUp && !s.UpSince.IsZero():
		up = ", SUBNET UP since " + s.UpSince.Local().Format(time.DateTime)
	case s.SubnetUp:
		up = ", SUBNET UP"
	case s.State == "STANDBY":
		up = "" // whether the subnet is up is for the active one to say
	}
	phase := s.Phase
	if s.WaitSeconds > 0 {
		phase += fmt.Sprintf(", waits up to %.0f s for packets to leave", math.Ceil(s.WaitSeconds))
	}
	row("state", "%s%s (%s)", s.State, up, phase)
	port := strings.TrimSpace(s.Port + " " + s.PortGUID)
	if s.LID != 0 {
		port += fmt.Sprintf(" LID %d", s.LID)
	}
	row("port", "%s priority %d", port, s.Priority)
	if s.Master != "" {
		row("master", "%s", s.Master)
	}
	if s.Switches+s.CAs+s.Routers > 0 { // its own port at least, unless it has read nothing
		printSubnet(row, &s)
	}
	if s.Sweeps+s.Resweeps > 0 {
		printLastSweep(row, &s)
	}
	if s.State == "MASTER" {
		printRegistry(row, &s)
	}
	if s.SMPsSent > 0 {
		row("SMPs", "%d sent, %d retried, %d timed out", s.SMPsSent, s.SMPsRetried, s.SMPsTimedOut)
	}
	return t.Flush()
}

// printSubnet prints what the manager knows of the subnet.
func printSubnet(row func(k, f string, a ...any), s *api.Status) {
	row("nodes", "%s, %s, %s", counted(s.Switches, "switch"), counted(s.CAs, "CA"), counted(s.Routers, "router"))
	row("links", "%d, %d active", s.Links, s.LinksActive)
	if s.Gone != (api.Gone{}) {
		row("gone", "%s, %s, %s, %s in the last 7 days; 'heddle ctl events --kind node_gone,link_down' shows when", counted(s.Gone.Switches, "switch"),
			counted(s.Gone.Hosts, "CA"), counted(s.Gone.Routers, "router"), counted(s.Gone.Cables, "cable"))
	}
	row("LIDs", "%d given to %s", s.LIDs, counted(s.EndPorts, "port"))
	if s.VPorts > 0 || s.VMs > 0 {
		pending := ""
		if s.VMsPending > 0 {
			pending = fmt.Sprintf(", %s under way", counted(s.VMsPending, "operation"))
		}
		row("virtual", "%s; %s of VMs%s", counted(s.VPorts, "VPort"), counted(s.VMs, "interface"), pending)
	}
	if s.Engine != "" {
		row("routes", "%s", strings.TrimSpace(s.Engine+" "+s.EngineReason))
	} else if passed := s.LastSweep.EnginePassed; len(passed) > 0 {
		row("routes", "none: %s", strings.Join(passed, "; "))
	}
	if s.Unseen > 0 {
		own := ""
		if s.OwnSilent {
			own = ", including the agent of the manager's own port"
		}
		row("no answer", "from %s, kept as last read%s", counted(s.Unseen, "node"), own)
	}
	row("problems", "%d", s.Problems)
}

// printLastSweep prints the sweeps, the last one, and what it left.
func printLastSweep(row func(k, f string, a ...any), s *api.Status) {
	row("sweeps", "%d full, %d light", s.Sweeps, s.Resweeps)
	if l := s.LastSweep; l.Seconds > 0 {
		what := "everything read"
		if l.Region {
			what = "a region read"
		}
		if l.Updated {
			what += ", routes updated incrementally"
		}
		if l.Transition != "" {
			l.Transition = ", " + l.Transition
		}
		row("last sweep", "%.3f s (%s), %s, %s sent%s", l.Seconds, l.Reason, what, counted(l.BlocksSent, "LFT block"), l.Transition)
	}
	if r := s.LastSweep.Risk; r != nil {
		row("at risk", "%s", riskText(r))
	}
	for _, d := range s.Damped {
		how := "let back in"
		if d.Held {
			how = "held down, released"
		}
		row("damped", "%s failed %d times in a row, %s after %.0f s of quiet", d.Port, d.Failures, how, d.Left)
	}
}

// printRegistry prints the state of the subnet administrator and of the partitions.
func printRegistry(row func(k, f string, a ...any), s *api.Status) {
	busy := ""
	if n := s.SA.Busy; n > 0 {
		busy = fmt.Sprintf(", %d answered BUSY", n)
	}
	row("SA", "%s, %d answered%s", counted(s.SA.Requests, "request"), s.SA.Answered, busy)
	row("kept", "%s with %s, %s, %s", counted(s.SA.Groups, "group"), counted(s.SA.Members, "member"),
		counted(s.SA.Services, "service"), counted(s.SA.Subscriptions, "subscription"))
	row("partitions", "%d, %s", s.Partitions.Count, carriedOut(&s.Partitions))
}
