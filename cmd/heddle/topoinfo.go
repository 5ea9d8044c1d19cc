package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newTopoInfo() *cobra.Command {
	var n netlistFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "info FILE",
		Short: "Count and describe the fabric of a netlist",
		Long: `Reads a netlist (- is standard input) and describes the fabric: nodes, links,
speeds, distances, degrees, levels.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("missing netlist; give one file, or - for standard input")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			n.netlist = args[0]
			f, _, err := n.read(cmd.InOrStdin())
			if err != nil {
				return err
			}
			info := f.Info()
			if asJSON {
				return printJSON(cmd.OutOrStdout(), info)
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), info.String())
			return err
		},
	}
	n.register(c.Flags())
	c.Flags().MarkHidden("netlist")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}
