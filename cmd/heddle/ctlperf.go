package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"heddle/api"
	"heddle/ib"
	"heddle/perf/findings"
)

// ctlPerf are the commands about port counters.
func ctlPerf() *cobra.Command {
	c := &cobra.Command{
		Use:   "perf",
		Short: "Port counters: top, show, errors, dump",
		Long: `Shows the port counters that the manager reads every --perf. These commands send no
request to the fabric and clear no counter. Totals continue when another tool clears
counters.`,
		Args: subcommandOnly,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(ctlPerfTop(), ctlPerfShow(), ctlPerfErrors(), ctlPerfDump())
	return c
}

func ctlPerfTop() *cobra.Command {
	by, n := "use", 20
	c := ctlCommandTo("top", "The busiest ports, or those that wait or discard most", http.MethodGet, func() string {
		return "/v1/counters?" + url.Values{"by": {by}, "limit": {strconv.Itoa(n)}}.Encode()
	}, printTop)
	c.PreRunE = func(*cobra.Command, []string) error {
		if orders := []string{"use", "wait", "discards", "errors"}; !slices.Contains(orders, by) {
			return usagef("--by %q: want use, wait, discards or errors%s", by, didYouMean(by, orders))
		}
		return nil
	}
	c.Flags().StringVar(&by, "by", by, "`ORDER`: use, wait, discards or errors")
	c.Flags().IntVarP(&n, "lines", "n", n, "at most `N` ports; 0: all")
	return c
}

func ctlPerfErrors() *cobra.Command {
	var o ctlOptions
	file := ""
	c := &cobra.Command{
		Use:   "errors",
		Short: "Ports with errors; those whose errors grow come first",
		Long: `Prints the totals of the error counters of each port that are not 0. With
--thresholds it prints the same counters as ibqueryerrors with that file, if they
were not cleared: those above their thresholds, which are 0 if the file does not name
them. PortXmitWait is left out.`,
		Example: "  heddle ctl perf errors --thresholds /etc/infiniband-diags/error_thresholds",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			limits, err := thresholdsOf(file)
			if err != nil {
				return usagef("--thresholds: %w", err)
			}
			return o.ask(cmd, http.MethodGet, "/v1/counters?by=errors", nil, func(w io.Writer, body []byte) error {
				return printErrors(w, body, limits)
			})
		},
	}
	o.register(c)
	c.Flags().StringVar(&file, "thresholds", "", "`FILE` in the format of infiniband-diags' error_thresholds")
	return c
}

func ctlPerfShow() *cobra.Command {
	var o ctlOptions
	c := &cobra.Command{
		Use:   "show NODE:NUMBER | GUID NUMBER",
		Short: "All counters of a port",
		Long: `Shows all counters of a port: NODE is the description or the GUID of a node. GUID
may also be that of the port.`,
		Example: `  heddle ctl perf show sw-1-1:7
  heddle ctl perf show 0x0002c90200000001 7`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return usagef("want a port, as NODE:NUMBER, or the GUID of a node or port and a number")
			}
			if len(args) == 1 {
				return nil
			}
			if _, err := ib.ParseGUID(args[0]); err != nil {
				return usagef("%q is not a GUID; give a node by its description as NODE:NUMBER", args[0])
			}
			if n, err := strconv.Atoi(args[1]); err != nil || n < 0 || n > 254 {
				return usagef("%q is not a port number", args[1])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				guid, num, err := portNamed(cmd, &o, args[0], false)
				if err != nil {
					return err
				}
				args = []string{guid, strconv.Itoa(num)}
			}
			return o.ask(cmd, http.MethodGet, "/v1/ports/"+url.PathEscape(args[0])+"/"+args[1]+"/counters", nil, printPortCounters)
		},
	}
	o.register(c)
	return c
}

