package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// ctlHealth is for programs that look after the manager, such as the probes of a container.
func ctlHealth() *cobra.Command {
	var o ctlOptions
	var ready bool
	c := &cobra.Command{
		Use:   "health",
		Short: "Exit with 0 if the loops of the manager run, otherwise with 1",
		Long: `Queries /healthz of the manager's API: all its loops run, so it needs no restart.
With --ready it queries /readyz: the manager is also ready, as it is when the
subnet is up.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path := "/healthz"
			if ready {
				path = "/readyz"
			}
			return o.stream(cmd.Context(), path, func(r io.Reader) error {
				_, err := io.Copy(cmd.OutOrStdout(), r)
				if err != nil {
					return fmt.Errorf("the manager's answer: %w", err)
				}
				return nil
			})
		},
	}
	c.Flags().BoolVar(&ready, "ready", false, "ask whether it does its work")
	o.registerPlace(c)
	return c
}
