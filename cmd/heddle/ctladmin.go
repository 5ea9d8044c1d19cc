package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"heddle/api"
	"heddle/internal/plural"
)

// ctlAdministration are the commands about partitions and the SA's state.
func ctlAdministration() []*cobra.Command {
	return []*cobra.Command{
		ctlPath(), ctlPartitions(), ctlAdopt(), ctlSAKey(), ctlBackup(),
		ctlCommand("groups", "Multicast groups and their members", http.MethodGet, "/v1/groups", printGroups),
		ctlCommand("services", "Registered services", http.MethodGet, "/v1/services", printServices),
		ctlCommand("subscriptions", "Subscriptions to events", http.MethodGet, "/v1/subscriptions", printSubscriptions),
		ctlCommand("signals", "Show subscribers to changed paths, and those that have not acknowledged them", http.MethodGet, "/v1/signals", printSignals),
	}
}

func ctlPath() *cobra.Command {
	var o ctlOptions
	c := &cobra.Command{
		Use:   "paths FROM TO",
		Short: "The path from one end port to another",
		Long: `Walks the installed tables from one end port to another and shows the switches
of the path, and the answer to a path query. Ends are named by LID, port
GUID, GID or node description, interfaces of virtual machines also by their name.`,
		Example: `  heddle ctl paths host-1 host-40
  heddle ctl paths 12 0x0002c90300a1b2c3 --json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usagef("want two ends, as LID, port GUID, GID or node description")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			v := url.Values{"from": {args[0]}, "to": {args[1]}}
			return o.ask(cmd, http.MethodGet, "/v1/path?"+v.Encode(), nil, printPath)
		},
	}
	o.register(c)
	return c
}

func printPath(w io.Writer, body []byte) error {
	var p api.Path
	if err := json.Unmarshal(body, &p); err != nil {
		return err
	}
	end := func(e api.PathEnd) string {
		return fmt.Sprintf("%s %s port %d LID %d", plain(e.Description), e.GUID, e.Port, e.LID)
	}
	fmt.Fprintf(w, "from  %s\n", end(p.From))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, h := range p.Hops {
		if h.Out == 0 {
			fmt.Fprintf(t, "  %s\t%s\tarrives\n", plain(h.Description), h.GUID)
			continue
		}
		fmt.Fprintf(t, "  %s\t%s\tout by port %d\n", plain(h.Description), h.GUID, h.Out)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "to    %s\n", end(p.To))
	key := "P_Key " + p.PKey
	if p.PKey == "" {
		key = "no common partition: the two cannot communicate"
	}
	back := ""
	if !p.Reverse {
		back = ", no path back"
	}
	fmt.Fprintf(w, "SL %d, MTU %d, rate %s, %s%s\n", p.SL, p.MTU, p.Rate, key, back)
	return nil
}

func printGroups(w io.Writer, body []byte) error {
	return printList(w, body, "no multicast groups", "MGID\tMLID\tP_KEY\tMTU\tRATE\tSL\tMEMBERS", func(t io.Writer, g *api.Group) {
		n := fmt.Sprint(len(g.Members))
		if g.WellKnown {
			n += " (permanent)"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%d\t%s\n", g.MGID, g.MLID, g.PKey, g.MTU, g.Rate, g.SL, n)
	})
}

func printSignals(w io.Writer, body []byte) error {
	var x api.Signals
	if err := json.Unmarshal(body, &x); err != nil {
		return err
	}
	fmt.Fprintf(w, "signal %s, generation %s: %s, of which %d did not acknowledge it yet (%d of these a change of service level)\n",
		x.Mode, x.Generation, plural.Of(len(x.Hosts), "subscriber"), x.Due, x.Levels)
	fmt.Fprintf(w, "%s; Reports: %d of any path, %d of one, %d not answered; a subscriber was spared %s\n",
		plural.Of(x.Changes, "change"), x.All, x.Paths, x.Failed, plural.Of(x.Spared, "time"))
	if len(x.Hosts) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "GID\tLID\tQP\tNODE\tGENERATION\tSTATE\tFAILED\tLATE")
	for i := range x.Hosts {
		h := &x.Hosts[i]
		state, late := h.State, "-"
		if h.Level {
			state += ", service level"
		}
		if h.Late > 0 {
			late = fmt.Sprintf("%.3g s", h.Late)
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%s\t%s\t%d\t%s\n", h.GID, h.LID, h.QP, h.Node, h.Generation, state, h.Failed, late)
	}
	return t.Flush()
}

func printServices(w io.Writer, body []byte) error {
	return printList(w, body, "no services", "SERVICE\tNAME\tGID\tP_KEY\tLEASE", func(t io.Writer, s *api.Service) {
		lease := fmt.Sprintf("%d s", s.Lease)
		if s.Lease == 1<<32-1 {
			lease = "forever"
		}
		fmt.Fprintf(t, "%s\t%q\t%s\t%s\t%s\n", s.ID, s.Name, s.GID, s.PKey, lease)
	})
}

func printSubscriptions(w io.Writer, body []byte) error {
	return printList(w, body, "no subscriptions", "SUBSCRIBER\tLID\tQP\tTRAP\tTYPE\tABOUT", func(t io.Writer, s *api.Subscription) {
		all := func(v, wild int) string {
			if v == wild {
				return "all"
			}
			return fmt.Sprint(v)
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%s\t%s\n", s.GID, s.LID, s.QP, all(s.Trap, 0xFFFF), all(s.Type, 0xFFFF), s.Source)
	})
}
