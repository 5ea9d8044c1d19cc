package main

import (
	"bufio"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"heddle/fabric"
)

func newTopo() *cobra.Command {
	c := &cobra.Command{
		Use:     "topo",
		GroupID: "offline",
		Short:   "Make or describe a fabric's netlist",
		Long: `Generates the netlists of fabrics, and describes netlists. A netlist is the text
that ibnetdiscover prints and ibsim reads: 'heddle sim', 'heddle route' and
'heddle up' take one with --netlist.`,
		Example: `  heddle topo gen fattree 648 > tree.net
  heddle topo info tree.net`,
		Args: subcommandOnly,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(newTopoGen(), newTopoInfo(), newTopoSlurm())
	return c
}

func newTopoGen() *cobra.Command {
	var seed uint64
	var kinds strings.Builder
	t := tabwriter.NewWriter(&kinds, 0, 0, 2, ' ', 0)
	var names []string
	for _, k := range fabric.Kinds() {
		names = append(names, k.Name)
		fmt.Fprintf(t, "  %s %s\t%s\n", k.Name, k.Params, k.Help)
	}
	t.Flush()
	c := &cobra.Command{
		Use:   "gen KIND PARAM...",
		Short: "Write a generated fabric's netlist to standard output",
		Long: `Writes a netlist in the format of ibnetdiscover and ibsim. The same
arguments give the same netlist.

Kinds:
` + kinds.String() + `
Every kind takes speed=EDR, width=4x and total=HOSTS (further hosts are omitted).`,
		Example: `  heddle topo gen fattree 648 > tree.net
  heddle topo gen torus 8x8 hosts=2 speed=HDR
  heddle topo gen irregular 32 --seed 7`,
		ValidArgs: names,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("missing kind of fabric; give one of %s", strings.Join(names, ", "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := generate(args[0], args[1:], seed)
			if err != nil {
				return err
			}
			w := bufio.NewWriter(cmd.OutOrStdout())
			if err := fabric.WriteNetlist(w, f); err != nil {
				return err
			}
			return w.Flush()
		},
	}
	c.Flags().Uint64Var(&seed, "seed", 1, "`SEED` of the random kinds")
	return c
}
