package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"heddle/api"
	"heddle/internal/plural"
	"heddle/partition"
)

func ctlPartitions() *cobra.Command {
	c := ctlCommand("partitions", "Partitions and the state of their programming", http.MethodGet, "/v1/partitions", printPartitions)
	c.Args = subcommandOnly
	c.Long = `Shows the current partitions, how many ports have each P_Key in their table,
and whether all ports have acknowledged theirs.

In commands a partition is named by its name or its P_Key. A member is a port GUID with
0x, the description of a node (NODE:PORT if it has several ports in the subnet), or a
class of ports: ALL, ALL_CAS, ALL_SWITCHES, ALL_ROUTERS, SELF. A file, for 'apply' and
--partitions, has the format of OpenSM's partitions.conf: its members are port GUIDs and
classes of ports, not names of nodes.

The revision names the current configuration. With --if-match REVISION a change is
refused if somebody else has changed the partitions since, so that two operators do
not overwrite each other's changes.`
	var o ctlOptions
	show := &cobra.Command{
		Use:   "show",
		Short: "Print the current configuration, in the format of OpenSM's partitions.conf",
		Long: `Prints the current configuration, in the format of OpenSM's partitions.conf. It has no
comments: the manager does not store those of a file.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.ask(cmd, http.MethodGet, "/v1/partitions", nil, func(w io.Writer, body []byte) error {
				var p api.Partitions
				if err := json.Unmarshal(body, &p); err != nil {
					return err
				}
				_, err := io.WriteString(w, p.Config)
				return err
			})
		},
	}
	o.register(show)
	c.AddCommand(show, partitionsApply(), partitionsMembers(), partitionsAddMember(), partitionsRemoveMember(), partitionsCreate(), partitionsDelete(), ctlReady())
	return c
}

// partitionPath is the path of the API for a partition, and memberPath for a member of it.
func partitionPath(name string) string { return "/v1/partitions/" + url.PathEscape(name) }

func memberPath(partition, member string) string {
	return partitionPath(partition) + "/members/" + url.PathEscape(member)
}

// partitionChange are the flags of changes.
type partitionChange struct {
	ctlOptions
	dry bool
}

func (o *partitionChange) register(c *cobra.Command) {
	c.Flags().BoolVar(&o.dry, "dry-run", false, "say what it would change, and change nothing")
	c.Flags().StringVar(&o.match, "if-match", "", "make the change only if the partitions still have this `REVISION`, which 'heddle ctl partitions' and --dry-run print")
	o.ctlOptions.register(c)
}

// change makes a change of partitions, or asks what it would do. Without show it prints the plan.
func (o *partitionChange) change(cmd *cobra.Command, method, path string, body any, show func(io.Writer, []byte) error) error {
	if o.match == "" && cmd.Flags().Changed("if-match") { // a variable of a script that is empty
		return usagef("--if-match is empty: want the revision that 'heddle ctl partitions' prints")
	}
	if o.dry {
		path += "?dry_run=true"
	}
	if o.dry || show == nil {
		show = showPartitionPlan
	}
	return o.ask(cmd, method, path, body, show)
}

// showPartitionPlan prints the answer to a change: a plan, or partitions with one.
func showPartitionPlan(w io.Writer, body []byte) error {
	var all api.Partitions
	var p api.PartitionPlan
	err := json.Unmarshal(body, &all)
	if err == nil && all.Plan != nil {
		p = *all.Plan
	} else {
		err = json.Unmarshal(body, &p)
	}
	if err != nil {
		return err
	}
	if err = printPartitionPlan(w, &p); err == nil && !p.Applied && len(p.Change) > 0 && p.Revision != "" { // tenants get none
		_, err = fmt.Fprintf(w, "to make this change only if no other one comes first, give --if-match %s\n", plain(p.Revision))
	}
	return err
}

func partitionsApply() *cobra.Command {
	var o partitionChange
	c := &cobra.Command{
		Use:   "apply FILE",
		Short: "Replace the partitions with those of a file ('-' is standard input)",
		Long: `Replaces the partitions, in one transaction, by those of a file in the format of
OpenSM's partitions.conf, whose members are port GUIDs and classes of ports, not names of
nodes. A file with an error changes nothing. It writes only to the ports that the change
affects, and removes P_Keys before it grants others. It prints which ports gain, lose or
change which memberships, what is written, and which multicast groups and virtual
machines that concerns, then the partitions; with --dry-run it changes nothing. 'heddle
ctl partitions' shows when all ports have acknowledged.`,
		Example: `  heddle ctl partitions apply partitions.conf --dry-run
  heddle ctl partitions apply partitions.conf --if-match 5e1fd2e0a1b6c7d8`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("partitions apply: want one file")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			in, name := cmd.InOrStdin(), args[0]
			if name == "-" {
				name = "standard input"
			} else {
				f, err := os.Open(args[0])
				if err != nil {
					return err
				}
				defer f.Close()
				in = f
			}
			b, err := io.ReadAll(io.LimitReader(in, partition.MaxFile+1))
			if err != nil {
				return err
			}
			if len(b) > partition.MaxFile {
				return fmt.Errorf("%s: larger than the limit of %d bytes", name, partition.MaxFile)
			}
			body := map[string]string{"name": name, "config": string(b)}
			return o.change(cmd, http.MethodPut, "/v1/partitions", body, printReplaced)
		},
	}
	o.register(c)
	return c
}

