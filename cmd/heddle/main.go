// Command heddle is an InfiniBand subnet manager with a simulated subnet and
// tools.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"heddle/sim/umadfs"
)

func main() {
	umadfs.Stage() // never returns in the second stage of an attach
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// exitError carries an exit status other than 1, and possibly a message.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// run is main with explicit arguments and streams; it returns the exit status.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	var exit *exitError
	if errors.As(err, &exit) {
		if exit.err != nil {
			fmt.Fprintf(stderr, "heddle: %v\n", exit.err)
		}
		return exit.code
	}
	var usage *usageError
	fmt.Fprintf(stderr, "heddle: %v\n", err)
	if errors.As(err, &usage) {
		fmt.Fprintf(stderr, "See '%s --help'.\n", cmd.CommandPath())
		return 2
	}
	return 1
}

// usageError is a wrong command line or configuration.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, a ...any) error { return &usageError{fmt.Errorf(format, a...)} }

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "heddle",
		Short: "An InfiniBand subnet manager, with a simulated subnet",
		Long: `Heddle manages an InfiniBand subnet: it discovers switches and hosts, assigns
LIDs, computes routes and proves them free of deadlock before it installs them,
repairs them when links and switches fail or return, and answers path queries.
It includes a simulated subnet that speaks real MADs.

Try it without hardware:          heddle up
Manage a real subnet:             heddle sm --port umad:mlx5_0/1
Preview a subnet's changes:       heddle plan --port umad:mlx5_0/1`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          subcommandOnly,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return applyConfig(cmd, os.Environ())
		},
	}
	root.PersistentFlags().String("config", "", "YAML `FILE` with settings by command (see 'heddle help config')")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return flagError(cmd, err)
	})
	root.AddGroup(
		&cobra.Group{ID: "manage", Title: "Managing a subnet:"},
		&cobra.Group{ID: "sim", Title: "Simulating one:"},
		&cobra.Group{ID: "offline", Title: "Studying one offline:"},
	)
	for _, c := range subcommands() {
		root.AddCommand(c)
	}
	root.AddCommand(configHelp(), newMan())
	for _, c := range allCommands(root) {
		completeFlags(c)
		refuseNegative(c)
		nameArgErrors(c)
	}
	root.SetHelpCommand(newHelp())
	cobra.AddTemplateFunc("flagUsages", flagUsages)
	template := strings.ReplaceAll(root.UsageTemplate(), ".LocalFlags.FlagUsages ", "flagUsages . ")
	root.SetUsageTemplate(strings.ReplaceAll(template, ".FlagUsages ", ".FlagUsagesWrapped 100 "))
	return root
}

// newHelp is `heddle help COMMAND`, which refuses an unknown command.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND...]",
		Short: "Explain a command",
		Long:  "Shows what 'heddle COMMAND --help' shows.",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			c, _, err := cmd.Root().Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return childNames(c), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c := cmd.Root()
			for _, a := range args {
				sub := child(c, a)
				if sub == nil {
					return usagef("no help for %q%s", a, commandMeant(c, a))
				}
				c = sub
			}
			c.InitDefaultHelpFlag()
			return c.Help()
		},
	}
}

// childNames are the names of the commands of c.
func childNames(c *cobra.Command) []string {
	var names []string
	for _, s := range c.Commands() {
		if !s.Hidden {
			names = append(names, s.Name())
		}
	}
	return names
}
