package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"heddle/daemon"
	"heddle/ib"
	"heddle/mad"
	"heddle/sm"
	"heddle/store"
	"heddle/subnet"
	"heddle/transport/ibsim"
)

// smFlags are the settings of a manager, shared by sm, up and plan.
type smFlags struct {
	engines     engineFlags
	allowUnsafe bool
	priority    uint8
	smKey       string
	mkey        string
	mkeyLease   uint16
	mkeyProtect uint8
	prefix      string
	lmc         uint8
	mtu         int
	maxVLs      int
	timeout     time.Duration
	retries     int
	window      int
	sweep       time.Duration
	poll        time.Duration
	pollRetries int
	transition  string
	enforce     string
	groups      string
	admin       adminFlags
	vms         vmFlags
	dampHold    int
	dampQuiet   time.Duration
	repath      time.Duration
	logLevel    string
	logFormat   string

	state     string
	dump      string
	api       string
	apiSocket string
	apiHosts  []string
	tokenFile string
	tlsCert   string
	tlsKey    string
	readToken string
}

func (f *smFlags) register(fs *pflag.FlagSet) {
	f.engines.register(fs)
	fs.BoolVar(&f.allowUnsafe, "allow-unsafe", false, "install the tables of a named engine even if they do not verify (may deadlock)")
	fs.Uint8Var(&f.priority, "priority", 0, "priority of this manager, `0-15`; the highest becomes master")
	fs.StringVar(&f.smKey, "sm-key", "1", "SM_Key, a 64-bit `KEY` shared by the managers of the subnet (OpenSM has 1 too)")
	fs.StringVar(&f.mkey, "m-key", "0", "M_Key, a 64-bit `KEY` to protect every port with; 0 for none")
	fs.Uint16Var(&f.mkeyLease, "m-key-lease", 0, "M_Key lease in `SECONDS`; 0 = it never expires")
	fs.Uint8Var(&f.mkeyProtect, "m-key-protect", 0, "M_Key protection bits, `0-3`")
	fs.StringVar(&f.prefix, "subnet-prefix", "0xfe80000000000000", "subnet `PREFIX` of the GIDs, 64 bits")
	fs.Uint8Var(&f.lmc, "lmc", 0, "LMC of CA ports, `0-7`: 2^LMC LIDs for each")
	fs.IntVar(&f.mtu, "max-mtu", 4096, "largest MTU to set on links, in `BYTES`: 256, 512, 1024, 2048 or 4096")
	fs.IntVar(&f.maxVLs, "max-vls", 8, "`MOST` data lanes to use on a link: 1, 2, 4, 8 or 15")
	fs.DurationVar(&f.timeout, "smp-timeout", 200*time.Millisecond, "`TIME` that one try of an SMP waits for its answer")
	fs.IntVar(&f.retries, "smp-retries", 3, "`TRIES` after the first")
	fs.IntVar(&f.window, "window", 0, "`MOST` SMPs in flight; 0 = 32 on a device, 512 in a simulation, less if the port takes less")
	fs.DurationVar(&f.sweep, "sweep-interval", 10*time.Second, "`TIME` between light sweeps; 0 = none")
	fs.DurationVar(&f.poll, "poll-interval", 10*time.Second, "`TIME` between a standby's questions whether the master lives")
	fs.IntVar(&f.pollRetries, "poll-retries", 4, "unanswered `POLLS` after which the master is taken for dead")
	fs.StringVar(&f.transition, "transition", "availability", "`HOW` tables change: availability, strict, discard, static, or static2003 (takes all links down: experiments only)")
	fs.StringVar(&f.enforce, "part-enforce", "both", "`WHERE` switches drop packets of partitions that the host behind a port is not in: both, in (what it sends), out (what it is sent) or off")
	fs.StringVar(&f.groups, "groups", "", groupsHelp)
	f.admin.register(fs)
	f.vms.register(fs)
	fs.IntVar(&f.dampHold, "damp-failures", 8, "`FAILURES` of a link in a row after which it is held down; 0 = never")
	fs.DurationVar(&f.dampQuiet, "damp-quiet", time.Minute, "`TIME` that a link held down must be quiet before it is let back in")
	fs.DurationVar(&f.repath, "repath-time", 30*time.Second, "`TIME` that hosts are given to use a new service level, where a change of tables needs it")
	f.logging(fs)
	fs.StringVar(&f.state, "state", "", "`DIR` for what survives a restart (LIDs, M_Keys, the SA key, partitions, multicast groups, services, subscriptions, alias GUIDs, interfaces of VMs); default: nothing is kept")
	fs.StringVar(&f.dump, "dump", "", "`DIR` to write OpenSM-style dump files to, when the subnet is up and when routes change")
	fs.StringVar(&f.api, "api", defaultAPI, "`ADDR` of the API and the page; empty for none")
	fs.StringVar(&f.apiSocket, "api-socket", "", "Unix socket `PATH` for the API, for its owner alone; may write without a token")
	fs.StringSliceVar(&f.apiHosts, "api-host", nil, "further `NAME` under which clients may address the API")
	fs.StringVar(&f.tokenFile, "token-file", "", "`FILE` to write the API's token to (default: in the runtime directory of this user)")
	fs.StringVar(&f.tlsCert, "api-tls-cert", "", "certificate `FILE`, needed for an address that is not loopback")
	fs.StringVar(&f.tlsKey, "api-tls-key", "", "its key `FILE`")
	fs.StringVar(&f.readToken, "api-read-token-file", "", "`FILE` with a token that reading needs; needed for an address that is not loopback")
}