func partitionsMembers() *cobra.Command {
	var o ctlOptions
	var limit int
	c := &cobra.Command{
		Use:   "members PARTITION",
		Short: "The members of a partition, line by line",
		Long: `Shows the lines of a partition in the order in which they apply: of two lines that name
one port the later one counts. The last ones are those that virtual machines add.`,
		Example: `  heddle ctl partitions members tenant-a
  heddle ctl partitions members 0x0005 --limit 500`,
		Args: wantArgs(1, "a partition, by its name or P_Key"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.ask(cmd, http.MethodGet, fmt.Sprintf("%s/members?limit=%d", partitionPath(args[0]), limit), nil, printMembers)
		},
	}
	c.Flags().IntVar(&limit, "limit", 100, "show up to this many `MEMBERS`, 1 to 500")
	o.register(c)
	return c
}

// changeCommand completes the command of a change whose plan is printed: of says what it asks for.
func changeCommand(c *cobra.Command, of func(args []string) (method, path string, body any)) *cobra.Command {
	var o partitionChange
	c.RunE = func(cmd *cobra.Command, args []string) error {
		method, path, body := of(args)
		return o.change(cmd, method, path, body, nil)
	}
	o.register(c)
	return c
}

func partitionsAddMember() *cobra.Command {
	as := "limited"
	c := &cobra.Command{
		Use:   "add-member PARTITION MEMBER",
		Short: "Add a member to a partition, or change its membership",
		Long: `Adds a member to a partition, or changes its membership. A single port becomes the last
line of the partition, so that no other line overrides it. The change is stored before
it takes effect. A file of --partitions stays as it is: change it too, because a reload
applies it again.`,
		Example: `  heddle ctl partitions add-member tenant-a host-7 --as full --dry-run
  heddle ctl partitions add-member 0x0005 0x0002c90300a1b2c3`,
		Args: wantArgs(2, "a partition and a member: its port GUID, NODE, NODE:PORT or a class of ports"),
	}
	c.Flags().StringVar(&as, "as", as, "`MEMBERSHIP`: full, limited or both")
	return changeCommand(c, func(args []string) (string, string, any) {
		return http.MethodPut, memberPath(args[0], args[1]), map[string]string{"membership": as}
	})
}

func partitionsRemoveMember() *cobra.Command {
	return changeCommand(&cobra.Command{
		Use:   "remove-member PARTITION MEMBER",
		Short: "Remove a member from a partition",
		Long: `Removes the line of a partition that names a member. A port that is also a member by a
class of ports stays one by that. The last member goes with its partition ('delete').`,
		Example: `  heddle ctl partitions remove-member tenant-a host-7 --dry-run`,
		Args:    wantArgs(2, "a partition and a member: its port GUID, NODE, NODE:PORT or a class of ports"),
	}, func(args []string) (string, string, any) {
		return http.MethodDelete, memberPath(args[0], args[1]), nil
	})
}

func partitionsCreate() *cobra.Command {
	var n api.NewPartition
	as := "limited"
	c := &cobra.Command{
		Use:   "create NAME [MEMBER...]",
		Short: "Create a partition with its first members",
		Long: `Creates a partition. Without --pkey it gets the lowest P_Key that is free. Without
members it has those that virtual machines with its P_Key add: a tenant creates its
partitions like that, with a name that begins with its prefix.`,
		Example: `  heddle ctl partitions create tenant-a host-1 host-2 --as full --ipoib --dry-run
  heddle ctl partitions create storage ALL_CAS 0x0002c90300a1b2c3=full --pkey 0x0100
  heddle ctl partitions create acme-web --token-file acme.token`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("partitions create: want a name, and members as MEMBER or MEMBER=MEMBERSHIP")
			}
			return nil
		},
	}
	c.Flags().StringVar(&n.PKey, "pkey", "", "`P_KEY`, 0x0001 to 0x7ffe (default: the lowest that is free)")
	c.Flags().BoolVar(&n.IPoIB, "ipoib", false, "with the broadcast group of IPoIB")
	c.Flags().StringVar(&as, "as", as, "`MEMBERSHIP` of members without one of their own: full, limited or both")
	return changeCommand(c, func(args []string) (string, string, any) {
		n.Name, n.Members = args[0], nil
		for _, a := range args[1:] {
			m := api.NewMember{Member: a, Membership: as}
			if i := strings.LastIndexByte(a, '='); i > 0 {
				m.Member, m.Membership = a[:i], a[i+1:]
			}
			n.Members = append(n.Members, m)
		}
		return http.MethodPost, "/v1/partitions", &n
	})
}

