package main

import (
	"errors"
	"io"
	"strings"
	"testing"
)

// TestUnknownSubcommand: every command with subcommands refuses the name of none of them.
func TestUnknownSubcommand(t *testing.T) {
	n := 0
	for _, c := range allCommands(newRoot()) {
		if !c.HasSubCommands() || c.Name() == "help" {
			continue
		}
		n++
		root := newRoot()
		root.SetArgs(append(strings.Fields(c.CommandPath())[1:], "bogus"))
		root.SetOut(io.Discard)
		root.SetErr(io.Discard)
		err := root.Execute()
		if usage := (*usageError)(nil); !errors.As(err, &usage) || !strings.Contains(err.Error(), `unknown command "bogus"`) {
			t.Errorf("%s bogus: %v", c.CommandPath(), err)
		}
	}
	if n < 8 {
		t.Errorf("%d commands have subcommands", n)
	}
}
