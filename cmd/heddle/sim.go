package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"heddle/fabric"
	"heddle/ib"
	"heddle/sim"
	"heddle/sim/ibsimd"
	"heddle/sim/live"
	"heddle/sim/umadfs"
)

// simFlags are the properties of a simulated subnet.
type simFlags struct {
	seed       uint64
	hop, sma   time.Duration
	drop       float64
	fdbCap     uint16
	enhanced   bool
	trapGap    time.Duration
	lidsPer    int
	ignoreLIDs bool
	hypers     []string
	traffic    []string
	packets    float64
	carriage   sim.Carriage
}

// noTraffic as a pattern: none.
const noTraffic = "none"

func (f *simFlags) register(fs *pflag.FlagSet) {
	fs.Uint64Var(&f.seed, "seed", 1, "`SEED` of all random choices")
	fs.DurationVar(&f.hop, "latency", 0, "`TIME` a MAD takes over one link")
	fs.DurationVar(&f.sma, "sma-latency", 0, "`TIME` a node takes to process one SMP")
	fs.Float64Var(&f.drop, "drop", 0, "`SHARE` of MADs to lose at every hop, 0 to 1")
	fs.Uint16Var(&f.fdbCap, "linear-fdb-cap", 0, "LinearFDBCap, `LIDS` that a switch's table holds; 0 = 49152")
	fs.BoolVar(&f.enhanced, "enhanced-port0", false, "enhanced port 0 on every switch")
	fs.DurationVar(&f.trapGap, "trap-interval", time.Second, "minimum `TIME` between repetitions of a trap")
	fs.StringSliceVar(&f.hypers, "hypervisors", nil, "make every host a hypervisor: `MODEL,N[,own]`, model shared, vswitch or vport with N functions each; own: VPorts ask for LIDs of their own")
	fs.BoolVar(&f.ignoreLIDs, "ignore-lids", false, "ignore the LIDs of the netlist")
	fs.StringArrayVar(&f.traffic, "traffic", f.traffic, "`PATTERN` of packets that hosts send (see 'heddle traffic'); give it again for another; none = no packets")
	fs.Float64Var(&f.packets, "traffic-rate", cmp.Or(f.packets, sim.PacketsPerSecond), "most packets a second that a pattern makes, all hosts together: `NUMBER`; rates of the pattern are reduced to it")
	fs.Var(carriageFlag{&f.carriage}, "carriage", "use of links by management datagrams: `MODE` lanes (SMPs on VL15, GMPs on data lanes), vl15 (GMPs do not wait for packets), or apart (no shared links)")
	fs.IntVar(&f.lidsPer, "lids-per-port", 0, "preset `N` LIDs for each CA port (a power of two), in port-GUID order; 0 = none")
}

// carriageFlag is the value of --carriage.
type carriageFlag struct{ c *sim.Carriage }

func (v carriageFlag) String() string { return v.c.String() }
func (v carriageFlag) Type() string   { return "WAY" }

func (v carriageFlag) Set(text string) (err error) {
	*v.c, err = sim.ParseCarriage(text)
	return err
}

func (f *simFlags) config() (sim.Config, error) {
	if f.drop >= 1 {
		return sim.Config{}, usagef("--drop %v: want a share from 0 to below 1", f.drop)
	}
	return sim.Config{
		Seed: f.seed, HopLatency: f.hop, SMALatency: f.sma, Drop: f.drop, LinearFDBCap: f.fdbCap,
		EnhancedPort0: f.enhanced, TrapMinInterval: f.trapGap, IgnoreLIDs: f.ignoreLIDs, Carriage: f.carriage,
	}, nil
}

// subnet makes the simulated subnet and runs the netlist's console commands.
func (f *simFlags) subnet(fab *fabric.Fabric, cfg sim.Config, dos []string) (*sim.Subnet, error) {
	if f.lidsPer > 0 {
		if err := fabric.AssignLIDs(fab, f.lidsPer); err != nil {
			return nil, fmt.Errorf("--lids-per-port %d: %w", f.lidsPer, err)
		}
	}
	s, err := sim.New(fab, cfg)
	if err != nil {
		return nil, err
	}
	if err := f.addHypervisors(fab, s); err != nil {
		return nil, err
	}
	for _, p := range f.traffic {
		if p == noTraffic {
			continue
		}
		if f.packets <= 0 {
			return nil, usagef("--traffic-rate %v: want more than 0; '--traffic none' sends nothing", f.packets)
		}
		if _, err := s.StartTraffic(p, f.seed, f.packets); err != nil {
			return nil, usagef("--traffic %s: %v", p, err)
		}
	}
	for _, line := range dos {
		if _, err := s.Exec(line); err != nil {
			return nil, &exitError{2, fmt.Errorf("the netlist's command 'do %s': %w", line, err)}
		}
	}
	return s, nil
}

