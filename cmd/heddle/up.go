package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"heddle/daemon/process"
	"heddle/fabric"
	"heddle/ib"
	"heddle/mad"
	"heddle/sim/ibsimd"
	simlive "heddle/sim/live"
	"heddle/sim/umadfs"
	"heddle/transport/rmpp"
)

// upFlags are the flags of 'heddle up'.
type upFlags struct {
	smFlags
	sim          simFlags
	netlist      netlistFlags
	topo         []string
	node, socket string
	guests       guestFlags
	vms          string
	pair         bool
}

// gentle is how many packets a second hosts send by default, so that counters move.
const gentle = 2000

func newUp() *cobra.Command {
	f := upFlags{smFlags: newSMFlags()}
	f.sim.traffic, f.sim.packets = []string{"random"}, gentle
	f.SetDefault("perf", "10s")
	c := &cobra.Command{
		Use:     "up",
		GroupID: "sim",
		Short:   "A simulated subnet with its manager, API and status page, in one process",
		Long: `Simulates a fat tree of 648 hosts (or the fabric of --topo or --netlist), manages
it, and serves the API and the status page on 127.0.0.1:7480. Prints SUBNET UP.

Hosts send some packets, so that counters increase (--traffic). Real tools can attach to
the simulated subnet while it runs, by ibsim-run and 'heddle attach', under the
name of --socket. Commands on standard input take links and nodes down and up
('help' lists them).

With --pair two managers share their state, with a page each, at --api and at the
next port. After 'kill -9' of one the other takes over; the killed one is restarted
after 5 s (docs/ha.md).`,
		Example: `  heddle up
  heddle up --topo torus,8x8 --engine updn
  echo 'node down "S-1-3"' | heddle up --netlist tree.net`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	c.Flags().StringSliceVar(&f.topo, "topo", []string{"fattree", "648"}, "fabric, with the arguments of 'heddle topo gen': `KIND,PARAM...`")
	c.Flags().StringVar(&f.node, "node", "", "`NODE` that runs the manager, by netlist id or description (default: the first)")
	c.Flags().StringVar(&f.socket, "socket", "heddle-up", "`NAME` of the subnet for tools")
	f.netlist.register(c.Flags())
	f.sim.register(c.Flags())
	f.guests.register(c.Flags())
	c.Flags().StringVar(&f.vms, "vms", "driver", "control of the VMs on the hypervisors of --hypervisors: `MODE` driver (by 'heddle ctl vm'), or console (by console commands only)")
	c.Flags().BoolVar(&f.pair, "pair", false, "two managers that share their state, as separate processes, on --node and the next host: kill one, and the other takes over")
	f.register(c.Flags(), "up")
	return c
}

// check refuses flags that do not go together.
func (f *upFlags) check() error {
	switch {
	case f.vms != "driver" && f.vms != "console":
		return usagef("--vms %q: want driver or console", f.vms)
	case f.pair && len(f.sim.hypers) > 0 && f.vms == "driver":
		return usagef("--pair: the driver of hypervisors works with one manager; add --vms console")
	case f.netlist.netlist == "-":
		return usagef("--netlist -: standard input is used by the console; give a file")
	}
	return f.guests.check(f.sim.seed)
}

func (f *upFlags) run(cmd *cobra.Command) error {
	cfg, err := f.config("up")
	if err != nil {
		return err
	}
	simCfg, err := f.sim.config()
	if err != nil {
		return err
	}
	if err := f.check(); err != nil {
		return err
	}
	var fab *fabric.Fabric
	var dos []string
	if f.netlist.netlist != "" {
		fab, dos, err = f.netlist.read(nil)
	} else if len(f.topo) > 0 {
		fab, err = generate(f.topo[0], f.topo[1:], f.sim.seed)
	}
	if err != nil {
		return err
	}
	tty := newTerminal(cmd)
	l, err := f.openLog(tty)
	if err != nil {
		return err
	}
	defer l.syslog.Close()
	f.warnSecrets(l.log)
	if fab.Count(ib.NodeCA) < 2 && !cmd.Flags().Changed("traffic") {
		f.sim.traffic = nil // nobody to send to
	}
	s, err := f.sim.subnet(fab, simCfg, dos)
	if err != nil {
		return err
	}
	d := simlive.New(s)
	defer d.Close()
	srv, err := ibsimd.Listen(d, ibsimd.Options{SockName: f.socket})
	if err != nil {
		return err
	}
	defer srv.Close()
	go srv.Serve(context.WithoutCancel(cmd.Context())) // until Close: managers end before it
	um, err := umadfs.Listen(d, f.socket)
	if err != nil {
		return err
	}
	defer um.Close()
	ctx, cancel := cancelable(cmd)
	defer cancel()
	if f.pair {
		go console(cmd.InOrStdin(), cmd.OutOrStdout(), d, cancel)
		return f.managePair(ctx, d, fab, cmd.OutOrStdout())
	}
	st, err := f.openStore(l.log)
	if err != nil {
		return err
	}
	defer st.Close()
	port, err := d.Port(f.node)
	if err != nil {
		return err
	}
	go console(cmd.InOrStdin(), cmd.OutOrStdout(), d, cancel)
	name := portName(port, fab)
	fmt.Fprintf(tty, "tools: IBSIM_SOCKNAME=%s ibsim-run ibnetdiscover, or heddle attach %s@%s -- saquery NR\n", f.socket, name, f.socket)
	page := func(url string) { fmt.Fprintf(tty, "page:  %s\n", url) }
	cmd.SetContext(ctx)
	with, err := f.driver(d, l.log)
	if err != nil {
		return err
	}
	return f.manage(cmd, managed{
		with:      with,
		authority: &process.Single{Open: func(context.Context) (mad.Transport, error) { return rmpp.Over(port), nil }, State: st},
		name:      "sim:" + name, page: page, core: cfg, logging: l, tty: tty,
		meter: newSimMeter(d.Do, fab),
	})
}

// driver prepares a driver for the hypervisors of the simulated subnet, if there are any.
func (f *upFlags) driver(d *simlive.Driver, log *slog.Logger) (with func(context.Context, *process.Process) []chan struct{}, err error) {
	if len(f.sim.hypers) == 0 || f.vms != "driver" {
		return nil, nil
	}
	h, err := newSimHypervisors(d.Do, f.guests.cfg)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, p *process.Process) []chan struct{} {
		find, served := inside(ctx, p, log)
		return []chan struct{}{served, drive(ctx, h, find, "up", log)}
	}, nil
}
