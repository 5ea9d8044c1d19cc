package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"heddle/api"
	"heddle/internal/plural"
)

// maxWait is the longest time that the API waits for an operation.
const maxWait = 50 * time.Second

// ctlVM are the commands about interfaces of virtual machines.
func ctlVM() *cobra.Command {
	c := &cobra.Command{
		Use:   "vm",
		Short: "Addresses of virtual machines: create, attach, migrate, detach, delete",
		Long: `Assigns addresses to interfaces of virtual machines (GUID, P_Keys, and optionally
an own LID) and moves them from one hypervisor to another.

Hypervisors are named by port GUID, node GUID or node description ('heddle ctl
hypervisors' lists them). A request is stored before it is answered. An
operation that is not yet possible, for example because a hypervisor is down, is
carried out later. Repeating a completed request is harmless.`,
		Example: `  heddle ctl vm create web --lid own --pkey 0x8001 --at H1
  heddle ctl vm move web H7
  heddle ctl vm list --hypervisor H7`,
		Args: subcommandOnly,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(vmCreate(), vmList(), vmShow(),
		vmTo("attach", "Attach an interface to a function", ""),
		vmMigrate(), vmEvacuate(),
		vmAlone("finish", "Move the addresses to the reserved function", "If that fails, they stay at, or return to, the old function."),
		vmAlone("rollback", "Cancel an unfinished migration", ""),
		vmTo("move", "Migrate and finish in one step", ""),
		vmAlone("detach", "Detach an interface from its function; it keeps its addresses", ""),
		vmDelete(), vmKeys(),
		ctlCommand("pools", "Free GUIDs and LIDs", http.MethodGet, "/v1/vms/pools", printPools))
	return c
}

// vmOptions are the flags of commands that change an interface.
type vmOptions struct {
	ctlOptions
	wait time.Duration
}

func (o *vmOptions) register(c *cobra.Command) {
	o.ctlOptions.register(c)
	c.Flags().DurationVar(&o.wait, "wait", 20*time.Second, "`TIME` to wait for completion, at most 50s; afterward the operation continues in the background")
}

// path is the URL path of a resource of an interface.
func (o *vmOptions) path(name, what string, more url.Values) (string, error) {
	if o.wait > maxWait {
		return "", usagef("--wait %v: want 0s to %v", o.wait, maxWait)
	}
	q := url.Values{"wait": {strconv.FormatFloat(o.wait.Seconds(), 'f', -1, 64)}}
	maps.Copy(q, more)
	p := "/v1/vms"
	if name != "" {
		p += "/" + url.PathEscape(name)
	}
	return p + what + "?" + q.Encode(), nil
}

// wantArgs refuses any other number of arguments.
func wantArgs(n int, what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != n {
			return usagef("want %s", what)
		}
		if args[0] == "" {
			return usagef("the name is empty")
		}
		return nil
	}
}

func vmCreate() *cobra.Command {
	var o vmOptions
	var a api.VMAddress
	var t api.VMTarget
	var keys []string
	c := &cobra.Command{
		Use:   "create NAME",
		Short: "Create an interface, and attach it with --at",
		Long: `Creates an interface of a virtual machine. Its name may have up to 128 letters,
digits and ._:-/. It is on no function until it is attached.`,
		Example: `  heddle ctl vm create web --lid own --pkey 0x8001 --at H1
  heddle ctl vm create db --guid 0x0002c90300000001 --pkey 0x0001`,
		Args: wantArgs(1, "one name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			list, err := keyArgs(keys)
			if err != nil {
				return err
			}
			a.Keys = list
			if a.LIDKind, a.LID, err = lidArg(a.LIDKind); err != nil {
				return err
			}
			if t.Function != 0 && t.Hypervisor == "" {
				return usagef("--function %d: missing hypervisor; give --at", t.Function)
			}
			switch a.GUID {
			case "pool", "function":
				a.GUID, a.GUIDKind = "", a.GUID
			}
			path, err := o.path("", "", nil)
			if err != nil {
				return err
			}
			body := struct {
				Name string `json:"name"`
				api.VMAddress
				api.VMTarget
			}{args[0], a, t}
			return o.ask(cmd, http.MethodPost, path, body, printVM)
		},
	}
	f := c.Flags()
	f.StringVar(&a.GUID, "guid", "", "port `GUID`; pool (default): one from the manager's pool; function: that of its current function, so it changes on migration")
	f.StringSliceVar(&a.Aliases, "alias", nil, "more `GUIDS`")
	f.StringVar(&a.LIDKind, "lid", "shared", "`LID`: shared (its port's), own (one that moves with it), floating (the same, on a shared port), or the number of its own")
	f.StringVar(&a.Mode, "mode", "auto", "how its LID moves, `MODE`: balanced (write every switch where the entries differ), minimal (the fewest), auto (minimal inside a leaf, balanced elsewhere)")
	f.StringSliceVar(&keys, "pkey", nil, "`P_KEY` of the interface: 0x8001 as full member of partition 1, 0x0001 as limited one")
	f.StringVar(&t.Hypervisor, "at", "", "`HYPERVISOR` to attach it to")
	f.IntVar(&t.Function, "function", 0, "`N`th function of the hypervisor; 0 = any free one")
	o.register(c)
	return c
}

