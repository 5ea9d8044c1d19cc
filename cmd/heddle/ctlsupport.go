package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"
)

func ctlSupport() *cobra.Command {
	var o ctlOptions
	var file, since string
	var seconds int
	c := &cobra.Command{
		Use:   "support",
		Short: "Write a support bundle: state, settings, topology, events, log, profiles",
		Long: `Writes data for the diagnosis of a fault to one file (tar.gz): status, settings
without keys, topology, the last 32 sweeps and repairs, events, audit log, findings,
interfaces of VMs, links out of use, cables that differ from their plan, states of
webhooks, metrics, goroutines, heap profile, the last lines of the log, and execution
traces of the next seconds and, with --flight-recorder, the last ones.

The file has no M_Key, SM_Key, SA key, token or password. It has names of nodes,
partitions, VMs and users: the command needs an administrator, and only the owner can
read the file.`,
		Example: "  heddle ctl support --since 2h -o bundle.tar.gz",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, err := o.locate()
			if err != nil {
				return err
			}
			if _, err := sinceTime(since, time.Now()); err != nil {
				return err
			}
			path := "/v1/support?" + url.Values{"since": {since}, "seconds": {fmt.Sprint(seconds)}}.Encode()
			resp, err := m.request(cmd.Context(), http.MethodGet, path, nil, 0)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if file == "" {
				file = "heddle-support-" + time.Now().UTC().Format("20060102-150405") + ".tar.gz"
			}
			out, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
			if err != nil {
				return err
			}
			n, err := io.Copy(out, resp.Body)
			if err = errors.Join(err, out.Close()); err != nil {
				os.Remove(file)
				return fmt.Errorf("the bundle is not whole: %w", err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %.1f MB\n", file, float64(n)/1e6)
			return err
		},
	}
	o.registerPlace(c)
	c.Flags().StringVar(&since, "since", "24h", "`WHEN` of the first event and entry of the audit log, at most 10,000 of each: how long ago (2h), or a time (2026-11-01T00:00:00Z)")
	c.Flags().IntVar(&seconds, "seconds", 5, "`SECONDS` of the execution trace from now on, 0 to 30")
	c.Flags().StringVarP(&file, "out", "o", "", "`FILE`, which must not exist (default: named by the time)")
	return c
}
