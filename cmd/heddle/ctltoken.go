package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"heddle/access"
	"heddle/api"
)

func ctlToken() *cobra.Command {
	c := &cobra.Command{
		Use:   "token",
		Short: "Named tokens of the API: create, list, revoke",
		Long: `Named tokens let programs and people use the API with a role: viewer (reads),
operator (sweeps, routes, virtual machines), tenant (its own virtual machines and
partitions, by a prefix of their names) or admin (everything). The manager keeps
only their SHA-256, with the rest of its state, so the other manager of a pair
and managers with a shared state have them too. docs/access.md lists the rights of
each role. These commands need the role admin.`,
		Args: subcommandOnly,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	list := ctlCommand("list", "The named tokens, without their secrets", http.MethodGet, "/v1/tokens", printTokens)
	c.AddCommand(ctlTokenCreate(), list, ctlTokenRevoke())
	return c
}

func ctlTokenCreate() *cobra.Command {
	var o ctlOptions
	var role, prefix string
	var keys []string
	var valid time.Duration
	c := &cobra.Command{
		Use:   "create NAME --role ROLE",
		Short: "Create a named token and print it",
		Long: `Creates a named token and prints it on standard output, for the header
'Authorization: Bearer TOKEN' or for --token-file. It cannot be printed again.`,
		Example: `  heddle ctl token create prometheus --role viewer > prometheus.token
  heddle ctl token create acme --role tenant --prefix acme- --valid 720h`,
		Args: wantArgs(1, "one name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := access.ParseRole(role); err != nil {
				return usagef("--role %q: want viewer, operator, tenant or admin", role)
			}
			if valid > api.MaxValid {
				return usagef("--valid %v: want %d days at most, or 0: until it is revoked", valid, api.MaxValid/(24*time.Hour))
			}
			body := map[string]any{"name": args[0], "role": role}
			if prefix != "" {
				body["prefix"] = prefix
			}
			if len(keys) > 0 {
				body["pkeys"] = keys
			}
			if valid > 0 {
				body["valid_seconds"] = valid.Seconds()
			}
			return o.ask(cmd, http.MethodPost, "/v1/tokens", body, func(w io.Writer, b []byte) error {
				var t api.CreatedToken
				if err := json.Unmarshal(b, &t); err != nil {
					return err
				}
				_, err := fmt.Fprintln(w, t.Text)
				return err
			})
		},
	}
	c.Flags().StringVar(&role, "role", "", "`ROLE` of the token: viewer, operator, tenant or admin")
	c.Flags().StringVar(&prefix, "prefix", "", "tenant: `PREFIX` of the names of its virtual machines and partitions, such as acme-")
	c.Flags().StringSliceVar(&keys, "pkey", nil, "tenant: `P_KEY` that it may use in addition; may be repeated")
	c.Flags().DurationVar(&valid, "valid", 0, "how long it is valid, such as 720h; 36500 days at most; 0: until it is revoked")
	o.register(c)
	return c
}

func ctlTokenRevoke() *cobra.Command {
	var o ctlOptions
	c := &cobra.Command{
		Use:   "revoke NAME",
		Short: "Revoke a named token",
		Long: `Revokes a named token. This manager refuses it immediately, the other one of a pair
within a second while the two are paired. Its event streams end.`,
		Args: wantArgs(1, "one name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.ask(cmd, http.MethodDelete, "/v1/tokens/"+url.PathEscape(args[0]), nil, func(w io.Writer, _ []byte) error {
				_, err := fmt.Fprintf(w, "token %s is revoked\n", args[0])
				return err
			})
		},
	}
	o.register(c)
	return c
}

func printTokens(w io.Writer, body []byte) error {
	return printList(w, body, "no named tokens: 'heddle ctl token create' makes one", "NAME\tROLE\tSCOPE\tCREATED\tBY\tEXPIRES\tLAST USED", func(t io.Writer, x *api.Token) {
		scope := "-"
		if x.Prefix != "" {
			scope = strings.Join(append([]string{x.Prefix}, x.PKeys...), " ")
		}
		expires := moment(x.Expires)
		if x.Expired {
			expires += " (over)"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", x.Name, x.Role, scope, moment(x.Created), plain(x.By), expires, moment(x.Used))
	})
}

// moment is a time, or - for none.
func moment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format(time.DateTime)
}

