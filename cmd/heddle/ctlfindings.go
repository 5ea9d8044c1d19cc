package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"heddle/api"
	"heddle/internal/plural"
)

// ctlFindings shows what is wrong with the subnet.
func ctlFindings() *cobra.Command {
	all := false
	c := ctlCommand("findings", "Show problems of the subnet, since when, and their remedies", http.MethodGet, "/v1/findings",
		func(w io.Writer, body []byte) error { return printFindings(w, body, all) })
	c.Flags().BoolVar(&all, "all", false, "also those that ended")
	return c
}

func printFindings(w io.Writer, body []byte, all bool) error {
	var f api.Findings
	if err := json.Unmarshal(body, &f); err != nil {
		return err
	}
	list := f.Open
	if all {
		list = append(f.Closed, list...)
	}
	switch {
	case len(list) > 0:
	case f.Note != "":
		_, err := fmt.Fprintf(w, "no findings: %s\n", f.Note)
		return err
	case f.Round == 0:
		_, err := fmt.Fprintln(w, "no findings: no round of port counters has been evaluated yet")
		return err
	default:
		_, err := fmt.Fprintln(w, "no findings")
		return err
	}
	for i := range list {
		printFinding(w, &list[i])
	}
	if f.Note != "" {
		fmt.Fprintf(w, "no findings by counters: %s\n", f.Note)
	}
	if f.Missed > 0 {
		fmt.Fprintf(w, "%s not kept: there are too many\n", plural.Of(f.Missed, "more finding"))
	}
	return nil
}

func printFinding(w io.Writer, f *api.Finding) {
	fmt.Fprintf(w, "%d %s %s: %s, since %s\n", f.ID, f.Severity, f.Rule, f.Title, f.Since.Format(time.RFC3339))
	for _, e := range f.Ends {
		fmt.Fprintf(w, "    at %s\n", findingEnd(e))
	}
	if f.More > 0 {
		fmt.Fprintf(w, "    and %d more\n", f.More)
	}
	for _, e := range f.Evidence {
		fmt.Fprintf(w, "    %s of %s:", e.What, findingEnd(e.FindingEnd))
		switch { // a share of time has both: the counter's ticks, and the share in the text
		case e.Delta > 0 && e.Value != 0:
			fmt.Fprintf(w, " +%d, %.3g", e.Delta, e.Value)
		case e.Delta > 0:
			fmt.Fprintf(w, " +%d, last %.3g per second", e.Delta, e.Rate)
		default:
			fmt.Fprintf(w, " %g", e.Value)
		}
		fmt.Fprintf(w, " (limit %g)", e.Limit)
		if e.Text != "" {
			fmt.Fprintf(w, ": %s", e.Text)
		}
		fmt.Fprintln(w)
	}
	if f.Cause > 0 {
		fmt.Fprintf(w, "    cause: event %d ('heddle ctl events --cause %d')\n", f.Cause, f.Cause)
	}
	if f.Closed != nil {
		fmt.Fprintf(w, "    ended %s: %s\n", f.Closed.Format(time.RFC3339), f.Why)
		return
	}
	fmt.Fprintf(w, "    %s\n", f.Do)
	if f.Action != "" {
		fmt.Fprintf(w, "    %s\n", plain(f.Action))
	}
}

func findingEnd(e api.FindingEnd) string {
	if e.Port == 0 {
		return fmt.Sprintf("%q (%s)", e.Description, e.GUID)
	}
	return fmt.Sprintf("%q (%s) port %d", e.Description, e.GUID, e.Port)
}