// lidArg parses --lid.
func lidArg(s string) (kind string, lid int, err error) {
	switch s {
	case "shared", "own", "floating":
		return s, 0, nil
	}
	n, err := strconv.ParseUint(s, 0, 16)
	if err != nil || n == 0 || n > 0xBFFF {
		return "", 0, usagef("--lid %q: want shared, own, floating, or a LID from 1 to 49151 (0xbfff)", s)
	}
	return "own", int(n), nil
}

// keyArgs parses P_Keys whose bit 15 is the membership.
func keyArgs(words []string) ([]api.VMKey, error) {
	out := []api.VMKey{}
	for _, w := range words {
		v, err := strconv.ParseUint(w, 0, 16)
		if err != nil || v&0x7FFF == 0 {
			return nil, usagef("P_Key %q: want 0x8001 to 0xffff for a full member, 0x0001 to 0x7fff for a limited one", w)
		}
		k := api.VMKey{PKey: fmt.Sprintf("0x%04x", v&0x7FFF), Membership: "limited"}
		if v&0x8000 != 0 {
			k.Membership = "full"
		}
		out = append(out, k)
	}
	return out, nil
}

// vmTo makes a command that moves an interface to a hypervisor.
func vmTo(name, short, long string) *cobra.Command {
	var o vmOptions
	var t api.VMTarget
	c := &cobra.Command{
		Use: name + " NAME HYPERVISOR", Short: short, Long: longer(short, long),
		Args: wantArgs(2, "the name of an interface, and a hypervisor by port GUID, node GUID or node description"),
		RunE: func(cmd *cobra.Command, args []string) error {
			t.Hypervisor = args[1]
			path, err := o.path(args[0], "/"+name, nil)
			if err != nil {
				return err
			}
			return o.ask(cmd, http.MethodPost, path, t, printVM)
		},
	}
	c.Flags().IntVar(&t.Function, "function", 0, "`N`th function of the hypervisor; 0 = any that is free")
	o.register(c)
	return c
}

func longer(short, long string) string {
	if long == "" {
		return ""
	}
	return short + ".\n" + long
}

func vmAlone(name, short, long string) *cobra.Command {
	var o vmOptions
	c := &cobra.Command{
		Use: name + " NAME", Short: short, Long: longer(short, long),
		Args: wantArgs(1, "the name of an interface"),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := o.path(args[0], "/"+name, nil)
			if err != nil {
				return err
			}
			return o.ask(cmd, http.MethodPost, path, nil, printVM)
		},
	}
	o.register(c)
	return c
}

// absent reports whether there is no interface of a name: to delete it again is no error for the API.
func (o *vmOptions) absent(cmd *cobra.Command, name string) (bool, error) {
	_, err := o.call(cmd.Context(), http.MethodGet, "/v1/vms/"+url.PathEscape(name), nil)
	if refused, ok := errors.AsType[*refusal](err); ok && refused.status == http.StatusNotFound {
		return true, nil
	}
	return false, err
}

func vmDelete() *cobra.Command {
	var o vmOptions
	var force bool
	c := &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a detached interface",
		Args:  wantArgs(1, "the name of an interface"),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := o.path(args[0], "", url.Values{"force": {strconv.FormatBool(force)}})
			if err != nil {
				return err
			}
			absent, err := o.absent(cmd, args[0])
			if err != nil {
				return err
			}
			return o.ask(cmd, http.MethodDelete, path, nil, func(w io.Writer, _ []byte) error {
				text := "%s is deleted\n"
				if absent {
					text = "there was no interface %q\n"
				}
				_, err := fmt.Fprintf(w, text, args[0])
				return err
			})
		},
	}
	c.Flags().BoolVar(&force, "force", false, "also an attached one")
	o.register(c)
	return c
}