func partitionsDelete() *cobra.Command {
	return changeCommand(&cobra.Command{
		Use:   "delete PARTITION",
		Short: "Delete a partition",
		Long: `Deletes a partition: all of its members lose its P_Key. Memberships that virtual machines
add stay. Another partition receives the P_Key when all ports have lost it.`,
		Example: `  heddle ctl partitions delete tenant-a --dry-run`,
		Args:    wantArgs(1, "a partition, by its name or P_Key"),
	}, func(args []string) (string, string, any) {
		return http.MethodDelete, partitionPath(args[0]), nil
	})
}

func printPartitions(w io.Writer, body []byte) error {
	var p api.Partitions
	if err := json.Unmarshal(body, &p); err != nil {
		return err
	}
	return listPartitions(w, &p)
}

func listPartitions(w io.Writer, p *api.Partitions) error {
	for _, s := range p.Warnings {
		fmt.Fprintf(w, "note: %s\n", s)
	}
	err := printTable(w, p.Partitions, "no partitions", "NAME\tP_KEY\tFULL\tLIMITED\tGROUPS", func(t io.Writer, x *api.Partition) {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%s\n", x.Name, x.PKey, x.Full, x.Limited, strings.Join(x.Groups, " "))
	})
	if err != nil {
		return err
	}
	if p.Revision != "" {
		fmt.Fprintf(w, "revision %s, for --if-match of a change\n", plain(p.Revision))
	}
	fmt.Fprintln(w, carriedOut(&api.PartitionStatus{Settled: p.Settled, Pending: p.Pending}))
	if len(p.Quarantined) > 0 {
		fmt.Fprintf(w, "freed, but not yet removed from every port and so unavailable: %s\n", strings.Join(p.Quarantined, " "))
	}
	return nil
}

// printReplaced prints what a replacement has changed, and the partitions that were accepted.
func printReplaced(w io.Writer, body []byte) error {
	var p api.Partitions
	if err := json.Unmarshal(body, &p); err != nil {
		return err
	}
	if p.Plan != nil { // older managers send none
		if err := printPartitionPlan(w, p.Plan); err != nil {
			return err
		}
		fmt.Fprintln(w)
		p.Warnings = nil // they are among the notes of the plan
	}
	return listPartitions(w, &p)
}

