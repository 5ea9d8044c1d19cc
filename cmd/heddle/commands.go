package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"heddle/fabric"
	"heddle/sim/live"
)

func subcommands() []*cobra.Command {
	return []*cobra.Command{
		newUp(), newSM(), newPlan(), newCtl(), newSim(), newAttach(), newTopo(), newRoute(), newVersion(),
	}
}

func cancellable(cmd *cobra.Command) (context.Context, context.CancelFunc) {
	return context.WithCancel(cmd.Context())
}

// readNetlist reads a fabric and the console lines in it.
func readNetlist(r io.Reader, o fabric.NetlistOptions) (*fabric.Fabric, []string, error) {
	f, err := fabric.ReadNetlist(r, o)
	if err != nil {
		return nil, nil, usagef("netlist: %w", err)
	}
	return f, f.Console, nil
}

// portName is the description of the node that a simulated port belongs to.
func portName(p *live.Port, f *fabric.Fabric) string {
	ni := p.NodeInfo()
	for i := range f.Nodes {
		if f.Nodes[i].GUID == ni.NodeGUID {
			return f.Nodes[i].ID
		}
	}
	return ni.NodeGUID.String()
}
