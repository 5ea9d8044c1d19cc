package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"reflect"
	"runtime/trace"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"heddle/api"
	"heddle/daemon"
	"heddle/daemon/process"
	"heddle/partition"
	"heddle/settings"
	"heddle/sm"
	"heddle/webhook"
)

// running are the settings of a program that runs. It implements api.Controller.
type running struct {
	cmd    *cobra.Command // as it was started
	log    *slog.Logger
	level  *slog.LevelVar
	limits *api.Limits
	p      *process.Process // set before anybody can call
	hooks  *webhook.Group
	flight *trace.FlightRecorder

	turn sync.Mutex // one reload at a time

	mu   sync.Mutex
	f    smFlags   // in force; a reload replaces Values as a whole; guarded by mu
	core sm.Config // made of them; guarded by mu
}

// now are the settings in force, and the configuration of the core that is made of them.
func (r *running) now() (smFlags, sm.Config) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.f, r.core
}

// again reads environment and file anew, under the command line of the start.
func (r *running) again() (*settings.Values, error) {
	c, _, err := newRoot().Find(strings.Fields(r.cmd.CommandPath())[1:])
	if err != nil {
		return nil, err
	}
	v := valuesOf(c)
	if v == nil {
		return nil, fmt.Errorf("%s has no settings", r.cmd.CommandPath())
	}
	f, _ := r.now()
	if err := f.Rerun(c.Flags().Set); err != nil {
		return nil, err
	}
	if config := r.cmd.Flags().Lookup("config"); config != nil && config.Changed {
		if err := c.ParseFlags([]string{"--config=" + config.Value.String()}); err != nil {
			return nil, err
		}
	}
	if err := applyConfig(c, os.Environ()); err != nil {
		return nil, err
	}
	return v, smFlags{v}.readSecrets(c.Name())
}

// readFiles is what settings mean with the files that they name, as these are now.
type readFiles struct {
	core       sm.Config
	partitions *partition.Policy
	webhooks   []webhook.Target
	settings   daemon.Settings
}

// read makes configurations of settings, from files as they are now.
func (r *running) read(f smFlags) (c readFiles, err error) {
	if c.core, err = f.coreConfig(); err != nil {
		return c, err
	}
	c.partitions, err = f.readPartitions(r.log)
	if errors.Is(err, partition.ErrNothing) {
		r.log.Warn(err.Error() + ": the partitions stay in force; to open the subnet, write " + openPartitions)
	} else if err != nil {
		return c, err
	}
	parts := c.partitions
	if d := r.p.Daemon(); d != nil && parts == nil {
		if s := d.Snapshot(); s != nil {
			parts = s.Partitions // in force
		}
	}
	o, err := f.readOptions(parts, r.log)
	if err != nil {
		return c, err
	}
	c.settings = daemon.Settings{Core: c.core, SA: *o, Registry: f.Registry, Perf: f.Perf, PartitionsFile: f.Files.Partitions}
	if c.settings.Thresholds, err = f.readThresholds(); err != nil {
		return c, err
	}
	c.settings.Actions = f.actions(c.settings.Thresholds)
	if c.settings.Cabling, err = f.readCabling(c.core.Names); err != nil {
		return c, err
	}
	c.webhooks, err = f.readWebhooks()
	return c, err
}

// Reload implements api.Controller.
func (r *running) Reload(ctx context.Context, dry bool) (out api.Reloaded, err error) {
	r.turn.Lock()
	defer r.turn.Unlock()
	next, err := r.again()
	if err != nil {
		return out, err
	}
	if err := next.Check(); err != nil { // with what needs a restart, too: that is to work then
		return out, err
	}
	f, was := r.now()
	f = smFlags{f.Values.Clone()}
	changes := f.Adopt(next, settings.Of(r.cmd.Name()))
	c, err := r.read(f)
	if err != nil {
		return out, err
	}
	c.core.Inactive, c.settings.Core.Inactive = was.Inactive, was.Inactive // it may have been activated
	d := r.p.Daemon()
	out = reloaded(f, changes)
	out.Later, out.Reroute = d == nil, !reflect.DeepEqual(routing(&was), routing(&c.core))
	if d != nil && c.partitions != nil {
		if out.Partitions, err = repartition(ctx, d, c.partitions, dry); err != nil {
			return api.Reloaded{}, err
		}
	}
	if dry {
		return out, nil
	}
	// Everything is read and valid. The manager of a later mandate begins with it too.
	r.mu.Lock()
	r.f, r.core = f, c.core
	r.mu.Unlock()
	r.p.SetPriority(c.core.Priority)
	r.p.SetSettings(f.common(r.cmd.Name(), r.log))
	r.limits.SetRate(f.API.Rate)
	r.hooks.Set(c.webhooks)
	fly(r.flight, f.Log.Flight, r.log)
	for _, x := range changes {
		if x.Setting.Name == "log-level" {
			r.level.Set(slog.Level(f.Log.Level))
		}
		if x.Setting.Name == "congestion-control" {
			c.settings.Congestion = &f.Congestion.Mode
		}
	}
	if d != nil {
		c.settings.Reroute = out.Reroute
		d.Configure(&c.settings)
		if f.Files.OpenSM != "" {
			_ = d.Sweep(ctx) // as OpenSM does; an error says that one is asked for already
		}
	}
	out.Applied = true
	return out, nil
}

