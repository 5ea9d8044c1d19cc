package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/trace"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"heddle/api"
	"heddle/api/show"
	"heddle/daemon"
	"heddle/daemon/eventlog"
	"heddle/daemon/process"
	"heddle/ib"
	"heddle/mad"
	"heddle/opensm"
	"heddle/settings"
	"heddle/sm"
	"heddle/store"
	"heddle/store/boltdb"
	"heddle/store/journal"
	"heddle/store/ring"
	"heddle/subnet"
	"heddle/transport/ibsim"
	"heddle/webhook"
)

// smFlags are the settings of a manager, shared by sm, up and plan.
type smFlags struct{ *settings.Values }

func newSMFlags() smFlags { return smFlags{settings.New()} }

// register makes flags of a command's settings.
func (f smFlags) register(fs *pflag.FlagSet, command string) {
	registerSettings(fs, f.Values, settings.Of(command))
}

// config is the configuration of a command's core, with the contents of files that
// settings name.
func (f smFlags) config(command string) (c sm.Config, err error) {
	if err := f.readSecrets(command); err != nil {
		return c, err
	}
	if err := f.Check(); err != nil {
		return c, &usageError{err}
	}
	return f.coreConfig()
}

// coreConfig is config of settings that are checked and have their secrets.
func (f smFlags) coreConfig() (c sm.Config, err error) {
	c = f.SM
	c.SlowLane = f.HotSpots().KeepsLane()
	if c.MaxWindow = f.Window; c.MaxWindow > 0 { // otherwise the port's limit
		c.Window = min(c.Window, c.MaxWindow)
	}
	engines := engineFlags(f)
	if c.Engines, c.Explicit, err = engines.chain(); err != nil {
		return c, err
	}
	if c.Route, err = engines.options(); err != nil {
		return c, err
	}
	c.Roots = c.Route.Roots
	c.Names, err = readInput(f.From("node-names"), f.Files.NodeNames, nodeNames)
	return c, err
}

// nodeNames reads a node-name-map. What OpenSM would make of its lines is shown by the import.
func nodeNames(r io.Reader) (map[ib.GUID]string, error) {
	names, _, err := opensm.Names(r, "node-name-map")
	return names, err
}

// openStore opens the persistent state; without a directory it is in memory.
func (f smFlags) openStore(log *slog.Logger) (store.Store, error) {
	if f.Files.State == "" {
		return store.NewMemory(), nil
	}
	if err := os.MkdirAll(f.Files.State, 0o700); err != nil {
		return nil, fmt.Errorf("%s: %w", f.From("state"), err)
	}
	path := filepath.Join(f.Files.State, boltdb.FileName)
	db, err := boltdb.OpenWith(path, boltdb.Options{WithoutCopy: f.Files.ConvertWithoutCopy})
	if err != nil {
		return nil, err
	}
	switch c := db.Converted(); {
	case c == nil:
	case c.NoCopy != nil:
		log.Warn(fmt.Sprintf("%s was converted from format %d to %d, and no copy of it was kept", path, c.From, c.To), "kind", "store_converted", "error", c.NoCopy)
	default:
		log.Info(fmt.Sprintf("%s was converted from format %d to %d; as it was it is kept as %s, and 'heddle store check %s' says how to go back", path, c.From, c.To, c.Copy, f.Files.State), "kind", "store_converted")
	}
	return db, nil
}

// peekStore loads the state for a plan, without creating, changing or locking
// the file.
func (f smFlags) peekStore() (store.Store, error) {
	m := store.NewMemory()
	if f.Files.State == "" {
		return m, nil
	}
	path := filepath.Join(f.Files.State, boltdb.FileName)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	st, err := boltdb.Read(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w (a plan works without --state: ports that are Active keep their LIDs)", f.From("state"), err)
	}
	return m, m.Apply(st.Ops())
}