func ctlPerfDump() *cobra.Command {
	var o ctlOptions
	var opensm, mach bool
	c := &cobra.Command{
		Use:   "dump",
		Short: "Totals of all ports",
		Long: `Prints the totals of all ports: a table, with --opensm the text that OpenSM's
console command 'perfmgr dump_counters' writes, with --mach that of
'perfmgr dump_counters mach'. Before the first round of reading has ended both
fail, with exit status 1.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !opensm && !mach {
				return o.ask(cmd, http.MethodGet, "/v1/counters?all=true", nil, printTop)
			}
			path := "/v1/counters/opensm"
			if mach {
				path += "?form=mach"
			}
			o.asJSON = false
			return o.ask(cmd, http.MethodGet, path, nil, func(w io.Writer, body []byte) error {
				_, err := w.Write(body)
				return err
			})
		},
	}
	o.register(c)
	c.Flags().BoolVar(&opensm, "opensm", false, "as OpenSM's 'perfmgr dump_counters'")
	c.Flags().BoolVar(&mach, "mach", false, "as OpenSM's 'perfmgr dump_counters mach'")
	return c
}

// portEnd is a port in a table.
func portEnd(guid, desc string, port int) string {
	return fmt.Sprintf("%s %s port %d", guid, plain(desc), port)
}

// percent has enough digits for a gentle load.
func percent(x float64) string {
	switch x *= 100; {
	case x == 0:
		return "0 %"
	case x < 1: // two digits, without an exponent
		return fmt.Sprintf("%.*f %%", 1-int(math.Floor(math.Log10(x))), x)
	}
	return fmt.Sprintf("%.1f %%", x)
}

// noCounters explains an empty answer.
func noCounters(w io.Writer, c *api.Counters) error {
	text := "no port has anything to show"
	if c.Note != "" {
		text = "no counters: " + c.Note
	}
	_, err := fmt.Fprintln(w, text)
	return err
}

func printTop(w io.Writer, body []byte) error {
	var c api.Counters
	if err := json.Unmarshal(body, &c); err != nil {
		return err
	}
	if len(c.Ports) == 0 {
		return noCounters(w, &c)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "port\tto\tGb/s\tsent\treceived\twaits\tdiscards\tremarks")
	for i := range c.Ports {
		p := &c.Ports[i]
		to := "-"
		if p.Peer != nil {
			to = fmt.Sprintf("%s port %d", plain(p.Peer.Description), p.Peer.Port)
		}
		fmt.Fprintf(t, "%s\t%s\t%.4g\t%s\t%s\t%s\t%d\t%s\n", portEnd(p.GUID, p.Description, p.Port), to, p.Gbps, percent(p.Xmit), percent(p.Rcv),
			percent(p.Wait), p.Errors["PortXmitDiscards"], remarks(p.Flags))
	}
	return t.Flush()
}

// remarks are the flags that are out of the ordinary.
func remarks(flags []string) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(flags), func(f string) bool { return f == "sampled" }), ", ")
}

func printErrors(w io.Writer, body []byte, limits *findings.Thresholds) error {
	var c api.Counters
	if err := json.Unmarshal(body, &c); err != nil {
		return err
	}
	if limits != nil {
		c.Ports = slices.DeleteFunc(c.Ports, func(p api.PortUse) bool {
			maps.DeleteFunc(p.Errors, func(name string, n uint64) bool { return !limits.Exceeds(name, n) })
			return len(p.Errors) == 0
		})
	}
	if len(c.Ports) == 0 {
		return noCounters(w, &c)
	}
	for i := range c.Ports {
		p := &c.Ports[i]
		fmt.Fprintf(w, "%s", portEnd(p.GUID, p.Description, p.Port))
		if p.Peer != nil {
			fmt.Fprintf(w, " to %s port %d", plain(p.Peer.Description), p.Peer.Port)
		}
		fmt.Fprintf(w, ":")
		for _, name := range slices.Sorted(maps.Keys(p.Errors)) {
			fmt.Fprintf(w, " [%s == %d]", name, p.Errors[name])
		}
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
	}
	return nil
}

func printPortCounters(w io.Writer, body []byte) error {
	var p api.PortCounters
	if err := json.Unmarshal(body, &p); err != nil {
		return err
	}
	fmt.Fprintln(w, portEnd(p.GUID, p.Description, p.Port))
	if p.Peer != nil {
		fmt.Fprintf(w, "to %s\n", portEnd(p.Peer.GUID, p.Peer.Description, p.Peer.Port))
	}
	fmt.Fprintf(w, "%.4g Gb/s, sent %s, received %s, waits %s of the time, over %.3g s", p.Gbps, percent(p.Xmit), percent(p.Rcv), percent(p.Wait), p.Seconds)
	if odd := remarks(p.Flags); odd != "" {
		fmt.Fprintf(w, " (%s)", odd)
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "counter\ttotal\tvalue\tnew\ta second\t")
	for _, name := range slices.Sorted(maps.Keys(p.Counters)) {
		c := p.Counters[name]
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%.4g\t\n", name, c.Total, c.Value, c.Delta, c.Rate)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Details)) {
		fmt.Fprintf(t, "%s\t\t%d\t\t\t\n", name, p.Details[name])
	}
	for _, v := range p.Virtual {
		for _, name := range slices.Sorted(maps.Keys(v.Counters)) {
			c := v.Counters[name]
			fmt.Fprintf(t, "VPort %d %s\t%d\t%d\t%d\t\t\n", v.Index, name, c.Total, c.Value, c.Delta)
		}
	}
	return t.Flush()
}
