package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"heddle/api"
)

// vmEvacuate is 'ctl vm evacuate'.
func vmEvacuate() *cobra.Command {
	var o vmOptions
	var to []string
	var dry bool
	parallel := 4
	c := &cobra.Command{
		Use: "evacuate HYPERVISOR", Short: "Migrate all VMs of a hypervisor to others",
		Long: `Migrates all interfaces of a hypervisor, live, to other hypervisors of the same
model, each to the one that then has the most free functions. A driver must run the
hypervisors (see 'heddle ctl vm migrate'). The command ends when all have migrated
(exit status 0), or lists those that stay, with the reasons (1). To continue after an
interruption, repeat it.`,
		Example: `  heddle ctl vm evacuate host-2 --dry-run
  heddle ctl vm evacuate host-2 --to host-7,host-8 --parallel 2`,
		Args: wantArgs(1, "a hypervisor by port GUID, node GUID or node description"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if parallel < 1 || parallel > 64 {
				return usagef("--parallel %d: want 1 to 64", parallel)
			}
			e := evacuation{o: &o, from: args[0], to: to}
			if err := e.plan(cmd.Context()); err != nil {
				return err
			}
			if dry {
				return e.print(cmd.OutOrStdout())
			}
			return e.run(cmd.Context(), cmd.OutOrStdout(), parallel)
		},
	}
	c.Flags().StringSliceVar(&to, "to", nil, "only to these `HYPERVISORS`")
	c.Flags().BoolVar(&dry, "dry-run", false, "show what would migrate where, and change nothing")
	c.Flags().IntVar(&parallel, "parallel", parallel, "`N` migrations at a time at most; the driver may do fewer")
	o.register(c)
	return c
}

// evacuation is a plan that empties a hypervisor.
type evacuation struct {
	o     *vmOptions
	from  string
	to    []string
	steps []evacuee
}

// evacuee is an interface and where it goes; Why: it cannot go.
type evacuee struct {
	Name string `json:"name"`
	To   string `json:"to,omitempty"`
	port string
	Why  string `json:"reason,omitempty"`
}