func newSM() *cobra.Command {
	f := newSMFlags()
	c := &cobra.Command{
		Use:     "sm --port PORT",
		GroupID: "manage",
		Short:   "Manage a subnet",
		Long: `Runs a subnet manager on a port: discovers the subnet, assigns LIDs, configures
links, computes and proves routes, writes the differences, brings the links to
Active, and then monitors the subnet. Prints SUBNET UP when the subnet is up.

With --once it then releases the port, changes nothing further, and exits.
It exits with 1 if the subnet was not brought up, and with 3 if another manager
is master.

On SIGHUP it reads its configuration file and the files that settings name again,
as 'heddle ctl reload' does, which also says which settings need a restart; an
error in one of them changes nothing. SIGINT or SIGTERM end it; the subnet stays
as it is. With --state a manager alone then leaves what it published last there,
from which the next one answers until it has read the subnet.`,
		Example: `  heddle sm --port umad:mlx5_0/1 --state /var/lib/heddle
  heddle sm --port ibsim:Spine0@my-fabric --once`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			port, once := f.Port, f.Once
			if port == "" {
				return usagef("missing port; give --port umad:DEVICE/PORT or --port ibsim:NODE[@SOCKNAME]")
			}
			cfg, err := f.config("sm")
			if err != nil {
				return err
			}
			tty := newTerminal(cmd)
			l, err := f.openLog(tty)
			if err != nil {
				return err
			}
			defer l.syslog.Close()
			log := l.log
			f.warnSecrets(log)
			if cfg.MKey == 0 && !once {
				log.Warn("no M_Key protects the ports, so any host can change them; set one with --m-key-file", "kind", "open_configuration")
			}
			m := managed{name: port, core: cfg, logging: l, once: once, tty: tty}
			if f.Etcd.Store != "" {
				return f.manageQuorum(cmd, m)
			}
			st, err := f.openStore(log)
			if err != nil {
				return err
			}
			defer st.Close()
			if f.HA.Peer != "" {
				return f.managePair(cmd, m, st)
			}
			a := single(&m, st)
			if j, ok := st.(journal.Store); ok && f.Files.State != "" && !once {
				a.Checkpoints = process.NewCheckpoints(f.Files.State, j, cfg.Prefix, cfg.LMC, log)
			}
			m.authority = a
			return exitStatus(f.manage(cmd, m))
		},
	}
	f.register(c.Flags(), "sm")
	return c
}

// single lets a process manage its subnet alone, on a port whose device may go and return.
func single(m *managed, st store.Store) *process.Single {
	port, log, once := m.name, m.log, m.once
	lost := false
	return &process.Single{
		Open: func(ctx context.Context) (mad.Transport, error) {
			if lost {
				if err := waitForPort(ctx, port); err != nil {
					return nil, err
				}
			}
			return patiently(ctx, port, log)
		},
		Again: func(err error) bool {
			lost = errors.Is(err, daemon.ErrPortLost) && !once && strings.HasPrefix(port, "umad:")
			if lost {
				log.Error("the device is gone; waiting for its return", "port", port, "err", err)
			}
			return lost
		},
		State: st,
	}
}

// patiently opens a port, and again if its simulator does not answer.
func patiently(ctx context.Context, port string, log *slog.Logger) (mad.Transport, error) {
	p, err := openPort(ctx, port)
	for n := 0; n < silentTries && errors.Is(err, ibsim.ErrSilent); n++ {
		log.Warn("the simulator does not answer; trying again", "port", port)
		p, err = openPort(ctx, port)
	}
	return p, err
}

// silentTries is how often the start retries a port whose simulator does not answer.
const silentTries = 3

// exitStatus maps the reasons for a manager's end to exit codes.
func exitStatus(err error) error {
	if errors.Is(err, daemon.ErrStandby) {
		return &exitError{3, err}
	}
	return err
}

// waitForPort returns when the port can be opened again.
func waitForPort(ctx context.Context, port string) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(2 * time.Second):
		}
		if p, err := openPort(ctx, port); err == nil {
			return p.Close()
		}
	}
}

// managed is the environment of a manager.
type managed struct {
	authority process.Authority
	device    mad.Transport // of the ports of mandates; nil: each is one of its own
	events    *eventlog.Log
	history   *ring.Ring // what the subnet looked like; nil: in memory
	name      string     // of the port
	core      sm.Config
	logging
	once   bool
	tty    *terminal
	page   func(url string)      // called with the page's URL; may be nil
	meter  show.Meter            // of links; may be nil
	flight *trace.FlightRecorder // of the last seconds, while it runs
	// with starts what runs beside the manager until ctx ends; may be nil.
	with func(ctx context.Context, p *process.Process) []chan struct{}
	// partner sends the events of the other manager of a pair to targets of webhooks; nil: there is none.
	partner *webhook.Partner
}

