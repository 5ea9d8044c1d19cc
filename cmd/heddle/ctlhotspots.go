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

// ctlHotSpots shows which hosts are sent more than they take.
func ctlHotSpots() *cobra.Command {
	all := false
	c := ctlCommand("hotspots", "Show hosts that are sent more than they accept, their senders, and affected hosts", http.MethodGet, "/v1/hotspots",
		func(w io.Writer, body []byte) error { return printHotSpots(w, body, all) })
	c.Flags().BoolVar(&all, "all", false, "also those that ended")
	return c
}

func printHotSpots(w io.Writer, body []byte, all bool) error {
	var h api.HotSpots
	if err := json.Unmarshal(body, &h); err != nil {
		return err
	}
	if h.Note != "" {
		_, err := fmt.Fprintf(w, "no hot spots: %s\n", h.Note)
		return err
	}
	if h.Round == 0 {
		_, err := fmt.Fprintln(w, "no hot spots: no round of port counters has been evaluated yet")
		return err
	}
	switch {
	case h.Mode == "off":
	case h.NoSL != "":
		fmt.Fprintf(w, "dftree %s: there is no slow lane: %s\n", h.Mode, h.NoSL)
	default:
		fmt.Fprintf(w, "dftree %s: service level %d is that of the slow lane\n", h.Mode, h.SL)
	}
	list := h.Open
	if all {
		list = append(h.Closed, list...)
	}
	if len(list) == 0 {
		fmt.Fprintln(w, "no hot spots")
	}
	for i := range list {
		printHotSpot(w, &list[i], h.Mode)
	}
	if h.Missed > 0 {
		fmt.Fprintf(w, "the fabric as a whole is full: %s %s the sign of a hot spot\n", plural.Of(h.Missed, "more host"), plural.Verb(h.Missed, "has", "have"))
	}
	if h.Held > 0 {
		fmt.Fprintf(w, "%s %s for ten rounds after two hot spots\n", plural.Of(h.Held, "more host"), plural.Verb(h.Held, "waits", "wait"))
	}
	return nil
}

func printHotSpot(w io.Writer, h *api.HotSpot, mode string) {
	fmt.Fprintf(w, "%d %q is a hot spot since %s (%s)\n", h.ID, h.Host.Description, h.Since.Format(time.RFC3339), h.Sign)
	fmt.Fprintf(w, "    before it: %s waits for %.0f %% of the time, uses %.0f %%", findingEnd(h.At), 100*h.Wait, 100*h.Use)
	if h.Lane >= 0 {
		fmt.Fprintf(w, ", lane %d", h.Lane)
	}
	if h.Behind {
		fmt.Fprint(w, "; flows to it wait behind those to others")
	}
	fmt.Fprintln(w)
	for i := range h.Contributors {
		c := &h.Contributors[i]
		fed := "fed by"
		if !c.Known {
			fed = "perhaps fed by"
		}
		fmt.Fprintf(w, "    %s %q since %s: waits for %.0f %%, uses %.0f %%\n", fed, c.Description, c.Since.Format(time.RFC3339), 100*c.Wait, 100*c.Use)
	}
	if h.MoreContributors > 0 {
		fmt.Fprintf(w, "    and by %d more\n", h.MoreContributors)
	}
	for i := range h.Victims {
		v := &h.Victims[i]
		fmt.Fprintf(w, "    %q may suffer: waits for %.0f %%, uses %.0f %%, shares the link at %s\n", v.Description, 100*v.Wait, 100*v.Use, findingEnd(v.Via))
	}
	if h.More > 0 {
		fmt.Fprintf(w, "    and %d more may suffer\n", h.More)
	}
	switch {
	case h.Closed != nil:
		fmt.Fprintf(w, "    ended %s: %s\n", h.Closed.Format(time.RFC3339), h.Why)
	case h.Refused != "":
		fmt.Fprintf(w, "    its paths do not move: %s\n", h.Refused)
	case mode == "act":
		fmt.Fprintf(w, "    %s %s on the slow lane\n", plural.Of(h.Paths, "path"), plural.Verb(h.Paths, "is", "are"))
	case mode == "observe":
		fmt.Fprintf(w, "    with --dftree act %s would be on the slow lane\n", plural.Of(h.Paths, "path"))
	}
}
