package experiment

import (
	"fmt"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/lab"
	"heddle/report"
	"heddle/sa"
	"heddle/sim"
	"heddle/sm"
	"heddle/vm"
)

// VMSignalling repeats Paper VI of W. L. Guay's thesis (2014): peers learn that a VM's GUID has
// another LID. The manager, its SA, the placements and the datagrams of the SA are the real ones;
// hypervisors, IPoIB and TCP are simulated.
func VMSignalling(o Options) (*report.Report, error) {
	if len(o.Sizes) > 0 {
		return nil, fmt.Errorf("the figures have three servers; sizes have no meaning")
	}
	return vmSignalling(o, vmScale{
		before: [2]time.Duration{21 * time.Second, 17 * time.Second}, after: [2]time.Duration{39 * time.Second, 18 * time.Second},
		lifetime: 30 * time.Second, rate: 1, sizes: [][2]int{{4, 2}, {8, 4}, {16, 8}, {32, 4}},
	})
}

// vmScale is the size of a run.
type vmScale struct {
	before, after [2]time.Duration // the migration, of Figures 5 and 7
	lifetime      time.Duration    // of paths, in the runs that have one
	rate          int64            // rates are divided by this
	sizes         [][2]int         // servers and VMs of each, for the counts
}

// Inputs that are not simulated.
const (
	vmHotPlug   = 4 * time.Second // from the detach of a function to its attach at the destination
	vmStream    = 8e9             // bits/s of one IPoIB connection of a VM
	vmServer    = 19e9            // of a server
	vmEther     = 8.3e9           // of one connection on a function of the 10GbE adapter
	vmCPU       = 0.15            // ns of the processor for a byte
	vmStep      = 500 * time.Millisecond
	vmSpread    = 400 * time.Millisecond // of the hot plug, among runs
	vmSubscribe = 4096 * time.Nanosecond << 16
)

// vmResults are the measurements of one report.
type vmResults struct {
	seed  uint64
	scale vmScale
	fig5  []vmMove
	pairs []vmPair
	fig7  vmFour
	lost  []vmMove
	count []vmCount
}

// vmPair is the same migration on InfiniBand and on Ethernet.
type vmPair struct {
	hotPlug   time.Duration
	ib, ether vmMove
}

func vmSignalling(o Options, k vmScale) (*report.Report, error) {
	r := &vmResults{seed: o.Seed, scale: k}
	for i := range vmWays {
		o.say("Figure 5: %s", vmWays[i].name)
		m, err := vmWays[i].run(o.Seed, k, vmHotPlug)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", vmWays[i].name, err)
		}
		r.fig5 = append(r.fig5, m)
	}
	runs := o.Runs
	if runs == 0 {
		runs = 5
	}
	short := k
	short.before[0], short.after[0], short.rate = 2*time.Second, 16*time.Second, 10*k.rate
	for i := range runs {
		o.say("InfiniBand and Ethernet, run %d of %d", i+1, runs)
		p := vmPair{hotPlug: vmHotPlug + drawn(o.Seed+uint64(i), vmSpread) - vmSpread/2}
		var err error
		if p.ib, err = vmWays[vmNotice].run(o.Seed+uint64(i), short, p.hotPlug); err != nil {
			return nil, err
		}
		if p.ether, err = runEther(short, p.hotPlug); err != nil {
			return nil, err
		}
		r.pairs = append(r.pairs, p)
	}
	o.say("Figure 7")
	var err error
	if r.fig7, err = runFour(o.Seed, k); err != nil {
		return nil, err
	}
	for lost := range 5 {
		o.say("%d Reports lost", lost)
		w := vmWays[vmNotice]
		w.lost = lost
		m, err := w.run(o.Seed, short, vmHotPlug)
		if err != nil {
			return nil, err
		}
		r.lost = append(r.lost, m)
	}
	for _, size := range k.sizes {
		for _, w := range vmCounted {
			o.say("%d servers with %d VMs each, %s", size[0], size[1], w.name)
			c, err := w.run(o.Seed, size[0], size[1])
			if err != nil {
				return nil, fmt.Errorf("%d servers, %s: %w", size[0], w.name, err)
			}
			r.count = append(r.count, c)
		}
	}
	return r.report(), nil
}

// vmManager is the manager's configuration: the product's.
func vmManager() sm.Config {
	c := lab.DefaultConfig()
	c.SweepInterval = 0 // nothing goes on but what is counted
	return c
}

// newVMNet brings up servers on one switch, with a manager at a port of its own.
func newVMNet(servers int, cfg lab.IPConfig, manager sm.Config, signal sa.Signal, seed uint64) (*lab.IPNet, error) {
	f, nodes, err := vmStar(servers)
	if err != nil {
		return nil, err
	}
	c, err := lab.NewCluster(f, sim.Config{Seed: seed, HopLatency: hopLatency, SMALatency: smaLatency})
	if err != nil {
		return nil, err
	}
	m, err := c.Attach("M", manager, nil)
	if err != nil {
		return nil, err
	}
	n, err := lab.NewIPNet(c, m, cfg, nodes...)
	if err != nil {
		return nil, err
	}
	conf := sa.Defaults()
	conf.Signal = signal
	m.ServeSA(conf, sa.Options{})
	m.ServeVMs(vm.Defaults())
	if err := m.Start(); err != nil {
		return nil, err
	}
	if err := c.RunUntil(settle, func() bool { return m.Up() && m.Idle() }); err != nil {
		return nil, err
	}
	m.JobTime = lab.LoadedJob
	c.Run(vmSettle)
	return n, nil
}

// vmSettle is how long a bed is left alone before it is used.
const vmSettle = 2 * time.Second

// vmStar is the star of the test bed: servers A, B, C … at one switch.
func vmStar(servers int) (*fabric.Fabric, []string, error) {
	b := &fabric.Builder{Width: ib.Width4x, Speed: ib.SpeedQDR}
	sw := b.AddSwitch("S1", servers+1)
	b.Connect(sw, servers+1, b.AddCA("M", 1), 1)
	var nodes []string
	for i := range servers {
		name := fmt.Sprintf("H%d", i+1)
		if servers <= 26 {
			name = "server " + string(rune('A'+i))
		}
		b.Connect(sw, i+1, b.AddCA(name, 1), 1)
		nodes = append(nodes, name)
	}
	f, err := b.Build()
	return f, nodes, err
}