func vmKeys() *cobra.Command {
	var o vmOptions
	c := &cobra.Command{
		Use:     "keys NAME [P_KEY]...",
		Short:   "Replace the P_Keys of an interface",
		Long:    "Replaces the P_Keys of an interface: 0x8001 makes it a full member of partition 1,\n0x0001 a limited one. Without arguments it gets those that the partitions grant it.",
		Example: `  heddle ctl vm keys web 0x8001 0x0002`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || args[0] == "" {
				return usagef("want the name of an interface, and P_Keys")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			keys, err := keyArgs(args[1:])
			if err != nil {
				return err
			}
			path, err := o.path(args[0], "/keys", nil)
			if err != nil {
				return err
			}
			return o.ask(cmd, http.MethodPut, path, map[string]any{"keys": keys}, printVM)
		},
	}
	o.register(c)
	return c
}

func vmShow() *cobra.Command {
	var o ctlOptions
	c := &cobra.Command{
		Use:   "show NAME",
		Short: "Show one interface",
		Args:  wantArgs(1, "the name of an interface"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.ask(cmd, http.MethodGet, "/v1/vms/"+url.PathEscape(args[0]), nil, printVM)
		},
	}
	o.register(c)
	return c
}

func vmList() *cobra.Command {
	var o ctlOptions
	var f api.VMFilter
	c := &cobra.Command{
		Use:   "list",
		Short: "Interfaces, by name",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all := api.VMList{VMs: []api.VM{}}
			q := url.Values{"limit": {"10000"}}
			for k, v := range map[string]string{"state": f.State, "hypervisor": f.Hypervisor, "pkey": f.PKey} {
				if v != "" {
					q.Set(k, v)
				}
			}
			for {
				answer, err := o.call(cmd.Context(), http.MethodGet, "/v1/vms?"+q.Encode(), nil)
				if err != nil {
					return err
				}
				var page api.VMList
				if err := json.Unmarshal(answer, &page); err != nil {
					return err
				}
				all.Total, all.VMs = page.Total, append(all.VMs, page.VMs...)
				if page.Next == "" {
					break
				}
				q.Set("after", page.Next)
			}
			if o.asJSON {
				return printJSON(cmd.OutOrStdout(), all)
			}
			none := "no interfaces of virtual machines"
			if f != (api.VMFilter{}) {
				none = "no interface matches"
			}
			return printVMs(cmd.OutOrStdout(), all.VMs, none)
		},
	}
	c.Flags().StringVar(&f.State, "state", "", "only those that are `STATE`: created, attached, migrating or detached")
	c.Flags().StringVar(&f.Hypervisor, "hypervisor", "", "only those at `HYPERVISOR`, or migrating to it")
	c.Flags().StringVar(&f.PKey, "pkey", "", "only those with `P_KEY`, 0x0001 to 0x7fff")
	o.register(c)
	return c
}

func ctlReady() *cobra.Command {
	var o ctlOptions
	c := &cobra.Command{
		Use:   "ready P_KEY",
		Short: "Whether all members on the fabric have a P_Key in their hardware",
		Args:  wantArgs(1, "one P_Key, 0x0001 to 0x7fff"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.ask(cmd, http.MethodGet, "/v1/partitions/"+url.PathEscape(args[0])+"/ready", nil, printReady)
		},
	}
	o.register(c)
	return c
}

func ctlVirtual() []*cobra.Command {
	return []*cobra.Command{
		ctlVM(),
		ctlCommand("hypervisors", "Ports that can hold virtual functions", http.MethodGet, "/v1/hypervisors", printHypervisors),
		ctlCommand("vports", "Virtual ports and functions", http.MethodGet, "/v1/vports", printVPorts),
	}
}

// where describes the location of an interface, and the destination of a
// migration.
func where(v *api.VM) string {
	at := func(p *api.VMPlace) string {
		if p == nil {
			return "-"
		}
		name := p.Description
		if name == "" {
			name = p.PortGUID
		}
		return fmt.Sprintf("%s/%d", plain(name), p.Function)
	}
	if v.Dest != nil {
		return at(v.Hypervisor) + " -> " + at(v.Dest)
	}
	return at(v.Hypervisor)
}

func lidText(v *api.VM) string {
	if v.LID == 0 {
		return v.LIDKind
	}
	return fmt.Sprintf("%d %s", v.LID, v.LIDKind)
}

func keysText(v *api.VM) string {
	var out []string
	for _, k := range v.Keys {
		n, _ := strconv.ParseUint(k.PKey, 0, 16)
		if k.Membership == "full" {
			n |= 0x8000
		}
		out = append(out, fmt.Sprintf("0x%04x", n))
	}
	return strings.Join(out, " ")
}

