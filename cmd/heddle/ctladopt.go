package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"heddle/api"
	"heddle/ib"
	"heddle/internal/plural"
)

// ctlAdopt is the command about what a manager keeps although its store does not know it.
func ctlAdopt() *cobra.Command {
	var o ctlOptions
	var yes, drop bool
	var ports []string
	c := &cobra.Command{
		Use:   "adopt",
		Short: "List, adopt or drop P_Keys and addresses that another manager may have assigned",
		Long: `A manager that takes over with a store of its own keeps P_Keys and addresses of
virtual functions that its store does not know, if another manager may have assigned
them (docs/ha.md). Without --yes this command lists them. With --yes it stores them:
an interface for each address, a membership for each other P_Key. With --drop --yes
it revokes them.`,
		Example: `  heddle ctl adopt
  heddle ctl adopt --yes --port host-7
  heddle ctl adopt --drop --yes`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			body := map[string][]string{"ports": ports}
			switch {
			case !yes:
				return o.ask(cmd, http.MethodGet, "/v1/kept", nil, func(w io.Writer, b []byte) error { return printKept(w, b, ports, drop) })
			case drop:
				return o.ask(cmd, http.MethodPost, "/v1/kept/drop", body, func(w io.Writer, _ []byte) error {
					_, err := fmt.Fprintln(w, "the entries are being revoked; 'heddle ctl partitions' shows when all ports have acknowledged that")
					return err
				})
			}
			return o.ask(cmd, http.MethodPost, "/v1/kept/adopt", body, printAdopted)
		},
	}
	o.register(c)
	c.Flags().BoolVar(&yes, "yes", false, "adopt or drop; without it nothing is changed")
	c.Flags().BoolVar(&drop, "drop", false, "revoke the entries instead of storing them")
	c.Flags().StringArrayVar(&ports, "port", nil, "only at this `PORT`, by port GUID, node GUID or node description; may be repeated")
	return c
}

// printKept prints a list, of the ports that are named.
func printKept(w io.Writer, body []byte, ports []string, drop bool) error {
	var list []api.Kept
	if err := json.Unmarshal(body, &list); err != nil {
		return err
	}
	named := func(k *api.Kept) bool {
		return len(ports) == 0 || slices.ContainsFunc(ports, func(p string) bool {
			return p == k.Description || sameGUID(p, k.PortGUID) || sameGUID(p, k.NodeGUID)
		})
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	n := 0
	for i := range list {
		k := &list[i]
		if !named(k) {
			continue
		}
		if n++; n == 1 {
			fmt.Fprintln(t, "PORT\tFUNCTION\tNODE\tGUID\tENTRY\tSINCE")
		}
		function := "-"
		if k.Function > 0 {
			function = fmt.Sprint(k.Function)
		}
		entry := "P_Key " + k.PKey + " " + k.Membership
		if k.PKey == "" {
			entry = fmt.Sprintf("address, LID %d", k.LID)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", k.PortGUID, function, plain(k.Description), k.GUID, entry, k.Since.Format(time.RFC3339))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	what := "--yes stores them, --drop --yes revokes them"
	if drop {
		what = "--drop --yes revokes them"
	}
	var err error
	switch {
	case len(list) == 0:
		_, err = fmt.Fprintln(w, nothingKept)
	case n == 0:
		_, err = fmt.Fprintf(w, "nothing is kept at these ports, %s at others: 'heddle ctl adopt' lists them\n", plural.Of(len(list), "entry"))
	default:
		_, err = fmt.Fprintf(w, "%d kept; %s\n", n, what)
	}
	return err
}

const nothingKept = "nothing is kept: the store knows all P_Keys and addresses"

// sameGUID reports whether both texts are GUIDs, and the same one.
func sameGUID(a, b string) bool {
	x, err := ib.ParseGUID(a)
	y, err2 := ib.ParseGUID(b)
	return err == nil && err2 == nil && x == y
}

func printAdopted(w io.Writer, body []byte) error {
	var list []api.Adopted
	if err := json.Unmarshal(body, &list); err != nil {
		return err
	}
	failed := false
	for _, x := range list {
		if x.Error == "" {
			fmt.Fprintln(w, x.What)
			continue
		}
		failed = true
		fmt.Fprintf(w, "%s: %s\n", x.What, plain(x.Error))
	}
	if failed {
		return errors.New("adopt: not everything was adopted")
	}
	if len(list) == 0 {
		fmt.Fprintln(w, nothingKept)
	}
	return nil
}
