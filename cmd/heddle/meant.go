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
	where := ""
	if cmd.HasParent() {
		where = cmd.Name() + ": "
	}
	return usagef("%sunknown command %q%s", where, args[0], commandMeant(cmd, args[0]))
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
