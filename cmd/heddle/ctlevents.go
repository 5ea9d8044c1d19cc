package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"heddle/api"
	"heddle/api/kinds"
)

// ctlEventFlags are those of heddle ctl events.
type ctlEventFlags struct {
	ctlOptions
	since, kind, node, level string
	cause                    uint64
	limit                    int
	follow                   bool
}

func ctlEvents() *cobra.Command {
	var f ctlEventFlags
	c := &cobra.Command{
		Use:   "events",
		Short: "Show events: nodes and links lost and found, faults, repairs, findings, changes",
		Long: `Prints the events of a manager, oldest first: number, time, level, kind, message,
and the number of the event that began the same cause. With a state directory the
manager keeps at least the newest 100,000 events of 7 days, and their numbers never
restart. Each manager of a pair has its own events; --api selects the other one,
and with --since standard error says when that one was active.

Without --since it prints the newest events that match, at most --limit (100).
--follow prints new events as they occur, and reconnects after a restart of the
manager. --json prints one event a line.`,
		Example: `  heddle ctl events --since 2h --kind node_*,link_*
  heddle ctl events --cause 4711
  heddle ctl events --node spine-3 --level warn
  heddle ctl events --follow --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fs := c.Flags()
	fs.StringVar(&f.since, "since", "", "`WHEN` of the first event: how long ago (2h), a time (2026-11-01T00:00:00Z), or the number before it (4711)")
	fs.StringVar(&f.kind, "kind", "", "only these `KINDS`, with commas between; a final * stands for anything")
	fs.StringVar(&f.node, "node", "", "only events about the node with this `NAME` or GUID, also at the far end of a link")
	fs.StringVar(&f.level, "level", "", "only this `LEVEL` (info, warn, error) or a higher one")
	fs.Uint64Var(&f.cause, "cause", 0, "only events with the same cause as event `N`, the first of them")
	fs.IntVar(&f.limit, "limit", 0, "at most `N` events (default 100 without --since, otherwise all)")
	fs.BoolVarP(&f.follow, "follow", "f", false, "go on with the events that come")
	f.register(c)
	c.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(kinds.All(), cobra.ShellCompDirectiveNoFileComp))
	return c
}

// mostEvents is how many events one request gets.
const mostEvents = 10_000

func (f *ctlEventFlags) run(cmd *cobra.Command) error {
	now := time.Now()
	q, err := f.query(now)
	if err != nil {
		return err
	}
	left := f.limit
	if left == 0 && f.since == "" && f.cause == 0 {
		left = 100
	}
	f.elsewhere(cmd, &q, now)
	last, shown := q.After, 0
	for {
		page := mostEvents
		if left > 0 {
			page = min(page, left)
		}
		list, err := f.page(cmd, &q, page)
		if err != nil {
			return err
		}
		for i := range list {
			if err := f.show(cmd.OutOrStdout(), &list[i]); err != nil {
				return err
			}
			last = list[i].Seq
		}
		shown += len(list)
		if left > 0 {
			left -= len(list)
		}
		if len(list) < page || left == 0 && (f.limit > 0 || !q.Oldest()) {
			break
		}
		q.After = last
	}
	if shown == 0 {
		if err := f.sayNone(cmd); err != nil {
			return err
		}
	}
	if !f.follow {
		return nil
	}
	for {
		err := f.stream(cmd, &q, &last)
		if ctx := cmd.Context(); ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		select { // the manager ended, or is started again
		case <-cmd.Context().Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}

// query is what the flags ask for.
func (f *ctlEventFlags) query(now time.Time) (q api.EventsQuery, err error) {
	q = api.EventsQuery{Node: f.node, Cause: f.cause, Level: f.level}
	for k := range strings.SplitSeq(f.kind, ",") {
		if k != "" {
			q.Kinds = append(q.Kinds, k)
		}
	}
	if f.since != "" {
		if q.After, q.Since, err = api.ParseSince(f.since, now); err != nil {
			return q, usagef("--%v", err)
		}
	}
	return q, nil
}

// sayNone says on standard error that nothing matches, and whether no event at all names the node.
func (f *ctlEventFlags) sayNone(cmd *cobra.Command) error {
	text := "no event matches"
	if f.node != "" {
		b, err := f.call(cmd.Context(), http.MethodGet, "/v1/events?"+url.Values{"limit": {"1"}, "node": {f.node}}.Encode(), nil)
		if err != nil {
			return err
		}
		var list []api.Event
		if err := json.Unmarshal(b, &list); err != nil {
			return err
		}
		if len(list) == 0 {
			text = fmt.Sprintf("no event names a node %q: is that its name ('heddle ctl nodes') or node GUID?", f.node)
		}
	}
	_, err := fmt.Fprintln(cmd.ErrOrStderr(), text)
	return err
}

// elsewhere says on standard error which of the events since a time another manager has. What is not
// known of that is not said.
func (f *ctlEventFlags) elsewhere(cmd *cobra.Command, q *api.EventsQuery, now time.Time) {
	if q.Since.IsZero() {
		return
	}
	b, err := f.call(cmd.Context(), http.MethodGet, "/v1/ha", nil)
	var h api.HA
	if err == nil {
		err = json.Unmarshal(b, &h)
	}
	if text := otherEvents(&h, q.Since, now); err == nil && text != "" {
		fmt.Fprintln(cmd.ErrOrStderr(), plain(text))
	}
}

// otherEvents says where events since a time are that a manager does not have.
func otherEvents(h *api.HA, since, now time.Time) string {
	switch {
	case h.ActiveAt != "":
		return "this manager is not active: the one at " + h.ActiveAt + " is, and has events of its own (--api)"
	case h.Before != nil && since.Before(h.Before.Until):
		format := time.TimeOnly
		if until := h.Before.Until.Local(); now.Sub(until) > 12*time.Hour {
			format = time.DateTime
		}
		return "before " + h.Before.Until.Local().Format(format) + " the manager at " + h.Before.At + " was active: its events are there (--api)"
	}
	return ""
}

// page reads events by one request.
func (f *ctlEventFlags) page(cmd *cobra.Command, q *api.EventsQuery, limit int) (list []api.Event, err error) {
	v := url.Values{"limit": {strconv.Itoa(limit)}}
	set := func(k, s string) {
		if s != "" {
			v.Set(k, s)
		}
	}
	number := func(k string, n uint64) {
		if n > 0 {
			v.Set(k, strconv.FormatUint(n, 10))
		}
	}
	set("kind", f.kind)
	set("node", q.Node)
	set("level", q.Level)
	number("cause", q.Cause)
	number("after", q.After)
	if !q.Since.IsZero() {
		v.Set("since", q.Since.UTC().Format(time.RFC3339Nano))
	} else if q.After == 0 && f.since != "" {
		v.Set("since", "1970-01-01T00:00:00Z") // from the first one on
	}
	b, err := f.call(cmd.Context(), http.MethodGet, "/v1/events?"+v.Encode(), nil)
	if err != nil {
		return nil, err
	}
	return list, json.Unmarshal(b, &list)
}

// stream shows events as they come, until the stream ends. An error is one that trying again does not
// change.
func (f *ctlEventFlags) stream(cmd *cobra.Command, q *api.EventsQuery, last *uint64) error {
	m, err := f.locate()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	path := "/v1/events/stream"
	if *last > 0 {
		path += "?after=" + strconv.FormatUint(*last, 10)
	}
	resp, err := m.request(ctx, http.MethodGet, path, nil, 0)
	if err != nil {
		fmt.Fprintln(cmd.ErrOrStderr(), err)
		return nil
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 2<<20) // an event has at most 1 MiB
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var e api.Event
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return err
		}
		*last = e.Seq
		q.After = 0
		if !q.Match(&e) {
			continue
		}
		if err := f.show(cmd.OutOrStdout(), &e); err != nil {
			return err
		}
	}
	return nil
}

// show prints an event in one line, and links and nodes of it below.
func (f *ctlEventFlags) show(w io.Writer, e *api.Event) error {
	if f.asJSON {
		b, err := json.Marshal(e)
		if err == nil {
			_, err = fmt.Fprintf(w, "%s\n", b)
		}
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d  %s  %-5s  %s  ", e.Seq, e.Time.Local().Format("2006-01-02 15:04:05.000"), plain(e.Level), plain(e.Kind))
	if n := e.Attrs["node"]; n != "" {
		b.WriteString(plain(n))
		if p := e.Attrs["port"]; p != "" {
			b.WriteString(" port " + plain(p))
		}
		b.WriteString(": ")
	}
	b.WriteString(plain(e.Message))
	if why := e.Attrs["err"]; why != "" {
		b.WriteString(": " + plain(why))
	}
	if e.Cause != 0 && e.Cause != e.Seq {
		fmt.Fprintf(&b, "  (cause %d)", e.Cause)
	}
	b.WriteByte('\n')
	for i := range e.Links {
		l := &e.Links[i]
		fmt.Fprintf(&b, "      %s port %d", plain(labeled(l.Node, l.GUID)), l.Port)
		if l.PeerGUID != "" {
			fmt.Fprintf(&b, " - %s port %d", plain(labeled(l.Peer, l.PeerGUID)), l.PeerPort)
		}
		b.WriteByte('\n')
	}
	for i := range e.Nodes {
		fmt.Fprintf(&b, "      %s\n", plain(labeled(e.Nodes[i].Node, e.Nodes[i].GUID)))
	}
	if e.More > 0 {
		fmt.Fprintf(&b, "      and %d more\n", e.More)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// labeled is the name of a node, or its GUID.
func labeled(name, guid string) string {
	if name == "" {
		return guid
	}
	return name
}