// Default of the most SMPs in flight. On a real subnet it is low, because VL15
// has no flow control and an overloaded port drops silently; in a simulation it
// suffices to keep it busy without time-outs.
const (
	windowReal = 32
	windowSim  = 512
)

// suit adapts the configuration to the port: who times the tries, and how many
// SMPs may be in flight.
func suit(c *sm.Config, p mad.Transport) {
	timed, ok := p.(interface{ KeepsTime() bool })
	c.TransportTimed = ok && timed.KeepsTime()
	if c.MaxWindow == 0 {
		c.MaxWindow = windowSim
		if c.TransportTimed {
			c.MaxWindow = windowReal
		}
	}
	if n := p.MaxInFlight(); n > 0 {
		c.MaxWindow = min(c.MaxWindow, n)
	}
}

// spareThreads is how many goroutines may run beyond one for each processor. The one that receives
// spends its time in system calls, and a routing job or a sweep has the processor for up to 10 ms
// at a time: with one goroutine for each of two processors a request then waits for the Go
// scheduler's time slice. With two more the kernel decides, which prefers threads that mostly wait.
// Under five hostile senders on two cores the p99 of an answer inside the manager fell from
// 2 to 5 ms to 0.4 to 0.9 ms.
const spareThreads = 2

// addThreads allows that, unless GOMAXPROCS says otherwise, and returns the number of processors.
var addThreads = sync.OnceValue(func() (processors int) {
	processors = runtime.GOMAXPROCS(0)
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(processors + spareThreads)
	}
	return processors
})

// count has a daemon read counters, and look after congestion control, if it is to.
func (f smFlags) count(cfg *daemon.Config) {
	if !cfg.Once {
		cfg.Congestion = f.Congestion
	}
	if f.Perf.Period > 0 && !cfg.Once {
		cfg.Perf, cfg.DFTree = &f.Perf, f.HotSpots()
	}
}

// manage runs managers with their API until the command's context ends.
func (f smFlags) manage(cmd *cobra.Command, m managed) error {
	slog.SetDefault(m.log) // net/http logs clients with TLS errors; send that to the same log
	out := cmd.OutOrStdout()
	key, err := f.chooseSAKey(m.log)
	if err != nil {
		return err
	}
	groups, err := f.standingGroups()
	if err != nil {
		return err
	}
	audit, err := f.auditLog()
	if err != nil {
		return err
	}
	defer audit.Close()
	defer f.openRings(&m)()
	defer m.openFlight(f.Log.Flight)()
	var up bool
	dumps := f.dumper(m.log)
	defer dumps.close()
	scripts, err := f.opensmFiles(m.log)
	if err != nil {
		return err
	}
	defer scripts.close()
	var dumpErr error
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	hooks, hooksEnd, err := f.startWebhooks(ctx, &m)
	if err != nil {
		return err
	}
	live := &running{flight: m.flight, hooks: hooks, cmd: cmd, log: m.log, level: m.level, limits: api.NewLimits(f.API.Rate), f: f, core: m.core}
	p := process.New(process.Config{
		Authority: m.authority, PortName: m.name, Events: m.events, Audit: audit, Control: live, Log: m.log, Metrics: m.outputs(hooks),
		New: func(mandate *process.Mandate, events *eventlog.Log) (*daemon.Daemon, error) {
			f, core := live.now()
			cfg, err := f.daemon(&m, core, mandate, key)
			if err != nil {
				return nil, err
			}
			cfg.Events, cfg.Groups = events, groups
			cfg.OnPublish = publish(mandate, dumps, scripts)
			cfg.OnState = scripts.entering
			cfg.OnUp = func(s *subnet.Snapshot) {
				scripts.up(s, mandate.Store)
				if dumpErr = dumps.up(s); dumpErr != nil {
					m.log.Error("the dump files could not be written", "err", dumpErr)
				}
				up = true
				if mandate.Up != nil {
					mandate.Up()
				}
				m.tty.clear()
				fmt.Fprintln(out, "SUBNET UP")
			}
			return daemon.New(*cfg), nil
		},
	})
	svc := live.follow(ctx, p)
	servers, err := f.serveAll(ctx, live, m)
	if err != nil {
		return err
	}
	servers = append(servers, hooksEnd, svc.start(ctx, p))
	if m.with != nil {
		servers = append(servers, m.with(ctx, p)...)
	}
	err = p.Run(ctx)
	m.tty.clear()
	if err == nil && m.once && !up {
		err = fmt.Errorf("%w: interrupted", daemon.ErrRefused)
	}
	cancel()
	for _, done := range servers {
		<-done
	}
	return errors.Join(err, dumpErr)
}