// repartition has partitions in force, and says what that changes; dry: what it would change.
func repartition(ctx context.Context, d *daemon.Daemon, p *partition.Policy, dry bool) (*api.PartitionPlan, error) {
	plan, err := d.PlanPartitions(p)
	if dry {
		return plan, err
	}
	// Without a plan the core may know members that fit.
	if err := d.ApplyPartitions(ctx, p); err != nil {
		return nil, err
	}
	if plan != nil {
		plan.Applied = true
	}
	return plan, nil
}

// routing are the settings of routing, with what their files say.
func routing(c *sm.Config) []any {
	return []any{c.Engines, c.Explicit, c.AllowUnsafe, c.Roots, c.RouteSeed, c.Route, c.MaxVLs, c.AvoidThrottled}
}

// reloaded is the answer to a reload that succeeded.
func reloaded(f smFlags, changes []settings.Change) (out api.Reloaded) {
	for _, c := range changes {
		x := api.SettingChange{Setting: c.Setting.Name, From: c.From, To: c.To, Applies: "now"}
		if !c.Live {
			x.Applies = "restart"
			out.Restart = append(out.Restart, c.Setting.Name)
		}
		out.Changes = append(out.Changes, x)
	}
	for _, name := range liveFiles {
		if file := f.Text(name); file != "" {
			out.Files = append(out.Files, file)
		}
	}
	return out
}

// liveFiles are settings of files that each reload reads.
var liveFiles = []string{
	"partitions", "qos-policy", "prefix-routes", "findings-thresholds", "cabling", "node-names", "webhooks",
	"roots", "ids", "hop-weights", "port-order", "routing-order", "unbalanced", "compute-nodes", "io-nodes", "torus-config", "fdbs", "path-sl", "sl2vl",
}

// LogLevel implements api.Controller, as does SetLogLevel.
func (r *running) LogLevel() string { return strings.ToLower(r.level.Level().String()) }

func (r *running) SetLogLevel(name string) error {
	v := settings.New()
	if err := v.Set("log-level", name, "level"); err != nil {
		return err
	}
	r.level.Set(slog.Level(v.Log.Level))
	return nil
}

// follow has SIGHUP read the settings of a process again until ctx ends, and the service manager told.
func (r *running) follow(ctx context.Context, p *process.Process) *service {
	r.p = p
	svc := newService(os.Getenv, os.Getpid(), r.log)
	r.onHangup(ctx, svc)
	return svc
}

// Settings implements api.Controller, as do the methods below.
func (r *running) Settings() (list []api.SettingValue) {
	f, _ := r.now()
	for _, s := range settings.Of(r.cmd.Name()) {
		x := api.SettingValue{Setting: s.Name, Value: f.Text(s.Name), Applies: s.Applies()}
		if s.Secret {
			if x.Value = ""; f.Given(s.Name) {
				x.Value = "set"
			}
		}
		if f.Given(s.Name) {
			x.From = f.From(s.Name)
		}
		list = append(list, x)
	}
	return list
}

func (r *running) SetPriority(priority int) error {
	r.turn.Lock()
	defer r.turn.Unlock()
	f, core := r.now()
	f = smFlags{f.Values.Clone()}
	if err := f.Set("priority", strconv.Itoa(priority), "ctl ha priority"); err != nil {
		return err
	}
	core.Priority = f.SM.Priority
	r.take(f, core)
	return nil
}

func (r *running) Activate() error {
	r.turn.Lock()
	defer r.turn.Unlock()
	f, core := r.now()
	if !core.Inactive {
		return errors.New("this manager is not inactive")
	}
	core.Inactive = false // for a later mandate too
	r.take(f, core)
	return nil
}

// take has settings of the subnet manager's core in force.
func (r *running) take(f smFlags, core sm.Config) {
	r.mu.Lock()
	r.f, r.core = f, core
	r.mu.Unlock()
	r.p.SetPriority(core.Priority)
	if d := r.p.Daemon(); d != nil {
		d.ConfigureCore(core)
	}
}

// onHangup reads settings and files again on each SIGHUP until ctx ends.
func (r *running) onHangup(ctx context.Context, svc *service) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGHUP)
	go func() {
		defer signal.Stop(c)
		for {
			select {
			case <-ctx.Done():
				return
			case <-c:
				svc.reloading(func() { r.hangup(ctx) })
			}
		}
	}()
}

// hangup is what one SIGHUP does.
func (r *running) hangup(ctx context.Context) {
	out, err := r.Reload(ctx, false)
	if err != nil {
		r.log.Error("SIGHUP: nothing changed", "err", err)
		return
	}
	var now []string
	for _, c := range out.Changes {
		if c.Applies == "now" {
			now = append(now, c.Setting)
		}
	}
	args := []any{"files", strings.Join(out.Files, ", "), "changed", strings.Join(now, ", ")}
	if out.Later {
		args = append(args, "later", "this manager is standby: they apply when it becomes active; partitions are those of the active one")
	}
	r.log.Info("SIGHUP: files read and applied", args...)
	if len(out.Restart) > 0 {
		r.log.Warn("SIGHUP: settings that differ need a restart", "settings", strings.Join(slices.Clone(out.Restart), ", "))
	}
}
