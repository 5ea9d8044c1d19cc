package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"heddle/api"
)

func ctlReload() *cobra.Command {
	var dry bool
	c := ctlCommandTo("reload", "Make the manager read its settings and files again", http.MethodPost, func() string {
		return "/v1/reload?dry_run=" + strconv.FormatBool(dry)
	}, printReloaded)
	c.Flags().BoolVar(&dry, "dry-run", false, "read and check them, and only show the changes")
	c.Long = `Makes the manager read the environment, its configuration file and the files that
settings name again, like SIGHUP. It lists the settings that differ from the current
ones: those that apply now ("live" in 'heddle sm --help' and docs/cli.md), and those
that need a restart. If the file of partitions differs from the partitions in force,
it shows what that changes, as 'heddle ctl partitions apply' does. If a file has an
error, the command prints it, and nothing changes.`
	return c
}

func printReloaded(w io.Writer, body []byte) error {
	var r api.Reloaded
	if err := json.Unmarshal(body, &r); err != nil {
		return err
	}
	if len(r.Changes) == 0 {
		fmt.Fprintln(w, "no setting differs")
	}
	for _, c := range r.Changes {
		how := "now"
		if c.Applies != "now" {
			how = "NEEDS A RESTART"
		}
		from, to := c.From, c.To
		if from == "" && to == "" {
			from, to = "(not shown)", "(not shown)"
		}
		fmt.Fprintf(w, "%s: %s -> %s: %s\n", c.Setting, plain(visible(from)), plain(visible(to)), how)
	}
	if r.Reroute {
		fmt.Fprintln(w, "settings of routing differ: all tables are computed anew")
	}
	if r.Partitions != nil {
		fmt.Fprintln(w, "the partitions differ:")
		for _, s := range r.Partitions.Notes {
			fmt.Fprintf(w, "note: %s\n", plain(s))
		}
		if err := printPartitionChange(w, r.Partitions); err != nil {
			return err
		}
	}
	if len(r.Files) > 0 {
		fmt.Fprintln(w, "read again:", plain(strings.Join(r.Files, ", ")))
	}
	if r.Later {
		fmt.Fprintln(w, "no manager runs in this process: this applies when it becomes active")
	}
	if !r.Applied {
		fmt.Fprintln(w, "nothing was changed: this was a dry run")
	}
	return nil
}

// visible shows an empty value.
func visible(text string) string {
	if text == "" {
		return `""`
	}
	return text
}

func ctlLogLevel() *cobra.Command {
	var o ctlOptions
	c := &cobra.Command{
		Use:   "loglevel [debug|info|warn|error]",
		Short: "Show or change the level of log messages",
		Long: `Shows the least level of messages in the manager's log, or changes it, until a
restart, or until a reload finds another log-level in the settings.`,
		Example: "  heddle ctl loglevel debug",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("want one level at most")
			}
			if levels := []string{"debug", "info", "warn", "error"}; len(args) == 1 && !slices.Contains(levels, strings.ToLower(args[0])) {
				return usagef("%q: want debug, info, warn or error%s", args[0], didYouMean(strings.ToLower(args[0]), levels))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			show := func(w io.Writer, body []byte) error {
				var l api.LogLevel
				if err := json.Unmarshal(body, &l); err != nil {
					return err
				}
				_, err := fmt.Fprintln(w, plain(l.Level))
				return err
			}
			if len(args) == 0 {
				return o.ask(cmd, http.MethodGet, "/v1/loglevel", nil, show)
			}
			return o.ask(cmd, http.MethodPut, "/v1/loglevel", api.LogLevel{Level: strings.ToLower(args[0])}, show)
		},
	}
	o.register(c)
	return c
}
