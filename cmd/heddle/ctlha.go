package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"heddle/api"
	"heddle/internal/plural"
)

func ctlHA() *cobra.Command {
	c := &cobra.Command{
		Use:   "ha",
		Short: "A manager and its partner: status, handover, takeover, forks, certs",
		Long: `Shows and changes which manager of a pair is active (heddle sm --peer).
docs/ha.md describes pairs.`,
		Args: subcommandOnly,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	status := ctlCommand("status", "Show the active manager and the state of the pair", http.MethodGet, "/v1/ha", printHA)
	handover := ctlCommand("handover", "Make the partner of the active manager active, without loss", http.MethodPost, "/v1/ha/handover", func(w io.Writer, _ []byte) error {
		_, err := fmt.Fprintln(w, "the partner is active now")
		return err
	})
	handover.Long = `Asks the active manager to stop. It stops when its partner has all entries, and
the partner takes over. Use it before maintenance of the active manager's host.
SIGTERM to the active manager does the same.`
	var stale bool
	path := func() string { return fmt.Sprintf("/v1/ha/takeover?stale=%t", stale) }
	takeover := ctlCommandTo("takeover", "Make a standby active whose partner is silent", http.MethodPost, path, func(w io.Writer, _ []byte) error {
		_, err := fmt.Fprintln(w, "this manager becomes active")
		return err
	})
	takeover.Long = `Asks a standby to become active. A standby that has all entries takes over by
itself when its partner is silent. One that may lack entries takes over after
10 s without a sign of life from its partner, or immediately with --stale: changes
that only the partner has stored are then lost, unless its disk comes back (heddle
ctl ha forks). Without --stale the command only shows which kind this standby is.`
	takeover.Flags().BoolVar(&stale, "stale", false, "even if changes that the partner acknowledged are lost")
	forks := ctlCommand("forks", "List changes that were put aside, because the partner's replaced them", http.MethodGet, "/v1/ha/forks", printForks)
	activate := ctlCommand("activate", "Activate a manager that was started with --inactive", http.MethodPost, "/v1/ha/activate", func(w io.Writer, _ []byte) error {
		_, err := fmt.Fprintln(w, "this manager takes part in the election of a master")
		return err
	})
	for _, s := range []*cobra.Command{status, handover, takeover, forks, ctlHACerts(), activate, ctlHAPriority()} {
		c.AddCommand(s)
	}
	return c
}

func ctlHAPriority() *cobra.Command {
	var o ctlOptions
	c := &cobra.Command{
		Use:   "priority N",
		Short: "Change the priority of a running manager, 0 to 15",
		Long: `Changes the priority in the election of the master, until a restart or a reload. A
standby whose priority is raised above the master's notifies the master immediately,
which hands the subnet over. A master whose priority is lowered searches for a
standby that now ranks above it. No LID moves. It works with managers of other
vendors. In a pair the priority counts only against third managers, because the pair
itself decides which of the two is active (see handover): give both the same one.`,
		Example: "  heddle ctl ha priority 15",
		Args:    wantArgs(1, "one priority, 0 to 15"),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := strconv.ParseUint(args[0], 10, 8)
			if err != nil || n > 15 {
				return usagef("priority %q: want a whole number from 0 to 15", args[0])
			}
			return o.ask(cmd, http.MethodPost, fmt.Sprintf("/v1/ha/priority?priority=%d", n), nil, func(w io.Writer, _ []byte) error {
				_, err := fmt.Fprintf(w, "the priority is %d; 'heddle ctl status' shows who is master\n", n)
				return err
			})
		},
	}
	o.register(c)
	return c
}

func printHA(w io.Writer, body []byte) error {
	var h api.HA
	if err := json.Unmarshal(body, &h); err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(k, f string, a ...any) { fmt.Fprintf(t, "%s\t%s\n", k, plain(fmt.Sprintf(f, a...))) }
	role := "standby"
	if h.Active {
		role = "active"
	}
	p := h.Pair
	if h.Mode == "quorum" {
		printQuorum(row, &h)
		return t.Flush()
	}
	if p == nil {
		row("role", "%s, without a partner", role)
		return t.Flush()
	}
	row("role", "%s, %s%s", role, h.State, since(&h))
	printPair(row, &h)
	return t.Flush()
}

// since is when and why a manager came to its role.
func since(h *api.HA) string {
	text := ""
	if !h.Since.IsZero() {
		text = " since " + h.Since.Local().Format(time.DateTime)
	}
	if h.Why != "" {
		text += ": " + h.Why
	}
	return text
}