func (f *smFlags) logging(fs *pflag.FlagSet) {
	fs.StringVar(&f.logLevel, "log-level", "info", "`LEVEL` from which to log: debug, info, warn or error")
	fs.StringVar(&f.logFormat, "log-format", "text", "`FORM` of the log: text or json")
}

// logger writes to w as the flags say.
func (f *smFlags) logger(w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.logLevel)); err != nil {
		return nil, usagef("--log-level %q: want debug, info, warn or error", f.logLevel)
	}
	o := &slog.HandlerOptions{Level: level}
	switch f.logFormat {
	case "text":
		return slog.New(slog.NewTextHandler(w, o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, o)), nil
	}
	return nil, usagef("--log-format %q: want text or json", f.logFormat)
}

func (f *smFlags) config() (c sm.Config, err error) {
	c = sm.Defaults()
	c.MaxWindow = 0 // as the port takes, if no flag says
	if c.Engines, c.Explicit, err = f.engines.chain(); err != nil {
		return c, err
	}
	if c.Route, err = f.engines.options(); err != nil {
		return c, err
	}
	c.Roots = c.Route.Roots
	if c.SMKey, err = strconv.ParseUint(f.smKey, 0, 64); err != nil {
		return c, usagef("--sm-key %q: want a 64-bit number", f.smKey)
	}
	key, err := strconv.ParseUint(f.mkey, 0, 64)
	if err != nil {
		return c, usagef("--m-key: want a 64-bit number")
	}
	prefix, err := strconv.ParseUint(f.prefix, 0, 64)
	if err != nil {
		return c, usagef("--subnet-prefix %q: want a 64-bit number", f.prefix)
	}
	c.MKey, c.MKeyLease, c.MKeyProtect = ib.MKey(key), f.mkeyLease, f.mkeyProtect
	c.Prefix = ib.SubnetPrefix(prefix)
	c.AllowUnsafe = f.allowUnsafe
	c.Priority, c.LMC = f.priority, f.lmc
	switch {
	case f.priority > 15:
		return c, usagef("--priority %d: want 0 to 15", f.priority)
	case f.lmc > 7:
		return c, usagef("--lmc %d: want 0 to 7", f.lmc)
	case f.mkeyProtect > 3:
		return c, usagef("--m-key-protect %d: want 0 to 3", f.mkeyProtect)
	case f.timeout <= 0, f.retries < 0, f.window < 0:
		return c, usagef("--smp-timeout must be positive, --smp-retries and --window not negative")
	case f.poll <= 0, f.pollRetries < 1:
		return c, usagef("--poll-interval and --poll-retries must be positive")
	}
	if c.MaxMTU = ib.MTUOf(f.mtu); c.MaxMTU == 0 {
		return c, usagef("--max-mtu %d: want 256, 512, 1024, 2048 or 4096", f.mtu)
	}
	c.MaxOpVLs = 0
	for code := uint8(1); code <= 5; code++ {
		if ib.VLsOf(code) == f.maxVLs {
			c.MaxOpVLs = code
		}
	}
	if c.MaxOpVLs == 0 {
		return c, usagef("--max-vls %d: want 1, 2, 4, 8 or 15", f.maxVLs)
	}
	c.SMPTimeout, c.SMPRetries = f.timeout, f.retries
	if f.window > 0 {
		c.MaxWindow = f.window
		c.Window = min(4, f.window)
	}
	c.SweepInterval = max(f.sweep, 0)
	if c.RepathTime = f.repath; f.repath <= 0 {
		return c, usagef("--repath-time must be positive")
	}
	if f.dampHold < 0 || f.dampQuiet <= 0 {
		return c, usagef("--damp-failures must not be negative, --damp-quiet must be positive")
	}
	c.DampHold, c.DampQuiet = f.dampHold, f.dampQuiet
	c.PollInterval, c.PollRetries = f.poll, f.pollRetries
	modes := map[string]sm.Transition{
		"availability": sm.TransitionAvailability, "strict": sm.TransitionStrict, "discard": sm.TransitionDiscard,
		"static": sm.TransitionStatic, "static2003": sm.TransitionStatic2003,
	}
	mode, ok := modes[f.transition]
	if !ok {
		return c, usagef("--transition %q: want availability, strict, discard, static or static2003", f.transition)
	}
	c.Transition = mode
	places := map[string]sm.Enforce{"both": sm.EnforceBoth, "in": sm.EnforceIn, "out": sm.EnforceOut, "off": sm.EnforceOff}
	if c.PartEnforce, ok = places[f.enforce]; !ok {
		return c, usagef("--part-enforce %q: want both, in, out or off", f.enforce)
	}
	if err := f.vms.core(&c); err != nil {
		return c, err
	}
	return c, f.admin.check()
}

