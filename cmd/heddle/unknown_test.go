package main

import (
	"errors"
	"io"
	"slices"
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

// TestMeant: an unknown command names the one that is called so elsewhere, and an unknown flag no
// hidden one.
func TestMeant(t *testing.T) {
	for _, x := range []struct{ args, want string }{
		{"ctl handover", `ctl: unknown command "handover"; did you mean 'heddle ctl ha handover'?`},
		{"ctl isolate", `ctl: unknown command "isolate"; did you mean 'heddle ctl port isolate'?`},
		{"ctl create", `ctl: unknown command "create"; commands of this name are 'heddle ctl partitions create', 'heddle ctl token create', 'heddle ctl vm create'`},
		{"ctl plan", `ctl: unknown command "plan"; did you mean 'heddle plan'?`},
		{"ctl vm drain", `ctl vm: unknown command "drain"; did you mean 'heddle ctl port drain'?`},
		{"sweep", `unknown command "sweep"; did you mean 'heddle ctl sweep'?`},
		{"ctl swep", `ctl: unknown command "swep"; did you mean "sweep"?`},
		{"help ctl handover", `no help for "handover"; did you mean 'heddle ctl ha handover'?`},
		{"topo slurm --from x", `unknown flag --from; the nearest is "--api"`},
		{"topo slurm --jsn", `unknown flag --jsn; the nearest is "--api"`},
	} {
		root := newRoot()
		root.SetArgs(strings.Fields(x.args))
		root.SetOut(io.Discard)
		root.SetErr(io.Discard)
		if err := root.Execute(); err == nil || err.Error() != x.want {
			t.Errorf("%s: got\n%v\nwant\n%s", x.args, err, x.want)
		}
	}
}

// TestArgErrors: an error about arguments begins with the command's name, whoever finds it, and is one
// of usage.
func TestArgErrors(t *testing.T) {
	n := 0
	for _, c := range allCommands(newRoot()) {
		name := strings.TrimPrefix(c.CommandPath(), "heddle ")
		if !c.HasParent() || c.Args == nil || c.Name() == "help" {
			continue
		}
		n++
		err := c.Args(c, slices.Repeat([]string{"bogus"}, 40))
		if usage := (*usageError)(nil); err != nil && (!errors.As(err, &usage) || !strings.HasPrefix(err.Error(), name+": ")) {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && strings.Contains(err.Error(), "arg(s)") {
			t.Errorf("%s says nothing of what it wants: %v", name, err)
		}
	}
	if n < 60 {
		t.Errorf("%d commands check their arguments", n)
	}
}
