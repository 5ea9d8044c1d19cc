package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"heddle/api"
	"heddle/internal/plural"
)

// ctlCongestion are the commands about congestion control.
func ctlCongestion() *cobra.Command {
	c := &cobra.Command{
		Use:   "congestion",
		Short: "Congestion control: show, mode",
		Long: `Shows the actual and the wanted settings of switches and adapters for congestion
control, and changes its mode.`,
		Args: subcommandOnly,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(ctlCongestionShow(), ctlCongestionMode())
	return c
}

func ctlCongestionShow() *cobra.Command {
	var o ctlOptions
	all := false
	c := &cobra.Command{
		Use:   "show [GUID]",
		Short: "Show settings of nodes, differences, and flows of marked packets",
		Long: `Without a GUID: counts, the wanted settings, nodes that have other settings, refuse
settings or mark packets, and the flows in the nodes' logs. With the GUID of a node
or port: its actual and wanted settings, and its table.`,
		Example: `  heddle ctl congestion show --all
  heddle ctl congestion show 0x0002c90200000001`,
		Args: mostArgs(1, "one GUID at most"),
		RunE: func(cmd *cobra.Command, args []string) error {
			q := url.Values{}
			if all {
				q.Set("all", "true")
			}
			show := func(w io.Writer, body []byte) error { return printCongestion(w, body, all) }
			if len(args) == 1 {
				q.Set("node", args[0])
				show = printCongestionNode
			}
			return o.ask(cmd, http.MethodGet, "/v1/congestion?"+q.Encode(), nil, show)
		},
	}
	o.register(c)
	c.Flags().BoolVar(&all, "all", false, "list all nodes")
	return c
}

func ctlCongestionMode() *cobra.Command {
	var o ctlOptions
	modes := []string{"off", "observe", "act", "withdraw"}
	c := &cobra.Command{
		Use:   "mode " + strings.Join(modes, "|"),
		Short: "Change the mode of congestion control, until the manager ends",
		Long: `off sends nothing, and nodes keep their settings. observe reads the settings, and
shows differences. act writes the wanted settings. withdraw turns congestion control
off at all nodes and removes the CC_Key that act wrote: use it before off, and before
another manager takes over. The next start uses the mode of --congestion-control.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("want off, observe, act or withdraw")
			}
			if !slices.Contains(modes, args[0]) {
				return usagef("%q: want off, observe, act or withdraw%s", args[0], didYouMean(args[0], slices.Clone(modes)))
			}
			return nil
		},
		ValidArgs: modes,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.ask(cmd, http.MethodPost, "/v1/congestion/mode", map[string]string{"mode": args[0]}, func(w io.Writer, _ []byte) error {
				_, err := fmt.Fprintln(w, "requested; 'heddle ctl congestion show' shows the progress")
				return err
			})
		},
	}
	o.register(c)
	return c
}

// congestionLines is how many nodes are listed unless all are asked for.
const congestionLines = 40

func printCongestion(w io.Writer, body []byte, all bool) error {
	var c api.Congestion
	if err := json.Unmarshal(body, &c); err != nil {
		return err
	}
	fmt.Fprintf(w, "mode %s", c.Mode)
	switch {
	case c.Mode == "off":
		_, err := fmt.Fprintln(w, ": nothing is read or written; see --congestion-control and 'heddle ctl congestion mode'")
		return err
	case c.Agents == 0:
		_, err := fmt.Fprintln(w, ": nothing has been read: is this manager the master, and the subnet up?")
		return err
	}
	fmt.Fprintf(w, ": %d of %s %s congestion control (without it %d, silent %d, locked %d, not read yet %d)\n",
		c.Managed, plural.Of(c.Agents, "agent"), plural.Verb(c.Agents, "has", "have"), c.Without, c.Silent, c.Locked, c.Pending)
	fmt.Fprintf(w, "%d %s other settings than wanted; %s, %s, %s, %s\n", c.Differs, plural.Verb(c.Differs, "holds", "hold"), plural.Of(c.Requests, "request"),
		plural.Of(c.Sets, "Set"), plural.Of(c.Repairs, "repair"), plural.Of(c.Restarts, "restart"))
	fmt.Fprintf(w, "events in logs: %s, %s\n", plural.Of(c.Marks, "marked packet"), plural.Of(c.Slowed, "slowed sender"))
	if c.Wanted != nil {
		fmt.Fprintf(w, "wanted, for %s to one host:\n", plural.Of(c.Senders, "sender"))
		printSwitchCongestion(w, "  switches", c.Wanted.Switch)
		printCACongestion(w, "  adapters", c.Wanted.CA)
	}
	if len(c.Nodes) > 0 {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "\nnode\tport\tLID\tstate\tkey\tevents\tdiffers in")
		for i := range c.Nodes {
			if i == congestionLines && !all {
				break
			}
			n := &c.Nodes[i]
			marks := ""
			if n.Marking && len(n.Ports) > 0 {
				marks = fmt.Sprintf(", marks at ports %v", n.Ports)
			}
			fmt.Fprintf(t, "%s %s\t%d\t%d\t%s\t%s\t%d%s\t%s\n", n.GUID, plain(n.Description), n.Port, n.LID, n.State, n.Key, n.Events, marks, orDash(strings.Join(n.Differs, ", ")))
		}
		if err := t.Flush(); err != nil {
			return err
		}
		if more := len(c.Nodes) - congestionLines; more > 0 && !all {
			fmt.Fprintf(w, "and %d more: see --all\n", more)
		}
	}
	return printFlows(w, c.Flows)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func printFlows(w io.Writer, flows []api.CongestionFlow) error {
	if len(flows) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\nlog\tof\tfrom\tto\tSL\tevents\tlast")
	for i := range flows {
		f := &flows[i]
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%d\t%s\n", f.Log, plain(f.At.Description), lidEnd(f.From, f.FromLID), lidEnd(f.To, f.ToLID), f.SL, f.Count, f.Last.Format("15:04:05"))
	}
	return t.Flush()
}

func lidEnd(desc string, lid int) string {
	if desc == "" {
		return "LID " + strconv.Itoa(lid)
	}
	return fmt.Sprintf("%s (LID %d)", plain(desc), lid)
}

func printCongestionNode(w io.Writer, body []byte) error {
	var c api.Congestion
	if err := json.Unmarshal(body, &c); err != nil {
		return err
	}
	if len(c.Nodes) == 0 {
		return printCongestion(w, body, false)
	}
	for i := range c.Nodes {
		n := &c.Nodes[i]
		fmt.Fprintf(w, "%s %s port %d, LID %d: %s, CC_Key %s (%s), room for %s of the table\n",
			n.GUID, plain(n.Description), n.Port, n.LID, n.State, n.Key, plural.Of(n.Violations, "violation"), plural.Of(n.Blocks, "block"))
		if len(n.Differs) > 0 {
			fmt.Fprintf(w, "differs in %s\n", strings.Join(n.Differs, ", "))
		}
		for _, s := range []struct {
			what string
			x    *api.CongestionSettings
		}{{"held", n.Held}, {"wanted", n.Wanted}} {
			if s.x == nil {
				fmt.Fprintf(w, "%s: unknown\n", s.what)
				continue
			}
			printSwitchCongestion(w, s.what, s.x.Switch)
			printCACongestion(w, s.what, s.x.CA)
			if s.x.CA != nil {
				fmt.Fprintf(w, "%s table: %s\n", s.what, strings.Join(s.x.CA.Table, ","))
			}
		}
	}
	return nil
}

func printSwitchCongestion(w io.Writer, what string, s *api.SwitchCongestion) {
	if s == nil {
		return
	}
	fmt.Fprintf(w, "%s: threshold %d, packets of %d bytes and more, marking rate %d, victim ports %v", what, s.Threshold, 64*s.PacketSize, s.MarkingRate, s.VictimPorts)
	if len(s.CreditPorts) > 0 || s.StarvationThreshold > 0 {
		fmt.Fprintf(w, ", starvation threshold %d, delay %s, ports %v", s.StarvationThreshold, s.StarvationDelay, s.CreditPorts)
	}
	for _, p := range s.Ports {
		fmt.Fprintf(w, "; port %d: threshold %d, packets of %d bytes", p.Port, p.Threshold, 64*p.PacketSize)
	}
	fmt.Fprintln(w)
}

func printCACongestion(w io.Writer, what string, a *api.CACongestion) {
	if a == nil {
		return
	}
	for _, l := range a.Levels {
		fmt.Fprintf(w, "%s: SL %v: timer %.1f µs, increase %d, trigger %d, min %d, by %s; table up to index %d", what, l.SLs, float64(l.Timer)*1.024, l.Increase, l.Trigger, l.Min, a.Control, a.Limit)
		if n := len(a.Table); n > 0 {
			fmt.Fprintf(w, ", %s", a.Table[n-1])
		}
		fmt.Fprintln(w)
	}
}