func printVMs(w io.Writer, list []api.VM, none string) error {
	return printTable(w, list, none, "NAME\tSTATE\tAT\tGUID\tLID\tP_KEYS\tPLACEMENT", func(t io.Writer, v *api.VM) {
		placement := v.Placement
		if placement == "none" {
			placement = "-"
		}
		if v.Reason != "" {
			placement += ": " + plain(v.Reason)
		}
		guid := cmp.Or(v.GUID, "-")
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", v.Name, v.State, where(v), guid, lidText(v), keysText(v), placement)
	})
}

func printVM(w io.Writer, body []byte) error {
	var v api.VM
	if err := json.Unmarshal(body, &v); err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(k, f string, a ...any) { fmt.Fprintf(t, "%s\t%s\n", k, plain(fmt.Sprintf(f, a...))) }
	row("name", "%s", v.Name)
	row("state", "%s", v.State)
	row("at", "%s", where(&v))
	switch how := map[string]string{"pool": "of the pool", "function": "of the function"}[v.GUIDKind]; {
	case v.GUID == "":
		row("GUID", "none yet (that of the function)")
	case how == "":
		row("GUID", "%s (given)", v.GUID)
	default:
		row("GUID", "%s (%s)", v.GUID, how)
	}
	if v.DestGUID != "" {
		row("GUID there", "%s", v.DestGUID)
	}
	if v.GID != "" {
		row("GID", "%s", v.GID)
	}
	if len(v.Aliases) > 0 {
		row("aliases", "%s", strings.Join(v.Aliases, " "))
	}
	row("LID", "%s, moves %s", lidText(&v), v.Mode)
	keys := keysText(&v)
	if keys == "" {
		keys = "those of the partitions"
	}
	row("P_Keys", "%s", keys)
	row("placement", "%s", v.Placement)
	if v.Doing != "" {
		row("under way", "%s", v.Doing)
	}
	if v.Reason != "" {
		row("reason", "%s", v.Reason)
	}
	printMigration(row, &v)
	if v.Waiting {
		row("waiting", "the request is stored and will be carried out; 'heddle ctl vm show %s' shows its state", v.Name)
	}
	return t.Flush()
}

func printPools(w io.Writer, body []byte) error {
	var p api.VMPools
	if err := json.Unmarshal(body, &p); err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "GUIDs\t%d of %d left\n", p.GUIDs-p.GUIDsUsed, p.GUIDs)
	fmt.Fprintf(t, "LIDs\t%d of %d left\n", p.LIDs-p.LIDsUsed, p.LIDs)
	fmt.Fprintf(t, "journal\t%d operations in progress\n", p.Journal)
	return t.Flush()
}

func printHypervisors(w io.Writer, body []byte) error {
	return printList(w, body, "no hypervisors", "PORT GUID\tNODE\tPORT\tLID\tSTATE\tMODEL\tFUNCTIONS\tUSED\tVPORTS", func(t io.Writer, h *api.Hypervisor) {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%s\t%s\t%d\t%d\t%d\n", h.PortGUID, plain(h.Description), h.Port, h.LID, h.State, h.Model, h.Functions, h.Used, h.VPorts)
	})
}

func printVPorts(w io.Writer, body []byte) error {
	return printList(w, body, "no virtual ports", "GUID\tNODE\tPORT\tINDEX\tLID\tSTATE\tP_KEYS\tDESCRIPTION", func(t io.Writer, p *api.VPort) {
		lid := fmt.Sprintf("%d shared", p.LID)
		if p.OwnLID {
			lid = fmt.Sprintf("%d own", p.LID)
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%s\t%s\t%s\t%s\n", p.GUID, plain(p.Node), p.Port, p.Index, lid, p.State, strings.Join(p.Keys, " "), plain(p.Description))
	})
}

func printReady(w io.Writer, body []byte) error {
	var r api.PartitionReady
	if err := json.Unmarshal(body, &r); err != nil {
		return err
	}
	word := "not ready"
	if r.Ready {
		word = "ready"
	}
	fmt.Fprintf(w, "P_Key %s is %s: %s, %d on the fabric, %d without it yet\n", r.PKey, word, plural.Of(r.Members, "member"), r.Present, len(r.Pending))
	for _, p := range r.Pending {
		fmt.Fprintf(w, "  %s: %s\n", p.GUID, plain(p.Why))
	}
	for _, g := range r.Absent {
		fmt.Fprintf(w, "  %s: not on the fabric; it gets the P_Key when it appears\n", g)
	}
	return nil
}
