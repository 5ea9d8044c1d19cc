package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"heddle/internal/version"
)

func newVersion() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				return printJSON(cmd.OutOrStdout(), map[string]string{
					"version": version.Version, "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH,
				})
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "heddle %s (%s %s/%s)\n", version.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// noArgs refuses arguments with the command's name in the message.
func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("want no argument, got %q", args[0])
	}
	return nil
}
