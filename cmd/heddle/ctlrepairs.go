package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"heddle/api"
)

// riskText describes in one line why and where a transient cycle is possible.
func riskText(r *api.Risk) string {
	where := ""
	if len(r.Channels) > 0 {
		where = " through " + strings.Join(r.Channels, ", ")
	}
	return fmt.Sprintf("a transient cycle%s for at most %.3g s: %s", where, r.Worst, r.Why)
}

func printRepairs(w io.Writer, body []byte) error {
	return printList(w, body, "no fault has broken a pair since the manager started", "TIME\tBROKEN\tLATE\tLEFT\tSECONDS\tSTAGES\tDRAINS\tPOLICY\tRISK\tLOST", func(t io.Writer, r *api.Repair) {
		risk, drains := "-", "-"
		if r.Risk != nil {
			risk = "cycle"
		}
		if r.Drains > 0 {
			drains = fmt.Sprintf("%d (%.3g s)", r.Drains, r.DrainSeconds)
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%.4f\t%d\t%s\t%s\t%s\t%s\n", r.Time.Local().Format(time.DateTime),
			r.Broken, r.Late, r.Left, r.Seconds, r.Stages, drains, r.Policy, risk, plain(lostText(r)))
	})
}

// lostText names the lost links, or the cause of the sweep if they are unknown.
func lostText(r *api.Repair) string {
	s := strings.Join(r.Faults, ", ")
	if s == "" {
		return r.Reason
	}
	if r.MoreFaults > 0 {
		s += fmt.Sprintf(" and %d more", r.MoreFaults)
	}
	return s
}