// addHypervisors adds virtual functions to every connected port of a CA.
func (f *simFlags) addHypervisors(fab *fabric.Fabric, s *sim.Subnet) error {
	if len(f.hypers) == 0 {
		return nil
	}
	usage := usagef("--hypervisors %q: want MODEL,N[,own], such as vswitch,16", strings.Join(f.hypers, ","))
	if len(f.hypers) < 2 || len(f.hypers) > 3 || len(f.hypers) == 3 && f.hypers[2] != "own" {
		return usage
	}
	model, err := sim.ParseModel(f.hypers[0])
	if err != nil {
		return usage
	}
	n, err := strconv.Atoi(f.hypers[1])
	if err != nil {
		return usage
	}
	h := sim.Hypervisor{Model: model, VFs: n, OwnLIDs: len(f.hypers) == 3}
	for i := range fab.Nodes {
		node := &fab.Nodes[i]
		if node.Type != ib.NodeCA {
			continue
		}
		for p := 1; p <= node.NumPorts; p++ {
			if node.Ports[p].Peer == fabric.NoRef() {
				continue
			}
			if err := s.AddHypervisor(node.ID, p, h); err != nil {
				return &exitError{2, fmt.Errorf("--hypervisors: %w", err)}
			}
		}
	}
	return nil
}

func newSim() *cobra.Command {
	var n netlistFlags
	var f simFlags
	var o simServer
	c := &cobra.Command{
		Use:     "sim --netlist FILE --socket NAME",
		GroupID: "sim",
		Short:   "Simulate a subnet for real tools",
		Long: `Simulates the fabric of a netlist and serves it to programs on this machine:

  ibsim's protocol    IBSIM_SOCKNAME=NAME SIM_HOST=NODE ibsim-run COMMAND
                      (also on UDP loopback with --udp PORT)
  user-MAD devices    heddle attach NODE@NAME -- COMMAND
  heddle itself       heddle sm --port ibsim:NODE@NAME

Prints READY when clients can attach. Reads console commands from standard input,
one a line ('help' lists them: link down, node up, drop, dump …), and continues
when the input ends.`,
		Example: `  heddle topo gen fattree 648 > tree.net
  heddle sim --netlist tree.net --socket tree`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.name == "" {
				return usagef("missing name; give --socket NAME; clients set IBSIM_SOCKNAME=NAME")
			}
			if n.netlist == "-" {
				return usagef("--netlist -: standard input is used by the console; give a file")
			}
			cfg, err := f.config()
			if err != nil {
				return err
			}
			if err := o.guests.check(f.seed); err != nil {
				return err
			}
			fab, dos, err := n.read(nil)
			if err != nil {
				return err
			}
			s, err := f.subnet(fab, cfg, dos)
			if err != nil {
				return err
			}
			return o.serve(cmd, s)
		},
	}
	n.register(c.Flags())
	f.register(c.Flags())
	o.guests.register(c.Flags())
	c.Flags().StringVar(&o.manager, "manager", "", "let the manager whose API is at `ADDR` start and migrate VMs on the hypervisors of --hypervisors: HOST:PORT, unix:PATH, or auto (that of this user's daemon); default: only console commands do")
	c.Flags().StringVar(&o.name, "socket", "", "`NAME` of the sockets, as IBSIM_SOCKNAME")
	c.Flags().IntVar(&o.udp, "udp", 0, "serve ibsim's remote protocol too, on this UDP `PORT` of loopback (and the following ones)")
	c.Flags().BoolVar(&o.quiet, "no-console", false, "do not read standard input")
	return c
}

// simServer serves a simulated subnet.
type simServer struct {
	name    string
	udp     int
	quiet   bool
	manager string
	guests  guestFlags
}

func (o *simServer) serve(cmd *cobra.Command, s *sim.Subnet) error {
	d := live.New(s)
	defer d.Close()
	ctx, cancel := context.WithCancel(cmd.Context())
	if o.manager != "" {
		h, err := newSimHypervisors(d.Do, o.guests.cfg)
		if err != nil {
			cancel()
			return err
		}
		log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
		done := drive(ctx, h, findManager(o.manager), "sim "+o.name, log)
		defer func() { <-done }()
	}
	defer cancel()
	srv, err := ibsimd.Listen(d, ibsimd.Options{SockName: o.name, UDPPort: o.udp})
	if err != nil {
		return err
	}
	defer srv.Close()
	um, err := umadfs.Listen(d, o.name)
	if err != nil {
		return err
	}
	defer um.Close()
	fmt.Fprintln(cmd.OutOrStdout(), "READY")
	if !o.quiet {
		go console(cmd.InOrStdin(), cmd.OutOrStdout(), d, cancel)
	}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ctx) }()
	select {
	case <-ctx.Done():
		srv.Close()
		<-done
		return nil
	case err := <-done:
		return err
	}
}

// maxConsoleLine bounds a console command, in bytes.
const maxConsoleLine = 4096

// console executes commands until the input ends or a command quits.
func console(in io.Reader, out io.Writer, d *live.Driver, quit func()) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxConsoleLine)
	for lines.Scan() {
		var reply string
		var err error
		d.Do(func(s *sim.Subnet) { reply, err = s.Exec(lines.Text()) })
		if errors.Is(err, sim.ErrQuit) {
			quit()
			return
		}
		if err != nil {
			fmt.Fprintf(out, "error: %v\n", err)
			continue
		}
		if reply != "" {
			fmt.Fprintln(out, reply)
		}
	}
	if err := lines.Err(); err != nil {
		fmt.Fprintf(out, "error: console: %v; no further commands are read\n", err)
	}
}
