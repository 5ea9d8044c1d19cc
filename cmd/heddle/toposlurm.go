package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"heddle/fabric/slurm"
)

func newTopoSlurm() *cobra.Command {
	var (
		n     netlistFlags
		o     ctlOptions
		rails string
		names string
		yaml  bool
		block int
	)
	c := &cobra.Command{
		Use:   "slurm [FILE]",
		Short: "Write topology.conf or topology.yaml for Slurm",
		Long: `Writes the fabric for Slurm: of a netlist (- is standard input), or without FILE
that of the local manager ('heddle ctl --help' describes how it is found).

The name of a host is the first word of its adapters' NodeDescription. The name of a
switch is that in the node-name-map of --node-names, or of the manager, otherwise its
GUID. Comments in the file list omitted hosts and switches, with the reasons.`,
		Example: `  heddle topo slurm > /etc/slurm/topology.conf
  heddle topo slurm --yaml tree.net
  heddle topo slurm --block 18`,
		Args: mostArgs(1, "one netlist at most"),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := slurm.ParseRails(rails)
			if err != nil {
				return usagef("--rails: %w", err)
			}
			if cmd.Flags().Changed("block") && block < 1 {
				return usagef("--block %d; give the least number of hosts of a block", block)
			}
			if cmd.Flags().Changed("netlist") {
				return usagef("give the netlist as FILE, without --netlist")
			}
			if len(args) == 0 {
				if names != "" {
					return usagef("--node-names requires FILE: the manager names switches by its own --node-names")
				}
				q := url.Values{"rails": {rails}}
				if block > 0 {
					q.Set("block", strconv.Itoa(block))
				}
				if yaml {
					q.Set("format", "yaml")
				}
				text, err := o.call(cmd.Context(), http.MethodGet, "/v1/topology/slurm?"+q.Encode(), nil)
				if err != nil {
					return err
				}
				_, err = cmd.OutOrStdout().Write(text)
				return err
			}
			n.netlist = args[0]
			f, _, err := n.read(cmd.InOrStdin())
			if err != nil {
				return err
			}
			named, err := readInput("--node-names", names, nodeNames)
			if err != nil {
				return err
			}
			t, err := slurm.New(f, slurm.Options{Rails: r, Names: named})
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			return t.Write(cmd.OutOrStdout(), block, yaml)
		},
	}
	c.Flags().StringVar(&rails, "rails", "merge", "leaf of hosts with several adapters: merge (leaves with a common host are one), first, or the `NUMBER` of a rail")
	c.Flags().StringVar(&names, "node-names", "", "with FILE, OpenSM's node-name-map with names of switches and hosts: `MAP`")
	c.Flags().BoolVar(&yaml, "yaml", false, "topology.yaml (Slurm 25.05) in the place of topology.conf")
	c.Flags().IntVar(&block, "block", 0, "blocks for topology/block in the place of a tree: leaves with at least `N` hosts")
	o.register(c)
	c.Flags().MarkHidden("json")
	n.register(c.Flags())
	c.Flags().MarkHidden("netlist")
	return c
}