func printMembers(w io.Writer, body []byte) error {
	var x api.Table[api.PartitionMember]
	if err := json.Unmarshal(body, &x); err != nil {
		return err
	}
	err := printTable(w, x.Rows, "the partition has no members", "MEMBER\tMEMBERSHIP\tNODE\tNOTE", func(t io.Writer, m *api.PartitionMember) {
		node, note := "-", ""
		if m.Node != "" {
			node = fmt.Sprintf("%s port %d", plain(m.Node), m.Port)
		}
		switch {
		case m.ByInterface && m.Interface != "":
			note = "interface " + m.Interface
		case m.ByInterface:
			note = "added by virtual machines"
		case m.Pending:
			note = "not on the fabric"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", m.Member, m.Membership, node, note)
	})
	if err != nil {
		return err
	}
	if more := x.Matched - len(x.Rows); more > 0 {
		fmt.Fprintf(w, "and %d more; --limit shows up to 500\n", more)
	}
	return nil
}

// printPartitionPlan prints what a change of partitions does, or would do.
func printPartitionPlan(w io.Writer, p *api.PartitionPlan) error {
	for _, s := range p.Notes {
		fmt.Fprintf(w, "note: %s\n", plain(s))
	}
	if len(p.Change) == 0 {
		_, err := fmt.Fprintln(w, "the partitions are like that already; nothing changes")
		return err
	}
	if err := printPartitionChange(w, p); err != nil {
		return err
	}
	if p.Applied {
		_, err := fmt.Fprintln(w, "stored; 'heddle ctl partitions' shows when all ports have acknowledged")
		return err
	}
	_, err := fmt.Fprintln(w, "nothing was changed: this was a dry run")
	return err
}

// printPartitionChange prints the lines of a plan that has some, and their effects.
func printPartitionChange(w io.Writer, p *api.PartitionPlan) error {
	for _, l := range p.Change {
		fmt.Fprintln(w, plain(l))
	}
	if p.MoreChange > 0 {
		fmt.Fprintf(w, "and %s\n", plural.Of(p.MoreChange, "more line"))
	}
	fmt.Fprintln(w)
	if err := printPlannedMemberships(w, p); err != nil {
		return err
	}
	fmt.Fprintf(w, "%s other P_Keys; to write: %s in %s of ports, %s in %s of switch ports, by %d Set(P_KeyTable)\n", plural.Of(p.Ports, "port")+" "+plural.Verb(p.Ports, "gets", "get"),
		plural.Of(p.Hosts.Blocks, "block"), plural.Of(p.Hosts.Tables, "table"), plural.Of(p.SwitchPorts.Blocks, "block"), plural.Of(p.SwitchPorts.Tables, "table"),
		p.Hosts.Writes+p.SwitchPorts.Writes)
	if n := p.Hosts.Unread + p.SwitchPorts.Unread; n > 0 {
		fmt.Fprintf(w, "%s of them %s not read yet: what they need is estimated\n", plural.Of(n, "table"), plural.Verb(n, "is", "are"))
	}
	if p.Switches > 0 {
		fmt.Fprintf(w, "%s: %s\n", plural.Of(p.Switches, "switch"), some(p.SwitchNames, p.Switches))
	}
	for _, x := range []struct {
		n    int
		what string
	}{{p.EnforceOn, "begin to enforce partitions"}, {p.EnforceOff, "end to enforce partitions"}, {p.NoRoom, "cannot enforce partitions: no room for the P_Keys"}} {
		if x.n > 0 {
			fmt.Fprintf(w, "%s %s\n", plural.Of(x.n, "switch port"), x.what)
		}
	}
	if p.Overflow.Count > 0 {
		fmt.Fprintf(w, "NO ROOM for all P_Keys at %s: %s\n", plural.Of(p.Overflow.Count, "port"), some(p.Overflow.Names, p.Overflow.Count))
	}
	if len(p.Waiting) > 0 {
		fmt.Fprintf(w, "%s: no new member receives it before all old ones have lost it\n", strings.Join(p.Waiting, " "))
	}
	if p.Interfaces > 0 {
		fmt.Fprintf(w, "%s: %s\n", plural.Of(p.Interfaces, "interface")+" of virtual machines", some(p.InterfaceNames, p.Interfaces))
	}
	return nil
}

// some are the first names of a list, and how many more there are.
func some(names []string, all int) string {
	text := plain(strings.Join(names, ", "))
	if more := all - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// printPlannedMemberships prints the tables of a plan: partitions, memberships and groups.
func printPlannedMemberships(w io.Writer, p *api.PartitionPlan) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i := range p.Partitions {
		x := &p.Partitions[i]
		what := x.What
		if x.Was != "" {
			what += ", was " + plain(x.Was)
		}
		if n := x.Begin + x.End; n > 0 {
			what += fmt.Sprintf("; not on the fabric: %s", some(x.Pending, n))
		}
		fmt.Fprintf(t, "partition\t%s\t%s\t%s\n", plain(x.Name), x.PKey, what)
	}
	for i := range p.Memberships {
		x := &p.Memberships[i]
		fmt.Fprintf(t, "%s\t%s\t%s\t%s to %s: %s\n", plural.Of(x.Count, "port"), plain(x.Partition), x.PKey, x.From, x.To, some(x.Names, x.Count))
	}
	for i := range p.Groups {
		x := &p.Groups[i]
		what := groupWords[x.What]
		if x.Ends > 0 {
			what += fmt.Sprintf(", %s %s", plural.Of(x.Ends, "membership"), plural.Verb(x.Ends, "ends", "end"))
		}
		fmt.Fprintf(t, "group\t%s\t%s\t%s\n", x.MGID, x.PKey, what)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if n := p.MorePartitions + p.MoreChanges + p.MoreGroups; n > 0 {
		fmt.Fprintf(w, "and %s of partitions, memberships and groups\n", plural.Of(n, "more line"))
	}
	return nil
}

// groupWords say what happens to a group.
var groupWords = map[string]string{
	"new": "begins", "gone": "ends", "stays": "ends with its last member", "members": "stays", "permanent": "becomes permanent", "values": "gets other values",
}
