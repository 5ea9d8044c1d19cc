package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"heddle/api"
	"heddle/ib"
	"heddle/internal/plural"
)

// ctlPort drains, isolates and restores links.
func ctlPort() *cobra.Command {
	c := &cobra.Command{
		Use:   "port",
		Short: "Drain, isolate or restore a link between switches",
		Long: `Takes a link out of use, or restores it. PORT is NODE:NUMBER: the description or the
GUID of a switch, and one of its ports. Without --apply the command only shows the
effect.

At most 10 links, or 0.5 % of the ports if that is less (but one in any case), can be
out of use at one time, and never the last one to a part of the subnet. With --for a
link is restored automatically. Links out of use are stored, and stay out of use over
restarts and takeovers.`,
		Args: subcommandOnly,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(ctlCommand("list", "The links that are drained or isolated", http.MethodGet, "/v1/ports/actions", printPortActions))
	for _, x := range [][2]string{
		{"drain", "Move routes away from a link, which stays up"},
		{"isolate", "Drain a link and disable one of its ends"},
		{"restore", "Return a link to routing, and enable its end"},
	} {
		c.AddCommand(ctlPortAct(x[0], x[1]))
	}
	return c
}

func ctlPortAct(verb, short string) *cobra.Command {
	var (
		o     ctlOptions
		apply bool
		force bool
		hold  time.Duration
		why   string
	)
	c := &cobra.Command{
		Use:   verb + " PORT",
		Short: short,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("port %s: want one port, as NODE:NUMBER", verb)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if hold > api.MaxHold {
				return usagef("--for %v: want 720h (30 days) at most, or 0: until somebody restores the link", hold)
			}
			guid, num, err := portNamed(cmd, &o, args[0], true)
			if err != nil {
				return err
			}
			q := url.Values{"dry_run": {strconv.FormatBool(!apply)}}
			if hold > 0 {
				q.Set("for", hold.String())
			}
			if force {
				q.Set("force", "true")
			}
			if why != "" {
				q.Set("why", why)
			}
			return o.ask(cmd, http.MethodPost, fmt.Sprintf("/v1/ports/%s/%d/%s?%s", guid, num, verb, q.Encode()), nil, printPortPlan)
		},
	}
	c.Flags().BoolVar(&apply, "apply", false, "apply the change; otherwise only show its effect")
	if verb != "restore" {
		c.Flags().DurationVar(&hold, "for", 0, "restore the link after this `TIME`, such as 2h; 720h (30 days) at most (0: by command only)")
		c.Flags().StringVar(&why, "why", "", "`REASON`, for the list")
	}
	if verb == "isolate" {
		c.Flags().BoolVar(&force, "force", false, "also the link of a host, which loses its only path (not that of the manager)")
	}
	o.register(c)
	return c
}

// portNamed finds the node GUID of NODE:NUMBER. The nearest names are those of switches, or of any node.
func portNamed(cmd *cobra.Command, o *ctlOptions, name string, switches bool) (guid string, num int, err error) {
	i := strings.LastIndexByte(name, ':')
	if i > 0 {
		num, err = strconv.Atoi(name[i+1:])
	}
	if i <= 0 || err != nil || num < 1 || num > 254 {
		return "", 0, usagef("port %q; give NODE:NUMBER", name)
	}
	node := name[:i]
	if strings.HasPrefix(node, "0x") {
		g, err := ib.ParseGUID(node)
		if err != nil {
			return "", 0, usagef("port %q: %w", name, err)
		}
		return g.String(), num, nil
	}
	answer, err := o.call(cmd.Context(), http.MethodGet, "/v1/nodes", nil)
	if err != nil {
		return "", 0, err
	}
	var nodes []api.Node
	if err := json.Unmarshal(answer, &nodes); err != nil {
		return "", 0, err
	}
	for _, n := range nodes {
		if n.Description != node {
			continue
		}
		if guid != "" {
			return "", 0, fmt.Errorf("several nodes are called %q; give the GUID", node)
		}
		guid = n.GUID
	}
	if guid == "" {
		var names []string
		for _, n := range nodes {
			if !switches || n.Type == ib.NodeSwitch.String() {
				names = append(names, n.Description)
			}
		}
		return "", 0, fmt.Errorf("no node is called %q%s", node, didYouMean(node, names))
	}
	return guid, num, nil
}

