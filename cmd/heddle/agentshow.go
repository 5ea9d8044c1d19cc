package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"heddle/agent/live"
	"heddle/ib"
	"heddle/internal/plural"
)

func agentShow() *cobra.Command {
	var socket string
	var paths, asJSON bool
	c := &cobra.Command{
		Use:   "show",
		Short: "Show the state of this host's agent, or its cached paths",
		Long: `Shows the ports, the subscriptions, the counts of answers, and whether the kernel
asks the agent; with --paths the cached paths, the most recently used one first:

  fresh     served without a query
  suspect   a notice may have been missed: asked for again before it is served
  old       served only while the SA is silent
  absent    the SA has no such path; served for a moment`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path := "/v1/agent"
			if paths {
				path = "/v1/paths"
			}
			b, err := askAgent(cmd.Context(), socket, http.MethodGet, path, nil)
			if err != nil {
				return err
			}
			w := cmd.OutOrStdout()
			switch {
			case asJSON:
				var v any
				if err := json.Unmarshal(b, &v); err != nil {
					return err
				}
				return printJSON(w, v)
			case paths:
				return printAgentPaths(w, b)
			}
			return printAgent(w, b)
		},
	}
	c.Flags().BoolVar(&paths, "paths", false, "show the cached paths")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().StringVar(&socket, "control", "", "`PATH` of the agent's control socket (default: agent.sock in the runtime directory)")
	return c
}

func printAgent(w io.Writer, b []byte) error {
	var s live.Status
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	fmt.Fprintf(w, "agent %s, up %v\n", s.Version, time.Duration(s.UptimeSeconds*float64(time.Second)).Round(time.Second))
	yes := func(v bool, a, b string) string {
		if v {
			return a
		}
		return b
	}
	for _, p := range s.Ports {
		fmt.Fprintf(w, "%s: %s, LID %d, subnet manager at LID %d\n", p.Port, yes(p.Active, "active", "not active"), p.LID, p.SMLID)
		fmt.Fprintf(w, "  notices      %s%s\n", yes(p.Subscribed, "subscribed", "not subscribed"), yes(p.Generation != "", ", generation "+p.Generation, ""))
		fmt.Fprintf(w, "  SA           %s; %d queries, %d unanswered, %d questions shared one\n", yes(p.Silent, "silent", "answers"), p.Queries, p.Unanswered, p.Joined)
		fmt.Fprintf(w, "  cache        %d paths (%d suspect), %d absent; %d removed by notices, %d renewed, %d removed for room\n", p.Entries, p.Suspect, p.Negative, p.Noticed, p.Renewed, p.Evicted)
		for _, k := range slices.Sorted(maps.Keys(p.Answers)) {
			fmt.Fprintf(w, "  %-12s %d\n", strings.TrimSuffix(k, "/none"), p.Answers[k])
		}
	}
	fmt.Fprintf(w, "programs: %s; %d connected, %d requests, %d without data, %d errors\n",
		yes(len(s.ACM.Addresses) > 0, strings.Join(s.ACM.Addresses, " "), "no socket"), s.ACM.Connections, s.ACM.Requests, s.ACM.NoData, s.ACM.Errors)
	n := s.Netlink
	fmt.Fprintf(w, "kernel: %s; %d questions, %d answered, %d left to it\n", yes(n.Served, "served", "not served: "+n.Why), n.Questions, n.Paths, n.Misses)
	return nil
}

func printAgentPaths(w io.Writer, b []byte) error {
	var list []live.Path
	if err := json.Unmarshal(b, &list); err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "STATE\tDGID\tDLID\tP_KEY\tSL\tMTU\tGBIT/S\tAGE\tLEFT\tPORT")
	seconds := func(v float64) time.Duration { return time.Duration(v * float64(time.Second)).Round(time.Second) }
	for _, p := range list {
		fmt.Fprintf(t, "%s\t%v\t%d\t%v\t%d\t%d\t%g\t%v\t%v\t%s\n",
			p.State, p.DGID, p.DLID, p.PKey, p.SL, p.MTU, p.RateGbps, seconds(p.AgeSeconds), seconds(p.LeftSeconds), p.Port)
	}
	return t.Flush()
}

func agentFlush() *cobra.Command {
	var socket string
	var asJSON bool
	c := &cobra.Command{
		Use:   "flush [GID|LID]",
		Short: "Remove cached paths from this host's agent",
		Long:  "Removes the paths to or from a GID or a LID, or all.",
		Args:  mostArgs(1, "one GID or LID at most"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var q live.FlushRequest
			if len(args) > 0 {
				if n, err := strconv.ParseUint(args[0], 0, 16); err == nil {
					if q.LID = ib.LID(n); !q.LID.IsUnicast() {
						return usagef("LID %s is not unicast", args[0])
					}
				} else if q.GID = args[0]; new(ib.GID).UnmarshalText([]byte(q.GID)) != nil {
					return usagef("%q is neither a GID nor a LID", args[0])
				}
			}
			body, err := json.Marshal(q)
			if err != nil {
				return err
			}
			b, err := askAgent(cmd.Context(), socket, http.MethodPost, "/v1/flush", bytes.NewReader(body))
			if err != nil {
				return err
			}
			var r live.FlushReply
			if err := json.Unmarshal(b, &r); err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), r)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s removed\n", plural.Of(r.Flushed, "entry"))
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().StringVar(&socket, "control", "", "`PATH` of the agent's control socket (default: agent.sock in the runtime directory)")
	return c
}
