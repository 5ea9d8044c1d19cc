package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"heddle/flood"
)

// portKinds begin the names of ports.
var portKinds = []string{"umad:", "ibsim:"}

// flagValues are the arguments of flags, for shell completion. The table of
// settings has those of settings.
var flagValues = map[string][]string{
	"fault": {"link", "switch"},
	"mif":   portKinds,
	"port":  portKinds,
	"query": flood.Queries(),
	"sif":   portKinds,
}

// flagDirs are the flags that take a directory.
var flagDirs = []string{"state", "dump", "out"}

// completeFlags registers the arguments of c's flags with the shell. Other
// flags take files, which shells complete by default.
func completeFlags(c *cobra.Command) {
	for name, values := range flagValues {
		directive := cobra.ShellCompDirectiveNoFileComp
		if &values[0] == &portKinds[0] {
			directive |= cobra.ShellCompDirectiveNoSpace
		}
		if c.Flags().Lookup(name) != nil {
			c.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, directive))
		}
	}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if s := asSetting(f); s != nil && s.Words() != nil {
			c.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(s.Words(), cobra.ShellCompDirectiveNoFileComp))
		}
	})
	for _, name := range flagDirs {
		if c.Flags().Lookup(name) != nil {
			c.MarkFlagDirname(name)
		}
	}
}