// printPair prints how the two managers of a pair stand to each other.
func printPair(row func(k, f string, a ...any), h *api.HA) {
	p := h.Pair
	if h.ActiveAt != "" {
		row("active", "%s", h.ActiveAt)
	}
	row("term", "%d of %s", p.Term, p.TermOwner)
	row("entry", "%d here, %d there", p.Entry, p.PeerEntry)
	if p.LagEntries > 0 {
		row("lag", "%s for %.1f s", plural.Of(p.LagEntries, "entry"), p.LagSeconds)
	}
	peer := "standby"
	if p.PeerActive {
		peer = "active"
	}
	switch last := lastHeard(p); {
	case last < 0:
		peer = "not heard,"
	case last > silentPartner:
		peer = fmt.Sprintf("last heard %s, %s then,", ago(last), peer)
	}
	row("partner", "%s at %s, port GUID %s, LID %d", peer, p.Peer, p.PeerGUID, p.PeerLID)
	switch {
	case p.PeerPriority >= 0 && p.PeerPriority != p.Priority:
		row("priority", "%d, the partner has %d: give both the same, heddle ctl ha priority", p.Priority, p.PeerPriority)
	default:
		row("priority", "%d", p.Priority)
	}
	if len(p.Differ) > 0 {
		row("settings", "these differ, give both managers the same: %s", strings.Join(p.Differ, ", "))
	}
	row("last sync", "%s", ago(p.Synced))
	row("heard", "over TCP %s, in the subnet %s", ago(p.Stream), ago(p.Fabric))
	printChannels(row, h)
	if p.Entries > 0 {
		row("written", "%s, %.2f ms each until it counts", plural.Of(p.Entries, "entry"), 1000*p.Commit)
	}
	if p.Takeovers > 0 {
		took := "not yet serving the whole subnet"
		if p.Answering > 0 {
			took = fmt.Sprintf("the last one in %.2f s", p.Answering)
		}
		row("takeovers", "%d, %s", p.Takeovers, took)
	}
	if p.Forks > 0 {
		deleted := ""
		if p.ForksDeleted > 0 {
			deleted = fmt.Sprintf(", %d older deleted", p.ForksDeleted)
		}
		row("forks", "%s%s: heddle ctl ha forks", counted(p.Forks, "file"), deleted)
	}
	if p.DiskError != "" {
		row("disk", "%s", p.DiskError)
	}
}

// printChannels prints what connects this manager with its partner, and its port.
func printChannels(row func(k, f string, a ...any), h *api.HA) {
	p := h.Pair
	stream := "down"
	if h.Active && p.Serving || !h.Active && p.Connected { // the standby of the two copies on its own
		stream = "up"
	} else if p.StreamError != "" {
		stream += ": " + p.StreamError
	}
	row("stream", "%s", stream)
	if !h.Active && h.State == "paired" {
		warm := "not yet: a takeover reads the subnet before it answers"
		if p.Warm {
			warm = "yes, a takeover answers at once"
		}
		row("warm", "%s", warm)
	}
	usable := "usable"
	if !p.PortUsable {
		usable = "down"
	}
	row("port", "%s, %s, its SM is LID %d", p.PortGUID, usable, p.SMOfPort)
	if p.FloatingLID > 0 {
		row("sm lid", "%d, floating: the port of the active manager has it", p.FloatingLID)
	}
	if p.Master != "" && (p.Held || p.Master != p.PeerGUID) {
		text := p.MasterText
		if p.Held {
			text = "this manager does not take over: " + text
		}
		row("master", "%s", text)
	}
}

// silentPartner is for how long a partner is what it said last, in seconds: it says so every 0.1 s, and
// without that its standby takes over (replica.Config.Take).
const silentPartner = 0.4

// lastHeard is how long ago the partner was heard on any channel, in seconds; negative: it was not.
func lastHeard(p *api.Pair) float64 {
	switch {
	case p.Stream < 0:
		return p.Fabric
	case p.Fabric < 0:
		return p.Stream
	}
	return min(p.Stream, p.Fabric)
}

// printQuorum shows how a manager stands to the state that it shares with others.
func printQuorum(row func(k, f string, a ...any), h *api.HA) {
	state, ok := map[string]string{
		"term": "has the term to change it", "away": "has the term to change it, but etcd does not answer",
		"refused": "is master without the term to change it", "follower": "follows it without the term",
	}[h.State]
	if !ok {
		state = h.State
	}
	if !h.Since.IsZero() {
		state += " since " + h.Since.Local().Format(time.DateTime)
	}
	row("state", "shared, and this manager %s", state)
	if h.Why != "" {
		row("etcd", "%s", h.Why)
	}
	q := h.Quorum
	if q == nil {
		return
	}
	if q.Refused > 0 {
		row("refused", "changes for %.0f s", q.Refused)
	}
	row("term", "%d of %s", q.Term, q.TermOwner)
	row("entry", "%d", q.Entry)
	row("last sync", "%s", ago(q.Synced))
	if q.Entries > 0 {
		row("written", "%s, %.2f ms each until it is stored", plural.Of(q.Entries, "change"), 1000*q.Commit)
	}
	if q.Takeovers > 0 {
		row("takeovers", "%d", q.Takeovers)
	}
	if h.State == "follower" && !q.Warm {
		row("warm", "no: if it takes over it reads the subnet before it answers")
	}
	for _, m := range q.Members {
		said := "is silent"
		switch {
		case m.Heard && m.Master:
			said = "is master"
		case m.Heard:
			said = "is standby"
		case m.Err != "":
			said = m.Err
		}
		if len(m.Differ) > 0 {
			said += "; these settings differ, give all managers the same: " + strings.Join(m.Differ, ", ")
		}
		row("manager", "%s %s: %s", m.Address, m.GUID, said)
	}
}

// ago says how long ago something was.
func ago(seconds float64) string {
	if seconds < 0 {
		return "not since the start"
	}
	return fmt.Sprintf("%.1f s ago", seconds)
}

func printForks(w io.Writer, body []byte) error {
	return printList(w, body, "no changes were put aside", "WRITTEN\tENTRIES\tFROM\tTO\tFILE", func(t io.Writer, f *api.Fork) {
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\n", f.Time.Local().Format(time.DateTime), f.Entries, f.First, f.Last, plain(f.File))
	})
}