// publish is what happens with each snapshot of a mandate's manager.
func publish(mandate *process.Mandate, dumps *dumper, scripts *opensmFiles) func(*subnet.Snapshot) {
	return func(s *subnet.Snapshot) {
		dumps.changed(s)
		scripts.changed(s, mandate.Store)
		if mandate.Published != nil && s.Up {
			mandate.Published(s)
		}
	}
}

// serveAll serves the API and the UFM calls. It returns what closes when a server has ended.
func (f smFlags) serveAll(ctx context.Context, live *running, m managed) ([]chan struct{}, error) {
	servers, err := f.serve(ctx, live, m, m.once && !f.Given("api"))
	if err != nil {
		return nil, err
	}
	ufm, err := f.serveUFM(ctx, live.p, m)
	return slices.Concat(servers, ufm), err
}

// dumper writes the dump files; nil: none are wanted.
func (f smFlags) dumper(log *slog.Logger) *dumper {
	if f.Files.Dump == "" {
		return nil
	}
	return newDumper(f.Files.Dump, func(err error) {
		if err != nil {
			log.Error("dump files could not be written", "err", err)
			return
		}
		log.Debug("dump files are written again", "dir", f.Files.Dump)
	})
}

// daemon is the configuration of the manager of a mandate.
func (f smFlags) daemon(m *managed, core sm.Config, mandate *process.Mandate, saKey uint64) (*daemon.Config, error) {
	suit(&core, cmp.Or(m.device, mandate.Port))
	cfg := &daemon.Config{
		Port: mandate.Port, PortName: m.name, Core: core, Store: mandate.Store, Revoked: mandate.Revoked, Log: m.log, Once: m.once,
		Cores: addThreads(), ClaimWait: f.ClaimWait, Queue: f.Queue, QueuePerRequester: f.QueueEach, Registry: f.Registry, VM: f.VM, Meter: m.meter,
		Progress: m.tty.progress(), Lead: mandate.Lead, Led: mandate.Led, Wall: mandate.Wall, Hints: mandate.Hints, Promises: mandate.Promises, History: m.history,
	}
	if mandate.Warm != nil {
		cfg.Warm, cfg.Float = mandate.Warm()
	}
	if mandate.Configure != nil {
		mandate.Configure(&cfg.Core, &cfg.Registry)
	}
	f.count(cfg)
	if err := f.administer(cfg, mandate.Inherited, saKey, m.log); err != nil {
		return nil, err
	}
	if j, ok := mandate.Store.(journal.Store); ok && !mandate.Inherited {
		// A copy of the state file may go on elsewhere: the two histories differ from here on.
		if err := journal.StartTerm(j, mandate.Port.PortGUID(), time.Now().UnixNano(), "start without a pair"); err != nil {
			m.log.Error("no term of its own begins in the state file; a copy of it is not told from it", "kind", "persist_failed", "err", err)
		}
	}
	return cfg, f.takeOver(mandate.Store, m.log)
}

// standingGroups are the permanent multicast groups of a file.
func (f smFlags) standingGroups() (list []sm.Group, err error) {
	groups, err := readInput(f.From("groups"), f.Files.Groups, readGroups)
	for _, g := range groups {
		list = append(list, sm.Group{
			MGID: g.MGID, MLID: g.MLID, SL: g.SL, PKey: ib.PKeyDefaultFull, MTU: 4, Members: g.Members, Senders: g.Senders,
		})
	}
	return list, err
}