func ctlWhoami() *cobra.Command {
	return ctlCommand("whoami", "Show the name and the role of this command's user at the manager", http.MethodGet, "/v1/whoami", func(w io.Writer, b []byte) error {
		var x api.Identity
		if err := json.Unmarshal(b, &x); err != nil {
			return err
		}
		if x.Prefix != "" {
			x.Role += " of " + x.Prefix
		}
		_, err := fmt.Fprintf(w, "%s: %s\n", plain(x.Name), plain(x.Role))
		return err
	})
}

func ctlAudit() *cobra.Command {
	var o ctlOptions
	var since string
	var after uint64
	c := &cobra.Command{
		Use:   "audit",
		Short: "Show the audit log: changes and their authors",
		Long: `Prints the audit log: each request for a change or for keys, with its user, source
address, result and difference, oldest first. Keys are left out. Each manager of a
pair has the requests that it received; --api selects the other one. It needs the
role admin.`,
		Example: `  heddle ctl audit --since 24h
  heddle ctl audit --since 2026-11-01T00:00:00Z --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			from, err := sinceTime(since, time.Now())
			if err != nil {
				return err
			}
			return printAudit(cmd, &o, from, after)
		},
	}
	c.Flags().StringVar(&since, "since", "", "`TIME` of the first entry: how long ago (24h), or a time (2026-11-01T00:00:00Z); default: all that is kept")
	c.Flags().Uint64Var(&after, "after", 0, "only entries with a number above `N`")
	o.register(c)
	return c
}

// sinceTime reads a time, or how long ago it was; empty: the beginning.
func sinceTime(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	t, err := api.ParseTime(s, now)
	if err != nil {
		return t, usagef("--%v", err)
	}
	return t, nil
}

// printAudit reads all pages.
func printAudit(cmd *cobra.Command, o *ctlOptions, since time.Time, after uint64) error {
	all := api.Audit{Entries: []access.Entry{}}
	shown := 0
	for {
		q := url.Values{"after": {fmt.Sprint(after)}, "limit": {"10000"}}
		if !since.IsZero() {
			q.Set("since", since.UTC().Format(time.RFC3339Nano))
		}
		b, err := o.call(cmd.Context(), http.MethodGet, "/v1/audit?"+q.Encode(), nil)
		if err != nil {
			return err
		}
		var page api.Audit
		if err := json.Unmarshal(b, &page); err != nil {
			return err
		}
		if o.asJSON {
			all.Entries = append(all.Entries, page.Entries...)
		} else if err := showAudit(cmd.OutOrStdout(), page.Entries); err != nil {
			return err
		}
		shown += len(page.Entries)
		if after = page.Next; after == 0 {
			break
		}
	}
	if o.asJSON {
		return printJSON(cmd.OutOrStdout(), all.Entries)
	}
	if shown == 0 { // where 'events' says so
		_, err := fmt.Fprintln(cmd.ErrOrStderr(), "no entry of the audit log matches")
		return err
	}
	return nil
}

func showAudit(w io.Writer, list []access.Entry) error {
	for i := range list {
		e := &list[i]
		_, err := fmt.Fprintf(w, "%d  %s  %s (%s) from %s  %s %s  %d\n",
			e.Seq, e.Time.Local().Format(time.DateTime), plain(e.Who), e.Role, plain(e.From), plain(e.Method), plain(e.Path), e.Status)
		lines := e.Change
		if e.Error != "" {
			lines = append([]string{e.Error}, lines...)
		}
		if e.Request != "" {
			lines = append(lines, e.Request)
		}
		for _, l := range lines {
			if err == nil {
				_, err = fmt.Fprintf(w, "      %s\n", plain(l))
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
