package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"heddle/api"
	"heddle/api/show"
	"heddle/fabric"
	"heddle/fabric/cabling"
	"heddle/internal/plural"
)

// exitDiffers is the exit status of a check that found differences.
const exitDiffers = 3

// ctlCabling compares the cables with a plan.
func ctlCabling() *cobra.Command {
	c := &cobra.Command{
		Use:   "cabling",
		Short: "Compare the cables with a plan",
		Args:  subcommandOnly,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(ctlCablingCheck(), ctlCommand("show", "Show the differences of the cables from the plan of the manager's --cabling", http.MethodGet, "/v1/cabling", printCablingState))
	return c
}

func ctlCablingCheck() *cobra.Command {
	var (
		o               ctlOptions
		topology, names string
		partial         bool
	)
	c := &cobra.Command{
		Use:   "check PLAN",
		Short: "List the cables that are missing, not planned, swapped, moved, or slower than planned",
		Long: `Compares the subnet with a plan of its cables (- is standard input): a netlist
as 'heddle topo' makes and ibsim reads, the text of ibnetdiscover, or CSV:

  switch,port,node,port,width,speed
  leaf-1,19,spine-1,3,4x,HDR
  0x0002c90300000010,1,host-1,1

Width and speed may be left out; then a link counts as slow if both its ends
support more. A node is matched by its GUID, otherwise by its name: its description,
its name in the manager's --node-names, or for hosts the first word of these.

The exit status is 0 if all cables are as planned, 3 if some are not, 2 for a plan
that cannot be read, and 1 for other errors.`,
		Example: `  heddle ctl cabling check plan.csv
  heddle ctl cabling check switches.csv --partial --json
  heddle ctl cabling check plan.net --topology found.net`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("want one plan")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if names != "" && topology == "" {
				return usagef("--node-names requires --topology: the manager has names of its own --node-names")
			}
			name, text, err := readPlan(cmd.InOrStdin(), args[0])
			if err != nil {
				return err
			}
			p, err := cabling.Read(text(), name)
			if err != nil {
				return inputError(name, err)
			}
			found, err := compareCabling(cmd, &o, name, text, p, topology, names, partial)
			if err != nil {
				return err
			}
			if o.asJSON {
				err = printJSON(cmd.OutOrStdout(), found)
			} else {
				err = printCabling(cmd.OutOrStdout(), &found)
			}
			if err == nil && len(found.Findings) > 0 {
				return &exitError{code: exitDiffers}
			}
			return err
		},
	}
	c.Flags().StringVar(&topology, "topology", "", "compare with the netlist `FILE` (of ibnetdiscover, or of 'heddle ctl topology') in the place of the manager's subnet")
	c.Flags().StringVar(&names, "node-names", "", "with --topology, OpenSM's node-name-map with names of nodes: `MAP`")
	c.Flags().BoolVar(&partial, "partial", false, "the plan does not have all nodes: cables of nodes that it does not name are no findings")
	o.register(c)
	return c
}

// compareCabling has the manager compare its subnet with a plan, or compares the netlist topology.
func compareCabling(cmd *cobra.Command, o *ctlOptions, name string, text func() io.Reader, p *cabling.Plan, topology, names string, partial bool) (found api.Cabling, err error) {
	if topology != "" {
		n := netlistFlags{netlist: topology}
		f, _, err := n.read(cmd.InOrStdin())
		if err != nil {
			return found, err
		}
		return offlineCabling(p, f, names, partial)
	}
	b, err := io.ReadAll(text())
	if err != nil {
		return found, err
	}
	answer, err := o.call(cmd.Context(), http.MethodPost, "/v1/cabling/check",
		map[string]any{"name": name, "plan": string(b), "partial": partial})
	if err == nil {
		err = json.Unmarshal(answer, &found)
	}
	return found, err
}

// readPlan reads a plan into memory. text gives a reader of it, as often as one is wanted.
func readPlan(stdin io.Reader, file string) (name string, text func() io.Reader, err error) {
	in, name := stdin, file
	if file == "-" {
		name = "standard input"
	} else {
		f, err := os.Open(file)
		if err != nil {
			return "", nil, inputError("plan", err)
		}
		defer f.Close()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, api.MaxPlan+1))
	if err != nil {
		return "", nil, inputError(name, err)
	}
	if len(b) > api.MaxPlan {
		return "", nil, inputError(name, fmt.Errorf("larger than the limit of %d bytes", api.MaxPlan))
	}
	return name, func() io.Reader { return bytes.NewReader(b) }, nil
}

// offlineCabling compares a plan with a netlist.
func offlineCabling(p *cabling.Plan, f *fabric.Fabric, names string, partial bool) (api.Cabling, error) {
	named, err := readInput("--node-names", names, nodeNames)
	if err != nil {
		return api.Cabling{}, err
	}
	return show.Cabling(cabling.Check(p, f, cabling.Options{Names: named, Partial: partial})), nil
}

func printCabling(w io.Writer, c *api.Cabling) error {
	for i := range c.Findings {
		x := &c.Findings[i]
		fmt.Fprintf(w, "%s: %s\n    %s\n", x.Kind, plain(x.Text), plain(x.Do))
	}
	return printCablingCounts(w, c.Planned, c.Found, c.Right, c.Off, len(c.Findings))
}

func printCablingCounts(w io.Writer, planned, found, right, off, differ int) error {
	disabled := ""
	if off > 0 {
		disabled = fmt.Sprintf("%d at disabled ports, ", off)
	}
	_, err := fmt.Fprintf(w, "%s planned, %s found, %d as planned, %s%s\n", plural.Of(planned, "cable"), plural.Of(found, "cable"), right, disabled,
		plural.Of(differ, "finding"))
	return err
}

func printCablingState(w io.Writer, body []byte) error {
	var c api.CablingState
	if err := json.Unmarshal(body, &c); err != nil {
		return err
	}
	switch {
	case c.Note != "":
		_, err := fmt.Fprintf(w, "plan %s: %s\n", plain(c.Plan), c.Note)
		return err
	case c.Compared == nil:
		_, err := fmt.Fprintln(w, "there is no plan: give one with --cabling, or compare once with 'heddle ctl cabling check PLAN'")
		return err
	}
	fmt.Fprintf(w, "plan %s, compared %s\n", plain(c.Plan), c.Compared.Format(time.RFC3339))
	for i := range c.Open {
		x := &c.Open[i]
		fmt.Fprintf(w, "%d %s: %s, since %s\n    %s\n", x.ID, x.Kind, plain(x.Text), x.Opened.Format(time.RFC3339), plain(x.Do))
	}
	return printCablingCounts(w, c.Planned, c.Found, c.Right, c.Off, len(c.Open)+c.Missed)
}
