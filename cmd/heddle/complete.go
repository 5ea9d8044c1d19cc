package main

import (
	"github.com/spf13/cobra"

	"heddle/flood"
)

// portKinds begin the names of ports.
var portKinds = []string{"umad:", "ibsim:"}

// flagValues are the words that flags take, for shell completion.
var flagValues = map[string][]string{
	"engine":       append([]string{"auto"}, engineNames()...),
	"fault":        {"link", "switch"},
	"log-format":   {"text", "json"},
	"log-level":    {"debug", "info", "warn", "error"},
	"max-mtu":      {"256", "512", "1024", "2048", "4096"},
	"max-vls":      {"1", "2", "4", "8", "15"},
	"mif":          portKinds,
	"part-enforce": {"both", "in", "out", "off"},
	"port":         portKinds,
	"query":        flood.Queries(),
	"sif":          portKinds,
	"transition":   {"availability", "strict", "discard", "static", "static2003"},
}

// flagDirs are the flags that take a directory.
var flagDirs = []string{"state", "dump", "out"}

// completeFlags tells the shell what the flags of c take. Other flags take
// files, which is what shells complete by themselves.
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
	for _, name := range flagDirs {
		if c.Flags().Lookup(name) != nil {
			c.MarkFlagDirname(name)
		}
	}
}
