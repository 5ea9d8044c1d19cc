package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"

	"heddle/api"
	"heddle/internal/plural"
)

// ctlTopology prints what ibnetdiscover would.
func ctlTopology() *cobra.Command {
	c := ctlCommand("topology", "Print the subnet in the format of ibnetdiscover", http.MethodGet, "/v1/topology/ibnetdiscover", func(w io.Writer, body []byte) error {
		_, err := w.Write(body)
		return err
	})
	c.Long = `Prints the published subnet in the format of ibnetdiscover, without a request to
any device. Scripts for that tool's output can read it.`
	c.Flags().MarkHidden("json")
	return c
}

// ctlRails checks the rail rule.
func ctlRails() *cobra.Command {
	c := ctlCommand("rails", "Hosts whose adapters are on other leaves than those of their unit", http.MethodGet, "/v1/rails", printRails)
	c.Long = `Checks the rail rule of fabrics whose hosts have several adapters: the k-th
adapter of all hosts of a unit is on the same leaf. The leaf of most hosts counts as
the intended one. The command lists the others, and reports exchanged cables.`
	return c
}

func printRails(w io.Writer, body []byte) error {
	var r api.Rails
	if err := json.Unmarshal(body, &r); err != nil {
		return err
	}
	if r.Unnamed > 0 {
		fmt.Fprintf(w, "%s without the name of a host\n", plural.Of(r.Unnamed, "adapter"))
	}
	if r.Units == 0 {
		_, err := fmt.Fprintf(w, "%s: most have one adapter, so there are no rails\n", plural.Of(r.Hosts, "host"))
		return err
	}
	fmt.Fprintf(w, "%s with %s in %s: %s\n", plural.Of(r.Hosts, "host"), plural.Of(r.Rails, "rail"), plural.Of(r.Units, "unit"), faults(len(r.Misplaced)))
	for _, m := range r.Misplaced {
		fmt.Fprintf(w, "%s\n", plain(m.Host))
		if m.Missing > 0 {
			fmt.Fprintf(w, "    has %s less than its unit\n", plural.Of(m.Missing, "adapter"))
		}
		if m.Swapped {
			fmt.Fprintf(w, "    two cables are exchanged\n")
		}
		for _, x := range m.Wrong {
			fmt.Fprintf(w, "    rail %d, %s port %d: on %s", x.Rail, plain(x.Adapter), x.Port, plain(x.On))
			if x.Should != "" {
				fmt.Fprintf(w, ", the others are on %s", plain(x.Should))
			}
			fmt.Fprintln(w)
		}
	}
	return nil
}

func faults(n int) string {
	if n == 0 {
		return "all as their units"
	}
	return plural.Of(n, "host") + " otherwise"
}
