package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"heddle/api"
)

// Times of a command that follows a migration.
const (
	followPoll  = 50 * time.Millisecond // between two looks
	followStart = 5 * time.Second       // until a driver has to take it up
	followPeer  = 3 * time.Second       // for the peer's measurement, after the end
)

// errNoDriver is followed by the name of the interface.
var errNoDriver = errors.New("no driver of hypervisors has taken up the migration of")

// vmMigrate is 'ctl vm migrate'.
func vmMigrate() *cobra.Command {
	var o vmOptions
	var t api.VMTarget
	var follow bool
	c := &cobra.Command{
		Use: "migrate NAME HYPERVISOR", Short: "Reserve a function of another hypervisor for an interface",
		Long: `Reserves a function of another hypervisor for an interface. If a driver runs the
hypervisors ('heddle up --hypervisors', 'heddle sim --manager', or that of your
cloud), it now migrates the VM live; with --follow the command shows the progress, and
ends when the VM runs at its new location (exit status 0) or stays at the old one (1).

Without a driver nothing moves before 'heddle ctl vm finish'; 'heddle ctl vm
rollback' cancels it.`,
		Example: `  heddle ctl vm migrate web host-7 --follow
  heddle ctl vm migrate web host-7 --function 3`,
		Args: wantArgs(2, "the name of an interface, and a hypervisor by port GUID, node GUID or node description"),
		RunE: func(cmd *cobra.Command, args []string) error {
			t.Hypervisor = args[1]
			path, err := o.path(args[0], "/migrate", nil)
			if err != nil {
				return err
			}
			if !follow {
				return o.ask(cmd, http.MethodPost, path, t, printVM)
			}
			f := o.follower(args[0])
			if err := f.begin(cmd.Context(), path, t); err != nil {
				return err
			}
			if !o.asJSON {
				fmt.Fprintf(cmd.OutOrStdout(), "reserved   %s\n", where(&f.last))
			}
			var show func(string)
			if !o.asJSON {
				show = func(line string) { fmt.Fprintln(cmd.OutOrStdout(), line) }
			}
			err = f.follow(cmd.Context(), show)
			if errors.Is(err, errNoDriver) {
				err = fmt.Errorf("%w: the place stays reserved; migrate the VM and give 'heddle ctl vm finish %s', or give 'heddle ctl vm rollback %s'", err, args[0], args[0])
			}
			if o.asJSON && f.last.Name != "" {
				err = errors.Join(printJSON(cmd.OutOrStdout(), f.last), err)
			}
			return err
		},
	}
	c.Flags().IntVar(&t.Function, "function", 0, "`N`th function of the hypervisor; 0 = any that is free")
	c.Flags().BoolVar(&follow, "follow", false, "show the live migration until it ends")
	o.register(c)
	return c
}

// follower watches the migration of an interface.
type follower struct {
	o      *vmOptions
	name   string
	last   api.VM       // as it was last seen
	dest   *api.VMPlace // that was reserved
	before time.Time
	ended  time.Time // when it was first seen to be over, without a report of it
	rounds int
	stage  string
}

func (o *vmOptions) follower(name string) *follower { return &follower{o: o, name: name} }

func (f *follower) get(ctx context.Context) (v api.VM, err error) {
	answer, err := f.o.call(ctx, http.MethodGet, "/v1/vms/"+url.PathEscape(f.name), nil)
	if err == nil {
		err = json.Unmarshal(answer, &v)
	}
	return v, err
}

// begin notes which migration is an old one, and requests a new one.
func (f *follower) begin(ctx context.Context, path string, t api.VMTarget) error {
	old, err := f.get(ctx)
	if err != nil {
		return err
	}
	if old.Migration != nil {
		f.before = old.Migration.Started
	}
	answer, err := f.o.call(ctx, http.MethodPost, path, t)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(answer, &f.last); err != nil {
		return err
	}
	f.dest = f.last.Dest
	if m := old.Migration; old.State == "migrating" && m != nil && m.Stage != "resumed" && m.Stage != "failed" {
		f.before = time.Time{} // it goes on
	}
	return nil
}

// follow shows stages and rounds with show, which may be nil, until the migration ends.
// An error says why the VM stays where it was, or that nobody migrates it.
func (f *follower) follow(ctx context.Context, show func(line string)) error {
	begun, silent := time.Now(), time.Time{}
	if f.last.State != "migrating" {
		return nil // it is there already
	}
	for {
		v, err := f.get(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && silent.IsZero():
			silent = time.Now() // it may start again
		case err != nil && time.Since(silent) > time.Minute:
			return err
		case err == nil:
			silent, f.last = time.Time{}, v
			if over, err := f.look(&v, begun, show); over || err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(followPoll):
		}
	}
}

