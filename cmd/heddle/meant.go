package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// subcommandOnly refuses arguments that are not a subcommand, and names the command that is
// meant.
func subcommandOnly(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usagef("unknown command %q%s", args[0], commandMeant(cmd, args[0]))
}

// mostArgs refuses more arguments.
func mostArgs(n int, what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > n {
			return usagef("want %s, got %q", what, args[n:])
		}
		return nil
	}
}

// nameArgErrors has the errors about a command's arguments begin with its name, and end with exit
// status 2 whoever finds them.
func nameArgErrors(c *cobra.Command) {
	check := c.Args
	if check == nil || !c.HasParent() {
		return
	}
	c.Args = func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usagef("%s: %w", strings.TrimPrefix(cmd.CommandPath(), "heddle "), err)
		}
		return nil
	}
}

// mostMeant is how many commands with the name are listed.
const mostMeant = 4

// commandMeant names the commands that an unknown subcommand of c may stand for: those called so
// elsewhere, first of all below c, and otherwise the nearest name among the subcommands.
func commandMeant(c *cobra.Command, name string) string {
	for _, top := range []*cobra.Command{c, c.Root()} {
		var same []string
		for _, x := range allCommands(top) {
			if x.Name() == name && x != c && listed(x) {
				same = append(same, "'"+x.CommandPath()+"'")
			}
		}
		switch {
		case len(same) == 1:
			return "; did you mean " + same[0] + "?"
		case len(same) > 1:
			slices.Sort(same)
			text := "; commands of this name are " + strings.Join(same[:min(len(same), mostMeant)], ", ")
			if more := len(same) - mostMeant; more > 0 {
				text += fmt.Sprintf(" and %d more", more)
			}
			return text
		}
	}
	return didYouMean(name, childNames(c))
}

// listed reports whether help lists a command and all above it.
func listed(c *cobra.Command) bool {
	for ; c != nil; c = c.Parent() {
		if c.Hidden {
			return false
		}
	}
	return true
}