// openStore opens what survives a restart; without a directory it lives in
// memory.
func (f *smFlags) openStore() (store.Store, error) {
	if f.state == "" {
		return store.NewMemory(), nil
	}
	if err := os.MkdirAll(f.state, 0o700); err != nil {
		return nil, fmt.Errorf("--state: %w", err)
	}
	return store.Open(filepath.Join(f.state, store.FileName))
}

// peekStore is the state in memory as a plan reads it: nothing is made, kept
// or held.
func (f *smFlags) peekStore() (store.Store, error) {
	m := store.NewMemory()
	if f.state == "" {
		return m, nil
	}
	path := filepath.Join(f.state, store.FileName)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	st, err := store.Read(path)
	if err != nil {
		return nil, fmt.Errorf("--state: %w (a plan can do without: ports that are Active keep their LIDs)", err)
	}
	return m, m.Apply(st.Ops())
}

func newSM() *cobra.Command {
	var f smFlags
	var port string
	var once bool
	c := &cobra.Command{
		Use:     "sm --port PORT",
		GroupID: "manage",
		Short:   "Manage a subnet",
		Long: `Runs a subnet manager on a port: discovers the subnet, gives out LIDs, sets up
links, computes and proves routes, writes what differs, brings the links to
Active, and then watches. Prints SUBNET UP when the subnet is up.

With --once it then lets go of the subnet, leaving all as it is, and exits.
It exits with 1 if the subnet was not brought up, and with 3 if another manager
is master.

SIGHUP has the files of --partitions, --qos-policy and --prefix-routes read
again; with an error in one of them nothing changes. SIGINT or SIGTERM end it;
the subnet stays as it is.`,
		Example: `  heddle sm --port umad:mlx5_0/1 --state /var/lib/heddle
  heddle sm --port ibsim:Spine0@my-fabric --once`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if port == "" {
				return usagef("which port? Give --port umad:DEVICE/PORT or --port ibsim:NODE[@SOCKNAME]")
			}
			cfg, err := f.config()
			if err != nil {
				return err
			}
			tty := newTerminal(cmd)
			log, err := f.logger(tty)
			if err != nil {
				return err
			}
			if cfg.MKey == 0 && !once {
				log.Warn("no M_Key protects the ports, so any host can change them; --m-key gives one", "kind", "open_configuration")
			}
			st, err := f.openStore()
			if err != nil {
				return err
			}
			defer st.Close()
			for {
				p, err := openPort(cmd.Context(), port)
				for n := 0; n < silentTries && errors.Is(err, ibsim.ErrSilent); n++ {
					log.Warn("the simulator does not answer; trying again", "port", port)
					p, err = openPort(cmd.Context(), port)
				}
				if err != nil {
					return err
				}
				err = f.manage(cmd, managed{port: p, name: port, core: cfg, store: st, log: log, once: once, tty: tty})
				if !errors.Is(err, daemon.ErrPortLost) || once || !strings.HasPrefix(port, "umad:") {
					return exitStatus(err)
				}
				log.Error("the device is gone; waiting for it to come back", "port", port, "err", err)
				if err := waitForPort(cmd.Context(), port); err != nil {
					return err
				}
			}
		},
	}
	c.Flags().StringVar(&port, "port", "", portHelp)
	c.Flags().BoolVar(&once, "once", false, "bring the subnet up, let go of it and exit")
	f.register(c.Flags())
	return c
}