func (e *evacuation) ask(ctx context.Context, path string, out any) error {
	answer, err := e.o.call(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	return json.Unmarshal(answer, out)
}

// named reports whether a hypervisor has a name: port GUID, node GUID or description.
func named(h *api.Hypervisor, name string) bool {
	return h.PortGUID == name || h.NodeGUID == name || h.Description == name
}

// plan chooses a destination for each interface.
func (e *evacuation) plan(ctx context.Context) error {
	var all []api.Hypervisor
	if err := e.ask(ctx, "/v1/hypervisors", &all); err != nil {
		return err
	}
	var list []api.VM
	q := url.Values{"limit": {"10000"}, "hypervisor": {e.from}}
	for {
		var page api.VMList
		if err := e.ask(ctx, "/v1/vms?"+q.Encode(), &page); err != nil {
			return err
		}
		if list = append(list, page.VMs...); page.Next == "" {
			break
		}
		q.Set("after", page.Next)
	}
	model := ""
	for i := range all {
		if named(&all[i], e.from) {
			model = all[i].Model
		}
	}
	if model == "" {
		return fmt.Errorf("%s is not a hypervisor in the subnet: 'heddle ctl hypervisors' lists them", e.from)
	}
	for _, name := range e.to {
		if !slices.ContainsFunc(all, func(h api.Hypervisor) bool { return named(&h, name) }) {
			return usagef("--to %s: no such hypervisor: 'heddle ctl hypervisors' lists them", name)
		}
	}
	all = slices.DeleteFunc(all, func(h api.Hypervisor) bool {
		return named(&h, e.from) || h.Model != model || h.State != "active" ||
			len(e.to) > 0 && !slices.ContainsFunc(e.to, func(n string) bool { return named(&h, n) })
	})
	e.steps = evacuate(list, all, func(p *api.VMPlace) bool {
		return p != nil && (p.PortGUID == e.from || p.Description == e.from)
	})
	return nil
}

// evacuate gives each interface that is there the hypervisor with the most free functions;
// those that are on their way go on to where they go.
func evacuate(list []api.VM, to []api.Hypervisor, there func(*api.VMPlace) bool) (steps []evacuee) {
	free := make([]int, len(to))
	for i := range to {
		free[i] = to[i].Functions - to[i].Used
	}
	for i := range list {
		v := &list[i]
		s := evacuee{Name: v.Name}
		switch {
		case !there(v.Hypervisor) || v.State == "migrating" && v.Doing != "":
			continue // it comes, or goes already
		case v.State == "migrating":
			s.To, s.port = cmp.Or(v.Dest.Description, v.Dest.PortGUID), v.Dest.PortGUID
		case v.Doing != "":
			s.Why = "its " + v.Doing + " is not finished"
		default:
			best := -1
			for k := range to {
				if floating := v.LIDKind == "floating"; free[k] > 0 && (!floating || free[k] == to[k].Functions) && (best < 0 || free[k] > free[best]) {
					best = k
				}
			}
			if best < 0 {
				s.Why = "no other hypervisor of the same model has a free function"
				break
			}
			free[best]--
			if v.LIDKind == "floating" {
				free[best] = 0 // it has the port to itself
			}
			s.To, s.port = to[best].Description, to[best].PortGUID
		}
		steps = append(steps, s)
	}
	return steps
}

func (e *evacuation) print(w io.Writer) error {
	if e.o.asJSON {
		return printJSON(w, struct {
			Steps []evacuee `json:"steps"`
		}{append([]evacuee{}, e.steps...)})
	}
	if len(e.steps) == 0 {
		_, err := fmt.Fprintf(w, "no interface is at %s\n", e.from)
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tTO")
	for _, s := range e.steps {
		fmt.Fprintf(t, "%s\t%s\n", s.Name, plain(cmp.Or(s.To, "stays: "+s.Why)))
	}
	return t.Flush()
}

// run carries the plan out, so many migrations at a time.
func (e *evacuation) run(ctx context.Context, w io.Writer, parallel int) error {
	var mu sync.Mutex // guards w, worst, done, errs and orphaned
	var errs []error
	orphaned := false // nobody migrates the VMs: no further ones are tried
	done, worst := 0, 0.0
	slots := make(chan struct{}, parallel)
	var running sync.WaitGroup
	for _, s := range e.steps {
		if s.Why != "" {
			mu.Lock()
			errs = append(errs, fmt.Errorf("%s stays: %s", s.Name, s.Why))
			mu.Unlock()
			continue
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
		}
		mu.Lock()
		over := orphaned || ctx.Err() != nil
		mu.Unlock()
		if over {
			break
		}
		running.Go(func() {
			defer func() { <-slots }()
			v, err := e.migrate(ctx, s)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, err)
				orphaned = orphaned || errors.Is(err, errNoDriver)
				return
			}
			done++
			if v.Migration != nil {
				worst = max(worst, v.Migration.Outage, v.Migration.PeerOutage)
			}
			if !e.o.asJSON {
				fmt.Fprintf(w, "%s: %s\n", s.Name, migrated(v))
			}
		})
	}
	running.Wait()
	if len(e.steps) == 0 && !e.o.asJSON {
		return e.print(w)
	}
	if e.o.asJSON {
		failed := []string{}
		for _, err := range errs {
			failed = append(failed, err.Error())
		}
		if err := printJSON(w, map[string]any{"migrated": done, "failed": failed, "longest_outage_ms": worst}); err != nil {
			return err
		}
	} else if done > 0 {
		fmt.Fprintf(w, "%s migrated, the longest outage %.1f ms\n", counted(done, "interface"), worst)
	}
	return errors.Join(append(errs, ctx.Err())...)
}

// migrate migrates one interface and waits until it has.
func (e *evacuation) migrate(ctx context.Context, s evacuee) (*api.VM, error) {
	path, err := e.o.path(s.Name, "/migrate", nil)
	if err != nil {
		return nil, err
	}
	f := e.o.follower(s.Name)
	if err := f.begin(ctx, path, api.VMTarget{Hypervisor: s.port}); err != nil {
		return nil, fmt.Errorf("%s stays: %w", s.Name, err)
	}
	if err = f.follow(ctx, nil); errors.Is(err, errNoDriver) {
		path, _ := e.o.path(s.Name, "/rollback", nil) // as for migrate
		_, back := e.o.call(ctx, http.MethodPost, path, nil)
		err = errors.Join(fmt.Errorf("%s stays: %w", s.Name, err), back)
	}
	return &f.last, err
}

// migrated is the end of a migration in a line.
func migrated(v *api.VM) string {
	if v.Migration == nil {
		return "is at " + where(v)
	}
	return strings.TrimSpace(strings.TrimPrefix(resumedText(v), "resumed"))
}