// look shows what is new, and reports whether the migration is over.
func (f *follower) look(v *api.VM, begun time.Time, show func(string)) (over bool, err error) {
	m := v.Migration
	if m == nil || m.Started.Equal(f.before) {
		if v.State != "migrating" && f.ended.IsZero() {
			f.ended = time.Now()
		}
		switch {
		case v.State != "migrating" && time.Since(f.ended) < followPeer:
			return false, nil // its driver may still say how it went
		case v.State != "migrating" && f.there(v):
			return true, nil
		case v.State != "migrating":
			return true, fmt.Errorf("%s is %s at %s: somebody else ended its migration", v.Name, v.State, where(v))
		case time.Since(begun) > followStart && f.stage == "":
			return true, fmt.Errorf("%w %s within %v", errNoDriver, v.Name, followStart)
		}
		return false, nil // a manager that has started again does not know it yet
	}
	if show != nil {
		f.print(m, show)
	}
	f.stage = m.Stage
	switch m.Stage {
	case "resumed":
		if m.PeerOutage == 0 && time.Since(m.Updated) < followPeer {
			return false, nil // a peer may still wait for its answer
		}
		if show != nil {
			show(resumedText(v))
		}
		return true, nil
	case "failed":
		return true, fmt.Errorf("the migration of %s failed, and it is at %s: %s", v.Name, where(v), m.Reason)
	}
	return false, nil
}

// there reports whether an interface is at the reserved place.
func (f *follower) there(v *api.VM) bool {
	return f.dest != nil && v.Hypervisor != nil && *v.Hypervisor == *f.dest
}

// print shows the rounds and the stage that are new.
func (f *follower) print(m *api.VMMigration, show func(string)) {
	rounds := m.Rounds
	stopped := 0
	if m.Stage == "finishing" || m.Stage == "resumed" {
		stopped = 1 // the last round was after the stop
	}
	for ; f.rounds < len(rounds)-stopped; f.rounds++ {
		r := rounds[f.rounds]
		show(fmt.Sprintf("pre-copy   round %d: %s in %s", f.rounds+1, sizeRounded(r.Bytes), secondsText(r.Seconds)))
	}
	if m.Stage == f.stage {
		return
	}
	last := func() string {
		if len(rounds) == 0 {
			return ""
		}
		r := rounds[len(rounds)-1]
		return fmt.Sprintf(": the last %s in %s", sizeRounded(r.Bytes), secondsText(r.Seconds))
	}
	switch m.Stage {
	case "queued":
		show("queued     other migrations of the hypervisor go first")
	case "copying":
		if len(rounds) == 0 {
			show(fmt.Sprintf("copying    %s of memory, while the VM runs", sizeRounded(m.Memory)))
		}
	case "stopping":
		show("stopped    and copies the rest")
	case "finishing", "resumed":
		if stopped > 0 && (f.stage != "finishing" || m.Stage == "finishing") {
			show("stopped" + last())
		}
	}
}

// resumedText is the end of a migration.
func resumedText(v *api.VM) string {
	m := v.Migration
	text := fmt.Sprintf("resumed    at %s; stopped for %.1f ms", where(v), m.Outage)
	if m.PeerOutage > 0 {
		text += fmt.Sprintf(", not answering a peer for %.1f ms", m.PeerOutage)
	}
	if v.LID != 0 {
		text += fmt.Sprintf("; LID %d", v.LID)
	}
	return text + fmt.Sprintf("; %s written", counted(v.Blocks, "LFT block"))
}

// sizeRounded is a number of bytes for people: 4.3 GB.
func sizeRounded(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.1f GB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.1f kB", float64(n)/1e3)
}

func secondsText(s float64) string {
	if s < 1 {
		return fmt.Sprintf("%.1f ms", s*1e3)
	}
	return fmt.Sprintf("%.2f s", s)
}

// printMigration is the part of 'ctl vm show' about the last migration.
func printMigration(row func(k, f string, a ...any), v *api.VM) {
	m := v.Migration
	if m == nil {
		return
	}
	text := m.Stage
	switch {
	case m.Reason != "":
		text += ": " + m.Reason
	case m.Stage == "resumed":
		text = strings.TrimSpace(strings.TrimPrefix(resumedText(v), "resumed"))
	case len(m.Rounds) > 0:
		text += fmt.Sprintf(", round %d", len(m.Rounds)+1)
	}
	row("migration", "%s", text)
}