func printPortPlan(w io.Writer, body []byte) error {
	var p api.PortPlan
	if err := json.Unmarshal(body, &p); err != nil {
		return err
	}
	fmt.Fprintf(w, "%s: %q port %d to %q port %d\n", p.Action, p.Description, p.Port, p.PeerDescription, p.PeerPort)
	if p.Action != "restore" && p.Engine != "" {
		fmt.Fprintf(w, "%s %s over the link; %s change, in %s of %s (%s)\n", plural.Of(p.Entries, "entry"), plural.Verb(p.Entries, "leads", "lead"), plural.Of(p.Changed, "entry"),
			plural.Of(p.Blocks, "block"), plural.Of(p.Switches, "switch"), p.Engine)
		fmt.Fprintf(w, "most paths over one link: %d now, %d without it\n", p.LoadBefore, p.LoadAfter)
	}
	switch wait := time.Duration(p.Wait * float64(time.Second)).Round(time.Second); {
	case p.Action != "isolate":
	case wait > 0 && p.Engine == "": // a link that is drained
		fmt.Fprintf(w, "one end is disabled after about %v: packets may be under way so long\n", wait)
	case wait > 0:
		fmt.Fprintf(w, "one end is disabled about %v after the last entry over the link has gone: packets of before may be under way so long\n", wait)
	case p.Engine == "":
		fmt.Fprintln(w, "one end is disabled by the next sweep")
	default:
		fmt.Fprintln(w, "one end is disabled when the last entry over the link has gone")
	}
	if !p.Applied {
		_, err := fmt.Fprintln(w, "nothing was changed; --apply does it")
		return err
	}
	_, err := fmt.Fprintln(w, "requested; 'heddle ctl status' shows the sweep, 'heddle ctl port list' the links")
	return err
}

// printRoutePlan prints the answer to a request for new routes.
func printRoutePlan(w io.Writer, body []byte) error {
	var p api.RoutePlan
	if err := json.Unmarshal(body, &p); err != nil {
		return err
	}
	if p.Applied {
		_, err := fmt.Fprintln(w, "routes requested; 'heddle ctl status' shows the progress")
		return err
	}
	for _, e := range p.Passed {
		fmt.Fprintln(w, "passed over:", plain(e))
	}
	fmt.Fprintf(w, "%s: %s change, in %s of %s\n", p.Engine, plural.Of(p.Changed, "entry"), plural.Of(p.Blocks, "block"), plural.Of(p.Switches, "switch"))
	_, err := fmt.Fprintf(w, "most paths over one link: %d now, %d then\nnothing was changed: this was a dry run\n", p.LoadBefore, p.LoadAfter)
	return err
}

func printPortActions(w io.Writer, body []byte) error {
	return printList(w, body, "no link is drained or isolated", "ACTION\tPORT\tPEER\tSINCE\tUNTIL\tENTRIES\tDISABLED\tBY\tWHY", func(t io.Writer, p *api.PortAction) {
		until := "restored"
		if p.Until != nil {
			until = moment(*p.Until)
		}
		disabled := "no"
		switch {
		case p.Disabled:
			disabled = "yes"
		case p.GoesOnAt != nil:
			disabled = "no; goes on at about " + p.GoesOnAt.Local().Format(time.TimeOnly)
		case p.DisableAt != nil:
			disabled = "at about " + p.DisableAt.Local().Format(time.TimeOnly)
		}
		fmt.Fprintf(t, "%s\t%s:%d\t%s:%d\t%s\t%s\t%d\t%s\t%s\t%s\n", p.Action, plain(p.Description), p.Port, plain(p.PeerDescription), p.PeerPort,
			moment(p.Since), until, p.Entries, disabled, plain(p.By), plain(p.Why))
	})
}