// silentTries is how often a port is opened again whose simulator is there and does not answer.
const silentTries = 3

// exitStatus maps the ways in which a manager ends to exit codes.
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

// managed is what a manager runs on.
type managed struct {
	port  mad.Transport
	name  string
	core  sm.Config
	store store.Store
	log   *slog.Logger
	once  bool
	tty   *terminal
	page  func(url string) // told where the page is; may be nil
}

// Most SMPs in flight where the user does not say: on a real subnet little,
// as VL15 has no flow control and a port that is swamped drops in silence; in
// a simulation what keeps it busy without time-outs.
const (
	windowReal = 32
	windowSim  = 512
)

// suit fits the core to the port: who keeps the time of a try, and how many
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

// manage runs a daemon with its API until the command's context ends.
func (f *smFlags) manage(cmd *cobra.Command, m managed) error {
	defer m.port.Close()
	suit(&m.core, m.port)
	slog.SetDefault(m.log) // net/http tells of clients that fail to speak TLS; that goes to the log too
	out := cmd.OutOrStdout()
	cfg := daemon.Config{
		Port: m.port, PortName: m.name, Core: m.core, Store: m.store, Log: m.log, Once: m.once,
	}
	if err := f.admin.configure(&cfg, f.state, m.log); err != nil {
		return err
	}
	if err := f.admin.takeOver(m.store, m.log); err != nil {
		return err
	}
	if err := f.vms.configure(&cfg); err != nil {
		return err
	}
	groups, err := readInput("--groups", f.groups, readGroups)
	if err != nil {
		return err
	}
	for _, g := range groups {
		cfg.Groups = append(cfg.Groups, sm.Group{
			MGID: g.MGID, MLID: g.MLID, SL: g.SL, PKey: ib.PKeyDefaultFull, MTU: 4, Members: g.Members, Senders: g.Senders,
		})
	}
	var dumpErr error
	var up bool
	var dumps *dumper
	if f.dump != "" {
		dumps = newDumper(f.dump, func(err error) {
			if err != nil {
				m.log.Error("the dump files could not be written", "err", err)
				return
			}
			m.log.Debug("the dump files are written again", "dir", f.dump)
		})
		defer dumps.close()
		cfg.OnPublish = dumps.changed
	}
	cfg.OnUp = func(s *subnet.Snapshot) {
		if dumps != nil {
			if dumpErr = dumps.up(s); dumpErr != nil {
				m.log.Error("the dump files could not be written", "err", dumpErr)
			}
		}
		up = true
		m.tty.clear()
		fmt.Fprintln(out, "SUBNET UP")
	}
	cfg.Progress = m.tty.progress()
	d := daemon.New(cfg)
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	f.admin.reloadOnHangup(ctx, d, m.log)
	servers, err := f.serve(ctx, d, m, m.once && !cmd.Flags().Changed("api"))
	if err != nil {
		return err
	}
	ufm, err := f.vms.serveUFM(ctx, d, m)
	if err != nil {
		return err
	}
	servers = append(servers, ufm...)
	err = d.Run(ctx)
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
