package main

import (
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"heddle/api"
)

func ctlSweeps() *cobra.Command {
	c := ctlCommand("sweeps", "The last sweeps: cause, time, and what they read and wrote", http.MethodGet, "/v1/sweeps", printSweeps)
	c.Long = `Lists the last sweeps that read the fabric or a region of it, the newest first, at
most 32 since the manager started. Light sweeps that found nothing are left out.
--json has the complete reports, with the seconds of each phase, the transition, and
the rejected engines.`
	return c
}

// printSweeps is a table of sweeps.
func printSweeps(w io.Writer, body []byte) error {
	return printList(w, body, "no sweep since the manager started", "TIME\tSECONDS\tSMPS\tLFT\tMFT\tPORTS SET\tENGINE\tPROBLEMS\tREAD\tCAUSE", func(t io.Writer, s *api.Sweep) {
		read := "all"
		switch {
		case s.BrokenOff:
			read = "broken off"
		case s.Region:
			read = "region"
		}
		fmt.Fprintf(t, "%s\t%.4f\t%d\t%d\t%d\t%d\t%s\t%d\t%s\t%s\n", s.Time.Local().Format(time.DateTime), s.Seconds, s.SMPs,
			s.BlocksSent, s.GroupBlocks, s.PortSets, s.Engine, s.Problems, read, plain(s.Reason))
	})
}
